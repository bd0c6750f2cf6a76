//! The delay from the driver's decision to the client: commit, publish, gateway and stream together, at a steady rate
//! of about 500 events per second.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use serde_json::json;
use tree_agent_contract::Budgets;
use tree_agent_proto::v1 as pb;

use crate::cluster::{Cluster, median, quantile, report};

/// Each call takes 95 ms, which gives about 500 events a second.
const MODEL: &str = "scripted:fanout=8,depth=2,latency_ms=95,result_bytes=500";

pub(crate) async fn run(cluster: &Cluster, repeat: usize) -> anyhow::Result<()> {
    let budgets =
        Budgets { max_depth: 2, max_steps_per_band: 8, max_parallel_steps: 3, ..Budgets::default() };
    let (mut p50, mut p99, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..repeat {
        let run = cluster.create(MODEL, &budgets).await?;
        let request =
            pb::WatchRunRequest { run_id: run.run_id, after_seq: run.head_seq, ..Default::default() };
        let mut stream = cluster.client().watch_run(request).await?.into_inner();
        let begun = Instant::now();
        let mut waits = Vec::new();
        while let Some(message) = stream.message().await? {
            if let Some(pb::watch_run_response::Message::Event(event)) = message.message {
                let at = event.timestamp.context("every event has a time")?;
                let decided = Duration::new(at.seconds as u64, at.nanos as u32);
                let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
                waits.push(now.saturating_sub(decided).as_secs_f64() * 1e3);
            }
        }
        rates.push(waits.len() as f64 / begun.elapsed().as_secs_f64());
        waits.sort_by(f64::total_cmp);
        p50.push(quantile(&waits, 0.5));
        p99.push(quantile(&waits, 0.99));
    }
    let more = json!({"repeat": repeat, "events_per_second": median(rates).round()});
    report("watch/p50", median(p50), "ms", more.clone());
    report("watch/p99", median(p99), "ms", more);
    Ok(())
}
