//! What streams do when their connection breaks.

use std::time::{Duration, Instant};

use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Code, Status};
use tree_agent_runtime::retry::backoff_within;

use super::{Client, root_cause};
use crate::error::{CliError, is_transient};

/// The longest pause before a stream is opened again.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// When a connection counts as lost, and how often to try again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// Silence after which the connection counts as lost. The server sends something every 10 s.
    pub(crate) silence: Duration,
    /// The pause before the first retry; it doubles with each, up to 5 s.
    pub(crate) backoff: Duration,
    /// How long to keep trying without one message from the server.
    pub(crate) give_up_after: Duration,
    /// How long to wait for a new token in the token file when the old one has expired.
    pub(crate) token_patience: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            silence: Duration::from_secs(25),
            backoff: Duration::from_millis(200),
            give_up_after: Duration::from_secs(300),
            token_patience: Duration::from_secs(10),
        }
    }
}

/// The retries of one stream.
#[derive(Debug)]
pub(crate) struct Retries {
    policy: Policy,
    failures: u32,
    /// When the server last sent something.
    heard: Instant,
    /// The token that the last call carried.
    token: Option<MetadataValue<Ascii>>,
}

impl Retries {
    /// None so far.
    pub(crate) fn new(policy: Policy) -> Self {
        Self { policy, failures: 0, heard: Instant::now(), token: None }
    }

    /// Opens a stream and waits for the answer; an error says why that failed.
    pub(crate) async fn open<T>(
        &mut self,
        client: &Client,
        call: impl Future<Output = Result<tonic::Response<T>, Status>>,
    ) -> Result<T, Broken> {
        self.token = client.token();
        match tokio::time::timeout(self.policy.silence, call).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(Broken::Status(status)),
            Err(_) => Err(Broken::Silent("the server does not answer".into())),
        }
    }

    /// Waits for the next message of a stream; none at its end.
    pub(crate) async fn message<T>(&mut self, stream: &mut tonic::Streaming<T>) -> Result<Option<T>, Broken> {
        match tokio::time::timeout(self.policy.silence, stream.message()).await {
            Ok(Ok(message)) => {
                if message.is_some() {
                    self.heard = Instant::now();
                    self.failures = 0;
                }
                Ok(message)
            }
            Ok(Err(status)) => Err(Broken::Status(status)),
            Err(_) => Err(Broken::Silent(format!("no sign of life for {:?}", self.policy.silence))),
        }
    }

    /// True when something failed since the server was last heard.
    pub(crate) fn pending(&self) -> bool {
        self.failures > 0
    }

    /// Why a broken stream is to be opened again, or the error if that cannot help. If the token has expired and can
    /// change, this waits for the new one, unless the stream is the `first`: then a refusal is final.
    pub(crate) async fn reason(
        &self,
        client: &Client,
        broken: Broken,
        first: bool,
    ) -> Result<String, CliError> {
        let status = match broken {
            Broken::Silent(reason) => return Ok(reason),
            Broken::Status(status) if is_transient(&status) => return Ok(root_cause(&status)),
            Broken::Status(status) => status,
        };
        let renewed = status.code() == Code::Unauthenticated
            && !first
            && client.another_token(self.token.as_ref(), self.policy.token_patience).await;
        if renewed { Ok("the token has expired, and there is a new one".into()) } else { Err(status.into()) }
    }

    /// The pause before the next attempt; none when it is time to give up.
    pub(crate) fn pause(&mut self) -> Option<Duration> {
        if self.heard.elapsed() >= self.policy.give_up_after {
            return None;
        }
        self.failures += 1;
        Some(backoff_within(self.policy.backoff, LONGEST_PAUSE, self.failures))
    }
}

/// Why a stream broke.
#[derive(Debug)]
pub(crate) enum Broken {
    /// It ended with a status, or was refused.
    Status(Status),
    /// The server stopped sending.
    Silent(String),
}

/// The pause before a stream that the server asked to call again is opened again.
pub(crate) fn resume_pause() -> Duration {
    backoff_within(Duration::from_millis(50), LONGEST_PAUSE, 1)
}
