//! The recent events of one watched run: a window without gaps.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::Notify;
use tree_agent_contract::RunId;
use tree_agent_fanout::{Fanout, Signal, Subscription, Topic};

use super::config::WatchConfig;
use super::frame::Frame;
use super::head::{Head, Reader};
use super::tree::Tree;

/// Frames that a watcher takes at a time.
const TAKE: usize = 64;
/// How long the broker may take to confirm a subscription before the run is followed without it.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(2);

/// The recent events of a run. Only [`follow`](super::follow) writes.
pub(crate) struct Hub {
    pub(crate) run: RunId,
    window: Mutex<Window>,
    pub(super) head: Head,
    pub(super) bridge: Notify,
    pub(super) tree: Arc<Tree>,
}

/// Contiguous frames that end at the hub's head.
struct Window {
    frames: VecDeque<Frame>,
    bytes: usize,
    max_events: usize,
    max_bytes: usize,
}

/// What a hub has for a watcher.
pub(crate) enum Taken {
    /// The next frames after its cursor.
    Frames(Vec<Frame>),
    /// There are such events, but only the log still has them.
    Older,
    /// Nothing new.
    Nothing,
}

impl Hub {
    pub(crate) fn new(run: RunId, config: &WatchConfig) -> Self {
        let window = Window {
            frames: VecDeque::new(),
            bytes: 0,
            max_events: config.window_events,
            max_bytes: config.window_bytes,
        };
        Self {
            run,
            window: Mutex::new(window),
            head: Head::new(),
            bridge: Notify::new(),
            tree: Arc::default(),
        }
    }

    /// A watcher's view of the head.
    pub(crate) fn subscribe(&self) -> Reader {
        self.head.subscribe()
    }

    pub(crate) fn watchers(&self) -> usize {
        self.head.readers()
    }

    /// The last event that the hub knows of.
    pub(crate) fn head(&self) -> u64 {
        self.head.get()
    }

    /// Asks for the log to be read: it has more than the hub.
    pub(crate) fn bridge(&self) {
        self.bridge.notify_one();
    }

    /// The frames after `cursor`, a few at a time.
    pub(crate) fn after(&self, cursor: u64) -> Taken {
        if cursor >= self.head() {
            return Taken::Nothing;
        }
        let window = self.window();
        match window.frames.front() {
            Some(first) if first.seq <= cursor + 1 => {
                let skip = (cursor + 1 - first.seq) as usize;
                Taken::Frames(window.frames.iter().skip(skip).take(TAKE).cloned().collect())
            }
            _ => Taken::Older,
        }
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what is new of `frames`, which are in order. False when they begin after a gap.
    pub(super) fn extend(&self, frames: impl IntoIterator<Item = Frame>) -> bool {
        let mut head = self.head();
        let before = head;
        let mut whole = true;
        {
            let mut window = self.window();
            for frame in frames {
                if frame.seq <= head {
                    continue;
                }
                if frame.seq != head + 1 {
                    whole = false;
                    break;
                }
                head = frame.seq;
                window.push(frame);
            }
        }
        // After the window holds them: whoever is woken finds them there.
        if head != before {
            self.head.set(head);
        }
        whole
    }

    /// Takes what the log has behind the head. Where it has a gap, the window begins anew behind it, and a watcher that
    /// stands before the gap finds it when it reads the log. False when the log gave nothing that is new.
    pub(super) fn resume(&self, frames: Vec<Frame>) -> bool {
        let head = self.head();
        for part in frames.chunk_by(|a, b| a.seq + 1 == b.seq) {
            if part[0].seq > self.head() + 1 {
                tracing::error!(run = %self.run, after_seq = self.head(), next = part[0].seq, "the log has a gap");
                self.window().clear();
                self.head.set(part[0].seq - 1);
            }
            self.extend(part.iter().cloned());
        }
        self.head() > head
    }
}

impl Window {
    fn clear(&mut self) {
        self.frames.clear();
        self.bytes = 0;
    }

    fn push(&mut self, frame: Frame) {
        self.bytes += frame.bytes.len();
        self.frames.push_back(frame);
        while self.frames.len() > self.max_events || self.bytes > self.max_bytes {
            match self.frames.pop_front() {
                Some(old) => self.bytes -= old.bytes.len(),
                None => break,
            }
        }
    }
}

/// `None` when the topic is to be followed by the store alone.
pub(crate) async fn subscribe(fanout: &dyn Fanout, topic: Topic) -> Option<Subscription> {
    match tokio::time::timeout(SUBSCRIBE_TIMEOUT, fanout.subscribe(topic)).await {
        Ok(Ok(subscription)) => return Some(subscription),
        Ok(Err(error)) => tracing::debug!(?topic, "followed by the store alone: {error}"),
        Err(_) => tracing::debug!(?topic, "followed by the store alone: the broker does not confirm"),
    }
    None
}

/// What the future gives; never ready without one.
pub(crate) async fn pending<T>(future: &mut Option<BoxFuture<'_, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// The next signal; none when the subscription ends, and never ready without one.
pub(crate) async fn hear(subscription: &mut Option<Subscription>) -> Option<Signal> {
    match subscription {
        Some(subscription) => subscription.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn frame(seq: u64, size: usize) -> Frame {
        Frame { seq, last: false, grown: None, bytes: Bytes::from(vec![0; size]) }
    }

    fn hub(events: usize, bytes: usize) -> Hub {
        let config = WatchConfig { window_events: events, window_bytes: bytes, ..WatchConfig::default() };
        Hub::new(RunId::from(uuid::Uuid::nil()), &config)
    }

    fn seqs(taken: Taken) -> Vec<u64> {
        match taken {
            Taken::Frames(frames) => frames.iter().map(|f| f.seq).collect(),
            Taken::Older | Taken::Nothing => Vec::new(),
        }
    }

    #[test]
    fn doubled_events_are_dropped_and_a_gap_is_seen() {
        let hub = hub(100, 10_000);
        assert!(hub.extend([frame(1, 1), frame(2, 1)]));
        assert!(hub.extend([frame(1, 1), frame(2, 1), frame(3, 1)]));
        assert!(!hub.extend([frame(5, 1)]));
        assert_eq!((hub.head(), seqs(hub.after(0)), seqs(hub.after(2))), (3, vec![1, 2, 3], vec![3]));
        assert!(matches!(hub.after(3), Taken::Nothing));
    }

    #[test]
    fn a_gap_in_the_log_is_passed_over_and_left_to_the_watchers_before_it() {
        let hub = hub(100, 10_000);
        assert!(hub.resume(vec![frame(1, 1), frame(2, 1)]));
        assert!(hub.resume(vec![frame(3, 1), frame(5, 1), frame(6, 1)]));
        assert_eq!((hub.head(), seqs(hub.after(4))), (6, vec![5, 6]));
        assert!(matches!(hub.after(3), Taken::Older), "the watcher reads the log itself");
        assert!(!hub.resume(vec![frame(5, 1), frame(6, 1)]), "a page without news does not move on");
    }

    #[test]
    fn the_window_is_bounded_by_count_and_by_bytes() {
        let by_count = hub(3, 10_000);
        by_count.extend((1..=10).map(|seq| frame(seq, 1)));
        assert!(matches!(by_count.after(6), Taken::Older));
        assert_eq!(seqs(by_count.after(7)), [8, 9, 10]);
        let by_bytes = hub(100, 25);
        by_bytes.extend((1..=10).map(|seq| frame(seq, 10)));
        assert_eq!(seqs(by_bytes.after(8)), [9, 10]);
        assert!(matches!(by_bytes.after(7), Taken::Older));
    }
}
