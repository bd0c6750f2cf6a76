//! Publishes what was committed, in messages and round trips of bounded size.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use prost::encoding::{WireType, decode_key, decode_varint};
use tokio::sync::mpsc;
use tree_agent_fanout::{Fanout, Topic};

/// Bytes of one message. A larger event is published alone. A broker disconnects subscribers that are megabytes behind.
const MESSAGE_BYTES: usize = 256 * 1024;
/// Bytes of one round trip, beyond a first message.
const ROUND_BYTES: usize = 2 * 1024 * 1024;

/// Publishes in the order of commits. What has gathered is published together, up to [`ROUND_BYTES`].
pub(crate) async fn publisher(fanout: Arc<dyn Fanout>, mut queue: mpsc::Receiver<Vec<(Topic, Bytes)>>) {
    let mut healthy = true;
    let mut waiting: VecDeque<(Topic, Bytes)> = VecDeque::new();
    loop {
        if waiting.is_empty() {
            let Some(committed) = queue.recv().await else { return };
            split(committed, &mut waiting);
        }
        while size(&waiting) < ROUND_BYTES
            && let Ok(more) = queue.try_recv()
        {
            split(more, &mut waiting);
        }
        match fanout.publish(round(&mut waiting)).await {
            Ok(()) => healthy = true,
            Err(error) => {
                if std::mem::replace(&mut healthy, false) {
                    tracing::warn!(error = %error, "cannot publish hints; watchers are up to a second behind");
                }
            }
        }
    }
}

fn size(messages: &VecDeque<(Topic, Bytes)>) -> usize {
    messages.iter().map(|(_, message)| message.len()).sum()
}

/// Takes the messages of the next round trip.
fn round(waiting: &mut VecDeque<(Topic, Bytes)>) -> Vec<(Topic, Bytes)> {
    let (mut round, mut bytes) = (Vec::new(), 0);
    while let Some((_, message)) = waiting.front() {
        bytes += message.len();
        if bytes > ROUND_BYTES && !round.is_empty() {
            break;
        }
        round.extend(waiting.pop_front());
    }
    round
}

fn split(committed: Vec<(Topic, Bytes)>, waiting: &mut VecDeque<(Topic, Bytes)>) {
    for (topic, message) in committed {
        waiting.extend(parts(message).into_iter().map(|part| (topic, part)));
    }
}

/// An encoded `EventBatch` as batches of at most [`MESSAGE_BYTES`] each. Its entries follow each other, so a part of
/// its bytes that ends between two of them is a batch again. Nothing is copied.
fn parts(message: Bytes) -> Vec<Bytes> {
    if message.len() <= MESSAGE_BYTES {
        return vec![message];
    }
    let (mut parts, mut rest, mut begin, mut end) = (Vec::new(), message.clone(), 0, 0);
    while let Some(entry) = entry_len(&mut rest) {
        if end + entry - begin > MESSAGE_BYTES && end > begin {
            parts.push(message.slice(begin..end));
            begin = end;
        }
        end += entry;
    }
    parts.push(message.slice(begin..));
    parts
}

/// Passes over the next entry. Returns its length with its prefix; none at the end.
fn entry_len(rest: &mut Bytes) -> Option<usize> {
    let before = rest.remaining();
    let (_, WireType::LengthDelimited) = decode_key(rest).ok()? else { return None };
    let length = usize::try_from(decode_varint(rest).ok()?).ok()?;
    (length <= rest.remaining()).then(|| rest.advance(length))?;
    Some(before - rest.remaining())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use async_trait::async_trait;
    use prost::Message;
    use tree_agent_contract::RunId;
    use tree_agent_fanout::{FanoutError, Subscription};
    use tree_agent_proto::v1 as pb;

    use super::*;

    /// A batch whose events take these bytes each, with their prefixes.
    fn batch(sizes: &[usize]) -> Bytes {
        let event = |(seq, size): (u64, &usize)| {
            let mut event = pb::Event { seq, run_id: String::new(), ..Default::default() };
            let encoded = |event: &pb::Event| pb::EventBatch { events: vec![event.clone()] }.encoded_len();
            while encoded(&event) < *size {
                event.run_id.push_str(&"r".repeat((size - encoded(&event)).div_ceil(2)));
            }
            assert_eq!(encoded(&event), *size, "a size that has such an event");
            event
        };
        pb::EventBatch { events: (1..).zip(sizes).map(event).collect() }.encode_to_vec().into()
    }

    fn seqs(part: &Bytes) -> Vec<u64> {
        pb::EventBatch::decode(part.clone()).unwrap().events.iter().map(|event| event.seq).collect()
    }

    #[test]
    fn a_message_is_cut_at_its_edge_and_between_events() {
        let half = MESSAGE_BYTES / 2;
        for (sizes, expected) in [
            (vec![half, half], vec![vec![1, 2]]),
            (vec![half, half + 1], vec![vec![1], vec![2]]),
            (vec![half, half, 100], vec![vec![1, 2], vec![3]]),
            (vec![100, MESSAGE_BYTES + 1, 100, 100], vec![vec![1], vec![2], vec![3, 4]]),
            (vec![MESSAGE_BYTES * 2], vec![vec![1]]),
        ] {
            let whole = batch(&sizes);
            let parts = parts(whole.clone());
            assert_eq!(parts.iter().map(seqs).collect::<Vec<_>>(), expected, "{sizes:?}");
            assert_eq!(parts.concat(), whole, "{sizes:?}");
        }
    }

    /// Notes the bytes of each round trip.
    #[derive(Default)]
    struct Rounds(Mutex<Vec<Vec<usize>>>);

    #[async_trait]
    impl Fanout for Rounds {
        async fn publish(&self, messages: Vec<(Topic, Bytes)>) -> Result<(), FanoutError> {
            self.0.lock().unwrap().push(messages.iter().map(|(_, message)| message.len()).collect());
            Ok(())
        }

        async fn subscribe(&self, _: Topic) -> Result<Subscription, FanoutError> {
            Err(FanoutError { message: "nobody listens".into(), source: None })
        }

        async fn ping(&self) -> Result<(), FanoutError> {
            Ok(())
        }

        fn dropped(&self) -> u64 {
            0
        }
    }

    #[tokio::test]
    async fn a_round_trip_is_bounded_and_nothing_is_left_behind() {
        let (send, queue) = mpsc::channel(100);
        let full = || (Topic::Run(RunId(uuid::Uuid::nil())), batch(&[MESSAGE_BYTES]));
        let per_round = ROUND_BYTES / MESSAGE_BYTES;
        // One commit that fills a round to its edge, one that passes it, and many small ones.
        send.send((0..per_round).map(|_| full()).collect()).await.unwrap();
        send.send((0..=per_round).map(|_| full()).collect()).await.unwrap();
        for _ in 0..20 {
            send.send(vec![full()]).await.unwrap();
        }
        drop(send);
        let rounds = Arc::new(Rounds::default());
        publisher(rounds.clone(), queue).await;
        let rounds = rounds.0.lock().unwrap();
        assert_eq!(rounds.iter().map(Vec::len).sum::<usize>(), 2 * per_round + 21);
        let last = rounds.len() - 1;
        assert!(rounds[..last].iter().all(|round| round.iter().sum::<usize>() == ROUND_BYTES), "{rounds:?}");
    }
}
