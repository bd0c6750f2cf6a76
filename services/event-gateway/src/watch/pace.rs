//! What all streams have in common: heartbeats, an age, the drain, the end of their token, and retries of reads from
//! the store.

use bytes::Bytes;
use futures::StreamExt;
use tokio::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tree_agent_runtime::retry::backoff;

use super::config::WatchConfig;
use super::service::{Resume, Watched};
use super::stats::Stream;
use crate::auth::Refusal;

/// Makes the messages of one stream, framed for the wire, as fast as its client takes them.
pub(crate) trait Watching: Send + Sized + 'static {
    /// The clock of the stream.
    fn pace(&mut self) -> &mut Pace;

    /// Where to go on when the stream is ended without asking.
    fn resume(&self) -> Resume;

    /// The next message; `None` when the stream ends well. Not called any more after that, after an error, or when the
    /// stream [is over](Pace::over).
    fn step(&mut self) -> impl Future<Output = Option<Result<Bytes, Status>>> + Send;

    /// All messages.
    fn watched(self) -> Watched {
        let resume = self.resume();
        let messages = futures::stream::unfold(self, async |mut watcher| {
            if watcher.pace().closed {
                return watcher.pace().last_word().map(|status| (Err(status), watcher));
            }
            let message = watcher.step().await;
            let pace = watcher.pace();
            pace.last_sent = Instant::now();
            pace.closed |= !matches!(message, Some(Ok(_)));
            message.map(|message| (message, watcher))
        });
        Watched { messages: messages.boxed(), resume }
    }
}

/// Why a stream ends from outside.
pub(crate) struct Until {
    /// The gateway drains.
    pub(crate) drain: CancellationToken,
    /// The token with which the stream was opened expires.
    pub(crate) expires_at: Option<Instant>,
}

/// The clock of one stream.
pub(crate) struct Pace {
    heartbeat: Duration,
    last_sent: Instant,
    close_at: Instant,
    until: Until,
    /// Nothing more will be sent, except why.
    closed: bool,
    /// The resume hint was sent because the token expired.
    expired: bool,
    /// Reads that failed in a row, and when to retry.
    failures: u32,
    retry_at: Option<Instant>,
    /// Counts the stream while it is open.
    stream: Stream,
}

impl Pace {
    pub(super) fn new(config: &WatchConfig, until: Until, stream: Stream) -> Self {
        let now = Instant::now();
        // Jitter, so that streams that began together do not end together.
        let age = config.stream_age.mul_f64(fastrand::f64().mul_add(0.2, 0.9));
        Self {
            heartbeat: config.heartbeat,
            last_sent: now,
            close_at: until.expires_at.map_or(now + age, |expires_at| expires_at.min(now + age)),
            until,
            closed: false,
            expired: false,
            failures: 0,
            retry_at: None,
            stream,
        }
    }

    /// Why the stream must be closed with a resume hint now. Counts the hint, and nothing follows it.
    pub(super) fn over(&mut self) -> Option<&'static str> {
        let now = Instant::now();
        self.expired = self.until.expires_at.is_some_and(|at| now >= at);
        let reason = match () {
            () if self.expired => "token",
            () if self.until.drain.is_cancelled() => "drain",
            () if now >= self.close_at => "age",
            () => return None,
        };
        self.closed = true;
        self.stream.stats().hint(reason);
        Some(reason)
    }

    /// The status with which a closed stream ends; none if it ends without an error.
    fn last_word(&mut self) -> Option<Status> {
        std::mem::take(&mut self.expired).then(|| Refusal::Expired.into())
    }

    /// True unless the next read must wait because the last one failed.
    pub(super) fn may_read(&self) -> bool {
        self.retry_at.is_none_or(|at| Instant::now() >= at)
    }

    /// A read failed: the next one waits.
    pub(super) fn failed(&mut self) {
        self.failures += 1;
        self.retry_at = Some(Instant::now() + backoff(self.failures));
    }

    /// A read succeeded or is not needed any more. This clears the time of the retry: with a time in the past,
    /// [`wait`](Self::wait) would return at once.
    pub(super) fn recovered(&mut self) {
        (self.failures, self.retry_at) = (0, None);
    }

    /// Waits until something has `changed` or is due. True if a heartbeat is due.
    pub(super) async fn wait(&self, changed: impl Future<Output = ()>) -> bool {
        let beat_at = self.last_sent + self.heartbeat;
        let wake_at = [Some(beat_at), Some(self.close_at), self.retry_at].into_iter().flatten().min();
        tokio::select! {
            biased;
            () = self.until.drain.cancelled() => {}
            () = changed => {}
            () = tokio::time::sleep_until(wake_at.unwrap_or(beat_at)) => {}
        }
        Instant::now() >= beat_at && !self.until.drain.is_cancelled()
    }

    /// The counters of the stream.
    pub(super) fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::stats::{Kind, Stats};
    use super::*;

    /// Once, a time of the retry that had passed was kept, and the stream looped without waiting until the next read.
    #[tokio::test(start_paused = true)]
    async fn a_stream_that_has_recovered_waits() {
        let stream = Stream::new(&Arc::new(Stats::default()), Kind::Run);
        let until = Until { drain: CancellationToken::new(), expires_at: None };
        let mut pace = Pace::new(&WatchConfig::default(), until, stream);
        pace.failed();
        assert!(!pace.may_read());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(pace.may_read());
        pace.recovered();
        let began = Instant::now();
        assert!(pace.wait(std::future::pending()).await, "a heartbeat is due");
        assert!(began.elapsed() >= Duration::from_secs(8), "{:?}", began.elapsed());
    }
}
