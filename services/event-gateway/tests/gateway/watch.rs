//! What `WatchRun` promises: every event after `after_seq`, once, in order, through any failure behind the gateway.

use std::time::Duration;

use crate::common::{Gateway, Log, Mode, SOON};
use tonic::Streaming;
use tree_agent_contract::NodeId;
use tree_agent_contract::event::{Event, Opaque};
use tree_agent_event_gateway::{Config, WatchConfig};
use tree_agent_fanout::Topic;
use tree_agent_proto::Wire;
use tree_agent_proto::v1::watch_run_response::Message;
use tree_agent_proto::v1::{GetGraphRequest, ListEventsRequest, WatchRunRequest, WatchRunResponse};

fn config() -> Config {
    let watch = WatchConfig { head_check: Duration::from_millis(100), ..WatchConfig::default() };
    Config { watch, ..Config::default() }
}

fn from(run: &str, after_seq: u64) -> WatchRunRequest {
    WatchRunRequest { run_id: run.into(), after_seq, ..Default::default() }
}

async fn watch(gateway: &Gateway, request: WatchRunRequest) -> Streaming<WatchRunResponse> {
    gateway.runs().watch_run(request).await.unwrap().into_inner()
}

async fn next(stream: &mut Streaming<WatchRunResponse>) -> Option<Message> {
    let message = tokio::time::timeout(SOON, stream.message()).await.expect("something is said");
    message.unwrap().map(|m| m.message.expect("a message is set"))
}

/// Everything that a stream said until it ended well.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    events: Vec<u64>,
    caught_up: Vec<u64>,
    hint: Option<(u64, String)>,
}

async fn read(stream: &mut Streaming<WatchRunResponse>) -> Seen {
    let mut seen = Seen::default();
    while let Some(message) = next(stream).await {
        match message {
            Message::Event(event) => seen.events.push(event.seq),
            Message::CaughtUp(caught_up) => {
                assert_eq!(seen.events.last().copied().unwrap_or(caught_up.seq), caught_up.seq);
                seen.caught_up.push(caught_up.seq);
            }
            Message::ResumeHint(hint) => seen.hint = Some((hint.after_seq, hint.reason)),
            Message::Heartbeat(_) => {}
            Message::Snapshot(_) => panic!("no snapshot was asked for"),
        }
    }
    seen
}

/// Starts watchers at different moments while a driver appends, and checks that each sees every event once.
async fn racing(mode: Mode, watchers: usize) {
    let gateway = Gateway::with(mode, config()).await;
    let run = gateway.create_run("race").await;
    let mut log = gateway.drive(&run).await;
    let after = log.head;
    let mut tasks = Vec::new();
    for i in 0..watchers {
        log.append(1 + (i as u64 * 7) % 5, 20).await;
        let begin = if i % 3 == 0 { 0 } else { after };
        let mut stream = watch(&gateway, from(&run.run_id, begin)).await;
        tasks.push((begin, tokio::spawn(async move { read(&mut stream).await })));
    }
    for _ in 0..50 {
        log.append(3, 20).await;
    }
    log.finish().await;
    for (begin, task) in tasks {
        let seen = task.await.unwrap();
        assert_eq!(seen.events, (begin + 1..=log.head).collect::<Vec<_>>(), "{mode:?}");
        assert_eq!((seen.caught_up.len(), seen.hint), (1, None), "{mode:?}");
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_watchers_racing_with_appends_see_every_event_once() {
    racing(Mode::Faithful, 60).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_doubled_and_reordered_messages_change_nothing() {
    for mode in [Mode::Lossy, Mode::Doubled, Mode::Reordered] {
        racing(mode, 12).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deaf_or_absent_broker_is_bridged_by_the_log() {
    for mode in [Mode::Deaf, Mode::Down] {
        racing(mode, 12).await;
    }
}

#[tokio::test]
async fn a_broker_that_comes_back_is_used_again() {
    let gateway = Gateway::with(Mode::Down, config()).await;
    let run = gateway.create_run("comes back").await;
    let mut log = gateway.drive(&run).await;
    let mut stream = watch(&gateway, from(&run.run_id, log.head)).await;
    assert!(matches!(next(&mut stream).await, Some(Message::CaughtUp(_))));
    log.append(1, 1).await;
    assert!(matches!(next(&mut stream).await, Some(Message::Event(_))));
    gateway.fanout.set(Mode::Faithful);
    let topic = Topic::Run(log.run);
    let subscribed = async {
        while gateway.fanout.listeners(topic) == 0 {
            log.append(1, 1).await;
            assert!(matches!(next(&mut stream).await, Some(Message::Event(_))));
        }
    };
    tokio::time::timeout(SOON, subscribed).await.expect("subscribes again");
    gateway.stop().await;
}

#[tokio::test]
async fn a_slow_reader_falls_back_to_the_log_and_loses_nothing() {
    let watch_config = WatchConfig { window_events: 8, ..config().watch };
    let gateway = Gateway::start(Config { watch: watch_config, ..config() }).await;
    let run = gateway.create_run("slow").await;
    let mut log = gateway.drive(&run).await;
    let mut slow = watch(&gateway, from(&run.run_id, 0)).await;
    let mut quick = watch(&gateway, from(&run.run_id, 0)).await;
    assert!(next(&mut slow).await.is_some());
    // More than the windows of HTTP/2 hold, while the slow one does not read at all.
    for _ in 0..300 {
        log.append(1, 10_000).await;
    }
    log.finish().await;
    assert_eq!(read(&mut quick).await.events, (1..=log.head).collect::<Vec<_>>());
    let seen = read(&mut slow).await;
    assert_eq!(seen.events, (2..=log.head).collect::<Vec<_>>());
    assert_eq!(seen.caught_up.len(), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_finished_run_is_told_to_its_end_and_an_empty_tail_is_caught_up() {
    let gateway = Gateway::start(config()).await;
    let run = gateway.create_run("done").await;
    let mut log = gateway.drive(&run).await;
    log.append(5, 1).await;
    log.finish().await;
    let mut stream = watch(&gateway, from(&run.run_id, 3)).await;
    let all = Seen { events: (4..=log.head).collect(), caught_up: vec![log.head], hint: None };
    assert_eq!(read(&mut stream).await, all);
    let mut stream = watch(&gateway, from(&run.run_id, log.head)).await;
    assert_eq!(read(&mut stream).await, Seen { events: vec![], caught_up: vec![log.head], hint: None });
    gateway.stop().await;
}

#[tokio::test]
async fn silence_is_broken_by_heartbeats_with_the_head() {
    let watch_config = WatchConfig { heartbeat: Duration::from_millis(50), ..config().watch };
    let gateway = Gateway::start(Config { watch: watch_config, ..config() }).await;
    let run = gateway.create_run("quiet").await;
    let mut stream = watch(&gateway, from(&run.run_id, run.head_seq)).await;
    assert!(matches!(next(&mut stream).await, Some(Message::CaughtUp(_))));
    for _ in 0..2 {
        match next(&mut stream).await {
            Some(Message::Heartbeat(heartbeat)) => assert_eq!(heartbeat.head_seq, run.head_seq),
            other => panic!("expected a heartbeat, got {other:?}"),
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_draining_gateway_says_where_to_resume_and_another_goes_on_from_there() {
    let first = Gateway::start(config()).await;
    let run = first.create_run("moves").await;
    let mut log = first.drive(&run).await;
    log.append(10, 1).await;
    let mut stream = watch(&first, from(&run.run_id, 0)).await;
    for seq in 1..=5 {
        assert!(matches!(next(&mut stream).await, Some(Message::Event(e)) if e.seq == seq));
    }
    let (store, fanout) = (first.store.clone(), first.fanout.clone());
    first.shutdown.cancel();
    let seen = read(&mut stream).await;
    let (after_seq, reason) = seen.hint.expect("a resume hint");
    assert_eq!(reason, "drain");
    assert_eq!(seen.events, (6..=after_seq).collect::<Vec<_>>());
    first.stop().await;

    let second = Gateway::over(store, fanout, config()).await;
    let mut stream = watch(&second, from(&run.run_id, after_seq)).await;
    log.append(3, 1).await;
    log.finish().await;
    assert_eq!(read(&mut stream).await.events, (after_seq + 1..=log.head).collect::<Vec<_>>());
    second.stop().await;
}

#[tokio::test]
async fn an_old_stream_is_closed_with_a_resume_hint() {
    let watch_config = WatchConfig { stream_age: Duration::from_millis(100), ..config().watch };
    let gateway = Gateway::start(Config { watch: watch_config, ..config() }).await;
    let run = gateway.create_run("old").await;
    let mut stream = watch(&gateway, from(&run.run_id, 0)).await;
    let seen = read(&mut stream).await;
    assert_eq!(seen.hint, Some((run.head_seq, "age".into())));
    assert_eq!(seen.events.len() as u64, run.head_seq);
    gateway.stop().await;
}

#[tokio::test]
async fn a_late_joiner_gets_the_graph_and_the_events_after_it() {
    let gateway = Gateway::start(config()).await;
    let run = gateway.create_run("late").await;
    let mut log = gateway.drive(&run).await;
    log.append(4, 1).await;
    let request = WatchRunRequest { run_id: run.run_id.clone(), snapshot: true, ..Default::default() };
    let mut stream = watch(&gateway, request).await;
    match next(&mut stream).await {
        Some(Message::Snapshot(graph)) => {
            assert_eq!((graph.seq, graph.nodes.len()), (log.head, 1));
            assert_eq!(graph.nodes[0].id, run.root_node_id);
        }
        other => panic!("expected a snapshot, got {other:?}"),
    }
    let head = log.head;
    log.append(2, 1).await;
    log.finish().await;
    let seen = read(&mut stream).await;
    assert_eq!(seen, Seen { events: (head + 1..=log.head).collect(), caught_up: vec![head], hint: None });
    gateway.stop().await;
}

#[tokio::test]
async fn a_stream_can_be_of_some_types_and_says_how_far_it_has_looked() {
    let gateway = Gateway::start(config()).await;
    let run = gateway.create_run("types").await;
    let mut log = gateway.drive(&run).await;
    log.append(1_200, 1).await;
    let filtered = |after_seq, types: &[&str]| WatchRunRequest {
        types: types.iter().map(|&name| name.to_owned()).collect(),
        ..from(&run.run_id, after_seq)
    };
    let mut stream = watch(&gateway, filtered(0, &["tree.run_created", "tree.run_status"])).await;
    let (mut events, mut looked_at) = (Vec::new(), Vec::new());
    let mut finished = false;
    while let Some(message) = next(&mut stream).await {
        match message {
            Message::Event(event) => events.push(event.seq),
            Message::Heartbeat(beat) => {
                assert!(beat.seq <= beat.head_seq, "{beat:?}");
                looked_at.push(beat.seq);
            }
            Message::CaughtUp(mark) => {
                assert_eq!(mark.seq, log.head);
                if !std::mem::replace(&mut finished, true) {
                    log.finish().await;
                }
            }
            other => panic!("unexpected {other:?}"),
        }
    }
    let first = *events.iter().rfind(|seq| **seq <= run.head_seq).unwrap();
    assert_eq!(events.last(), Some(&log.head));
    assert!(looked_at.contains(&(first + 500)) && looked_at.contains(&(first + 1_000)), "{looked_at:?}");
    // When the last event does not pass, the stream says that it has come to it.
    let mut stream = watch(&gateway, filtered(log.head - 1, &["tree.node_created"])).await;
    match next(&mut stream).await {
        Some(Message::Heartbeat(beat)) => assert_eq!((beat.seq, beat.head_seq), (log.head, log.head)),
        other => panic!("expected a heartbeat, got {other:?}"),
    }
    assert!(matches!(next(&mut stream).await, Some(Message::CaughtUp(mark)) if mark.seq == log.head));
    assert!(next(&mut stream).await.is_none());
    for (request, name) in [
        (filtered(0, &["tree.run_status", "tree.nope"]), "types[1]"),
        (filtered(0, &["tree.run_status"; 65]), "types"),
        (WatchRunRequest { node_id: "nonsense".into(), ..from(&run.run_id, 0) }, "node_id"),
        (WatchRunRequest { node_id: uuid::Uuid::nil().to_string(), ..from(&run.run_id, 0) }, "node_id"),
    ] {
        let refused = gateway.runs().watch_run(request).await.unwrap_err();
        assert_eq!(crate::common::field(&refused), name, "{refused:?}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn one_subscription_per_run_however_many_watch_and_none_when_they_have_gone() {
    let watch_config = WatchConfig { linger: Duration::from_millis(50), ..config().watch };
    let gateway = Gateway::start(Config { watch: watch_config, ..config() }).await;
    let run = gateway.create_run("popular").await;
    let topic = Topic::Run(run.run_id.parse().unwrap());
    let mut streams = Vec::new();
    for _ in 0..10 {
        streams.push(watch(&gateway, from(&run.run_id, 0)).await);
    }
    let mut log: Log = gateway.drive(&run).await;
    log.append(1, 1).await;
    for stream in &mut streams {
        loop {
            match next(stream).await {
                Some(Message::Event(event)) if event.seq == log.head => break,
                Some(_) => {}
                None => panic!("the stream ended"),
            }
        }
    }
    assert_eq!(gateway.fanout.subscribed.load(std::sync::atomic::Ordering::SeqCst), 1);
    drop(streams);
    let gone = async {
        while gateway.fanout.listeners(topic) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, gone).await.expect("the run is no longer followed");
    gateway.stop().await;
}

#[tokio::test]
async fn a_stream_whose_client_takes_nothing_is_given_up_and_resumed() {
    let watch_config = WatchConfig {
        stall: Duration::from_millis(200),
        linger: Duration::from_millis(50),
        window_events: 8,
        ..config().watch
    };
    let gateway = Gateway::start(Config { watch: watch_config, ..config() }).await;
    let run = gateway.create_run("stalled").await;
    let topic = Topic::Run(run.run_id.parse().unwrap());
    let mut log = gateway.drive(&run).await;
    let mut stalled = watch(&gateway, from(&run.run_id, 0)).await;
    assert!(matches!(next(&mut stalled).await, Some(Message::Event(_))));
    // More than the windows of HTTP/2 hold.
    for _ in 0..300 {
        log.append(1, 10_000).await;
    }
    // Nobody watches any more, as far as the gateway is concerned: it keeps nothing for this client.
    let given_up = async {
        while gateway.fanout.listeners(topic) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, given_up).await.expect("the stream is given up");
    let seen = read(&mut stalled).await;
    let (after_seq, reason) = seen.hint.expect("a resume hint");
    assert_eq!((reason.as_str(), seen.events), ("stalled", (2..=after_seq).collect::<Vec<_>>()));
    assert!(after_seq < log.head, "{after_seq} of {}", log.head);
    // One that waits for events is not taken for stalled, however long it waits.
    let mut waiting = watch(&gateway, from(&run.run_id, after_seq)).await;
    for seq in after_seq + 1..=log.head {
        loop {
            match next(&mut waiting).await {
                Some(Message::Event(event)) => break assert_eq!(event.seq, seq),
                Some(Message::CaughtUp(_) | Message::Heartbeat(_)) => {}
                other => panic!("expected event {seq}, got {other:?}"),
            }
        }
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    log.append(1, 1).await;
    log.finish().await;
    let seen = read(&mut waiting).await;
    assert_eq!((seen.events.len(), seen.hint), (2, None));
    gateway.stop().await;
}

#[tokio::test]
async fn events_of_a_newer_version_reach_every_reader() {
    let gateway = Gateway::with(Mode::Faithful, config()).await;
    let run = gateway.create_run("future").await;
    let mut log = gateway.drive(&run).await;
    let mut live = watch(&gateway, from(&run.run_id, log.head)).await;
    assert!(matches!(next(&mut live).await, Some(Message::CaughtUp(_))));
    log.append(1, 10).await;
    let future = log.head + 1;
    let payload = serde_json::json!({"x": [1, null]});
    let body = Opaque::new("tree.from_the_future", payload.as_object().unwrap().clone());
    // About a node that nobody here has heard of.
    let unknown = NodeId(uuid::Uuid::from_u128(77));
    log.record(vec![(unknown, None, body.clone().into())], Default::default(), vec![]).await;
    log.append(1, 10).await;
    log.finish().await;
    let all: Vec<u64> = (1..=log.head).collect();
    assert_eq!(read(&mut live).await.events, all[4..]);
    let mut replayed = watch(&gateway, from(&run.run_id, 0)).await;
    let mut bodies = Vec::new();
    while let Some(message) = next(&mut replayed).await {
        if let Message::Event(event) = message {
            bodies.push(Event::from_wire(event).unwrap());
        }
    }
    assert_eq!(bodies.iter().map(|event| event.seq).collect::<Vec<_>>(), all);
    assert_eq!(bodies[future as usize - 1].body, body.into());
    let types = vec!["tree.run_status".to_owned()];
    let mut filtered = watch(&gateway, WatchRunRequest { types, ..from(&run.run_id, 0) }).await;
    assert_eq!(read(&mut filtered).await.events, [2, log.head]);
    let request =
        ListEventsRequest { run_id: run.run_id.clone(), after_seq: future - 1, ..Default::default() };
    let page = gateway.runs().list_events(request).await.unwrap().into_inner();
    assert_eq!(page.events[0].r#type, "tree.from_the_future");
    assert_eq!(page.events.iter().map(|e| e.seq).collect::<Vec<_>>(), all[future as usize - 1..]);
    let request = GetGraphRequest { run_id: run.run_id.clone(), ..Default::default() };
    let graph = gateway.runs().get_graph(request).await.unwrap().into_inner().graph.unwrap();
    assert_eq!((graph.seq, graph.nodes.len()), (log.head, 1));
    gateway.stop().await;
}
