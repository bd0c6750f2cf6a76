//! Watching the list of runs through any failure: reconnects with jittered backoff and resumes where it was.

use std::convert::Infallible;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::mpsc;
use tonic::{Response, Status, Streaming};
use tree_agent_contract::{RunId, RunSummary};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::watch_runs_response::Message;

use super::Client;
use super::reconnect::{Follower, Next, Policy, follow};
use crate::error::CliError;

/// What a watcher learns. Changes of runs are what `-o jsonl` prints.
#[derive(Debug, Serialize)]
#[serde(tag = "change", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Change {
    /// A run that is new to the list.
    Added { run: Box<RunSummary> },
    /// A run as it is now.
    Changed { run: Box<RunSummary> },
    /// The run is no longer in the list.
    Removed { run_id: RunId },
    /// Every run that was there at the beginning has been sent.
    #[serde(skip)]
    CaughtUp,
    /// The connection is lost; it will be made again after a pause.
    #[serde(skip)]
    Reconnecting(String),
}

/// Changes that may wait for a slow terminal or pipe before the server is held back.
const BUFFERED: usize = 256;

/// Watches the runs that match `filter`, in a task of its own. The last message is an error. Dropping the receiver
/// ends the task.
pub(crate) fn spawn(
    client: Client,
    filter: pb::WatchRunsRequest,
    policy: Policy,
) -> mpsc::Receiver<Result<Change, CliError>> {
    let (send, receive) = mpsc::channel(BUFFERED);
    let mut watch = Watch { server: client.server().to_owned(), filter, send: send.clone() };
    tokio::spawn(async move {
        let failed = tokio::select! {
            failed = follow(&client, policy, &mut watch) => failed,
            () = send.closed() => return,
        };
        let Err(error) = failed;
        let _ = send.send(Err(error)).await;
    });
    receive
}

struct Watch {
    server: String,
    /// Its `resume_token` says where to resume.
    filter: pb::WatchRunsRequest,
    send: mpsc::Sender<Result<Change, CliError>>,
}

impl Follower for Watch {
    type Message = pb::WatchRunsResponse;
    type End = Infallible;

    async fn open(&self, client: &Client) -> Result<Response<Streaming<pb::WatchRunsResponse>>, Status> {
        client.runs().watch_runs(self.filter.clone()).await
    }

    async fn take(&mut self, answer: pb::WatchRunsResponse) -> Result<Next<Infallible>, CliError> {
        let change = match answer.message {
            Some(Message::Added(run)) => Change::Added { run: Box::new(Wire::from_wire(run)?) },
            Some(Message::Changed(run)) => Change::Changed { run: Box::new(Wire::from_wire(run)?) },
            Some(Message::Removed(removed)) => Change::Removed { run_id: Wire::from_wire(removed.run_id)? },
            Some(Message::CaughtUp(at)) => {
                self.filter.resume_token = at.resume_token;
                Change::CaughtUp
            }
            Some(Message::Heartbeat(at)) => {
                self.filter.resume_token = at.resume_token;
                return Ok(Next::More);
            }
            Some(Message::ResumeHint(at)) => {
                self.filter.resume_token = at.resume_token;
                return Ok(Next::Again);
            }
            None => return Ok(Next::More),
        };
        // When nobody hears it, the task is about to end.
        let _ = self.send.send(Ok(change)).await;
        Ok(Next::More)
    }

    async fn closed(&mut self, _: &Client) -> Result<Next<Infallible>, CliError> {
        Ok(Next::Broken("the server closed the stream".into()))
    }

    async fn lost(&mut self, reason: String, _: Duration) {
        let _ = self.send.send(Ok(Change::Reconnecting(reason))).await;
    }

    fn given_up(&self, reason: String) -> CliError {
        CliError::Unreachable { server: self.server.clone(), reason }
    }
}
