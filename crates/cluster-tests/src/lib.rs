//! A cluster of real processes on loopback, for tests: a private Postgres, a private Redis, and any number of
//! replicas of each service, which tests kill, stop and start again.
//!
//! [`Cluster::start`] brings one up; [`Follower`] collects a run's events through every failure and checks that each
//! comes once and in order; [`History`] checks a finished log against the promises of the design. Nothing waits for a
//! fixed time: [`eventually`] and [`Follower::until`] wait for conditions, within a bound.
//!
//! The service programs are those beside the test's own, so they must be built: `cargo test --workspace` does.

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

/// How long a condition may take that becomes true at once when nothing is broken, on a machine with much to do.
pub const SOON: Duration = Duration::from_secs(60);

/// Asks again and again until `condition` holds.
///
/// # Panics
/// When it does not within `limit`.
pub async fn eventually(what: &str, limit: Duration, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + limit;
    while !condition().await {
        assert!(tokio::time::Instant::now() < deadline, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
