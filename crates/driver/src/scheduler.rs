//! Shares the permits for role calls among the runs of a driver.
//!
//! Two rules decide who gets a free permit:
//!
//! 1. A run that has due calls and none in flight comes first. Such runs take turns, so no run waits behind the whole
//!    width of another. A few permits are kept for them.
//! 2. All other permits go to the oldest run with due calls. A run that is nearly done therefore ends before others
//!    spread over the same permits, and the mean time to completion is short.
//!
//! Within a run, the engine says which call comes first.
//!
//! While other drivers have permits to spare, runs that wait here and have no call in flight leave: those that came
//! last, and others as soon as their calls have ended. The kept permits begin no run then, which others can begin.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tree_agent_contract::{RunId, Timestamp};

/// One permit of this many is kept for runs without a call in flight.
const KEPT: usize = 32;

/// One due call may wait for so many permits before runs leave for other drivers.
const QUEUE: usize = 2;

/// The place of a run in the order of age. The number tells two tasks of one run apart.
type Place = (Timestamp, RunId, u64);

/// Hands out the permits of one driver. It is fair to runs and favours the oldest.
#[derive(Debug)]
pub(crate) struct Scheduler {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Permits that nobody holds.
    free: usize,
    /// How many of the free ones only runs without a call in flight may take.
    kept: usize,
    /// Due calls that may wait for permits here before runs leave, so that no permit is idle until others come.
    queue: usize,
    /// Due calls that wait for permits.
    waiting: usize,
    /// Permits that other drivers have to spare, and how many of them no run has left for yet.
    elsewhere: usize,
    offered: usize,
    joined: u64,
    runs: BTreeMap<Place, Demand>,
    /// Runs that want a call and have none, in the order in which they began to wait.
    first: VecDeque<Place>,
    /// Runs that want more calls than they have, oldest first.
    more: BTreeSet<Place>,
}

/// What one run wants and has.
#[derive(Debug, Default)]
struct Demand {
    /// Calls that are due and have not begun.
    due: usize,
    /// Permits that the run was granted and has not taken yet; never more than `due`.
    granted: usize,
    in_flight: usize,
    /// True while the run is in `first`.
    queued: bool,
    /// The run is to look whether it leaves.
    called_off: bool,
    notify: Arc<Notify>,
}

impl Scheduler {
    /// A scheduler of `permits` calls in flight.
    pub(crate) fn new(permits: usize) -> Arc<Self> {
        let state = State { free: permits, kept: permits / KEPT, queue: permits / QUEUE, ..State::default() };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// Registers a run that was created at `created`.
    pub(crate) fn join(self: &Arc<Self>, run: RunId, created: Timestamp) -> Share {
        let mut state = self.state();
        state.joined += 1;
        let place = (created, run, state.joined);
        let notify = Arc::new(Notify::new());
        state.runs.insert(place, Demand { notify: notify.clone(), ..Demand::default() });
        Share { scheduler: self.clone(), place, notify }
    }

    /// Calls that are due and wait for a permit.
    pub(crate) fn waiting(&self) -> usize {
        self.state().waiting
    }

    /// Calls of other drivers that there is room for.
    pub(crate) fn spare(&self) -> usize {
        self.state().spare()
    }

    /// Runs that could begin a call at once, and one that gets the next permit if no other waits for it. None if
    /// another driver would begin them sooner.
    pub(crate) fn startable(&self) -> usize {
        let state = self.state();
        match state.elsewhere > 0 && state.spare() == 0 {
            true => 0,
            false => state.free + usize::from(state.first.is_empty()),
        }
    }

    /// Other drivers have `permits` to spare.
    pub(crate) fn offered(&self, permits: usize) {
        let mut state = self.state();
        (state.elsewhere, state.offered) = (permits, permits);
        if state.spare() > 0 {
            return;
        }
        let State { first, runs, .. } = &mut *state;
        for place in first.iter().rev().take(permits) {
            if let Some(demand) = runs.get_mut(place) {
                demand.called_off = true;
                demand.notify.notify_one();
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn spare(&self) -> usize {
        (self.free + self.queue).saturating_sub(self.kept + self.waiting)
    }

    /// Changes what a run wants or has, and grants what is free then.
    fn change(&mut self, place: Place, change: impl FnOnce(&mut Demand, &mut usize)) {
        let Some(demand) = self.runs.get_mut(&place) else { return };
        let waited = demand.due - demand.granted;
        change(demand, &mut self.free);
        self.waiting = self.waiting + demand.due - demand.granted - waited;
        let wants = demand.due > demand.granted;
        let has_none = demand.granted + demand.in_flight == 0;
        if wants && has_none && !demand.queued {
            demand.queued = true;
            self.first.push_back(place);
        }
        if wants && !has_none {
            self.more.insert(place);
        } else {
            self.more.remove(&place);
        }
        self.grant();
    }

    fn grant(&mut self) {
        while self.free > 0
            && let Some(place) = self.first.pop_front()
        {
            let Some(demand) = self.runs.get_mut(&place) else { continue };
            demand.queued = false;
            // The run may have lost interest, or got a permit by age, since it began to wait.
            if demand.due > demand.granted && demand.granted + demand.in_flight == 0 {
                self.grant_to(place, 1);
            }
        }
        while self.free > self.kept
            && let Some(&place) = self.more.first()
        {
            self.grant_to(place, self.free - self.kept);
        }
    }

    /// Grants at most `most` permits.
    fn grant_to(&mut self, place: Place, most: usize) {
        let Some(demand) = self.runs.get_mut(&place) else { return };
        let granted = most.min(demand.due - demand.granted);
        demand.granted += granted;
        self.free -= granted;
        self.waiting -= granted;
        if demand.due > demand.granted {
            self.more.insert(place);
        } else {
            self.more.remove(&place);
        }
        demand.notify.notify_one();
    }
}

/// The part of one run. Dropping it returns what was granted and not taken.
#[derive(Debug)]
pub(crate) struct Share {
    scheduler: Arc<Scheduler>,
    place: Place,
    notify: Arc<Notify>,
}

impl Share {
    /// Says how many calls are due and have not begun.
    pub(crate) fn ask(&self, due: usize) {
        self.scheduler.state().change(self.place, |demand, free| {
            demand.due = due;
            let surplus = demand.granted.saturating_sub(due);
            demand.granted -= surplus;
            *free += surplus;
        });
    }

    /// Takes every permit that was granted: the run begins as many calls.
    pub(crate) fn take(&self) -> Vec<Permit> {
        let mut taken = 0;
        self.scheduler.state().change(self.place, |demand, _| {
            taken = std::mem::take(&mut demand.granted);
            demand.due -= taken;
            demand.in_flight += taken;
        });
        (0..taken).map(|_| Permit { scheduler: self.scheduler.clone(), place: self.place }).collect()
    }

    /// True if the run is to leave for another driver: it has `due` calls and none in flight, and older ones or all
    /// wait for permits here.
    pub(crate) fn leaves(&self, due: usize) -> bool {
        let mut state = self.scheduler.state();
        let waits = match state.more.first() {
            Some(oldest) => *oldest < self.place,
            None => state.free == 0 && !state.first.is_empty(),
        };
        let leaves = due > 0 && waits && state.offered > 0 && state.spare() == 0;
        state.offered -= if leaves { due.min(state.offered) } else { 0 };
        leaves
    }

    /// Returns when there is something to take, or once when the run may leave. It is safe to drop.
    pub(crate) async fn granted(&self) {
        let look = |demand: &mut Demand| demand.granted == 0 && !std::mem::take(&mut demand.called_off);
        while self.scheduler.state().runs.get_mut(&self.place).is_none_or(look) {
            self.notify.notified().await;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut state = self.scheduler.state();
        state.more.remove(&self.place);
        if let Some(demand) = state.runs.remove(&self.place) {
            state.free += demand.granted;
            state.waiting -= demand.due - demand.granted;
            state.grant();
        }
    }
}

/// The right to have one role call in flight. Dropping it returns it.
#[derive(Debug)]
pub(crate) struct Permit {
    scheduler: Arc<Scheduler>,
    place: Place,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.scheduler.state();
        state.free += 1;
        // The run may have left meanwhile; its permits are free all the same.
        if state.runs.contains_key(&self.place) {
            state.change(self.place, |demand, _| demand.in_flight -= 1);
        } else {
            state.grant();
        }
    }
}

#[cfg(test)]
mod tests;
