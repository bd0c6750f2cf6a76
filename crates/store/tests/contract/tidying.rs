//! Freeing the space of archived runs on Postgres, step by step.

use std::time::Duration;

use deadpool_postgres::tokio_postgres::Client;
use deadpool_postgres::tokio_postgres::{NoTls, connect};
use tree_agent_contract::RunStatus;
use tree_agent_store::postgres::{PoolConfig, PostgresStore};
use tree_agent_store::{AppendOutcome, Archives, Created, EventLog, Forks, NewFork};

use crate::fixture::{append, claimed, run_id, run_row, server};
use crate::forks::new_fork;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_run_does_not_undo_what_was_tidied_before_it() {
    let url = tokio::task::spawn_blocking(|| server().create_database()).await.unwrap().unwrap();
    PostgresStore::migrate(&url).await.unwrap();
    let config = PoolConfig { lock_timeout: Duration::from_millis(200), ..PoolConfig::default() };
    let store = PostgresStore::connect(&url, config).await.unwrap();
    let (mut sql, connection) = connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    // The first run has more events than one step deletes. A fourth one is not archived.
    for (n, events, archived) in [(1, 10_500, "now()"), (2, 3, "now()"), (3, 3, "now()"), (4, 3, "NULL")] {
        let id = run_id(n).0;
        let fill = format!(
            "INSERT INTO tree_agent_runs (id, objective, spec, strategy, scope, root_node_id, status, created_at, \
                 updated_at, archived_at) VALUES ('{id}', 'o', '{{}}', 'tree', 'global', '{id}', 'completed', now(), \
                 now(), {archived}); \
             INSERT INTO tree_agent_events SELECT '{id}', seq, gen_random_uuid(), '{id}', NULL, \
                 'tree.guidance_added', '{{}}', now() FROM generate_series(1, {events}) AS seq"
        );
        sql.batch_execute(&fill).await.unwrap();
    }
    let left = "SELECT string_agg(n, ' ') FROM (SELECT right(run_id::text, 1) || ':' || count(*) AS n \
                FROM tree_agent_events GROUP BY run_id ORDER BY run_id) t";
    let forgotten = sql.transaction().await.unwrap();
    forgotten.query("SELECT FROM tree_agent_runs WHERE id = $1 FOR UPDATE", &[&run_id(2).0]).await.unwrap();
    assert!(store.tidy().await.unwrap_err().is_locked());
    let rows: String = forgotten.query_one(left, &[]).await.unwrap().get(0);
    assert_eq!(rows, "2:3 3:3 4:3", "what is left, by run");
    forgotten.rollback().await.unwrap();
    assert_eq!(store.tidy().await.unwrap(), Vec::<String>::new());
    let rows: String = sql.query_one(left, &[]).await.unwrap().get(0);
    assert_eq!(rows, "4:3", "what is left, by run");
}

/// A run may have millions of rows. It goes in one transaction, but no statement of it deletes more than a few of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_run_is_pruned_as_a_whole_by_small_statements() {
    let url = tokio::task::spawn_blocking(|| server().create_database()).await.unwrap().unwrap();
    PostgresStore::migrate(&url).await.unwrap();
    let store = PostgresStore::connect(&url, PoolConfig::default()).await.unwrap();
    let (sql, connection) = connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    sql.batch_execute(
        "CREATE FUNCTION small() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF (SELECT count(*) FROM gone) > 10000 THEN RAISE EXCEPTION 'too many rows at a time'; END IF; \
             RETURN NULL; \
         END $$; \
         CREATE TRIGGER small AFTER DELETE ON tree_agent_events REFERENCING OLD TABLE AS gone \
             FOR EACH STATEMENT EXECUTE FUNCTION small(); \
         CREATE TRIGGER small AFTER DELETE ON tree_agent_artifacts REFERENCING OLD TABLE AS gone \
             FOR EACH STATEMENT EXECUTE FUNCTION small(); \
         CREATE TRIGGER small AFTER DELETE ON tree_agent_document_chunks REFERENCING OLD TABLE AS gone \
             FOR EACH STATEMENT EXECUTE FUNCTION small()",
    )
    .await
    .unwrap();
    // One is archived, the other one was deleted and goes with its log. A third one stays.
    for (n, deleted) in [(1, "NULL"), (2, "now()"), (3, "NULL")] {
        let id = run_id(n).0;
        let fill = format!(
            "INSERT INTO tree_agent_runs (id, objective, spec, strategy, scope, root_node_id, status, created_at, \
                 updated_at, head_seq, deleted_at) VALUES ('{id}', 'o', '{{}}', 'tree', 'global', '{id}', \
                 'completed', now(), now(), 20500, {deleted}); \
             INSERT INTO tree_agent_events SELECT '{id}', seq, gen_random_uuid(), '{id}', NULL, \
                 'tree.guidance_added', '{{}}', now() FROM generate_series(1, 20500) AS seq; \
             INSERT INTO tree_agent_artifacts SELECT '{id}', gen_random_uuid(), '{id}', 'json', NULL, '{{}}', true, \
                 '', now() FROM generate_series(1, 20000); \
             INSERT INTO tree_agent_document_chunks SELECT '{id}', document, seq, 0, '', now() \
                 FROM (SELECT gen_random_uuid() AS document FROM generate_series(1, 3)) d, generate_series(1, 7000) AS seq"
        );
        sql.batch_execute(&fill).await.unwrap();
    }
    assert!(store.prune_run(run_id(1), 20_500, "sum").await.unwrap());
    assert!(store.prune_run(run_id(2), 20_500, "sum").await.unwrap());
    let left = "SELECT string_agg(right(r.id::text, 1) || ':' || \
                    (SELECT count(*) FROM tree_agent_events e WHERE e.run_id = r.id) || ',' || \
                    (SELECT count(*) FROM tree_agent_artifacts a WHERE a.run_id = r.id) || ',' || \
                    (SELECT count(*) FROM tree_agent_document_chunks c WHERE c.run_id = r.id), ' ' ORDER BY r.id) \
                FROM tree_agent_runs r";
    let rows: String = sql.query_one(left, &[]).await.unwrap().get(0);
    // The events of an archived run go when the log is tidied.
    assert_eq!(rows, "1:20500,0,0 3:20500,20000,21000");
    let events: i64 = sql.query_one("SELECT count(*) FROM tree_agent_events", &[]).await.unwrap().get(0);
    assert_eq!(events, 41_000, "the log of the deleted run is gone as well");
}

/// Waits until so many statements of the database wait for a lock.
async fn until_waiting(sql: &Client, statements: i64) {
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let look = async {
        while sql.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) < statements {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), look).await.expect("statements wait");
}

/// A fork of a fork is written while their origin is pruned: the fork is locked by both, and the new one is not
/// committed yet when those are looked up that share something.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_that_is_made_while_its_origin_is_pruned_keeps_what_it_shares() {
    let url = tokio::task::spawn_blocking(|| server().create_database()).await.unwrap().unwrap();
    PostgresStore::migrate(&url).await.unwrap();
    let config = PoolConfig { lock_timeout: Duration::from_secs(60), ..PoolConfig::default() };
    let store = std::sync::Arc::new(PostgresStore::connect(&url, config).await.unwrap());
    let (mut sql, connection) = connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let (looking, connection) = connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let taken = claimed(&*store, 1, "a").await;
    let mut ended = append(taken.run_id, taken.epoch, 2, 3);
    ended.projection.run = Some(run_row(RunStatus::Completed));
    assert_eq!(store.append([ended].into()).await.unwrap(), [AppendOutcome::Appended]);
    store.fork_run(new_fork(2, run_id(1), 4)).await.unwrap();

    // The fork of the fork waits with its row written, because somebody else holds its request id.
    let holding = sql.transaction().await.unwrap();
    let request = "INSERT INTO tree_agent_requests (user_id, request_id, run_id) VALUES ('ann', 'r', $1)";
    holding.execute(request, &[&run_id(1).0]).await.unwrap();
    let made = NewFork { request_id: "r".into(), ..new_fork(3, run_id(2), 5) };
    let forking = tokio::spawn({
        let store = store.clone();
        async move { store.fork_run(made).await }
    });
    until_waiting(&looking, 1).await;
    let pruning = tokio::spawn({
        let store = store.clone();
        async move { store.prune_run(run_id(1), 5, "sum").await }
    });
    until_waiting(&looking, 2).await;
    holding.rollback().await.unwrap();
    assert_eq!(forking.await.unwrap().unwrap(), Created::New(run_id(3)));
    assert!(pruning.await.unwrap().unwrap());
    store.tidy().await.unwrap();
    let seqs = async |run| store.read(run, 0, 9).await.unwrap().iter().map(|e| e.seq).collect::<Vec<_>>();
    assert_eq!(seqs(run_id(2)).await, [1, 2, 3, 4, 5]);
    assert_eq!(seqs(run_id(3)).await, [1, 2, 3, 4, 5, 6]);
    let parts = store.segments(run_id(3)).await.unwrap();
    assert!(parts.iter().all(|part| part.run != run_id(1)), "{parts:?}");
}
