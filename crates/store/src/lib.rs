//! The store: ports ([`EventLog`], [`Leases`], [`Runs`], [`Documents`], [`Projects`], [`Operations`]) and two
//! adapters, Postgres and embedded SQLite.

pub mod error;
pub mod ports;

pub use error::StoreError;
pub use ports::*;
