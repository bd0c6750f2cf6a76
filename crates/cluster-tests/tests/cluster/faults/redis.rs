//! Whatever happens between publishers and subscribers changes when events arrive, never which.

use tonic_health::pb::health_check_response::ServingStatus;
use tree_agent_cluster_tests::{Cluster, Follower, HostileRelay, Options, SOON, Signal, eventually};
use tree_agent_testkit::services::PrivateRedis;

use super::{BEHIND, completed};

const MODEL: &str = "scripted:fanout=3,depth=2,latency_ms=150,tools=1";

async fn ends_in_time(follower: &mut Follower, what: &str) {
    let history = follower.end().await;
    history.assert_whole();
    history.assert_tool_calls_once();
    let delay = follower.worst_delay();
    assert!(delay < BEHIND, "{what}: an event came {delay:?} late");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f06_messages_dropped_doubled_swapped_and_garbled() {
    // Drivers publish on one Redis, gateways listen on another, and a hostile relay is between them.
    let other = PrivateRedis::start().expect("Redis starts");
    let settings = vec![("planner", "TREE_AGENT_REDIS_URL", other.url())];
    let cluster = Cluster::start(Options { settings, ..Options::default() }).await;
    let run = cluster.create(MODEL).await;
    ends_in_time(&mut cluster.follow(&run), "every message was dropped").await;
    let relay = HostileRelay::start(&other.url(), &cluster.redis.url()).await;
    let run = cluster.create(MODEL).await;
    ends_in_time(&mut cluster.follow(&run), "messages were mistreated").await;
    assert!(relay.heard() > 30, "{} messages were mistreated", relay.heard());
    // A missing message cannot be noticed there: health is that of the connection.
    assert_eq!(cluster.gateways[0].health("fanout").await, Some(ServingStatus::Serving));
}

#[tokio::test(flavor = "multi_thread")]
async fn f06_redis_killed_restarted_and_emptied_under_subscribers() {
    let mut cluster = Cluster::start(Options::default()).await;
    let fanout = async |cluster: &Cluster| cluster.gateways[0].health("fanout").await;
    for round in 0..2 {
        let run = cluster.create(MODEL).await;
        let mut follower = cluster.follow(&run);
        follower.until("a leaf is done", |events| completed(events) >= 1).await;
        Signal::Kill.send(cluster.redis.pid().expect("it runs"));
        cluster.redis.stop();
        eventually("the lost Redis is said", SOON, async || {
            fanout(&cluster).await == Some(ServingStatus::NotServing)
        })
        .await;
        assert!(cluster.gateways[0].serving().await, "round {round}: a gateway serves without Redis");
        cluster.redis.start_again().expect("Redis starts");
        eventually("Redis is found", SOON, async || fanout(&cluster).await == Some(ServingStatus::Serving))
            .await;
        ends_in_time(&mut follower, "Redis was killed and restarted").await;

        // Redis is emptied under a watcher. It holds nothing that anybody needs.
        let run = cluster.create(MODEL).await;
        let mut follower = cluster.follow(&run);
        follower.until("a leaf is done", |events| completed(events) >= 1).await;
        let client = redis::Client::open(cluster.redis.url()).expect("a URL");
        let mut redis = client.get_multiplexed_async_connection().await.expect("Redis answers");
        let () = redis::cmd("FLUSHALL").query_async(&mut redis).await.expect("emptied");
        ends_in_time(&mut follower, "Redis was emptied").await;
    }
}
