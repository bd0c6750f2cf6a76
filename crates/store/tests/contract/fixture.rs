//! A fresh store per test, a look at its tables, and short ways to make runs and events.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tree_agent_contract::event::{GuidanceAdded, NodeCreated, RunCreated, SCHEMA_VERSION};
use tree_agent_contract::graph::Usage;
use tree_agent_contract::{Event, EventBody, NodeId, NodeStatus, Role, RunId, RunSpec, RunStatus, Timestamp};
use tree_agent_store::embedded::EmbeddedStore;
use tree_agent_store::postgres::{PoolConfig, PostgresStore};
use tree_agent_store::{Claim, Created, NewRun, NodeRow, Projection, RunAppend, RunRow, Store};
use tree_agent_testkit::services::PrivatePostgres;
use uuid::Uuid;

/// Not a whole second, nor a whole millisecond: exactness is tested all along.
pub const T0: Timestamp = Timestamp(1_763_776_000_123_457);

/// One server for the whole test binary; it ends with the process.
pub fn server() -> &'static PrivatePostgres {
    static SERVER: OnceLock<PrivatePostgres> = OnceLock::new();
    SERVER.get_or_init(|| PrivatePostgres::start().expect("a private Postgres"))
}

pub struct Fixture {
    pub store: Arc<dyn Store>,
    raw: Raw,
}

enum Raw {
    Postgres(String),
    Embedded(tempfile::TempDir),
}

impl Fixture {
    pub async fn postgres() -> Self {
        let url = tokio::task::spawn_blocking(|| server().create_database()).await.unwrap().unwrap();
        assert!(PostgresStore::migrate(&url).await.unwrap() > 0);
        let store = PostgresStore::connect(&url, PoolConfig::default()).await.unwrap();
        Self { store: Arc::new(store), raw: Raw::Postgres(url) }
    }

    pub async fn embedded() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path().join("data")).await.unwrap();
        Self { store: Arc::new(store), raw: Raw::Embedded(folder) }
    }

    /// The rows of a query that both databases understand, columns joined by `|`, nulls as `-`.
    pub async fn rows(&self, sql: &str) -> Vec<String> {
        match &self.raw {
            Raw::Postgres(url) => {
                use deadpool_postgres::tokio_postgres::{NoTls, SimpleQueryMessage};
                let (client, connection) =
                    deadpool_postgres::tokio_postgres::connect(url, NoTls).await.unwrap();
                let connection = tokio::spawn(connection);
                let mut rows = Vec::new();
                for message in client.simple_query(sql).await.unwrap() {
                    if let SimpleQueryMessage::Row(row) = message {
                        let cells: Vec<_> = (0..row.len()).map(|i| row.get(i).unwrap_or("-")).collect();
                        rows.push(cells.join("|"));
                    }
                }
                drop(client);
                connection.await.unwrap().unwrap();
                rows
            }
            Raw::Embedded(folder) => {
                use rusqlite::types::ValueRef;
                let db = rusqlite::Connection::open(folder.path().join("data/tree-agent.db")).unwrap();
                let mut statement = db.prepare(sql).unwrap();
                let columns = statement.column_count();
                let cell = |value: ValueRef<'_>| match value {
                    ValueRef::Null => "-".to_owned(),
                    ValueRef::Integer(i) => i.to_string(),
                    other => other.as_str().unwrap().to_owned(),
                };
                let rows = statement.query_map([], |row| {
                    let cells: Vec<_> = (0..columns).map(|i| cell(row.get_ref(i).unwrap())).collect();
                    Ok(cells.join("|"))
                });
                rows.unwrap().map(Result::unwrap).collect()
            }
        }
    }

    /// Creates run `n` and claims it for `owner`. Only this run may be free.
    pub async fn claimed(&self, n: u128, owner: &str) -> Claim {
        let run = new_run(n);
        assert_eq!(self.store.create_run(run.clone()).await.unwrap(), Created::New(run.run_id));
        let claims = self.store.claim(owner, Duration::from_secs(60), 10).await.unwrap();
        assert_eq!(claims.len(), 1, "{claims:?}");
        assert_eq!(claims[0].run_id, run.run_id);
        claims[0]
    }
}

pub fn run_id(n: u128) -> RunId {
    RunId(Uuid::from_u128(n))
}

/// A run with two events, created `n` seconds after [`T0`].
pub fn new_run(n: u128) -> NewRun {
    let run_id = run_id(n);
    let root = NodeId::root(run_id);
    let spec = RunSpec::new(format!("Objective {n}"));
    let at = T0.plus_millis(n as u64 * 1_000);
    let created = RunCreated { spec: spec.clone(), root_node_id: root, schema_version: SCHEMA_VERSION };
    let node = NodeCreated {
        parent_node_id: None,
        title: spec.title(),
        depth: 0,
        band_index: None,
        step_index: None,
        step_id: None,
        reason: String::new(),
        success_criteria: vec!["true".into()],
    };
    NewRun {
        run_id,
        spec,
        request_id: String::new(),
        events: vec![event(run_id, 1, at, created), event(run_id, 2, at, node)],
        projection: Projection {
            run: Some(run_row(RunStatus::Queued)),
            nodes: vec![node_row(run_id, NodeStatus::Planning)],
            ..Projection::default()
        },
        documents: Vec::new(),
    }
}

pub fn event(run: RunId, seq: u64, at: Timestamp, body: impl Into<EventBody>) -> Event {
    Event {
        run_id: run,
        seq,
        node_id: NodeId::root(run),
        parent_node_id: None,
        timestamp: at,
        body: body.into(),
    }
}

/// An event that says `message`.
pub fn saying(run: RunId, seq: u64, message: &str) -> Event {
    let body = GuidanceAdded { text: message.into(), author: String::new() };
    event(run, seq, T0.plus_millis(seq), body)
}

/// An append of `n` events after `head`, without projection.
pub fn append(run: RunId, epoch: u64, head: u64, n: u64) -> RunAppend {
    RunAppend {
        run_id: run,
        epoch,
        expected_head: head,
        events: (head + 1..=head + n).map(|seq| saying(run, seq, &format!("e{epoch}"))).collect(),
        projection: Projection::default(),
        documents: Vec::new(),
        handled_commands: Vec::new(),
    }
}

pub fn run_row(status: RunStatus) -> RunRow {
    RunRow { status, partial: false, error: None, node_count: 1, usage: Usage::default() }
}

pub fn node_row(run: RunId, status: NodeStatus) -> NodeRow {
    NodeRow {
        id: NodeId::root(run),
        parent_node_id: None,
        title: "Root".into(),
        reason: "because".into(),
        success_criteria: vec!["one".into(), "two".into()],
        band_index: None,
        step_index: None,
        depth: 0,
        status,
        role_state: Role::Planner,
        scratchpad_doc_id: None,
        started_at: None,
        ended_at: None,
        created_at: T0,
        updated_at: T0,
    }
}

/// Asks again until the answer is there; fails after ten seconds.
pub async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
