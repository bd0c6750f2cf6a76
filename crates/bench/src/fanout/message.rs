//! The events that are sent: each encodes to the same number of bytes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use prost::Message;
use tree_agent_contract::{NodeId, RunId};
use tree_agent_proto::v1 as pb;

/// Bytes of an encoded event.
const SIZE: usize = 512;

/// First byte of a `WatchRunResponse` that holds an event.
pub(super) const EVENT: u8 = 0x0a;
/// First byte of a `WatchRunResponse` that says `caught_up`.
pub(super) const CAUGHT_UP: u8 = 0x12;

/// Makes publications of one run.
pub(super) struct MessageBuilder {
    run_id: String,
    root: String,
    pub(super) topic: String,
}

impl MessageBuilder {
    pub(super) fn new(run_id: &str) -> anyhow::Result<Self> {
        let run: RunId = run_id.parse().map_err(|e| anyhow::anyhow!("{e}"))?;
        Ok(Self {
            run_id: run_id.to_owned(),
            root: NodeId::root(run).to_string(),
            topic: format!("tree-agent:run:{run_id}"),
        })
    }

    /// A publication of `count` events after `seq`.
    pub(super) fn batch(&self, seq: u64, count: u64) -> Bytes {
        let events = (seq + 1..=seq + count).map(|seq| self.event(seq)).collect();
        pb::EventBatch { events }.encode_to_vec().into()
    }

    /// The bytes of a publication of one event.
    pub(super) fn single(&self) -> usize {
        self.batch(1_000, 1).len()
    }

    fn event(&self, seq: u64) -> pb::Event {
        let now = now();
        let mut event = pb::Event {
            run_id: self.run_id.clone(),
            seq,
            node_id: self.root.clone(),
            parent_node_id: None,
            r#type: String::new(),
            timestamp: Some(prost_types::Timestamp {
                seconds: now.as_secs() as i64,
                nanos: now.subsec_nanos() as i32,
            }),
            body: Some(text(0)),
        };
        // A change in the length of the text can change the length prefixes too, so this takes two steps.
        for _ in 0..3 {
            let short = SIZE.saturating_sub(event.encoded_len());
            let now = length(&event);
            event.body =
                Some(text(if short == 0 { now - (event.encoded_len() - SIZE) } else { now + short }));
            if event.encoded_len() == SIZE {
                break;
            }
        }
        event
    }
}

fn text(length: usize) -> pb::event::Body {
    pb::event::Body::GuidanceAdded(pb::GuidanceAdded { text: "x".repeat(length), ..Default::default() })
}

fn length(event: &pb::Event) -> usize {
    match &event.body {
        Some(pb::event::Body::GuidanceAdded(e)) => e.text.len(),
        _ => 0,
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Milliseconds since the event of a `WatchRunResponse` was made.
pub(super) fn delay_of_response(body: &[u8]) -> Option<f64> {
    match pb::WatchRunResponse::decode(body).ok()?.message? {
        pb::watch_run_response::Message::Event(event) => since(&event),
        _ => None,
    }
}

/// Milliseconds since the first event of a publication was made.
pub(super) fn delay_of_batch(body: &[u8]) -> Option<f64> {
    since(pb::EventBatch::decode(body).ok()?.events.first()?)
}

fn since(event: &pb::Event) -> Option<f64> {
    let at = event.timestamp.as_ref()?;
    let made = Duration::new(at.seconds as u64, at.nanos as u32);
    Some(now().saturating_sub(made).as_secs_f64() * 1e3)
}
