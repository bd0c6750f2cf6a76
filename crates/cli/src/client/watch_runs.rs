//! Watching the list of runs through any failure: reconnects with jittered backoff and resumes where it was.

use tokio::sync::mpsc;
use tonic::Streaming;
use tree_agent_contract::{RunId, RunSummary};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::watch_runs_response::Message;

use super::Client;
use super::reconnect::{Broken, Policy, Retries, resume_pause};
use crate::error::CliError;

/// What a watcher learns.
#[derive(Debug)]
pub(crate) enum Change {
    /// A run that is new to the list.
    Added(Box<RunSummary>),
    /// A run as it is now.
    Changed(Box<RunSummary>),
    /// The run is no longer in the list.
    Removed(RunId),
    /// Every run that was there at the beginning has been sent.
    CaughtUp,
    /// The connection is lost; it will be made again after a pause.
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
    tokio::spawn(async move {
        let mut watch = Watch { client, filter, retries: Retries::new(policy), accepted: false };
        let failed = tokio::select! {
            failed = watch.run(&send) => failed,
            () = send.closed() => return,
        };
        if let Err(error) = failed {
            let _ = send.send(Err(error)).await;
        }
    });
    receive
}

type Sender = mpsc::Sender<Result<Change, CliError>>;

struct Watch {
    client: Client,
    /// Its `resume_token` says where to resume.
    filter: pb::WatchRunsRequest,
    retries: Retries,
    /// False until the server has accepted the first stream: until then a refusal is final.
    accepted: bool,
}

impl Watch {
    async fn run(&mut self, send: &Sender) -> Result<(), CliError> {
        loop {
            let mut runs = self.client.runs();
            let call = runs.watch_runs(self.filter.clone());
            let ended = match self.retries.open(&self.client, call).await {
                Ok(mut stream) => {
                    self.accepted = true;
                    self.stream(&mut stream, send).await?
                }
                Err(broken) => Err(broken),
            };
            let pause = match ended {
                Ok(()) => resume_pause(),
                Err(broken) => {
                    let reason = self.retries.reason(&self.client, broken, !self.accepted).await?;
                    let Some(pause) = self.retries.pause() else {
                        return Err(CliError::Unreachable {
                            server: self.client.server().to_owned(),
                            reason,
                        });
                    };
                    let _ = send.send(Ok(Change::Reconnecting(reason))).await;
                    pause
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Passes on what one stream says, until it breaks or ends because the server asked to call again.
    async fn stream(
        &mut self,
        stream: &mut Streaming<pb::WatchRunsResponse>,
        send: &Sender,
    ) -> Result<Result<(), Broken>, CliError> {
        let mut asked = false;
        loop {
            let message = match self.retries.message(stream).await {
                Ok(Some(answer)) => answer.message,
                Ok(None) if asked => return Ok(Ok(())),
                Ok(None) => return Ok(Err(Broken::Silent("the server closed the stream".into()))),
                Err(broken) => return Ok(Err(broken)),
            };
            let change = match message {
                Some(Message::Added(run)) => Change::Added(Box::new(RunSummary::from_wire(run)?)),
                Some(Message::Changed(run)) => Change::Changed(Box::new(RunSummary::from_wire(run)?)),
                Some(Message::Removed(removed)) => Change::Removed(Wire::from_wire(removed.run_id)?),
                Some(Message::CaughtUp(at)) => {
                    self.filter.resume_token = at.resume_token;
                    Change::CaughtUp
                }
                Some(Message::Heartbeat(at)) => {
                    self.filter.resume_token = at.resume_token;
                    continue;
                }
                Some(Message::ResumeHint(at)) => {
                    self.filter.resume_token = at.resume_token;
                    asked = true;
                    continue;
                }
                None => continue,
            };
            let _ = send.send(Ok(change)).await;
        }
    }
}
