//! Freeing the space of archived runs on Postgres, step by step.

use std::time::Duration;

use deadpool_postgres::tokio_postgres::{NoTls, connect};
use tree_agent_store::Archives;
use tree_agent_store::postgres::{PoolConfig, PostgresStore};

use crate::fixture::{run_id, server};

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
