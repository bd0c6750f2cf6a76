//! The keys of every table. What belongs to a run is keyed by it first and refers to no other table, so that a
//! distributed database can place a run as a whole.

use std::collections::BTreeSet;

use deadpool_postgres::tokio_postgres::{NoTls, connect};
use tree_agent_store::embedded::EmbeddedStore;
use tree_agent_store::postgres::PostgresStore;

use crate::fixture::server;

/// What belongs to a run: the tables that appends write and those that are written beside them, with the column that
/// names the run.
const OF_RUNS: [(&str, &str); 10] = [
    ("tree_agent_artifacts", "run_id"),
    ("tree_agent_commands", "run_id"),
    ("tree_agent_document_chunks", "run_id"),
    ("tree_agent_documents", "run_id"),
    ("tree_agent_events", "run_id"),
    ("tree_agent_nodes", "run_id"),
    ("tree_agent_plans", "run_id"),
    ("tree_agent_replies", "run_id"),
    ("tree_agent_runs", "id"),
    ("tree_agent_sessions", "run_id"),
];
/// What all runs share. No append writes it.
const SHARED: [&str; 10] = [
    "onto_passages",
    "onto_pending",
    "onto_project_members",
    "onto_projects",
    "onto_sources",
    "onto_vector_models",
    "onto_vectors",
    "refinery_schema_history",
    "tree_agent_drivers",
    "tree_agent_requests",
];

/// Every table is in one of the lists. A table that is new belongs to a run, and is keyed by it, unless all runs share
/// it.
fn all_are_known(tables: &[String]) {
    let known: BTreeSet<&str> = OF_RUNS.iter().map(|(table, _)| *table).chain(SHARED).collect();
    assert_eq!(tables.iter().map(String::as_str).collect::<BTreeSet<_>>(), known);
}

/// `unique` has the table and the first column of each unique index; primary keys are among them.
fn keyed_by_run(unique: &[(String, String)]) {
    for (table, run) in OF_RUNS {
        let first: Vec<_> = unique.iter().filter(|(of, _)| of == table).map(|(_, column)| column).collect();
        assert!(!first.is_empty(), "{table} has no key");
        assert!(first.iter().all(|column| *column == run), "{table} has keys that begin with {first:?}");
    }
}

#[tokio::test]
async fn what_belongs_to_a_run_is_keyed_by_it_on_postgres() {
    let url = tokio::task::spawn_blocking(|| server().create_database()).await.unwrap().unwrap();
    PostgresStore::migrate(&url).await.unwrap();
    let (client, connection) = connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let rows = async |sql: &str| {
        let rows = client.query(sql, &[]).await.unwrap();
        let cells = |row: &deadpool_postgres::tokio_postgres::Row| {
            (row.get::<_, String>(0), row.try_get::<_, String>(1).unwrap_or_default())
        };
        rows.iter().map(cells).collect::<Vec<_>>()
    };
    let tables = rows(
        "SELECT relname::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace \
         AND relkind IN ('r', 'p', 'f') AND NOT relispartition",
    );
    all_are_known(&tables.await.into_iter().map(|(table, _)| table).collect::<Vec<_>>());
    let unique = rows(
        "SELECT c.relname::text, a.attname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid \
         LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0] WHERE i.indisunique",
    );
    keyed_by_run(&unique.await);
    // Neither references, nor triggers, nor numbers from sequences.
    let ties = rows(
        "SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint WHERE contype = 'f' UNION ALL \
         SELECT tgrelid::regclass::text, tgname::text FROM pg_trigger WHERE NOT tgisinternal UNION ALL \
         SELECT adrelid::regclass::text, pg_get_expr(adbin, adrelid) FROM pg_attrdef \
         WHERE pg_get_expr(adbin, adrelid) LIKE '%nextval%'",
    );
    let ties = ties.await;
    let of_runs = |name: &String| OF_RUNS.iter().any(|(table, _)| table == name);
    let found: Vec<_> = ties.iter().filter(|(from, to)| of_runs(from) || of_runs(to)).collect();
    assert!(found.is_empty(), "{found:?}");
    assert!(ties.iter().any(|(from, _)| from == "onto_sources"), "the query finds what there is");
}

#[tokio::test]
async fn what_belongs_to_a_run_is_keyed_by_it_in_the_embedded_store() {
    let folder = tempfile::tempdir().unwrap();
    EmbeddedStore::open(folder.path().join("data")).await.unwrap();
    let db = rusqlite::Connection::open(folder.path().join("data/tree-agent.db")).unwrap();
    let strings = |sql: &str| {
        let mut statement = db.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        rows.map(Result::unwrap).collect::<Vec<_>>()
    };
    all_are_known(&strings(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' \
         AND name NOT LIKE 'onto_passages_search%'",
    ));
    let mut unique = Vec::new();
    for (table, _) in OF_RUNS {
        let first = format!("SELECT name FROM pragma_table_info('{table}') WHERE pk = 1");
        unique.extend(strings(&first).into_iter().map(|column| (table.to_owned(), column)));
        for index in strings(&format!("SELECT name FROM pragma_index_list('{table}') WHERE \"unique\"")) {
            let first = format!("SELECT name FROM pragma_index_info('{index}') WHERE seqno = 0");
            unique.extend(strings(&first).into_iter().map(|column| (table.to_owned(), column)));
        }
        let references = strings(&format!("SELECT \"table\" FROM pragma_foreign_key_list('{table}')"));
        assert!(references.is_empty(), "{table} refers to {references:?}");
    }
    keyed_by_run(&unique);
}
