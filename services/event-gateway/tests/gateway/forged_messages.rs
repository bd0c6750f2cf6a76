//! Whoever can write to Redis can delay a watcher, and never tell it anything.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::common::{Log, SOON, store};
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;
use tree_agent_event_gateway::{Config, serve};
use tree_agent_fanout::{ConnectOptions, Fanout, Topic, connect};
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::run_service_client::RunServiceClient;
use tree_agent_proto::v1::watch_run_response::Message;
use tree_agent_proto::{Wire, v1};
use tree_agent_runtime::channel::single;
use tree_agent_security::SharedSecrets;
use tree_agent_store::Store;
use tree_agent_testkit::services::PrivateRedis;

const FORGED: &str = "forged";

/// What an attacker may publish for a run whose log ends at `head`.
fn forgeries(log: &Log) -> Vec<Bytes> {
    let next = log.head + 1;
    let other = Log::forgery(log, [next], FORGED);
    let other_run = uuid::Uuid::from_u128(7).to_string();
    let other = {
        let text = log.run.to_string();
        let at = other.windows(text.len()).position(|part| part == text.as_bytes()).unwrap();
        let mut bytes = other.to_vec();
        bytes[at..at + text.len()].copy_from_slice(other_run.as_bytes());
        Bytes::from(bytes)
    };
    vec![
        // Well-formed, for this run, and just what comes next.
        log.forgery([next], FORGED),
        log.forgery([next, next + 1, next + 2], FORGED),
        // Behind a gap, out of order, the past once more, the end of numbers.
        log.forgery([next + 5], FORGED),
        log.forgery([next + 1, next], FORGED),
        log.forgery([1, 2], FORGED),
        log.forgery([u64::MAX], FORGED),
        log.forgery([0], FORGED),
        // Another run's, and no events at all.
        other,
        Bytes::from_static(b"\xff\xff\xff"),
        Bytes::new(),
    ]
}

/// The events that a watcher of `run` from its beginning gets until `last`, after `live` has been sent when it has
/// caught up.
async fn watch(address: SocketAddr, log: &mut Log, forge: impl AsyncFn(Bytes)) -> Vec<pb::Event> {
    let mut runs = RunServiceClient::new(single(format!("http://{address}").parse().unwrap()));
    let request = v1::WatchRunRequest { run_id: log.run.to_wire(), ..Default::default() };
    let mut stream = runs.watch_run(request).await.unwrap().into_inner();
    let (mut events, mut rounds) = (Vec::new(), 0);
    loop {
        let message = tokio::time::timeout(SOON, stream.message()).await.expect("in time").unwrap();
        match message.expect("the run has not ended").message.unwrap() {
            Message::Event(event) => events.push(event),
            Message::CaughtUp(_) => {}
            other => panic!("unexpected {other:?}"),
        }
        if events.last().is_some_and(|event: &pb::Event| event.seq >= log.head) {
            if rounds == 3 {
                return events;
            }
            rounds += 1;
            for forgery in forgeries(log) {
                forge(forgery).await;
            }
            log.append(2, 10).await;
        }
    }
}

/// The log of `run` as a watcher must see it.
async fn truth(store: &Arc<dyn Store>, log: &Log) -> Vec<pb::Event> {
    let events = store.read(log.run, 0, 1_000).await.unwrap();
    events.iter().map(Wire::to_wire).collect()
}

/// The counters of dropped messages by their reason, and how often the log was read for all watchers.
async fn counted(address: SocketAddr) -> impl Fn(&str) -> f64 {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    move |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }
}

fn dropped(reason: &str) -> String {
    format!("tree_agent_fanout_dropped_messages_total{{reason=\"{reason}\"}}")
}

/// A gateway and a driver over the Redis at `url`, with `key`; an attacker without. Returns the counters.
async fn attack(url: &str, key: Option<SharedSecrets>) -> impl Fn(&str) -> f64 + use<> {
    let ours = ConnectOptions { key, ..ConnectOptions::default() };
    let fanout: Arc<dyn Fanout> = connect(url, &ours).await.unwrap();
    let attacker = connect(url, &ConnectOptions::default()).await.unwrap();
    let store = store().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    tokio::spawn(serve(Config::default(), store.clone(), fanout.clone(), listener, stop));
    let mut runs = RunServiceClient::new(single(format!("http://{address}").parse().unwrap()));
    let request = pb::CreateRunRequest { objective: "x".into(), ..Default::default() };
    let run = runs.create_run(request).await.unwrap().into_inner().run.unwrap();
    let mut log = Log::claim(store.clone(), fanout, run.run_id.parse().unwrap()).await;
    log.append(2, 10).await;
    let topic = Topic::Run(log.run);
    let seen = watch(address, &mut log, async |message| {
        attacker.publish(vec![(topic, message)]).await.unwrap();
    })
    .await;
    assert_eq!(seen, truth(&store, &log).await);
    assert!(!format!("{seen:?}").contains(FORGED));
    counted(address).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_key_every_forged_message_is_dropped_and_counted() {
    let redis = PrivateRedis::start().unwrap();
    let counted = attack(&redis.url(), Some(SharedSecrets::random())).await;
    assert!(counted(&dropped("unsigned")) >= 10.0, "of one round at least");
    assert_eq!(counted(&dropped("unfit")), 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_key_nothing_is_seen_that_is_not_in_the_log() {
    let redis = PrivateRedis::start().unwrap();
    let counted = attack(&redis.url(), None).await;
    assert_eq!((counted(&dropped("unsigned")), counted(&dropped("unfit"))), (0.0, 0.0));
}
