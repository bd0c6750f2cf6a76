//! The gate of a provider: it limits parallel requests and contains the circuit breaker.
//!
//! | circuit | event | next |
//! | --- | --- | --- |
//! | closed | several failures in a row, or a long Retry-After | open |
//! | open | its time is over | half open: one request is a probe |
//! | half open | the probe succeeds | closed |
//! | half open | the probe fails | open |

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::failure::{Failure, FailureKind};
use super::settings::Tuning;

/// The gate of one provider.
pub(super) struct Gate {
    permits: Semaphore,
    circuit: Mutex<Circuit>,
    failures_to_open: u32,
    open_for: Duration,
    requests: AtomicU64,
    failures: AtomicU64,
    refused: AtomicU64,
}

/// Counters of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GateCounts {
    pub(super) requests: u64,
    pub(super) failures: u64,
    /// Requests that were not made because the circuit was open.
    pub(super) refused: u64,
    /// Whether it is open now.
    pub(super) open: bool,
}

#[derive(Default)]
struct Circuit {
    /// Failures in a row.
    failures: u32,
    open_until: Option<Instant>,
    /// A probe is in flight.
    probing: bool,
    /// The message of the failure that opened it.
    why: String,
}

/// Permission to make one request. If it is dropped without an outcome, as by a cancelled call, the next request may
/// be the probe.
pub(super) struct Admission<'a> {
    gate: &'a Gate,
    probing: bool,
    _permit: SemaphorePermit<'a>,
}

impl Gate {
    pub(super) fn new(tuning: &Tuning) -> Self {
        Self {
            permits: Semaphore::new(tuning.concurrency),
            circuit: Mutex::default(),
            failures_to_open: tuning.circuit_failures,
            open_for: tuning.circuit_open,
            requests: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// The counters.
    pub(super) fn counts(&self) -> GateCounts {
        let count = |n: &AtomicU64| n.load(Ordering::Relaxed);
        GateCounts {
            requests: count(&self.requests),
            failures: count(&self.failures),
            refused: count(&self.refused),
            open: self.circuit().open_until.is_some(),
        }
    }

    /// Waits for a permit. Fails while the circuit is open.
    pub(super) async fn admit(&self) -> Result<Admission<'_>, Failure> {
        let refused = |failure| {
            self.refused.fetch_add(1, Ordering::Relaxed);
            failure
        };
        self.check().map_err(refused)?;
        let permit = self.permits.acquire().await.expect("the semaphore is never closed");
        // The circuit may have opened in the meantime.
        let probing = self.check_and_try().map_err(refused)?;
        self.requests.fetch_add(1, Ordering::Relaxed);
        Ok(Admission { gate: self, probing, _permit: permit })
    }

    fn circuit(&self) -> MutexGuard<'_, Circuit> {
        self.circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self) -> Result<(), Failure> {
        let circuit = self.circuit();
        match circuit.open_until {
            Some(until) if circuit.probing || Instant::now() < until => Err(open(&circuit, until)),
            _ => Ok(()),
        }
    }

    fn check_and_try(&self) -> Result<bool, Failure> {
        let mut circuit = self.circuit();
        match circuit.open_until {
            Some(until) if circuit.probing || Instant::now() < until => Err(open(&circuit, until)),
            Some(_) => {
                circuit.probing = true;
                Ok(true)
            }
            None => Ok(false),
        }
    }
}

fn open(circuit: &Circuit, until: Instant) -> Failure {
    let seconds = until.saturating_duration_since(Instant::now()).as_secs_f64().ceil();
    let message = format!("the circuit is open for {seconds} s more after: {}", circuit.why);
    Failure::new(FailureKind::Open, message)
}

impl Admission<'_> {
    /// The provider answered.
    pub(super) fn succeeded(mut self) {
        self.probing = false;
        *self.gate.circuit() = Circuit::default();
    }

    /// The provider failed in a way that says something about its health.
    pub(super) fn failed(mut self, failure: &Failure) {
        self.gate.failures.fetch_add(1, Ordering::Relaxed);
        let mut circuit = self.gate.circuit();
        circuit.failures = circuit.failures.saturating_add(1);
        let asked = failure.retry_after.filter(|&wait| wait > self.gate.open_for);
        if self.probing || circuit.failures >= self.gate.failures_to_open || asked.is_some() {
            if circuit.open_until.is_none() {
                tracing::warn!(failures = circuit.failures, "circuit opened: {}", failure.message);
            }
            circuit.open_until = Some(Instant::now() + asked.unwrap_or(self.gate.open_for));
            circuit.why.clone_from(&failure.message);
        }
        circuit.probing = false;
        drop(circuit);
        self.probing = false;
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if self.probing {
            self.gate.circuit().probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use tree_agent_runtime::config::Problems;

    use super::super::settings::LlmArgs;
    use super::*;

    fn gate() -> Gate {
        let args = LlmArgs {
            model_circuit_failures: "2".into(),
            model_circuit_seconds: "30".into(),
            model_concurrency: "2".into(),
            ..LlmArgs::default()
        };
        Gate::new(&args.check_with(&mut Problems::default(), &|_| None).tuning)
    }

    fn broken() -> Failure {
        Failure::new(FailureKind::Server, "HTTP 500")
    }

    #[tokio::test(start_paused = true)]
    async fn the_circuit_opens_tries_and_closes() {
        let gate = gate();
        gate.admit().await.unwrap().failed(&broken());
        gate.admit().await.unwrap().failed(&broken());
        let refused = gate.admit().await.err().expect("the circuit is open");
        assert_eq!(refused.kind, FailureKind::Open);
        assert!(refused.message.contains("HTTP 500"), "{}", refused.message);

        tokio::time::advance(Duration::from_secs(31)).await;
        let probing = gate.admit().await.expect("one may try");
        assert!(gate.admit().await.is_err(), "only one may try");
        // Cancelled without an outcome: the next one may be the probe.
        drop(probing);
        gate.admit().await.expect("the next may try").failed(&broken());
        assert!(gate.admit().await.is_err(), "it opened again");

        tokio::time::advance(Duration::from_secs(31)).await;
        gate.admit().await.unwrap().succeeded();
        gate.admit().await.unwrap().failed(&broken());
        assert!(gate.admit().await.is_ok(), "failures are counted from the start");
        assert_eq!(gate.counts(), GateCounts { requests: 7, failures: 4, refused: 3, open: false });
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_retry_after_opens_the_circuit_for_that_long() {
        let gate = gate();
        let busy = Failure { retry_after: Some(Duration::from_secs(300)), ..broken() };
        gate.admit().await.unwrap().failed(&busy);
        tokio::time::advance(Duration::from_secs(299)).await;
        assert!(gate.admit().await.is_err());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(gate.admit().await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_requests_are_made_at_a_time() {
        let gate = gate();
        let (_a, b) = (gate.admit().await.unwrap(), gate.admit().await.unwrap());
        let waits = tokio::time::timeout(Duration::from_secs(1), gate.admit()).await;
        assert!(waits.is_err(), "the third waits");
        drop(b);
        assert!(gate.admit().await.is_ok());
    }
}
