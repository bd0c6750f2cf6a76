//! The ports of the driver: roles and the clock.

use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use tokio::sync::mpsc;
use tree_agent_contract::Timestamp;
use tree_agent_contract::role::{RoleError, RoleUpdate};
use tree_agent_engine::{CallKey, CallOutput, RoleCall};

use crate::task::Message;

/// Makes role calls.
#[async_trait]
pub trait Roles: Send + Sync + 'static {
    /// Makes the call and sends its updates in order. Returns its one output or its typed error within the call's
    /// time limit. Dropping the future cancels the work.
    async fn call(&self, call: RoleCall, updates: Updates) -> Result<CallOutput, RoleError>;
}

/// The destination of a role call's updates: the mailbox of its run. There is no queue in between, so a waiting call
/// needs little memory.
#[derive(Clone, Debug)]
pub struct Updates {
    pub(crate) key: CallKey,
    pub(crate) mailbox: mpsc::Sender<Message>,
}

/// The run is no longer driven here; its calls are about to be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing waits for the updates of this call any more")]
pub struct ReceiverClosed;

impl Updates {
    /// The updates of a call outside of a run, and their receiver, in which at most `room` wait.
    pub fn channel(key: CallKey, room: usize) -> (Self, UpdateReceiver) {
        let (mailbox, heard) = mpsc::channel(room);
        (Self { key, mailbox }, UpdateReceiver(heard))
    }

    /// Passes one update on. Waits while the run's mailbox is full.
    pub async fn send(&self, update: RoleUpdate) -> Result<(), ReceiverClosed> {
        self.mailbox.send(Message::Update(self.key, Box::new(update))).await.map_err(|_| ReceiverClosed)
    }

    /// Passes on an answer besides the one that the call returns: a duplicate or a late answer. No role may do that,
    /// and no adapter here does. Simulations use it to check that such answers are counted and change nothing.
    pub async fn answer_again(&self, answer: Result<CallOutput, RoleError>) -> Result<(), ReceiverClosed> {
        self.mailbox.send(Message::Ended(self.key, Box::new(answer))).await.map_err(|_| ReceiverClosed)
    }
}

/// Receives the updates of a call outside of a run.
#[derive(Debug)]
pub struct UpdateReceiver(mpsc::Receiver<Message>);

impl UpdateReceiver {
    /// The next update; none once the call has dropped its [`Updates`].
    pub async fn next(&mut self) -> Option<RoleUpdate> {
        match self.0.recv().await? {
            Message::Update(_, update) => Some(*update),
            other => unreachable!("a call sends updates only, not {other:?}"),
        }
    }
}

/// The wall clock. Only timestamps and deadlines of a run use it; leases use the store's clock.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}
