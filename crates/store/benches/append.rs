//! Events per second of `append` on a durable Postgres, compared with plain `unnest` inserts of the same rows.
//!
//! Prints one JSON object per line.

#![allow(missing_docs, clippy::print_stdout)]

use std::time::{Duration, Instant};

use deadpool_postgres::tokio_postgres::types::ToSql;
use deadpool_postgres::tokio_postgres::{self, NoTls};
use tree_agent_contract::document::{Document, DocumentKind, DocumentOp, DocumentProps};
use tree_agent_contract::event::{NodeStatusChanged, RunCreated};
use tree_agent_contract::ids::{EventId, StepId};
use tree_agent_contract::{
    DocumentId, Event, EventBody, NodeId, NodeStatus, Role, RunId, RunSpec, Timestamp,
};
use tree_agent_store::postgres::{PoolConfig, PostgresStore};
use tree_agent_store::{AppendOutcome, EventLog, Leases, NewRun, NodeRow, Projection, RunAppend, Runs};
use tree_agent_testkit::services::PrivatePostgres;
use uuid::Uuid;

const RUNS: u64 = 16;
const EVENTS_PER_RUN: u64 = 19;
const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_millis(1_500);

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run())
}

async fn run() -> anyhow::Result<()> {
    let server = PrivatePostgres::start_durable()?;
    for (name, bytes) in [("1 KiB", 1 << 10), ("1 MiB", 1 << 20)] {
        let (mut grown, mut plain) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            plain.push(append(&server.create_database()?, 1, Rows::None).await?);
            grown.push(append(&server.create_database()?, 1, Rows::Document(bytes)).await?);
        }
        report(&format!("append to documents of {name}"), grown, plain);
    }
    for (name, rows) in [("append", Rows::None), ("append with node rows", Rows::Nodes)] {
        for writers in [1, 4] {
            let (mut ours, mut raws) = (Vec::new(), Vec::new());
            // Alternating, so that other load on the machine affects both.
            for _ in 0..ROUNDS {
                raws.push(raw(&server.create_database()?, writers).await?);
                ours.push(append(&server.create_database()?, writers, rows).await?);
            }
            report(&format!("{name}, {writers} writer{}", if writers == 1 { "" } else { "s" }), ours, raws);
        }
    }
    Ok(())
}

/// What appends write beside their events.
#[derive(Clone, Copy, PartialEq)]
enum Rows {
    None,
    /// Seven nodes of each run.
    Nodes,
    /// A few words to a document of each run, which had so many bytes at the beginning.
    Document(usize),
}

fn report(name: &str, values: Vec<f64>, baselines: Vec<f64>) {
    let (value, baseline) = (median(values), median(baselines));
    println!(
        "{}",
        serde_json::json!({
            "bench": name,
            "value": value.round(),
            "unit": "events/s",
            "baseline": baseline.round(),
            "ratio": (value / baseline * 1_000.0).round() / 1_000.0,
            "repeat": ROUNDS,
        })
    );
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn event(run: RunId, seq: u64) -> Event {
    let root = NodeId::root(run);
    let node = NodeId::child(root, 1, &StepId::new((seq % 7).to_string()));
    let body = NodeStatusChanged {
        message: Some("leaf_decision:direct".into()),
        progress: Some(0.5),
        ..NodeStatusChanged::new(NodeStatus::Executing, Role::Executor)
    };
    Event {
        run_id: run,
        seq,
        node_id: node,
        parent_node_id: Some(root),
        timestamp: Timestamp(1_763_776_000_000_000 + seq as i64),
        body: EventBody::from(body),
    }
}

fn pad(run: RunId) -> DocumentId {
    DocumentId::scratchpad(NodeId::root(run))
}

fn document(run: RunId, bytes: usize) -> DocumentOp {
    let at = Timestamp(1_763_776_000_000_000);
    DocumentOp::Create(Document {
        id: pad(run),
        kind: DocumentKind::Scratchpad,
        project_id: None,
        run_id: Some(run),
        path: String::new(),
        title: "Scratchpad".into(),
        body: "word ".repeat(bytes / 5),
        props: DocumentProps::default(),
        created_at: at,
        updated_at: at,
    })
}

fn batch(claims: &[(RunId, u64)], head: u64, rows: Rows) -> Vec<RunAppend> {
    let append = |(run_id, epoch): &(RunId, u64)| {
        let events: Vec<Event> = (head + 1..=head + EVENTS_PER_RUN).map(|seq| event(*run_id, seq)).collect();
        // Each of seven nodes changes in every batch.
        let nodes = events.iter().take(if rows == Rows::Nodes { 7 } else { 0 }).map(node_row).collect();
        let grows = matches!(rows, Rows::Document(_)).then(|| DocumentOp::Append {
            id: pad(*run_id),
            seq: head + EVENTS_PER_RUN,
            text: "A few words that a role has written.\n".into(),
            at: events[0].timestamp,
        });
        RunAppend {
            run_id: *run_id,
            epoch: *epoch,
            expected_head: head,
            events,
            projection: Projection { nodes, ..Projection::default() },
            documents: grows.into_iter().collect(),
            answers: Vec::new(),
            sessions: Vec::new(),
        }
    };
    claims.iter().map(append).collect()
}

fn node_row(event: &Event) -> NodeRow {
    NodeRow {
        id: event.node_id,
        parent_node_id: event.parent_node_id,
        title: "A step of the plan".into(),
        reason: "because the parent needs it".into(),
        success_criteria: vec!["it is done".into()],
        band_index: Some(0),
        step_index: Some(1),
        depth: 1,
        status: NodeStatus::Executing,
        role_state: Role::Executor,
        scratchpad_doc_id: None,
        started_at: Some(event.timestamp),
        ended_at: None,
        created_at: event.timestamp,
        updated_at: event.timestamp,
    }
}

async fn append(url: &str, writers: u64, rows: Rows) -> anyhow::Result<f64> {
    PostgresStore::migrate(url).await?;
    let store = PostgresStore::connect(url, PoolConfig::default()).await?;
    let mut held = Vec::new();
    for writer in 0..writers {
        for n in 0..RUNS {
            let run_id = RunId(Uuid::from_u128(u128::from(writer * RUNS + n + 1) << 64));
            let spec = RunSpec::new("bench");
            let created = RunCreated::new(spec.clone(), NodeId::root(run_id));
            let first = Event { body: created.into(), ..event(run_id, 1) };
            store
                .create_run(NewRun {
                    run_id,
                    spec,
                    request_id: String::new(),
                    events: vec![first],
                    projection: Projection::default(),
                    documents: match rows {
                        Rows::Document(bytes) => vec![document(run_id, bytes)],
                        Rows::None | Rows::Nodes => Vec::new(),
                    },
                    sessions: Vec::new(),
                })
                .await?;
        }
        let term = store.begin_term("bench", Duration::from_secs(600)).await?.number;
        let claims = store.claim("bench", term, RUNS as usize, RUNS as usize, 0).await?;
        held.push(claims.iter().map(|c| (c.run_id, c.epoch)).collect::<Vec<_>>());
    }
    let start = Instant::now();
    let write = |claims: Vec<(RunId, u64)>| {
        let store = store.clone();
        async move {
            let mut head = 1;
            while start.elapsed() < TIME {
                let outcomes = store.append(batch(&claims, head, rows).into()).await?;
                anyhow::ensure!(outcomes.iter().all(|o| *o == AppendOutcome::Appended), "fenced");
                head += EVENTS_PER_RUN;
            }
            anyhow::Ok((head - 1) * RUNS)
        }
    };
    finish(held.into_iter().map(|claims| tokio::spawn(write(claims))).collect(), start).await
}

/// The same event rows, built in the same way, without heads, fence, projection or partitions.
async fn raw(url: &str, writers: u64) -> anyhow::Result<f64> {
    PostgresStore::migrate(url).await?;
    let (admin, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    admin.batch_execute("CREATE TABLE raw_events (LIKE tree_agent_events INCLUDING ALL)").await?;
    let mut clients = Vec::new();
    for _ in 0..writers {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute("SET plan_cache_mode = force_generic_plan; SET jit = off").await?;
        let statement = client
            .prepare(
                "INSERT INTO raw_events SELECT * FROM unnest($1::uuid[], $2::int8[], $3::uuid[], $4::uuid[], \
                 $5::uuid[], $6::text[], $7::text[]::jsonb[], $8::timestamptz[])",
            )
            .await?;
        clients.push((client, statement));
    }
    let start = Instant::now();
    let write = |writer: u64, (client, statement): (tokio_postgres::Client, tokio_postgres::Statement)| async move {
        let claims: Vec<(RunId, u64)> =
            (0..RUNS).map(|n| (RunId(Uuid::from_u128(u128::from(writer * RUNS + n + 1) << 64)), 1)).collect();
        let mut head = 1;
        while start.elapsed() < TIME {
            let events: Vec<Event> =
                batch(&claims, head, Rows::None).into_iter().flat_map(|a| a.events).collect();
            let run: Vec<Uuid> = events.iter().map(|e| e.run_id.0).collect();
            let seq: Vec<i64> = events.iter().map(|e| e.seq as i64).collect();
            let id: Vec<Uuid> = events.iter().map(|e| EventId::of(e.run_id, 1, e.seq).0).collect();
            let node: Vec<Uuid> = events.iter().map(|e| e.node_id.0).collect();
            let parent: Vec<Option<Uuid>> = events.iter().map(|e| e.parent_node_id.map(|id| id.0)).collect();
            let kind: Vec<&str> = events.iter().map(|e| e.body.event_type()).collect();
            let payload: Vec<String> = events.iter().map(Event::payload_json).collect();
            let at: Vec<std::time::SystemTime> = events
                .iter()
                .map(|e| std::time::UNIX_EPOCH + Duration::from_micros(e.timestamp.micros() as u64))
                .collect();
            let params: [&(dyn ToSql + Sync); 8] = [&run, &seq, &id, &node, &parent, &kind, &payload, &at];
            client.execute(&statement, &params).await?;
            head += EVENTS_PER_RUN;
        }
        anyhow::Ok((head - 1) * RUNS)
    };
    let tasks =
        clients.into_iter().zip(0..).map(|(client, writer)| tokio::spawn(write(writer, client))).collect();
    finish(tasks, start).await
}

async fn finish(
    tasks: Vec<tokio::task::JoinHandle<anyhow::Result<u64>>>,
    start: Instant,
) -> anyhow::Result<f64> {
    let mut events = 0;
    for task in tasks {
        events += task.await??;
    }
    Ok(events as f64 / start.elapsed().as_secs_f64())
}
