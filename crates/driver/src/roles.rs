//! The ports of the driver: roles and the clock.

use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use tokio::sync::mpsc;
use tree_agent_contract::Timestamp;
use tree_agent_contract::role::{RoleError, RoleUpdate};
use tree_agent_engine::{CallOutput, RoleCall};

/// Makes role calls.
#[async_trait]
pub trait Roles: Send + Sync + 'static {
    /// Makes the call, sends its updates in order, and returns its one output or its typed failure, within the
    /// call's time-out. Dropping the future cancels the work.
    async fn call(&self, call: RoleCall, updates: mpsc::Sender<RoleUpdate>) -> Result<CallOutput, RoleError>;
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
