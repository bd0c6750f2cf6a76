//! Lists of runs: what filters find, what deleting hides, and what `WatchRuns` promises.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::common::{Gateway, Mode, SOON, field};
use tonic::{Code, Streaming};
use tree_agent_event_gateway::{Config, WatchConfig};
use tree_agent_proto::v1::watch_runs_response::Message;
use tree_agent_proto::v1::*;

fn config() -> Config {
    let watch = WatchConfig {
        list_check: Duration::from_millis(50),
        linger: Duration::from_millis(50),
        ..WatchConfig::default()
    };
    Config { watch, ..Config::default() }
}

fn labelled(objective: &str, labels: &[(&str, &str)]) -> CreateRunRequest {
    let labels = labels.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
    CreateRunRequest {
        objective: objective.into(),
        display_name: format!("The {objective}"),
        labels: labels.collect(),
        ..Default::default()
    }
}

async fn create(gateway: &Gateway, request: CreateRunRequest) -> Run {
    gateway.runs().create_run(request).await.unwrap().into_inner().run.unwrap()
}

async fn objectives(gateway: &Gateway, request: ListRunsRequest) -> Vec<String> {
    let listed = gateway.runs().list_runs(request).await.unwrap().into_inner().runs;
    listed.into_iter().map(|run| run.objective).collect()
}

#[tokio::test]
async fn labels_and_a_display_name_are_fixed_with_the_run_and_found_again() {
    let gateway = Gateway::start(Config::default()).await;
    let one = create(&gateway, labelled("one", &[("env", "prod"), ("team", "x")])).await;
    create(&gateway, CreateRunRequest { model: "offline".into(), ..labelled("two", &[("env", "test")]) })
        .await;
    gateway.create_run("three").await;
    assert_eq!(one.display_name, "The one");
    assert_eq!(one.labels, BTreeMap::from([("env".into(), "prod".into()), ("team".into(), "x".into())]));
    assert_eq!((&one.started_at, &one.ended_at), (&None, &None));
    let events = ListEventsRequest { run_id: one.run_id.clone(), page_size: 1, ..Default::default() };
    let first = gateway.runs().list_events(events).await.unwrap().into_inner().events.remove(0);
    match first.body {
        Some(event::Body::RunCreated(created)) => {
            assert_eq!(
                (created.display_name, created.labels),
                (one.display_name.clone(), one.labels.clone())
            );
        }
        other => panic!("expected the first event, got {other:?}"),
    }
    let labels = |labels: &[&str]| ListRunsRequest {
        labels: labels.iter().map(|&label| label.to_owned()).collect(),
        ..Default::default()
    };
    assert_eq!(objectives(&gateway, labels(&["env"])).await, ["two", "one"]);
    assert_eq!(objectives(&gateway, labels(&["env=prod", "team"])).await, ["one"]);
    let id = one.run_id.clone();
    for (request, expected) in [
        (ListRunsRequest { model: "offline".into(), ..Default::default() }, vec!["two"]),
        (ListRunsRequest { id_part: id[..30].to_uppercase(), ..Default::default() }, vec!["one"]),
        (ListRunsRequest { id_part: id[24..].into(), ..Default::default() }, vec!["one"]),
        (ListRunsRequest { created_before: one.created_at, ..Default::default() }, vec![]),
        (
            ListRunsRequest { created_after: one.created_at, page_size: 9, ..Default::default() },
            vec!["three", "two", "one"],
        ),
        (ListRunsRequest { strategies: vec![Strategy::Search as i32], ..Default::default() }, vec![]),
        (ListRunsRequest { user_id: "ann".into(), ..Default::default() }, vec![]),
    ] {
        assert_eq!(objectives(&gateway, request.clone()).await, expected, "{request:?}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn wrong_labels_names_and_filters_are_refused_with_their_field() {
    let gateway = Gateway::start(Config::default()).await;
    let many: Vec<(String, String)> = (0..33).map(|n| (format!("k{n}"), String::new())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    for (request, name) in [
        (labelled("x", &[("Env", "prod")]), "labels[\"Env\"]"),
        (labelled("x", &[("env", "two words")]), "labels[\"env\"]"),
        (labelled("x", &many), "labels"),
        (CreateRunRequest { display_name: "two\nlines".into(), ..labelled("x", &[]) }, "display_name"),
        (CreateRunRequest { display_name: "n".repeat(257), ..labelled("x", &[]) }, "display_name"),
        (CreateRunRequest { display_name: "a\u{202e}b".into(), ..labelled("x", &[]) }, "display_name"),
        (CreateRunRequest { display_name: "a\u{202e}b".into(), ..labelled("x", &[]) }, "display_name"),
        (CreateRunRequest { display_name: "\u{a0}".into(), ..labelled("x", &[]) }, "display_name"),
    ] {
        let refused = gateway.runs().create_run(request).await.unwrap_err();
        assert_eq!((refused.code(), field(&refused)), (Code::InvalidArgument, name.into()));
    }
    let time = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
    for (request, name) in [
        (ListRunsRequest { labels: vec!["env".into(), "=x".into()], ..Default::default() }, "labels[1]"),
        (ListRunsRequest { labels: vec!["k".into(); 33], ..Default::default() }, "labels"),
        (ListRunsRequest { id_part: "xyz".into(), ..Default::default() }, "id_part"),
        (ListRunsRequest { strategies: vec![9], ..Default::default() }, "strategies[0]"),
        (ListRunsRequest { statuses: vec![1; 65], ..Default::default() }, "statuses"),
        (ListRunsRequest { created_after: time(i64::MAX), ..Default::default() }, "created_after"),
        (ListRunsRequest { user_id: "u".repeat(257), ..Default::default() }, "user_id"),
    ] {
        let refused = gateway.runs().list_runs(request).await.unwrap_err();
        assert_eq!((refused.code(), field(&refused)), (Code::InvalidArgument, name.into()));
    }
    // A size that is too large is lowered.
    gateway.create_run("one").await;
    let all = ListRunsRequest { page_size: u32::MAX, ..Default::default() };
    assert_eq!(objectives(&gateway, all).await, ["one"]);
    gateway.stop().await;
}

#[tokio::test]
async fn a_deleted_run_is_gone_for_every_call() {
    let gateway = Gateway::start(Config::default()).await;
    let mut runs = gateway.runs();
    let request = CreateRunRequest { request_id: "r".into(), ..labelled("gone", &[]) };
    let run = create(&gateway, request.clone()).await;
    let delete = || DeleteRunRequest { run_id: run.run_id.clone() };
    let live = runs.delete_run(delete()).await.unwrap_err();
    assert_eq!((live.code(), field(&live)), (Code::FailedPrecondition, "run_id".into()));
    let mut log = gateway.drive(&run).await;
    log.scribble("text").await;
    log.finish().await;
    runs.delete_run(delete()).await.unwrap();
    runs.delete_run(delete()).await.expect("deleting it again changes nothing");
    let run_id = run.run_id.clone();
    let missing = [
        runs.get_run(GetRunRequest { run_id: run_id.clone() }).await.unwrap_err(),
        runs.get_result(GetResultRequest { run_id: run_id.clone() }).await.unwrap_err(),
        runs.get_graph(GetGraphRequest { run_id: run_id.clone(), at_seq: None }).await.unwrap_err(),
        runs.list_events(ListEventsRequest { run_id: run_id.clone(), ..Default::default() })
            .await
            .unwrap_err(),
        runs.watch_run(WatchRunRequest { run_id: run_id.clone(), ..Default::default() }).await.unwrap_err(),
        runs.cancel_run(CancelRunRequest { run_id: run_id.clone(), reason: String::new() })
            .await
            .unwrap_err(),
        gateway
            .documents()
            .get_document(GetDocumentRequest { document_id: log.pad().to_string(), ..Default::default() })
            .await
            .unwrap_err(),
        gateway
            .documents()
            .list_documents(ListDocumentsRequest { run_id, ..Default::default() })
            .await
            .unwrap_err(),
    ];
    for status in missing {
        assert_eq!(status.code(), Code::NotFound, "{status:?}");
    }
    assert!(objectives(&gateway, ListRunsRequest::default()).await.is_empty());
    let again = runs.create_run(request).await.unwrap_err();
    assert_eq!((again.code(), field(&again)), (Code::AlreadyExists, "request_id".into()));
    gateway.stop().await;
}

type Changes = Streaming<WatchRunsResponse>;

async fn watch(gateway: &Gateway, request: WatchRunsRequest) -> Changes {
    gateway.runs().watch_runs(request).await.unwrap().into_inner()
}

/// The next message that is no heartbeat.
async fn next(stream: &mut Changes) -> Message {
    loop {
        let message = tokio::time::timeout(SOON, stream.message()).await.expect("something is said");
        match message.unwrap().expect("the stream goes on").message.expect("a message is set") {
            Message::Heartbeat(_) => {}
            message => return message,
        }
    }
}

/// Everything up to the mark that the stream has caught up, as words, and its token.
async fn caught_up(stream: &mut Changes) -> (Vec<String>, String) {
    let mut said = Vec::new();
    loop {
        match next(stream).await {
            Message::CaughtUp(mark) => return (said, mark.resume_token),
            message => said.push(word(&message)),
        }
    }
}

fn word(message: &Message) -> String {
    match message {
        Message::Added(run) => format!("added {} {:?}", run.objective, run.status()),
        Message::Changed(run) => format!("changed {} {:?}", run.objective, run.status()),
        Message::Removed(run) => format!("removed {}", run.run_id),
        other => format!("{other:?}"),
    }
}

/// Reads until `expected` was said.
async fn until(stream: &mut Changes, expected: &str) {
    loop {
        let said = word(&next(stream).await);
        if said == expected {
            return;
        }
        assert!(!said.starts_with("Resume"), "the stream ended before {expected:?} was said");
    }
}

#[tokio::test]
async fn a_watcher_of_the_list_sees_runs_come_change_and_go() {
    // Nothing is heard over fan-out: the store alone tells.
    let gateway = Gateway::with(Mode::Deaf, config()).await;
    let first = gateway.create_run("first").await;
    let mut all = watch(&gateway, WatchRunsRequest::default()).await;
    let queued = vec![RunStatus::Queued as i32];
    let mut queued = watch(&gateway, WatchRunsRequest { statuses: queued, ..Default::default() }).await;
    for stream in [&mut all, &mut queued] {
        assert_eq!(caught_up(stream).await.0, ["added first Queued"]);
    }
    gateway.create_run("second").await;
    until(&mut all, "added second Queued").await;
    until(&mut queued, "added second Queued").await;
    let mut log = gateway.drive(&first).await;
    log.append(1, 1).await;
    until(&mut all, "changed first Queued").await;
    log.finish().await;
    until(&mut all, "changed first Completed").await;
    until(&mut queued, &format!("removed {}", first.run_id)).await;
    gateway.runs().delete_run(DeleteRunRequest { run_id: first.run_id.clone() }).await.unwrap();
    until(&mut all, &format!("removed {}", first.run_id)).await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_watcher_of_the_list_resumes_with_what_it_missed() {
    let gateway = Gateway::start(config()).await;
    gateway.create_run("kept").await;
    let gone = gateway.create_run("gone").await;
    let request = WatchRunsRequest { objective_contains: "e".into(), ..Default::default() };
    let mut stream = watch(&gateway, request.clone()).await;
    let (said, resume_token) = caught_up(&mut stream).await;
    assert_eq!(said, ["added gone Queued", "added kept Queued"]);
    drop(stream);
    gateway.drive(&gone).await.finish().await;
    gateway.runs().delete_run(DeleteRunRequest { run_id: gone.run_id.clone() }).await.unwrap();
    gateway.create_run("new").await;
    let resumed = WatchRunsRequest { resume_token: resume_token.clone(), ..request.clone() };
    let mut stream = watch(&gateway, resumed).await;
    let (said, _) = caught_up(&mut stream).await;
    let removed = format!("removed {}", gone.run_id);
    for expected in ["added new Queued", "changed kept Queued", removed.as_str()] {
        assert!(said.iter().any(|said| said == expected), "{expected} is missing: {said:?}");
    }
    // A token is good for its own filters only.
    for request in [
        WatchRunsRequest { resume_token: resume_token.clone(), ..Default::default() },
        WatchRunsRequest { resume_token: "nonsense".into(), ..request },
    ] {
        let refused = gateway.runs().watch_runs(request).await.unwrap_err();
        assert_eq!((refused.code(), field(&refused)), (Code::InvalidArgument, "resume_token".into()));
    }
    // A gateway that drains says where to go on.
    gateway.shutdown.cancel();
    loop {
        match next(&mut stream).await {
            Message::ResumeHint(hint) => {
                break assert_eq!((hint.reason.as_str(), hint.resume_token.is_empty()), ("drain", false));
            }
            // What changed while the stream began may be told twice.
            Message::Added(_) | Message::Changed(_) | Message::Removed(_) => {}
            other => panic!("expected a hint, got {other:?}"),
        }
    }
    drop(stream);
    gateway.stop().await;
}

#[tokio::test]
async fn a_watcher_of_the_list_gets_runs_of_any_length_part_by_part() {
    let gateway = Gateway::start(config()).await;
    // Far more than what waits for one client at a time.
    let long = |n: usize| format!("{n} {}", "x".repeat(16_000));
    let mut stream = watch(&gateway, WatchRunsRequest::default()).await;
    let (_, resume_token) = caught_up(&mut stream).await;
    drop(stream);
    for n in 0..60 {
        gateway.create_run(&long(n)).await;
    }
    let request = WatchRunsRequest { page_size: 50, ..Default::default() };
    let (said, _) = caught_up(&mut watch(&gateway, request).await).await;
    let newest: Vec<String> = (10..60).rev().map(|n| format!("added {} Queued", long(n))).collect();
    assert!(said == newest, "the newest {} of 50, in order", said.len());
    let resumed = WatchRunsRequest { resume_token, ..Default::default() };
    let (said, _) = caught_up(&mut watch(&gateway, resumed).await).await;
    for n in 0..60 {
        assert!(said.iter().any(|word| word.contains(&format!(" {}", long(n)))), "run {n} is missing");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn many_watchers_of_the_list_share_one_subscription() {
    let gateway = Gateway::start(config()).await;
    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut stream = watch(&gateway, WatchRunsRequest { page_size: 1, ..Default::default() }).await;
        caught_up(&mut stream).await;
        streams.push(stream);
    }
    gateway.create_run("one").await;
    for stream in &mut streams {
        until(stream, "added one Queued").await;
    }
    assert!(gateway.fanout.listeners(tree_agent_fanout::Topic::Wake) <= 1);
    drop(streams);
    let gone = async {
        while gateway.fanout.listeners(tree_agent_fanout::Topic::Wake) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, gone).await.expect("the list is no longer followed");
    gateway.stop().await;
}
