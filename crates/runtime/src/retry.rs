//! The pauses between attempts, and waits for a dependency that a service cannot work without.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use crate::errors::chain;
use crate::readiness::Readiness;

const FIRST: Duration = Duration::from_millis(100);
const LAST: Duration = Duration::from_secs(5);

/// The backoff before retry number `attempt` (from 1), from 100 ms to 5 s; see [`backoff_within`].
pub fn backoff(attempt: u32) -> Duration {
    backoff_within(FIRST, LAST, attempt)
}

/// The backoff before retry number `attempt` (from 1). It doubles from `first` to `last`. Of that it is a random part
/// between half and all, so that replicas and clients do not retry at the same time.
pub fn backoff_within(first: Duration, last: Duration, attempt: u32) -> Duration {
    let full = first.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(last);
    full.mul_f64(fastrand::f64().mul_add(0.5, 0.5))
}

/// Calls `connect` until it succeeds or fails with an error that is not `transient`: waiting helps if a server is
/// unreachable, not if its URL is malformed. Meanwhile `dependency` is red in `readiness`, and the reason is logged. It
/// never gives up by itself, so callers race it against shutdown.
pub async fn until_connected<T, E, F>(
    readiness: &Readiness,
    dependency: &'static str,
    transient: impl Fn(&E) -> bool,
    mut connect: F,
) -> Result<T, E>
where
    E: std::error::Error + 'static,
    F: AsyncFnMut() -> Result<T, E>,
{
    readiness.require(dependency).await;
    let mut attempt = 0;
    loop {
        match connect().await {
            Ok(connected) => {
                readiness.set(dependency, Ok(())).await;
                return Ok(connected);
            }
            Err(error) if !transient(&error) => return Err(error),
            Err(error) => {
                attempt += 1;
                let delay = backoff(attempt);
                let error = chain(&error);
                readiness.set(dependency, Err(error.clone())).await;
                if attempt == 1 {
                    tracing::warn!(dependency, "cannot connect, and tries on: {error}");
                }
                tracing::debug!(
                    dependency,
                    attempt,
                    retry_in_ms = delay.as_millis() as u64,
                    "cannot connect: {error}"
                );
                tokio::time::sleep(delay).await;
            }
        }
    }
}

/// Checks a dependency periodically and keeps `readiness` up to date. Runs until it is dropped.
pub async fn watch<E, F, Fut>(readiness: Readiness, dependency: &'static str, every: Duration, check: F)
where
    E: Display,
    F: Fn() -> Fut,
    Fut: Future<Output = Result<(), E>>,
{
    loop {
        let outcome = match tokio::time::timeout(every.max(Duration::from_secs(2)), check()).await {
            Ok(outcome) => outcome.map_err(|e| e.to_string()),
            Err(_) => Err("does not answer".to_owned()),
        };
        readiness.set(dependency, outcome).await;
        tokio::time::sleep(every).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_and_is_bounded() {
        let first = Duration::from_millis(200);
        for (attempt, full) in [(1, first), (2, first * 2), (3, first * 4), (50, LAST), (u32::MAX, LAST)] {
            let delay = backoff_within(first, LAST, attempt);
            assert!(delay >= full / 2 && delay <= full, "{attempt}: {delay:?}");
        }
        assert!(backoff(1) <= FIRST);
    }

    #[tokio::test]
    async fn retried_until_it_works_and_red_until_then() {
        let readiness = Readiness::new();
        let mut left = 3;
        let watched = readiness.clone();
        let got = until_connected(
            &readiness,
            "store",
            |_| true,
            async || {
                if left == 0 {
                    return Ok(7);
                }
                left -= 1;
                assert!(watched.reason().await.is_some());
                Err(std::io::Error::other("refused"))
            },
        )
        .await;
        assert_eq!(got.unwrap(), 7);
        assert_eq!(readiness.reason().await, None);
    }

    #[tokio::test]
    async fn what_waiting_cannot_mend_is_said_at_once() {
        let got: Result<(), _> = until_connected(
            &Readiness::new(),
            "store",
            |_| false,
            async || Err(std::io::Error::other("bad URL")),
        )
        .await;
        assert_eq!(got.unwrap_err().to_string(), "bad URL");
    }
}
