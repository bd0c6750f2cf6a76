//! What `WatchDocument` promises: a document as it is, then each byte that is added to it, once and in order, through
//! any failure behind the gateway.

use std::time::Duration;

use crate::common::{Gateway, Mode, SOON, field};
use tonic::{Code, Streaming};
use tree_agent_event_gateway::{Config, WatchConfig};
use tree_agent_proto::v1::watch_document_response::Message;
use tree_agent_proto::v1::{CreateDocumentRequest, WatchDocumentRequest, WatchDocumentResponse};

fn config() -> Config {
    let watch = WatchConfig { head_check: Duration::from_millis(100), ..WatchConfig::default() };
    Config { watch, ..Config::default() }
}

fn from(document: impl ToString, after_bytes: u64) -> WatchDocumentRequest {
    WatchDocumentRequest { document_id: document.to_string(), after_bytes, ..Default::default() }
}

async fn watch(gateway: &Gateway, request: WatchDocumentRequest) -> Streaming<WatchDocumentResponse> {
    gateway.documents().watch_document(request).await.unwrap().into_inner()
}

async fn next(stream: &mut Streaming<WatchDocumentResponse>) -> Option<Message> {
    let message = tokio::time::timeout(SOON, stream.message()).await.expect("something is said");
    Some(message.unwrap()?.message.unwrap())
}

/// The text of a stream from `offset` on, until it has `bytes` bytes or ends; checks that the pieces fit together.
async fn read(stream: &mut Streaming<WatchDocumentResponse>, offset: u64, bytes: usize) -> String {
    let mut text = String::new();
    while text.len() < bytes {
        match next(stream).await {
            Some(Message::Text(piece)) => {
                assert_eq!(piece.offset, offset + text.len() as u64);
                text.push_str(&piece.text);
            }
            Some(Message::Document(_) | Message::Heartbeat(_)) => {}
            Some(Message::ResumeHint(hint)) => panic!("{hint:?}"),
            None => break,
        }
    }
    text
}

#[tokio::test]
async fn a_scratchpad_is_followed_until_its_run_ends() {
    for mode in [Mode::Faithful, Mode::Lossy, Mode::Doubled, Mode::Reordered, Mode::Deaf, Mode::Down] {
        let gateway = Gateway::with(mode, config()).await;
        let run = gateway.create_run("writes").await;
        let mut log = gateway.drive(&run).await;
        log.scribble("before, ").await;
        let mut early = watch(&gateway, from(log.pad(), 0)).await;
        match next(&mut early).await {
            Some(Message::Document(summary)) => assert_eq!(summary.document_id, log.pad().to_string()),
            other => panic!("{mode:?}: {other:?}"),
        }
        let mut expected = String::from("# writes\n\nbefore, ");
        let mut written = read(&mut early, 0, expected.len()).await;
        for n in 0..20 {
            let text = format!("wörd {n}, ");
            log.scribble(&text).await;
            log.append(3, 10).await;
            expected.push_str(&text);
            if n == 10 {
                // Read on while it is written, not only at the end.
                let so_far = written.len();
                written += &read(&mut early, so_far as u64, expected.len() - so_far).await;
                assert_eq!(written, expected, "{mode:?}");
            }
        }
        let at = "# writes\n\nbefore, ".len();
        let mut late = watch(&gateway, from(log.pad(), at as u64)).await;
        log.finish().await;
        let so_far = written.len();
        written += &read(&mut early, so_far as u64, usize::MAX).await;
        assert_eq!(written, expected, "{mode:?}");
        assert_eq!(read(&mut late, at as u64, usize::MAX).await, expected[at..], "{mode:?}");
        // Of a run that has ended there is the text, and the end.
        let mut after = watch(&gateway, from(log.pad(), 0)).await;
        assert_eq!(read(&mut after, 0, usize::MAX).await, expected, "{mode:?}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_document_that_does_not_grow_is_sent_whole() {
    let gateway = Gateway::start(config()).await;
    let project = gateway.create_project("Docs").await.project_id;
    let body = "Täxt.\n".repeat(50_000);
    let create = CreateDocumentRequest {
        project_id: project,
        path: "a.md".into(),
        body: body.clone(),
        ..Default::default()
    };
    let document = gateway.documents().create_document(create).await.unwrap().into_inner().document.unwrap();
    let mut stream = watch(&gateway, from(&document.document_id, 0)).await;
    assert_eq!(read(&mut stream, 0, usize::MAX).await, body);
    let mut stream = watch(&gateway, from(&document.document_id, body.len() as u64)).await;
    assert!(matches!(next(&mut stream).await, Some(Message::Document(_))));
    assert!(next(&mut stream).await.is_none());
    gateway.stop().await;
}

#[tokio::test]
async fn what_cannot_be_watched_is_said() {
    let gateway = Gateway::start(config()).await;
    let run = gateway.create_run("écrit").await;
    let mut log = gateway.drive(&run).await;
    log.scribble("é").await;
    let nobody = "0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b";
    for (request, code, name) in [
        (from("", 0), Code::InvalidArgument, "document_id"),
        (from("nonsense", 0), Code::InvalidArgument, "document_id"),
        (from(nobody, 0), Code::NotFound, "document_id"),
        (from(log.pad(), 13), Code::OutOfRange, "after_bytes"),
        (from(log.pad(), u64::MAX), Code::OutOfRange, "after_bytes"),
        (from(log.pad(), 11), Code::InvalidArgument, "after_bytes"),
    ] {
        let status = gateway.documents().watch_document(request.clone()).await.unwrap_err();
        assert_eq!((status.code(), &*field(&status)), (code, name), "{request:?}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_draining_gateway_says_where_to_resume() {
    let first = Gateway::start(config()).await;
    let run = first.create_run("moves").await;
    let mut log = first.drive(&run).await;
    log.scribble("one, ").await;
    let mut stream = watch(&first, from(log.pad(), 0)).await;
    let mut text = read(&mut stream, 0, "# moves\n\none, ".len()).await;
    let (store, fanout) = (first.store.clone(), first.fanout.clone());
    first.shutdown.cancel();
    let hint = loop {
        match next(&mut stream).await {
            Some(Message::ResumeHint(hint)) => break hint,
            Some(Message::Heartbeat(_)) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((hint.after_bytes, &*hint.reason), (14, "drain"));
    assert!(next(&mut stream).await.is_none());
    first.stop().await;
    log.scribble("two, ").await;
    let second = Gateway::over(store, fanout, config()).await;
    let mut stream = watch(&second, from(log.pad(), hint.after_bytes)).await;
    log.scribble("three").await;
    log.finish().await;
    text += &read(&mut stream, hint.after_bytes, usize::MAX).await;
    assert_eq!(text, "# moves\n\none, two, three");
    second.stop().await;
}

#[tokio::test]
async fn a_quiet_stream_says_that_it_is_alive_and_an_old_one_ends_with_a_hint() {
    let watch_config = WatchConfig {
        heartbeat: Duration::from_millis(50),
        stream_age: Duration::from_millis(400),
        ..config().watch
    };
    let gateway = Gateway::start(Config { watch: watch_config, ..config() }).await;
    let run = gateway.create_run("quiet").await;
    let mut log = gateway.drive(&run).await;
    log.scribble("text").await;
    let mut stream = watch(&gateway, from(log.pad(), 13)).await;
    assert!(matches!(next(&mut stream).await, Some(Message::Document(_))));
    assert!(matches!(next(&mut stream).await, Some(Message::Heartbeat(beat)) if beat.end == 13));
    let hint = loop {
        match next(&mut stream).await {
            Some(Message::Heartbeat(_)) => {}
            Some(Message::ResumeHint(hint)) => break hint,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((hint.after_bytes, &*hint.reason), (13, "age"));
    gateway.stop().await;
}
