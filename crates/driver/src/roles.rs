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
    /// Makes the call, sends its updates in order, and returns its one output or its typed failure, within the
    /// call's time-out. Dropping the future cancels the work.
    async fn call(&self, call: RoleCall, updates: Updates) -> Result<CallOutput, RoleError>;
}

/// Where a role call's updates go: the mailbox of its run, without a queue of their own, so that a call that waits holds
/// little memory.
#[derive(Clone, Debug)]
pub struct Updates {
    pub(crate) key: CallKey,
    pub(crate) mailbox: mpsc::Sender<Message>,
}

/// The run is no longer driven here; its calls are about to be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody hears the updates of this call any more")]
pub struct NotHeard;

impl Updates {
    /// The updates of a call that no run makes, and where they are heard; at most `room` wait there.
    pub fn apart(key: CallKey, room: usize) -> (Self, Heard) {
        let (mailbox, heard) = mpsc::channel(room);
        (Self { key, mailbox }, Heard(heard))
    }

    /// Hands one update over. Waits while the run has more to do than it can take.
    pub async fn send(&self, update: RoleUpdate) -> Result<(), NotHeard> {
        self.mailbox.send(Message::Update(self.key, Box::new(update))).await.map_err(|_| NotHeard)
    }

    /// Hands an answer over beside the one that the call returns: the same one twice, or one that comes late. No role may
    /// do that and no adapter here does; simulations see with it that such answers are counted and change nothing.
    pub async fn answer_again(&self, answer: Result<CallOutput, RoleError>) -> Result<(), NotHeard> {
        self.mailbox.send(Message::Ended(self.key, Box::new(answer))).await.map_err(|_| NotHeard)
    }
}

/// Hears the updates of a call that no run makes.
#[derive(Debug)]
pub struct Heard(mpsc::Receiver<Message>);

impl Heard {
    /// The next update; none when the call has let go of its [`Updates`].
    pub async fn next(&mut self) -> Option<RoleUpdate> {
        match self.0.recv().await? {
            Message::Update(_, update) => Some(*update),
            other => unreachable!("a call sends updates only, not {other:?}"),
        }
    }
}

/// Tells the time of day. Only timestamps and deadlines of a run come from it; leases use the store's clock.
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
