//! What only a cluster does: slots move, and servers take over from each other.

use std::sync::Arc;
use std::time::Duration;

use tree_agent_contract::RunId;
use tree_agent_fanout::{ConnectOptions, Fanout, Signal, Subscription, Topic};
use tree_agent_testkit::services::PrivateRedisCluster;

use crate::{eventually, message, next};

/// A topic whose slot server `owner` has.
fn topic_of(cluster: &PrivateRedisCluster, owner: usize) -> Topic {
    let topics = (1..).map(|n| Topic::Run(RunId(uuid::Uuid::from_u128(n))));
    let mut of_owner = topics.filter(|topic| {
        let slot = cluster.slot(&topic.to_string()).unwrap();
        cluster.owner(1, slot).unwrap() == owner
    });
    of_owner.next().unwrap()
}

/// Publishes until a message arrives; what came before was lost with the old place of the topic.
async fn flows(fanout: &Arc<dyn Fanout>, listener: &mut Subscription, topic: Topic, n: u32) {
    eventually("a message arrives", async || {
        let _ = fanout.publish(vec![(topic, message(n))]).await;
        let heard = tokio::time::timeout(Duration::from_millis(200), listener.next()).await;
        match heard {
            Ok(Some(Signal::Message(heard))) if heard == message(n) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_go_to_the_owner_of_their_slot_only() {
    let cluster = PrivateRedisCluster::start().unwrap();
    let fanout = tree_agent_fanout::connect(&cluster.url(), &ConnectOptions::default()).await.unwrap();
    for owner in 0..3 {
        let topic = topic_of(&cluster, owner);
        let mut listener = fanout.subscribe(topic).await.unwrap();
        fanout.publish(vec![(topic, message(7))]).await.unwrap();
        assert_eq!(next(&mut listener).await, Signal::Message(message(7)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_takes_its_listeners_along() {
    let cluster = PrivateRedisCluster::start().unwrap();
    let fanout = tree_agent_fanout::connect(&cluster.url(), &ConnectOptions::default()).await.unwrap();
    let (moving, staying) = (topic_of(&cluster, 1), topic_of(&cluster, 2));
    let mut listener = fanout.subscribe(moving).await.unwrap();
    let mut other = fanout.subscribe(staying).await.unwrap();
    fanout.publish(vec![(moving, message(1)), (staying, message(1))]).await.unwrap();
    assert_eq!(next(&mut listener).await, Signal::Message(message(1)));
    assert_eq!(next(&mut other).await, Signal::Message(message(1)));
    cluster.move_slot(cluster.slot(&moving.to_string()).unwrap(), 2).unwrap();
    assert_eq!(next(&mut listener).await, Signal::Missed);
    flows(&fanout, &mut listener, moving, 2).await;
    fanout.publish(vec![(staying, message(3))]).await.unwrap();
    assert_eq!(next(&mut other).await, Signal::Message(message(3)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listeners_follow_to_the_server_that_takes_over() {
    let mut cluster = PrivateRedisCluster::start().unwrap();
    let fanout = tree_agent_fanout::connect(&cluster.url(), &ConnectOptions::default()).await.unwrap();
    let topic = topic_of(&cluster, 0);
    let mut listener = fanout.subscribe(topic).await.unwrap();
    fanout.publish(vec![(topic, message(1))]).await.unwrap();
    assert_eq!(next(&mut listener).await, Signal::Message(message(1)));
    cluster.kill(0);
    let slot = cluster.slot(&topic.to_string()).unwrap();
    eventually("another server takes over", async || match cluster.owner(1, slot) {
        Ok(0) => Err("the dead server still owns the slot".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    })
    .await;
    assert_eq!(next(&mut listener).await, Signal::Missed);
    flows(&fanout, &mut listener, topic, 2).await;
    eventually("every master answers", async || fanout.ping().await).await;
    // The dead server comes back as the one that stands by, and takes over again.
    cluster.start_again(0).unwrap();
    flows(&fanout, &mut listener, topic, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_away_is_said_and_found_again() {
    let mut cluster = PrivateRedisCluster::start().unwrap();
    let fanout = tree_agent_fanout::connect(&cluster.url(), &ConnectOptions::default()).await.unwrap();
    let topic = topic_of(&cluster, 1);
    let mut listener = fanout.subscribe(topic).await.unwrap();
    (0..4).for_each(|n| cluster.kill(n));
    eventually("noticing", async || match fanout.ping().await {
        Ok(()) => Err("still there"),
        Err(_) => Ok(()),
    })
    .await;
    assert!(fanout.publish(vec![(topic, message(1))]).await.is_err());
    (0..4).for_each(|n| cluster.start_again(n).unwrap());
    assert_eq!(next(&mut listener).await, Signal::Missed);
    flows(&fanout, &mut listener, topic, 2).await;
}

#[tokio::test]
async fn a_malformed_cluster_url_is_said() {
    for url in ["redis-cluster:nonsense", "redis-cluster://a b:c"] {
        let error = tree_agent_fanout::connect(url, &ConnectOptions::default()).await.err().unwrap();
        assert!(error.to_string().contains("redis-cluster://"), "{error}");
    }
}
