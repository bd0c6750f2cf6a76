//! One client of `WatchRun`: a cursor that is moved from the log to the live window and back as needed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::StreamExt;
use tonic::Status;
use tree_agent_contract::RunId;
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::watch_run_response::Message;
use tree_agent_store::Store;

use super::config::WatchConfig;
use super::filter::EventFilter;
use super::frame::{self, Frame};
use super::hub::Taken;
use super::pace::{Pace, Until};
use super::room::Room;
use super::service::{Resume, Watched};
use super::stats::Stream;
use super::watches::Feed;
use crate::errors;

/// Events read from the log at a time.
const PAGE: usize = 128;
/// Events in a row that do not match the filter, after which the client is told how far the log was looked at.
const SKIPPED: u64 = 500;

/// Where a stream begins.
pub(crate) struct Start {
    pub(crate) run: RunId,
    /// The last event that the client has.
    pub(crate) after_seq: u64,
    /// The head of the log when the stream began: `caught_up` is said there.
    pub(crate) head: u64,
    /// The run had ended by then.
    pub(crate) is_final: bool,
    /// True when nothing follows `after_seq`, now or ever.
    pub(crate) ended: bool,
    /// Sent before everything else, framed.
    pub(crate) snapshot: Option<Bytes>,
    /// Which events are sent.
    pub(crate) filter: EventFilter,
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
    is_final: bool,
    snapshot: Option<Bytes>,
    filter: EventFilter,
    /// Events in a row that were not sent.
    skipped: u64,
    /// Taken from the window or the log, not yet sent.
    ready: VecDeque<Frame>,
    caught_up: bool,
    /// What it was sent last came from the window.
    live: bool,
    /// The run's last event has been sent.
    ended: bool,
    /// Nothing more will be sent.
    closed: bool,
    pace: Pace,
}

impl Watcher {
    pub(crate) fn new(
        start: Start,
        feed: Feed,
        store: Arc<dyn Store>,
        config: &WatchConfig,
        until: Until,
    ) -> Self {
        let pace = Pace::new(config, until, Stream::of_a_run(&feed.stats));
        Self {
            feed,
            store,
            run: start.run,
            cursor: start.after_seq,
            position: Arc::new(AtomicU64::new(start.after_seq)),
            head: start.head,
            is_final: start.is_final,
            snapshot: start.snapshot,
            filter: start.filter,
            skipped: 0,
            ready: VecDeque::new(),
            caught_up: false,
            live: false,
            ended: start.ended,
            closed: false,
            pace,
        }
    }

    /// All messages.
    pub(crate) fn watched(self) -> Watched {
        let resume = Resume { position: self.position.clone(), hint: Box::new(hint) };
        let messages = futures::stream::unfold(self, async |mut watcher| {
            let message = watcher.next().await?;
            Some((message, watcher))
        });
        Watched { messages: messages.boxed(), resume }
    }

    /// The next message; `None` when the stream ends well.
    async fn next(&mut self) -> Option<Result<Bytes, Status>> {
        if self.closed {
            return self.pace.last_word().map(Err);
        }
        let message = self.step().await;
        self.pace.sent();
        message
    }

    async fn step(&mut self) -> Option<Result<Bytes, Status>> {
        if let Some(snapshot) = self.snapshot.take() {
            return Some(Ok(snapshot));
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
            if let Some(reason) = self.pace.over() {
                return Some(Ok(self.close(reason)));
            }
            if let Some(frame) = self.ready.pop_front() {
                self.cursor = frame.seq;
                self.position.store(frame.seq, Ordering::Relaxed);
                // A fork may share the end of another run, and go on behind it.
                self.ended = frame.seq >= self.head && (frame.last || self.is_final);
                if self.filter.passes(&frame.bytes) {
                    self.skipped = 0;
                    self.pace.stream().deliver();
                    return Some(Ok(frame.bytes));
                }
                self.skipped += 1;
                // So that a client that resumes need not have it all looked at again.
                if self.skipped == SKIPPED || self.ended {
                    self.skipped = 0;
                    return Some(Ok(self.heartbeat()));
                }
                continue;
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
        self.pace.stream().settle();
        match self.feed.hub.after(self.cursor) {
            Taken::Frames(frames) => {
                self.live = true;
                self.make_ready(frames);
            }
            Taken::Nothing if self.cursor >= self.head => {}
            Taken::Older | Taken::Nothing => return self.read().await,
        }
        self.pace.recovered();
        Ok(())
    }

    /// Keeps as many of `frames` as a client may have waiting. The others are looked up again when it has taken these.
    fn make_ready(&mut self, frames: impl IntoIterator<Item = Frame>) {
        let mut room = Room::default();
        self.ready.extend(frames.into_iter().take_while(|frame| room.takes(frame.bytes.len())));
    }

    /// Reads on from the log. While the store is down the stream stays, and the read is repeated.
    async fn read(&mut self) -> Result<(), Status> {
        if !self.pace.may_read() {
            return Ok(());
        }
        let stats = self.pace.stream().stats();
        stats.log_reads.fetch_add(1, Ordering::Relaxed);
        if std::mem::take(&mut self.live) {
            stats.moved_back.fetch_add(1, Ordering::Relaxed);
        }
        match self.store.read(self.run, self.cursor, PAGE).await {
            Ok(events) if !events.is_empty() => {
                self.pace.recovered();
                let next = (self.cursor + 1..).zip(&events).take_while(|(seq, event)| event.seq == *seq);
                self.make_ready(next.map(|(_, event)| Frame::of(event)));
                return match self.ready.is_empty() {
                    true => Err(errors::gap(self.run, self.cursor, events[0].seq)),
                    false => Ok(()),
                };
            }
            // The head says that there is more: whatever answers lags behind.
            Ok(_) => {}
            Err(error) if error.is_transient() => {
                tracing::debug!(run = %self.run, "cannot read the log: {error}");
            }
            Err(error) => return Err(errors::store(error)),
        }
        self.pace.failed();
        Ok(())
    }

    /// Waits for something to do. Returns a heartbeat when the client has heard nothing for too long.
    async fn wait(&mut self) -> Option<Bytes> {
        self.pace.wait(self.feed.head.changed()).await.then(|| self.heartbeat())
    }

    fn heartbeat(&self) -> Bytes {
        let head_seq = self.feed.hub.head().max(self.cursor).max(self.head);
        frame::encode(Message::Heartbeat(pb::Heartbeat { head_seq, seq: self.cursor }))
    }

    fn close(&mut self, reason: &str) -> Bytes {
        self.closed = true;
        hint(self.cursor, reason)
    }
}

fn hint(after_seq: u64, reason: &str) -> Bytes {
    frame::encode(Message::ResumeHint(pb::ResumeHint { after_seq, reason: reason.to_owned() }))
}
