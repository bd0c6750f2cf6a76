//! Drivers that die, shut down or freeze: another driver continues the run, and finished work is not repeated.

use std::time::{Duration, Instant};

use tree_agent_cluster_tests::{Cluster, History, Options, SOON, Signal, eventually};
use tree_agent_contract::{Event, EventBody, NodeStatus, RunStatus};
use tree_agent_proto::v1 as pb;

use super::completed;

/// 13 nodes, 9 of them leaves; about a second without faults.
const MODEL: &str = "scripted:fanout=3,depth=2,latency_ms=120,artifacts=document";
/// Plans, executions and aggregations of it.
const CALLS: [usize; 3] = [13, 9, 4];

/// Whether a log has reached some position.
type Reached = fn(&[Event]) -> bool;

fn aggregating_root(events: &[Event]) -> bool {
    events.iter().any(|e| {
        e.parent_node_id.is_none()
            && matches!(&e.body, EventBody::NodeStatusChanged(s) if s.status == NodeStatus::Aggregating)
    })
}

/// Plans, executions and aggregations that were in flight after the first `head` events.
fn in_flight(history: &History, head: u64) -> [usize; 3] {
    let mut at_work = std::collections::HashMap::new();
    for event in history.events().iter().take_while(|e| e.seq <= head) {
        match &event.body {
            EventBody::NodeStatusChanged(s) => drop(at_work.insert(event.node_id, s.status)),
            EventBody::NodeCompleted(_) | EventBody::NodeFailed(_) => drop(at_work.remove(&event.node_id)),
            _ => {}
        }
    }
    [NodeStatus::Planning, NodeStatus::Executing, NodeStatus::Aggregating]
        .map(|status| at_work.values().filter(|&&s| s == status).count())
}

#[tokio::test(flavor = "multi_thread")]
async fn f02_a_killed_planner_costs_only_the_calls_in_flight() {
    let options = Options { replicas: 2, ..Options::default() };
    let lease = options.lease;
    let mut cluster = Cluster::start(options).await;

    let undisturbed = cluster.create(MODEL).await;
    let undisturbed = cluster.follow(&undisturbed).end().await;
    undisturbed.assert_whole();
    assert_eq!(undisturbed.nodes(), 13);
    let document = cluster.body(undisturbed.synthesis()).await;

    let positions: [(&str, Reached); 3] = [
        ("the first leaf is done", |events| completed(events) >= 1),
        ("half of the leaves are done", |events| completed(events) >= 5),
        ("the root aggregates", aggregating_root),
    ];
    for (position, reached) in positions {
        let before = cluster.calls();
        let run = cluster.create(MODEL).await;
        let mut follower = cluster.follow(&run);
        follower.until(position, reached).await;
        let driver = cluster.driver_of(&run).await;
        cluster.planners[driver].kill();
        let killed = Instant::now();
        let head = cluster.run(&run).await.head_seq;
        let successor = cluster.driver_of(&run).await;
        let waited = killed.elapsed();
        assert_ne!(successor, driver);
        assert!(waited < lease + Duration::from_secs(2), "{position}: taken over only after {waited:?}");

        let history = follower.end().await;
        history.assert_whole();
        assert_eq!(history.nodes(), 13);
        assert_eq!(cluster.body(history.synthesis()).await, document, "{position}");
        let made = || {
            let after = cluster.calls();
            [0, 1, 2].map(|kind| after[kind] - before[kind])
        };
        // Plans that the killed process served are not in its log.
        eventually("every call is logged", SOON, async || (1..3).all(|kind| made()[kind] >= CALLS[kind]))
            .await;
        let (made, redone) = (made(), in_flight(&history, head));
        for kind in 0..3 {
            assert!(
                made[kind] <= CALLS[kind] + redone[kind],
                "{position}: made {made:?} calls; {CALLS:?} were needed and {redone:?} in flight"
            );
        }
        cluster.planners[driver].start();
        cluster.healthy().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f02_a_run_that_waits_for_a_quota_goes_on_once_with_another_driver() {
    let mut cluster = Cluster::start(Options { replicas: 2, ..Options::default() }).await;
    let before = cluster.calls();
    // Each leaf asks again when it is told to, and in vain if that is too early.
    let run = cluster.create("scripted:fanout=3,depth=1,fail=overloaded,fail_until_ms=25000").await;
    let mut follower = cluster.follow(&run);
    let statuses = |events: &[Event]| {
        let of_run = events.iter().filter_map(|event| match &event.body {
            EventBody::RunStatusChanged(changed) => Some((changed.status, changed.reason.clone())),
            _ => None,
        });
        of_run.collect::<Vec<_>>()
    };
    let parked = (RunStatus::Paused, Some("quota".to_owned()));
    follower.until("the run waits for the quota", |events| statuses(events).contains(&parked)).await;
    let driver = cluster.driver_of(&run).await;
    cluster.planners[driver].kill();
    assert_ne!(cluster.driver_of(&run).await, driver);
    let history = follower.end().await;
    history.assert_whole();
    let seen = statuses(history.events());
    assert_eq!(seen.iter().filter(|status| **status == parked).count(), 1, "{seen:?}");
    assert_eq!(seen.iter().filter(|status| status.0 == RunStatus::Running).count(), 2, "{seen:?}");
    let refused = history.messages().iter().filter(|said| said.contains("waits for the quota")).count();
    assert_eq!(refused, 3, "one for each leaf");
    eventually("every call is logged", SOON, async || cluster.calls()[1] >= before[1] + 6).await;
    assert_eq!(cluster.calls()[1] - before[1], 6, "each leaf was refused once and answered once");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f10_a_leaving_planner_hands_its_runs_over_at_once() {
    let options = Options { replicas: 2, lease: Duration::from_secs(60), ..Options::default() };
    let mut cluster = Cluster::start(options).await;
    let run = cluster.create(MODEL).await;
    let mut follower = cluster.follow(&run);
    follower.until("a leaf is done", |events| completed(events) >= 1).await;
    let driver = cluster.driver_of(&run).await;
    let left = Instant::now();
    assert_eq!(cluster.planners[driver].terminate(Duration::from_secs(15)), 0);
    assert_ne!(cluster.driver_of(&run).await, driver);
    assert!(left.elapsed() < Duration::from_secs(20), "the lease was waited for");
    let history = follower.end().await;
    history.assert_whole();
    assert_eq!(history.nodes(), 13);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f01_a_frozen_driver_that_wakes_appends_nothing() {
    let cluster = Cluster::start(Options { replicas: 2, ..Options::default() }).await;
    let run = cluster.create(MODEL).await;
    let mut follower = cluster.follow(&run);
    follower.until("a leaf is done", |events| completed(events) >= 1).await;
    let driver = cluster.driver_of(&run).await;
    let frozen = &cluster.planners[driver];
    frozen.signal(Signal::Stop);
    // An append that was in flight when it froze is in the log by the time the row can be locked for a claim.
    eventually("another planner takes over", SOON, async || cluster.lease_of(&run).await != Some(driver))
        .await;
    frozen.signal(Signal::Continue);
    let history = follower.end().await;
    history.assert_whole();
    assert_eq!(history.nodes(), 13);
    let writers = cluster.writers_of(&run).await;
    assert!(writers.is_sorted(), "an old epoch appended after a new one: {writers:?}");
    assert_eq!(writers.len(), history.events().len());
    assert!(writers.contains(&1) && writers.last() >= Some(&2), "{writers:?}");
    eventually("the woken planner notices", SOON, async || {
        let log = frozen.log();
        log.contains("another driver owns the run") || log.contains("the lease was lost")
    })
    .await;
    assert!(frozen.alive(), "it serves on");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f02_killed_executors_and_aggregators_cost_nothing_but_time() {
    let mut cluster = Cluster::start(Options { replicas: 2, ..Options::default() }).await;
    let run = cluster.create(MODEL).await;
    let mut follower = cluster.follow(&run);
    follower.until("leaves are at work", |events| completed(events) >= 1).await;
    cluster.executors[0].kill();
    let aggregating = |events: &[Event]| {
        events.iter().any(
            |e| matches!(&e.body, EventBody::NodeStatusChanged(s) if s.status == NodeStatus::Aggregating),
        )
    };
    follower.until("a node aggregates", aggregating).await;
    cluster.aggregators[0].kill();
    let history = follower.end().await;
    history.assert_whole();
    assert_eq!(history.nodes(), 13);

    // While every replica is down the run waits, and reports it, until one is back.
    cluster.executors[1].kill();
    let run = cluster.create("scripted:fanout=2,depth=1").await;
    let mut follower = cluster.follow(&run);
    let blocked = |events: &[Event]| {
        events
            .iter()
            .any(|e| matches!(&e.body, EventBody::NodeStatusChanged(s) if s.status == NodeStatus::Blocked))
    };
    follower.until("the run says that it is blocked", blocked).await;
    cluster.executors[1].start();
    follower.end().await.assert_whole();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_cancelled_before_anybody_drives_it() {
    let mut cluster = Cluster::start(Options::default()).await;
    cluster.planners[0].kill();
    let run = cluster.create(MODEL).await;
    let request = pb::CancelRunRequest { run_id: run.clone(), reason: "changed my mind".into() };
    let answer = cluster.runs().cancel_run(request).await.expect("accepted").into_inner();
    assert_eq!(answer.run.expect("the run").status(), pb::RunStatus::Queued);
    cluster.planners[0].start();
    let history = cluster.follow(&run).end().await;
    let end = history.ending();
    assert_eq!((end.status, end.reason.as_deref()), (RunStatus::Cancelled, Some("changed my mind")));
    assert_eq!(history.nodes(), 1, "a cancelled run makes no calls");
    assert_eq!(cluster.calls()[1..], [0, 0]);
}

/// Behind planners that are full, and while it rests.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_nobody_drives_is_cancelled_at_once() {
    let full = ("planner", "TREE_AGENT_MAX_RUNS", "1".to_owned());
    let cluster = Cluster::start(Options { replicas: 2, settings: vec![full], ..Options::default() }).await;
    let mut driven = Vec::new();
    for _ in 0..2 {
        let run = cluster.create("scripted:fanout=2,depth=1,latency_ms=600000").await;
        cluster.driver_of(&run).await;
        driven.push(run);
    }
    let (queued, resting) = (cluster.create(MODEL).await, cluster.create(MODEL).await);
    let sql = cluster.sql().await;
    let rest = "UPDATE tree_agent_runs SET not_before = now() + interval '5 minutes', \
                lease_expires_at = now() + interval '5 minutes' WHERE id::text = $1";
    assert_eq!(sql.execute(rest, &[&resting]).await.expect("it rests"), 1);
    for run in [queued, resting] {
        let request = pb::CancelRunRequest { run_id: run.clone(), reason: "too slow".into() };
        let asked = Instant::now();
        let answer = cluster.runs().cancel_run(request.clone()).await.expect("accepted").into_inner();
        assert_eq!(answer.run.expect("the run").status(), pb::RunStatus::Queued);
        assert_eq!(cluster.follow(&run).end().await.ending().status, RunStatus::Cancelled);
        eprintln!("cancelled within {:?}", asked.elapsed());
        let again = cluster.runs().cancel_run(request).await.expect("answered").into_inner();
        assert_eq!(
            again.run.expect("the run").status(),
            pb::RunStatus::Cancelled,
            "the answer says how it ended"
        );
    }
    for run in driven {
        assert_eq!(cluster.run(&run).await.status(), pb::RunStatus::Running);
    }
    let left = sql.query_one("SELECT count(*) FROM tree_agent_commands", &[]).await.expect("counted");
    assert_eq!(left.get::<_, i64>(0), 0, "commands in inboxes");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f02_real_work_survives_its_planners() {
    let mut cluster = Cluster::start(Options { replicas: 2, ..Options::default() }).await;
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../model/tests/corpus");
    let output = cluster.cli("import --project corpus", |command| command.arg(corpus));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut midway = 0;
    let mut documents = Vec::new();
    // The first run is undisturbed. It shows where to kill the drivers of the others.
    let mut positions = vec![usize::MAX];
    while let Some(position) = positions.pop() {
        let run =
            cluster.ask("When may a pilot refuse? What does a crane cost? How is water delivered?").await;
        let mut follower = cluster.follow(&run);
        if position != usize::MAX {
            follower.until("the position", |events| events.len() >= position).await;
            if let Some(driver) = cluster.lease_of(&run).await {
                cluster.planners[driver].kill();
                midway += usize::from(cluster.run(&run).await.status() == pb::RunStatus::Running);
                cluster.planners[driver].start();
            }
        }
        let history = follower.end().await;
        history.assert_whole();
        if position == usize::MAX {
            let events = history.events().len();
            assert!(events > 50, "a run of {events} events");
            positions.extend([events / 8, events / 3, events / 2]);
        }
        documents.push(cluster.body(history.synthesis()).await);
        cluster.healthy().await;
    }
    assert!(midway >= 1, "no driver was killed midway");
    assert!(
        documents.iter().all(|document| *document == documents[0]),
        "the documents differ: {documents:#?}"
    );
}
