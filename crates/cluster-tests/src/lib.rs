//! A cluster of real processes on loopback, for tests: a private Postgres, a private Redis, and any number of
//! replicas of each service, which tests kill, stop and restart.
//!
//! [`Cluster::start`] starts one. [`Follower`] collects a run's events through every failure and checks that each
//! comes once and in order. [`History`] checks a finished log against the guarantees. Nothing waits for a fixed time:
//! [`eventually`] and [`Follower::until`] wait for conditions, within a time limit.
//!
//! The service programs are in the folder of the test program, so they must be built first. `cargo test --workspace`
//! builds them.

mod cluster;
mod crowd;
mod follow;
mod history;
mod process;
mod programs;
mod relay;

use std::time::Duration;

pub use cluster::{Cluster, Options};
pub use crowd::{Crowd, Watched};
pub use follow::Follower;
pub use history::History;
pub use process::{Process, Signal};
pub use programs::program;
pub use relay::HostileRelay;

/// Time limit, on a busy machine, for a condition that becomes true at once if nothing is broken.
pub const SOON: Duration = Duration::from_secs(60);

/// Polls until `condition` holds.
///
/// # Panics
/// If it does not hold within `limit`.
pub async fn eventually(what: &str, limit: Duration, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + limit;
    while !condition().await {
        assert!(tokio::time::Instant::now() < deadline, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
