//! The cost of an event as one run grows. It should stay flat.

use anyhow::{Context, ensure};
use serde_json::json;
use tree_agent_contract::Budgets;
use tree_agent_proto::v1 as pb;

use crate::cluster::{Cluster, median, report};

/// 1 + 22 + 22² + 22³ nodes, some 126,000 events.
const MODEL: &str = "scripted:fanout=22,depth=3,result_bytes=100";

/// The parts of the log in which the cost of an event is measured. All events of a decision have the same time, and a
/// plan is one decision with many events, so a window must hold enough decisions.
const WINDOWS: [(&str, usize, usize); 3] =
    [("1k", 1_000, 3_000), ("10k", 8_000, 12_000), ("100k", 98_000, 102_000)];

/// Returns one of the runs. It has ended.
pub(crate) async fn run(cluster: &Cluster, repeat: usize) -> anyhow::Result<String> {
    let mut costs = [const { Vec::new() }; WINDOWS.len()];
    let mut last = String::new();
    let mut events = 0;
    for _ in 0..repeat {
        let (run_id, times) = grow(cluster).await?;
        (last, events) = (run_id, times.len());
        for ((_, from, to), costs) in WINDOWS.iter().zip(&mut costs) {
            costs.push((times[*to] - times[*from]) / (to - from) as f64);
        }
    }
    for ((name, from, to), costs) in WINDOWS.into_iter().zip(costs) {
        let more = json!({"window": format!("{from} to {to}"), "events": events, "repeat": repeat});
        report(&format!("growth/{name}"), median(costs), "µs/event", more);
    }
    Ok(last)
}

/// Grows one run to its end and returns the times of its events, in microseconds.
async fn grow(cluster: &Cluster) -> anyhow::Result<(String, Vec<f64>)> {
    let budgets = Budgets {
        max_depth: 3,
        max_steps_per_band: 22,
        max_children_per_node: 22,
        max_nodes: 100_000,
        ..Budgets::default()
    };
    let run_id = cluster.create(MODEL, &budgets).await?.run_id;
    let request = pb::WatchRunRequest { run_id: run_id.clone(), after_seq: 0, ..Default::default() };
    let mut stream = cluster.client().watch_run(request).await?.into_inner();
    let mut times = Vec::new();
    while let Some(message) = stream.message().await? {
        if let Some(pb::watch_run_response::Message::Event(event)) = message.message {
            let at = event.timestamp.context("every event has a time")?;
            times.push(at.seconds as f64 * 1e6 + f64::from(at.nanos) / 1e3);
        }
    }
    ensure!(times.len() > 102_000, "the run has only {} events", times.len());
    Ok((run_id, times))
}
