//! The gate of a provider: it limits parallel requests, requests and tokens in a minute, and contains a circuit breaker
//! for each model.
//!
//! | circuit | event | next |
//! | --- | --- | --- |
//! | closed | several failures in a row, or a long Retry-After | open |
//! | open | its time is over | half open: one request is a probe |
//! | half open | the probe succeeds | closed |
//! | half open | the probe fails | open |
//!
//! A request that began before the circuit opened says nothing new when it ends: its success does not close it, and its
//! failure does not prolong it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::failure::{Failure, FailureKind};
use super::rate::RateLimits;
use super::settings::{Rates, Tuning};

/// A provider that asks for more than this is tried again nevertheless.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);
/// How long the first request of a call waits for the limits in a minute. Beyond that its node says what it waits for.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// The longest wait that requests are held for. If a provider asks for a longer one, its circuit opens.
pub(super) const PAUSE: Duration = Duration::from_secs(20);
/// Circuits that are kept. Runs may name any model of a provider, so those that are closed go first.
const CIRCUITS: usize = 256;

/// The gate of one provider.
pub(super) struct Gate {
    permits: Semaphore,
    limits: RateLimits,
    /// By model. A model without failures has none.
    circuits: Mutex<HashMap<String, Circuit>>,
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
    /// Models whose circuit is open now.
    pub(super) open: usize,
}

#[derive(Default)]
struct Circuit {
    /// Failures in a row.
    failures: u32,
    /// All failures. A new circuit starts with those of the gate, so that it can tell which requests began before it.
    all_failures: u64,
    open_until: Option<Instant>,
    /// A probe is in flight.
    probing: bool,
    /// The provider asked to wait until then, which is not long.
    paused_until: Option<Instant>,
    /// When the next one of those who wait for that may go on.
    next: Option<Instant>,
    /// The message of the failure that opened it, and whether that was a limit.
    why: String,
    is_limit: bool,
    /// The provider has said how long.
    is_asked: bool,
}

/// Permission to make one request. If it is dropped without an outcome, as by a cancelled call, the next request may
/// be the probe.
pub(super) struct Admission<'a> {
    gate: &'a Gate,
    model: &'a str,
    probing: bool,
    /// All failures of the model when the request began.
    failures_before: u64,
    /// Tokens that were taken from the limit.
    tokens: f64,
    _permit: SemaphorePermit<'a>,
}

impl Gate {
    pub(super) fn new(tuning: &Tuning, rates: Rates) -> Self {
        Self {
            permits: Semaphore::new(tuning.concurrency),
            limits: RateLimits::new(rates),
            circuits: Mutex::default(),
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
            open: self.circuits().values().filter(|circuit| circuit.open_until.is_some()).count(),
        }
    }

    /// Waits until a request of about `tokens` tokens to `model` may be made. Fails while the model's circuit is open,
    /// and if the limits in a minute ask to wait for longer than `patience`.
    pub(super) async fn admit<'a>(
        &'a self,
        model: &'a str,
        tokens: u64,
        patience: Duration,
    ) -> Result<Admission<'a>, Failure> {
        let refused = |failure| {
            self.refused.fetch_add(1, Ordering::Relaxed);
            failure
        };
        self.check(model).map_err(refused)?;
        // Nobody needs to wait for a permit to learn that.
        self.limits.check(patience)?;
        let permit = loop {
            let permit = self.permits.acquire().await.expect("the semaphore is never closed");
            let Some(turn) = self.turn(model) else { break permit };
            // Nobody holds a permit while the provider asks to wait.
            drop(permit);
            tokio::time::sleep_until(turn).await;
        };
        // With the permit in hand: what is taken before would come all at once when permits are free again.
        let taken = self.limits.take(tokens, patience).await?;
        // The circuit may have opened in the meantime.
        let (probing, failures_before) = self.check_and_try(model).map_err(refused)?;
        let tokens = taken.keep();
        self.requests.fetch_add(1, Ordering::Relaxed);
        Ok(Admission { gate: self, model, probing, failures_before, tokens, _permit: permit })
    }

    /// What a request waits for if that takes long.
    pub(super) fn long_wait(&self) -> Option<Failure> {
        self.limits.check(PATIENCE).err()
    }

    /// The turn of one more who waits for as long as the provider has asked to; none if there is nothing to wait for.
    /// Those who wait go on one after the other.
    fn turn(&self, model: &str) -> Option<Instant> {
        const APART: Duration = Duration::from_millis(50);
        let mut circuits = self.circuits();
        let circuit = circuits.get_mut(model)?;
        let until = circuit.paused_until.filter(|until| *until > Instant::now())?;
        let mine = circuit.next.map_or(until, |next| next.max(until));
        circuit.next = Some(mine + APART);
        Some(mine)
    }

    fn circuits(&self) -> MutexGuard<'_, HashMap<String, Circuit>> {
        self.circuits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, model: &str) -> Result<(), Failure> {
        self.circuits().get(model).map_or(Ok(()), Circuit::check)
    }

    fn check_and_try(&self, model: &str) -> Result<(bool, u64), Failure> {
        let mut circuits = self.circuits();
        let Some(circuit) = circuits.get_mut(model) else {
            return Ok((false, self.failures.load(Ordering::Relaxed)));
        };
        circuit.check()?;
        circuit.probing = circuit.open_until.is_some();
        Ok((circuit.probing, circuit.all_failures))
    }
}

impl Circuit {
    fn check(&self) -> Result<(), Failure> {
        match self.open_until {
            Some(until) if self.probing || Instant::now() < until => {
                let seconds = until.saturating_duration_since(Instant::now()).as_secs_f64().ceil();
                let message = format!("the circuit is open for {seconds} s more after: {}", self.why);
                // What the provider has said about its end holds for whoever asks in the meantime.
                let retry_after = self.is_asked.then(|| until.saturating_duration_since(Instant::now()));
                let is_limit = self.is_limit;
                Err(Failure { is_limit, retry_after, ..Failure::new(FailureKind::Open, message) })
            }
            _ => Ok(()),
        }
    }
}

impl Admission<'_> {
    /// The provider answered, and used `tokens` tokens, if it says so.
    pub(super) fn succeeded(mut self, tokens: Option<u64>) {
        if let Some(used) = tokens {
            self.gate.limits.settle(self.tokens, used);
        }
        let mut circuits = self.gate.circuits();
        let Some(circuit) = circuits.get_mut(self.model) else { return };
        if std::mem::take(&mut self.probing) {
            circuits.remove(self.model);
        } else if circuit.open_until.is_none() {
            // Failures that came after the request began stay counted.
            let after = circuit.all_failures.saturating_sub(self.failures_before);
            circuit.failures = circuit.failures.min(u32::try_from(after).unwrap_or(u32::MAX));
            if circuit.failures == 0 {
                circuits.remove(self.model);
            }
        }
    }

    /// The provider failed in a way that says something about its health.
    pub(super) fn failed(mut self, failure: &Failure) {
        let earlier = self.gate.failures.fetch_add(1, Ordering::Relaxed);
        let was_probe = std::mem::take(&mut self.probing);
        let mut circuits = self.gate.circuits();
        if circuits.len() >= CIRCUITS {
            circuits.retain(|_, circuit| circuit.open_until.is_some_and(|until| Instant::now() < until));
        }
        let new = || Circuit { all_failures: earlier, ..Circuit::default() };
        let circuit = circuits.entry(self.model.to_owned()).or_insert_with(new);
        circuit.failures = circuit.failures.saturating_add(1);
        circuit.all_failures += 1;
        let asked = failure.retry_after.map(|wait| wait.min(LONGEST_WAIT));
        if let Some(wait) = asked.filter(|wait| *wait <= PAUSE) {
            circuit.paused_until = Some(Instant::now() + wait);
        }
        let asked = asked.filter(|wait| *wait > PAUSE);
        let is_news = circuit.open_until.is_none() || was_probe || asked.is_some();
        let is_enough = circuit.failures >= self.gate.failures_to_open || was_probe || asked.is_some();
        if is_news && is_enough {
            if circuit.open_until.is_none() {
                let (model, failures) = (self.model, circuit.failures);
                tracing::warn!(model, failures, "circuit opened: {}", failure.message);
            }
            circuit.open_until = Some(Instant::now() + asked.unwrap_or(self.gate.open_for));
            circuit.why.clone_from(&failure.message);
            circuit.is_limit = failure.is_limit;
            circuit.is_asked = asked.is_some();
        }
        if was_probe {
            circuit.probing = false;
        }
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if self.probing
            && let Some(circuit) = self.gate.circuits().get_mut(self.model)
        {
            circuit.probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use tree_agent_runtime::config::Problems;

    use super::super::settings::LlmArgs;
    use super::*;

    fn gate() -> Gate {
        gate_with(Rates::default())
    }

    fn gate_with(rates: Rates) -> Gate {
        let args = LlmArgs {
            model_circuit_failures: "2".into(),
            model_circuit_seconds: "30".into(),
            model_concurrency: "2".into(),
            ..LlmArgs::default()
        };
        Gate::new(&args.check_with(&mut Problems::default(), &|_| None).tuning, rates)
    }

    fn broken() -> Failure {
        Failure::new(FailureKind::Server, "HTTP 500")
    }

    #[tokio::test(start_paused = true)]
    async fn the_circuit_opens_tries_and_closes() {
        let gate = gate();
        gate.admit("m", 0, PATIENCE).await.unwrap().failed(&broken());
        gate.admit("m", 0, PATIENCE).await.unwrap().failed(&broken());
        let refused = gate.admit("m", 0, PATIENCE).await.err().expect("the circuit is open");
        assert_eq!(refused.kind, FailureKind::Open);
        assert!(refused.message.contains("HTTP 500"), "{}", refused.message);

        tokio::time::advance(Duration::from_secs(31)).await;
        let probing = gate.admit("m", 0, PATIENCE).await.expect("one may try");
        assert!(gate.admit("m", 0, PATIENCE).await.is_err(), "only one may try");
        // Cancelled without an outcome: the next one may be the probe.
        drop(probing);
        gate.admit("m", 0, PATIENCE).await.expect("the next may try").failed(&broken());
        assert!(gate.admit("m", 0, PATIENCE).await.is_err(), "it opened again");

        tokio::time::advance(Duration::from_secs(31)).await;
        gate.admit("m", 0, PATIENCE).await.unwrap().succeeded(None);
        gate.admit("m", 0, PATIENCE).await.unwrap().failed(&broken());
        assert!(gate.admit("m", 0, PATIENCE).await.is_ok(), "failures are counted from the start");
        assert_eq!(gate.counts(), GateCounts { requests: 7, failures: 4, refused: 3, open: 0 });
    }

    #[tokio::test(start_paused = true)]
    async fn each_model_has_its_own_circuit() {
        let gate = gate();
        for _ in 0..2 {
            gate.admit("broken", 0, PATIENCE).await.unwrap().failed(&broken());
        }
        assert!(gate.admit("broken", 0, PATIENCE).await.is_err());
        gate.admit("healthy", 0, PATIENCE).await.expect("another model is asked").succeeded(None);
        assert!(gate.admit("broken", 0, PATIENCE).await.is_err(), "its success says nothing of the other");
        assert_eq!(gate.counts().open, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_success_that_began_before_does_not_close_the_circuit() {
        let gate = gate();
        let slow = gate.admit("m", 0, PATIENCE).await.unwrap();
        for _ in 0..2 {
            gate.admit("m", 0, PATIENCE).await.unwrap().failed(&broken());
        }
        slow.succeeded(None);
        assert!(gate.admit("m", 0, PATIENCE).await.is_err(), "later failures opened it");

        // Nor does it while the probe is in flight, nor erase what failed after it began.
        tokio::time::advance(Duration::from_secs(31)).await;
        gate.admit("m", 0, PATIENCE).await.unwrap().succeeded(None);
        let slow = gate.admit("m", 0, PATIENCE).await.unwrap();
        gate.admit("m", 0, PATIENCE).await.unwrap().failed(&broken());
        slow.succeeded(None);
        gate.admit("m", 0, PATIENCE).await.unwrap().failed(&broken());
        assert!(
            gate.admit("m", 0, PATIENCE).await.is_err(),
            "two failures since the last request that began and succeeded"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_began_before_neither_prolongs_it_nor_ends_the_probe() {
        let gate = gate();
        gate.admit("m", 0, PATIENCE).await.unwrap().failed(&broken());
        let slow = gate.admit("m", 0, PATIENCE).await.unwrap();
        gate.admit("m", 0, PATIENCE).await.unwrap().failed(&broken());
        tokio::time::advance(Duration::from_secs(31)).await;
        let probe = gate.admit("m", 0, PATIENCE).await.expect("one may try");
        slow.failed(&broken());
        assert!(gate.admit("m", 0, PATIENCE).await.is_err(), "there is one probe only");
        probe.succeeded(None);
        assert!(gate.admit("m", 0, PATIENCE).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_retry_after_opens_the_circuit_for_that_long() {
        let gate = gate();
        let busy = Failure { retry_after: Some(Duration::from_secs(300)), ..broken() };
        gate.admit("m", 0, PATIENCE).await.unwrap().failed(&busy);
        tokio::time::advance(Duration::from_secs(299)).await;
        assert!(gate.admit("m", 0, PATIENCE).await.is_err());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(gate.admit("m", 0, PATIENCE).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_retry_after_is_kept_by_all_and_they_go_on_one_by_one() {
        let gate = gate();
        let busy = Failure { retry_after: Some(Duration::from_secs(5)), ..broken() };
        gate.admit("m", 0, PATIENCE).await.unwrap().failed(&busy);
        let begun = Instant::now();
        let request = || async {
            gate.admit("m", 0, PATIENCE).await.unwrap().succeeded(None);
            begun.elapsed()
        };
        let (first, second) = tokio::join!(request(), request());
        assert!(first >= Duration::from_secs(5) && second > first, "{first:?} {second:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_of_one_model_holds_no_permit() {
        let gate = gate();
        let busy = Failure { retry_after: Some(PAUSE), ..broken() };
        gate.admit("m", 0, PATIENCE).await.unwrap().failed(&busy);
        let begun = Instant::now();
        let waits =
            async { futures::future::join_all((0..4).map(|_| gate.admit("m", 0, PATIENCE))).await.len() };
        let other = async {
            gate.admit("n", 0, PATIENCE).await.unwrap().succeeded(None);
            begun.elapsed()
        };
        let (other, _) = tokio::join!(other, tokio::time::timeout(Duration::from_secs(5), waits));
        assert!(other < Duration::from_secs(1), "{other:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_requests_are_made_at_a_time() {
        let gate = gate();
        let (_a, b) =
            (gate.admit("m", 0, PATIENCE).await.unwrap(), gate.admit("m", 0, PATIENCE).await.unwrap());
        let waits = tokio::time::timeout(Duration::from_secs(1), gate.admit("m", 0, PATIENCE)).await;
        assert!(waits.is_err(), "the third waits");
        drop(b);
        assert!(gate.admit("m", 0, PATIENCE).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn no_burst_follows_when_permits_are_free_again() {
        let gate = gate_with(Rates { requests: Some(60), tokens: None });
        let (a, b) =
            (gate.admit("m", 0, PATIENCE).await.unwrap(), gate.admit("m", 0, PATIENCE).await.unwrap());
        let begun = Instant::now();
        let request = || async {
            let admission = gate.admit("m", 0, Duration::MAX).await.unwrap();
            let at = begun.elapsed();
            admission.succeeded(None);
            at
        };
        let release = async {
            tokio::time::sleep(Duration::from_secs(600)).await;
            drop((a, b));
        };
        let (made, ()) = tokio::join!(futures::future::join_all((0..100).map(|_| request())), release);
        let within = made.iter().filter(|at| **at < Duration::from_secs(660)).count();
        assert!(within <= 60, "{within} of 60 in the first minute");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_made_takes_nothing_from_the_limits() {
        let gate = gate_with(Rates { requests: None, tokens: Some(6_000) });
        let second = gate.admit("m", 0, PATIENCE).await.unwrap();
        gate.admit("m", 1_300, PATIENCE).await.unwrap().failed(&broken());
        // The circuit opens while it waits until nothing is owed.
        let open = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            second.failed(&broken());
        };
        let (waits, ()) = tokio::join!(gate.admit("m", 400, PATIENCE), open);
        assert_eq!(waits.err().expect("it is open").kind, FailureKind::Open);
        let begun = Instant::now();
        gate.admit("n", 0, PATIENCE).await.expect("nothing is owed").succeeded(None);
        assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
        assert_eq!(gate.counts().refused, 1, "only by the circuit");
    }
}
