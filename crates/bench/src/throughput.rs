//! Nodes and events a second, and processor time a node, of the scripted zero-latency tree: root, fan-out 4, depth 3,
//! 85 nodes, 106 durable steps, results of about 500 bytes.

use std::time::Instant;

use serde_json::json;
use tree_agent_contract::Budgets;

use crate::cluster::{Cluster, median, report};

const MODEL: &str = "scripted:fanout=4,depth=3,result_bytes=500";

pub(crate) async fn run(cluster: &Cluster, repeat: usize) -> anyhow::Result<()> {
    let budgets = Budgets { max_depth: 3, ..Budgets::default() };
    cluster.complete(MODEL, &budgets, 16, 16).await?;
    for (name, count, parallel) in [("one-run", 1, 1), ("fifty-runs", 50, 16)] {
        let (mut nodes, mut events, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
        let mut parts = std::collections::BTreeMap::<&str, Vec<f64>>::new();
        for _ in 0..repeat {
            let before = cluster.cpu_seconds();
            let begun = Instant::now();
            let totals = cluster.complete(MODEL, &budgets, count, parallel).await?;
            let seconds = begun.elapsed().as_secs_f64();
            let after = cluster.cpu_seconds();
            let made = totals.nodes as f64;
            nodes.push(made / seconds);
            events.push(totals.events as f64 / seconds);
            let mut sum = 0.0;
            for (part, end) in after {
                let used = (end - before[part]) * 1e3 / made;
                parts.entry(part).or_default().push(used);
                sum += used;
            }
            cpu.push(sum);
        }
        report(&format!("{name}/nodes"), median(nodes), "nodes/s", json!({"repeat": repeat}));
        report(&format!("{name}/events"), median(events), "events/s", json!({"repeat": repeat}));
        if count > 1 {
            let parts: serde_json::Map<_, _> = parts
                .into_iter()
                .map(|(part, used)| (part.to_lowercase(), json!((median(used) * 1e4).round() / 1e4)))
                .collect();
            report(
                &format!("{name}/cpu"),
                median(cpu),
                "ms CPU/node",
                json!({"repeat": repeat, "parts": parts}),
            );
        }
    }
    Ok(())
}
