//! What can happen to a run, and what follows from it.

use tree_agent_contract::document::DocumentOp;
use tree_agent_contract::event::Event;
use tree_agent_contract::role::{RoleError, RoleUpdate};
use tree_agent_contract::session::Session;

use crate::call::{CallKey, CallOutput};

/// What can happen to a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A driver has claimed the run: begin or continue.
    Claimed,
    /// A role call in flight sent an update.
    Update(CallKey, RoleUpdate),
    /// A role call ended with an output. The engine validates it: a role that breaks its contract has failed.
    Output(CallKey, CallOutput),
    /// A role call ended with an error.
    Failed(CallKey, RoleError),
    /// The user cancels the run.
    Cancel {
        /// Shown in the run's last event.
        reason: String,
    },
    /// The run cannot be driven. Ends it as failed.
    Abandon {
        /// Shown in the run's last event.
        reason: String,
    },
    /// Time has passed. Checks the wall clock and handles updates that had to wait.
    Tick,
}

impl Input {
    /// The role call that it comes from.
    pub(crate) fn call(&self) -> Option<CallKey> {
        match self {
            Input::Update(key, _) | Input::Output(key, _) | Input::Failed(key, _) => Some(*key),
            Input::Claimed | Input::Cancel { .. } | Input::Abandon { .. } | Input::Tick => None,
        }
    }
}

/// The result of an input, to be written in one append and in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The events, already applied.
    pub events: Vec<Event>,
    /// The document writes that belong to them.
    pub documents: Vec<DocumentOp>,
    /// The conversations that belong to them.
    pub sessions: Vec<Session>,
}

impl Decision {
    /// True if there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Adds the decision of another input.
    pub fn merge(&mut self, other: Decision) {
        // The decision of the first input of an append is moved, not copied.
        if self.events.is_empty() && self.documents.is_empty() {
            *self = other;
            return;
        }
        self.events.extend(other.events);
        self.documents.extend(other.documents);
        self.sessions.extend(other.sessions);
    }
}
