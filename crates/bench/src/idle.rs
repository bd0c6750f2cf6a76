//! Memory of the gateway for each idle subscriber. The baseline is an idle stream of the simplest service, which shows
//! what HTTP/2 and the server need by themselves.

use serde_json::json;

use crate::cluster::{Cluster, report};
use crate::fanout::{Connection, Messages};

/// Streams of one connection.
const STREAMS: usize = 100;

pub(crate) async fn run(cluster: &Cluster, quick: bool) -> anyhow::Result<()> {
    let subscribers = if quick { 1_000 } else { 10_000 };
    let run = cluster.quiet_run().await?;
    // Warm up, so that one-time growth is not counted.
    let warm = open(STREAMS, &run.run_id, run.head_seq, true).await?;
    let also_warm = open(STREAMS, &run.run_id, run.head_seq, false).await?;
    let empty = cluster.gateway_memory();
    let plain = open(subscribers, &run.run_id, run.head_seq, false).await?;
    let with_plain = cluster.gateway_memory();
    let watching = open(subscribers, &run.run_id, run.head_seq, true).await?;
    let with_watching = cluster.gateway_memory();
    let each = |after: u64, before: u64| after.saturating_sub(before) as f64 / subscribers as f64;
    let (value, baseline) = (each(with_watching, with_plain), each(with_plain, empty));
    let more = json!({
        "baseline": baseline.round(), "beyond_baseline": (value - baseline).round(), "subscribers": subscribers,
    });
    report("idle subscriber", value, "bytes", more);
    drop((warm, also_warm, plain, watching));
    cluster.cancel(&run.run_id).await
}

/// Opens `count` streams and waits for the first message of each.
async fn open(
    count: usize,
    run_id: &str,
    head: u64,
    watch: bool,
) -> anyhow::Result<Vec<(Connection, Vec<Messages>)>> {
    let mut connections = Vec::new();
    for _ in 0..count.div_ceil(STREAMS) {
        let connection = Connection::open().await?;
        let mut streams = Vec::with_capacity(STREAMS);
        for _ in 0..STREAMS {
            let mut messages = match watch {
                true => connection.watch(run_id, head).await?,
                false => connection.watch_health().await?,
            };
            anyhow::ensure!(messages.next_kind().await?.is_some(), "a stream ended at once");
            streams.push(messages);
        }
        connections.push((connection, streams));
    }
    Ok(connections)
}
