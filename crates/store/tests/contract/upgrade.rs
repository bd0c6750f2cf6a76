//! What is stored by an earlier version is kept by the migrations that came after it.

use std::path::Path;

use deadpool_postgres::tokio_postgres::{NoTls, connect};

use crate::fixture::server;

/// The migrations of a folder: their numbers and texts, in order.
fn migrations(folder: &str) -> Vec<(u32, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations").join(folder);
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| {
            let file = file.unwrap();
            let name = file.file_name().into_string().unwrap();
            let number = name[1..].split("__").next().unwrap().parse().unwrap();
            (number, std::fs::read_to_string(file.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// A live run whose first command was answered, a live one without commands, and one that ended with a command. Two
/// were made by requests.
const COMMANDS: &str = "INSERT INTO tree_agent_runs (id, objective, _FOLDED_spec, strategy, scope, root_node_id, created_at, \
         updated_at, status, user_id, request_id) \
     VALUES (A, 'o', FOLDS'{}', 'tree', 'global', A, T, T, 'running', 'ann', 'r'), \
         (B, 'o', FOLDS'{}', 'tree', 'global', B, T, T, 'queued', 'ann', ''), \
         (C, 'o', FOLDS'{}', 'tree', 'global', C, T, T, 'completed', 'bob', 'r'); \
     INSERT INTO tree_agent_commands (run_id, command, created_at, handled_at) \
     VALUES (A, '{\"n\":1}', T, T), (C, '{\"n\":2}', T, NULL), (A, '{\"n\":3}', T, NULL)";
const LEFT: &str = "SELECT count(*) || ' ' || max(id) FROM tree_agent_commands";
const REQUESTS: &str = "SELECT q.user_id || ' ' || q.request_id || ' ' || r.status FROM tree_agent_requests q \
     JOIN tree_agent_runs r ON r.id = q.run_id ORDER BY q.user_id";
const LAST: &str = "SELECT last_command || '>' || claimed_command FROM tree_agent_runs ORDER BY id";

/// The statement with the ids of the runs A, B and C.
fn named(sql: &str, id: impl Fn(u32) -> String) -> String {
    let mut sql = sql.to_owned();
    for (name, n) in [("A", 1), ("B", 2), ("C", 3)] {
        for before in ["(", " "] {
            sql = sql.replace(&format!("{before}{name},"), &format!("{before}{},", id(n)));
        }
    }
    sql
}

#[tokio::test]
async fn commands_and_requests_of_before_are_kept() {
    let db = rusqlite::Connection::open_in_memory().unwrap();
    for (number, sql) in migrations("embedded") {
        if number == 31 {
            let fill = COMMANDS.replace("_FOLDED_", "objective_folded, ").replace("FOLDS", "'o', ");
            let fill = named(&fill.replace(", T", ", 1"), |n| format!("x'0{n}'"));
            db.execute_batch(&fill).unwrap();
        }
        db.execute_batch(&sql).unwrap();
    }
    let all = |sql: &str| {
        let mut statement = db.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        rows.map(Result::unwrap).collect::<Vec<_>>()
    };
    assert_eq!(all(LEFT), ["1 3"]);
    assert_eq!(all(LAST), ["3>0", "0>0", "2>0"]);
    assert_eq!(all(REQUESTS), ["ann r running", "bob r completed"]);

    let (client, connection) = connect(&server().create_database().unwrap(), NoTls).await.unwrap();
    tokio::spawn(connection);
    for (number, sql) in migrations("postgres") {
        if number == 31 {
            let fill = COMMANDS.replace("_FOLDED_", "").replace("FOLDS", "").replace(", T", ", now()");
            let fill = named(&fill, |n| format!("'00000000-0000-0000-0000-00000000000{n}'"));
            client.batch_execute(&fill).await.unwrap();
        }
        client.batch_execute(&sql).await.unwrap();
    }
    let all = async |sql: &str| {
        let rows = client.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>()
    };
    assert_eq!(all(LEFT).await, ["1 3"]);
    assert_eq!(all(LAST).await, ["3>0", "0>0", "2>0"]);
    assert_eq!(all(REQUESTS).await, ["ann r running", "bob r completed"]);
}
