//! Streams whose clients read nothing any more: after a while the gateway drops what it keeps for them.
//!
//! HTTP/2 asks a body for parts while its client has room, and holds one or two. A client that reads nothing stops
//! that. Nobody polls the body then, so it cannot end itself. The gateway therefore checks all its streams from time to
//! time. If a stream has not asked for more, or has never asked, it frees the stream's place in the run's window and
//! all that was buffered for it. A small record and the one part that HTTP/2 holds stay. A client that reads again is
//! told where to resume.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::MissedTickBehavior;
use tonic::Status;
use tree_agent_runtime::Metrics;

use super::frame::Messages;

/// Checks within the time after which a stream counts as stalled. A stall is noticed at most a quarter of that time
/// late.
const LOOKS: u32 = 4;

/// The streams of one gateway.
pub(crate) struct Stalls {
    after: Duration,
    /// Number of checks so far, from 1. It serves as a coarse clock, so that streams need not read the real one.
    now: AtomicU64,
    lines: Mutex<Vec<Weak<Line>>>,
    /// Streams dropped so far.
    given_up: AtomicU64,
}

/// The messages of one stream, for as long as they are kept.
pub(crate) struct Line {
    /// When a part was handed out, or the stream began, after which nobody has asked for the next one; 0 if there is
    /// none.
    handed_out: AtomicU64,
    kept: Mutex<Option<Kept>>,
}

/// What is kept for a stream.
pub(crate) struct Kept {
    pub(crate) messages: Messages,
    /// Was ready, but did not fit into the part before.
    pub(crate) held: Option<Option<Result<Bytes, Status>>>,
}

impl Stalls {
    /// Streams count as stalled when they read nothing for `after`.
    pub(crate) fn new(after: Duration) -> Self {
        Self { after, now: AtomicU64::new(1), lines: Mutex::default(), given_up: AtomicU64::new(0) }
    }

    /// Registers its metrics.
    pub(crate) fn measure(self: &Arc<Self>, metrics: &mut Metrics) {
        let stalls = self.clone();
        metrics.counter(
            "tree_agent_gateway_stalled_streams",
            "Streams dropped because their client read nothing",
            move || stalls.given_up.load(Ordering::Relaxed) as f64,
        );
    }

    /// Keeps `messages` for a new stream.
    pub(crate) fn keep(&self, messages: Messages) -> Arc<Line> {
        let handed_out = AtomicU64::new(self.now.load(Ordering::Relaxed));
        let line = Arc::new(Line { handed_out, kept: Mutex::new(Some(Kept { messages, held: None })) });
        locked(&self.lines).push(Arc::downgrade(&line));
        line
    }

    /// Records that `line` has handed out a part.
    pub(crate) fn handed_out(&self, line: &Line) {
        line.handed_out.store(self.now.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Checks all streams for as long as it is polled.
    pub(crate) async fn look_on(&self) {
        let mut tick = tokio::time::interval(self.after / LOOKS);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first is at once.
        tick.tick().await;
        loop {
            tick.tick().await;
            self.look();
        }
    }

    fn look(&self) {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        // A part that was handed out just before a check seems one check older than it is.
        let stalled = |at: u64| at != 0 && now - at > u64::from(LOOKS);
        let (mut given_up, mut ended) = (0, Vec::new());
        locked(&self.lines).retain(|line| {
            let Some(line) = line.upgrade() else { return false };
            let mut kept = locked(&line.kept);
            let stalled = stalled(line.handed_out.load(Ordering::Relaxed));
            if stalled {
                given_up += 1;
                ended.extend(kept.take());
            }
            !stalled
        });
        if given_up > 0 {
            self.given_up.fetch_add(given_up, Ordering::Relaxed);
            let seconds = self.after.as_secs_f64();
            tracing::info!(streams = given_up, seconds, "clients read nothing; their streams are dropped");
        }
    }
}

impl Line {
    /// The client asks for the next part. Returns what is kept, or none if the stream was dropped.
    pub(crate) fn asked(&self) -> MutexGuard<'_, Option<Kept>> {
        let kept = locked(&self.kept);
        self.handed_out.store(0, Ordering::Relaxed);
        kept
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt;

    fn kept(stalls: &Stalls) -> Arc<Line> {
        stalls.keep(futures::stream::pending().boxed())
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_was_handed_out_and_not_gone_on_from_is_given_up() {
        let stalls = Arc::new(Stalls::new(Duration::from_secs(60)));
        let (idle, reads, stalled, gone) = (kept(&stalls), kept(&stalls), kept(&stalls), kept(&stalls));
        let never_asked = kept(&stalls);
        assert!(idle.asked().is_some());
        let looking = stalls.clone();
        tokio::spawn(async move { looking.look_on().await });
        // Lets it start: it checks at full quarters.
        tokio::time::sleep(Duration::from_secs(1)).await;
        stalls.handed_out(&stalled);
        stalls.handed_out(&gone);
        drop(gone);
        for _ in 0..60 {
            stalls.handed_out(&reads);
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(reads.asked().is_some());
        }
        assert!(locked(&stalled.kept).is_some(), "given up too early");
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert!(stalled.asked().is_none() && never_asked.asked().is_none());
        assert!(idle.asked().is_some() && reads.asked().is_some());
        assert_eq!(locked(&stalls.lines).len(), 2);
    }
}
