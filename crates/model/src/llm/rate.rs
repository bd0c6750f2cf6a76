//! Requests and tokens in a minute, as an operator limits them for a provider.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::failure::{Failure, FailureKind};
use super::settings::Rates;

const MINUTE: Duration = Duration::from_secs(60);
/// Earlier requests and answers may have used more than the limit. The most that is owed, in minutes of the limit.
const MINUTES_OWED: f64 = 2.0;
/// A sixth of what a minute allows may come at once; the rest is spread over the minute.
const AT_ONCE: u32 = 6;
/// How long a refused caller may take to come again. The engine calls again within five seconds.
const COMES_AGAIN: Duration = Duration::from_secs(15);

/// A limit in a minute. A request takes its amount if as much is free, and may owe what exceeds the amount that may
/// come at once: it is paid before the next request.
struct Limit {
    /// The setting.
    variable: &'static str,
    at_once: f64,
    per_second: f64,
    /// What was free at that moment; below zero it is owed.
    free: f64,
    at: Instant,
    /// What a refused caller needs, until it has had the time to come again. Else smaller requests would take it as it
    /// comes, and a large one would never be made.
    saved: Option<(f64, Instant)>,
}

impl Limit {
    /// At most `in_a_minute` in any minute, except that one is always possible.
    fn new(in_a_minute: u32, variable: &'static str) -> Self {
        let at_once = (in_a_minute / AT_ONCE).max(1);
        let spread = in_a_minute.saturating_sub(at_once).max(1);
        Self {
            variable,
            at_once: at_once.into(),
            per_second: f64::from(spread) / MINUTE.as_secs_f64(),
            free: at_once.into(),
            at: Instant::now(),
            saved: None,
        }
    }

    /// How long a request of `amount` waits for its turn, behind those that wait already.
    fn wait(&mut self, amount: f64) -> Duration {
        let now = Instant::now();
        self.add(now.saturating_duration_since(self.at).as_secs_f64() * self.per_second);
        self.at = now;
        self.saved = self.saved.filter(|(_, until)| now < *until);
        let needed = amount.min(self.at_once).max(self.saved.map_or(0.0, |(saved, _)| saved));
        let seconds = (needed - self.free).max(0.0) / self.per_second;
        Duration::from_millis((seconds * 1_000.0).ceil() as u64)
    }

    fn add(&mut self, amount: f64) {
        self.free = (self.free + amount).min(self.at_once);
    }

    /// Takes `amount`, and says what was taken. What is owed is bounded, so that one wrong count does not stop
    /// everybody.
    fn take(&mut self, amount: f64) -> f64 {
        let most_owed = MINUTES_OWED * MINUTE.as_secs_f64() * self.per_second;
        let taken = amount.min((self.free + most_owed).max(0.0));
        self.free -= taken;
        taken
    }

    /// A request of `amount` is made now, or is refused and comes again.
    fn decided(&mut self, amount: f64, is_refused: bool) {
        let needed = amount.min(self.at_once);
        if self.saved.is_none_or(|(saved, _)| saved <= needed) {
            self.saved = is_refused.then(|| (needed, Instant::now() + COMES_AGAIN));
        }
    }
}

/// The limits of one provider.
pub(super) struct RateLimits {
    limits: Mutex<Limits>,
}

struct Limits {
    requests: Option<Limit>,
    tokens: Option<Limit>,
}

impl Limits {
    /// The limits that are set, each with the amount of a request of `tokens` tokens.
    fn of(&mut self, tokens: u64) -> impl Iterator<Item = (&mut Limit, f64)> {
        let tokens = self.tokens.iter_mut().map(move |limit| (limit, tokens as f64));
        tokens.chain(self.requests.iter_mut().map(|limit| (limit, 1.0)))
    }

    /// How long a request waits, and for which setting.
    fn wait(&mut self, tokens: u64) -> (Duration, &'static str) {
        let waits = self.of(tokens).map(|(limit, amount)| (limit.wait(amount), limit.variable));
        waits.max_by_key(|(wait, _)| *wait).unwrap_or_default()
    }
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
        let [tokens, _] = std::mem::take(&mut self.amounts);
        tokens
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let [tokens, requests] = self.amounts;
        let mut limits = self.all.lock();
        limits.tokens.iter_mut().for_each(|limit| limit.add(tokens));
        limits.requests.iter_mut().for_each(|limit| limit.add(requests));
    }
}

impl RateLimits {
    pub(super) fn new(rates: Rates) -> Self {
        let limit = |n: Option<u32>, variable| n.map(|n| Limit::new(n, variable));
        let requests = limit(rates.requests, "TREE_AGENT_MODEL_REQUESTS_PER_MINUTE");
        let tokens = limit(rates.tokens, "TREE_AGENT_MODEL_TOKENS_PER_MINUTE");
        Self { limits: Mutex::new(Limits { requests, tokens }) }
    }

    fn lock(&self) -> MutexGuard<'_, Limits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A failure if a request of about `tokens` tokens would wait for longer than `patience`. Whoever is refused is
    /// expected to come again.
    pub(super) fn check(&self, tokens: u64, patience: Duration) -> Result<(), Failure> {
        let mut limits = self.lock();
        let (wait, variable) = limits.wait(tokens);
        if wait <= patience {
            return Ok(());
        }
        limits.of(tokens).for_each(|(limit, amount)| limit.decided(amount, true));
        let message = format!("waits {} s for {variable}", wait.as_secs_f64().ceil());
        Err(Failure::new(FailureKind::Limited, message))
    }

    /// Waits until a request of about `tokens` tokens may be made, but not for longer than `patience`: then it fails at
    /// once. Requests are made in the order of their calls.
    pub(super) async fn take(&self, tokens: u64, patience: Duration) -> Result<Taken<'_>, Failure> {
        self.check(tokens, patience)?;
        let (wait, taken) = {
            let mut limits = self.lock();
            let (wait, _) = limits.wait(tokens);
            let take = |limit: &mut Limit, amount| {
                limit.decided(amount, false);
                limit.take(amount)
            };
            let Limits { requests, tokens: of_tokens } = &mut *limits;
            let amounts = [
                of_tokens.as_mut().map_or(0.0, |limit| take(limit, tokens as f64)),
                requests.as_mut().map_or(0.0, |limit| take(limit, 1.0)),
            ];
            (wait, Taken { all: self, amounts })
        };
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        Ok(taken)
    }

    /// The answer to a request for which `taken` tokens were taken used `used`.
    pub(super) fn settle(&self, taken: f64, used: u64) {
        if let Some(limit) = &mut self.lock().tokens {
            match used as f64 - taken {
                more if more > 0.0 => drop(limit.take(more)),
                less => limit.add(-less),
            }
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
            let within = made[i..].iter().take_while(|at| **at < *first + MINUTE).count();
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
        let begun = seconds(&limits, 1_000).await;
        limits.settle(1_000.0, 0);
        assert!(begun > 5.0 && seconds(&limits, 1_000).await < 0.1, "{begun}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_gives_back_and_a_wrong_count_is_bounded() {
        let limits = tokens(6_000);
        seconds(&limits, 1_000).await;
        for _ in 0..100 {
            let given_up =
                tokio::time::timeout(Duration::from_millis(10), limits.take(1_000_000, LONG)).await;
            assert!(given_up.is_err());
        }
        let waited = seconds(&limits, 1_000).await;
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
        limits.settle(taken, 1_000);
        let waited = seconds(&limits, 1_000).await;
        assert!((11.0..13.0).contains(&waited), "what was used is paid: {waited}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_larger_than_the_limit_is_made_and_the_next_one_pays() {
        let limits = tokens(6_000);
        assert!(seconds(&limits, 5_000).await < 0.1);
        // 4,000 are owed, and the next request needs all that may come at once.
        let waited = seconds(&limits, 5_000).await;
        assert!((59.0..61.0).contains(&waited), "{waited}");
        assert!(seconds(&RateLimits::new(Rates::default()), u64::MAX).await < 0.1, "no limit is set");
    }

    #[tokio::test(start_paused = true)]
    async fn who_would_wait_for_long_is_told_at_once_and_takes_nothing() {
        let limits = tokens(6_000);
        seconds(&limits, 1_000).await;
        for _ in 0..100 {
            let begun = Instant::now();
            let refused = limits.take(1_000, Duration::from_secs(5)).await.err().expect("12 s are too long");
            assert_eq!(refused.kind, FailureKind::Limited);
            assert_eq!(refused.message, "waits 12 s for TREE_AGENT_MODEL_TOKENS_PER_MINUTE");
            assert!(begun.elapsed().is_zero());
        }
        tokio::time::advance(Duration::from_secs(8)).await;
        limits.take(1_000, Duration::from_secs(5)).await.expect("4 s are left").keep();
    }

    /// Small requests, however many, leave a large one its turn.
    #[tokio::test(start_paused = true)]
    async fn a_large_request_that_comes_again_is_made_among_small_ones() {
        let limits = tokens(6_000);
        let patience = Duration::from_secs(5);
        let begun = Instant::now();
        let (mut small, mut large) = (0, 0);
        let mut tries_at = begun;
        while begun.elapsed() < 10 * MINUTE {
            if let Ok(Ok(taken)) = tokio::time::timeout(Duration::ZERO, limits.take(50, patience)).await {
                taken.keep();
                small += 1;
            }
            if Instant::now() >= tries_at {
                tries_at = Instant::now() + patience;
                if let Ok(taken) = limits.take(1_000, patience).await {
                    taken.keep();
                    large += 1;
                }
            }
            tokio::time::advance(Duration::from_millis(100)).await;
        }
        assert!(large >= 10 && small >= 10, "{large} large and {small} small ones");
        assert!(1_000 * large + 50 * small <= 52_000, "{large} large and {small} small ones");
    }
}
