//! Appends to a distributed Postgres: a transaction for each shard. Which shard a run is on is checked against
//! Postgres.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use deadpool_postgres::tokio_postgres::{NoTls, connect};
use tree_agent_contract::{RunId, RunStatus};
use tree_agent_store::postgres::{PoolConfig, PostgresStore};
use tree_agent_store::{AppendOutcome, EventLog, RunAppend, Runs};

use crate::fixture::{append, claim, event, new_run, run_row, server};

const RUNS: u128 = 24;

/// The transaction that wrote each run last, and the run's shard, one of four: a quarter of the values of the hash.
const WRITTEN: &str =
    "SELECT xmin::text, (uuid_hash(id)::int8 + 2147483648) / (4294967296 / 4) FROM tree_agent_runs";

/// The shards of the runs that each transaction of an append wrote, if the store has `shards` shards.
async fn transactions(shards: u32) -> BTreeMap<String, BTreeSet<i64>> {
    let url = tokio::task::spawn_blocking(|| server().create_database()).await.unwrap().unwrap();
    PostgresStore::migrate(&url).await.unwrap();
    let store = PostgresStore::connect(&url, PoolConfig { shards, ..PoolConfig::default() }).await.unwrap();
    for n in 0..RUNS {
        // Ids as they are made: their first bytes are the time.
        let (run, id) = (new_run(n), RunId(uuid::Uuid::now_v7()));
        let events = (1..).zip(run.events).map(|(seq, e)| event(id, seq, e.timestamp, e.body)).collect();
        store.create_run(tree_agent_store::NewRun { run_id: id, events, ..run }).await.unwrap();
    }
    let claims = claim(&store, "a", Duration::from_secs(60), RUNS as usize).await;
    assert_eq!(claims.len(), RUNS as usize);
    let mut appends: Vec<RunAppend> = claims.iter().map(|c| append(c.run_id, c.epoch, 2, 2)).collect();
    // Some end, and one is fenced: what becomes of each is told in the order of the appends.
    appends.iter_mut().step_by(5).for_each(|a| a.projection.run = Some(run_row(RunStatus::Completed)));
    appends[7].epoch += 1;
    let mut expected = vec![AppendOutcome::Appended; RUNS as usize];
    expected[7] = AppendOutcome::Fenced;
    for _ in 0..2 {
        assert_eq!(store.append(appends.clone().into()).await.unwrap(), expected);
    }
    let (client, connection) = connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let events = client.query_one("SELECT count(*) FROM tree_agent_events", &[]).await.unwrap();
    assert_eq!(events.get::<_, i64>(0), RUNS as i64 * 4 - 2);
    let mut written: BTreeMap<String, BTreeSet<i64>> = BTreeMap::new();
    for row in client.query(&format!("{WRITTEN} WHERE head_seq = 4"), &[]).await.unwrap() {
        written.entry(row.get(0)).or_default().insert(row.get(1));
    }
    written
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_is_a_transaction_for_each_shard() {
    let one = transactions(1).await;
    assert_eq!(one.len(), 1, "one server: {one:?}");
    assert_eq!(one.values().next().map(BTreeSet::len), Some(4), "with runs of every shard");
    let four = transactions(4).await;
    assert_eq!(four.len(), 4, "four shards: {four:?}");
    assert!(four.values().all(|shards| shards.len() == 1), "a transaction has runs of one shard: {four:?}");
}
