//! Gives passages their vectors in the background.

use std::error::Error;
use std::time::Duration;

use async_trait::async_trait;
use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::Embedder;

/// Passages of one step. To find them, a store looks at all passages.
const STEP: usize = 256;
/// Vectors that are put together. What was not put when a process ends is made again.
const BATCH: usize = 32;
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

    /// Up to `limit` texts that have no vector of `model`, with their hashes.
    async fn unembedded(&self, model: &str, limit: usize) -> Result<Vec<(Self::Hash, String)>, StoreFailure>;

    /// Keeps vectors of `model`. One that exists stays.
    async fn put_vectors(&self, model: &str, vectors: Vec<(Self::Hash, Vec<i8>)>)
    -> Result<(), StoreFailure>;
}

/// Makes vectors until every passage has one, sleeps until `wake` is notified or for ten seconds, and begins again;
/// until `ended` is cancelled. While the embedder or the store fails, it waits ever longer and logs that once.
pub async fn run<P: Passages>(
    passages: &P,
    embedder: &dyn Embedder,
    wake: &Notify,
    ended: &CancellationToken,
) {
    ended.run_until_cancelled(work(passages, embedder, wake)).await;
}

async fn work<P: Passages>(passages: &P, embedder: &dyn Embedder, wake: &Notify) {
    let backoff =
        ExponentialBuilder::new().with_min_delay(WAITS.0).with_max_delay(WAITS.1).without_max_times();
    let mut outage = None;
    loop {
        match step(passages, embedder).await {
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
                let waits = outage.get_or_insert_with(|| {
                    tracing::warn!(model = embedder.model(), "passages get no vectors for now: {error}");
                    backoff.build()
                });
                sleep(waits.next().unwrap_or(WAITS.1)).await;
            }
        }
    }
}

/// Gives vectors to some passages and returns their number.
async fn step<P: Passages>(passages: &P, embedder: &dyn Embedder) -> Result<usize, StoreFailure> {
    let mut texts = passages.unembedded(embedder.model(), STEP).await?;
    let count = texts.len();
    while !texts.is_empty() {
        let rest = texts.split_off(texts.len().min(BATCH));
        let (hashes, batch): (Vec<_>, Vec<_>) = texts.into_iter().unzip();
        let vectors = embedder.embed(batch).await?;
        passages.put_vectors(embedder.model(), hashes.into_iter().zip(vectors).collect()).await?;
        texts = rest;
    }
    Ok(count)
}

#[cfg(test)]
mod tests;
