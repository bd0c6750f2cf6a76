//! Forks are verified and rebuilt like other runs, and outlive the run that they fork.

use tree_agent_contract::command::Action;
use tree_agent_contract::event::RunForked;
use tree_agent_contract::{Event, NodeId, RunId, RunSpec};
use tree_agent_engine::Run;
use tree_agent_maintenance::archive::{archive, prune, restore};
use tree_agent_maintenance::rebuild;
use tree_agent_store::{Created, NewFork, RunRow, StoreError};
use uuid::Uuid;

use crate::fixture::Fixture;

/// A fork of the run at its head, which has ended like that.
async fn fork(f: &Fixture, n: u128, parent: RunId) -> RunId {
    let log = f.store.read(parent, 0, usize::MAX).await.unwrap();
    let run = Run::replay(parent, &log).unwrap();
    let (run_id, seq, graph) = (RunId(Uuid::from_u128(n)), run.graph().seq(), run.graph());
    let now = log.last().unwrap().timestamp.plus_millis(1_000);
    let edits = vec![Action::SetModel { model: "other".into() }];
    let body = RunForked {
        source_run_id: parent,
        at_seq: seq,
        origin_run_id: Some(run.origin()),
        author: "ann".into(),
        request_id: String::new(),
        display_name: format!("fork {n}"),
        labels: Default::default(),
        edits: edits.clone(),
        goes_on: false,
    };
    let node_id: NodeId = graph.nodes()[0].id;
    let new = NewFork {
        run_id,
        parent_run_id: parent,
        parent_seq: seq,
        spec: RunSpec {
            user_id: "ann".into(),
            display_name: format!("fork {n}"),
            labels: Default::default(),
            model: "other".into(),
            ..run.spec().clone()
        },
        request_id: String::new(),
        event: Event {
            run_id,
            seq: seq + 1,
            node_id,
            parent_node_id: None,
            timestamp: now,
            body: body.into(),
        },
        row: RunRow {
            status: graph.status(),
            partial: graph.partial(),
            error: graph.error().map(str::to_owned),
            node_count: graph.nodes().len() as u64,
            usage: Default::default(),
            started_at: graph.started_at().map(|_| now),
            ended_at: graph.ended_at().map(|_| now),
        },
        edits: edits.iter().map(Action::words).collect(),
    };
    assert_eq!(f.store.fork_run(new).await.unwrap(), Created::New(run_id));
    run_id
}

/// What a reader of the run gets.
async fn seen(f: &Fixture, run: RunId) -> impl PartialEq + std::fmt::Debug + use<> {
    let events = f.store.stored_events(run, 0, usize::MAX).await.unwrap();
    let documents = f.store.run_documents(run, None, usize::MAX).await.unwrap();
    let chunks = f.store.document_chunks(run, None, usize::MAX).await.unwrap();
    let sessions = f.store.run_sessions(run, None, usize::MAX).await.unwrap();
    (events, documents, chunks, sessions)
}

pub async fn a_fork_is_verified_and_rebuilt(f: Fixture) {
    for (n, name) in (1..).zip(crate::fixture::RECORDED) {
        let run = f.write(name).await;
        let first = fork(&f, n * 100, run).await;
        let second = fork(&f, n * 100 + 1, first).await;
        for run in [run, first, second] {
            assert_eq!(f.findings(run).await, Vec::<String>::new(), "{name}");
            assert_eq!(rebuild(&*f.store, run).await.unwrap().differences, 0, "{name}");
        }
    }
}

pub async fn forks_outlive_the_run_that_they_fork(f: Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let run = f.write("search").await;
    let first = fork(&f, 1, run).await;
    let second = fork(&f, 2, first).await;
    let other = fork(&f, 3, run).await;
    let before = (seen(&f, first).await, seen(&f, second).await, seen(&f, other).await);
    archive(&*f.store, run, folder.path()).await.unwrap();
    assert!(prune(&*f.store, run, folder.path()).await.unwrap());
    f.store.tidy().await.unwrap();
    assert!(matches!(f.store.read(run, 0, 1).await, Err(StoreError::Archived(_))));
    let check = async || {
        assert_eq!((seen(&f, first).await, seen(&f, second).await, seen(&f, other).await), before);
        for fork in [first, second, other] {
            assert_eq!(f.findings(fork).await, Vec::<String>::new());
        }
    };
    check().await;
    // The run comes back beside its forks.
    assert!(restore(&*f.store, run, folder.path()).await.unwrap());
    assert_eq!(f.findings(run).await, Vec::<String>::new());
    check().await;
    // A fork is archived whole, and its own fork outlives it, too.
    archive(&*f.store, first, folder.path()).await.unwrap();
    assert!(prune(&*f.store, first, folder.path()).await.unwrap());
    f.store.tidy().await.unwrap();
    assert!(matches!(f.store.read(first, 0, 1).await, Err(StoreError::Archived(_))));
    assert_eq!(seen(&f, second).await, before.1);
    archive(&*f.store, run, folder.path()).await.unwrap();
    assert!(prune(&*f.store, run, folder.path()).await.unwrap());
    f.store.tidy().await.unwrap();
    assert_eq!(seen(&f, second).await, before.1);
    assert!(restore(&*f.store, first, folder.path()).await.unwrap());
    check().await;
    let parent = f.store.run(first).await.unwrap().fork.unwrap();
    assert_eq!((parent.parent_run_id, parent.edits), (run, vec!["uses the model other".to_owned()]));
}

pub async fn an_archive_of_a_fork_restores_alone(f: Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let run = f.write("search").await;
    let fork = fork(&f, 1, run).await;
    let before = seen(&f, fork).await;
    archive(&*f.store, fork, folder.path()).await.unwrap();
    let other = if f.is_postgres() { Fixture::postgres().await } else { Fixture::embedded().await };
    assert!(restore(&*other.store, fork, folder.path()).await.unwrap());
    assert_eq!(seen(&other, fork).await, before);
    assert_eq!(other.findings(fork).await, Vec::<String>::new());
    assert_eq!(other.store.run(fork).await.unwrap(), f.store.run(fork).await.unwrap());
}
