//! The command line of the planner service.

use clap::Args;
use tree_agent_driver::{CommitConfig, DriverConfig};
use tree_agent_runtime::config::Problems;

use crate::Peers;

/// How runs are driven, and where the roles are.
#[derive(Clone, Debug, Args)]
pub struct DriverArgs {
    /// URLs of planners, separated by commas.
    #[arg(long, env = "TREE_AGENT_PLANNERS", value_name = "URLS", default_value = "http://127.0.0.1:7401")]
    pub planners: String,
    /// URLs of executors, separated by commas.
    #[arg(long, env = "TREE_AGENT_EXECUTORS", value_name = "URLS", default_value = "http://127.0.0.1:7402")]
    pub executors: String,
    /// URLs of aggregators, separated by commas.
    #[arg(
        long,
        env = "TREE_AGENT_AGGREGATORS",
        value_name = "URLS",
        default_value = "http://127.0.0.1:7403"
    )]
    pub aggregators: String,
    /// Milliseconds that a lease lasts without renewal: the longest that a run waits after its driver died.
    #[arg(long, env = "TREE_AGENT_LEASE_MS", value_name = "MS", default_value = "5000")]
    pub lease_ms: String,
    /// Runs driven at the same time.
    #[arg(long, env = "TREE_AGENT_MAX_RUNS", value_name = "N", default_value = "1000")]
    pub max_runs: String,
    /// Role calls in flight at the same time.
    #[arg(long, env = "TREE_AGENT_MAX_CALLS", value_name = "N", default_value = "512")]
    pub max_calls: String,
    /// Appends in flight at the same time.
    #[arg(long, env = "TREE_AGENT_COMMIT_LANES", value_name = "N", default_value = "2")]
    pub commit_lanes: String,
}

impl DriverArgs {
    /// Checks the arguments; what is wrong is noted in `problems`. `owner` names this process in leases.
    pub fn check(&self, owner: String, problems: &mut Problems) -> (DriverConfig, Peers) {
        let mut driver = DriverConfig::new(owner);
        let lease = problems.number("TREE_AGENT_LEASE_MS", &self.lease_ms, 300..=600_000);
        driver.lease = std::time::Duration::from_millis(lease);
        driver.max_runs = problems.number("TREE_AGENT_MAX_RUNS", &self.max_runs, 1..=100_000) as usize;
        driver.max_calls = problems.number("TREE_AGENT_MAX_CALLS", &self.max_calls, 1..=100_000) as usize;
        let lanes = problems.number("TREE_AGENT_COMMIT_LANES", &self.commit_lanes, 1..=64) as usize;
        driver.commit = CommitConfig { lanes, ..CommitConfig::default() };
        let peers = Peers {
            planners: problems.urls("TREE_AGENT_PLANNERS", &self.planners),
            executors: problems.urls("TREE_AGENT_EXECUTORS", &self.executors),
            aggregators: problems.urls("TREE_AGENT_AGGREGATORS", &self.aggregators),
        };
        (driver, peers)
    }
}
