//! The command line of the planner service.

use clap::Args;
use tree_agent_driver::{CommitConfig, DriverConfig};
use tree_agent_runtime::channel::Connector;
use tree_agent_runtime::config::{Problems, RoleUrls, RolesArgs};

/// How runs are driven, and where the roles are.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Driver")]
pub struct DriverArgs {
    /// Milliseconds that a lease lasts without renewal: the longest that a run waits after its driver died.
    #[arg(long, env = "TREE_AGENT_LEASE_MS", value_name = "MS", default_value = "5000")]
    pub lease_ms: String,
    /// Runs driven at the same time.
    #[arg(long, env = "TREE_AGENT_MAX_RUNS", value_name = "N", default_value = "1000")]
    pub max_runs: String,
    /// Role calls in flight at the same time.
    #[arg(long, env = "TREE_AGENT_MAX_CALLS", value_name = "N", default_value = "2048")]
    pub max_calls: String,
    /// Appends in flight at the same time.
    #[arg(long, env = "TREE_AGENT_COMMIT_LANES", value_name = "N", default_value = "2")]
    pub commit_lanes: String,
    /// Where the roles are.
    #[command(flatten)]
    pub roles: RolesArgs,
}

impl DriverArgs {
    /// Checks the arguments. Problems are added to `problems`. `owner` names this process in leases, and `connector`
    /// sends the role token.
    pub fn check(
        &self,
        owner: String,
        connector: Connector,
        problems: &mut Problems,
    ) -> (DriverConfig, RoleUrls) {
        let mut driver = DriverConfig::new(owner);
        let lease = problems.number("TREE_AGENT_LEASE_MS", &self.lease_ms, 300..=600_000);
        driver.lease = std::time::Duration::from_millis(lease);
        driver.max_runs = problems.number("TREE_AGENT_MAX_RUNS", &self.max_runs, 1..=100_000) as usize;
        driver.max_calls = problems.number("TREE_AGENT_MAX_CALLS", &self.max_calls, 1..=100_000) as usize;
        let lanes = problems.number("TREE_AGENT_COMMIT_LANES", &self.commit_lanes, 1..=64) as usize;
        driver.commit = CommitConfig { lanes, ..CommitConfig::default() };
        (driver, self.roles.check(connector, problems))
    }
}
