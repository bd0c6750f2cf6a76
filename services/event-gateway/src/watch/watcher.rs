//! One client of `WatchRun`: a cursor that is moved from the log to the live window and back as needed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tonic::Status;
use tree_agent_contract::RunId;
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::watch_run_response::Message;
use tree_agent_store::Store;

use super::config::WatchConfig;
use super::filter::EventFilter;
use super::frame::{self, Frame};
use super::hub::Taken;
use super::pace::{Pace, Until, Watching};
use super::room::Room;
use super::service::Resume;
use super::stats::{Kind, Stream};
use super::watches::Feed;
use crate::errors;

/// Events read from the log at a time.
const PAGE: usize = 128;
/// Events in a row that do not match the filter, after which the client is told how far the log was looked at.
const SKIPPED: u64 = 500;

/// Where a stream begins, and where it has come to.
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

/// The stream of one client.
pub(crate) struct Watcher {
    feed: Feed,
    store: Arc<dyn Store>,
    at: Start,
    /// The last event that the client has, for whoever ends the stream without asking.
    position: Arc<AtomicU64>,
    /// Events in a row that were not sent.
    skipped: u64,
    /// Taken from the window or the log, not yet sent.
    ready: VecDeque<Frame>,
    caught_up: bool,
    /// What it was sent last came from the window.
    live: bool,
    pace: Pace,
}

impl Watching for Watcher {
    fn pace(&mut self) -> &mut Pace {
        &mut self.pace
    }

    fn resume(&self) -> Resume {
        Resume { position: self.position.clone(), hint: Box::new(hint) }
    }

    async fn step(&mut self) -> Option<Result<Bytes, Status>> {
        if let Some(snapshot) = self.at.snapshot.take() {
            return Some(Ok(snapshot));
        }
        loop {
            if !self.caught_up && self.at.after_seq >= self.at.head {
                self.caught_up = true;
                return Some(Ok(frame::encode(Message::CaughtUp(pb::CaughtUp { seq: self.at.after_seq }))));
            }
            if self.at.ended {
                return None;
            }
            if let Some(reason) = self.pace.over() {
                return Some(Ok(hint(self.at.after_seq, reason)));
            }
            if let Some(frame) = self.ready.pop_front() {
                self.at.after_seq = frame.seq;
                self.position.store(frame.seq, Ordering::Relaxed);
                // A fork may share the end of another run, and go on behind it.
                self.at.ended = frame.seq >= self.at.head && (frame.last || self.at.is_final);
                if self.at.filter.passes(&frame.bytes) {
                    self.skipped = 0;
                    self.pace.stream().deliver();
                    return Some(Ok(frame.bytes));
                }
                self.skipped += 1;
                // So that a client that resumes need not have it all looked at again.
                if self.skipped == SKIPPED || self.at.ended {
                    self.skipped = 0;
                    return Some(Ok(self.heartbeat()));
                }
                continue;
            }
            if let Err(status) = self.fill().await {
                return Some(Err(status));
            }
            if self.ready.is_empty()
                && let Some(heartbeat) = self.wait().await
            {
                return Some(Ok(heartbeat));
            }
        }
    }
}

impl Watcher {
    pub(crate) fn new(
        at: Start,
        feed: Feed,
        store: Arc<dyn Store>,
        config: &WatchConfig,
        until: Until,
    ) -> Self {
        let pace = Pace::new(config, until, Stream::new(&feed.stats, Kind::Run));
        let position = Arc::new(AtomicU64::new(at.after_seq));
        let ready = VecDeque::new();
        Self { feed, store, at, position, skipped: 0, ready, caught_up: false, live: false, pace }
    }

    /// Takes the next events from the window, or from the log when the window does not reach back far enough.
    async fn fill(&mut self) -> Result<(), Status> {
        // Before looking, so that a change in between is not missed.
        self.feed.head.mark_seen();
        self.pace.stream().settle();
        match self.feed.hub.after(self.at.after_seq) {
            Taken::Frames(frames) => {
                self.live = true;
                self.make_ready(frames);
            }
            Taken::Nothing if self.at.after_seq >= self.at.head => {}
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
        match self.store.read(self.at.run, self.at.after_seq, PAGE).await {
            Ok(events) if !events.is_empty() => {
                self.pace.recovered();
                let next =
                    (self.at.after_seq + 1..).zip(&events).take_while(|(seq, event)| event.seq == *seq);
                self.make_ready(next.map(|(_, event)| Frame::of(event)));
                return match self.ready.is_empty() {
                    true => Err(errors::gap(self.at.run, self.at.after_seq, events[0].seq)),
                    false => Ok(()),
                };
            }
            // The head says that there is more: whatever answers lags behind.
            Ok(_) => {}
            Err(error) if error.is_transient() => {
                tracing::debug!(run = %self.at.run, "cannot read the log: {error}");
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
        let head_seq = self.feed.hub.head().max(self.at.after_seq).max(self.at.head);
        frame::encode(Message::Heartbeat(pb::Heartbeat { head_seq, seq: self.at.after_seq }))
    }
}

fn hint(after_seq: u64, reason: &str) -> Bytes {
    frame::encode(Message::ResumeHint(pb::ResumeHint { after_seq, reason: reason.to_owned() }))
}
