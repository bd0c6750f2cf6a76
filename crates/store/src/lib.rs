//! The store: ports ([`EventLog`], [`Leases`], [`Runs`], [`Documents`], [`Projects`], [`Operations`]) and two
//! adapters, [`postgres`] and [`embedded`] SQLite.
//!
//! Text that Postgres cannot hold (the NUL character) is replaced by U+FFFD on its way into either adapter, so that
//! no input can make a log unwritable and both stores hold the same.

mod batch;
mod cells;
pub mod embedded;
pub mod error;
pub mod ports;
pub mod postgres;
mod rows;
mod schema;
mod text;

pub use cells::Row;
pub use error::StoreError;
pub use ports::*;

/// Rows of runs that have not ended: the condition of the index `tree_agent_runs_live`, word for word. A database takes a
/// partial index only for a query that names its condition; without it "what is live" reads every run there ever was.
const LIVE: &str = "status IN ('queued', 'running', 'paused')";
