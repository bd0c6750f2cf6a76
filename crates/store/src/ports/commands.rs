//! The inbox of a run, and how its commands are answered.

use tree_agent_contract::{Command, Refusal, RefusalKind, Reply, RunId};

/// A command that no driver has answered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCommand {
    /// Its id: 1, 2, 3 … within its run.
    pub id: i64,
    /// The run.
    pub run_id: RunId,
    /// What to do.
    pub command: Command,
}

/// What has become of a command that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is in the inbox, with this id: from now on, or since the same request sent it before.
    Pending(i64),
    /// The same request sent it before, and it was answered.
    Answered(Reply),
    /// The run has ended. Nothing was written.
    Ended,
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its id in the inbox, which it leaves.
    pub id: i64,
    /// Its request id. For an empty one no reply is kept, because nobody can ask for it.
    pub request_id: String,
    /// The reply.
    pub reply: Reply,
}

/// The reply to a command that was still in the inbox when its run ended.
pub(crate) fn too_late() -> Reply {
    Reply::Refused(Refusal::new(
        RefusalKind::Precondition,
        "the run ended before the command was carried out; fork it to change it",
    ))
}
