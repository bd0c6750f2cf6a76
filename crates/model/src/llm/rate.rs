//! Requests and tokens in a minute, as an operator limits them for a provider.
//!
//! Each limit is a bucket that fills evenly. A request is made once nothing is owed, in the order of the calls. It
//! takes its amount at once and may owe a part of it: those after it wait until that is paid. So a large request waits
//! no longer than a small one.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::failure::{Failure, FailureKind};
use super::settings::Rates;

const MINUTE: f64 = 60.0;
/// Earlier requests and answers may have used more than the limit. The most that is owed, in minutes of the limit.
const MINUTES_OWED: f64 = 2.0;
/// A sixth of what a minute allows may come at once; the rest is spread over the minute.
const AT_ONCE: u32 = 6;

/// What may be used of one limit.
struct Bucket {
    /// The setting.
    variable: &'static str,
    at_once: f64,
    per_second: f64,
    /// What was free at that moment; below zero it is owed.
    free: f64,
    at: Instant,
}

impl Bucket {
    /// At most `in_a_minute` in any minute, except that one is always possible.
    fn new(in_a_minute: u32, variable: &'static str) -> Self {
        let at_once = (in_a_minute / AT_ONCE).max(1);
        let per_second = f64::from(in_a_minute.saturating_sub(at_once).max(1)) / MINUTE;
        Self { variable, at_once: at_once.into(), per_second, free: at_once.into(), at: Instant::now() }
    }

    /// How long a request waits until nothing is owed.
    fn wait(&mut self) -> Duration {
        let now = Instant::now();
        self.add(now.saturating_duration_since(self.at).as_secs_f64() * self.per_second);
        self.at = now;
        let seconds = (1.0 - self.free).max(0.0) / self.per_second;
        Duration::from_millis((seconds * 1_000.0).ceil() as u64)
    }

    /// Adds `amount`, or takes it if it is below zero, and says what was added. What is owed is bounded, so that one
    /// wrong count does not stop everybody.
    fn add(&mut self, amount: f64) -> f64 {
        let least = -MINUTES_OWED * MINUTE * self.per_second;
        let before = self.free;
        self.free = (before + amount).max(least.min(before)).min(self.at_once);
        self.free - before
    }
}

/// The limits of one provider.
pub(super) struct RateLimits {
    /// Of tokens and of requests.
    buckets: Mutex<[Option<Bucket>; 2]>,
}

/// What a request has taken. It is given back if the request is not made.
pub(super) struct Taken<'a> {
    all: &'a RateLimits,
    /// Of tokens, and of requests.
    amounts: [f64; 2],
}

impl Taken<'_> {
    /// The request is made. Says how many tokens were taken for it: fewer than it asked for if too many are owed.
    pub(super) fn keep(mut self) -> f64 {
        std::mem::take(&mut self.amounts)[0]
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        for (bucket, amount) in self.all.lock().iter_mut().zip(self.amounts) {
            if let Some(bucket) = bucket {
                bucket.add(amount);
            }
        }
    }
}

impl RateLimits {
    pub(super) fn new(rates: Rates) -> Self {
        let tokens = rates.tokens.map(|n| Bucket::new(n, "TREE_AGENT_MODEL_TOKENS_PER_MINUTE"));
        let requests = rates.requests.map(|n| Bucket::new(n, "TREE_AGENT_MODEL_REQUESTS_PER_MINUTE"));
        Self { buckets: Mutex::new([tokens, requests]) }
    }

    fn lock(&self) -> MutexGuard<'_, [Option<Bucket>; 2]> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long a request waits; a failure if that is longer than `patience`.
    pub(super) fn check(&self, patience: Duration) -> Result<Duration, Failure> {
        let mut buckets = self.lock();
        let waits = buckets.iter_mut().flatten().map(|bucket| (bucket.wait(), bucket.variable));
        let (wait, variable) = waits.max_by_key(|(wait, _)| *wait).unwrap_or_default();
        if wait <= patience {
            return Ok(wait);
        }
        let message = format!("waits {} s for {variable}", wait.as_secs_f64().ceil());
        Err(Failure::new(FailureKind::Limited, message))
    }

    /// Waits until a request of about `tokens` tokens may be made, but not for longer than `patience`: then it fails at
    /// once.
    pub(super) async fn take(&self, tokens: u64, patience: Duration) -> Result<Taken<'_>, Failure> {
        let wait = self.check(patience)?;
        let mut amounts = [tokens as f64, 1.0];
        for (bucket, amount) in self.lock().iter_mut().zip(&mut amounts) {
            *amount = bucket.as_mut().map_or(0.0, |bucket| -bucket.add(-*amount));
        }
        let taken = Taken { all: self, amounts };
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        Ok(taken)
    }

    /// The answer to a request for which `taken` tokens were taken used `used`.
    pub(super) fn settle(&self, taken: f64, used: u64) {
        if let [Some(tokens), _] = &mut *self.lock() {
            tokens.add(taken - used as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::MAX;

    /// Waits for a request that is made, and says how many seconds that took.
    async fn seconds(limits: &RateLimits, tokens: u64) -> f64 {
        let begun = Instant::now();
        limits.take(tokens, LONG).await.unwrap().keep();
        begun.elapsed().as_secs_f64()
    }

    fn tokens(in_a_minute: u32) -> RateLimits {
        RateLimits::new(Rates { requests: None, tokens: Some(in_a_minute) })
    }

    #[tokio::test(start_paused = true)]
    async fn no_minute_has_more_requests_than_are_allowed() {
        let limits = RateLimits::new(Rates { requests: Some(60), tokens: None });
        let mut made = Vec::new();
        let begun = Instant::now();
        for _ in 0..200 {
            seconds(&limits, 1_000_000).await;
            made.push(begun.elapsed());
        }
        for (i, first) in made.iter().enumerate() {
            let end = *first + Duration::from_secs(60);
            let within = made[i..].iter().take_while(|at| **at < end).count();
            assert!(within <= 60, "{within} in the minute after {first:?}");
        }
        assert!(made[9] < Duration::from_secs(1), "ten may come at once: {:?}", made[9]);
        assert!(made[199] < Duration::from_secs(240), "all that are allowed are made: {:?}", made[199]);
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_are_taken_when_they_are_known() {
        let limits = tokens(6_000);
        assert!(seconds(&limits, 1_000).await < 0.1, "a sixth may come at once");
        // The answer had 5,000 tokens more than were taken: a whole minute's.
        limits.settle(1_000.0, 6_000);
        let waited = seconds(&limits, 0).await;
        assert!((55.0..65.0).contains(&waited), "{waited}");
        // Less was used than taken, which is given back.
        seconds(&limits, 1_000).await;
        limits.settle(1_000.0, 0);
        assert!(seconds(&limits, 1_000).await < 0.1);
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_gives_back_and_a_wrong_count_is_bounded() {
        let limits = tokens(6_000);
        seconds(&limits, 2_000).await;
        for _ in 0..100 {
            let given_up =
                tokio::time::timeout(Duration::from_millis(10), limits.take(1_000_000, LONG)).await;
            assert!(given_up.is_err());
        }
        let waited = seconds(&limits, 0).await;
        assert!((10.0..13.0).contains(&waited), "only for the first: {waited}");
        limits.settle(1_000.0, u64::from(u32::MAX));
        let waited = seconds(&limits, 1_000).await;
        assert!((100.0..200.0).contains(&waited), "{waited}");
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_is_given_back_than_was_taken() {
        let limits = tokens(6_000);
        // A thousand are free, and two minutes may be owed.
        let taken = limits.take(1_000_000, LONG).await.unwrap().keep();
        assert!((10_999.0..11_001.0).contains(&taken), "{taken}");
        limits.settle(taken, 2_000);
        let waited = seconds(&limits, 0).await;
        assert!((11.0..13.0).contains(&waited), "what was used is paid: {waited}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_larger_than_the_limit_is_made_and_the_next_one_pays() {
        let limits = tokens(6_000);
        assert!(seconds(&limits, 6_000).await < 0.1);
        // 5,000 are owed.
        let waited = seconds(&limits, 5_000).await;
        assert!((59.0..61.0).contains(&waited), "{waited}");
        assert!(seconds(&RateLimits::new(Rates::default()), u64::MAX).await < 0.1, "no limit is set");
    }

    #[tokio::test(start_paused = true)]
    async fn who_would_wait_for_long_is_told_at_once_and_takes_nothing() {
        let limits = tokens(6_000);
        seconds(&limits, 2_000).await;
        for _ in 0..100 {
            let begun = Instant::now();
            let refused = limits.take(1_000, Duration::from_secs(5)).await.err().expect("12 s are too long");
            assert_eq!(refused.kind, FailureKind::Limited);
            assert_eq!(refused.message, "waits 13 s for TREE_AGENT_MODEL_TOKENS_PER_MINUTE");
            assert!(begun.elapsed().is_zero());
        }
        tokio::time::advance(Duration::from_secs(8)).await;
        limits.take(1_000, Duration::from_secs(5)).await.expect("5 s are left").keep();
    }
}
