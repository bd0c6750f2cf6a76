//! Helpers that make runs and events. Other crates that test their own store against the contract share them.

use std::time::{Duration, Instant};

use tree_agent_contract::event::{GuidanceAdded, NodeCreated, RunCreated};
use tree_agent_contract::graph::Usage;
use tree_agent_contract::{Event, EventBody, NodeId, NodeStatus, Role, RunId, RunSpec, RunStatus, Timestamp};
use tree_agent_store::{Claim, Created, NewRun, NodeRow, Projection, RunAppend, RunRow, Store};
use uuid::Uuid;

/// Neither a whole second nor a whole millisecond, so that every test checks exactness.
pub const T0: Timestamp = Timestamp(1_763_776_000_123_457);

/// Creates run `n` and claims it for `owner`. Only this run may be free.
pub async fn claimed(store: &dyn Store, n: u128, owner: &str) -> Claim {
    let run = new_run(n);
    assert_eq!(store.create_run(run.clone()).await.unwrap(), Created::New(run.run_id));
    let claims = claim(store, owner, Duration::from_secs(60), 10).await;
    assert_eq!(claims.len(), 1, "{claims:?}");
    assert_eq!(claims[0].run_id, run.run_id);
    claims[0]
}

/// Claims runs in another term of `owner`.
pub async fn claim(store: &dyn Store, owner: &str, ttl: Duration, limit: usize) -> Vec<Claim> {
    let term = store.begin_term(owner, ttl).await.unwrap().number;
    store.claim(owner, term, limit, limit, 0).await.unwrap()
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
    let created = RunCreated::new(spec.clone(), root);
    let node = NodeCreated { success_criteria: vec!["true".into()], ..NodeCreated::new(spec.title()) };
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
        sessions: Vec::new(),
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

/// An event with this `message`.
pub fn saying(run: RunId, seq: u64, message: &str) -> Event {
    let body = GuidanceAdded {
        text: message.into(),
        author: String::new(),
        request_id: String::new(),
        subtree: false,
    };
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
        answers: Vec::new(),
        sessions: Vec::new(),
    }
}

pub fn run_row(status: RunStatus) -> RunRow {
    RunRow {
        status,
        partial: false,
        error: None,
        node_count: 1,
        ended_nodes: 0,
        usage: Usage::default(),
        models: Vec::new(),
        started_at: None,
        ended_at: None,
    }
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

/// Polls until there is an answer. Fails after ten seconds.
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
