//! Requests and tokens in a minute, as an operator limits them for a provider.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::settings::Rates;

const MINUTE: Duration = Duration::from_secs(60);
/// Minutes that requests wait at the most for what earlier answers used too much.
const MINUTES_OWED: u64 = 2;
/// A sixth of what a minute allows may come at once; the rest is spread over the minute.
const AT_ONCE: u32 = 6;

/// Time since the limiter was made, on the clock of the runtime, so that tests need not wait.
#[derive(Clone, Debug)]
struct RuntimeClock(Instant);

impl Clock for RuntimeClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A limit in a minute.
struct Limit {
    limiter: RateLimiter<NotKeyed, InMemoryState, RuntimeClock, NoOpMiddleware<Duration>>,
    clock: RuntimeClock,
    at_once: NonZeroU32,
}

impl Limit {
    /// At most `in_a_minute` in any minute, except that one is always possible.
    fn new(in_a_minute: u32) -> Self {
        let at_once = NonZeroU32::new(in_a_minute / AT_ONCE).unwrap_or(NonZeroU32::MIN);
        let spread = in_a_minute.saturating_sub(at_once.get()).max(1);
        let quota = Quota::with_period(MINUTE / spread)
            .unwrap_or_else(|| Quota::per_minute(NonZeroU32::MAX))
            .allow_burst(at_once);
        let clock = RuntimeClock(Instant::now());
        Self { limiter: RateLimiter::direct_with_clock(quota, clock.clone()), clock, at_once }
    }

    /// Waits until `n` of them are free, which are at most as many as may come at once.
    async fn take(&self, n: NonZeroU32) {
        // Never more than `at_once`, so the limiter can always grant it at some time.
        while let Ok(Err(not_yet)) = self.limiter.check_n(n.min(self.at_once)) {
            let wait = not_yet.wait_time_from(self.clock.now());
            tokio::time::sleep(wait.max(Duration::from_millis(1))).await;
        }
    }
}

/// The limits of one provider.
pub(super) struct RateLimits {
    requests: Option<Limit>,
    tokens: Option<TokenLimit>,
}

/// A limit of tokens. How many an answer has is known only after it, so they are taken before the next request.
struct TokenLimit {
    limit: Limit,
    /// Tokens that are still to be taken. The lock makes requests wait in their order.
    owed: Mutex<u64>,
    /// At most so many.
    most_owed: u64,
    /// What answers used beyond what was taken before them; negative if less.
    unsettled: AtomicI64,
}

impl RateLimits {
    pub(super) fn new(rates: Rates) -> Self {
        let tokens = |in_a_minute| TokenLimit {
            limit: Limit::new(in_a_minute),
            owed: Mutex::default(),
            most_owed: u64::from(in_a_minute).saturating_mul(MINUTES_OWED),
            unsettled: AtomicI64::new(0),
        };
        Self { requests: rates.requests.map(Limit::new), tokens: rates.tokens.map(tokens) }
    }

    /// Waits until a request of about `tokens` tokens may be made.
    pub(super) async fn wait(&self, tokens: u64) {
        if let Some(limit) = &self.tokens {
            limit.take(tokens).await;
        }
        if let Some(limit) = &self.requests {
            limit.take(NonZeroU32::MIN).await;
        }
    }

    /// The answer to a request of about `taken` tokens used `used`.
    pub(super) fn settle(&self, taken: u64, used: u64) {
        if let Some(limit) = &self.tokens {
            let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
            limit.unsettled.fetch_add(signed(used).saturating_sub(signed(taken)), Ordering::Relaxed);
        }
    }
}

impl TokenLimit {
    async fn take(&self, tokens: u64) {
        let mut owed = self.owed.lock().await;
        let settled = self.unsettled.swap(0, Ordering::Relaxed);
        // What answers used is bounded, so that one wrong count does not stop everybody.
        *owed = owed.saturating_add_signed(settled.max(0)).min(self.most_owed);
        let credit = settled.min(0).unsigned_abs();
        let mut own = tokens.saturating_sub(credit.saturating_sub(*owed));
        *owed = owed.saturating_sub(credit);
        // A caller that gives up has made no request: its own tokens are owed by nobody.
        while let Some(n) = NonZeroU32::new(u32::try_from(owed.saturating_add(own)).unwrap_or(u32::MAX)) {
            let n = n.min(self.limit.at_once);
            self.limit.take(n).await;
            let paid = u64::from(n.get()).min(*owed);
            *owed -= paid;
            own = own.saturating_sub(u64::from(n.get()) - paid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn seconds(work: impl Future<Output = ()>) -> f64 {
        let begun = Instant::now();
        work.await;
        begun.elapsed().as_secs_f64()
    }

    #[tokio::test(start_paused = true)]
    async fn no_minute_has_more_requests_than_are_allowed() {
        let limits = RateLimits::new(Rates { requests: Some(60), tokens: None });
        let mut made = Vec::new();
        let begun = Instant::now();
        for _ in 0..200 {
            limits.wait(1_000_000).await;
            made.push(begun.elapsed());
        }
        for (i, first) in made.iter().enumerate() {
            let within = made[i..].iter().take_while(|at| **at < *first + MINUTE).count();
            assert!(within <= 60, "{within} in the minute after {first:?}");
        }
        assert!(made[9] < Duration::from_secs(1), "ten may come at once: {:?}", made[9]);
        assert!(made[199] < Duration::from_secs(240), "all that are allowed are made: {:?}", made[199]);
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_are_taken_when_they_are_known() {
        let limits = RateLimits::new(Rates { requests: None, tokens: Some(6_000) });
        assert!(seconds(limits.wait(1_000)).await < 0.1, "a sixth may come at once");
        // The answer had 5,000 tokens more than were taken: a whole minute's.
        limits.settle(1_000, 6_000);
        let waited = seconds(limits.wait(0)).await;
        assert!((55.0..65.0).contains(&waited), "{waited}");
        // Less was used than taken, which is given back.
        let begun = seconds(limits.wait(1_000)).await;
        limits.settle(1_000, 0);
        assert!(begun > 5.0 && seconds(limits.wait(1_000)).await < 0.1, "{begun}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_owes_nothing_and_a_wrong_count_is_bounded() {
        let limits = RateLimits::new(Rates { requests: None, tokens: Some(6_000) });
        for _ in 0..100 {
            let given_up = tokio::time::timeout(Duration::from_millis(10), limits.wait(1_000_000)).await;
            assert!(given_up.is_err());
        }
        let waited = seconds(limits.wait(1_000)).await;
        assert!(waited < 61.0, "{waited}");
        limits.settle(1_000, u64::from(u32::MAX));
        let waited = seconds(limits.wait(1_000)).await;
        assert!((100.0..200.0).contains(&waited), "{waited}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_larger_than_the_limit_waits_and_is_made() {
        let limits = RateLimits::new(Rates { requests: None, tokens: Some(600) });
        let waited = seconds(limits.wait(6_000)).await;
        assert!((600.0..800.0).contains(&waited), "{waited}");
        assert!(seconds(RateLimits::new(Rates::default()).wait(u64::MAX)).await < 0.1, "no limit is set");
    }
}
