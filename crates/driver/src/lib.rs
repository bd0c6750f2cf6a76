//! The driver: the loop around the engine.
//!
//! A [`Driver`] claims runs and drives each in its own task: it replays the log, passes inputs to the engine, writes
//! the decisions (group commit), publishes them, and makes the role calls that are due. Everything that a driver holds
//! in memory can be lost at any moment: its successor replays the log and continues.
//!
//! The order is always: persist, then publish, then act.

mod claims;
mod commit;
mod config;
mod driver;
mod failure;
mod fleet;
mod grpc_roles;
mod health;
mod inbox;
mod leases;
mod metrics;
mod parts;
mod progress;
mod publish;
mod quarantine;
mod renewal;
mod roles;
mod scheduler;
mod task;
mod wakeups;

pub use commit::{CommitConfig, CommitStats};
pub use config::{DriverConfig, DriverStats};
pub use driver::Driver;
pub use grpc_roles::GrpcRoles;
pub use health::DriverHealth;
pub use roles::{Clock, ReceiverClosed, Roles, SystemClock, UpdateReceiver, Updates};
