//! One watched run: what fan-out says and what the log has, merged into one gap-free window.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::Notify;
use tokio::time::Instant;
use tree_agent_contract::RunId;
use tree_agent_fanout::{Fanout, Signal, Subscription, Topic};
use tree_agent_store::{READ_BYTES, StoreError};

use super::frame::{self, Frame};
use super::head::{Head, Reader};
use super::tree::Tree;
use super::{WatchConfig, Watches};

/// Events read from the log at a time.
const PAGE: usize = 512;
/// Maximum of publications that are taken together.
const BURST: usize = 128;
/// Frames that a watcher takes at a time.
const TAKE: usize = 64;
/// How long the broker may take to confirm a subscription before the run is followed without it.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(2);

/// The recent events of a run. Only [`follow`] writes.
pub(crate) struct Hub {
    pub(crate) run: RunId,
    window: Mutex<Window>,
    head: Head,
    bridge: Notify,
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
    fn extend(&self, frames: impl IntoIterator<Item = Frame>) -> bool {
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
    fn resume(&self, frames: Vec<Frame>) -> bool {
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

/// Follows the run of `hub` until nobody has watched it for a while: subscribe first, then read the gap, then
/// live. Whatever fan-out loses, doubles or
/// reorders is mended from the log.
pub(crate) async fn follow(hub: Arc<Hub>, watches: Arc<Watches>) {
    tokio::select! {
        biased;
        () = watches.done.cancelled() => {}
        () = listen(&hub, &watches) => {}
    }
    tracing::debug!(run = %hub.run, "no longer followed");
}

async fn listen(hub: &Hub, watches: &Watches) {
    // Where the window begins; what is older, watchers read from the log.
    while let Err(error) = begin(hub, watches).await {
        tracing::warn!(run = %hub.run, "cannot read the head of the log: {error}");
        tokio::time::sleep(watches.config.head_check).await;
        if hub.watchers() == 0 && watches.forget_if_idle(hub) {
            return;
        }
    }
    // The broker may be slow to answer, or absent: the log is followed meanwhile.
    let mut confirming = Some(subscribe(&*watches.fanout, Topic::Run(hub.run)).boxed());
    let mut subscription = None;
    let mut idle_since = None;
    let mut tick = tokio::time::interval((watches.config.linger / 4).max(Duration::from_millis(10)));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        // In a fixed order, so that the same events lead to the same calls; what is always ready comes last.
        tokio::select! {
            biased;
            _ = tick.tick() => {
                if hub.watchers() > 0 {
                    idle_since = None;
                } else if idle_since.get_or_insert_with(Instant::now).elapsed() >= watches.config.linger
                    && watches.forget_if_idle(hub)
                {
                    return;
                }
            }
            () = hub.bridge.notified() => {
                catch_up(hub, watches).await;
                if subscription.is_none() && confirming.is_none() {
                    confirming = Some(subscribe(&*watches.fanout, Topic::Run(hub.run)).boxed());
                }
            }
            confirmed = pending(&mut confirming) => {
                confirming = None;
                subscription = confirmed;
                // From here on every message is heard; what was appended before is in the log.
                catch_up(hub, watches).await;
            }
            signal = hear(&mut subscription) => {
                let Some(first) = signal else {
                    subscription = None;
                    continue;
                };
                // Whatever the broker sends in one go is handed on in one go: waking the watchers is what costs.
                tokio::task::yield_now().await;
                let more = subscription.iter_mut().flat_map(|s| std::iter::from_fn(|| s.next().now_or_never()?));
                take(hub, watches, std::iter::once(first).chain(more.take(BURST))).await;
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

async fn hear(subscription: &mut Option<Subscription>) -> Option<Signal> {
    match subscription {
        Some(subscription) => subscription.next().await,
        None => std::future::pending().await,
    }
}

async fn begin(hub: &Hub, watches: &Watches) -> Result<(), StoreError> {
    let heads = watches.store.heads(&[hub.run]).await?;
    if let Some((_, head)) = heads.first() {
        hub.head.set(*head);
    }
    Ok(())
}

/// Takes the events from the messages and reads missing ones from the log. A message that does not fit the run is
/// dropped.
async fn take(hub: &Hub, watches: &Watches, signals: impl Iterator<Item = Signal>) {
    let (mut frames, mut missed) = (Vec::new(), false);
    let run = hub.run.to_string();
    for signal in signals {
        match signal {
            Signal::Message(message) => match frame::batch(message, &run) {
                Ok(batch) => frames.extend(batch),
                Err(error) => {
                    tracing::debug!(run, "a published message is dropped: {error}");
                    watches.stats.unfit_messages.fetch_add(1, Ordering::Relaxed);
                    missed = true;
                }
            },
            Signal::Missed => missed = true,
        }
    }
    if !hub.extend(frames) || missed {
        catch_up(hub, watches).await;
    }
}

/// Reads everything behind the hub's head from the log. When that fails, the next check of heads asks again.
async fn catch_up(hub: &Hub, watches: &Watches) {
    watches.stats.catch_ups.fetch_add(1, Ordering::Relaxed);
    loop {
        match watches.store.read(hub.run, hub.head(), PAGE).await {
            Ok(events) => {
                let frames: Vec<Frame> = events.iter().map(Frame::of).collect();
                // A page that the store has cut because of its bytes is large, also in this form.
                let bytes: usize = frames.iter().map(|frame| frame.bytes.len()).sum();
                let more = frames.len() == PAGE || bytes >= READ_BYTES / 8;
                // A page that does not move on would be read for ever.
                if !hub.resume(frames) || !more {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(run = %hub.run, "cannot read the log: {error}");
                return;
            }
        }
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
