//! Gives passages their vectors in the background.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::Embedder;

/// Texts that are taken together. What was not put when a process ends is made again, when it is held no longer.
const BATCH: usize = 32;
/// How long they are held: longer than a slow server takes.
const HOLD: Duration = Duration::from_secs(120);
/// How often all passages are looked at, for those that have vectors of another model only.
const FIND: Duration = Duration::from_secs(3_600);
/// How long the worker sleeps unless it is woken; another process may have written passages.
const IDLE: Duration = Duration::from_secs(10);
/// The shortest and the longest wait after a failure.
const WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Why a store did not answer.
pub type StoreFailure = Box<dyn Error + Send + Sync>;

/// The passages of a store.
#[async_trait]
pub trait Passages: Send + Sync {
    /// What a text is found by.
    type Hash: Send;

    /// Looks for texts that have no vector of `model`.
    async fn find(&self, model: &str) -> Result<(), StoreFailure>;

    /// Takes up to `limit` texts that wait for a vector of `model`, with their hashes. Nobody else gets them while
    /// they are held.
    async fn take(
        &self,
        model: &str,
        limit: usize,
        hold: Duration,
    ) -> Result<Vec<(Self::Hash, String)>, StoreFailure>;

    /// Keeps vectors of `model`. One that exists stays.
    async fn put_vectors(&self, model: &str, vectors: Vec<(Self::Hash, Vec<i8>)>)
    -> Result<(), StoreFailure>;
}

/// How fast texts get their vectors, and whether somebody waits for others.
#[derive(Debug, Default)]
pub struct Pace {
    /// Microseconds of the last texts, each.
    each: AtomicU64,
    /// Those who make vectors that somebody waits for.
    urgent: watch::Sender<usize>,
}

/// While it lives, the worker rests.
#[derive(Debug)]
pub struct Urgent<'a>(&'a Pace);

impl Drop for Urgent<'_> {
    fn drop(&mut self) {
        self.0.urgent.send_modify(|count| *count -= 1);
    }
}

impl Pace {
    /// No text gets one now.
    const NEVER: u64 = u64::MAX;
    /// Before the first one.
    const GUESS: Duration = Duration::from_millis(50);

    /// How long so many texts will take; none while they get no vectors.
    pub fn time_for(&self, texts: u64) -> Option<Duration> {
        match self.each.load(Ordering::Relaxed) {
            Self::NEVER => None,
            0 => Some(Self::GUESS),
            micros => Some(Duration::from_micros(micros)),
        }
        .map(|each| each.saturating_mul(u32::try_from(texts).unwrap_or(u32::MAX)))
    }

    fn took(&self, time: Duration, texts: usize) {
        let each = time.as_micros() as u64 / texts as u64;
        self.each.store(each.clamp(1, Self::NEVER - 1), Ordering::Relaxed);
    }

    fn stopped(&self) {
        self.each.store(Self::NEVER, Ordering::Relaxed);
    }

    /// Lets the worker rest after the texts that it is at: somebody waits for other vectors.
    pub fn urgent(&self) -> Urgent<'_> {
        self.urgent.send_modify(|count| *count += 1);
        Urgent(self)
    }

    async fn calm(&self) {
        // The sender lives as long as this.
        let _ = self.urgent.subscribe().wait_for(|count| *count == 0).await;
    }
}

/// Makes vectors until every passage has one, sleeps until `wake` is notified or for ten seconds, and begins again;
/// until `ended` is cancelled. While the embedder or the store fails, it waits ever longer and logs that once.
pub async fn run<P: Passages>(
    passages: &P,
    embedder: &dyn Embedder,
    wake: &Notify,
    pace: &Pace,
    ended: &CancellationToken,
) {
    ended.run_until_cancelled(work(passages, embedder, wake, pace)).await;
}

async fn work<P: Passages>(passages: &P, embedder: &dyn Embedder, wake: &Notify, pace: &Pace) {
    let backoff =
        ExponentialBuilder::new().with_min_delay(WAITS.0).with_max_delay(WAITS.1).without_max_times();
    let mut outage = None;
    let mut find_at = Instant::now();
    let mut taken = Vec::new();
    loop {
        let done = async {
            if Instant::now() >= find_at {
                find_at = Instant::now() + FIND;
                // Those that wait already need no look.
                if let Err(error) = passages.find(embedder.model()).await {
                    find_at = Instant::now() + FIND / 12;
                    tracing::warn!("passages without vectors cannot be looked for now: {error}");
                }
            }
            step(passages, embedder, pace, &mut taken).await
        };
        match done.await {
            Ok(count) => {
                if outage.take().is_some() {
                    tracing::info!(model = embedder.model(), "passages get vectors again");
                }
                if count == 0 {
                    // Whichever comes first.
                    let _ = timeout(IDLE, wake.notified()).await;
                }
            }
            Err(error) => {
                pace.stopped();
                let waits = outage.get_or_insert_with(|| {
                    tracing::warn!(model = embedder.model(), "passages get no vectors for now: {error}");
                    backoff.build()
                });
                sleep(waits.next().unwrap_or(WAITS.1)).await;
            }
        }
    }
}

/// Gives vectors to some passages and returns their number. After a failure those that were `taken` stay so.
async fn step<P: Passages>(
    passages: &P,
    embedder: &dyn Embedder,
    pace: &Pace,
    taken: &mut Vec<(P::Hash, String)>,
) -> Result<usize, StoreFailure> {
    if taken.is_empty() {
        *taken = passages.take(embedder.model(), BATCH, HOLD).await?;
    }
    let count = taken.len();
    if count > 0 {
        let begun = Instant::now();
        let mut vectors = Vec::with_capacity(count);
        for some in taken.chunks(embedder.at_once()) {
            pace.calm().await;
            vectors.extend(embedder.embed(some.iter().map(|(_, text)| text.clone()).collect()).await?);
        }
        let made = taken.drain(..).map(|(hash, _)| hash).zip(vectors).collect();
        passages.put_vectors(embedder.model(), made).await?;
        pace.took(begun.elapsed(), count);
    }
    Ok(count)
}

#[cfg(test)]
mod tests;
