//! Memory of the driver for each live node: many runs whose leaves take long.

use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::json;
use tree_agent_contract::Budgets;

use crate::cluster::{Cluster, median, report};

/// Runs of 65 nodes of which one is at work and never answers, so that the calls of all runs fit a driver's limit.
const MODEL: &str = "scripted:fanout=64,depth=1,fail=hang";
const RUNS: usize = 80;
const NODES_PER_RUN: u64 = 65;

/// Sets of runs, one after the other; what each after the first adds is reported. The first pays for what only grows
/// once: buffers, and memory that the allocator keeps from the burst of creating them.
pub(crate) async fn run(cluster: &Cluster, repeat: usize) -> anyhow::Result<()> {
    let mut runs = start_runs(cluster).await?;
    let mut each = Vec::new();
    for _ in 0..repeat {
        let before = cluster.planner_memory();
        runs.extend(start_runs(cluster).await?);
        let grown = cluster.planner_memory().saturating_sub(before);
        each.push(grown as f64 / (RUNS as u64 * NODES_PER_RUN) as f64);
    }
    let live = runs.len() as u64 * NODES_PER_RUN;
    report("driver/memory", median(each), "bytes/live node", json!({"live_nodes": live, "repeat": repeat}));
    for run in &runs {
        cluster.cancel(run).await?;
    }
    cluster.quiet().await
}

/// Makes the runs and waits until all of their nodes are live.
async fn start_runs(cluster: &Cluster) -> anyhow::Result<Vec<String>> {
    let budgets = Budgets {
        max_depth: 1,
        max_steps_per_band: 64,
        max_children_per_node: 64,
        max_parallel_steps: 1,
        ..Budgets::default()
    };
    let mut runs = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        runs.push(cluster.create(MODEL, &budgets).await?.run_id);
    }
    let patience = Instant::now() + Duration::from_secs(120);
    loop {
        let mut nodes = 0;
        for run in &runs {
            nodes += cluster.get(run).await?.node_count;
        }
        if nodes == RUNS as u64 * NODES_PER_RUN {
            return Ok(runs);
        }
        ensure!(Instant::now() < patience, "only {nodes} nodes are live after 120 s");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
