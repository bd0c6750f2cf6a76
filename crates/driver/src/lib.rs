//! The driver: the loop round the engine.
//!
//! A [`Driver`] claims runs, and drives each in a task of its own: replay the log, hand inputs to the engine, write
//! what it decides (group commit), publish it, make the role calls that are due. Everything that a driver holds in
//! memory can be lost at any moment: its successor replays the log and goes on.
//!
//! Order, always: persist, then publish, then act on it.

mod commit;
mod driver;
mod grpc_roles;
mod health;
mod metrics;
mod roles;
mod task;

pub use commit::{CommitConfig, CommitStats};
pub use driver::{Driver, DriverConfig, DriverStats};
pub use grpc_roles::GrpcRoles;
pub use health::DriverHealth;
pub use roles::{Clock, Heard, NotHeard, Roles, SystemClock, Updates};
