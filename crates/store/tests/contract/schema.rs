//! Schema versions, and which programs may open them.

use tree_agent_contract::RunContext;
use tree_agent_contract::graph::Usage;
use tree_agent_store::embedded::EmbeddedStore;
use tree_agent_store::postgres::{PoolConfig, PostgresStore};
use tree_agent_store::{Documents, Operations, Projects, Runs, SearchQuery, StoreError};

use crate::documents::{new_project, source};
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

/// A run of the first schema that has used something, with its log.
const USED: &str = r#"INSERT INTO tree_agent_events (run_id, seq, id, node_id, event_type, payload, created_at) VALUES
    (ID, 1, ID, ID, 'tree.usage_recorded', '{"inputTokens": 10, "outputTokens": 2, "costMicros": 5, "durationMs": 7}', NOW),
    (ID, 2, ID, ID, 'tree.usage_recorded', '{"inputTokens": 1, "outputTokens": 1, "cachedTokens": 1}', NOW),
    (ID, 3, ID, ID, 'tree.tool_call_requested', '{"toolName": "x"}', NOW),
    (ID, 4, ID, ID, 'tree.node_created', '{}', NOW)"#;

fn used() -> Usage {
    Usage {
        input_tokens: 11,
        output_tokens: 3,
        cached_tokens: 1,
        cache_write_tokens: 0,
        cost_micros: 5,
        model_calls: 2,
        duration_ms: 7,
        tool_calls: 1,
    }
}

#[tokio::test]
async fn runs_of_the_first_schema_get_their_usage_from_their_logs() {
    let insert = |id: &str, now: &str, projects: &str| {
        let run = format!(
            "INSERT INTO tree_agent_runs (id, objective, {projects}spec, strategy, scope, root_node_id, created_at, \
             updated_at) VALUES (ID, 'o', {}'{{}}', 'tree', 'global', ID, NOW, NOW); {USED}",
            if projects.is_empty() { "" } else { "'o', " }
        );
        run.replace("ID", id).replace("NOW", now)
    };
    let folder = tempfile::tempdir().unwrap();
    let db = rusqlite::Connection::open(folder.path().join("x.db")).unwrap();
    db.execute_batch(include_str!("../../../../migrations/embedded/V1__initial.sql")).unwrap();
    db.execute_batch(&insert("x'01'", "1", "objective_folded, ")).unwrap();
    db.execute_batch(include_str!("../../../../migrations/embedded/V2__run_usage.sql")).unwrap();
    let usage: String = db.query_row("SELECT usage FROM tree_agent_runs", [], |row| row.get(0)).unwrap();
    assert_eq!(serde_json::from_str::<Usage>(&usage).unwrap(), used());

    let url = server().create_database().unwrap();
    let (client, connection) =
        deadpool_postgres::tokio_postgres::connect(&url, deadpool_postgres::tokio_postgres::NoTls)
            .await
            .unwrap();
    tokio::spawn(connection);
    client.batch_execute(include_str!("../../../../migrations/postgres/V1__initial.sql")).await.unwrap();
    client.batch_execute(&insert("'00000000-0000-0000-0000-000000000001'", "now()", "")).await.unwrap();
    client.batch_execute(include_str!("../../../../migrations/postgres/V2__run_usage.sql")).await.unwrap();
    let row = client.query_one("SELECT usage::text FROM tree_agent_runs", &[]).await.unwrap();
    assert_eq!(serde_json::from_str::<Usage>(row.get(0)).unwrap(), used());
}

/// A run that was paused, and whose drivers' clocks did not agree.
const ENDED: &str = r#"INSERT INTO tree_agent_events (run_id, seq, id, node_id, event_type, payload, created_at) VALUES
    (ID, 1, ID, ID, 'tree.run_status', '{"status": "queued"}', T1),
    (ID, 2, ID, ID, 'tree.run_status', '{"status": "running"}', T5),
    (ID, 3, ID, ID, 'tree.run_status', '{"status": "running"}', T3),
    (ID, 4, ID, ID, 'tree.run_status', '{"status": "failed"}', T7)"#;

#[tokio::test]
async fn runs_of_before_get_their_start_and_end_from_their_logs() {
    let insert = |id: &str, time: &dyn Fn(u8) -> String, folded: (&str, &str)| {
        let run = format!(
            "INSERT INTO tree_agent_runs (id, objective, {}spec, strategy, scope, root_node_id, created_at, updated_at) \
             VALUES (ID, 'o', {}'{{}}', 'tree', 'global', ID, T1, T7); {ENDED}",
            folded.0, folded.1
        );
        (1..=7).fold(run.replace("ID", id), |sql, n| sql.replace(&format!("T{n}"), &time(n)))
    };
    let db = rusqlite::Connection::open_in_memory().unwrap();
    let embedded = [
        include_str!("../../../../migrations/embedded/V1__initial.sql"),
        include_str!("../../../../migrations/embedded/V2__run_usage.sql"),
        include_str!("../../../../migrations/embedded/V3__document_offsets.sql"),
        include_str!("../../../../migrations/embedded/V4__archives.sql"),
    ];
    embedded.iter().for_each(|sql| db.execute_batch(sql).unwrap());
    db.execute_batch(&insert("x'01'", &|n| n.to_string(), ("objective_folded, ", "'o', "))).unwrap();
    db.execute_batch(include_str!("../../../../migrations/embedded/V5__run_lists.sql")).unwrap();
    let times = db.query_row("SELECT started_at, ended_at, labels FROM tree_agent_runs", [], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?))
    });
    assert_eq!(times.unwrap(), (5, 7, "{}".to_owned()));

    use deadpool_postgres::tokio_postgres::{NoTls, connect};
    let (client, connection) = connect(&server().create_database().unwrap(), NoTls).await.unwrap();
    tokio::spawn(connection);
    for sql in [
        include_str!("../../../../migrations/postgres/V1__initial.sql"),
        include_str!("../../../../migrations/postgres/V2__run_usage.sql"),
        include_str!("../../../../migrations/postgres/V3__document_offsets.sql"),
        include_str!("../../../../migrations/postgres/V4__partitions.sql"),
        include_str!("../../../../migrations/postgres/V5__document_room.sql"),
    ] {
        client.batch_execute(sql).await.unwrap();
    }
    let id = "'00000000-0000-0000-0000-000000000001'";
    client.batch_execute(&insert(id, &|n| format!("to_timestamp({n})"), ("", ""))).await.unwrap();
    client.batch_execute(include_str!("../../../../migrations/postgres/V6__run_lists.sql")).await.unwrap();
    let sql = "SELECT extract(epoch FROM started_at)::int8, extract(epoch FROM ended_at)::int8 FROM tree_agent_runs";
    let row = client.query_one(sql, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (5, 7));
}

#[tokio::test]
async fn a_store_in_memory_works() {
    let store = EmbeddedStore::open_in_memory().await.unwrap();
    store.create_run(new_run(1)).await.unwrap();
    assert_eq!(store.run(run_id(1)).await.unwrap().head_seq, 2);
}

/// The whole log of a database without partitions becomes the first partition.
#[tokio::test]
async fn a_log_before_partitions_is_kept() {
    use deadpool_postgres::tokio_postgres::NoTls;
    use refinery::{Migration, Runner};
    let url = server().create_database().unwrap();
    let (mut client, connection) = deadpool_postgres::tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let before = [
        ("V1__initial", include_str!("../../../../migrations/postgres/V1__initial.sql")),
        ("V2__run_usage", include_str!("../../../../migrations/postgres/V2__run_usage.sql")),
        ("V3__document_offsets", include_str!("../../../../migrations/postgres/V3__document_offsets.sql")),
    ]
    .map(|(name, sql)| Migration::unapplied(name, sql).unwrap());
    Runner::new(&before).run_async(&mut client).await.unwrap();
    // Runs of now, of long ago, with an id without a time, and of the future.
    client
        .batch_execute(
            "INSERT INTO tree_agent_events SELECT id, seq, gen_random_uuid(), id, NULL, 'tree.guidance_added', '{}', now() \
             FROM unnest(ARRAY['00000000-0000-0000-0000-000000000001', '018c0000-0000-7000-8000-000000000001', \
             'f0000000-0000-4000-8000-000000000001', lpad(to_hex((extract(epoch FROM now()) * 1000)::int8), 12, '0') \
             || '70008000000000000001']::uuid[]) AS id, generate_series(1, 3) AS seq",
        )
        .await
        .unwrap();
    let all = "SELECT string_agg(e::text, ' ' ORDER BY run_id, seq) FROM tree_agent_events e";
    let whole: String = client.query_one(all, &[]).await.unwrap().get(0);
    let applied = PostgresStore::migrate(&url).await.unwrap();
    assert!(applied >= 2, "{applied}: the partitions, and whatever came after them");
    assert_eq!(client.query_one(all, &[]).await.unwrap().get::<_, String>(0), whole);
    let places = "SELECT string_agg(tableoid::regclass || ' ' || n, ', ' ORDER BY tableoid::regclass::text) FROM \
                  (SELECT tableoid, count(*) AS n FROM tree_agent_events GROUP BY tableoid) t";
    let places: String = client.query_one(places, &[]).await.unwrap().get(0);
    assert_eq!(places, "tree_agent_events_before 9, tree_agent_events_default 3");
    let store = PostgresStore::connect(&url, PoolConfig::default()).await.unwrap();
    let run = tree_agent_contract::RunId(uuid::Uuid::from_u128(1));
    assert_eq!(tree_agent_store::Operations::stored_events(&store, run, 1, 9).await.unwrap().len(), 2);
}

/// Documents of an older version: a source, and a scratchpad over the limit of a run at event 9.
const DOCUMENTS: &str = "INSERT INTO onto_documents (id, type_key, project_id, run_id, path, title, body, props, created_at, \
     updated_at, dropped_bytes) VALUES (SOURCE, 'document.source', NULL, NULL, 'a.md', 'A', 'words', '{}', T1, T1, 0), \
     (PAD, 'document.tree_agent.scratchpad', NULL, ID, '', 'Pad', 'end of it', '{}', T1, T2, 7); \
     UPDATE tree_agent_runs SET head_seq = 9";
const FOUND: &str = "SELECT title, body, bytes, run_id IS NULL FROM onto_documents ORDER BY title";
const MOVED: &str = "SELECT base_seq, dropped_bytes, body FROM tree_agent_documents";

#[tokio::test]
async fn documents_of_before_are_kept_and_grow() {
    use deadpool_postgres::tokio_postgres::{NoTls, SimpleQueryMessage, connect};
    let fill = |sql: &str, ids: [&str; 3], times: [&str; 2]| {
        let sql = sql.replace("SOURCE", ids[0]).replace("PAD", ids[1]).replace("ID", ids[2]);
        sql.replace("T1", times[0]).replace("T2", times[1])
    };
    let run = "INSERT INTO tree_agent_runs (id, objective, _FOLDED_spec, strategy, scope, root_node_id, created_at, updated_at) \
               VALUES (ID, 'o', FOLDS'{}', 'tree', 'global', ID, T1, T1)";
    let folder = tempfile::tempdir().unwrap();
    let db = rusqlite::Connection::open(folder.path().join("x.db")).unwrap();
    let mut files: Vec<_> =
        std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations/embedded"))
            .unwrap()
            .map(|file| file.unwrap().path())
            .collect();
    let number = |file: &std::path::Path| {
        let name = file.file_name().unwrap().to_str().unwrap();
        name[1..].split("__").next().unwrap().parse::<u32>().unwrap()
    };
    files.sort_by_key(|file| number(file));
    let (before, after): (Vec<_>, Vec<_>) = files.iter().partition(|file| number(file) < 30);
    let apply =
        |file: &&std::path::PathBuf| db.execute_batch(&std::fs::read_to_string(file).unwrap()).unwrap();
    before.iter().for_each(apply);
    let run_here = run.replace("_FOLDED_", "objective_folded, ").replace("FOLDS", "'o', ");
    let ids = ["x'01'", "x'02'", "x'03'"];
    db.execute_batch(&fill(&format!("{run_here}; {DOCUMENTS}"), ids, ["1", "2"])).unwrap();
    after.iter().for_each(apply);
    let found = |sql: &str| {
        let mut statement = db.prepare(sql).unwrap();
        let columns = statement.column_count();
        let row = |row: &rusqlite::Row<'_>| {
            let cell = |i| match row.get_ref(i).unwrap() {
                rusqlite::types::ValueRef::Integer(i) => i.to_string(),
                other => other.as_str().unwrap().to_owned(),
            };
            Ok((0..columns).map(cell).collect::<Vec<_>>().join("|"))
        };
        statement.query_map([], row).unwrap().map(Result::unwrap).collect::<Vec<_>>()
    };
    assert_eq!(found(FOUND), ["A|words|5|1", "Pad|end of it|9|0"]);
    assert_eq!(found(MOVED), ["9|7|end of it"]);

    let (client, connection) = connect(&server().create_database().unwrap(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let mut files: Vec<_> =
        std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations/postgres"))
            .unwrap()
            .map(|file| file.unwrap().path())
            .collect();
    files.sort_by_key(|file| number(file));
    let run_there = run.replace("_FOLDED_", "").replace("FOLDS", "");
    let id = |n| format!("'00000000-0000-0000-0000-00000000000{n}'");
    for file in files {
        if number(&file) == 30 {
            let ids = [id(1), id(2), id(3)];
            let sql =
                fill(&format!("{run_there}; {DOCUMENTS}"), [&ids[0], &ids[1], &ids[2]], ["now()", "now()"]);
            client.batch_execute(&sql).await.unwrap();
        }
        client.batch_execute(&std::fs::read_to_string(file).unwrap()).await.unwrap();
    }
    let rows = async |sql: &str| {
        let messages = client.simple_query(sql).await.unwrap();
        let cells = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|i| row.get(i).unwrap()).collect::<Vec<_>>().join("|"))
            }
            _ => None,
        };
        messages.iter().filter_map(cells).collect::<Vec<_>>()
    };
    assert_eq!(rows(FOUND).await, ["A|words|5|t", "Pad|end of it|9|f"]);
    assert_eq!(rows(MOVED).await, ["9|7|end of it"]);
    let search = "SELECT title FROM onto_sources WHERE search @@ to_tsquery('tree_agent', 'word')";
    assert_eq!(rows(search).await, ["A"]);
}

/// An index as the programs before these rules wrote it, in which a decomposed accent divides a word.
#[tokio::test]
async fn documents_that_were_indexed_by_older_rules_are_indexed_again() {
    let found = async |store: &dyn Documents| {
        let query = SearchQuery {
            text: "café".into(),
            context: RunContext::default(),
            path_prefix: String::new(),
            limit: 9,
        };
        store.search_documents(query).await.unwrap().total
    };
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path()).await.unwrap();
    put_cafe(&store, &store).await;
    assert_eq!(found(&store).await, 1);
    drop(store);
    let db = rusqlite::Connection::open(folder.path().join("tree-agent.db")).unwrap();
    db.execute_batch(
        "DELETE FROM onto_documents_search; INSERT INTO onto_documents_search (rowid, title, path, body) \
         SELECT row, title, path, body FROM onto_sources; UPDATE onto_sources SET search_version = 0",
    )
    .unwrap();
    drop(db);
    let store = EmbeddedStore::open(folder.path()).await.unwrap();
    assert_eq!(found(&store).await, 1);

    use deadpool_postgres::tokio_postgres::{NoTls, connect};
    let url = server().create_database().unwrap();
    PostgresStore::migrate(&url).await.unwrap();
    let store = PostgresStore::connect(&url, PoolConfig::default()).await.unwrap();
    put_cafe(&store, &store).await;
    let (client, connection) = connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
        .batch_execute(
            "UPDATE onto_sources SET search = tree_agent_search_vector(title, path, body), search_version = 0",
        )
        .await
        .unwrap();
    assert_eq!(found(&store).await, 0);
    assert_eq!(PostgresStore::migrate(&url).await.unwrap(), 0, "no migration is left, only the index");
    assert_eq!(found(&store).await, 1);
}

async fn put_cafe(projects: &dyn Projects, documents: &dyn Documents) {
    projects.create_project(new_project(1, "One")).await.unwrap();
    documents.put_document(source(1, 1, "a.md", "A", "In the cafe\u{301}.")).await.unwrap();
}
