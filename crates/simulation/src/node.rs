//! A process of the simulated world, which can be cut off, frozen or killed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tree_agent_contract::{RunId, Timestamp};
use tree_agent_driver::Clock;

use crate::world::{RECOVERY, World};

/// One life of one process. A restarted process is another node.
pub(crate) struct Node {
    /// Unique, such as `driver1.2` for the second life of the first driver.
    pub(crate) name: String,
    pub(crate) world: Arc<World>,
    /// Offset of its clock in microseconds.
    clock_off: AtomicI64,
    /// Cancelled when the process has vanished.
    pub(crate) gone: CancellationToken,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    task: Option<AbortHandle>,
    frozen_until: Option<Instant>,
    wedged_until: Option<Instant>,
    cut_until: Option<Instant>,
    /// Runs whose tasks hang, and since when.
    hung: BTreeMap<RunId, Instant>,
}

impl Node {
    pub(crate) fn new(name: String, world: Arc<World>, clock_off: i64) -> Arc<Self> {
        let clock_off = AtomicI64::new(clock_off);
        Arc::new(Self { name, world, clock_off, gone: CancellationToken::new(), state: Mutex::default() })
    }

    pub(crate) fn clock_off(&self) -> i64 {
        self.clock_off.load(Ordering::Relaxed)
    }

    /// Sets its clock while it runs.
    pub(crate) fn set_clock(&self, off: i64) {
        self.world.note(&self.name, format_args!("its clock is set to {} s", off / 1_000_000));
        self.clock_off.store(off, Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task to end when the process vanishes.
    pub(crate) fn runs_in(&self, task: AbortHandle) {
        self.state().task = Some(task);
    }

    /// Ends the process as SIGKILL does: nothing of it continues, and what it had not yet sent is never sent.
    pub(crate) fn kill(&self, why: &str) {
        if self.is_gone() {
            return;
        }
        self.world.note(&self.name, format_args!("killed {why}"));
        self.gone.cancel();
        if let Some(task) = self.state().task.take() {
            task.abort();
        }
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.is_cancelled()
    }

    pub(crate) fn freeze(&self, time: Duration) {
        self.world.note(&self.name, format_args!("stands still for {} ms", time.as_millis()));
        self.state().frozen_until = Some(Instant::now() + time);
    }

    pub(crate) fn wedge(&self, time: Duration) {
        self.world.note(&self.name, format_args!("appends and reads hang for {} ms", time.as_millis()));
        self.state().wedged_until = Some(Instant::now() + time);
    }

    pub(crate) fn cut(&self, time: Duration) {
        self.world.note(&self.name, format_args!("cut off from the store for {} ms", time.as_millis()));
        self.state().cut_until = Some(Instant::now() + time);
    }

    /// Ends every fault of this process except death.
    pub(crate) fn heal(&self) {
        let now = Instant::now();
        let state = &mut *self.state();
        for until in [&mut state.frozen_until, &mut state.wedged_until, &mut state.cut_until] {
            *until = until.map(|at| at.min(now));
        }
    }

    pub(crate) fn is_cut(&self) -> bool {
        is_on(self.state().cut_until)
    }

    /// Since when it reaches the store again, as in [`World::store_works_since`]; none if it has vanished.
    pub(crate) fn reaches_store_since(&self) -> Option<Instant> {
        let store = self.world.store_works_since().filter(|_| !self.is_gone())?;
        Some(self.state().cut_until.map_or(store, |until| store.max(until + RECOVERY)))
    }

    /// True if nothing prevents it from working.
    pub(crate) fn is_healthy(&self) -> bool {
        let state = self.state();
        !self.is_gone()
            && [state.frozen_until, state.wedged_until, state.cut_until]
                .into_iter()
                .all(|until| !is_on(until))
    }

    /// True if it is frozen or cannot reach the store.
    pub(crate) fn is_stuck(&self) -> bool {
        let state = self.state();
        is_on(state.frozen_until) || is_on(state.cut_until)
    }

    /// Since when the task of `run` hangs.
    pub(crate) fn hangs_since(&self, run: RunId) -> Option<Instant> {
        self.state().hung.get(&run).copied()
    }

    /// Waits until the process may continue: not while it is frozen, and never once it has vanished.
    pub(crate) async fn pass(&self) {
        loop {
            if self.is_gone() {
                std::future::pending::<()>().await;
            }
            // It can be healed before the freeze would have ended.
            let until = self.state().frozen_until.filter(|at| Instant::now() < *at);
            let Some(until) = until else { return };
            tokio::time::sleep_until(until.min(Instant::now() + Duration::from_millis(200))).await;
        }
    }

    /// Where the tasks of `runs` hang while the process is stuck.
    pub(crate) async fn pass_wedge(&self, runs: &[RunId]) {
        while is_on(self.state().wedged_until) {
            for run in runs {
                self.state().hung.entry(*run).or_insert_with(Instant::now);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        self.state().hung.retain(|run, _| !runs.contains(run));
    }

    /// A labelled point: the process may vanish exactly here.
    pub(crate) async fn point(&self, label: &str) {
        if self.name.starts_with("driver") && self.world.dies_here() {
            self.kill(label);
        }
        self.pass().await;
    }
}

fn is_on(until: Option<Instant>) -> bool {
    until.is_some_and(|at| Instant::now() < at)
}

/// The clock of a process: the world's clock plus an offset.
pub(crate) struct NodeClock(pub(crate) Arc<Node>);

impl Clock for NodeClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.world.now().micros() + self.0.clock_off())
    }
}
