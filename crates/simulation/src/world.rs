//! What everything in a simulated world shares: its plan, its dice, its trace, its store and its checks.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tree_agent_contract::{NodeId, RunId, Timestamp};

use crate::check::Checks;
use crate::fanout::Topics;
use crate::flaw::Flaw;
use crate::plan::{Fault, Plan};
use crate::rng::SeededRng;
use crate::store::Model;

/// The time on the store's clock when a world begins.
const BEGINNING: Timestamp = Timestamp(1_763_776_000_000_000);

/// Time that callers may need until they use the store again after it was down: a stream backs off for up to 5 s, and a
/// call that began before may linger for two delays of 3 s.
pub(crate) const RECOVERY: Duration = Duration::from_secs(12);

/// One world.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) dice: SeededRng,
    pub(crate) flaw: Option<Flaw>,
    pub(crate) topics: Topics,
    began: Instant,
    trace: Mutex<String>,
    model: Mutex<Model>,
    checks: Mutex<Checks>,
    troubles: Mutex<FaultState>,
}

/// The state of the world as a whole.
#[derive(Debug, Default)]
struct FaultState {
    healed: bool,
    store_down_until: Option<Instant>,
    fanout_down_until: Option<Instant>,
    /// Labelled points to pass before the driver that passes the next one vanishes.
    kill_at_point: Option<u64>,
}

impl World {
    pub(crate) fn new(plan: Plan, flaw: Option<Flaw>) -> Arc<Self> {
        Arc::new(Self {
            dice: SeededRng::new(plan.seed),
            plan,
            flaw,
            topics: Topics::default(),
            began: Instant::now(),
            trace: Mutex::default(),
            model: Mutex::new(Model::new(flaw)),
            checks: Mutex::default(),
            troubles: Mutex::default(),
        })
    }

    /// The store's clock.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp(BEGINNING.micros() + self.began.elapsed().as_micros() as i64)
    }

    /// Adds a line to the trace.
    pub(crate) fn note(&self, who: &str, what: fmt::Arguments<'_>) {
        use fmt::Write as _;
        let at = self.began.elapsed();
        let mut trace = lock(&self.trace);
        let _ = writeln!(trace, "{:>4}.{:03} {who:<12} {what}", at.as_secs(), at.subsec_millis());
    }

    pub(crate) fn take_trace(&self) -> String {
        std::mem::take(&mut *lock(&self.trace))
    }

    pub(crate) fn model(&self) -> MutexGuard<'_, Model> {
        lock(&self.model)
    }

    /// Never lock this before the model: the model's lock comes first.
    pub(crate) fn checks(&self) -> MutexGuard<'_, Checks> {
        lock(&self.checks)
    }

    /// Records that something happened that must never happen.
    pub(crate) fn violation(&self, text: String) {
        self.note("VIOLATION", format_args!("{text}"));
        self.checks().violations.push(text);
    }

    /// True if `fault` can happen now.
    pub(crate) fn on(&self, fault: Fault) -> bool {
        self.plan.has(fault) && !lock(&self.troubles).healed
    }

    pub(crate) fn heal(&self) {
        let mut troubles = lock(&self.troubles);
        let now = Instant::now();
        let until = troubles.store_down_until.map(|until| until.min(now));
        // Calls that were refused or lost at random may still be waiting to be repeated.
        let until = if self.plan.erratic_store() { Some(now) } else { until };
        *troubles = FaultState { healed: true, store_down_until: until, ..FaultState::default() };
    }

    /// The time since which all callers can use the store again after it was last down; none while it is down or
    /// unreliable.
    pub(crate) fn store_works_since(&self) -> Option<Instant> {
        let troubles = lock(&self.troubles);
        let works = troubles.healed || !self.plan.erratic_store();
        let since = troubles.store_down_until.map_or(self.began, |until| until + RECOVERY);
        works.then_some(since)
    }

    pub(crate) fn healed(&self) -> bool {
        lock(&self.troubles).healed
    }

    pub(crate) fn store_down_for(&self, time: Duration) {
        lock(&self.troubles).store_down_until = Some(Instant::now() + time);
    }

    pub(crate) fn store_is_down(&self) -> bool {
        lock(&self.troubles).store_down_until.is_some_and(|until| Instant::now() < until)
    }

    pub(crate) fn fanout_down_for(&self, time: Duration) {
        lock(&self.troubles).fanout_down_until = Some(Instant::now() + time);
    }

    pub(crate) fn fanout_is_down(&self) -> bool {
        lock(&self.troubles).fanout_down_until.is_some_and(|until| Instant::now() < until)
    }

    pub(crate) fn kill_after_points(&self, points: u64) {
        lock(&self.troubles).kill_at_point = Some(points);
    }

    /// True if the process that passes this point vanishes here.
    pub(crate) fn dies_here(&self) -> bool {
        let mut troubles = lock(&self.troubles);
        match &mut troubles.kill_at_point {
            Some(0) => {
                troubles.kill_at_point = None;
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run's name in traces.
pub(crate) fn run_name(run: RunId) -> String {
    format!("run{}", run.0.as_u128() & 0xff)
}

/// A node's name in traces.
pub(crate) fn node_name(node: NodeId) -> String {
    format!("n{:06x}", node.0.as_u128() >> 104)
}
