//! Streams whose clients take nothing any more: what is kept for them is given up after a while.
//!
//! HTTP/2 asks a body for its next part when the one before is on its way. A client that reads nothing stops that, and the
//! body, which nobody polls, cannot end itself. So the gateway looks at all its streams now and then and takes away what
//! is kept for one that has not asked for more: its place in the run's window and the events in hand. What is left is a
//! line of bookkeeping and the one part that HTTP/2 holds. A client that reads on is told where to resume.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tree_agent_runtime::Metrics;

use super::service::Messages;

/// Looks in the time after which a stream counts as stalled: it is noticed a quarter of that time late at most.
const LOOKS: u32 = 4;

/// The streams of one gateway.
pub(crate) struct Stalls {
    after: Duration,
    /// Looks so far, from 1: time enough for what is measured here, and it costs a stream no look at the clock.
    now: AtomicU64,
    lines: Mutex<Vec<Weak<Line>>>,
    /// Streams given up so far.
    given_up: AtomicU64,
}

/// The messages of one stream, for as long as they are kept.
pub(crate) struct Line {
    /// When a part was handed out that nobody has asked to go on from; 0 when there is none.
    handed_out: AtomicU64,
    messages: Mutex<Option<Messages>>,
}

impl Stalls {
    /// Streams count as stalled when they take nothing for as long as `after`.
    pub(crate) fn new(after: Duration) -> Self {
        Self { after, now: AtomicU64::new(1), lines: Mutex::default(), given_up: AtomicU64::new(0) }
    }

    /// Adds what it counts.
    pub(crate) fn measure(self: &Arc<Self>, metrics: &mut Metrics) {
        let stalls = self.clone();
        metrics.counter(
            "tree_agent_gateway_stalled_streams",
            "Streams given up because their clients took nothing any more",
            move || stalls.given_up.load(Ordering::Relaxed) as f64,
        );
    }

    /// Keeps `messages` for a stream that begins now.
    pub(crate) fn keep(&self, messages: Messages) -> Arc<Line> {
        let line = Arc::new(Line { handed_out: AtomicU64::new(0), messages: Mutex::new(Some(messages)) });
        locked(&self.lines).push(Arc::downgrade(&line));
        line
    }

    /// Notes that `line` has handed a part out.
    pub(crate) fn handed_out(&self, line: &Line) {
        line.handed_out.store(self.now.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Looks at all streams for as long as it is polled.
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
        // What was handed out just before a look is a look younger than it seems.
        let stalled = |at: u64| at != 0 && now - at > u64::from(LOOKS);
        let (mut given_up, mut ended) = (0, Vec::new());
        locked(&self.lines).retain(|line| {
            let Some(line) = line.upgrade() else { return false };
            let mut messages = locked(&line.messages);
            let stalled = stalled(line.handed_out.load(Ordering::Relaxed));
            if stalled {
                given_up += 1;
                ended.extend(messages.take());
            }
            !stalled
        });
        if given_up > 0 {
            self.given_up.fetch_add(given_up, Ordering::Relaxed);
            let seconds = self.after.as_secs_f64();
            tracing::info!(streams = given_up, seconds, "clients take nothing; their streams are given up");
        }
    }
}

impl Line {
    /// Somebody asks for the next part: its messages, or none when the stream was given up.
    pub(crate) fn asked(&self) -> MutexGuard<'_, Option<Messages>> {
        let messages = locked(&self.messages);
        self.handed_out.store(0, Ordering::Relaxed);
        messages
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
        let looking = stalls.clone();
        tokio::spawn(async move { looking.look_on().await });
        // Lets it begin: its looks are at full quarters.
        tokio::time::sleep(Duration::from_secs(1)).await;
        stalls.handed_out(&stalled);
        stalls.handed_out(&gone);
        drop(gone);
        for _ in 0..60 {
            stalls.handed_out(&reads);
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(reads.asked().is_some());
        }
        assert!(locked(&stalled.messages).is_some(), "given up too early");
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert!(stalled.asked().is_none());
        assert!(idle.asked().is_some() && reads.asked().is_some());
        assert_eq!(locked(&stalls.lines).len(), 2);
    }
}
