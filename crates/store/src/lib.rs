//! The store: ports ([`EventLog`], [`Leases`], [`Runs`], [`RunLists`], [`Documents`], [`Passages`], [`Vectors`],
//! [`Projects`], [`Operations`]) and two adapters, [`postgres`] and [`embedded`] SQLite.
//!
//! Text that Postgres cannot hold (the NUL character) is replaced by U+FFFD on its way into either adapter, so that
//! no input can make a log unwritable and both stores hold the same.

mod batch;
mod cells;
mod chunks;
mod document_writes;
pub mod embedded;
pub mod error;
mod logic;
pub mod ports;
pub mod postgres;
mod rows;
mod schema;
mod text;
mod types;
mod vector_cache;

pub use cells::Row;
pub use error::StoreError;
pub use logic::passages::text_hash;
pub use ports::*;
pub use text::clean as storable;
pub use vector_cache::{ProjectVectors, VectorCache};

/// The condition for rows of runs that have not ended, word for word that of the index `tree_agent_runs_live`. A
/// database uses a partial index only if the query contains its condition. Without the index, listing live runs reads
/// every run.
const LIVE: &str = "status IN ('queued', 'running', 'paused')";
