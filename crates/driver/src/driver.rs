//! Claims runs, renews their leases and wakes up: decides which runs this driver drives.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tree_agent_contract::{RunId, Timestamp};
use tree_agent_fanout::{Fanout, Signal, Subscription, Topic};
use tree_agent_store::{Claim, PendingCommand, Store};

use crate::commit::{CommitConfig, CommitStats, Committer};
use crate::health::DriverHealth;
use crate::roles::{Clock, Roles, SystemClock};
use crate::task::{Ended, Message, RunTask, Shared, TaskError, TaskProgress};

/// How a driver behaves.
#[derive(Clone, Debug)]
pub struct DriverConfig {
    /// Identifies this driver in leases and logs; unique per process.
    pub owner: String,
    /// Length of a lease: the longest time that a run waits after its driver died. Default 5 s.
    pub lease: Duration,
    /// Maximum of runs that are driven at the same time. Default 1,000.
    pub max_runs: usize,
    /// Maximum of role calls in flight. Default 2,048, twice the number of runs, so that a run that was taken over
    /// does not wait for the calls of others.
    pub max_calls: usize,
    /// How often the driver looks for runs and commands if nothing wakes it. Default 250 ms.
    pub poll: Duration,
    /// How appends are grouped.
    pub commit: CommitConfig,
}

impl DriverConfig {
    /// The defaults for `owner`.
    pub fn new(owner: impl Into<String>) -> Self {
        Self {
            owner: owner.into(),
            lease: Duration::from_secs(5),
            max_runs: 1_000,
            max_calls: 2_048,
            poll: Duration::from_millis(250),
            commit: CommitConfig::default(),
        }
    }
}

/// Counters of a driver since it started.
#[derive(Debug, Default)]
pub struct DriverStats {
    /// Runs that it owns now.
    pub active: AtomicU64,
    /// Runs claimed.
    pub claimed: AtomicU64,
    /// Claimed runs that had been driven before.
    pub takeovers: AtomicU64,
    /// Runs driven to their end.
    pub finished: AtomicU64,
    /// Runs that another driver took over.
    pub lost: AtomicU64,
    /// Runs dropped because their log could not be read, written or replayed.
    pub broken: AtomicU64,
    /// Updates and answers of role calls that nothing waited for any more.
    pub stale_answers: AtomicU64,
}

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
}

/// How often a run may be impossible to drive before it is ended as failed. With a lease of five seconds that is about
/// five minutes after the first time.
const GIVE_UP: u32 = 5;
/// The longest backoff of a run that could not be driven.
const MAX_BACKOFF: Duration = Duration::from_secs(300);

/// Runs that a driver replays at the same time. It claims no others meanwhile. So the first of many runs that lost
/// their driver continue while others are still replayed, appends do not queue behind a thousand reads, several
/// drivers share the runs, and a driver that cannot read claims nothing.
const FRESH: usize = 32;

/// The least time without progress after which the loop counts as stuck.
const STUCK: Duration = Duration::from_secs(10);

/// A run that is being driven.
struct Active {
    claim: Claim,
    orders: mpsc::Sender<Message>,
    progress: TaskProgress,
    abort: tokio::task::AbortHandle,
}

type Tasks = JoinSet<Result<Ended, TaskError>>;

/// The state of the loop.
struct Fleet {
    /// Ordered, like every collection here that is iterated, so that the same events lead to the same calls.
    active: BTreeMap<RunId, Active>,
    by_task: HashMap<Id, RunId>,
    /// How often each run could not be driven, and the reason of the last time.
    broken: BTreeMap<RunId, (u32, String)>,
    /// Runs to be released in the next round.
    given_up: Vec<(RunId, u64)>,
    /// Permits for runs that are being replayed.
    fresh: Arc<Semaphore>,
    /// There may be more runs to claim than there was room for.
    more: bool,
    tasks: Tasks,
    shared: Arc<Shared>,
    stop: CancellationToken,
    epoch: Instant,
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
        Self {
            store,
            fanout,
            roles,
            clock: Arc::new(SystemClock),
            config,
            stats: Arc::default(),
            commits: Arc::default(),
            health,
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
        let committer = Committer::start(
            self.store.clone(),
            self.fanout.clone(),
            self.config.commit,
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
            calls: Arc::new(Semaphore::new(self.config.max_calls)),
            stats: self.stats.clone(),
        });
        let mut fleet = Fleet {
            active: BTreeMap::new(),
            by_task: HashMap::new(),
            broken: BTreeMap::new(),
            given_up: Vec::new(),
            fresh: Arc::new(Semaphore::new(FRESH)),
            more: false,
            tasks: JoinSet::new(),
            shared,
            stop: stop.clone(),
            epoch: Instant::now(),
        };
        self.drive(&mut fleet, &stop).await;
        self.release_all(fleet).await;
        self.stats.active.store(0, Ordering::Relaxed);
        helpers.shutdown().await;
        tracing::info!("driver stopped");
    }

    async fn drive(&self, fleet: &mut Fleet, stop: &CancellationToken) {
        let mut wakes = Wakes { fanout: self.fanout.clone(), subscription: None, retry_at: Instant::now() };
        let mut poll = tokio::time::interval(self.config.poll);
        let mut renew = tokio::time::interval(self.config.lease / 3);
        for timer in [&mut poll, &mut renew] {
            timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        loop {
            self.health.record_progress();
            self.stats.active.store(fleet.active.len() as u64, Ordering::Relaxed);
            let half_replayed = fleet.fresh.clone().acquire_many_owned(FRESH as u32 / 2);
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = renew.tick() => self.renew(fleet).await,
                Some(ended) = fleet.tasks.join_next_with_id() => {
                    self.on_ended(fleet, ended).await;
                    // There is room again, and a run may be waiting for it.
                    if fleet.active.len() + 1 == self.config.max_runs {
                        self.claim(fleet).await;
                    }
                }
                _ = poll.tick() => {
                    self.release_given_up(fleet).await;
                    self.claim(fleet).await;
                    self.fetch_commands(fleet).await;
                }
                Ok(room) = half_replayed, if fleet.more => {
                    drop(room);
                    self.claim(fleet).await;
                }
                () = wakes.next() => {
                    self.claim(fleet).await;
                    self.fetch_commands(fleet).await;
                }
            }
        }
    }

    /// Releases, in one call, the runs that could not be driven because the store was unavailable. If that fails too,
    /// their leases expire.
    async fn release_given_up(&self, fleet: &mut Fleet) {
        let given_up = std::mem::take(&mut fleet.given_up);
        if !given_up.is_empty()
            && let Err(error) = self.store.release(&given_up).await
        {
            tracing::warn!(error = %error, "cannot release runs; their leases will expire");
        }
    }

    async fn claim(&self, fleet: &mut Fleet) {
        let free = self.config.max_runs.saturating_sub(fleet.active.len());
        let room = free.min(fleet.fresh.available_permits());
        // If there is no room now, the driver looks again when there is.
        fleet.more = free > 0;
        if room == 0 {
            return;
        }
        let claims = match self.store.claim(&self.config.owner, self.config.lease, room).await {
            Ok(claims) => claims,
            Err(error) => {
                fleet.more = false;
                return tracing::warn!(error = %error, "cannot claim runs now");
            }
        };
        fleet.more = claims.len() == room && room < free;
        if claims.is_empty() {
            return;
        }
        let takeovers = claims.iter().filter(|claim| claim.epoch > 1).count();
        self.stats.claimed.fetch_add(claims.len() as u64, Ordering::Relaxed);
        self.stats.takeovers.fetch_add(takeovers as u64, Ordering::Relaxed);
        claims.iter().for_each(|claim| fleet.drop_older(claim.run_id));
        // Commands that users sent before anybody drove the run come first: a cancelled run makes no calls.
        let runs: Vec<RunId> = claims.iter().map(|claim| claim.run_id).collect();
        match self.store.commands(&runs).await {
            Ok(commands) => {
                let mut by_run = by_run(commands);
                for claim in claims {
                    fleet.begin(claim, by_run.remove(&claim.run_id).unwrap_or_default());
                }
            }
            Err(error) => {
                fleet.given_up.extend(claims.iter().map(|claim| (claim.run_id, claim.epoch)));
                tracing::warn!(error = %error, runs = claims.len(), "runs are released: their commands cannot be read");
            }
        }
    }

    async fn fetch_commands(&self, fleet: &mut Fleet) {
        if fleet.active.is_empty() {
            return;
        }
        let runs: Vec<RunId> = fleet.active.keys().copied().collect();
        match self.store.commands(&runs).await {
            Ok(commands) => {
                for (run, commands) in by_run(commands) {
                    if let Some(active) = fleet.active.get(&run) {
                        // A task that is behind gets them in the next round.
                        let _ = active.orders.try_send(Message::Commands(commands));
                    }
                }
            }
            Err(error) => tracing::warn!(error = %error, "cannot read commands now"),
        }
    }

    /// Renews the leases of runs whose tasks make progress. A task that makes none is stuck: its lease expires, and
    /// another driver takes the run over.
    async fn renew(&self, fleet: &mut Fleet) {
        let mut held = Vec::with_capacity(fleet.active.len());
        for (run, active) in &fleet.active {
            if active.progress.age() < self.config.lease {
                held.push((*run, active.claim.epoch));
            } else {
                tracing::error!(%run, age_ms = active.progress.age().as_millis() as u64, "the run's task makes no progress (is the store slow?); its lease is not renewed");
            }
            let _ = active.orders.try_send(Message::Tick);
        }
        if held.is_empty() {
            return;
        }
        match self.store.renew(&held, self.config.lease).await {
            Ok(kept) => {
                let kept: std::collections::HashSet<RunId> = kept.into_iter().collect();
                for (run, _) in held.into_iter().filter(|(run, _)| !kept.contains(run)) {
                    if let Some(active) = fleet.active.get(&run) {
                        active.abort.abort();
                    }
                }
            }
            Err(error) => tracing::warn!(error = %error, "cannot renew leases now"),
        }
    }

    async fn on_ended(
        &self,
        fleet: &mut Fleet,
        ended: Result<(Id, Result<Ended, TaskError>), tokio::task::JoinError>,
    ) {
        let (id, outcome) = match ended {
            Ok((id, outcome)) => (id, Ok(outcome)),
            Err(error) => (error.id(), Err(error)),
        };
        let Some(run) = fleet.by_task.remove(&id) else { return };
        let Some(active) = fleet.active.remove(&run) else { return };
        match outcome {
            Ok(Ok(Ended::Finished)) => {
                fleet.broken.remove(&run);
                self.health.clear_undrivable(run);
                self.stats.finished.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Ok(Ended::Lost)) => {
                self.stats.lost.fetch_add(1, Ordering::Relaxed);
                tracing::info!(%run, epoch = active.claim.epoch, "another driver owns the run");
            }
            // Released in the next round, with others: a slow store must not delay the loop.
            Ok(Ok(Ended::Stopped)) => fleet.given_up.push((run, active.claim.epoch)),
            // Nothing is wrong with the run: the first driver that reaches the store continues it at once.
            Ok(Err(TaskError::Store(error))) if error.is_transient() => {
                fleet.given_up.push((run, active.claim.epoch));
                tracing::warn!(%run, error = %error, "the run is released: the store cannot be reached");
            }
            Ok(Err(error)) => {
                let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                tracing::error!(%run, error = %error, source, "the run cannot be driven now");
                self.back_off(fleet, active.claim, format!("{error}: {source}")).await;
            }
            Err(error) if error.is_cancelled() => {
                self.stats.lost.fetch_add(1, Ordering::Relaxed);
                tracing::info!(%run, epoch = active.claim.epoch, "the lease was lost");
            }
            Err(error) => {
                tracing::error!(%run, error = %error, "the run's task panicked");
                self.back_off(fleet, active.claim, "its driver panicked".into()).await;
            }
        }
    }

    /// Keeps the lease of a run that cannot be driven, longer each time. Otherwise the next driver would repeat its
    /// role calls and fail in the same way. After [`GIVE_UP`] times the run is ended as failed. If it cannot even be
    /// ended, it keeps backing off and health reports it.
    async fn back_off(&self, fleet: &mut Fleet, claim: Claim, why: String) {
        self.stats.broken.fetch_add(1, Ordering::Relaxed);
        let (times, reason) = fleet.broken.entry(claim.run_id).or_default();
        *times += 1;
        *reason = why;
        let backoff = self.config.lease.saturating_mul(1 << (*times).min(16)).min(MAX_BACKOFF);
        if *times > GIVE_UP {
            tracing::error!(run = %claim.run_id, times, "the run can neither be driven nor be marked as failed");
            self.health.mark_undrivable(claim.run_id, Instant::now() + backoff + self.config.lease * 4);
        }
        // If this fails too, the lease expires by itself.
        let _ = self.store.renew(&[(claim.run_id, claim.epoch)], backoff).await;
    }

    /// Waits until every task has stopped, then releases the runs.
    async fn release_all(&self, mut fleet: Fleet) {
        let mut held = std::mem::take(&mut fleet.given_up);
        held.extend(fleet.active.iter().map(|(run, active)| (*run, active.claim.epoch)));
        let finish = async { while fleet.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(Duration::from_secs(2), finish).await.is_err() {
            tracing::warn!("some runs did not stop in time; their leases will expire");
        }
        fleet.tasks.shutdown().await;
        if held.is_empty() {
            return;
        }
        match tokio::time::timeout(Duration::from_secs(2), self.store.release(&held)).await {
            Ok(Ok(())) => {
                let _ = self.fanout.publish(vec![(Topic::Wake, bytes::Bytes::new())]).await;
            }
            Ok(Err(error)) => tracing::warn!(error = %error, "cannot release runs; their leases will expire"),
            Err(_) => tracing::warn!("cannot release runs in time; their leases will expire"),
        }
    }
}

fn by_run(commands: Vec<PendingCommand>) -> BTreeMap<RunId, Vec<PendingCommand>> {
    let mut by_run: BTreeMap<RunId, Vec<_>> = BTreeMap::new();
    for command in commands {
        by_run.entry(command.run_id).or_default().push(command);
    }
    by_run
}

impl Fleet {
    /// Starts to drive a run, with the commands that users have sent so far.
    fn begin(&mut self, claim: Claim, commands: Vec<PendingCommand>) {
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
            abandon: self.broken.get(&claim.run_id).filter(|(times, _)| *times >= GIVE_UP).map(
                |(times, why)| {
                    format!("given up: the run could not be driven {times} times; the last time: {why}")
                },
            ),
            logged: Timestamp::default(),
            behind: 0,
        };
        let abort = self.tasks.spawn(task.drive());
        self.by_task.insert(abort.id(), claim.run_id);
        self.active.insert(claim.run_id, Active { claim, orders, progress, abort });
    }

    /// Our own lease expired and we claimed the run again. The older task is fenced and makes no more calls.
    fn drop_older(&mut self, run: RunId) {
        if let Some(old) = self.active.remove(&run) {
            old.abort.abort();
            self.by_task.remove(&old.abort.id());
        }
    }
}

/// The subscription to the wake topic, which is renewed whenever that is possible.
struct Wakes {
    fanout: Arc<dyn Fanout>,
    subscription: Option<Subscription>,
    retry_at: Instant,
}

impl Wakes {
    /// Returns when somebody wakes the drivers. It must be safe to drop at any await.
    async fn next(&mut self) {
        loop {
            if let Some(subscription) = &mut self.subscription {
                match subscription.next().await {
                    Some(Signal::Message(_) | Signal::Missed) => return,
                    None => self.subscription = None,
                }
            }
            tokio::time::sleep_until(self.retry_at).await;
            self.retry_at = Instant::now() + Duration::from_secs(1);
            match self.fanout.subscribe(Topic::Wake).await {
                Ok(subscription) => {
                    self.subscription = Some(subscription);
                    // Messages from before the subscription would be missed.
                    return;
                }
                Err(error) => tracing::debug!(error = %error, "cannot subscribe to wake-ups; polling"),
            }
        }
    }
}
