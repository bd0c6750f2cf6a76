//! What streams do when their connection breaks.

use std::time::{Duration, Instant};

use tonic::{Code, Response, Status, Streaming};
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

/// What is learnt from a stream, through any failure of its connection.
pub(crate) trait Follower {
    /// What the server sends.
    type Message;
    /// How everything was learnt.
    type End;

    /// Opens the stream where the last one ended.
    async fn open(&self, client: &Client) -> Result<Response<Streaming<Self::Message>>, Status>;

    /// Takes a message.
    async fn take(&mut self, message: Self::Message) -> Result<Next<Self::End>, CliError>;

    /// The server closed the stream without an error.
    async fn closed(&mut self, client: &Client) -> Result<Next<Self::End>, CliError>;

    /// The connection is lost for this reason; it will be made again after the pause.
    async fn lost(&mut self, reason: String, pause: Duration);

    /// The connection is back.
    async fn back(&mut self) {}

    /// The error when the server was away for too long.
    fn given_up(&self, reason: String) -> CliError;
}

/// What follows in a stream.
#[derive(Debug)]
pub(crate) enum Next<E> {
    /// The next message.
    More,
    /// Another stream: the server asked to call again.
    Again,
    /// Another stream, after a pause: this one is of no more use, for this reason.
    Broken(String),
    /// Another stream, if the call that failed so may succeed.
    Failed(Status),
    /// Nothing.
    End(E),
}

/// Follows streams to the end. A failure is final if it would come again, or comes before the first stream was
/// accepted and is no failure of the connection.
pub(crate) async fn follow<F: Follower>(
    client: &Client,
    policy: Policy,
    follower: &mut F,
) -> Result<F::End, CliError> {
    let (mut failures, mut heard, mut accepted) = (0, Instant::now(), false);
    loop {
        let token = client.token();
        let mut next = match tokio::time::timeout(policy.silence, follower.open(client)).await {
            Ok(Ok(answer)) => {
                if accepted && failures > 0 {
                    follower.back().await;
                }
                accepted = true;
                let mut stream = answer.into_inner();
                loop {
                    let next = match tokio::time::timeout(policy.silence, stream.message()).await {
                        Ok(Ok(Some(message))) => {
                            (failures, heard) = (0, Instant::now());
                            follower.take(message).await?
                        }
                        Ok(Ok(None)) => follower.closed(client).await?,
                        Ok(Err(status)) => Next::Failed(status),
                        Err(_) => Next::Broken(format!("no sign of life for {:?}", policy.silence)),
                    };
                    if !matches!(next, Next::More) {
                        break next;
                    }
                }
            }
            Ok(Err(status)) => Next::Failed(status),
            Err(_) => Next::Broken("the server does not answer".into()),
        };
        if let Next::Failed(status) = next {
            let renewed = status.code() == Code::Unauthenticated
                && accepted
                && client.another_token(token.as_ref(), policy.token_patience).await;
            next = match (renewed, is_transient(&status)) {
                (true, _) => Next::Broken("the token has expired, and there is a new one".into()),
                (false, true) => Next::Broken(root_cause(&status)),
                (false, false) => return Err(status.into()),
            };
        }
        let pause = match next {
            Next::End(end) => return Ok(end),
            Next::Broken(reason) if heard.elapsed() >= policy.give_up_after => {
                return Err(follower.given_up(reason));
            }
            Next::Broken(reason) => {
                failures += 1;
                let pause = backoff_within(policy.backoff, LONGEST_PAUSE, failures);
                follower.lost(reason, pause).await;
                pause
            }
            _ => backoff_within(Duration::from_millis(50), LONGEST_PAUSE, 1),
        };
        tokio::time::sleep(pause).await;
    }
}
