//! The cost of an event as one run grows: flat is the aim.

use anyhow::{Context, ensure};
use serde_json::json;
use tree_agent_contract::Budgets;
use tree_agent_proto::v1 as pb;

use crate::cluster::{Cluster, report};

/// 1 + 96 + 96 × 96 nodes, somewhat more than 100,000 events.
const MODEL: &str = "scripted:fanout=96,depth=2,result_bytes=100";

pub(crate) async fn run(cluster: &Cluster) -> anyhow::Result<()> {
    let budgets = Budgets {
        max_depth: 2,
        max_steps_per_band: 96,
        max_children_per_node: 96,
        max_parallel_steps: 16,
        max_nodes: 100_000,
        ..Budgets::default()
    };
    let run = cluster.create(MODEL, &budgets).await?;
    let mut stream = cluster
        .client()
        .watch_run(pb::WatchRunRequest { run_id: run.run_id, after_seq: 0, snapshot: false })
        .await?
        .into_inner();
    let mut times = Vec::new();
    while let Some(message) = stream.message().await? {
        if let Some(pb::watch_run_response::Message::Event(event)) = message.message {
            let at = event.timestamp.context("every event has a time")?;
            times.push(at.seconds as f64 * 1e6 + f64::from(at.nanos) / 1e3);
        }
    }
    ensure!(times.len() > 100_000, "the run has only {} events", times.len());
    for (name, from, to) in [("1k", 100, 1_000), ("10k", 9_000, 10_000), ("100k", 90_000, 100_000)] {
        let each = (times[to] - times[from]) / (to - from) as f64;
        report(
            &format!("growth/{name}"),
            each,
            "µs/event",
            json!({"window": [from, to], "events": times.len()}),
        );
    }
    Ok(())
}
