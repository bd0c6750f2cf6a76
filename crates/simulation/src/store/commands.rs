//! The inboxes of the simulated store.

use tree_agent_contract::{Command, Refusal, RefusalKind, Reply, RunId};
use tree_agent_store::{Answer, PendingCommand, Sent, StoreError};

use super::model::Model;
use crate::flaw::Flaw;

/// A command that was sent with a request id.
#[derive(Clone, Debug)]
pub struct StoredReply {
    /// Its id in the inbox.
    pub id: i64,
    /// The command.
    pub command: Command,
    /// Its reply, once it has one.
    pub reply: Option<Reply>,
}

impl Model {
    /// [`Runs::send_command`](tree_agent_store::Runs::send_command).
    pub fn send_command(&mut self, id: RunId, command: Command) -> Result<Sent, StoreError> {
        let key = (id, command.request_id.clone());
        if let Some(before) = self.replies.get(&key) {
            if before.command != command {
                let what = format!("request_id {:?} was used before for another command", command.request_id);
                return Err(StoreError::Conflict(what));
            }
            let sent = before.reply.clone().map_or(Sent::Pending(before.id), Sent::Answered);
            if self.has(Flaw::ForgottenReplies) && matches!(sent, Sent::Answered(_)) {
                self.replies.remove(&key);
            }
            return Ok(sent);
        }
        let run = self.runs.get_mut(&id).ok_or_else(|| StoreError::not_found("run", id))?;
        if run.row.status.is_final() {
            return Ok(Sent::Ended);
        }
        run.last_command += 1;
        let number = run.last_command;
        if !command.request_id.is_empty() {
            self.replies.insert(key, StoredReply { id: number, command: command.clone(), reply: None });
        }
        self.commands.insert((id, number), command);
        Ok(Sent::Pending(number))
    }

    /// [`Runs::reply`](tree_agent_store::Runs::reply).
    pub fn reply(&self, run: RunId, request_id: &str) -> Option<Reply> {
        self.replies.get(&(run, request_id.to_owned()))?.reply.clone()
    }

    /// [`Runs::answer`](tree_agent_store::Runs::answer).
    pub fn answer(&mut self, id: RunId, epoch: u64, answers: Vec<Answer>) -> bool {
        let owned = self.runs.get(&id).is_some_and(|run| run.epoch == epoch);
        if owned {
            self.write_answers(id, answers);
        }
        owned
    }

    /// Answers commands, which leave the inbox.
    pub(super) fn write_answers(&mut self, run: RunId, answers: Vec<Answer>) {
        for Answer { id, request_id, reply } in answers {
            self.commands.remove(&(run, id));
            let nameless = self.has(Flaw::NamelessCommands);
            let sent = self.replies.iter_mut().find(|((of, name), stored)| {
                *of == run && (*name == request_id || nameless && stored.id == id)
            });
            if let Some((_, stored)) = sent {
                stored.reply.get_or_insert(reply);
            }
        }
    }

    /// Empties the inbox of a run that has ended. What is still in it is refused.
    pub(super) fn end_inbox(&mut self, id: RunId) {
        self.commands.retain(|(run, _), _| *run != id);
        for ((_, _), stored) in self.replies.iter_mut().filter(|((run, _), _)| *run == id) {
            let why = "the run ended before the command was carried out; fork it to change it";
            stored.reply.get_or_insert(Reply::Refused(Refusal::new(RefusalKind::Precondition, why)));
        }
    }

    /// [`Runs::commands`](tree_agent_store::Runs::commands).
    pub fn pending(&self, driver: &str) -> Vec<PendingCommand> {
        let owned = |run: &RunId| self.runs.get(run).is_some_and(|run| run.owner.as_deref() == Some(driver));
        let pending = self.commands.iter().filter(|((run, _), _)| owned(run));
        let name = |command: &Command| match self.has(Flaw::NamelessCommands) {
            true => String::new(),
            false => command.request_id.clone(),
        };
        pending
            .map(|((run_id, id), command)| PendingCommand {
                id: *id,
                run_id: *run_id,
                command: Command { request_id: name(command), ..command.clone() },
            })
            .collect()
    }
}
