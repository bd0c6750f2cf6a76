//! 20,000 live runs on two planners, each with a call that stays open: how soon all of them are at work, what they
//! hold, and what they cost while nothing happens.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::json;
use tokio_postgres::Client;
use tree_agent_contract::Budgets;

use crate::cluster::{Cluster, report};
use crate::raw;

/// Creations in flight.
const CREATORS: usize = 64;
/// How long the runs are left alone. It is longer than several leases.
const REST: Duration = Duration::from_secs(60);

/// The runs that are at work, and the sums that show whether any of them moved.
#[derive(Debug, PartialEq, Eq)]
struct AtWork {
    runs: i64,
    /// Grows when a run changes its planner.
    epochs: i64,
    /// Grows when a run writes an event, for example because a call was made again.
    events: i64,
}

pub(crate) async fn run(cluster: &Cluster, quick: bool) -> anyhow::Result<()> {
    let (runs, rest) = if quick { (200, Duration::from_secs(5)) } else { (20_000, REST) };
    ensure!(cluster.planners() >= 2, "live needs two planners: REPLICAS=2 make cluster");
    let database = raw::connect().await?;
    // One planner after the other may restart its calls at their deadline; none may during the measurement.
    let budgets = Budgets { max_depth: 0, call_timeout_ms: 1_800_000, ..Budgets::default() };
    let before = cluster.planner_memory();
    let begun = Instant::now();
    stream::iter(0..runs)
        .map(|_| cluster.create("scripted:depth=0,fail=hang", &budgets))
        .buffer_unordered(CREATORS)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    let created = begun.elapsed().as_secs_f64();
    let settled = settled(&database, runs).await?;
    let all = begun.elapsed().as_secs_f64();
    let memory = cluster.planner_memory().saturating_sub(before) as f64 / f64::from(runs);
    let cpu = cluster.cpu_seconds();
    tokio::time::sleep(rest).await;
    let after = at_work(&database).await?;
    ensure!(after == settled, "the runs did not rest: {settled:?} became {after:?}");
    let cpu_of = |part: &str| {
        let used = cluster.cpu_seconds().get(part).copied().unwrap_or_default();
        (used - cpu.get(part).copied().unwrap_or_default()) / rest.as_secs_f64() * 1e3
    };
    let more =
        json!({"runs": runs, "planners": cluster.planners(), "created_s": (created * 10.0).round() / 10.0});
    report("live runs/all have an open call", all, "s", more.clone());
    report("live runs/memory of the planners", memory, "bytes/live run", more.clone());
    report("live runs/planners at rest", cpu_of("PLANNER"), "ms CPU/s", more.clone());
    report("live runs/database at rest", cpu_of("POSTGRES"), "ms CPU/s", more);
    Ok(())
}

/// Waits until every run has written that its call began, and nothing moves any more.
async fn settled(database: &Client, runs: u32) -> anyhow::Result<AtWork> {
    let patience = Instant::now() + Duration::from_secs(300);
    let mut last = at_work(database).await?;
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = at_work(database).await?;
        if now.runs == i64::from(runs) && now == last {
            return Ok(now);
        }
        ensure!(Instant::now() < patience, "only {} of {runs} runs are at work after 300 s", now.runs);
        last = now;
    }
}

/// Runs that a planner owns and whose root is executing.
async fn at_work(database: &Client) -> anyhow::Result<AtWork> {
    let row = database
        .query_one(
            "SELECT count(*), coalesce(sum(r.epoch), 0)::bigint, coalesce(sum(r.head_seq), 0)::bigint \
             FROM tree_agent_runs r JOIN tree_agent_nodes n ON n.run_id = r.id AND n.id = r.root_node_id \
             WHERE r.status = 'running' AND r.lease_owner IS NOT NULL AND n.status = 'executing'",
            &[],
        )
        .await
        .context("the runs at work")?;
    Ok(AtWork { runs: row.get(0), epochs: row.get(1), events: row.get(2) })
}
