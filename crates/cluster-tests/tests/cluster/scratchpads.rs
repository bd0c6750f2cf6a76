//! Scratchpads that grow while their node is at work, and clients that follow them.

use tokio::time::timeout;
use tree_agent_cluster_tests::{Cluster, Options, SOON};
use tree_agent_contract::{DocumentId, EventBody, NodeId};
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::document_service_client::DocumentServiceClient;
use tree_agent_proto::v1::watch_document_response::Message;
use tree_agent_runtime::channel;

/// Writes 80 notes of the planner within four seconds, and 80 of the executor within four more.
const MODEL: &str = "scripted:depth=0,notes=80,latency_ms=4000";

fn notes() -> String {
    (1..=80).map(|n| format!("note {n}, ")).collect()
}

/// Follows a document at `gateway` from where `text` ends until it holds `until`, or to its end for the empty text.
async fn follow(gateway: &str, document: DocumentId, text: &mut String, until: &str) {
    let mut documents = DocumentServiceClient::new(channel::single(gateway.parse().expect("a URL")));
    let request = pb::WatchDocumentRequest {
        document_id: document.to_string(),
        after_bytes: text.len() as u64,
        ..Default::default()
    };
    let mut stream = documents.watch_document(request).await.expect("the document is there").into_inner();
    loop {
        if !until.is_empty() && text.contains(until) {
            return;
        }
        let message = timeout(SOON, stream.message()).await.expect("something is said");
        match message.unwrap_or_else(|status| panic!("{status} after {text:?}")) {
            None => {
                assert_eq!(until, "", "it ended before: {text:?}");
                return;
            }
            Some(answer) => match answer.message {
                Some(Message::Text(piece)) => {
                    assert_eq!(piece.offset, text.len() as u64, "text was lost or came twice");
                    text.push_str(&piece.text);
                }
                Some(Message::ResumeHint(hint)) => panic!("{hint:?} after {text:?}"),
                _ => {}
            },
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scratchpad_is_followed_through_the_loss_of_a_gateway_of_redis_and_of_the_driver() {
    let mut cluster = Cluster::start(Options { replicas: 2, ..Options::default() }).await;
    let run = cluster.create(MODEL).await;
    let mut follower = cluster.follow(&run);
    let root = NodeId::root(run.parse().expect("a run id"));
    let document = DocumentId::scratchpad(root);
    let mut text = String::new();
    follow(&cluster.gateway_urls()[1], document, &mut text, "note 10,").await;
    cluster.gateways[1].kill();
    cluster.redis.stop();
    follow(&cluster.gateway_urls()[0], document, &mut text, "note 80,").await;
    cluster.redis.start_again().expect("Redis starts");
    // The executor is writing now. The next driver repeats its call.
    follow(&cluster.gateway_urls()[0], document, &mut text, "scripted: planned\nnote 1, note 2, note 3,")
        .await;
    let driver = cluster.driver_of(&run).await;
    cluster.planners[driver].kill();
    follow(&cluster.gateway_urls()[0], document, &mut text, "").await;
    let history = follower.end().await;
    history.assert_whole();
    assert_eq!(text, cluster.body(document).await);
    let asked = "# What does a cluster do?\n\n";
    assert!(text.starts_with(&format!("{asked}{}\nscripted: planned\nnote 1, ", notes())), "{text}");
    assert!(text.ends_with(&format!("\n{}\nscripted: executed\n", notes())), "{text}");
    // Streamed, but at most four times in any second.
    let grown = history.events().iter().filter(|e| matches!(e.body, EventBody::ScratchpadUpdated(_)));
    let at: Vec<i64> = grown.map(|e| e.timestamp.micros()).collect();
    assert!(at.windows(5).all(|five| five[4] - five[0] >= 1_000_000), "{at:?}");
    let seconds = (at[at.len() - 1] - at[0]) as f64 / 1e6;
    assert!(at.len() >= 12 && (at.len() as f64) < 4.0 * seconds, "{} changes in {seconds} s", at.len());
}
