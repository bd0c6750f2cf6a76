//! Watching a run through any failure: reconnects with jittered backoff, resumes by seq, drops what came twice.
//!
//! [`spawn`] a watch and receive updates until [`Update::Ended`] or an error. Events come once and in order,
//! whatever happens to the connection in between.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Code, Status, Streaming};
use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::{RunId, RunStatus};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::watch_run_response::Message;

use super::{Client, root_cause, summary};
use crate::error::{CliError, is_transient};

/// When to call a connection dead, and how often to try again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// Silence after which the connection counts as lost. The server says something every 10 s.
    pub(crate) silence: Duration,
    /// The pause before the first further try; doubles with each, up to 5 s.
    pub(crate) backoff: Duration,
    /// How long to go on trying without one message from the server.
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

/// What a watcher learns.
#[derive(Debug)]
pub(crate) enum Update {
    /// The next event.
    Event(Box<Event>),
    /// The connection is lost; it will be made again after the pause.
    Reconnecting {
        /// What happened.
        reason: String,
        /// The pause.
        pause: Duration,
    },
    /// The connection is back.
    Reconnected,
    /// The run has ended and every event of it was delivered. Nothing follows.
    Ended(End),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// Its final status.
    pub(crate) status: RunStatus,
    /// True when it ended with less than was asked for.
    pub(crate) partial: bool,
    /// Why, for failures and cancellations.
    pub(crate) reason: Option<String>,
}

/// Updates that may wait for a slow terminal or pipe before the server is held back.
const BUFFERED: usize = 256;

/// Watches `run` from the event after `after_seq`, in a task of its own, so that whoever receives may select over
/// other things without disturbing timers and streams. The last message is [`Update::Ended`] or an error: the run
/// does not exist, the seq is beyond its head, or the server stayed away for too long. Dropping the receiver ends
/// the task.
pub(crate) fn spawn(
    client: Client,
    run: RunId,
    after_seq: u64,
    policy: Policy,
) -> mpsc::Receiver<Result<Update, CliError>> {
    let (send, receive) = mpsc::channel(BUFFERED);
    tokio::spawn(async move {
        let mut watch = Watch::new(client, run, after_seq, policy);
        loop {
            let update = tokio::select! {
                update = watch.next() => update,
                () = send.closed() => return,
            };
            let last = matches!(update, Ok(Update::Ended(_)) | Err(_));
            if send.send(update).await.is_err() || last {
                return;
            }
        }
    });
    receive
}

struct Watch {
    client: Client,
    run: RunId,
    after_seq: u64,
    policy: Policy,
    state: State,
    /// The token that the last call showed.
    token: Option<MetadataValue<Ascii>>,
    end: Option<End>,
    failures: u32,
    /// When the server was last heard.
    heard: Instant,
    /// False until the server has accepted the first stream: until then a refusal is final.
    begun: bool,
}

enum State {
    /// To be connected after the pause.
    Apart(Duration),
    Connected(Box<Streaming<pb::WatchRunResponse>>),
}

impl Watch {
    fn new(client: Client, run: RunId, after_seq: u64, policy: Policy) -> Self {
        Self {
            client,
            run,
            after_seq,
            policy,
            state: State::Apart(Duration::ZERO),
            token: None,
            end: None,
            failures: 0,
            heard: Instant::now(),
            begun: false,
        }
    }

    async fn next(&mut self) -> Result<Update, CliError> {
        loop {
            let update = match &mut self.state {
                State::Apart(pause) => {
                    let pause = std::mem::take(pause);
                    tokio::time::sleep(pause).await;
                    self.connect().await?
                }
                State::Connected(stream) => {
                    match tokio::time::timeout(self.policy.silence, stream.message()).await {
                        Ok(Ok(Some(answer))) => self.take(answer)?,
                        Ok(Ok(None)) => self.stream_ended().await?,
                        Ok(Err(status)) => Some(self.failed(status).await?),
                        Err(_) => Some(self.lost(format!("no sign of life for {:?}", self.policy.silence))?),
                    }
                }
            };
            if let Some(update) = update {
                return Ok(update);
            }
        }
    }

    async fn connect(&mut self) -> Result<Option<Update>, CliError> {
        let message = pb::WatchRunRequest {
            run_id: self.run.to_wire(),
            after_seq: self.after_seq,
            ..Default::default()
        };
        self.token = self.client.token();
        let mut runs = self.client.runs();
        let opened = tokio::time::timeout(self.policy.silence, runs.watch_run(message)).await;
        match opened {
            Ok(Ok(answer)) => {
                self.state = State::Connected(Box::new(answer.into_inner()));
                let again = self.begun && self.failures > 0;
                self.begun = true;
                Ok(again.then_some(Update::Reconnected))
            }
            Ok(Err(status)) => self.failed(status).await.map(Some),
            Err(_) => self.lost("the server does not answer".into()).map(Some),
        }
    }

    fn take(&mut self, answer: pb::WatchRunResponse) -> Result<Option<Update>, CliError> {
        self.heard = Instant::now();
        self.failures = 0;
        Ok(match answer.message {
            Some(Message::Event(event)) if event.seq <= self.after_seq => None,
            Some(Message::Event(event)) if event.seq > self.after_seq + 1 => {
                // Never show a log with a hole: what is missing is in the log, so read on from what we have.
                let reason = format!("event {} came after event {}", event.seq, self.after_seq);
                Some(self.lost(reason)?)
            }
            Some(Message::Event(event)) => {
                let event = Event::from_wire(event)?;
                self.after_seq = event.seq;
                if let EventBody::RunStatusChanged(change) = &event.body
                    && change.status.is_final()
                {
                    self.end = Some(End {
                        status: change.status,
                        partial: change.partial,
                        reason: change.reason.clone(),
                    });
                }
                Some(Update::Event(Box::new(event)))
            }
            Some(Message::ResumeHint(hint)) => {
                // Our own position counts, not the hint's: it is what has really arrived here.
                tracing::debug!(reason = hint.reason, "the server asks to call again");
                self.state = State::Apart(jittered(Duration::from_millis(50), 1));
                None
            }
            Some(Message::CaughtUp(_) | Message::Heartbeat(_) | Message::Snapshot(_)) | None => None,
        })
    }

    /// The server closed the stream without an error: the run has ended, or the server is going down.
    async fn stream_ended(&mut self) -> Result<Option<Update>, CliError> {
        if let Some(end) = self.end.clone() {
            return Ok(Some(Update::Ended(end)));
        }
        // A run that had ended before we came, seen from its last event, has no event left to say so.
        let message = pb::GetRunRequest { run_id: self.run.to_wire() };
        match self.client.runs().get_run(super::request(message)).await {
            Ok(answer) => {
                let run = summary(answer.into_inner().run)?;
                if run.status.is_final() && run.head_seq <= self.after_seq {
                    return Ok(Some(Update::Ended(End {
                        status: run.status,
                        partial: run.partial,
                        reason: run.error,
                    })));
                }
                self.lost("the server closed the stream".into()).map(Some)
            }
            Err(status) => self.failed(status).await.map(Some),
        }
    }

    /// A call or a stream failed: it is begun again when that may help. A token that has expired is waited for a successor
    /// for, if one can come by itself.
    async fn failed(&mut self, status: Status) -> Result<Update, CliError> {
        if is_transient(&status) {
            return self.lost(root_cause(&status));
        }
        let again = status.code() == Code::Unauthenticated
            && self.begun
            && self.client.another_token(self.token.as_ref(), self.policy.token_patience).await;
        if again {
            self.lost("the token has expired, and there is a new one".into())
        } else {
            Err(status.into())
        }
    }

    fn lost(&mut self, reason: String) -> Result<Update, CliError> {
        if self.heard.elapsed() >= self.policy.give_up_after {
            return Err(CliError::Lost { after_seq: self.after_seq, reason });
        }
        self.failures += 1;
        let pause = jittered(self.policy.backoff, self.failures);
        self.state = State::Apart(pause);
        Ok(Update::Reconnecting { reason, pause })
    }
}

/// `base · 2^(attempt-1)`, at most 5 s, and of that a random part between half and all.
pub(crate) fn jittered(base: Duration, attempt: u32) -> Duration {
    let full = base.saturating_mul(1 << attempt.saturating_sub(1).min(10)).min(Duration::from_secs(5));
    full.mul_f64(0.5 + fastrand::f64() / 2.0)
}

#[cfg(test)]
#[path = "../../tests/support/fake.rs"]
mod fake;
#[cfg(test)]
mod tests;
