//! What time it is, here and at the server.

use std::time::SystemTime;

use tree_agent_contract::Timestamp;

/// This machine's clock.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// The server's clock as seen from here: the smallest difference between an event's time and its arrival is the
/// one with the least delay in it.
#[derive(Debug, Default)]
pub(super) struct ServerClock {
    behind: Option<i64>,
}

impl ServerClock {
    /// Notes the time of an event that has just arrived.
    pub(super) fn heard(&mut self, at: Timestamp) {
        let behind = now().micros().saturating_sub(at.micros());
        self.behind = Some(self.behind.map_or(behind, |b| b.min(behind)));
    }

    /// The server's time now.
    pub(super) fn now(&self) -> Timestamp {
        Timestamp(now().micros().saturating_sub(self.behind.unwrap_or(0)))
    }
}
