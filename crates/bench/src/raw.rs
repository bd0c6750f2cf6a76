//! The raw limit of the cluster's own Postgres. All event rows of a real run are inserted again by `unnest`, 100 at a
//! time, with as many clients as a driver has commit lanes.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tokio_postgres::{Client, NoTls, Row};
use uuid::Uuid;

/// Clients; a driver commits in as many lanes.
const CLIENTS: usize = 2;
/// Rows of one insert.
const ROWS: usize = 100;

/// A connection to the cluster's Postgres.
pub(crate) async fn connect() -> anyhow::Result<Client> {
    let url = std::env::var("TREE_AGENT_DATABASE_URL").context("TREE_AGENT_DATABASE_URL is not set")?;
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    // Ends with its client.
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}

/// The rows of one insert, column by column.
#[derive(Clone)]
struct Rows {
    seq: Vec<i64>,
    node: Vec<Uuid>,
    parent: Vec<Option<Uuid>>,
    kind: Vec<String>,
    payload: Vec<String>,
    at: Vec<std::time::SystemTime>,
}

/// Events per second of plain inserts of the rows of `run_id`, for `time`.
pub(crate) async fn events_per_second(run_id: &str, time: Duration) -> anyhow::Result<f64> {
    let admin = connect().await?;
    admin
        .batch_execute(
            "DROP TABLE IF EXISTS bench_raw_events; \
             CREATE TABLE bench_raw_events (LIKE tree_agent_events INCLUDING INDEXES INCLUDING STORAGE)",
        )
        .await?;
    let rows = rows(&admin, run_id).await?;
    let begun = Instant::now();
    let clients = (0..CLIENTS).map(|_| tokio::spawn(insert(rows.clone(), begun, time)));
    let mut inserted = 0;
    for client in clients.collect::<Vec<_>>() {
        inserted += client.await??;
    }
    let rate = inserted as f64 / begun.elapsed().as_secs_f64();
    admin.batch_execute("DROP TABLE bench_raw_events").await?;
    Ok(rate)
}

/// The run's events, insert by insert.
async fn rows(client: &Client, run_id: &str) -> anyhow::Result<Vec<Rows>> {
    let run: Uuid = run_id.parse()?;
    let found = client
        .query(
            "SELECT seq, node_id, parent_node_id, event_type, payload::text, created_at FROM tree_agent_events \
             WHERE run_id = $1 ORDER BY seq",
            &[&run],
        )
        .await?;
    ensure!(found.len() >= ROWS, "run {run} has only {} events", found.len());
    let insert = |rows: &[Row]| Rows {
        seq: rows.iter().map(|row| row.get(0)).collect(),
        node: rows.iter().map(|row| row.get(1)).collect(),
        parent: rows.iter().map(|row| row.get(2)).collect(),
        kind: rows.iter().map(|row| row.get(3)).collect(),
        payload: rows.iter().map(|row| row.get(4)).collect(),
        at: rows.iter().map(|row| row.get(5)).collect(),
    };
    Ok(found.chunks(ROWS).map(insert).collect())
}

async fn insert(inserts: Vec<Rows>, begun: Instant, time: Duration) -> anyhow::Result<u64> {
    let client = connect().await?;
    client.batch_execute("SET plan_cache_mode = force_generic_plan; SET jit = off").await?;
    let statement = client
        .prepare(
            "INSERT INTO bench_raw_events (run_id, seq, id, node_id, parent_node_id, event_type, payload, created_at) \
             SELECT * FROM unnest($1::uuid[], $2::int8[], $3::uuid[], $4::uuid[], $5::uuid[], $6::text[], \
             $7::text[]::jsonb[], $8::timestamptz[])",
        )
        .await?;
    let mut inserted = 0;
    let mut run = Uuid::now_v7();
    for Rows { seq, node, parent, kind, payload, at } in inserts.iter().cycle() {
        if begun.elapsed() >= time {
            break;
        }
        // A new run in each round, as if there were many runs.
        if seq[0] == 1 {
            run = Uuid::now_v7();
        }
        let runs = vec![run; seq.len()];
        let id: Vec<Uuid> = seq.iter().map(|_| Uuid::now_v7()).collect();
        client.execute(&statement, &[&runs, seq, &id, node, parent, kind, payload, at]).await?;
        inserted += seq.len() as u64;
    }
    Ok(inserted)
}
