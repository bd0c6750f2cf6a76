//! Events as they go out: encoded once, with the gRPC message prefix, in shared bytes.

use bytes::{BufMut, Bytes, BytesMut};
use futures::stream::BoxStream;
use prost::Message;
use tonic::Status;
use tree_agent_contract::DocumentId;
use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::status::RunStatus;
use tree_agent_proto::{Wire, v1 as pb};

/// Messages of one stream, framed.
pub type Messages = BoxStream<'static, Result<Bytes, Status>>;

/// A `WatchRunResponse` with one event, ready for the wire. Cloning shares the bytes.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) seq: u64,
    /// True for the run's last event.
    pub(crate) last: bool,
    /// The scratchpad that grew with the event.
    pub(crate) grown: Option<DocumentId>,
    pub(crate) bytes: Bytes,
}

impl Frame {
    pub(crate) fn of(event: &Event) -> Self {
        let last = matches!(&event.body, EventBody::RunStatusChanged(change) if change.status.is_final());
        let grown = match &event.body {
            EventBody::ScratchpadUpdated(update) => Some(update.scratchpad_doc_id),
            _ => None,
        };
        let bytes = encode(pb::watch_run_response::Message::Event(event.to_wire()));
        Self { seq: event.seq, last, grown, bytes }
    }
}

/// Any other message of the stream.
pub(crate) fn encode(message: pb::watch_run_response::Message) -> Bytes {
    framed(&pb::WatchRunResponse { message: Some(message) })
}

/// A message behind gRPC's prefix.
pub(crate) fn framed(message: &impl Message) -> Bytes {
    let mut buffer = prefix(message.encoded_len());
    message.encode(&mut buffer).expect("the buffer grows");
    buffer.freeze()
}

/// A buffer that begins with gRPC's prefix of an uncompressed message of `length` bytes.
fn prefix(length: usize) -> BytesMut {
    let mut buffer = BytesMut::with_capacity(5 + length);
    buffer.put_u8(0);
    buffer.put_u32(length as u32);
    buffer
}

/// Only what a hub needs to know of an event; the rest of the bytes pass through unread.
#[derive(Clone, PartialEq, prost::Message)]
struct EventHead {
    /// Text, taken as bytes so that it need not be copied.
    #[prost(bytes = "bytes", tag = "1")]
    run_id: Bytes,
    #[prost(uint64, tag = "2")]
    seq: u64,
    #[prost(message, optional, tag = "11")]
    run_status: Option<pb::RunStatusChanged>,
    #[prost(message, optional, tag = "22")]
    scratchpad_updated: Option<ScratchpadChange>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ScratchpadChange {
    #[prost(string, tag = "1")]
    scratchpad_doc_id: String,
}

/// Why a published message is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RejectedBatch {
    /// It is no `EventBatch`.
    #[error("it cannot be read")]
    Malformed(#[from] prost::DecodeError),
    /// It is about another run than its topic.
    #[error("it holds an event of another run")]
    OtherRun,
    /// Its events do not follow each other.
    #[error("its events are not numbered one after the other")]
    Sequence,
}

/// The events of an `EventBatch` that was published for `run`, without decoding and encoding them again: an entry of
/// `EventBatch` has the tag that the event has in `WatchRunResponse`, so its bytes are that message.
pub(crate) fn batch(mut message: Bytes, run: &str) -> Result<Vec<Frame>, RejectedBatch> {
    let whole = message.clone();
    let mut frames = Vec::<Frame>::new();
    while !message.is_empty() {
        let start = whole.len() - message.len();
        let (tag, wire_type) = prost::encoding::decode_key(&mut message)?;
        if (tag, wire_type) != (1, prost::encoding::WireType::LengthDelimited) {
            let context = prost::encoding::DecodeContext::default();
            prost::encoding::skip_field(wire_type, tag, &mut message, context)?;
            continue;
        }
        // Checks the length against what is there.
        let glimpse = EventHead::decode_length_delimited(&mut message)?;
        if glimpse.run_id != run {
            return Err(RejectedBatch::OtherRun);
        }
        if glimpse.seq == 0
            || frames.last().is_some_and(|before| before.seq.checked_add(1) != Some(glimpse.seq))
        {
            return Err(RejectedBatch::Sequence);
        }
        let entry = whole.slice(start..whole.len() - message.len());
        let mut buffer = prefix(entry.len());
        buffer.extend_from_slice(&entry);
        let status = glimpse.run_status.map(|change| change.status);
        let last = status.and_then(|s| RunStatus::from_wire(s).ok()).is_some_and(RunStatus::is_final);
        let grown = glimpse.scratchpad_updated.and_then(|grown| grown.scratchpad_doc_id.parse().ok());
        frames.push(Frame { seq: glimpse.seq, last, grown, bytes: buffer.freeze() });
    }
    Ok(frames)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tree_agent_contract::event::{Opaque, RunStatusChanged, ScratchpadUpdated};
    use tree_agent_contract::{NodeId, RunId, Timestamp};

    fn run() -> String {
        RunId::from(uuid::Uuid::from_u128(9)).to_string()
    }

    fn event(seq: u64, status: RunStatus) -> Event {
        with_body(
            seq,
            RunStatusChanged { status, reason: Some("r".repeat(300)), partial: false, goes_on_at: None }
                .into(),
        )
    }

    fn with_body(seq: u64, body: EventBody) -> Event {
        let run_id = RunId::from(uuid::Uuid::from_u128(9));
        Event {
            run_id,
            seq,
            node_id: NodeId::root(run_id),
            parent_node_id: None,
            timestamp: Timestamp(seq as i64),
            body,
        }
    }

    #[test]
    fn a_batch_gives_the_same_bytes_as_encoding_each_event() {
        let pad = DocumentId::scratchpad(NodeId::root(RunId::from(uuid::Uuid::from_u128(9))));
        let grown =
            ScratchpadUpdated { scratchpad_doc_id: pad, tail_preview: "t".into(), updated_at: Timestamp(2) };
        let events =
            [event(1, RunStatus::Running), with_body(2, grown.into()), event(3, RunStatus::Completed)];
        let published = pb::EventBatch { events: events.iter().map(Wire::to_wire).collect() };
        let frames = batch(published.encode_to_vec().into(), &run()).unwrap();
        assert_eq!(frames.len(), 3);
        for (frame, event) in frames.iter().zip(&events) {
            let own = Frame::of(event);
            assert_eq!((frame.seq, frame.last, frame.grown), (own.seq, own.last, own.grown));
            assert_eq!(frame.bytes, own.bytes);
        }
        assert!(!frames[0].last && frames[2].last && frames[1].grown == Some(pad));
    }

    #[test]
    fn events_of_unknown_types_pass_unread() {
        // As a newer planner publishes them: with a name, and a payload in a field that is unknown here.
        let known = event(1, RunStatus::Running);
        let mut newer =
            pb::Event { seq: 2, r#type: "tree.from_the_future".into(), body: None, ..known.to_wire() }
                .encode_to_vec();
        prost::encoding::bytes::encode(77, &Bytes::from_static(b"\x0a\x01t"), &mut newer);
        let mut published = pb::EventBatch { events: vec![known.to_wire()] }.encode_to_vec();
        prost::encoding::bytes::encode(1, &Bytes::from(newer.clone()), &mut published);
        let frames = batch(published.into(), &run()).unwrap();
        assert_eq!(
            frames.iter().map(|frame| (frame.seq, frame.last)).collect::<Vec<_>>(),
            [(1, false), (2, false)]
        );
        assert!(frames[1].bytes.ends_with(&newer), "byte for byte");
        // As this gateway sends what it read from the log.
        let body = Opaque::new("tree.from_the_future", Default::default());
        let own =
            pb::WatchRunResponse::decode(&Frame::of(&with_body(3, body.clone().into())).bytes[5..]).unwrap();
        let Some(pb::watch_run_response::Message::Event(own)) = own.message else { panic!("an event") };
        assert_eq!(Event::from_wire(own).unwrap().body, body.into());
    }

    #[test]
    fn garbage_is_an_error_not_a_panic() {
        for garbage in [&[0x0a, 0xff, 0x01, 0x00][..], b"\xff\xff\xff"] {
            assert!(matches!(
                batch(Bytes::copy_from_slice(garbage), &run()),
                Err(RejectedBatch::Malformed(_))
            ));
        }
    }

    #[test]
    fn events_of_another_run_or_out_of_order_are_refused_with_their_whole_batch() {
        let refused = |events: Vec<Event>| {
            let published = pb::EventBatch { events: events.iter().map(Wire::to_wire).collect() };
            batch(published.encode_to_vec().into(), &run()).unwrap_err()
        };
        let elsewhere = RunId::from(uuid::Uuid::from_u128(10));
        let stranger = Event { run_id: elsewhere, ..event(2, RunStatus::Running) };
        assert!(matches!(refused(vec![event(1, RunStatus::Running), stranger]), RejectedBatch::OtherRun));
        for seqs in [[1, 3], [2, 1], [1, 1], [0, 1], [u64::MAX, 0]] {
            let events = seqs.map(|seq| event(seq, RunStatus::Running));
            assert!(matches!(refused(events.into()), RejectedBatch::Sequence), "{seqs:?}");
        }
    }
}
