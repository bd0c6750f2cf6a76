//! Schema versions, and which programs may open them.

use tree_agent_store::embedded::EmbeddedStore;
use tree_agent_store::postgres::{PoolConfig, PostgresStore};
use tree_agent_store::{Operations, Runs, StoreError};

use crate::fixture::{new_run, run_id, server};

const NEWER: &str = "INSERT INTO refinery_schema_history (version, name, applied_on, checksum) \
                     VALUES (999, 'future', '2030-01-01T00:00:00Z', '1')";

fn message(error: StoreError) -> String {
    assert!(matches!(error, StoreError::Broken { .. } | StoreError::Conflict(_)), "{error:?}");
    error.to_string()
}

#[tokio::test]
async fn postgres_must_be_migrated_and_not_newer() {
    use deadpool_postgres::tokio_postgres::NoTls;
    let url = server().create_database().unwrap();
    let config = PoolConfig::default();
    let error = message(PostgresStore::connect(&url, config).await.unwrap_err());
    assert!(error.contains("run `tree-agent migrate`"), "{error}");
    let (one, two) = tokio::join!(PostgresStore::migrate(&url), PostgresStore::migrate(&url));
    let mut applied = [one.unwrap(), two.unwrap()];
    applied.sort_unstable();
    let all =
        std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations/postgres")).unwrap().count();
    assert_eq!(applied, [0, all]);
    PostgresStore::connect(&url, config).await.unwrap().ping().await.unwrap();
    let (client, connection) = deadpool_postgres::tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(NEWER).await.unwrap();
    for error in [
        PostgresStore::connect(&url, config).await.unwrap_err(),
        PostgresStore::migrate(&url).await.unwrap_err(),
    ] {
        let error = message(error);
        assert!(error.contains("newer version") && error.contains("999"), "{error}");
    }
}

#[tokio::test]
async fn postgres_that_is_not_there_is_unavailable_and_a_malformed_url_is_said() {
    let away = "postgres://ta@127.0.0.1:1/none";
    let error = PostgresStore::connect(away, PoolConfig::default()).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    assert!(PostgresStore::migrate(away).await.unwrap_err().is_transient());
    let error = PostgresStore::connect("postgres://u:secret@:x/", PoolConfig::default()).await.unwrap_err();
    let text = message(error);
    assert!(text.contains("postgres://") && !text.contains("secret"), "{text}");
}

#[tokio::test]
async fn an_embedded_store_outlives_its_process_but_not_a_newer_version() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("a/b");
    let store = EmbeddedStore::open(&data).await.unwrap();
    store.create_run(new_run(1)).await.unwrap();
    let error = message(EmbeddedStore::open(&data).await.unwrap_err());
    assert!(error.contains("in use") && error.contains(&data.display().to_string()), "{error}");
    drop(store);
    let store = EmbeddedStore::open(&data).await.unwrap();
    assert_eq!(store.run(run_id(1)).await.unwrap().head_seq, 2);
    drop(store);
    rusqlite::Connection::open(data.join("tree-agent.db")).unwrap().execute_batch(NEWER).unwrap();
    let error = message(EmbeddedStore::open(&data).await.unwrap_err());
    assert!(error.contains("newer version") && error.contains(&data.display().to_string()), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn an_embedded_store_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("a/b");
    let store = EmbeddedStore::open(&data).await.unwrap();
    store.create_run(new_run(1)).await.unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&data), mode(&folder.path().join("a"))), (0o700, 0o700));
    for file in ["tree-agent.db", "tree-agent.db-wal", "tree-agent.db-shm", "tree-agent.lock"] {
        assert_eq!(mode(&data.join(file)), 0o600, "{file}");
    }
}

#[tokio::test]
async fn an_unusable_data_directory_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let error = message(EmbeddedStore::open(&file).await.unwrap_err());
    assert!(error.contains(&file.display().to_string()), "{error}");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("tree-agent.db"), "no database ".repeat(1_000)).unwrap();
    let error = message(EmbeddedStore::open(&data).await.unwrap_err());
    assert!(error.contains(&data.display().to_string()), "{error}");
}

#[tokio::test]
async fn a_store_in_memory_works() {
    let store = EmbeddedStore::open_in_memory().await.unwrap();
    store.create_run(new_run(1)).await.unwrap();
    assert_eq!(store.run(run_id(1)).await.unwrap().head_seq, 2);
}

/// The first migration of an earlier program was another one.
const EARLIER: &str = "UPDATE refinery_schema_history SET checksum = '1' WHERE version = 1";

#[tokio::test]
async fn a_store_that_an_earlier_version_made_is_refused_with_what_to_do() {
    let says_what_to_do = |error: StoreError, place: &str| {
        let error = message(error);
        assert!(error.starts_with(place) && error.contains("earlier version"), "{error}");
        assert!(error.contains("`tree-agent import`") && !error.contains('\n'), "{error}");
    };
    // Earlier programs had more migrations.
    let more = NEWER.replace("999", "41");
    let folder = tempfile::tempdir().unwrap();
    drop(EmbeddedStore::open(folder.path()).await.unwrap());
    let db = rusqlite::Connection::open(folder.path().join("tree-agent.db")).unwrap();
    db.execute_batch(&format!("{EARLIER}; {more}")).unwrap();
    drop(db);
    let error = EmbeddedStore::open(folder.path()).await.unwrap_err();
    says_what_to_do(error, &format!("the data directory {}", folder.path().display()));

    use deadpool_postgres::tokio_postgres::{NoTls, connect};
    let url = server().create_database().unwrap();
    PostgresStore::migrate(&url).await.unwrap();
    let (client, connection) = connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("{EARLIER}; {more}")).await.unwrap();
    for error in [
        PostgresStore::connect(&url, PoolConfig::default()).await.unwrap_err(),
        PostgresStore::migrate(&url).await.unwrap_err(),
    ] {
        says_what_to_do(error, "the database");
    }
}
