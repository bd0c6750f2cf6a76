//! The driver's lease, and the task that renews it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tree_agent_store::{Leases, Renewed, Store, StoreError};

use crate::scheduler::Scheduler;

/// Renewals in flight. They are sent on time, also while earlier ones are not answered.
const IN_FLIGHT: usize = 64;
/// What the loop and the task that renews know of the lease.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    state: Mutex<LeaseState>,
    /// Notified when another term must begin.
    lapsed: Notify,
}

#[derive(Debug, Default)]
struct LeaseState {
    /// The current term; none before the first.
    term: Option<u64>,
    /// It is not known which runs are owned, so another term must begin.
    uncertain: bool,
    /// Permits that the next renewal offers to runs of others. The loop of the driver says how many, again and again,
    /// so that one that is stuck offers none.
    spare: usize,
    /// Renewals that are not answered yet, and when they were sent.
    sent: BTreeMap<u64, Instant>,
    /// How long the last answer took.
    took: Duration,
    /// Since when every renewal has been answered.
    answered_since: Option<Instant>,
    /// When the last one was.
    answered_at: Option<Instant>,
}

impl Lease {
    fn state(&self) -> MutexGuard<'_, LeaseState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The term in which runs can be claimed; none if another one must begin first.
    pub(crate) fn term(&self) -> Option<u64> {
        let state = self.state();
        state.term.filter(|_| !state.uncertain)
    }

    /// A claim may have taken runs that the driver does not know of.
    pub(crate) fn doubt(&self) {
        self.state().uncertain = true;
    }

    pub(crate) fn begin(&self, term: u64) {
        let mut state = self.state();
        (state.term, state.uncertain) = (Some(term), false);
    }

    /// The driver has `spare` permits, and no run to claim for them.
    pub(crate) fn offer(&self, spare: usize) {
        self.state().spare = spare;
    }

    /// Returns once another term must begin.
    pub(crate) async fn lapsed(&self) {
        self.lapsed.notified().await;
    }

    /// How long the store has answered renewals without a break of `ttl`, and how long it takes for one. None while it
    /// does not answer: then nobody can tell a task that hangs from one that waits like everybody. A process that was
    /// frozen has had no answers either, and its tasks no time.
    pub(crate) fn answering(&self, ttl: Duration) -> Option<(Duration, Duration)> {
        let state = self.state();
        state.answered_at.filter(|at| at.elapsed() < ttl)?;
        let waits = state.sent.values().next().map(Instant::elapsed).unwrap_or_default();
        state.answered_since.map(|since| (since.elapsed(), state.took.max(waits)))
    }

    /// Renews the lease three times in its length, for as long as the driver runs. A renewal waits for nothing: not for
    /// claims, commands or replays, and not for the answer to the one before. It tells other drivers which permits are
    /// to spare here, and the scheduler which are to spare there.
    pub(crate) async fn keep(
        self: Arc<Self>,
        store: Arc<dyn Store>,
        driver: String,
        ttl: Duration,
        scheduler: Arc<Scheduler>,
    ) {
        let mut timer = tokio::time::interval(ttl / 3);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut renewals: JoinSet<(u64, u64, Result<Renewed, StoreError>)> = JoinSet::new();
        let mut number = 0;
        loop {
            tokio::select! {
                biased;
                Some(done) = renewals.join_next(), if !renewals.is_empty() => {
                    let Ok((number, term, answer)) = done else { continue };
                    scheduler.offered(answer.as_ref().map_or(0, |renewed| renewed.spare));
                    if self.answered(number, term, ttl, &answer) {
                        // The store may be back sooner than the next renewal is due.
                        timer.reset_after((ttl / 10).min(Duration::from_millis(500)));
                    }
                }
                _ = timer.tick() => {
                    let Some(term) = self.state().term else { continue };
                    if renewals.len() == IN_FLIGHT {
                        continue;
                    }
                    number += 1;
                    let spare = self.sent(number);
                    let (store, driver) = (store.clone(), driver.clone());
                    renewals.spawn(async move {
                        (number, term, Leases::renew(&*store, &driver, term, ttl, spare).await)
                    });
                }
            }
        }
    }

    /// Notes that a renewal is sent. Returns what it offers.
    fn sent(&self, number: u64) -> usize {
        let mut state = self.state();
        state.sent.insert(number, Instant::now());
        std::mem::take(&mut state.spare)
    }

    /// Notes the answer to a renewal. True if there was none.
    fn answered(&self, number: u64, term: u64, ttl: Duration, answer: &Result<Renewed, StoreError>) -> bool {
        let mut state = self.state();
        let sent = state.sent.remove(&number);
        match answer {
            Ok(Renewed { held, .. }) => {
                state.took = sent.map(|at| at.elapsed()).unwrap_or_default();
                let now = Instant::now();
                if state.answered_at.is_none_or(|at| now.duration_since(at) >= ttl) {
                    state.answered_since = None;
                }
                state.answered_since.get_or_insert(now);
                state.answered_at = Some(now);
                if !held && state.term == Some(term) {
                    state.uncertain = true;
                    tracing::warn!(term, "the driver's lease had ended; it looks which runs it still owns");
                    self.lapsed.notify_one();
                }
                false
            }
            Err(error) => {
                state.answered_since = None;
                error.note("cannot renew the lease now");
                true
            }
        }
    }
}
