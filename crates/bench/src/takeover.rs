//! `kill -9` of one of two planners that drive 1,000 live runs. Measures how long each of its runs waits for the other.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::json;
use tokio_postgres::Client;
use tree_agent_contract::Budgets;
use uuid::Uuid;

use crate::cluster::{Cluster, quantile, report};
use crate::raw;

/// Live runs whose calls take one second each, so that a run writes about every second.
const MODEL: &str = "scripted:fanout=60,depth=1,latency_ms=1000,result_bytes=100";

/// The head of a run and the planner that drives it.
struct RunPosition {
    epoch: i64,
    head: i64,
    owner: Option<String>,
}

pub(crate) async fn run(cluster: &Cluster, quick: bool) -> anyhow::Result<()> {
    let runs = if quick { 100 } else { 1_000 };
    ensure!(cluster.planners() >= 2, "takeover needs two planners: REPLICAS=2 make cluster");
    let budgets = Budgets {
        max_depth: 1,
        max_steps_per_band: 60,
        max_children_per_node: 60,
        max_parallel_steps: 1,
        ..Budgets::default()
    };
    let mut made = Vec::with_capacity(runs);
    for _ in 0..runs {
        made.push(cluster.create(MODEL, &budgets).await?.run_id);
    }
    let database = raw::connect().await?;
    let before = settled(&database, runs).await?;
    let (victim, held) = most_held(&before)?;
    let killed = Instant::now();
    cluster.kill_planner(&victim)?;
    let (mut claimed, mut moved) = (BTreeMap::new(), BTreeMap::new());
    let patience = Duration::from_secs(60);
    while moved.len() < held.len() {
        ensure!(
            killed.elapsed() < patience,
            "{} of {} runs were not taken over",
            held.len() - moved.len(),
            held.len()
        );
        let now = places(&database).await?;
        let waited = killed.elapsed().as_secs_f64();
        for (run, was) in &held {
            let Some(is) = now.get(run) else { continue };
            if is.epoch > was.epoch {
                // The head as the new driver found it. It wrote everything after that.
                let (_, found) = claimed.entry(*run).or_insert((waited, is.head));
                if is.head > *found {
                    moved.entry(*run).or_insert(waited);
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let more = json!({"runs": runs, "killed_planner_held": held.len(), "call_ms": 1_000});
    let claimed = claimed.into_values().map(|(waited, _)| waited).collect();
    for (name, mut waits) in [("claimed", claimed), ("next event", moved.into_values().collect::<Vec<f64>>())]
    {
        waits.sort_by(f64::total_cmp);
        for (label, share) in [("p50", 0.5), ("p99", 0.99)] {
            report(&format!("takeover, {name} {label}"), quantile(&waits, share), "s", more.clone());
        }
    }
    for run in &made {
        cluster.cancel(run).await?;
    }
    Ok(())
}

/// Waits until every run is held and at work.
async fn settled(database: &Client, runs: usize) -> anyhow::Result<BTreeMap<Uuid, RunPosition>> {
    let patience = Instant::now() + Duration::from_secs(600);
    loop {
        let places = places(database).await?;
        let at_work = places.values().filter(|p| p.owner.is_some() && p.head > 10).count();
        if at_work >= runs {
            return Ok(places);
        }
        ensure!(Instant::now() < patience, "only {at_work} of {runs} runs are at work");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn places(database: &Client) -> anyhow::Result<BTreeMap<Uuid, RunPosition>> {
    let rows = database
        .query(
            "SELECT id, epoch, head_seq, lease_owner FROM tree_agent_runs \
             WHERE status IN ('queued', 'running', 'paused')",
            &[],
        )
        .await?;
    let place = |row: &tokio_postgres::Row| {
        (row.get(0), RunPosition { epoch: row.get(1), head: row.get(2), owner: row.get(3) })
    };
    Ok(rows.iter().map(place).collect())
}

/// The planner that holds the most runs, and those runs.
fn most_held(places: &BTreeMap<Uuid, RunPosition>) -> anyhow::Result<(String, BTreeMap<Uuid, &RunPosition>)> {
    let mut by_owner: BTreeMap<&str, BTreeMap<Uuid, &RunPosition>> = BTreeMap::new();
    for (run, place) in places {
        if let Some(owner) = &place.owner {
            by_owner.entry(owner).or_default().insert(*run, place);
        }
    }
    let most = by_owner.into_iter().max_by_key(|(_, runs)| runs.len());
    most.map(|(owner, runs)| (owner.to_owned(), runs)).context("no planner holds a run")
}
