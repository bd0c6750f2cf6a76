//! Claims on Postgres beside locked rows, and what a claim and a renewal cost with many runs.

use std::time::{Duration, Instant};

use deadpool_postgres::tokio_postgres::{Client, NoTls, connect};
use tree_agent_contract::RunStatus;
use tree_agent_store::postgres::{PoolConfig, PostgresStore};
use tree_agent_store::{AppendOutcome, EventLog, Leases, Runs};

use crate::fixture::{append, claim, eventually, new_run, run_id, run_row, server};

const LONG: Duration = Duration::from_secs(60);

async fn store() -> (PostgresStore, Client) {
    let url = tokio::task::spawn_blocking(|| server().create_database()).await.unwrap().unwrap();
    PostgresStore::migrate(&url).await.unwrap();
    let (client, connection) = connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    (PostgresStore::connect(&url, PoolConfig::default()).await.unwrap(), client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_row_is_not_waited_for() {
    let (store, mut sql) = store().await;
    for n in 1..=2 {
        store.create_run(new_run(n)).await.unwrap();
    }
    let claims = claim(&store, "a", LONG, 10).await;
    let held: Vec<_> = claims.iter().map(|claim| (claim.run_id, claim.epoch)).collect();
    let forgotten = sql.transaction().await.unwrap();
    let lock = "SELECT FROM tree_agent_runs WHERE id = $1 FOR UPDATE";
    forgotten.query(lock, &[&run_id(1).0]).await.unwrap();
    assert_eq!(store.release(&held).await.unwrap(), [run_id(1)]);
    let taken = claim(&store, "b", LONG, 10).await;
    assert_eq!((taken.len(), taken[0].run_id), (1, run_id(2)));
    forgotten.rollback().await.unwrap();
    assert_eq!(store.release(&held).await.unwrap(), []);
}

/// A command that is sent while the end of its run is being written is not left behind, although the append began
/// before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_races_the_end_of_its_run_is_not_left_behind() {
    let (store, mut sql) = store().await;
    store.create_run(new_run(1)).await.unwrap();
    let claim = claim(&store, "a", LONG, 1).await[0];
    let mut end = append(claim.run_id, claim.epoch, 2, 1);
    end.projection.run = Some(run_row(RunStatus::Completed));
    let command = sql.transaction().await.unwrap();
    let send = "UPDATE tree_agent_runs SET last_command = 1 WHERE id = $1";
    assert_eq!(command.execute(send, &[&claim.run_id.0]).await.unwrap(), 1);
    let send =
        "INSERT INTO tree_agent_commands (run_id, id, command) VALUES ($1, 1, '{\"kind\": \"cancel\"}')";
    assert_eq!(command.execute(send, &[&claim.run_id.0]).await.unwrap(), 1);
    let (writer, ending) = (store.clone(), [end].into());
    let ended = tokio::spawn(async move { writer.append(ending).await });
    // The append has begun and waits for the row.
    let waits =
        "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    eventually("the wait", async || command.query_opt(waits, &[]).await.unwrap()).await;
    command.commit().await.unwrap();
    assert_eq!(ended.await.unwrap().unwrap(), [AppendOutcome::Appended]);
    let left: i64 = sql.query_one("SELECT count(*) FROM tree_agent_commands", &[]).await.unwrap().get(0);
    assert_eq!(left, 0);
}

/// The median time of a claim that finds nothing and of a renewal, and the pages that such a claim reads.
async fn costs(store: &PostgresStore, sql: &Client) -> (Duration, Duration, i64) {
    let term = store.begin_term("idle", LONG).await.unwrap().number;
    let (mut claims, mut renewals) = (Vec::new(), Vec::new());
    let reads = "SELECT (sum(idx_blks_read + idx_blks_hit) + sum(heap_blks_read + heap_blks_hit))::int8 \
                 FROM pg_statio_user_tables \
                 WHERE relname IN ('tree_agent_runs', 'tree_agent_drivers', 'tree_agent_commands')";
    let flush = "SELECT pg_stat_force_next_flush()";
    sql.query(flush, &[]).await.unwrap();
    let before: i64 = sql.query_one(reads, &[]).await.unwrap().get(0);
    for _ in 0..51 {
        let began = Instant::now();
        assert_eq!(store.claim("idle", term, 32, 32, 8).await.unwrap(), []);
        claims.push(began.elapsed());
        let began = Instant::now();
        assert!(store.renew("idle", term, LONG, 0).await.unwrap().held);
        renewals.push(began.elapsed());
    }
    // The connections of the store report what they read when they have been idle for a second.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(store.claim("idle", term, 32, 32, 8).await.unwrap(), []);
    assert!(store.renew("idle", term, LONG, 0).await.unwrap().held);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let after: i64 = sql.query_one(reads, &[]).await.unwrap().get(0);
    claims.sort_unstable();
    renewals.sort_unstable();
    (claims[25], renewals[25], (after - before) / 52)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_and_renewals_cost_the_same_however_many_runs_there_are() {
    let (store, sql) = store().await;
    store.begin_term("busy", Duration::from_secs(3_600)).await.unwrap();
    let mut seen = Vec::new();
    for (from, to) in [(1, 1_000), (1_001, 100_000)] {
        let fill = format!(
            "INSERT INTO tree_agent_runs (id, objective, spec, strategy, scope, root_node_id, status, created_at, \
                 updated_at, epoch, lease_owner, lease_expires_at) \
             SELECT gen_random_uuid(), 'o', '{{}}', 'tree', 'global', gen_random_uuid(), 'running', now(), now(), 1, \
                 'busy', 'infinity' FROM generate_series({from}, {to})"
        );
        sql.batch_execute(&fill).await.unwrap();
        sql.batch_execute("VACUUM ANALYZE tree_agent_runs").await.unwrap();
        let (claim, renewal, pages) = costs(&store, &sql).await;
        eprintln!("{to} live runs: a claim {claim:?}, a renewal {renewal:?}, {pages} pages read for both");
        seen.push(pages);
    }
    // Pages, not times: the machine may be busy. An index may be two levels deeper.
    assert!(seen[1] <= seen[0] + 6, "pages read for a claim and a renewal: {seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_postgres_refuses_for_a_while_can_be_repeated_and_what_it_never_takes_cannot() {
    let (store, sql) = store().await;
    store.create_run(new_run(1)).await.unwrap();
    let claim = claim(&store, "a", LONG, 1).await[0];
    let part = |n| [append(claim.run_id, claim.epoch, 2, n)].into();
    // As after a failover, for the connections that exist.
    let limit = async |setting: &str| {
        let name: String = sql.query_one("SELECT current_database()", &[]).await.unwrap().get(0);
        sql.batch_execute(&format!("ALTER DATABASE {name} {setting}")).await.unwrap();
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";
        sql.query(end, &[]).await.unwrap();
    };
    let refused = async |n| loop {
        let error = store.append(part(n)).await.unwrap_err();
        // A connection that was ended is none of this.
        if !error.to_string().contains("connection") {
            return error;
        }
    };
    limit("SET default_transaction_read_only = on").await;
    let error = refused(1).await;
    assert!(error.is_transient(), "{error:?}");
    let _ = sql.batch_execute("SET default_transaction_read_only = off").await;
    limit("RESET default_transaction_read_only").await;
    let slow = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); END $$; \
                CREATE TRIGGER slow BEFORE INSERT ON tree_agent_events FOR EACH ROW EXECUTE FUNCTION slow()";
    sql.batch_execute(slow).await.unwrap();
    let url = sql_url(&sql).await;
    let quick = PoolConfig { request_timeout: Duration::from_millis(400), ..PoolConfig::default() };
    let quick = PostgresStore::connect(&url, quick).await.unwrap();
    let error = quick.append(part(1)).await.unwrap_err();
    assert!(error.to_string().contains("took too long") && !error.is_transient(), "{error:?}");
}

async fn sql_url(sql: &Client) -> String {
    let row = sql.query_one("SELECT current_database(), current_user::text", &[]).await.unwrap();
    let (database, user): (String, String) = (row.get(0), row.get(1));
    let address = server().url();
    let (before, behind) = address.split_once('@').unwrap();
    let host = behind.split('/').next().unwrap();
    let scheme = before.split("//").next().unwrap();
    format!("{scheme}//{user}@{host}/{database}")
}
