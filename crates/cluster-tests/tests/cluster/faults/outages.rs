//! Postgres and Redis that are missing at the start, or go down later.

use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;
use tree_agent_cluster_tests::{Cluster, Options, SOON, Signal, eventually};
use tree_agent_proto::v1 as pb;

use super::{BEHIND, completed};

const MODEL: &str = "scripted:fanout=3,depth=2,latency_ms=150";

#[tokio::test(flavor = "multi_thread")]
async fn services_wait_for_postgres_and_say_so() {
    let mut cluster = Cluster::start(Options { postgres: false, ..Options::default() }).await;
    for process in [&cluster.gateways[0], &cluster.planners[0]] {
        let name = process.name();
        eventually(&format!("{name} answers"), SOON, async || process.health("").await.is_some()).await;
        assert_eq!(process.health("").await, Some(ServingStatus::NotServing), "{name}");
        eventually(&format!("{name} says why"), SOON, async || {
            let log = process.log();
            log.contains("cannot connect") && log.contains("store") && log.contains("refused")
        })
        .await;
    }
    let refused = cluster.runs().list_runs(pb::ListRunsRequest::default()).await.expect_err("no store");
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");

    cluster.postgres.start_again().expect("Postgres starts");
    cluster.healthy().await;
    let run = cluster.create(MODEL).await;
    cluster.follow(&run).end().await.assert_whole();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f04_postgres_crashes_during_claims_and_appends() {
    let mut cluster = Cluster::start(Options { replicas: 2, ..Options::default() }).await;
    let mut followers = Vec::new();
    for crash in 0..3 {
        // New runs are being claimed, older ones appended to.
        for n in 0..3 {
            let run = create_though_it_crashes(&cluster, &format!("{crash}-{n}")).await;
            followers.push(cluster.follow(&run));
        }
        if crash > 0 {
            let newest = followers.len() - 1;
            followers[newest].until("the newest run has begun", |events| events.len() > 4).await;
        }
        Signal::Quit.send(cluster.postgres.pid().expect("it runs"));
        cluster.postgres.stop();
        eventually("the gateway's health turns red", SOON, async || {
            cluster.gateways[0].health("").await == Some(ServingStatus::NotServing)
        })
        .await;
        cluster.postgres.start_again().expect("Postgres starts");
    }
    for follower in &mut followers {
        follower.end().await.assert_whole();
    }
    cluster.healthy().await;
    let sql = cluster.sql().await;
    let count = async |query: &str| -> i64 { sql.query_one(query, &[]).await.expect("a count").get(0) };
    assert_eq!(count("SELECT count(*) FROM tree_agent_runs").await, followers.len() as i64);
    let stranded = "SELECT count(*) FROM tree_agent_runs WHERE status <> 'completed'";
    assert_eq!(count(stranded).await, 0, "runs are stranded");
    let heads = "SELECT sum(head_seq)::int8 FROM tree_agent_runs";
    let events = followers.iter().map(|follower| follower.count() as i64).sum::<i64>();
    assert_eq!(count(heads).await, events, "watchers saw every event");
    assert_eq!(count("SELECT count(*) FROM tree_agent_events").await, events);
}

/// Creates a run, repeating the same request id until it works. A lost answer must not create a second run.
async fn create_though_it_crashes(cluster: &Cluster, id: &str) -> String {
    let request = pb::CreateRunRequest {
        objective: "What does a cluster do?".into(),
        model: MODEL.into(),
        request_id: format!("crash-{id}"),
        ..Default::default()
    };
    let mut created = None;
    eventually("a run is created", SOON, async || {
        created = cluster.runs().create_run(request.clone()).await.ok();
        created.is_some()
    })
    .await;
    created.expect("it was").into_inner().run.expect("an answer holds the run").run_id
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f06_without_redis_watchers_fall_behind_by_a_second_and_runs_go_on() {
    let mut cluster = Cluster::start(Options { redis: false, ..Options::default() }).await;
    let fanout = async |cluster: &Cluster| cluster.gateways[0].health("fanout").await;
    eventually("the missing Redis is said", SOON, async || {
        fanout(&cluster).await == Some(ServingStatus::NotServing)
    })
    .await;
    assert!(cluster.gateways[0].serving().await, "a gateway serves without Redis");

    let run = cluster.create(MODEL).await;
    let mut follower = cluster.follow(&run);
    follower.end().await.assert_whole();
    let delay = follower.worst_delay();
    assert!(delay < BEHIND, "without Redis an event came {delay:?} late");

    cluster.redis.start_again().expect("Redis starts");
    eventually("Redis is found", SOON, async || fanout(&cluster).await == Some(ServingStatus::Serving)).await;
    let run = cluster.create(MODEL).await;
    let mut follower = cluster.follow(&run);
    follower.until("leaves are done", |events| completed(events) >= 2).await;
    Signal::Kill.send(cluster.redis.pid().expect("it runs"));
    cluster.redis.stop();
    follower.end().await.assert_whole();
    let delay = follower.worst_delay();
    assert!(delay < BEHIND, "after Redis died an event came {delay:?} late");
    eventually("the lost Redis is said", SOON, async || {
        fanout(&cluster).await == Some(ServingStatus::NotServing)
    })
    .await;
}
