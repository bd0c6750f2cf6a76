//! What operators need in an incident: metrics that move, and errors about a damaged log.

use tonic::Code;
use tonic_types::StatusExt;
use tree_agent_cluster_tests::{Cluster, Options, Process, SOON, eventually};
use tree_agent_proto::v1 as pb;

async fn metric(process: &Process, name: &str) -> f64 {
    process.metric(name).await.expect("it answers")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_service_tells_its_metrics_and_they_move() {
    let cluster = Cluster::start(Options::default()).await;
    let [gateway, planner] = [&cluster.gateways[0], &cluster.planners[0]];
    for process in cluster.processes() {
        assert_eq!(metric(process, "tree_agent_ready").await, 1.0, "{}", process.name());
        assert!(metric(process, "process_resident_memory_bytes").await > 1e6, "{}", process.name());
    }
    let run = cluster.create("scripted:fanout=3,depth=1").await;
    let history = cluster.follow(&run).end().await;
    history.assert_whole();
    // The gateway wrote the first four events together with the run.
    let written = history.events().len() as f64 - 4.0;
    for (name, value) in [
        ("tree_agent_driver_claims_total", 1.0),
        ("tree_agent_driver_takeovers_total", 0.0),
        ("tree_agent_driver_events_total", written),
        ("tree_agent_driver_stale_answers_total", 0.0),
        ("tree_agent_driver_fenced_appends_total", 0.0),
        ("tree_agent_driver_role_calls_total{role=\"execute\"}", 3.0),
        ("tree_agent_driver_role_call_failures_total{role=\"execute\",kind=\"timeout\"}", 0.0),
    ] {
        eventually(name, SOON, async || planner.metric(name).await == Some(value)).await;
    }
    let plans = metric(planner, "tree_agent_driver_role_calls_total{role=\"plan\"}").await;
    assert!(plans >= 1.0);
    assert_eq!(metric(planner, "tree_agent_role_calls_answered_total").await, plans);
    let appends = metric(planner, "tree_agent_driver_appends_total").await;
    assert!(appends >= 1.0 && appends <= written, "{appends}");
    assert_eq!(metric(planner, "tree_agent_driver_append_seconds_count").await, appends);
    assert!(metric(planner, "tree_agent_store_connections{state=\"max\"}").await >= 2.0);
    assert_eq!(metric(&cluster.executors[0], "tree_agent_role_calls_answered_total").await, 3.0);
    assert_eq!(metric(&cluster.aggregators[0], "tree_agent_role_calls_total").await, 1.0);
    let delivered = "tree_agent_gateway_events_delivered_total";
    let all = history.events().len() as f64;
    eventually(delivered, SOON, async || gateway.metric(delivered).await == Some(all)).await;
    assert_eq!(metric(gateway, "tree_agent_dependency_up{dependency=\"fanout\"}").await, 1.0);
    eventually("the stream is closed", SOON, async || {
        gateway.metric("tree_agent_gateway_streams{kind=\"run\"}").await == Some(0.0)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_with_a_gap_ends_streams_with_data_loss() {
    let cluster = Cluster::start(Options::default()).await;
    let run = cluster.create("scripted:fanout=3,depth=1").await;
    // Nobody may watch the run before it is damaged: a gateway buffers recent events of a watched run and would send
    // those.
    let ended = async || cluster.run(&run).await.status() == pb::RunStatus::Completed;
    eventually("the run ends", SOON, ended).await;
    let damage = "DELETE FROM tree_agent_events WHERE run_id::text = $1 AND seq = 7";
    assert_eq!(cluster.sql().await.execute(damage, &[&run]).await.expect("it is deleted"), 1);
    let request = pb::WatchRunRequest { run_id: run, after_seq: 4, ..Default::default() };
    let mut stream = cluster.runs().watch_run(request).await.expect("the run is there").into_inner();
    let mut seqs = Vec::new();
    let status = loop {
        match tokio::time::timeout(SOON, stream.message()).await.expect("something is said") {
            Ok(Some(answer)) => {
                if let Some(pb::watch_run_response::Message::Event(event)) = answer.message {
                    seqs.push(event.seq);
                }
            }
            Ok(None) => panic!("it ended well after {seqs:?}"),
            Err(status) => break status,
        }
    };
    assert_eq!(seqs, [5, 6], "what stands before the gap is sent");
    assert_eq!(status.code(), Code::DataLoss, "{status}");
    let details = status.get_error_details();
    assert_eq!(details.error_info().map(|info| info.reason.as_str()), Some("LOG_GAP"));
}
