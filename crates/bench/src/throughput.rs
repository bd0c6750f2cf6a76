//! Nodes and events per second, and processor time, of the scripted zero-latency tree: root, fan-out 4, depth 3, 85
//! nodes, 106 durable steps, results of about 500 bytes. The raw limit of the same Postgres is measured in turn.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::json;
use tree_agent_contract::Budgets;

use crate::cluster::{Cluster, median, report};
use crate::raw;

const MODEL: &str = "scripted:fanout=4,depth=3,result_bytes=500";

/// The measurements of each repetition.
#[derive(Default)]
struct Measured {
    nodes: Vec<f64>,
    events: Vec<f64>,
    raw: Vec<f64>,
    /// Microseconds of processor time, per part, for each node and for each event.
    per_node: BTreeMap<&'static str, Vec<f64>>,
    per_event: BTreeMap<&'static str, Vec<f64>>,
}

pub(crate) async fn run(cluster: &Cluster, repeat: usize, quick: bool) -> anyhow::Result<()> {
    let budgets = Budgets { max_depth: 3, ..Budgets::default() };
    let warm = cluster.complete(MODEL, &budgets, 16, 16).await?;
    let recorded = warm.last().context("sixteen runs")?;
    let raw_time = Duration::from_millis(if quick { 300 } else { 1_500 });
    for (name, count, parallel) in [("one-run", 1, 1), ("fifty-runs", 50, 16)] {
        let mut measured = Measured::default();
        for _ in 0..repeat {
            measured.raw.push(raw::events_per_second(recorded, raw_time).await?);
            let before = cluster.cpu_seconds();
            let begun = Instant::now();
            let runs = match count {
                // It takes about 30 ms, so polling for its end would distort the measurement.
                1 => vec![cluster.complete_one(MODEL, &budgets).await?],
                _ => cluster.complete(MODEL, &budgets, count, parallel).await?,
            };
            let (seconds, after) = (begun.elapsed().as_secs_f64(), cluster.cpu_seconds());
            // Asking how each run ended is not part of the measured time.
            let totals = cluster.totals(&runs).await?;
            measured.nodes.push(totals.nodes as f64 / seconds);
            measured.events.push(totals.events as f64 / seconds);
            for (part, end) in after {
                let used = (end - before[part]) * 1e6;
                measured.per_node.entry(part).or_default().push(used / totals.nodes as f64);
                measured.per_event.entry(part).or_default().push(used / totals.events as f64);
            }
        }
        let Measured { nodes, events, raw, per_node, per_event } = measured;
        report(&format!("{name}/nodes"), median(nodes), "nodes/s", json!({"repeat": repeat}));
        let (events, raw) = (median(events), median(raw));
        let ratio = (events / raw * 1e3).round() / 1e3;
        let more = json!({"baseline": raw.round(), "ratio": ratio, "repeat": repeat});
        report(&format!("{name}/events"), events, "events/s", more);
        if count > 1 {
            cpu(&format!("{name}/cpu"), "ms CPU/node", per_node, 1e3, repeat);
            cpu(&format!("{name}/cpu per event"), "µs CPU/event", per_event, 1.0, repeat);
        }
    }
    Ok(())
}

/// Reports processor time in microseconds over `scale`: the sum of all parts, and each part.
fn cpu(name: &str, unit: &str, parts: BTreeMap<&'static str, Vec<f64>>, scale: f64, repeat: usize) {
    let parts: BTreeMap<_, _> = parts.into_iter().map(|(part, used)| (part, median(used) / scale)).collect();
    let sum = parts.values().sum();
    let shown: serde_json::Map<_, _> = parts
        .into_iter()
        .map(|(part, used)| (part.to_lowercase(), json!((used * 1e4).round() / 1e4)))
        .collect();
    report(name, sum, unit, json!({"repeat": repeat, "parts": shown}));
}
