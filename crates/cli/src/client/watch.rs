//! Watching a run through any failure: reconnects with jittered backoff, resumes by seq, drops what came twice.
//!
//! [`spawn`] a watch and receive updates until [`Update::Ended`] or an error. Each event arrives once and in order,
//! whatever happens to the connection meanwhile.

use std::time::Duration;

use tokio::sync::mpsc;
use tonic::{Response, Status, Streaming};
use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::{NodeId, RunId, RunStatus};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::watch_run_response::Message;

use super::reconnect::{Follower, Next, Policy, follow};
use super::{CALL_TIMEOUT, Call, Client, summary};
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
    let mut watch = Watch { run, wanted, end: None, send: send.clone() };
    tokio::spawn(async move {
        let ended = tokio::select! {
            ended = follow(&client, policy, &mut watch) => ended,
            () = send.closed() => return,
        };
        let _ = send.send(ended.map(Update::Ended)).await;
    });
    receive
}

struct Watch {
    run: RunId,
    /// Its `after_seq` is the last event that was looked at.
    wanted: Wanted,
    end: Option<End>,
    send: mpsc::Sender<Result<Update, CliError>>,
}

impl Watch {
    async fn tell(&self, update: Update) {
        // When nobody hears it, the task is about to end.
        let _ = self.send.send(Ok(update)).await;
    }

    /// The server has looked at every event up to `seq`. Without filters only what has arrived here counts.
    fn looked_at(&mut self, seq: u64) {
        if self.wanted.is_filtered() {
            self.wanted.after_seq = self.wanted.after_seq.max(seq);
        }
    }
}

impl Follower for Watch {
    type Message = pb::WatchRunResponse;
    type End = End;

    async fn open(&self, client: &Client) -> Result<Response<Streaming<pb::WatchRunResponse>>, Status> {
        let message = pb::WatchRunRequest {
            run_id: self.run.to_wire(),
            after_seq: self.wanted.after_seq,
            snapshot: false,
            node_id: self.wanted.node.map(|node| node.to_wire()).unwrap_or_default(),
            types: self.wanted.types.clone(),
        };
        client.runs().watch_run(message).await
    }

    async fn take(&mut self, answer: pb::WatchRunResponse) -> Result<Next<End>, CliError> {
        let after_seq = self.wanted.after_seq;
        match answer.message {
            Some(Message::Event(event)) if event.seq <= after_seq => {}
            Some(Message::Event(event)) if event.seq > after_seq + 1 && !self.wanted.is_filtered() => {
                // Never show a log with a gap: what is missing is in the log, so read on from what we have.
                return Ok(Next::Broken(format!("event {} came after event {after_seq}", event.seq)));
            }
            Some(Message::Event(event)) => {
                let event = Event::from_wire(event)?;
                self.wanted.after_seq = event.seq;
                if let EventBody::RunStatusChanged(change) = &event.body
                    && change.status.is_final()
                {
                    let (status, partial, reason) = (change.status, change.partial, change.reason.clone());
                    self.end = Some(End { status, partial, reason });
                }
                self.tell(Update::Event(Box::new(event))).await;
            }
            Some(Message::ResumeHint(hint)) => {
                self.looked_at(hint.after_seq);
                tracing::debug!(reason = hint.reason, "the server asks to call again");
                return Ok(Next::Again);
            }
            Some(Message::CaughtUp(caught_up)) => self.looked_at(caught_up.seq),
            Some(Message::Heartbeat(heartbeat)) => self.looked_at(heartbeat.seq),
            Some(Message::Snapshot(_)) | None => {}
        }
        Ok(Next::More)
    }

    /// The run has ended, or the server is going down.
    async fn closed(&mut self, client: &Client) -> Result<Next<End>, CliError> {
        if let Some(end) = self.end.take() {
            return Ok(Next::End(end));
        }
        // If the run had ended before we came, or its last event was left out, there is no event to say so.
        let run = match (pb::GetRunRequest { run_id: self.run.to_wire() }).make(client, CALL_TIMEOUT).await {
            Ok(answer) => summary(answer.into_inner().run)?,
            Err(status) => return Ok(Next::Failed(status)),
        };
        let whole = run.head_seq <= self.wanted.after_seq || self.wanted.is_filtered();
        if run.status.is_final() && whole {
            return Ok(Next::End(End { status: run.status, partial: run.partial, reason: run.error }));
        }
        Ok(Next::Broken("the server closed the stream".into()))
    }

    async fn lost(&mut self, reason: String, pause: Duration) {
        self.tell(Update::Reconnecting { reason, pause }).await;
    }

    async fn back(&mut self) {
        self.tell(Update::Reconnected).await;
    }

    fn given_up(&self, reason: String) -> CliError {
        CliError::Lost { after_seq: self.wanted.after_seq, reason }
    }
}

#[cfg(test)]
#[allow(dead_code, unused_imports, reason = "other tests use the rest")]
#[path = "../../tests/cli/support/fake/mod.rs"]
mod fake;
#[cfg(test)]
mod tests;
