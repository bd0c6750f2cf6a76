//! The health of a driver, which its readiness depends on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tree_agent_contract::RunId;

/// Health that depends on progress: the loop keeps turning, and every commit lane is alive.
#[derive(Debug)]
pub struct DriverHealth {
    born: Instant,
    /// Milliseconds after `born` of the loop's last round; 0 before the first.
    beat: AtomicU64,
    /// The longest time that a round of a healthy loop takes.
    patience: Duration,
    lanes: usize,
    lanes_alive: Arc<AtomicUsize>,
    /// Why the store takes no append now.
    refusal: Arc<Mutex<Option<String>>>,
    /// Runs that could neither be driven nor ended, and until when that counts unless it happens again.
    undrivable: Mutex<BTreeMap<RunId, Instant>>,
}

impl DriverHealth {
    pub(crate) fn new(lanes: usize, patience: Duration) -> Self {
        Self {
            born: Instant::now(),
            beat: AtomicU64::new(0),
            patience,
            lanes,
            lanes_alive: Arc::default(),
            refusal: Arc::default(),
            undrivable: Mutex::default(),
        }
    }

    /// The reason why the driver writes or claims nothing: a lane has died, the store takes no append, such as with a
    /// full disk, or the loop is stuck.
    pub fn check(&self) -> Result<(), String> {
        self.check_at(self.born.elapsed())
    }

    fn check_at(&self, lived: Duration) -> Result<(), String> {
        let beat = self.beat.load(Ordering::Relaxed);
        if beat == 0 {
            return Err("has not begun yet".into());
        }
        let age = lived.saturating_sub(Duration::from_millis(beat));
        if age > self.patience {
            return Err(format!("its loop has made no progress for {} s", age.as_secs()));
        }
        let alive = self.lanes_alive.load(Ordering::Relaxed);
        if alive != self.lanes {
            return Err(format!("{alive} of {} commit lanes are alive; restart this service", self.lanes));
        }
        match &*self.refusal.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(refusal) => Err(format!("nothing can be written: {refusal}")),
            None => Ok(()),
        }
    }

    /// An error that names the runs that could neither be driven nor be marked as failed.
    pub fn undrivable_runs(&self) -> Result<(), String> {
        self.undrivable_runs_at(Instant::now())
    }

    fn undrivable_runs_at(&self, now: Instant) -> Result<(), String> {
        let mut undrivable = self.undrivable.lock().unwrap_or_else(PoisonError::into_inner);
        undrivable.retain(|_, until| *until > now);
        match undrivable.is_empty() {
            true => Ok(()),
            false => {
                let named: Vec<String> = undrivable.keys().take(5).map(ToString::to_string).collect();
                Err(format!(
                    "{} runs can neither be driven nor ended: {}; run `tree-agent verify` to see what is wrong",
                    undrivable.len(),
                    named.join(", ")
                ))
            }
        }
    }

    pub(crate) fn record_progress(&self) {
        self.beat.store((self.born.elapsed().as_millis() as u64).max(1), Ordering::Relaxed);
    }

    /// Where the lanes say why the store takes no append.
    pub(crate) fn refusal(&self) -> Arc<Mutex<Option<String>>> {
        self.refusal.clone()
    }

    /// Counts a lane while the guard lives.
    pub(crate) fn lane(&self) -> LaneGuard {
        self.lanes_alive.fetch_add(1, Ordering::Relaxed);
        LaneGuard(self.lanes_alive.clone())
    }

    pub(crate) fn mark_undrivable(&self, run: RunId, until: Instant) {
        self.undrivable.lock().unwrap_or_else(PoisonError::into_inner).insert(run, until);
    }

    pub(crate) fn clear_undrivable(&self, run: RunId) {
        self.undrivable.lock().unwrap_or_else(PoisonError::into_inner).remove(&run);
    }
}

/// Guard of a live lane.
#[derive(Debug)]
pub(crate) struct LaneGuard(Arc<AtomicUsize>);

impl Drop for LaneGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_is_earned_by_progress() {
        let health = DriverHealth::new(2, Duration::from_secs(10));
        assert!(health.check().unwrap_err().contains("not begun"));
        let (first, second) = (health.lane(), health.lane());
        health.record_progress();
        assert_eq!(health.check(), Ok(()));
        let later = health.born.elapsed() + Duration::from_secs(11);
        assert!(health.check_at(later).unwrap_err().contains("has made no progress"));
        *health.refusal().lock().unwrap() = Some("the disk is full".into());
        assert_eq!(health.check(), Err("nothing can be written: the disk is full".into()));
        *health.refusal().lock().unwrap() = None;
        drop(first);
        assert!(health.check().unwrap_err().contains("1 of 2 commit lanes"));
        drop(second);
        assert!(health.check().unwrap_err().contains("0 of 2"));
    }

    #[test]
    fn an_undrivable_run_is_named_until_it_is_not_found_any_more() {
        let health = DriverHealth::new(1, Duration::from_secs(10));
        let run = RunId(uuid::Uuid::from_u128(9));
        assert_eq!(health.undrivable_runs(), Ok(()));
        let until = Instant::now() + Duration::from_secs(60);
        health.mark_undrivable(run, until);
        assert!(health.undrivable_runs().unwrap_err().contains(&run.to_string()));
        assert_eq!(health.undrivable_runs_at(until), Ok(()));
    }
}
