//! The runs that a driver drives, each in its own task.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tree_agent_contract::{RunId, Timestamp};
use tree_agent_store::{Claim, PendingCommand};

use crate::config::DriverConfig;
use crate::failure::Failure;
use crate::health::DriverHealth;
use crate::progress::TaskProgress;
use crate::renewal::Lease;
use crate::task::{Ended, Message, RunTask, Shared, TaskError};

/// Runs that a driver replays at the same time. It claims no others meanwhile. So the first of many runs that lost
/// their driver continue while others are still replayed, appends do not queue behind a thousand reads, several
/// drivers share the runs, and a driver that cannot read claims nothing.
const FRESH: usize = 32;

/// A run that is being driven.
pub(crate) struct Active {
    pub(crate) claim: Claim,
    pub(crate) orders: mpsc::Sender<Message>,
    pub(crate) progress: TaskProgress,
    pub(crate) abort: tokio::task::AbortHandle,
}

/// How a task ended, or that it panicked or was aborted.
type Outcome = Result<(Id, Result<Ended, TaskError>), JoinError>;

/// The runs of a driver. Its methods are in the modules of what they do: claims, leases.
pub(crate) struct Fleet {
    pub(crate) config: DriverConfig,
    pub(crate) shared: Arc<Shared>,
    pub(crate) health: Arc<DriverHealth>,
    /// Ordered, like every collection here that is iterated, so that the same events lead to the same calls.
    pub(crate) active: BTreeMap<RunId, Active>,
    by_task: HashMap<Id, RunId>,
    pub(crate) lease: Arc<Lease>,
    /// Runs that are not driven any more, until the store knows that they are released.
    pub(crate) to_release: Vec<(RunId, u64)>,
    /// Runs that nobody may claim, and for how long, until the store knows it.
    pub(crate) to_quarantine: Vec<(RunId, u64, Duration)>,
    /// Runs that could not be driven, until the store has counted it.
    pub(crate) to_fail: Vec<Failure>,
    /// Permits for runs that are being replayed.
    fresh: Arc<Semaphore>,
    /// There may be more runs to claim than there was room for.
    pub(crate) more: bool,
    pub(crate) tasks: JoinSet<Result<Ended, TaskError>>,
    stop: CancellationToken,
    epoch: Instant,
}

impl Fleet {
    pub(crate) fn new(
        config: DriverConfig,
        shared: Arc<Shared>,
        health: Arc<DriverHealth>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            config,
            shared,
            health,
            active: BTreeMap::new(),
            by_task: HashMap::new(),
            lease: Arc::default(),
            to_release: Vec::new(),
            to_quarantine: Vec::new(),
            to_fail: Vec::new(),
            fresh: Arc::new(Semaphore::new(FRESH)),
            more: false,
            tasks: JoinSet::new(),
            stop,
            epoch: Instant::now(),
        }
    }

    /// Runs that may be claimed now, and runs that may be claimed in all.
    pub(crate) fn room(&self) -> (usize, usize) {
        let free = self.config.max_runs.saturating_sub(self.active.len());
        (free.min(self.fresh.available_permits()), free)
    }

    /// Runs that nobody owns and that could begin a call at once. Runs that are being replayed come first.
    pub(crate) fn startable(&self) -> usize {
        self.shared.scheduler.startable().saturating_sub(self.replaying())
    }

    /// Permits that no run of this driver wants now. A driver that is too old for some runs offers none.
    pub(crate) fn spare(&self) -> usize {
        match self.shared.stats.newer.load(Ordering::Relaxed) {
            0 => self.shared.scheduler.spare().saturating_sub(self.replaying()),
            _ => 0,
        }
    }

    fn replaying(&self) -> usize {
        FRESH - self.fresh.available_permits()
    }

    /// Waits until half of the runs that are being replayed have been.
    pub(crate) fn half_replayed(&self) -> impl Future<Output = ()> + use<> {
        let fresh = self.fresh.clone();
        async move { drop(fresh.acquire_many(FRESH as u32 / 2).await) }
    }

    /// Starts to drive a run, with the commands that users have sent so far, or to end it as failed. A task that drove
    /// it in an older epoch is dropped: it is fenced.
    pub(crate) fn begin(&mut self, claim: Claim, commands: Vec<PendingCommand>, abandon: Option<String>) {
        self.drop_task(claim.run_id);
        let (sender, mailbox) = mpsc::channel(1_024);
        let (orders, ordered) = mpsc::channel(8);
        let progress = TaskProgress::new(self.epoch);
        let task = RunTask {
            shared: self.shared.clone(),
            claim,
            commands,
            fresh: self.fresh.clone().try_acquire_owned().ok(),
            mailbox,
            orders: ordered,
            sender,
            progress: progress.clone(),
            stop: self.stop.clone(),
            abandon,
            created: Timestamp::default(),
            logged: Timestamp::default(),
        };
        let abort = self.tasks.spawn(task.drive());
        self.by_task.insert(abort.id(), claim.run_id);
        self.active.insert(claim.run_id, Active { claim, orders, progress, abort });
    }

    /// Stops driving a run.
    pub(crate) fn drop_task(&mut self, run: RunId) {
        if let Some(old) = self.active.remove(&run) {
            old.abort.abort();
            self.by_task.remove(&old.abort.id());
        }
    }

    /// Handles the end of a task.
    pub(crate) async fn on_ended(&mut self, ended: Outcome) {
        let (id, outcome) = match ended {
            Ok((id, outcome)) => (id, Ok(outcome)),
            Err(error) => (error.id(), Err(error)),
        };
        let Some(run) = self.by_task.remove(&id) else { return };
        let Some(active) = self.active.remove(&run) else { return };
        let stats = &self.shared.stats;
        match outcome {
            Ok(Ok(Ended::Finished)) => {
                self.health.clear_undrivable(run);
                stats.finished.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Ok(Ended::Lost)) => {
                stats.lost.fetch_add(1, Ordering::Relaxed);
                tracing::info!(%run, epoch = active.claim.epoch, "another driver owns the run");
            }
            // Released in the next round, with others.
            Ok(Ok(Ended::Stopped)) => self.to_release.push((run, active.claim.epoch)),
            // Released at once, because the next command may follow soon, or a driver with free permits waits.
            Ok(Ok(ended @ (Ended::Rests(_) | Ended::HandedOver))) => {
                self.health.clear_undrivable(run);
                stats.handed_over.fetch_add(u64::from(ended == Ended::HandedOver), Ordering::Relaxed);
                match ended {
                    Ended::Rests(Some(wait)) => self.to_quarantine.push((run, active.claim.epoch, wait)),
                    _ => self.to_release.push((run, active.claim.epoch)),
                }
                self.settle().await;
            }
            // Nothing is wrong with the run: the first driver that reaches the store continues it at once.
            Ok(Err(TaskError::Store(error))) if error.is_transient() => {
                self.to_release.push((run, active.claim.epoch));
                tracing::debug!(%run, error = %error, "the run is released: the store cannot be reached");
            }
            Ok(Err(error @ TaskError::Newer { .. })) => {
                stats.newer.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(%run, "the run is left to a newer planner: {error}");
                // In quarantine for a while, so that it does not take the place of others until a newer one is there.
                self.to_quarantine.push((run, active.claim.epoch, self.config.lease));
                self.settle().await;
            }
            Ok(Err(error)) => {
                let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                tracing::error!(%run, error = %error, source, "the run cannot be driven now");
                let hopeless = error.is_hopeless();
                self.fail(Failure { claim: active.claim, reason: format!("{error}: {source}"), hopeless })
                    .await;
            }
            Err(error) if error.is_cancelled() => {
                stats.lost.fetch_add(1, Ordering::Relaxed);
                tracing::info!(%run, epoch = active.claim.epoch, "the lease was lost");
            }
            Err(error) => {
                tracing::error!(%run, error = %error, "the run's task panicked");
                let reason = "its driver panicked".into();
                self.fail(Failure { claim: active.claim, reason, hopeless: false }).await;
            }
        }
    }
}
