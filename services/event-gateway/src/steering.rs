//! Commands of users: pause, resume, guide, stop, retry, edit a plan, set budgets.
//!
//! A command goes into the inbox of its run. Whichever driver has the run answers it, and the gateway waits for the
//! answer. With `validate_only` nothing is sent: the log is replayed to its head, and the engine says what the command
//! would do.

mod answer;
mod asked;
pub(crate) mod edits;
pub(crate) mod preview;

use bytes::Bytes;
use tonic::Status;
use tree_agent_contract::command::Action;
use tree_agent_contract::{Command, Reply, RunId};
use tree_agent_fanout::Topic;
use tree_agent_proto::v1 as pb;
use tree_agent_store::{Sent, StoreError};

use crate::errors;
use crate::runs::Runs;

pub(crate) use answer::ANSWER_WITHIN;
pub(crate) use asked::Asked;
pub(crate) use preview::PREVIEWS;

impl Runs {
    /// Carries out a command of `author`, or says what it would do.
    pub(crate) async fn steer(&self, asked: Asked, author: String) -> Result<pb::CommandOutcome, Status> {
        let (run, command, validate_only) = asked.check(author, &self.maxima)?;
        let store = &*self.gateway.store;
        let summary = store.run(run).await.map_err(|e| errors::store(&e))?;
        if validate_only {
            self.require_model(&command).await?;
            if summary.status.is_final() {
                return Err(self.ended(run).await);
            }
            let preview = preview::preview(&self.gateway, run, summary.head_seq, command).await?;
            return Ok(pb::CommandOutcome { seq: 0, preview: Some(preview) });
        }
        // What was answered once keeps its answer, whatever has become of the model since.
        let known = store.reply(run, &command.request_id).await.map_err(|e| errors::store(&e))?;
        if known.is_none() {
            self.require_model(&command).await?;
        }
        let sent = store.send_command(run, command.clone()).await.map_err(|error| match error {
            StoreError::Conflict(message) => errors::already_exists("request_id", message),
            other => errors::store(&other),
        })?;
        let reply = match sent {
            Sent::Ended => return Err(self.ended(run).await),
            Sent::Answered(reply) => reply,
            Sent::Pending(_) => {
                self.gateway.hint(vec![(Topic::Wake, Bytes::new())]).await;
                answer::wait(&self.gateway, run, &command.request_id, self.answer_within).await?
            }
        };
        match reply {
            Reply::Applied { seq } => Ok(pb::CommandOutcome { seq, preview: None }),
            Reply::Refused(refusal) => Err(edits::refused(&command.action, refusal)),
        }
    }

    /// Why a run that has ended takes no command.
    async fn ended(&self, run: RunId) -> Status {
        // Of an archived run this says so.
        match self.gateway.store.read(run, 0, 1).await {
            Ok(_) => errors::run_ended(run),
            Err(error) => errors::store(&error),
        }
    }

    /// The model that a retry names can be used.
    async fn require_model(&self, command: &Command) -> Result<(), Status> {
        match &command.action {
            Action::Retry { model, .. } if !model.is_empty() => self.models.require(model).await,
            _ => Ok(()),
        }
    }
}
