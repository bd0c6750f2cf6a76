//! Watching a run through any failure: reconnects with jittered backoff, resumes by seq, drops what came twice.
//!
//! [`spawn`] a watch and receive updates until [`Update::Ended`] or an error. Each event arrives once and in order,
//! whatever happens to the connection meanwhile.

use std::time::Duration;

use tokio::sync::mpsc;
use tonic::Streaming;
use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::{NodeId, RunId, RunStatus};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::watch_run_response::Message;

use super::reconnect::{Broken, Policy, Retries, resume_pause};
use super::{Call, Client, summary};
use crate::error::CliError;

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

/// Which events of a run are watched.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// Only those after this one.
    pub(crate) after_seq: u64,
    /// Only those of this node and the nodes below it.
    pub(crate) node: Option<NodeId>,
    /// Only these types; all when empty.
    pub(crate) types: Vec<String>,
}

impl Wanted {
    /// Every event after `seq`.
    pub(crate) fn after(seq: u64) -> Self {
        Self { after_seq: seq, ..Self::default() }
    }

    /// True when some events are left out, so that the seqs of those that arrive have gaps.
    pub(crate) fn is_filtered(&self) -> bool {
        self.node.is_some() || !self.types.is_empty()
    }
}

/// Updates that may wait for a slow terminal or pipe before the server is held back.
const BUFFERED: usize = 256;

/// Watches `run` in a task of its own, so that the receiver may select over other things without disturbing timers
/// and streams. The last message is [`Update::Ended`] or an error: the run does not exist, the seq is beyond its
/// head, or the server was away for too long. Dropping the receiver ends the task.
pub(crate) fn spawn(
    client: Client,
    run: RunId,
    wanted: Wanted,
    policy: Policy,
) -> mpsc::Receiver<Result<Update, CliError>> {
    let (send, receive) = mpsc::channel(BUFFERED);
    tokio::spawn(async move {
        let mut watch = Watch::new(client, run, wanted, policy);
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
    /// Its `after_seq` is the last event that was looked at.
    wanted: Wanted,
    retries: Retries,
    state: State,
    end: Option<End>,
    /// False until the server has accepted the first stream: until then a refusal is final.
    accepted: bool,
}

enum State {
    /// To be connected after the pause.
    Apart(Duration),
    Connected(Box<Streaming<pb::WatchRunResponse>>),
}

impl Watch {
    fn new(client: Client, run: RunId, wanted: Wanted, policy: Policy) -> Self {
        let (retries, state) = (Retries::new(policy), State::Apart(Duration::ZERO));
        Self { client, run, wanted, retries, state, end: None, accepted: false }
    }

    async fn next(&mut self) -> Result<Update, CliError> {
        loop {
            let update = match &mut self.state {
                State::Apart(pause) => {
                    let pause = std::mem::take(pause);
                    tokio::time::sleep(pause).await;
                    self.connect().await?
                }
                State::Connected(stream) => match self.retries.message(stream).await {
                    Ok(Some(answer)) => self.take(answer)?,
                    Ok(None) => self.stream_ended().await?,
                    Err(broken) => Some(self.failed(broken).await?),
                },
            };
            if let Some(update) = update {
                return Ok(update);
            }
        }
    }

    async fn connect(&mut self) -> Result<Option<Update>, CliError> {
        let message = pb::WatchRunRequest {
            run_id: self.run.to_wire(),
            after_seq: self.wanted.after_seq,
            snapshot: false,
            node_id: self.wanted.node.map(|node| node.to_wire()).unwrap_or_default(),
            types: self.wanted.types.clone(),
        };
        let mut runs = self.client.runs();
        match self.retries.open(&self.client, runs.watch_run(message)).await {
            Ok(stream) => {
                self.state = State::Connected(Box::new(stream));
                let again = self.accepted && self.retries.pending();
                self.accepted = true;
                Ok(again.then_some(Update::Reconnected))
            }
            Err(broken) => self.failed(broken).await.map(Some),
        }
    }

    fn take(&mut self, answer: pb::WatchRunResponse) -> Result<Option<Update>, CliError> {
        let after_seq = self.wanted.after_seq;
        Ok(match answer.message {
            Some(Message::Event(event)) if event.seq <= after_seq => None,
            Some(Message::Event(event)) if event.seq > after_seq + 1 && !self.wanted.is_filtered() => {
                // Never show a log with a gap: what is missing is in the log, so read on from what we have.
                Some(self.lost(format!("event {} came after event {after_seq}", event.seq))?)
            }
            Some(Message::Event(event)) => {
                let event = Event::from_wire(event)?;
                self.wanted.after_seq = event.seq;
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
                self.looked_at(hint.after_seq);
                tracing::debug!(reason = hint.reason, "the server asks to call again");
                self.state = State::Apart(resume_pause());
                None
            }
            Some(Message::CaughtUp(caught_up)) => {
                self.looked_at(caught_up.seq);
                None
            }
            Some(Message::Heartbeat(heartbeat)) => {
                self.looked_at(heartbeat.seq);
                None
            }
            Some(Message::Snapshot(_)) | None => None,
        })
    }

    /// The server has looked at every event up to `seq`. Without filters only what has arrived here counts.
    fn looked_at(&mut self, seq: u64) {
        if self.wanted.is_filtered() {
            self.wanted.after_seq = self.wanted.after_seq.max(seq);
        }
    }

    /// The server closed the stream without an error: the run has ended, or the server is going down.
    async fn stream_ended(&mut self) -> Result<Option<Update>, CliError> {
        if let Some(end) = self.end.clone() {
            return Ok(Some(Update::Ended(end)));
        }
        // If the run had ended before we came, or its last event was left out, there is no event to say so.
        let message = pb::GetRunRequest { run_id: self.run.to_wire() };
        match message.make(&self.client).await {
            Ok(answer) => {
                let run = summary(answer.into_inner().run)?;
                let whole = run.head_seq <= self.wanted.after_seq || self.wanted.is_filtered();
                if run.status.is_final() && whole {
                    return Ok(Some(Update::Ended(End {
                        status: run.status,
                        partial: run.partial,
                        reason: run.error,
                    })));
                }
                self.lost("the server closed the stream".into()).map(Some)
            }
            Err(status) => self.failed(Broken::Status(status)).await.map(Some),
        }
    }

    async fn failed(&mut self, broken: Broken) -> Result<Update, CliError> {
        let reason = self.retries.reason(&self.client, broken, !self.accepted).await?;
        self.lost(reason)
    }

    fn lost(&mut self, reason: String) -> Result<Update, CliError> {
        let Some(pause) = self.retries.pause() else {
            return Err(CliError::Lost { after_seq: self.wanted.after_seq, reason });
        };
        self.state = State::Apart(pause);
        Ok(Update::Reconnecting { reason, pause })
    }
}

#[cfg(test)]
#[allow(dead_code, unused_imports, reason = "other tests use the rest")]
#[path = "../../tests/cli/support/fake/mod.rs"]
mod fake;
#[cfg(test)]
mod tests;
