//! Forks are verified and rebuilt like other runs, and outlive the run that they fork.

use std::time::Duration;

use tree_agent_contract::command::Action;
use tree_agent_contract::event::RunForked;
use tree_agent_contract::graph::GraphView;
use tree_agent_contract::{Event, NodeId, RunId, RunSpec, Timestamp};
use tree_agent_engine::Run;
use tree_agent_maintenance::archive::{archive, prune, restore};
use tree_agent_maintenance::rebuild;
use tree_agent_store::{Created, NewFork, RunRow, StoreError};
use uuid::Uuid;

use crate::fixture::Fixture;

/// A fork of the run at its head, which has ended like that.
async fn fork(f: &Fixture, n: u128, parent: RunId) -> RunId {
    let head = f.store.run(parent).await.unwrap().head_seq;
    fork_at(f, n, parent, head).await
}

/// A fork of the run at the event `seq`, made after the run has written its last one.
async fn fork_at(f: &Fixture, n: u128, parent: RunId, seq: u64) -> RunId {
    let log = f.store.read(parent, 0, usize::MAX).await.unwrap();
    let new = new_fork(n, parent, &log, seq);
    let run_id = new.run_id;
    assert_eq!(f.store.fork_run(new).await.unwrap(), Created::New(run_id));
    run_id
}

/// The fork `n` of the run with this log, at the event `seq`.
fn new_fork(n: u128, parent: RunId, log: &[Event], seq: u64) -> NewFork {
    let run = Run::replay(parent, &log[..seq as usize]).unwrap();
    let (run_id, graph) = (RunId(Uuid::from_u128(n)), run.graph());
    let now = log.last().unwrap().timestamp.plus_millis(1_000);
    let edits = vec![Action::SetModel { model: "other".into() }];
    let body = RunForked {
        source_run_id: parent,
        at_seq: seq,
        origin_run_id: Some(run.origin()),
        author: "ann".into(),
        by_administrator: false,
        request_id: String::new(),
        display_name: format!("fork {n}"),
        labels: Default::default(),
        edits: edits.clone(),
        goes_on: false,
    };
    let node_id: NodeId = graph.nodes()[0].id;
    NewFork {
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
            ended_nodes: graph.ended_nodes(),
            usage: Default::default(),
            models: Vec::new(),
            started_at: graph.started_at().map(|_| now),
            ended_at: graph.ended_at().map(|_| now),
        },
        edits: edits.iter().map(Action::words).collect(),
    }
}

/// The last event of the decision that the event `seq` belongs to.
fn end_of_decision(log: &[Event], seq: usize) -> u64 {
    let at = log[seq - 1].timestamp;
    log.iter().filter(|event| event.timestamp == at).map(|event| event.seq).max().unwrap()
}

/// The fork does what `log` says after what it shares, up to the event `until` of that log. Everything is later by so
/// much as the fork was made after the log.
async fn work(f: &Fixture, fork: RunId, log: &[Event], until: u64) {
    let own = f.store.read(fork, 0, usize::MAX).await.unwrap();
    let (shared, first) = (own.len() - 1, own.last().unwrap());
    let shift = first.timestamp.micros() - log[shared - 1].timestamp.micros();
    let later = |event: &Event| Event {
        run_id: fork,
        seq: event.seq + 1,
        timestamp: Timestamp(event.timestamp.micros() + shift),
        ..event.clone()
    };
    let events: Vec<Event> = log[shared..until as usize].iter().map(later).collect();
    let mut run = Run::replay(fork, &own).unwrap();
    let term = f.store.begin_term("test", Duration::from_secs(60)).await.unwrap().number;
    let claims = f.store.claim("test", term, 10, 10, 0).await.unwrap();
    let claim = claims.into_iter().find(|claim| claim.run_id == fork).expect("the fork goes on");
    for events in events.chunks(7) {
        f.append(claim, &mut run, events).await;
    }
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

/// What is wrong with the run, which is rebuilt as it is stored.
async fn is_sound(f: &Fixture, run: RunId, name: &str) {
    assert_eq!(f.findings(run).await, Vec::<String>::new(), "{name}, run {run}");
    assert_eq!(rebuild(&*f.store, run).await.unwrap().differences, 0, "{name}, run {run}");
}

pub async fn a_fork_with_work_of_its_own_is_verified_archived_and_restored(f: Fixture) {
    // One with calls that are made again, one with conversations, and one that keeps prompts.
    for (n, name) in (1..).zip(["retries", "search", "offline"]) {
        let folder = tempfile::tempdir().unwrap();
        let log = crate::fixture::recorded(name);
        let run = f.write(name).await;
        // One begins early and does the whole rest. Another one does a part of it and is forked there.
        let (early, middle) = (end_of_decision(&log, log.len() / 3), end_of_decision(&log, log.len() / 2));
        let whole = fork_at(&f, n * 100, run, early).await;
        work(&f, whole, &log, log.len() as u64).await;
        let part = fork_at(&f, n * 100 + 1, run, early).await;
        work(&f, part, &log, middle).await;
        let idle = fork_at(&f, n * 100 + 2, part, middle + 1).await;
        let of_whole = fork(&f, n * 100 + 3, whole).await;
        for run in [run, whole, part, idle, of_whole] {
            is_sound(&f, run, name).await;
        }
        assert!(f.store.run(whole).await.unwrap().status.is_final(), "{name}");
        // A conversation or a document of the run from after what it shares is none of the fork.
        let of_run = f.store.run_sessions(run, None, usize::MAX).await.unwrap();
        let of_idle = f.store.run_sessions(idle, None, usize::MAX).await.unwrap();
        assert!(of_idle.len() < of_run.len() || of_run.is_empty(), "{name}");
        let before =
            [seen(&f, whole).await, seen(&f, part).await, seen(&f, idle).await, seen(&f, of_whole).await];
        for pruned in [run, whole] {
            archive(&*f.store, pruned, folder.path()).await.unwrap();
            assert!(prune(&*f.store, pruned, folder.path()).await.unwrap());
            f.store.tidy().await.unwrap();
        }
        assert_eq!(
            [seen(&f, part).await, seen(&f, idle).await, seen(&f, of_whole).await],
            before[1..],
            "{name}"
        );
        for run in [part, idle, of_whole] {
            is_sound(&f, run, name).await;
        }
        let other = f.another().await;
        assert!(restore(&*other.store, whole, folder.path()).await.unwrap());
        assert_eq!(seen(&other, whole).await, before[0], "{name}");
        is_sound(&other, whole, name).await;
    }
}

pub async fn the_documents_of_a_fork_are_paged(f: Fixture) {
    let log = crate::fixture::recorded("search");
    let run = f.write("search").await;
    let (early, middle) = (end_of_decision(&log, log.len() / 3), end_of_decision(&log, log.len() / 2));
    let part = fork_at(&f, 1, run, early).await;
    work(&f, part, &log, middle).await;
    let fork = fork_at(&f, 2, part, middle + 1).await;
    let whole = f.store.run_documents(fork, None, usize::MAX).await.unwrap();
    assert!(whole.len() > 4 && whole.iter().all(|stored| stored.document.run_id == Some(fork)));
    for limit in [1, 2, 3, whole.len()] {
        let (mut paged, mut after) = (Vec::new(), None);
        loop {
            let page = f.store.run_documents(fork, after, limit).await.unwrap();
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            after = Some(last.document.id);
            paged.extend(page);
        }
        assert_eq!(paged, whole, "pages of {limit}");
    }
}

pub async fn an_archived_run_is_not_forked(f: Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let run = f.write("search").await;
    let head = f.store.run(run).await.unwrap().head_seq;
    let log = f.store.read(run, 0, usize::MAX).await.unwrap();
    let first = fork(&f, 1, run).await;
    archive(&*f.store, run, folder.path()).await.unwrap();
    assert!(prune(&*f.store, run, folder.path()).await.unwrap());
    let late = new_fork(2, run, &log, head);
    let refused = f.store.fork_run(late.clone()).await.unwrap_err();
    assert!(matches!(refused, StoreError::Archived(archived) if archived == run), "{refused:?}");
    assert!(f.store.run(late.run_id).await.is_err(), "nothing is written");
    // The fork that was made before can be forked, and so can the run when it is back.
    fork(&f, 3, first).await;
    assert!(restore(&*f.store, run, folder.path()).await.unwrap());
    assert_eq!(f.store.fork_run(late).await.unwrap(), Created::New(RunId(Uuid::from_u128(2))));
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

pub async fn forks_outlive_their_origin_whatever_their_clocks_say(f: Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let run = f.write("search").await;
    let first = fork(&f, 1, run).await;
    let second = fork(&f, 2, first).await;
    // The gateway that made the fork of the fork is years behind.
    let earlier = "UPDATE tree_agent_runs SET created_at = created_at - ";
    let (postgres, embedded) = ("interval '9 years' WHERE id = {run}", "300000000000000 WHERE id = {run}");
    f.damage_either(second, &format!("{earlier}{postgres}"), &format!("{earlier}{embedded}")).await;
    let before = (seen(&f, first).await, seen(&f, second).await);
    archive(&*f.store, run, folder.path()).await.unwrap();
    assert!(prune(&*f.store, run, folder.path()).await.unwrap());
    f.store.tidy().await.unwrap();
    assert_eq!((seen(&f, first).await, seen(&f, second).await), before);
}

pub async fn an_archive_of_a_fork_restores_alone(f: Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let run = f.write("search").await;
    let fork = fork(&f, 1, run).await;
    let before = seen(&f, fork).await;
    archive(&*f.store, fork, folder.path()).await.unwrap();
    let other = f.another().await;
    assert!(restore(&*other.store, fork, folder.path()).await.unwrap());
    assert_eq!(seen(&other, fork).await, before);
    assert_eq!(other.findings(fork).await, Vec::<String>::new());
    assert_eq!(other.store.run(fork).await.unwrap(), f.store.run(fork).await.unwrap());
}

pub async fn of_forks_alone_the_oldest_has_the_documents(f: Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let run = f.write("offline").await;
    let first = fork(&f, 5, run).await;
    let second = fork(&f, 4, first).await;
    let id = f.store.run_documents(run, None, 1).await.unwrap().remove(0).document.id;
    for run in [second, first, run] {
        archive(&*f.store, run, folder.path()).await.unwrap();
    }
    let other = f.another().await;
    // The younger one comes back first, and has them until the older one is there.
    for (back, expected) in [(second, second), (first, first), (run, run)] {
        assert!(restore(&*other.store, back, folder.path()).await.unwrap());
        assert_eq!(other.store.document(id).await.unwrap().run_id, Some(expected), "{back}");
    }
    assert_eq!(other.findings(second).await, Vec::<String>::new());
}
