//! How long the write of a fork takes, for parents of different lengths, and what a hundred forks without new work add
//! to what their parent takes, on a durable Postgres.
//!
//! Prints one JSON object per line.

#![allow(missing_docs, clippy::print_stdout)]

use std::time::{Duration, Instant};

use deadpool_postgres::tokio_postgres::{self, NoTls};
use tree_agent_contract::event::{GuidanceAdded, RunCreated, RunForked};
use tree_agent_contract::{Event, EventBody, NodeId, RunId, RunSpec, RunStatus, Timestamp};
use tree_agent_store::postgres::{PoolConfig, PostgresStore};
use tree_agent_store::{
    AppendOutcome, EventLog, Forks, Leases, NewFork, NewRun, Projection, RunAppend, RunRow, Runs,
};
use tree_agent_testkit::services::PrivatePostgres;
use uuid::Uuid;

const FORKS: u128 = 100;
const LENGTHS: [u64; 2] = [1_000, 20_000];
const TABLES: [&str; 2] = ["tree_agent_runs", "tree_agent_events"];

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run())
}

async fn run() -> anyhow::Result<()> {
    let server = PrivatePostgres::start_durable()?;
    for length in LENGTHS {
        let url = server.create_database()?;
        PostgresStore::migrate(&url).await?;
        let store = PostgresStore::connect(&url, PoolConfig::default()).await?;
        let parent = parent(&store, length).await?;
        let before = bytes(&url).await?;
        let mut took = Vec::new();
        for n in 0..FORKS {
            let fork = fork(parent, length, n);
            let begun = Instant::now();
            store.fork_run(fork).await?;
            took.push(begun.elapsed());
        }
        took.sort_unstable();
        let added = bytes(&url).await? - before;
        println!(
            "{}",
            serde_json::json!({
                "bench": format!("fork/{length} events, write p50"),
                "value": took[took.len() / 2].as_secs_f64() * 1_000.0,
                "unit": "ms",
                "p95_ms": took[took.len() * 95 / 100].as_secs_f64() * 1_000.0,
                "parent_bytes": before,
                "hundred_forks_bytes": added,
                "hundred_forks_percent": added as f64 * 100.0 / before as f64,
            })
        );
    }
    Ok(())
}

/// Bytes of rows in the tables that a fork writes to, without what Postgres keeps free.
async fn bytes(url: &str) -> anyhow::Result<i64> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let connection = tokio::spawn(connection);
    let mut sum = 0;
    for table in TABLES {
        let sql = format!("SELECT COALESCE(sum(pg_column_size(t.*)), 0)::int8 FROM {table} t");
        sum += client.query_one(&sql, &[]).await?.get::<_, i64>(0);
    }
    drop(client);
    connection.await??;
    Ok(sum)
}

fn event(run: RunId, root: NodeId, seq: u64, body: impl Into<EventBody>) -> Event {
    let timestamp = Timestamp::from_millis(1_763_776_000_000 + seq as i64);
    Event { run_id: run, seq, node_id: root, parent_node_id: None, timestamp, body: body.into() }
}

fn row(status: RunStatus) -> RunRow {
    RunRow {
        status,
        partial: false,
        error: None,
        node_count: 1,
        ended_nodes: 0,
        usage: Default::default(),
        models: Vec::new(),
        started_at: None,
        ended_at: None,
    }
}

/// A run with `length` events of about half a kilobyte, which is the mean of recorded runs.
async fn parent(store: &PostgresStore, length: u64) -> anyhow::Result<RunId> {
    let run = RunId(Uuid::now_v7());
    let (root, spec) = (NodeId::root(run), RunSpec::new("Which offer is the best?"));
    let created = event(run, root, 1, RunCreated::new(spec.clone(), root));
    let projection = Projection { run: Some(row(RunStatus::Running)), ..Projection::default() };
    store
        .create_run(NewRun {
            run_id: run,
            spec,
            request_id: String::new(),
            events: vec![created],
            projection,
            documents: Vec::new(),
            sessions: Vec::new(),
        })
        .await?;
    let term = store.begin_term("bench", Duration::from_secs(600)).await?.number;
    let claim = store.claim("bench", term, 1, 1, 0).await?[0];
    let text = "The offer of the second supplier is cheaper by a tenth. ".repeat(9);
    let mut head = 1;
    while head < length {
        let last = (head + 500).min(length);
        let said = |seq: u64| {
            let guidance = GuidanceAdded {
                text: format!("{seq} {text}"),
                author: String::new(),
                request_id: String::new(),
                subtree: false,
            };
            event(run, root, seq, guidance)
        };
        let append = RunAppend {
            run_id: run,
            epoch: claim.epoch,
            expected_head: head,
            events: (head + 1..=last).map(said).collect(),
            projection: Projection::default(),
            documents: Vec::new(),
            sessions: Vec::new(),
            answers: Vec::new(),
        };
        anyhow::ensure!(store.append([append].into()).await? == [AppendOutcome::Appended]);
        head = last;
    }
    Ok(run)
}

fn fork(parent: RunId, at_seq: u64, n: u128) -> NewFork {
    let run_id = RunId(Uuid::now_v7());
    let body = RunForked {
        source_run_id: parent,
        at_seq,
        origin_run_id: Some(parent),
        author: "ann".into(),
        by_administrator: false,
        request_id: format!("fork {n}"),
        display_name: String::new(),
        labels: Default::default(),
        edits: Vec::new(),
        goes_on: false,
    };
    NewFork {
        run_id,
        parent_run_id: parent,
        parent_seq: at_seq,
        spec: RunSpec { user_id: "ann".into(), ..RunSpec::new("Which offer is the best?") },
        request_id: format!("fork {n}"),
        event: event(run_id, NodeId::root(parent), at_seq + 1, body),
        row: row(RunStatus::Completed),
        edits: Vec::new(),
    }
}
