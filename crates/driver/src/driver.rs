//! The loop of a driver: it decides when to claim, check and release.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tree_agent_fanout::Fanout;
use tree_agent_store::Store;

use crate::commit::{CommitStats, Committer};
use crate::config::{DriverConfig, DriverStats};
use crate::fleet::Fleet;
use crate::health::DriverHealth;
use crate::roles::{Clock, Roles, SystemClock};
use crate::scheduler::Scheduler;
use crate::task::Shared;
use crate::wakeups::WakeUps;

/// The least time without progress after which the loop counts as stuck.
const STUCK: Duration = Duration::from_secs(10);

/// Drives runs.
pub struct Driver {
    store: Arc<dyn Store>,
    fanout: Arc<dyn Fanout>,
    roles: Arc<dyn Roles>,
    clock: Arc<dyn Clock>,
    config: DriverConfig,
    stats: Arc<DriverStats>,
    commits: Arc<CommitStats>,
    health: Arc<DriverHealth>,
    pub(crate) scheduler: Arc<Scheduler>,
}

impl Driver {
    /// A driver on the machine's clock.
    pub fn new(
        store: Arc<dyn Store>,
        fanout: Arc<dyn Fanout>,
        roles: Arc<dyn Roles>,
        config: DriverConfig,
    ) -> Self {
        let health = Arc::new(DriverHealth::new(config.commit.lanes.max(1), (config.lease * 4).max(STUCK)));
        let scheduler = Scheduler::new(config.max_calls);
        Self {
            store,
            fanout,
            roles,
            clock: Arc::new(SystemClock),
            config,
            stats: Arc::default(),
            commits: Arc::default(),
            health,
            scheduler,
        }
    }

    /// A driver on another clock, for tests.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Its counters, which can be read while it runs.
    pub fn stats(&self) -> Arc<DriverStats> {
        self.stats.clone()
    }

    /// The counters of its appends, which can be read while it runs.
    pub fn commits(&self) -> Arc<CommitStats> {
        self.commits.clone()
    }

    /// Its health, which can be read while it runs.
    pub fn health(&self) -> Arc<DriverHealth> {
        self.health.clone()
    }

    /// Drives runs until `stop` is cancelled. Then it releases its runs, so that others continue them at once. Store
    /// and fan-out may go down and come back meanwhile.
    pub async fn run(self, stop: CancellationToken) {
        let mut helpers = JoinSet::new();
        let mut commit = self.config.commit;
        commit.longest_pause = commit.longest_pause.min(self.config.lease / 4);
        let committer = Committer::start(
            self.store.clone(),
            self.fanout.clone(),
            commit,
            self.commits.clone(),
            stop.clone(),
            &self.health,
            &mut helpers,
        );
        let shared = Arc::new(Shared {
            store: self.store.clone(),
            roles: self.roles.clone(),
            clock: self.clock.clone(),
            committer,
            scheduler: self.scheduler.clone(),
            stats: self.stats.clone(),
            part_events: self.config.commit.max_events,
        });
        let mut fleet = Fleet::new(self.config.clone(), shared, self.health.clone(), stop.clone());
        let (lease, owner) = (fleet.lease.clone(), self.config.owner.clone());
        helpers.spawn(lease.keep(self.store.clone(), owner, self.config.lease, self.scheduler.clone()));
        self.drive(&mut fleet, &stop).await;
        fleet.release_all(self.fanout).await;
        self.stats.active.store(0, Ordering::Relaxed);
        helpers.shutdown().await;
        tracing::info!("driver stopped");
    }

    async fn drive(&self, fleet: &mut Fleet, stop: &CancellationToken) {
        let mut wake_ups = WakeUps::new(self.fanout.clone());
        let mut poll = tokio::time::interval(self.config.poll);
        let mut check = tokio::time::interval(self.config.lease / 3);
        let lease = fleet.lease.clone();
        for timer in [&mut poll, &mut check] {
            timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        loop {
            self.health.record_progress();
            self.stats.active.store(fleet.active.len() as u64, Ordering::Relaxed);
            let half_replayed = fleet.half_replayed();
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = lease.lapsed() => drop(fleet.begin_term().await),
                _ = check.tick() => {
                    fleet.check_progress();
                    fleet.settle().await;
                }
                Some(ended) = fleet.tasks.join_next_with_id() => {
                    fleet.on_ended(ended).await;
                    // There is room again, and a run may be waiting for it.
                    if fleet.active.len() + 1 == self.config.max_runs {
                        fleet.claim().await;
                    }
                }
                _ = poll.tick() => {
                    fleet.settle().await;
                    fleet.claim().await;
                    fleet.fetch_commands().await;
                }
                () = half_replayed, if fleet.more => fleet.claim().await,
                () = wake_ups.next() => {
                    fleet.claim().await;
                    fleet.fetch_commands().await;
                }
            }
        }
    }
}
