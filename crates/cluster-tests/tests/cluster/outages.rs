//! Postgres and Redis that are not there, and that go away.

use std::time::Duration;

use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;
use tree_agent_cluster_tests::{Cluster, Options, SOON, Signal, eventually};
use tree_agent_contract::{Event, EventBody};
use tree_agent_proto::v1 as pb;

/// How far a watcher may fall behind without Redis. The promise is about a second; the rest is for a busy machine.
const BEHIND: Duration = Duration::from_secs(4);

const MODEL: &str = "scripted:fanout=3,depth=2,latency_ms=150";

fn completed(events: &[Event]) -> usize {
    events.iter().filter(|e| matches!(e.body, EventBody::NodeCompleted(_))).count()
}

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
async fn runs_survive_a_crash_of_postgres() {
    let mut cluster = Cluster::start(Options { replicas: 2, ..Options::default() }).await;
    let mut followers = Vec::new();
    for _ in 0..3 {
        let run = cluster.create(MODEL).await;
        followers.push(cluster.follow(&run));
    }
    followers[0].until("leaves are done", |events| completed(events) >= 2).await;
    let pid = cluster.postgres.pid().expect("it runs");
    Signal::Quit.send(pid);
    cluster.postgres.stop();
    eventually("the gateway's health turns red", SOON, async || {
        cluster.gateways[0].health("").await == Some(ServingStatus::NotServing)
    })
    .await;
    cluster.postgres.start_again().expect("Postgres starts");
    for mut follower in followers {
        follower.end().await.assert_whole();
    }
    cluster.healthy().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_watchers_fall_behind_by_a_second_and_runs_go_on() {
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
