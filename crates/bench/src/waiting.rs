//! Many runs that wait for slow models, which is the load that users have: how long all of them take, how many permits
//! are in use, how early the mean run ends, and how long a small run waits beside a very wide one.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::future::try_join_all;
use serde_json::json;
use tree_agent_contract::Budgets;
use tree_agent_proto::v1 as pb;

use crate::cluster::{Cluster, report};

/// Role calls in flight of one planner, by default.
const PERMITS: u64 = 2_048;
/// A tree of fan-out 4 and depth 3: 85 nodes that are planned, 64 leaves, and 21 nodes that are aggregated.
const CALLS: u64 = 170;
/// The last calls of a run follow each other, so the permits are not in use for as many calls before the end.
const TAIL: u64 = 7;

pub(crate) async fn run(cluster: &Cluster, quick: bool) -> anyhow::Result<()> {
    many_runs(cluster, if quick { 20 } else { 600 }, if quick { 200 } else { 5_000 }).await?;
    beside_a_wide_run(cluster, if quick { 20 } else { 250 }, if quick { 200 } else { 5_000 }).await
}

async fn many_runs(cluster: &Cluster, count: usize, latency_ms: u64) -> anyhow::Result<()> {
    let model = format!("scripted:fanout=4,depth=3,latency_ms={latency_ms}");
    let budgets = Budgets { max_depth: 4, ..Budgets::default() };
    let mut in_use = Vec::new();
    let pause = Duration::from_millis(latency_ms / 5);
    let made = tokio::select! {
        made = cluster.complete(&model, &budgets, count, count) => made?,
        failed = sample(cluster, pause, &mut in_use) => return failed,
    };
    let runs = try_join_all(made.iter().map(|run| cluster.get(run))).await?;
    cluster.totals(&made).await?;
    let begun = runs.iter().map(|run| seconds(run.created_at)).fold(f64::INFINITY, f64::min);
    let ends: Vec<f64> = runs.iter().map(|run| seconds(run.ended_at) - begun).collect();
    let total = ends.iter().copied().fold(0.0, f64::max);
    let mean = ends.iter().sum::<f64>() / ends.len() as f64;
    let calls = count as u64 * CALLS;
    let permits = PERMITS * cluster.planners() as u64;
    let ideal = (calls * latency_ms) as f64 / 1e3 / permits.min(calls) as f64;
    let more = json!({"runs": count, "call_ms": latency_ms, "calls": calls, "permits": permits});
    let mut of_ideal = more.clone();
    of_ideal["baseline"] = json!((ideal * 10.0).round() / 10.0);
    of_ideal["ratio"] = json!((total / ideal * 1e3).round() / 1e3);
    report("slow models/all runs", total, "s", of_ideal);
    report("slow models/mean completion", mean / total, "of the total", more.clone());
    in_use.truncate(in_use.len().saturating_sub(5 * TAIL as usize).max(1));
    let share = in_use.iter().sum::<f64>() / (in_use.len() as f64 * permits as f64);
    report("slow models/permits in use until the last seven calls", share, "of all permits", more);
    Ok(())
}

/// Notes how many role calls are in flight, again and again.
async fn sample(cluster: &Cluster, pause: Duration, in_use: &mut Vec<f64>) -> anyhow::Result<()> {
    loop {
        in_use.push(cluster.calls_in_flight().await?);
        tokio::time::sleep(pause).await;
    }
}

/// A run of one node, alone and beside a run whose leaves are all due at once.
async fn beside_a_wide_run(cluster: &Cluster, width: u32, latency_ms: u64) -> anyhow::Result<()> {
    let one = format!("scripted:depth=0,latency_ms={latency_ms}");
    let small = Budgets { max_depth: 0, ..Budgets::default() };
    let alone = timed(cluster, &one, &small).await?;
    let budgets = Budgets {
        max_depth: 2,
        max_steps_per_band: width,
        max_children_per_node: width,
        max_parallel_steps: width,
        max_nodes: width * (width + 1) + 1,
        ..Budgets::default()
    };
    let wide =
        cluster.create(&format!("scripted:fanout={width},depth=2,latency_ms={latency_ms}"), &budgets).await?;
    let expected = u64::from(budgets.max_nodes);
    let patience = Instant::now() + Duration::from_secs(600);
    loop {
        let nodes = cluster.get(&wide.run_id).await?.node_count;
        if nodes == expected {
            break;
        }
        ensure!(Instant::now() < patience, "only {nodes} of {expected} nodes exist after 10 min");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let beside = timed(cluster, &one, &small).await?;
    cluster.cancel(&wide.run_id).await?;
    cluster.quiet().await?;
    let ratio = (beside / alone * 1e3).round() / 1e3;
    let more = json!({
        "baseline": alone, "ratio": ratio, "call_ms": latency_ms, "calls_due": u64::from(width) * u64::from(width),
    });
    report("slow models/one node beside a wide run", beside, "s", more);
    Ok(())
}

/// Seconds from the creation of a run to its end.
async fn timed(cluster: &Cluster, model: &str, budgets: &Budgets) -> anyhow::Result<f64> {
    let run = cluster.complete_one(model, budgets).await?;
    let run = cluster.get(&run).await?;
    ensure!(run.status() == pb::RunStatus::Completed, "run {} ended as {:?}", run.run_id, run.status());
    run.ended_at.context("an ended run has an end")?;
    Ok(seconds(run.ended_at) - seconds(run.created_at))
}

fn seconds(at: Option<prost_types::Timestamp>) -> f64 {
    at.map(|at| at.seconds as f64 + f64::from(at.nanos) / 1e9).unwrap_or_default()
}
