//! Streams and answers whose clients read nothing any more: after a while the gateway drops what it keeps for them.
//!
//! HTTP/2 asks a body for parts while its client has room, and holds one or two. A client that reads nothing stops
//! that. Nobody polls the body then, so it cannot end itself, and a client that answers pings keeps its connection. So
//! a task looks at each stream from time to time. If the stream has not asked for more, or has never asked, the task
//! frees its place in the run's window and all that was buffered for it. A small record and the one part that HTTP/2
//! holds stay. A client that reads again is told where to resume.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;
use tree_agent_runtime::Metrics;

/// A stall is noticed at most this part of its time late.
const LOOKS: u32 = 4;

/// Gives up the stalled streams of one gateway.
pub(crate) struct Stalls {
    after: Duration,
    given_up: AtomicU64,
}

/// What one client is to read, for as long as it is kept.
pub(crate) struct Line<T>(Mutex<Option<Kept<T>>>);

/// What is kept for a client.
pub(crate) struct Kept<T> {
    pub(crate) unread: T,
    /// When a part was handed out, or the stream began, if nobody has asked for the next part since.
    pub(crate) unasked_since: Option<Instant>,
}

impl Stalls {
    /// Streams count as stalled when they read nothing for `after`.
    pub(crate) fn new(after: Duration) -> Self {
        Self { after, given_up: AtomicU64::new(0) }
    }

    /// Registers its metrics.
    pub(crate) fn measure(self: &Arc<Self>, metrics: &mut Metrics) {
        let stalls = self.clone();
        metrics.counter(
            "tree_agent_gateway_stalled_streams",
            "Streams and answers dropped because their client read nothing",
            move || stalls.given_up.load(Ordering::Relaxed) as f64,
        );
    }

    /// Keeps what a client is to read from now on.
    pub(crate) fn keep<T: Send + 'static>(self: &Arc<Self>, unread: T) -> Arc<Line<T>> {
        let kept = Kept { unread, unasked_since: Some(Instant::now()) };
        let line = Arc::new(Line(Mutex::new(Some(kept))));
        tokio::spawn(self.clone().look_on(Arc::downgrade(&line)));
        line
    }

    /// Looks on until the client has read everything or is given up.
    async fn look_on<T>(self: Arc<Self>, line: Weak<Line<T>>) {
        loop {
            tokio::time::sleep(self.after / LOOKS).await;
            let Some(line) = line.upgrade() else { return };
            if let Some(kept) = line.stalled(self.after) {
                drop(kept);
                self.given_up.fetch_add(1, Ordering::Relaxed);
                // One client may have hundreds. The metric counts them.
                tracing::debug!(
                    seconds = self.after.as_secs_f64(),
                    "a client reads nothing; what was kept for it is dropped"
                );
                return;
            }
        }
    }
}

impl<T> Line<T> {
    /// What is kept; none if it was given up.
    pub(crate) fn kept(&self) -> MutexGuard<'_, Option<Kept<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what is kept if nobody has asked for more for `after`.
    fn stalled(&self, after: Duration) -> Option<Kept<T>> {
        self.kept().take_if(|kept| kept.unasked_since.is_some_and(|since| since.elapsed() >= after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(line: &Line<()>, unasked_since: Option<Instant>) {
        line.kept().as_mut().expect("it is kept").unasked_since = unasked_since;
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_was_handed_out_and_not_gone_on_from_is_given_up() {
        let stalls = Arc::new(Stalls::new(Duration::from_secs(60)));
        let (idle, reads, stalled, gone) =
            (stalls.keep(()), stalls.keep(()), stalls.keep(()), stalls.keep(()));
        let never_asked = stalls.keep(());
        set(&idle, None);
        // The looks come at full quarters.
        tokio::time::sleep(Duration::from_secs(1)).await;
        set(&stalled, Some(Instant::now()));
        drop(gone);
        for _ in 0..59 {
            set(&reads, Some(Instant::now()));
            tokio::time::sleep(Duration::from_secs(1)).await;
            set(&reads, None);
        }
        assert!(stalled.kept().is_some(), "given up too early");
        tokio::time::sleep(Duration::from_secs(16)).await;
        assert!(stalled.kept().is_none() && never_asked.kept().is_none());
        assert!(idle.kept().is_some() && reads.kept().is_some());
        assert_eq!(stalls.given_up.load(Ordering::Relaxed), 2);
    }
}
