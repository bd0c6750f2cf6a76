//! Memory of the driver for each live run and each further live node. The only call of these runs never answers.

use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::json;
use tree_agent_contract::Budgets;

use crate::cluster::{Cluster, median, report};

/// Leaves of a wide run, of which one is at work.
const LEAVES: u32 = 256;
/// Runs of one set. All sets together, and their calls, stay within the limits of one driver.
const RUNS: usize = 80;
/// Time for background work after a run has settled.
const SETTLE: Duration = Duration::from_millis(500);

/// Measures what sets of runs of one node, then sets of runs of 257 nodes, add to the driver. The first set of a kind
/// absorbs one-time growth, such as buffers.
pub(crate) async fn run(cluster: &Cluster, repeat: usize) -> anyhow::Result<()> {
    let mut runs = Vec::new();
    let alone = bytes_per_run(cluster, 0, repeat, &mut runs).await?;
    let wide = bytes_per_run(cluster, LEAVES, repeat, &mut runs).await?;
    let more = |nodes: u32| json!({"nodes_per_run": nodes, "runs": repeat * RUNS, "repeat": repeat});
    report("driver/memory of a run", alone, "bytes/live run", more(1));
    let node = (wide - alone) / f64::from(LEAVES);
    report("driver/memory of a node", node, "bytes/live node", more(LEAVES + 1));
    for run in &runs {
        cluster.cancel(run).await?;
    }
    cluster.quiet().await
}

/// What one more run adds, in bytes: the median of the slopes between any two sets (Theil-Sen), because an allocator
/// takes and returns memory in large steps.
async fn bytes_per_run(
    cluster: &Cluster,
    leaves: u32,
    repeat: usize,
    runs: &mut Vec<String>,
) -> anyhow::Result<f64> {
    let mut levels = Vec::with_capacity(repeat + 1);
    for _ in 0..=repeat {
        runs.extend(start_runs(cluster, leaves).await?);
        levels.push(settled(cluster).await as f64);
    }
    let pairs = (0..levels.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
    Ok(median(pairs.map(|(a, b)| (levels[b] - levels[a]) / ((b - a) * RUNS) as f64).collect()))
}

async fn settled(cluster: &Cluster) -> u64 {
    tokio::time::sleep(SETTLE).await;
    cluster.planner_memory()
}

/// Creates the runs one after the other, each when the previous one has settled. The allocator would keep what a burst
/// of new runs needs for a moment, which would distort the memory of live nodes.
async fn start_runs(cluster: &Cluster, leaves: u32) -> anyhow::Result<Vec<String>> {
    let depth = leaves.min(1);
    let budgets = Budgets {
        max_depth: depth,
        max_steps_per_band: LEAVES,
        max_children_per_node: LEAVES,
        max_parallel_steps: 1,
        ..Budgets::default()
    };
    let model = format!("scripted:fanout={LEAVES},depth={depth},fail=hang");
    let expected = u64::from(leaves) + 1;
    let mut runs = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let run = cluster.create(&model, &budgets).await?.run_id;
        let patience = Instant::now() + Duration::from_secs(30);
        loop {
            let nodes = cluster.get(&run).await?.node_count;
            if nodes == expected {
                break;
            }
            ensure!(
                Instant::now() < patience,
                "only {nodes} of {expected} nodes of {run} are live after 30 s"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        runs.push(run);
    }
    Ok(runs)
}
