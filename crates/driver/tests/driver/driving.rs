//! The driver on a real store: whatever dies or is lost, runs end and nothing is done twice.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::*;
use tokio_util::sync::CancellationToken;
use tree_agent_contract::event::{Event, EventBody, Opaque, UsageRecorded};
use tree_agent_contract::role::{RoleError, RoleErrorKind, RoleUpdate};
use tree_agent_contract::{NodeId, NodeStatus, RunId, RunStatus};
use tree_agent_driver::{Driver, DriverConfig, Roles, Updates};
use tree_agent_engine::{CallKind, CallOutput, RoleCall};
use tree_agent_fanout::{Signal, Topic};
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_store::{AppendOutcome, Claim, RunAppend, Store};

/// 1 + 3 + 9 nodes: 13 results, 4 of them aggregated; 4 plans, 9 leaves.
const CALLS: usize = 4 + 9 + 4;

#[tokio::test]
async fn a_run_ends_in_a_document_and_every_event_is_published() {
    let (store, fanout) = world().await;
    let roles = TreeRoles::new(3, None);
    let run = create_run(&*store, 2).await;
    let mut topic = fanout.subscribe(Topic::Run(run)).await.expect("subscribed");
    let driver = Running::start("a", &store, &fanout, &roles);
    let summary = ended(&*store, run).await;
    assert_eq!((summary.status, summary.partial, summary.node_count), (RunStatus::Completed, false, 13));
    let log = log(&*store, run).await;
    assert_eq!(summary.head_seq, log.len() as u64);
    assert!(completions(&log).values().all(|&n| n == 1));
    assert_eq!(roles.made().len(), CALLS);
    assert!(roles.made().values().all(|&n| n == 1), "no call is made twice");

    let root_result = log.iter().rev().find_map(|e| match &e.body {
        EventBody::NodeResult(r) if e.node_id == summary.root_node_id => Some(r.result.clone()),
        _ => None,
    });
    let document = root_result.expect("the root has a result").document_ids[0];
    assert_eq!(store.document(document).await.expect("kept").body, "Findings of find out");

    // The events after the first four (which the gateway publishes) were published in order, without a gap.
    let mut seq = 4;
    while seq < summary.head_seq {
        let Some(Signal::Message(bytes)) = topic.next().await else {
            panic!("the topic ended or missed something")
        };
        let batch: pb::EventBatch = prost::Message::decode(bytes).expect("an event batch");
        for event in batch.events {
            let event = tree_agent_contract::Event::from_wire(event).expect("an event");
            seq += 1;
            assert_eq!(event, log[seq as usize - 1]);
        }
    }
    driver.stop().await;
}

#[tokio::test]
async fn a_killed_driver_is_replaced_and_only_calls_in_flight_are_made_again() {
    let (store, fanout) = world().await;
    let roles = TreeRoles::new(3, Some(CallKind::Execute));
    let run = create_run(&*store, 2).await;
    let first = Running::start("a", &store, &fanout, &roles);
    roles.wait_for_held(9).await;
    first.kill().await;
    let second = Running::start("b", &store, &fanout, &roles);
    roles.wait_for_held(18).await;
    roles.open_gate();
    let summary = ended(&*store, run).await;
    assert_eq!((summary.status, summary.partial), (RunStatus::Completed, false));
    assert!(completions(&log(&*store, run).await).values().all(|&n| n == 1));
    for ((node, kind, _), made) in roles.made() {
        let expected = if kind == CallKind::Execute { 2 } else { 1 };
        assert_eq!(made, expected, "{kind:?} of {node}");
    }
    second.stop().await;
}

#[tokio::test]
async fn a_stopping_driver_gives_its_runs_back_at_once() {
    let (store, fanout) = world().await;
    let roles = TreeRoles::new(2, Some(CallKind::Aggregate));
    let run = create_run(&*store, 1).await;
    let first = Running::start("a", &store, &fanout, &roles);
    roles.wait_for_held(1).await;
    first.stop().await;
    // No lease has to expire first.
    let claims = claim(&*store, "c").await;
    assert_eq!(claims.len(), 1);
    assert_eq!((claims[0].run_id, claims[0].epoch), (run, 2));
}

#[tokio::test]
async fn many_runs_on_two_drivers_are_each_done_once() {
    let (store, fanout) = world().await;
    let roles = TreeRoles::new(2, None);
    let mut runs = Vec::new();
    for _ in 0..20 {
        runs.push(create_run(&*store, 2).await);
    }
    let drivers =
        [Running::start("a", &store, &fanout, &roles), Running::start("b", &store, &fanout, &roles)];
    for run in runs {
        let summary = ended(&*store, run).await;
        assert_eq!((summary.status, summary.node_count), (RunStatus::Completed, 7));
        log(&*store, run).await;
    }
    assert!(roles.made().values().all(|&n| n == 1), "no call is made twice");
    for driver in drivers {
        driver.stop().await;
    }
}

#[tokio::test]
async fn an_old_epoch_appends_nothing() {
    let (store, fanout) = world().await;
    let roles = TreeRoles::new(2, Some(CallKind::Execute));
    let run = create_run(&*store, 1).await;
    let driver = Running::start("a", &store, &fanout, &roles);
    roles.wait_for_held(2).await;
    // Both calls have written to their scratchpads, so nothing follows until they are answered.
    let before = loop {
        let log = log(&*store, run).await;
        let written =
            |e: &&Event| matches!(e.body, EventBody::ScratchpadUpdated(_)) && e.parent_node_id.is_some();
        if log.iter().filter(written).count() >= 2 {
            break log;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let mut event = before.last().expect("events").clone();
    event.seq += 1;
    let append = RunAppend {
        run_id: run,
        epoch: 0,
        expected_head: event.seq - 1,
        events: vec![event],
        projection: Default::default(),
        documents: vec![],
        answers: vec![],
        sessions: Vec::new(),
    };
    assert_eq!(store.append([append].into()).await.expect("answered"), [AppendOutcome::Fenced]);
    assert_eq!(log(&*store, run).await, before);
    roles.open_gate();
    ended(&*store, run).await;
    driver.stop().await;
}

#[tokio::test]
async fn a_lost_reply_leaves_exactly_one_copy() {
    let (inner, fanout) = world().await;
    let unreliable = Unreliable::new(inner);
    let store: Arc<dyn Store> = unreliable.clone();
    let roles = TreeRoles::new(3, None);
    unreliable.lose_replies.store(5, Ordering::SeqCst);
    let run = create_run(&*store, 2).await;
    let driver = Running::start("a", &store, &fanout, &roles);
    let summary = ended(&*store, run).await;
    assert_eq!(summary.status, RunStatus::Completed);
    assert_eq!(unreliable.lose_replies.load(Ordering::SeqCst), 0, "replies were lost");
    let log = log(&*store, run).await;
    assert_eq!(log.len() as u64, summary.head_seq);
    assert!(completions(&log).values().all(|&n| n == 1));
    assert!(roles.made().values().all(|&n| n == 1), "no call is made twice");
    driver.stop().await;
}

#[tokio::test]
async fn a_store_that_was_away_is_waited_for() {
    let (inner, fanout) = world().await;
    let unreliable = Unreliable::new(inner);
    let store: Arc<dyn Store> = unreliable.clone();
    let roles = TreeRoles::new(2, Some(CallKind::Execute));
    let run = create_run(&*store, 1).await;
    let driver = Running::start("a", &store, &fanout, &roles);
    roles.wait_for_held(2).await;
    unreliable.down.store(true, Ordering::SeqCst);
    roles.open_gate();
    let seen = async {
        while !driver.health.check().is_err_and(|why| why.starts_with("nothing can be written: ")) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), seen).await.expect("it is seen");
    unreliable.down.store(false, Ordering::SeqCst);
    assert_eq!(ended(&*store, run).await.status, RunStatus::Completed);
    assert_eq!(driver.health.check(), Ok(()));
    assert!(completions(&log(&*store, run).await).values().all(|&n| n == 1));
    driver.stop().await;
}

#[tokio::test]
async fn a_run_that_cannot_be_written_does_not_hold_up_others() {
    let (inner, fanout) = world().await;
    let unreliable = Unreliable::new(inner);
    let store: Arc<dyn Store> = unreliable.clone();
    let roles = TreeRoles::new(2, None);
    let poisoned = create_run(&*store, 1).await;
    *unreliable.poison.lock().expect("no panic while locked") = Some(poisoned);
    let mut good = Vec::new();
    for _ in 0..5 {
        good.push(create_run(&*store, 2).await);
    }
    let driver = Running::start("a", &store, &fanout, &roles);
    for run in good {
        assert_eq!(ended(&*store, run).await.status, RunStatus::Completed);
    }
    assert_eq!(log(&*store, poisoned).await.len(), 4, "nothing half-written");
    driver.stop().await;
}

#[tokio::test]
async fn a_run_that_cannot_be_driven_is_marked_as_failed_in_the_end() {
    let (inner, fanout) = world().await;
    let unreliable = Unreliable::new(inner);
    let store: Arc<dyn Store> = unreliable.clone();
    let run = create_run(&*store, 1).await;
    *unreliable.poison.lock().expect("no panic while locked") = Some(run);
    // Every append of the run is refused until the driver ends the run.
    unreliable.heals_for_endings.store(true, Ordering::SeqCst);
    let driver =
        Running::start_with_lease("a", &store, &fanout, &TreeRoles::new(2, None), Duration::from_millis(30));
    let summary = ended(&*store, run).await;
    assert_eq!(summary.status, RunStatus::Failed);
    let error = summary.error.expect("a reason");
    assert!(
        error.contains("could not be driven 5 times") && error.contains("a row cannot be written"),
        "{error}"
    );
    assert_eq!(driver.health.undrivable_runs(), Ok(()));
    assert_eq!(driver.health.check(), Ok(()));
    driver.stop().await;
}

#[tokio::test]
async fn a_run_that_cannot_even_be_ended_is_seen_in_the_health() {
    let (inner, fanout) = world().await;
    let unreliable = Unreliable::new(inner);
    let store: Arc<dyn Store> = unreliable.clone();
    let run = create_run(&*store, 1).await;
    *unreliable.poison.lock().expect("no panic while locked") = Some(run);
    let driver =
        Running::start_with_lease("a", &store, &fanout, &TreeRoles::new(2, None), Duration::from_millis(30));
    let seen = async {
        while driver.health.undrivable_runs().is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), seen).await.expect("it is seen");
    assert!(driver.health.undrivable_runs().unwrap_err().contains(&run.to_string()));
    assert_eq!(log(&*store, run).await.len(), 4, "nothing half-written");
    // Once the store is repaired, the run ends by itself.
    *unreliable.poison.lock().expect("no panic while locked") = None;
    assert_eq!(ended(&*store, run).await.status, RunStatus::Failed);
    driver.stop().await;
}

/// However many planners there are, and however often they are restarted.
#[tokio::test]
async fn the_chances_of_a_run_are_counted_over_all_drivers() {
    let (inner, fanout) = world().await;
    let unreliable = Unreliable::new(inner);
    let store: Arc<dyn Store> = unreliable.clone();
    let run = create_run(&*store, 1).await;
    *unreliable.poison.lock().expect("no panic while locked") = Some(run);
    unreliable.heals_for_endings.store(true, Ordering::SeqCst);
    let roles = TreeRoles::new(2, None);
    let lease = Duration::from_millis(30);
    let mut failed = 0;
    while !store.run(run).await.expect("there").status.is_final() {
        let driver = Running::start_with_lease(&format!("d{failed}"), &store, &fanout, &roles, lease);
        while driver.stats.broken.load(Ordering::SeqCst) == 0
            && !store.run(run).await.expect("there").status.is_final()
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        failed += driver.stats.broken.load(Ordering::SeqCst);
        driver.stop().await;
    }
    assert_eq!(failed, 5, "failures before the run was ended");
    let error = store.run(run).await.expect("there").error.expect("a reason");
    assert!(error.contains("could not be driven 5 times"), "{error}");
}

#[tokio::test]
async fn a_truncated_log_is_seen_in_the_health() {
    let (inner, fanout) = world().await;
    let unreliable = Unreliable::new(inner);
    let store: Arc<dyn Store> = unreliable.clone();
    let run = create_run(&*store, 1).await;
    *unreliable.truncated.lock().expect("no panic while locked") = Some(run);
    let driver = Running::start("a", &store, &fanout, &TreeRoles::new(2, None));
    let seen = async {
        while driver.health.undrivable_runs().is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), seen).await.expect("it is seen");
    assert!(driver.health.undrivable_runs().unwrap_err().contains(&run.to_string()));
    assert_eq!(driver.stats.lost.load(Ordering::SeqCst), 0, "it was not taken for a lost run");
    assert!(store.last_failure(run).await.expect("there").contains("the log ends at event 1"));
    // It is in quarantine, and other runs are driven.
    assert_eq!(claim(&*store, "b").await, []);
    let other = create_run(&*store, 1).await;
    assert_eq!(ended(&*store, other).await.status, RunStatus::Completed);
    driver.stop().await;
}

#[tokio::test]
async fn cancel_ends_a_run_from_any_state() {
    for held in [CallKind::Plan, CallKind::Execute, CallKind::Aggregate] {
        let (store, fanout) = world().await;
        let roles = TreeRoles::new(2, Some(held));
        let run = create_run(&*store, 1).await;
        let driver = Running::start("a", &store, &fanout, &roles);
        roles.wait_for_held(1).await;
        cancel(&*store, &*fanout, run).await;
        let summary = ended(&*store, run).await;
        assert_eq!(summary.status, RunStatus::Cancelled, "while {held:?} is held");
        let log = log(&*store, run).await;
        let open = log.iter().rev().find_map(|e| match &e.body {
            EventBody::NodeStatusChanged(s) if e.node_id == summary.root_node_id => Some(s.status),
            _ => None,
        });
        assert_eq!(open, Some(NodeStatus::Cancelled));
        assert!(store.commands("a").await.expect("readable").is_empty(), "the command left the inbox");
        driver.stop().await;
    }
}

#[tokio::test]
async fn the_end_of_many_nodes_is_written_in_parts_and_its_command_leaves_with_the_last() {
    let (inner, fanout) = world().await;
    let unreliable = Unreliable::new(inner.clone());
    let store: Arc<dyn Store> = unreliable.clone();
    let roles = TreeRoles::new(3, Some(CallKind::Execute));
    let run = create_run(&*store, 2).await;
    let start = |name: &str| {
        let mut config = DriverConfig::new(name);
        (config.lease, config.poll) = (Duration::from_millis(600), Duration::from_millis(20));
        config.commit.max_events = 8;
        tokio::spawn(
            Driver::new(store.clone(), fanout.clone(), roles.clone(), config).run(Default::default()),
        )
    };
    let first = start("a");
    roles.wait_for_held(9).await;
    unreliable.down_after_part.store(true, Ordering::SeqCst);
    cancel(&*inner, &*fanout, run).await;
    tokio::time::timeout(Duration::from_secs(30), async {
        while !unreliable.down.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("a part is written");
    // The driver dies between two parts.
    first.abort();
    let _ = first.await;
    assert_eq!(inner.commands("a").await.expect("readable").len(), 1, "the command is pending");
    assert_eq!(inner.run(run).await.expect("there").status, RunStatus::Running);
    unreliable.down_after_part.store(false, Ordering::SeqCst);
    unreliable.down.store(false, Ordering::SeqCst);
    let second = start("b");
    assert_eq!(ended(&*inner, run).await.status, RunStatus::Cancelled);
    second.abort();
    assert!(inner.commands("b").await.expect("readable").is_empty(), "the command left the inbox");
    let largest = unreliable.largest_end.load(Ordering::SeqCst);
    assert!(largest <= 8, "{largest} events were one append");
    let cancelled = log(&*inner, run).await;
    let cancelled = cancelled
        .iter()
        .filter(|e| matches!(&e.body, EventBody::NodeStatusChanged(s) if s.status == NodeStatus::Cancelled));
    assert_eq!(cancelled.count(), 13, "each node is cancelled once");
}

/// Sends updates without end, faster than they can be written.
struct Flood;

#[async_trait::async_trait]
impl Roles for Flood {
    async fn call(&self, _: RoleCall, updates: Updates) -> Result<CallOutput, RoleError> {
        loop {
            let usage = UsageRecorded {
                model: "m".into(),
                input_tokens: 1,
                output_tokens: 1,
                cached_tokens: 0,
                cache_write_tokens: 0,
                cost_micros: 1,
                duration_ms: 1,
                purpose: String::new(),
                documents: Vec::new(),
                prompt: None,
            };
            if updates.send(RoleUpdate::Usage { usage, prompt: None }).await.is_err() {
                return Err(RoleError::new(RoleErrorKind::Internal, "nobody listens"));
            }
        }
    }
}

#[tokio::test]
async fn a_flooding_role_does_not_keep_a_cancellation_out() {
    let (store, fanout) = world().await;
    let run = create_run(&*store, 1).await;
    let mut config = DriverConfig::new("a");
    config.poll = Duration::from_millis(50);
    let stop = CancellationToken::new();
    let driver = Driver::new(store.clone(), fanout.clone(), Arc::new(Flood), config);
    let task = tokio::spawn(driver.run(stop.clone()));
    tokio::time::timeout(Duration::from_secs(30), async {
        while store.run(run).await.expect("the run exists").head_seq < 2_000 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the flood is written");
    cancel(&*store, &*fanout, run).await;
    assert_eq!(ended(&*store, run).await.status, RunStatus::Cancelled);
    stop.cancel();
    task.await.expect("a driver ends cleanly");
}

/// Claims a run in another term of `owner`.
async fn claim(store: &dyn Store, owner: &str) -> Vec<Claim> {
    let term = store.begin_term(owner, Duration::from_secs(60)).await.expect("begun").number;
    store.claim(owner, term, 1, 1, 0).await.expect("asked")
}

/// Appends an event of a type that only a newer version knows, as a newer driver would.
async fn from_the_future(store: &dyn Store, run: RunId) {
    let claim = claim(store, "newer").await[0];
    assert_eq!(claim.run_id, run);
    let events = vec![Event {
        run_id: run,
        seq: claim.head_seq + 1,
        node_id: NodeId::root(run),
        parent_node_id: None,
        timestamp: now(),
        body: Opaque::new("tree.from_the_future", Default::default()).into(),
    }];
    let append = RunAppend {
        run_id: run,
        epoch: claim.epoch,
        expected_head: claim.head_seq,
        events,
        projection: Default::default(),
        documents: Vec::new(),
        answers: Vec::new(),
        sessions: Vec::new(),
    };
    assert_eq!(store.append([append].into()).await.expect("appended"), [AppendOutcome::Appended]);
    store.release(&[(run, claim.epoch)]).await.expect("released");
}

#[tokio::test]
async fn a_run_of_a_newer_behaviour_version_counts_as_no_failure() {
    let (store, fanout) = world().await;
    let newer = create_run_of_version(&*store, 1, Some(99)).await;
    let mut config = DriverConfig::new("old");
    config.poll = Duration::from_millis(10);
    let driver = Driver::new(store.clone(), fanout.clone(), TreeRoles::new(2, None), config);
    let (stats, health) = (driver.stats(), driver.health());
    let stop = CancellationToken::new();
    let old = tokio::spawn(driver.run(stop.clone()));
    let patience = tokio::time::Instant::now() + Duration::from_secs(60);
    while stats.newer.load(Ordering::Relaxed) == 0 {
        assert!(tokio::time::Instant::now() < patience, "the run is not met");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let other = create_run(&*store, 1).await;
    assert_eq!(ended(&*store, other).await.status, RunStatus::Completed);
    assert_eq!(stats.broken.load(Ordering::Relaxed), 0, "that is no failure");
    assert_eq!(health.undrivable_runs(), Ok(()), "nor is the run ill");
    assert_eq!(store.run(newer).await.expect("there").status, RunStatus::Queued);
    stop.cancel();
    old.await.expect("a driver ends cleanly");
}

#[tokio::test]
async fn a_run_of_a_newer_version_is_left_to_a_newer_driver() {
    let (store, fanout) = world().await;
    let roles = TreeRoles::new(2, None);
    let newer = create_run(&*store, 1).await;
    from_the_future(&*store, newer).await;
    let head = store.run(newer).await.expect("there").head_seq;
    let mut config = DriverConfig::new("old");
    config.lease = Duration::from_millis(200);
    config.poll = Duration::from_millis(10);
    let driver = Driver::new(store.clone(), fanout.clone(), roles.clone(), config);
    let (stats, health) = (driver.stats(), driver.health());
    let stop = CancellationToken::new();
    let old = tokio::spawn(driver.run(stop.clone()));
    // Many claims later, the other runs are still driven and nothing has become of this one.
    let patience = tokio::time::Instant::now() + Duration::from_secs(60);
    while stats.newer.load(Ordering::Relaxed) < 3 {
        assert!(tokio::time::Instant::now() < patience, "the run is not offered again");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let other = create_run(&*store, 1).await;
    assert_eq!(ended(&*store, other).await.status, RunStatus::Completed);
    assert_eq!(stats.broken.load(Ordering::Relaxed), 0, "that is no failure");
    assert_eq!(health.undrivable_runs(), Ok(()), "nor is the run ill");
    let summary = store.run(newer).await.expect("there");
    assert_eq!((summary.head_seq, summary.status), (head, RunStatus::Queued));
    // A newer driver gets it, although the older one goes on asking.
    let claim = loop {
        if let Some(claim) = claim(&*store, "newer").await.pop() {
            break claim;
        }
        assert!(tokio::time::Instant::now() < patience, "nobody else gets the run");
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    assert_eq!((claim.run_id, claim.head_seq), (newer, head));
    stop.cancel();
    old.await.expect("a driver ends cleanly");
}
