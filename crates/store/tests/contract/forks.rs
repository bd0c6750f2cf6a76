//! Forks: one log under the fork's id, and nothing of the run before it is copied or changed.

use tree_agent_contract::command::Action;
use tree_agent_contract::document::{Document, DocumentKind, DocumentOp, DocumentProps};
use tree_agent_contract::event::{NodeCreated, RunForked};
use tree_agent_contract::{DocumentId, NodeId, RunId, RunSpec, RunStatus, Timestamp};
use tree_agent_store::{Created, NewFork, NewRun, RunAppend, Store, StoreError};
use uuid::Uuid;

use crate::fixture::Fixture;
use crate::make::{T0, append, claim, claimed, event, new_run, run_id, run_row};

fn document_id(n: u128) -> DocumentId {
    DocumentId(Uuid::from_u128(n))
}

/// Run `n` as a fork of `parent` at the event `seq`.
pub fn new_fork(n: u128, parent: RunId, seq: u64) -> NewFork {
    let edits = vec![Action::SetModel { model: "m".into() }];
    let body = RunForked {
        source_run_id: parent,
        at_seq: seq,
        origin_run_id: Some(run_id(1)),
        author: "ann".into(),
        by_administrator: false,
        request_id: String::new(),
        display_name: String::new(),
        labels: Default::default(),
        edits: edits.clone(),
        goes_on: false,
    };
    let at = T0.plus_millis(1_000_000 + n as u64 * 1_000);
    NewFork {
        run_id: run_id(n),
        parent_run_id: parent,
        parent_seq: seq,
        spec: RunSpec { user_id: "ann".into(), ..RunSpec::new("Objective 1") },
        request_id: String::new(),
        event: tree_agent_contract::Event {
            node_id: NodeId::root(run_id(1)),
            ..event(run_id(n), seq + 1, at, body)
        },
        row: run_row(RunStatus::Running),
        edits: edits.iter().map(Action::words).collect(),
    }
}

pub fn pad(n: u128, run: RunId, body: &str, at: Timestamp) -> Document {
    Document {
        id: document_id(n),
        kind: DocumentKind::Scratchpad,
        project_id: None,
        run_id: Some(run),
        path: String::new(),
        title: format!("pad {n}"),
        body: body.into(),
        props: DocumentProps::default(),
        created_at: at,
        updated_at: at,
    }
}

pub fn text(id: u128, seq: u64, text: &str) -> DocumentOp {
    DocumentOp::Append { id: document_id(id), seq, text: text.into(), at: T0.plus_millis(seq) }
}

pub fn place(child: u128, parent: u128, seq: u64) -> DocumentOp {
    DocumentOp::Link { parent: document_id(parent), child: document_id(child), seq, at: T0.plus_millis(seq) }
}

pub async fn write(store: &dyn Store, append: RunAppend) {
    let outcome = store.append([append].into()).await.unwrap();
    assert_eq!(outcome, [tree_agent_store::AppendOutcome::Appended]);
}

/// Run 1 with six events, a workspace from event 3 on, and a scratchpad that grows with events 4, 5 and 6.
pub async fn parent(store: &dyn Store) -> (RunId, u64) {
    let taken = claimed(store, 1, "a").await;
    let mut grown = append(taken.run_id, taken.epoch, 2, 4);
    grown.documents = vec![
        DocumentOp::Create(pad(10, taken.run_id, "", T0)),
        DocumentOp::Create(pad(11, taken.run_id, "a", T0)),
        place(11, 10, 4),
        text(11, 5, "b"),
        text(11, 6, "c"),
    ];
    write(store, grown).await;
    (taken.run_id, taken.epoch)
}

async fn body_of(store: &dyn Store, run: RunId, id: u128) -> String {
    store.document_of(run, document_id(id), None).await.unwrap().document.body
}

pub async fn a_fork_is_one_log_and_copies_nothing(f: Fixture) {
    let store = f.store.clone();
    let (run, epoch) = parent(&*store).await;
    let fork = new_fork(2, run, 4);
    assert_eq!(store.fork_run(fork.clone()).await.unwrap(), Created::New(run_id(2)));
    let log = store.read(run_id(2), 0, 100).await.unwrap();
    let shared = store.read(run, 0, 4).await.unwrap();
    assert_eq!(log.len(), 5);
    assert!(
        log.iter().zip(&shared).all(|(a, b)| (a.seq, &a.body, a.timestamp) == (b.seq, &b.body, b.timestamp))
    );
    assert!(log.iter().all(|event| event.run_id == run_id(2)));
    assert_eq!(log[4], fork.event);
    assert_eq!(store.heads(&[run_id(2)]).await.unwrap(), [(run_id(2), 5)]);
    // Pages begin anywhere.
    for after in 0..6 {
        let page = store.read(run_id(2), after, 2).await.unwrap();
        assert_eq!(page, log[(after as usize).min(5)..(after as usize + 2).min(5)], "after {after}");
    }
    let summary = store.run(run_id(2)).await.unwrap();
    let of = summary.fork.expect("it is a fork");
    assert_eq!((of.parent_run_id, of.parent_seq, of.edits), (run, 4, vec!["uses the model m".to_owned()]));
    assert_eq!((summary.root_node_id, summary.spec.user_id.as_str()), (NodeId::root(run), "ann"));
    assert_eq!(store.run(run).await.unwrap().fork, None);
    // Each of them goes on alone.
    write(&*store, append(run, epoch, 6, 1)).await;
    let taken = claim(&*store, "b", std::time::Duration::from_secs(60), 10).await;
    assert_eq!((taken.len(), taken[0].run_id, taken[0].head_seq), (1, run_id(2), 5));
    write(&*store, append(run_id(2), taken[0].epoch, 5, 2)).await;
    assert_eq!(store.read(run_id(2), 0, 100).await.unwrap().len(), 7);
    assert_eq!(store.read(run, 0, 100).await.unwrap().len(), 7);
    assert_eq!(store.read(run, 4, 1).await.unwrap()[0].run_id, run);
}

pub async fn a_request_id_makes_a_fork_idempotent(f: Fixture) {
    let store = f.store.clone();
    let (run, _) = parent(&*store).await;
    let fork = NewFork { request_id: "r".into(), ..new_fork(2, run, 4) };
    assert_eq!(store.fork_run(fork.clone()).await.unwrap(), Created::New(run_id(2)));
    assert_eq!(store.fork_run(fork.clone()).await.unwrap(), Created::Existing(run_id(2)));
    let again = NewFork { request_id: "r".into(), ..new_fork(3, run, 4) };
    assert_eq!(store.fork_run(again).await.unwrap(), Created::Existing(run_id(2)));
    let other = NewFork { request_id: "r".into(), ..new_fork(3, run, 5) };
    assert!(matches!(store.fork_run(other).await, Err(StoreError::Conflict(_))));
    assert_eq!(store.run_of_request("ann", "r").await.unwrap(), Some(run_id(2)));
    // The fork is what was asked for, and no run that is like it.
    let alike = NewRun { spec: fork.spec, request_id: "r".into(), ..new_run(4) };
    assert!(matches!(store.create_run(alike).await, Err(StoreError::Conflict(_))));
}

pub async fn a_fork_at_an_event_that_its_parent_did_not_write_is_refused(f: Fixture) {
    let store = f.store.clone();
    let (run, _) = parent(&*store).await;
    assert!(matches!(store.fork_run(new_fork(2, run, 7)).await, Err(StoreError::Conflict(_))));
    assert!(matches!(store.fork_run(new_fork(2, run_id(9), 4)).await, Err(StoreError::NotFound { .. })));
    let mut odd = new_fork(2, run, 4);
    odd.event.seq = 9;
    assert!(matches!(store.fork_run(odd).await, Err(StoreError::Conflict(_))));
    store.fork_run(new_fork(2, run, 4)).await.unwrap();
    assert!(matches!(store.fork_run(new_fork(3, run_id(2), 4)).await, Err(StoreError::Conflict(_))));
    assert_eq!(store.fork_run(new_fork(3, run_id(2), 5)).await.unwrap(), Created::New(run_id(3)));
}

pub async fn a_fork_reads_documents_as_they_were_and_writes_its_own(f: Fixture) {
    let store = f.store.clone();
    let (run, _) = parent(&*store).await;
    store.fork_run(new_fork(2, run, 5)).await.unwrap();
    assert_eq!(body_of(&*store, run_id(2), 11).await, "ab");
    assert_eq!(body_of(&*store, run, 11).await, "abc");
    let placed = store.document_of(run_id(2), document_id(11), None).await.unwrap();
    assert_eq!((placed.parent_id, placed.document.run_id), (Some(document_id(10)), Some(run_id(2))));
    let before = store.document_of(run_id(2), document_id(11), Some(4)).await.unwrap();
    assert_eq!(before.document.body, "a");
    let missing = store.document_of(run_id(2), document_id(11), Some(2)).await;
    assert!(matches!(missing, Err(StoreError::NotFound { .. })), "{missing:?}");
    // It continues the scratchpad, and puts a document of its own below the workspace.
    let taken = claim(&*store, "b", std::time::Duration::from_secs(60), 10).await[0];
    let mut grown = append(run_id(2), taken.epoch, 6, 3);
    grown.documents = vec![
        text(11, 7, "XY"),
        text(11, 8, "Z"),
        DocumentOp::Create(pad(12, run_id(2), "own", T0)),
        place(12, 10, 9),
    ];
    write(&*store, grown).await;
    assert_eq!(body_of(&*store, run_id(2), 11).await, "abXYZ");
    assert_eq!(body_of(&*store, run, 11).await, "abc");
    let own = store.document_of(run_id(2), document_id(12), None).await.unwrap();
    assert_eq!((own.document.body.as_str(), own.parent_id), ("own", Some(document_id(10))));
    let versions = store.document_versions_of(run_id(2), document_id(11), 0, 10).await.unwrap();
    let versions: Vec<_> = versions.items.iter().map(|v| (v.seq, v.bytes)).collect();
    assert_eq!(versions, [(4, 1), (5, 2), (7, 4), (8, 5)]);
    for (from, expected) in [(0, "abXYZ"), (1, "bXYZ"), (3, "YZ"), (5, "")] {
        let tail = store.document_tail_of(run_id(2), document_id(11), from, 100).await.unwrap();
        assert_eq!((String::from_utf8(tail.bytes).unwrap().as_str(), tail.end), (expected, 5), "from {from}");
    }
    let replaced = DocumentOp::Replace { id: document_id(11), seq: 10, text: "new".into(), at: T0 };
    let mut rewritten = append(run_id(2), taken.epoch, 9, 1);
    rewritten.documents = vec![replaced];
    write(&*store, rewritten).await;
    assert_eq!(body_of(&*store, run_id(2), 11).await, "new");
    // A fork of the fork sees all of it.
    store.fork_run(new_fork(3, run_id(2), 8)).await.unwrap();
    assert_eq!(body_of(&*store, run_id(3), 11).await, "abXYZ");
    assert!(store.document_of(run_id(3), document_id(12), None).await.is_err());
}

pub async fn a_chain_of_a_hundred_forks_reads_as_one_log(f: Fixture) {
    let store = f.store.clone();
    let (mut run, _) = parent(&*store).await;
    for n in 0..100_u128 {
        let head = 6 + n as u64;
        assert_eq!(
            store.fork_run(new_fork(100 + n, run, head)).await.unwrap(),
            Created::New(run_id(100 + n))
        );
        run = run_id(100 + n);
    }
    let log = store.read(run, 0, 1_000).await.unwrap();
    assert_eq!(log.len(), 106);
    assert!(log.iter().zip(1..).all(|(event, seq)| event.seq == seq && event.run_id == run));
    assert_eq!(store.segments(run).await.unwrap().len(), 100);
    assert_eq!(body_of(&*store, run, 11).await, "abc");
}

pub async fn nodes_of_a_fork_include_those_that_it_shares(f: Fixture) {
    let store = f.store.clone();
    let (run, epoch) = parent(&*store).await;
    let root = NodeId::root(run);
    let mut grown = append(run, epoch, 6, 2);
    for (event, n) in grown.events.iter_mut().zip(1..) {
        event.node_id = NodeId(Uuid::from_u128(n));
        event.parent_node_id = Some(root);
        event.body = NodeCreated::new("child").into();
    }
    write(&*store, grown).await;
    store.fork_run(new_fork(2, run, 7)).await.unwrap();
    let expected = [(root, None), (NodeId(Uuid::from_u128(1)), Some(root))];
    assert_eq!(store.node_parents(run_id(2)).await.unwrap(), expected);
}

/// Lists and removal, which only the adapters have.
pub async fn forks_are_listed_with_their_parent(f: Fixture) {
    let (run, _) = parent(&*f.store).await;
    f.store.fork_run(new_fork(2, run, 4)).await.unwrap();
    f.store.fork_run(new_fork(3, run, 6)).await.unwrap();
    let filter = tree_agent_store::RunFilter { parent_run_id: Some(run), ..Default::default() };
    let query = tree_agent_store::RunQuery { filter: filter.clone(), before: None, limit: 10 };
    let found = f.store.list_runs(query).await.unwrap().items;
    assert_eq!(found.iter().map(|r| r.run_id).collect::<Vec<_>>(), [run_id(3), run_id(2)]);
    assert!(found.iter().all(|run| filter.matches(run)));
    let documents =
        tree_agent_store::DocumentQuery { run_id: Some(run_id(2)), limit: 10, ..Default::default() };
    let listed = f.store.list_documents(documents).await.unwrap().items;
    let listed: Vec<_> = listed.iter().map(|d| (d.id, d.bytes, d.run_id)).collect();
    assert_eq!(listed, [(document_id(10), 0, Some(run_id(2))), (document_id(11), 1, Some(run_id(2)))]);
}
