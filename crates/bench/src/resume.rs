//! How fast a long log is read again: by a late watcher, in pages, and by a driver that takes the run over.

use std::time::Instant;

use anyhow::{Context, ensure};
use serde_json::json;
use tree_agent_contract::RunId;
use tree_agent_engine::Run;
use tree_agent_proto::v1 as pb;
use tree_agent_store::EventLog;
use tree_agent_store::postgres::{PoolConfig, PostgresStore};

use crate::cluster::{Cluster, median, report};
use crate::fanout::Connection;

/// Events of one read of the driver.
const PAGE: usize = 5_000;

/// Reads the log of `run_id`, which has ended, from its first event to its last.
pub(crate) async fn run(cluster: &Cluster, run_id: &str, repeat: usize) -> anyhow::Result<()> {
    let (mut watched, mut listed, mut driven) = (Vec::new(), Vec::new(), Vec::new());
    let events = cluster.get(run_id).await?.head_seq;
    for _ in 0..repeat {
        watched.push(events as f64 / watch(run_id, events).await?);
        listed.push(events as f64 / list(cluster, run_id, events).await?);
        driven.push(take_over(run_id, events).await?);
    }
    let more = json!({"events": events, "repeat": repeat});
    report("resume/WatchRun", median(watched), "events/s", more.clone());
    report("resume/ListEvents", median(listed), "events/s", more.clone());
    let seconds = median(driven);
    report("resume/driver", events as f64 / seconds, "events/s", more);
    report("resume/driver, whole run", seconds, "s", json!({"events": events, "repeat": repeat}));
    Ok(())
}

/// Seconds until a watcher that begins with the first event has received all of them.
async fn watch(run_id: &str, events: u64) -> anyhow::Result<f64> {
    let connection = Connection::open().await?;
    let begun = Instant::now();
    let mut messages = connection.watch(run_id, 0).await?;
    let mut heard = 0;
    while let Some(kind) = messages.next_kind().await? {
        heard += u64::from(kind == 0x0a);
    }
    ensure!(heard == events, "a watcher heard {heard} of {events} events");
    Ok(begun.elapsed().as_secs_f64())
}

async fn list(cluster: &Cluster, run_id: &str, events: u64) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let (mut listed, mut page_token) = (0, String::new());
    loop {
        let request = pb::ListEventsRequest {
            run_id: run_id.to_owned(),
            page_size: 1_000,
            page_token,
            ..Default::default()
        };
        let page = cluster.client().list_events(request).await?.into_inner();
        listed += page.events.len() as u64;
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    ensure!(listed == events, "{listed} of {events} events were listed");
    Ok(begun.elapsed().as_secs_f64())
}

/// Seconds until a driver that claims the run knows its state: read, parsed and replayed.
async fn take_over(run_id: &str, events: u64) -> anyhow::Result<f64> {
    let url = std::env::var("TREE_AGENT_DATABASE_URL").context("TREE_AGENT_DATABASE_URL is not set")?;
    let store = PostgresStore::connect(&url, PoolConfig::default()).await?;
    let id: RunId = run_id.parse().map_err(|e| anyhow::anyhow!("{e}"))?;
    let begun = Instant::now();
    let mut run: Option<Run> = None;
    loop {
        let page = store.read(id, run.as_ref().map_or(0, |r| r.graph().seq()), PAGE).await?;
        if page.is_empty() {
            break;
        }
        for event in &page {
            match &mut run {
                Some(run) => run.apply(event)?,
                None => run = Some(Run::begin(event)?),
            }
        }
    }
    let run = run.context("a log")?;
    ensure!(run.graph().seq() == events, "the replay ended at event {}", run.graph().seq());
    Ok(begun.elapsed().as_secs_f64())
}
