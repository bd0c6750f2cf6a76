//! The promises of fan-out, held to by every adapter.

#![allow(missing_docs)]

mod tls;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tree_agent_contract::RunId;
use tree_agent_fanout::{ConnectOptions, Fanout, InProcessFanout, Signal, Subscription, Topic, connect};
use tree_agent_security::SharedSecrets;
use tree_agent_testkit::services::PrivateRedis;

const RUN: Topic = Topic::Run(RunId(uuid::Uuid::from_u128(1)));
const OTHER: Topic = Topic::Run(RunId(uuid::Uuid::from_u128(2)));

macro_rules! contract {
    ($($name:ident),* $(,)?) => {
        mod in_process {$(
            #[tokio::test]
            async fn $name() {
                super::$name(std::sync::Arc::new(super::InProcessFanout::new())).await;
            }
        )*}
        mod redis {$(
            #[tokio::test]
            async fn $name() {
                let server = super::PrivateRedis::start().unwrap();
                super::$name(super::connect(&server.url(), &super::with_key()).await.unwrap()).await;
            }
        )*}
    };
}

contract! {
    every_listener_of_a_topic_hears_all_in_order,
    topics_are_apart,
    what_is_published_after_subscribing_arrives,
    a_listener_that_falls_behind_is_told,
    leaving_and_joining_again_works,
    ping_and_empty_publications_succeed,
}

fn with_key() -> ConnectOptions {
    ConnectOptions { key: Some(SharedSecrets::random()), ..ConnectOptions::default() }
}

fn message(n: u32) -> Bytes {
    Bytes::from(n.to_string())
}

async fn next(subscription: &mut Subscription) -> Signal {
    let signal = tokio::time::timeout(Duration::from_secs(10), subscription.next()).await;
    signal.expect("a signal in time").expect("the adapter is there")
}

async fn every_listener_of_a_topic_hears_all_in_order(fanout: Arc<dyn Fanout>) {
    let mut listeners = Vec::new();
    for _ in 0..3 {
        listeners.push(fanout.subscribe(RUN).await.unwrap());
    }
    let binary = Bytes::from_static(&[0, 255, 13, 10, 0]);
    fanout.publish(vec![(RUN, message(0)), (RUN, binary.clone())]).await.unwrap();
    fanout.publish((1..50).map(|n| (RUN, message(n))).collect()).await.unwrap();
    for listener in &mut listeners {
        assert_eq!(next(listener).await, Signal::Message(message(0)));
        assert_eq!(next(listener).await, Signal::Message(binary.clone()));
        for n in 1..50 {
            assert_eq!(next(listener).await, Signal::Message(message(n)));
        }
    }
}

async fn topics_are_apart(fanout: Arc<dyn Fanout>) {
    let topics = [RUN, OTHER, Topic::Wake];
    let mut listeners = Vec::new();
    for topic in topics {
        assert_eq!(topic.to_string().parse::<Topic>().unwrap(), topic);
        listeners.push(fanout.subscribe(topic).await.unwrap());
    }
    fanout.publish(topics.iter().zip(0..).map(|(topic, n)| (*topic, message(n))).collect()).await.unwrap();
    fanout.publish(topics.iter().map(|topic| (*topic, Bytes::new())).collect()).await.unwrap();
    for (listener, n) in listeners.iter_mut().zip(0..) {
        assert_eq!(next(listener).await, Signal::Message(message(n)));
        assert_eq!(next(listener).await, Signal::Message(Bytes::new()));
    }
}

async fn what_is_published_after_subscribing_arrives(fanout: Arc<dyn Fanout>) {
    for n in 0..50 {
        let topic = Topic::Run(RunId(uuid::Uuid::from_u128(n.into())));
        fanout.publish(vec![(topic, message(1_000))]).await.unwrap();
        let mut listener = fanout.subscribe(topic).await.unwrap();
        fanout.publish(vec![(topic, message(n))]).await.unwrap();
        assert_eq!(next(&mut listener).await, Signal::Message(message(n)));
    }
}

async fn a_listener_that_falls_behind_is_told(fanout: Arc<dyn Fanout>) {
    let mut slow = fanout.subscribe(RUN).await.unwrap();
    let mut last = fanout.subscribe(OTHER).await.unwrap();
    for n in 0..10 {
        fanout.publish((0..100).map(|i| (RUN, message(n * 100 + i))).collect()).await.unwrap();
    }
    // Behind everything else on the same connection.
    fanout.publish(vec![(OTHER, Bytes::new())]).await.unwrap();
    next(&mut last).await;
    assert_eq!(next(&mut slow).await, Signal::Missed);
    let mut heard = next(&mut slow).await;
    for _ in 0..1_000 {
        if heard == Signal::Message(message(999)) {
            return;
        }
        heard = next(&mut slow).await;
    }
    panic!("the newest message was lost");
}

async fn leaving_and_joining_again_works(fanout: Arc<dyn Fanout>) {
    let mut stays = fanout.subscribe(OTHER).await.unwrap();
    for n in 0..50 {
        let mut listener = fanout.subscribe(RUN).await.unwrap();
        let other = fanout.subscribe(OTHER).await.unwrap();
        fanout.publish(vec![(RUN, message(n)), (OTHER, message(n))]).await.unwrap();
        assert_eq!(next(&mut listener).await, Signal::Message(message(n)));
        drop(other);
        assert_eq!(next(&mut stays).await, Signal::Message(message(n)));
    }
}

async fn ping_and_empty_publications_succeed(fanout: Arc<dyn Fanout>) {
    fanout.ping().await.unwrap();
    fanout.publish(Vec::new()).await.unwrap();
    fanout.publish(vec![(RUN, message(1))]).await.unwrap();
}

/// Asks again until it succeeds.
async fn eventually<T, E: std::fmt::Display>(what: &str, mut ask: impl AsyncFnMut() -> Result<T, E>) -> T {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(e) => assert!(Instant::now() < deadline, "{what}: {e}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn subscribers_at_the_broker(server: &PrivateRedis, topic: Topic) -> i64 {
    let client = ::redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let answer: (String, i64) = ::redis::cmd("PUBSUB")
        .arg("NUMSUB")
        .arg(topic.to_string())
        .query_async(&mut connection)
        .await
        .unwrap();
    answer.1
}

#[tokio::test]
async fn redis_hears_once_per_process_and_topic() {
    let server = PrivateRedis::start().unwrap();
    let fanout = connect(&server.url(), &with_key()).await.unwrap();
    let first = fanout.subscribe(RUN).await.unwrap();
    let second = fanout.subscribe(RUN).await.unwrap();
    assert_eq!(subscribers_at_the_broker(&server, RUN).await, 1);
    drop(first);
    assert_eq!(subscribers_at_the_broker(&server, RUN).await, 1);
    drop(second);
    eventually("unsubscribing", async || match subscribers_at_the_broker(&server, RUN).await {
        0 => Ok(()),
        n => Err(n),
    })
    .await;
}

#[tokio::test]
async fn redis_listeners_are_told_after_an_outage_and_hear_again() {
    let mut server = PrivateRedis::start().unwrap();
    let fanout = connect(&server.url(), &with_key()).await.unwrap();
    let mut listener = fanout.subscribe(RUN).await.unwrap();
    fanout.publish(vec![(RUN, message(1))]).await.unwrap();
    assert_eq!(next(&mut listener).await, Signal::Message(message(1)));

    server.stop();
    eventually("noticing", async || match fanout.ping().await {
        Ok(()) => Err("still there"),
        Err(_) => Ok(()),
    })
    .await;
    let before = Instant::now();
    for _ in 0..20 {
        fanout.publish(vec![(RUN, message(2))]).await.unwrap_err();
        assert!(fanout.subscribe(OTHER).await.is_err());
    }
    assert!(before.elapsed() < Duration::from_secs(2), "calls wait for a Redis that is away");

    server.start_again().unwrap();
    assert_eq!(next(&mut listener).await, Signal::Missed);
    eventually("publishing again", async || fanout.publish(vec![(RUN, message(3))]).await).await;
    assert_eq!(next(&mut listener).await, Signal::Message(message(3)));
    let mut late = eventually("subscribing again", async || fanout.subscribe(OTHER).await).await;
    fanout.publish(vec![(OTHER, message(4))]).await.unwrap();
    assert_eq!(next(&mut late).await, Signal::Message(message(4)));
}

#[tokio::test]
async fn redis_may_come_later() {
    let mut server = PrivateRedis::reserve().unwrap();
    let fanout = connect(&server.url(), &with_key()).await.unwrap();
    assert!(fanout.ping().await.is_err());
    assert!(fanout.subscribe(RUN).await.is_err());
    server.start_again().unwrap();
    let mut listener = eventually("subscribing", async || fanout.subscribe(RUN).await).await;
    eventually("publishing", async || fanout.publish(vec![(RUN, message(1))]).await).await;
    assert_eq!(next(&mut listener).await, Signal::Message(message(1)));
}

#[tokio::test]
async fn a_url_that_names_no_single_redis_is_refused() {
    for (url, said) in [
        ("nonsense", "expected redis://"),
        ("redis-cluster://a:6379,b:6379", "a Redis Cluster cannot be used"),
        ("rediss-cluster://a:6379", "a Redis Cluster cannot be used"),
    ] {
        let error = connect(url, &ConnectOptions::default()).await.err().unwrap();
        assert!(error.to_string().contains(said), "{error}");
    }
}

/// Somebody without our key publishes; what is heard then is ours alone.
#[tokio::test]
async fn redis_strangers_are_not_heard() {
    let server = PrivateRedis::start().unwrap();
    let ours = connect(&server.url(), &with_key()).await.unwrap();
    let other = connect(&server.url(), &with_key()).await.unwrap();
    let open = connect(&server.url(), &ConnectOptions::default()).await.unwrap();
    let mut listener = ours.subscribe(RUN).await.unwrap();
    let mut wakes = ours.subscribe(Topic::Wake).await.unwrap();
    let mut without_key = open.subscribe(RUN).await.unwrap();
    for stranger in [&open, &other] {
        for forged in [message(1), Bytes::new(), Bytes::from(vec![0; 32]), Bytes::from(vec![0; 100])] {
            stranger.publish(vec![(RUN, forged.clone()), (Topic::Wake, forged)]).await.unwrap();
        }
    }
    ours.publish(vec![(RUN, message(2)), (Topic::Wake, Bytes::new())]).await.unwrap();
    assert_eq!(next(&mut listener).await, Signal::Message(message(2)));
    assert_eq!(next(&mut wakes).await, Signal::Message(Bytes::new()));
    assert_eq!(ours.dropped(), 16);
    // Who has no key uses nothing of what anybody says.
    for _ in 0..9 {
        assert_eq!(next(&mut without_key).await, Signal::Missed);
    }
}
