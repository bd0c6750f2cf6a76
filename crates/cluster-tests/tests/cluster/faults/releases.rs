//! Programs of different builds side by side.

use std::path::PathBuf;

use tree_agent_cluster_tests::{Cluster, Options, SOON, eventually};
use tree_agent_contract::EventBody;
use tree_agent_proto::v1 as pb;

use super::completed;

/// A folder with the programs of an older build, if the caller has one (`make test-faults OLD=<git revision>`). Without
/// it, the second half of the cluster is the same build, and only the order of restarts is tested.
fn older() -> Option<PathBuf> {
    std::env::var_os("OLD_PROGRAMS").map(PathBuf::from)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f10_old_and_new_programs_work_side_by_side() {
    let mut cluster = Cluster::start(Options { replicas: 2, ..Options::default() }).await;
    let old = older();
    let folder =
        old.clone().unwrap_or_else(|| tree_agent_cluster_tests::program("tree-agent").with_file_name(""));
    eprintln!(
        "the older programs are {}",
        old.map_or("of the same build".into(), |f| f.display().to_string())
    );
    // All old at first; then new ones replace them one by one while a run continues.
    for group in 0..4 {
        for replica in 0..2 {
            let process = &mut group_mut(&mut cluster, group)[replica];
            process.terminate(SOON);
            process.take_from(&folder);
            process.start();
        }
    }
    cluster.healthy().await;
    for process in cluster.processes() {
        let name = process.name();
        assert!(
            process.alive(),
            "the older {name} does not start; is its schema that of this build?\n{}",
            process.log()
        );
    }
    let run = cluster.create("scripted:fanout=4,bands=3,depth=2,latency_ms=200").await;
    let mut follower = cluster.follow(&run);
    let new = tree_agent_cluster_tests::program("tree-agent").with_file_name("");
    for step in 0..8 {
        follower.until("the run goes on", |events| events.len() > 40 + 60 * step).await;
        assert!(!follower.ended(), "the run ended before the restarts did");
        let process = &mut group_mut(&mut cluster, step % 4)[step / 4];
        assert_eq!(process.terminate(SOON), 0);
        process.take_from(&new);
        process.start();
        cluster.healthy().await;
    }
    follower.end().await.assert_whole();
    assert_eq!(follower.broken(), 0, "a watcher was cut off without a hint");
}

fn group_mut(cluster: &mut Cluster, group: usize) -> &mut Vec<tree_agent_cluster_tests::Process> {
    match group {
        0 => &mut cluster.planners,
        1 => &mut cluster.executors,
        2 => &mut cluster.aggregators,
        _ => &mut cluster.gateways,
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f10_what_a_newer_program_adds_is_carried_along() {
    let mut cluster = Cluster::start(Options { replicas: 2, ..Options::default() }).await;
    let run = cluster.create("scripted:fanout=3,depth=2,latency_ms=300").await;
    let mut follower = cluster.follow(&run);
    follower.until("a leaf is done", |events| completed(events) >= 1).await;
    let driver = cluster.driver_of(&run).await;
    cluster.planners[driver].kill();
    // Everything so far as a newer writer might have written it: with a field that is unknown here.
    let add = "UPDATE tree_agent_events SET payload = payload || '{\"ofTheFuture\": {\"x\": [1]}}' WHERE run_id::text = $1";
    let changed = cluster.sql().await.execute(add, &[&run]).await.expect("changed");
    assert!(changed > 10);
    // The successor replays it, and watchers read it from the log.
    let history = follower.end().await;
    history.assert_whole();
    assert_eq!(cluster.follow(&run).end().await.events(), history.events());
    let graph = cluster.runs().get_graph(pb::GetGraphRequest { run_id: run, ..Default::default() }).await;
    let graph = graph.expect("a graph").into_inner().graph.expect("an answer holds the graph");
    assert_eq!(graph.nodes.len(), 13);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f10_an_event_type_of_a_newer_program_breaks_no_reader() {
    let mut cluster = Cluster::start(Options::default()).await;
    let run = cluster.create("scripted:fanout=3,depth=2,latency_ms=300").await;
    let mut follower = cluster.follow(&run);
    follower.until("a leaf is done", |events| completed(events) >= 1).await;
    cluster.planners[0].kill();
    // The last event becomes one that only a newer planner writes.
    let sql = cluster.sql().await;
    let future = "UPDATE tree_agent_events SET event_type = 'tree.from_the_future', payload = '{\"x\": [1]}' \
                  WHERE run_id::text = $1 AND seq = (SELECT head_seq FROM tree_agent_runs WHERE id::text = $1)";
    let kept = sql
        .query_one(
            "SELECT event_type, payload::text, seq FROM tree_agent_events WHERE run_id::text = $1 ORDER BY seq DESC LIMIT 1",
            &[&run],
        )
        .await
        .expect("the log has an end");
    let (kind, payload, seq): (String, String, i64) = (kept.get(0), kept.get(1), kept.get(2));
    assert_eq!(sql.execute(future, &[&run]).await.expect("changed"), 1);
    cluster.planners[0].start();
    cluster.healthy().await;
    let newer = "tree_agent_driver_newer_runs_total";
    eventually(newer, SOON, async || cluster.planners[0].metric(newer).await == Some(1.0)).await;
    assert_eq!(cluster.planners[0].metric("tree_agent_driver_broken_runs_total").await, Some(0.0));
    // Readers go on.
    let mut late = cluster.follow(&run);
    late.until("the whole log", |events| events.len() as i64 == seq).await;
    let graph =
        cluster.runs().get_graph(pb::GetGraphRequest { run_id: run.clone(), ..Default::default() }).await;
    assert_eq!(graph.expect("a graph").into_inner().graph.expect("the graph").seq as i64, seq);
    let output = cluster.cli(&format!("events {run} -o jsonl"), |command| command);
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("tree.from_the_future"));
    // The newer planner comes, to which nothing in the log is new.
    let known = "UPDATE tree_agent_events SET event_type = $2, payload = $3::text::jsonb WHERE run_id::text = $1 AND seq = $4";
    cluster.planners[0].kill();
    assert_eq!(sql.execute(known, &[&run, &kind, &payload, &seq]).await.expect("changed"), 1);
    cluster.planners[0].start();
    let ended = |events: &[tree_agent_contract::Event]| matches!(events.last().map(|e| &e.body), Some(EventBody::RunStatusChanged(s)) if s.status.is_final());
    late.until("the end", ended).await;
    let run = cluster.run(&run).await;
    assert_eq!((run.status(), run.partial), (pb::RunStatus::Completed, false));
}
