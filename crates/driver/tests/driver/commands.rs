//! Commands of users are heard whatever their runs do.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::*;
use tokio_util::sync::CancellationToken;
use tree_agent_contract::command::Action;
use tree_agent_contract::{Command, Event, EventBody, NodeId, Reply, RunStatus};
use tree_agent_driver::{Driver, DriverConfig};
use tree_agent_engine::CallKind;
use tree_agent_fanout::Fanout;
use tree_agent_store::{Sent, Store};

/// Far longer than these tests are patient.
const LONG: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn a_run_cancelled_before_it_was_claimed_makes_no_call() {
    let (store, fanout) = world().await;
    let roles = TreeRoles::new(2, None);
    let run = create_run(&*store, 1).await;
    cancel(&*store, &*fanout, run).await;
    let driver = Running::start("a", &store, &fanout, &roles);
    assert_eq!(ended(&*store, run).await.status, RunStatus::Cancelled);
    assert!(roles.made().is_empty());
    driver.stop().await;
}

#[tokio::test]
async fn a_run_that_rests_hears_that_it_is_cancelled() {
    let (store, fanout) = world().await;
    let roles = TreeRoles::new(2, None);
    let run = create_run(&*store, 1).await;
    let term = store.begin_term("before", LONG).await.expect("begun").number;
    let claim = store.claim("before", term, 1, 1, 0).await.expect("claimed")[0];
    store.quarantine(run, claim.epoch, LONG).await.expect("put");
    let driver = Running::start("a", &store, &fanout, &roles);
    // The driver claims, but not this run.
    let other = create_run(&*store, 1).await;
    assert_eq!(ended(&*store, other).await.status, RunStatus::Completed);
    let made = roles.made().len();
    cancel(&*store, &*fanout, run).await;
    assert_eq!(ended(&*store, run).await.status, RunStatus::Cancelled);
    assert_eq!(roles.made().len(), made, "a cancelled run makes no calls");
    driver.stop().await;
}

#[tokio::test]
async fn a_driver_that_is_full_hears_that_other_runs_are_cancelled() {
    let (store, fanout) = world().await;
    let roles = TreeRoles::new(2, Some(CallKind::Execute));
    let mut config = DriverConfig::new("a");
    (config.max_runs, config.poll) = (1, Duration::from_millis(20));
    let stop = CancellationToken::new();
    let driver = Driver::new(store.clone(), fanout.clone(), roles.clone(), config);
    let stats = driver.stats();
    let task = tokio::spawn(driver.run(stop.clone()));
    let first = create_run(&*store, 1).await;
    roles.wait_for_held(2).await;
    let mut queued = Vec::new();
    for _ in 0..20 {
        queued.push(create_run(&*store, 1).await);
    }
    let made = roles.made().len();
    for run in &queued[1..] {
        cancel(&*store, &*fanout, *run).await;
    }
    for run in &queued[1..] {
        assert_eq!(ended(&*store, *run).await.status, RunStatus::Cancelled);
    }
    assert_eq!(roles.made().len(), made, "a cancelled run makes no calls");
    assert_eq!(store.run(first).await.expect("there").status, RunStatus::Running);
    assert_eq!(store.run(queued[0]).await.expect("there").status, RunStatus::Queued, "it waits for its turn");
    assert_eq!(stats.claimed.load(Ordering::SeqCst), 20);
    roles.open_gate();
    for run in [first, queued[0]] {
        assert_eq!(ended(&*store, run).await.status, RunStatus::Completed);
    }
    stop.cancel();
    task.await.expect("a driver ends cleanly");
}

#[tokio::test]
async fn nothing_of_a_cancellation_is_left_when_its_run_ends_by_itself() {
    let (store, fanout) = world().await;
    let roles = TreeRoles::new(2, None);
    let run = create_run(&*store, 1).await;
    let driver = Running::start("a", &store, &fanout, &roles);
    // As often as it is taken, at every moment of the run until it has ended.
    let again = Command::new(Action::Cancel { reason: String::new() });
    while store.send_command(run, again.clone()).await.expect("answered") != Sent::Ended {}
    assert!(store.run(run).await.expect("there").status.is_final());
    assert_eq!(store.commands("a").await.expect("readable"), []);
    driver.stop().await;
}

fn guide(request_id: &str, node_id: NodeId) -> Command {
    let action = Action::Guide { node_id, text: "be brief".into(), subtree: false, restart: false };
    Command { request_id: request_id.into(), author: "ann".into(), ..Command::new(action) }
}

#[tokio::test]
async fn a_refused_command_is_answered_and_leaves_no_event() {
    let (store, fanout) = world().await;
    let roles = TreeRoles::new(2, Some(CallKind::Execute));
    let run = create_run(&*store, 1).await;
    let driver = Running::start("a", &store, &fanout, &roles);
    roles.wait_for_held(2).await;
    // The root of another run.
    let unknown = guide("r", NodeId::root(create_run(&*store, 0).await));
    assert_eq!(send(&*store, &*fanout, run, &unknown).await, Sent::Pending(1));
    let reply = replied(&*store, run, "r").await;
    assert!(matches!(&reply, Reply::Refused(_)), "{reply:?}");
    assert_eq!(send(&*store, &*fanout, run, &unknown).await, Sent::Answered(reply));
    let pending = store.commands("a").await.expect("readable");
    assert!(pending.iter().all(|pending| pending.run_id != run), "{pending:?}");
    roles.open_gate();
    assert_eq!(ended(&*store, run).await.status, RunStatus::Completed);
    let log = log(&*store, run).await;
    assert!(log.iter().all(|event| event.body.event_type() != "tree.guidance_added"));
    driver.stop().await;
}

#[tokio::test]
async fn a_command_that_came_before_its_run_had_a_driver_is_answered_once() {
    let (store, fanout) = world().await;
    let roles = TreeRoles::new(2, None);
    let run = create_run(&*store, 1).await;
    let cancel = Command { request_id: "r".into(), ..Command::new(Action::Cancel { reason: "no".into() }) };
    assert_eq!(send(&*store, &*fanout, run, &cancel).await, Sent::Pending(1));
    assert_eq!(send(&*store, &*fanout, run, &cancel).await, Sent::Pending(1), "it waits already");
    let late = guide("late", NodeId::root(run));
    assert_eq!(send(&*store, &*fanout, run, &late).await, Sent::Pending(2));
    let driver = Running::start("a", &store, &fanout, &roles);
    assert_eq!(ended(&*store, run).await.status, RunStatus::Cancelled);
    let head = log(&*store, run).await.len() as u64;
    assert_eq!(replied(&*store, run, "r").await, Reply::Applied { seq: head });
    let reply = replied(&*store, run, "late").await;
    assert!(matches!(&reply, Reply::Refused(_)), "{reply:?}");
    assert_eq!(send(&*store, &*fanout, run, &cancel).await, Sent::Answered(Reply::Applied { seq: head }));
    driver.stop().await;
}

/// A driver whose appends have at most four events, where they can be cut.
fn in_parts(name: &str, store: &Arc<dyn Store>, fanout: &Arc<dyn Fanout>, roles: &Arc<TreeRoles>) -> Driver {
    let mut config = DriverConfig::new(name);
    (config.lease, config.poll) = (Duration::from_millis(600), Duration::from_millis(20));
    config.commit.max_events = 4;
    Driver::new(store.clone(), fanout.clone(), roles.clone(), config)
}

#[tokio::test]
async fn a_stop_of_which_a_part_was_written_is_completed_once() {
    for discard in [false, true] {
        let (inner, fanout) = world().await;
        let unreliable = Unreliable::new(inner.clone());
        let store: Arc<dyn Store> = unreliable.clone();
        let roles = TreeRoles::new(3, Some(CallKind::Execute));
        let run = create_run(&*store, 2).await;
        let first = tokio::spawn(in_parts("a", &store, &fanout, &roles).run(Default::default()));
        roles.wait_for_held(9).await;
        let before = log(&*inner, run).await;
        // The first child of the root, which has three children.
        let root = NodeId::root(run);
        let is_child =
            |e: &&Event| matches!(&e.body, EventBody::NodeCreated(e) if e.parent_node_id == Some(root));
        let node_id = before.iter().find(is_child).expect("a child").node_id;
        unreliable.down_after_part.store(true, Ordering::SeqCst);
        let stop = Command { request_id: "r".into(), ..Command::new(Action::Stop { node_id, discard }) };
        send(&*inner, &*fanout, run, &stop).await;
        until(|| unreliable.down.load(Ordering::SeqCst)).await;
        // The driver dies between two parts.
        first.abort();
        let _ = first.await;
        let part = log(&*inner, run).await;
        assert!(part.iter().any(|e| matches!(e.body, EventBody::NodeStopped(_))), "it has begun");
        let ends = |log: &[Event], node| {
            let of_node = log.iter().filter(|e| e.node_id == node);
            of_node
                .filter(|e| matches!(&e.body, EventBody::NodeStatusChanged(s) if s.status.is_final()))
                .count()
        };
        assert_eq!(ends(&part, node_id), 0, "the rest is missing");
        assert_eq!(inner.reply(run, "r").await.expect("readable"), None);
        unreliable.down_after_part.store(false, Ordering::SeqCst);
        unreliable.down.store(false, Ordering::SeqCst);
        let second = tokio::spawn(in_parts("b", &store, &fanout, &roles).run(Default::default()));
        let reply = replied(&*inner, run, "r").await;
        assert!(matches!(reply, Reply::Applied { .. }), "{reply:?}");
        roles.open_gate();
        assert_eq!(ended(&*inner, run).await.status, RunStatus::Completed, "the rest of the run goes on");
        second.abort();
        let log = log(&*inner, run).await;
        let stops =
            log.iter().filter(|e| matches!(&e.body, EventBody::NodeStopped(s) if s.request_id == "r"));
        assert_eq!(stops.count(), 1);
        let below = log.iter().filter(|e| e.node_id == node_id || e.parent_node_id == Some(node_id));
        let nodes: std::collections::BTreeSet<NodeId> = below.map(|e| e.node_id).collect();
        assert_eq!(nodes.len(), 4);
        nodes.into_iter().for_each(|node| assert_eq!(ends(&log, node), 1, "each is cancelled once"));
    }
}

#[tokio::test]
async fn a_paused_run_is_released_and_claimed_for_its_next_command() {
    let (store, fanout) = world().await;
    let roles = TreeRoles::new(2, Some(CallKind::Execute));
    let run = create_run(&*store, 1).await;
    let driver = Running::start("a", &store, &fanout, &roles);
    roles.wait_for_held(2).await;
    let pause =
        Command { request_id: "p".into(), ..Command::new(Action::Pause { node_id: None, now: true }) };
    send(&*store, &*fanout, run, &pause).await;
    assert!(matches!(replied(&*store, run, "p").await, Reply::Applied { .. }));
    assert_eq!(store.run(run).await.expect("there").status, RunStatus::Paused);
    until(|| driver.stats.active.load(Ordering::SeqCst) == 0).await;
    let resume = Command { request_id: "q".into(), ..Command::new(Action::Resume { node_id: None }) };
    send(&*store, &*fanout, run, &resume).await;
    assert!(matches!(replied(&*store, run, "q").await, Reply::Applied { .. }));
    roles.open_gate();
    assert_eq!(ended(&*store, run).await.status, RunStatus::Completed);
    driver.stop().await;
}

/// Waits until something holds.
async fn until(holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.expect("it holds in time");
}
