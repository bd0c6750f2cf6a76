//! One client of `WatchRun`: a cursor that is moved from the log to the live window and back as needed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::StreamExt;
use tokio::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tree_agent_contract::RunId;
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::watch_run_response::Message;
use tree_agent_runtime::retry::backoff;
use tree_agent_store::Store;

use super::frame::{self, Frame};
use super::hub::Taken;
use super::service::{Resume, Watched};
use super::{Feed, WatchConfig};
use crate::errors;

/// Events read from the log at a time.
const PAGE: usize = 128;
/// Bytes of events that a client may have waiting for it, beyond a first one: what it keeps alive while it stalls.
const READY_BYTES: usize = 256 * 1024;

/// Where a stream begins.
pub(crate) struct Start {
    pub(crate) run: RunId,
    /// The last event that the client has.
    pub(crate) after_seq: u64,
    /// The head of the log when the stream began: `caught_up` is said there.
    pub(crate) head: u64,
    /// True when nothing follows `after_seq`, now or ever.
    pub(crate) ended: bool,
    /// Sent before everything else.
    pub(crate) snapshot: Option<pb::Graph>,
}

/// Makes the messages of one stream, framed for the wire, as fast as the client takes them.
pub(crate) struct Watcher {
    feed: Feed,
    store: Arc<dyn Store>,
    run: RunId,
    cursor: u64,
    /// The cursor, for whoever ends the stream without asking.
    position: Arc<AtomicU64>,
    head: u64,
    snapshot: Option<pb::Graph>,
    /// Taken from the window or the log, not yet sent.
    ready: VecDeque<Frame>,
    caught_up: bool,
    /// The run's last event has been sent.
    ended: bool,
    /// Nothing more will be sent.
    closed: bool,
    heartbeat: Duration,
    last_sent: Instant,
    close_at: Instant,
    drain: CancellationToken,
    /// Reads of the log that failed in a row, and when to try again.
    failures: u32,
    retry_at: Option<Instant>,
}

impl Watcher {
    pub(crate) fn new(
        start: Start,
        feed: Feed,
        store: Arc<dyn Store>,
        config: &WatchConfig,
        drain: CancellationToken,
    ) -> Self {
        let now = Instant::now();
        // Streams that began together do not end together.
        let age = config.stream_age.mul_f64(fastrand::f64().mul_add(0.2, 0.9));
        Self {
            feed,
            store,
            run: start.run,
            cursor: start.after_seq,
            position: Arc::new(AtomicU64::new(start.after_seq)),
            head: start.head,
            snapshot: start.snapshot,
            ready: VecDeque::new(),
            caught_up: false,
            ended: start.ended,
            closed: false,
            heartbeat: config.heartbeat,
            last_sent: now,
            close_at: now + age,
            drain,
            failures: 0,
            retry_at: None,
        }
    }

    /// All messages.
    pub(crate) fn watched(self) -> Watched {
        let resume = Resume { position: self.position.clone(), hint };
        let messages = futures::stream::unfold(self, async |mut watcher| {
            let message = watcher.next().await?;
            Some((message, watcher))
        });
        Watched { messages: messages.boxed(), resume }
    }

    /// The next message; `None` when the stream ends well.
    async fn next(&mut self) -> Option<Result<Bytes, Status>> {
        if self.closed {
            return None;
        }
        let message = self.step().await;
        self.last_sent = Instant::now();
        message
    }

    async fn step(&mut self) -> Option<Result<Bytes, Status>> {
        if let Some(snapshot) = self.snapshot.take() {
            return Some(Ok(frame::encode(Message::Snapshot(snapshot))));
        }
        loop {
            if !self.caught_up && self.cursor >= self.head {
                self.caught_up = true;
                return Some(Ok(frame::encode(Message::CaughtUp(pb::CaughtUp { seq: self.cursor }))));
            }
            if self.ended {
                self.closed = true;
                return None;
            }
            if self.drain.is_cancelled() {
                return Some(Ok(self.close("drain")));
            }
            if Instant::now() >= self.close_at {
                return Some(Ok(self.close("age")));
            }
            if let Some(frame) = self.ready.pop_front() {
                self.cursor = frame.seq;
                self.position.store(frame.seq, Ordering::Relaxed);
                self.ended = frame.last;
                return Some(Ok(frame.bytes));
            }
            if let Err(status) = self.fill().await {
                self.closed = true;
                return Some(Err(status));
            }
            if self.ready.is_empty()
                && let Some(heartbeat) = self.wait().await
            {
                return Some(Ok(heartbeat));
            }
        }
    }

    /// Takes the next events from the window, or from the log when the window does not reach back far enough.
    async fn fill(&mut self) -> Result<(), Status> {
        // Before looking, so that a change in between is not missed.
        self.feed.head.mark_seen();
        match self.feed.hub.after(self.cursor) {
            Taken::Frames(frames) => self.make_ready(frames),
            Taken::Nothing if self.cursor >= self.head => {}
            Taken::Older | Taken::Nothing => return self.read().await,
        }
        // The log is not needed after all. A moment to try again that lies in the past would let `wait` wait for nothing.
        (self.failures, self.retry_at) = (0, None);
        Ok(())
    }

    /// Keeps as many of `frames` as a client may have waiting. The others are looked up again when it has taken these.
    fn make_ready(&mut self, frames: impl IntoIterator<Item = Frame>) {
        let mut bytes = 0;
        self.ready.extend(frames.into_iter().take_while(|frame| {
            let fits = bytes == 0 || bytes + frame.bytes.len() <= READY_BYTES;
            bytes += frame.bytes.len();
            fits
        }));
    }

    /// Reads on from the log. While the store is down the stream stays, and the read is repeated.
    async fn read(&mut self) -> Result<(), Status> {
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            return Ok(());
        }
        match self.store.read(self.run, self.cursor, PAGE).await {
            Ok(events) if !events.is_empty() => {
                self.failures = 0;
                self.retry_at = None;
                self.make_ready(events.iter().map(Frame::of));
                return Ok(());
            }
            // The head says that there is more: whatever answers lags behind.
            Ok(_) => {}
            Err(error) if error.is_transient() => {
                tracing::debug!(run = %self.run, "cannot read the log: {error}");
            }
            Err(error) => return Err(errors::store(&error)),
        }
        self.failures += 1;
        self.retry_at = Some(Instant::now() + backoff(self.failures));
        Ok(())
    }

    /// Waits for something to do. Returns a heartbeat when the client has heard nothing for too long.
    async fn wait(&mut self) -> Option<Bytes> {
        let beat_at = self.last_sent + self.heartbeat;
        let wake_at = [Some(beat_at), Some(self.close_at), self.retry_at].into_iter().flatten().min();
        tokio::select! {
            biased;
            () = self.drain.cancelled() => {}
            () = self.feed.head.changed() => {}
            () = tokio::time::sleep_until(wake_at.unwrap_or(beat_at)) => {}
        }
        (Instant::now() >= beat_at && !self.drain.is_cancelled()).then(|| {
            let head_seq = self.feed.hub.head().max(self.cursor).max(self.head);
            frame::encode(Message::Heartbeat(pb::Heartbeat { head_seq }))
        })
    }

    fn close(&mut self, reason: &str) -> Bytes {
        self.closed = true;
        hint(self.cursor, reason)
    }
}

fn hint(after_seq: u64, reason: &str) -> Bytes {
    frame::encode(Message::ResumeHint(pb::ResumeHint { after_seq, reason: reason.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::super::hub::Hub;
    use super::*;

    /// It used to keep a moment to try again that had passed, and went round without waiting until the next read.
    #[tokio::test]
    async fn a_watcher_that_has_recovered_waits() {
        let store =
            tree_agent_store::embedded::EmbeddedStore::open_in_memory().await.expect("a store in memory");
        let (run, config) = (RunId::from(uuid::Uuid::nil()), WatchConfig::default());
        let hub = Arc::new(Hub::new(run, &config));
        let feed = Feed { head: hub.subscribe(), hub };
        let start = Start { run, after_seq: 0, head: 0, ended: false, snapshot: None };
        let mut watcher = Watcher::new(start, feed, Arc::new(store), &config, CancellationToken::new());
        (watcher.failures, watcher.retry_at) = (3, Some(Instant::now()));
        watcher.fill().await.expect("nothing is to be read");
        assert_eq!((watcher.failures, watcher.retry_at), (0, None));
    }
}
