//! The list of runs as it changes: followed once, for everybody who watches it through this gateway.
//!
//! The store says which runs were created, deleted or got another status, and which live runs have moved on. It is
//! asked every [`list_check`](WatchConfig::list_check) while somebody watches, and at once when drivers are
//! woken for a new run. Each change is encoded once.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tree_agent_contract::{RunId, Timestamp};
use tree_agent_fanout::{Fanout, Topic};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::watch_runs_response::Message;
use tree_agent_store::{ListedRun, RunFilter, Store, StoreError};
use uuid::Uuid;

use super::config::WatchConfig;
use super::frame::framed;
use super::head::{Head, Reader};
use super::hub;

/// Recent changes that are kept. A watcher that is further behind reads the store itself.
const WINDOW: usize = 1_024;
/// Changes that a watcher takes at a time: about 256 KiB of the longest objectives.
const TAKE: usize = 16;
/// Runs that are read from the store at a time.
const PAGE: usize = 500;
/// How long a change may take from its time in the store until it shows there: longer than any call of the store may
/// take. The list is always read again from so long before its latest change.
const COMMIT: Duration = Duration::from_secs(120);
/// How long what follows a hint may take to be read with it.
const GATHER: Duration = Duration::from_millis(20);

/// The shared list. Only its task writes.
pub(crate) struct Board {
    store: Arc<dyn Store>,
    fanout: Arc<dyn Fanout>,
    config: WatchConfig,
    done: CancellationToken,
    state: Mutex<State>,
    /// Changes so far; watchers wait for it to move.
    version: Head,
    nudge: Notify,
    /// Held by whoever reads the list for the first time.
    beginning: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    /// The task runs, and what follows is good.
    followed: bool,
    /// Runs that have not ended.
    live: BTreeMap<RunId, Arc<ListedRun>>,
    /// When runs last changed, as far as that may be read again.
    recent: BTreeMap<RunId, Timestamp>,
    /// The latest change of the store that was read.
    latest: Timestamp,
    changes: VecDeque<Arc<Change>>,
}

/// One run that has changed.
pub(crate) struct Change {
    before: Option<Arc<ListedRun>>,
    now: Option<Arc<ListedRun>>,
    run: RunId,
    frames: [OnceLock<Bytes>; 3],
}

/// A place in the list from which a watcher goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Changes of this board that were seen.
    pub(crate) version: u64,
    /// The latest change of the store that was seen, whatever board showed it.
    pub(crate) latest: Timestamp,
}

/// What there is after a place.
pub(crate) enum After {
    Changes(Vec<Arc<Change>>, Place),
    Nothing,
    /// The place is older than what is kept.
    Older,
}

/// What a change means to a list with a filter.
#[derive(Clone, Copy)]
enum Kind {
    Added,
    Changed,
    Removed,
}

impl Change {
    fn new(run: RunId, before: Option<Arc<ListedRun>>, now: Option<Arc<ListedRun>>) -> Self {
        Self { before, now, run, frames: Default::default() }
    }

    /// The framed message for a list with `filter`; none when the list does not show it.
    pub(crate) fn frame(&self, filter: &RunFilter) -> Option<Bytes> {
        let shows = |run: &Arc<ListedRun>| !run.deleted && filter.matches(&run.summary);
        let now = self.now.as_ref().filter(|run| shows(run));
        let before = match (&self.before, &self.now) {
            (Some(before), _) => shows(before),
            // It was not live: it is new, or it had ended long before it was deleted.
            (None, Some(now)) => now.deleted && filter.matches(&now.summary),
            (None, None) => false,
        };
        let kind = match (before, now) {
            (false, None) => return None,
            (false, Some(_)) => Kind::Added,
            (true, Some(_)) => Kind::Changed,
            (true, None) => Kind::Removed,
        };
        Some(
            self.frames[kind as usize].get_or_init(|| message(kind, self.run, now.map(|run| &**run))).clone(),
        )
    }
}

/// A run that a list shows, as it is told to a watcher that reads the store itself.
pub(crate) fn shown(run: &ListedRun, new: bool) -> Bytes {
    message(if new { Kind::Added } else { Kind::Changed }, run.summary.run_id, Some(run))
}

/// A run that a list does not show.
pub(crate) fn removed(run: RunId) -> Bytes {
    message(Kind::Removed, run, None)
}

fn message(kind: Kind, run: RunId, now: Option<&ListedRun>) -> Bytes {
    let message = match (kind, now) {
        (Kind::Added, Some(run)) => Message::Added(run.summary.to_wire()),
        (Kind::Changed, Some(run)) => Message::Changed(run.summary.to_wire()),
        _ => Message::Removed(pb::RemovedRun { run_id: run.to_wire() }),
    };
    framed(&pb::WatchRunsResponse { message: Some(message) })
}

/// Where reading begins, so that whatever is committed later than `latest` is not missed.
pub(super) fn look_back(latest: Timestamp) -> (Timestamp, RunId) {
    (Timestamp(latest.micros().saturating_sub(COMMIT.as_micros() as i64)), RunId(Uuid::nil()))
}

impl Board {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        fanout: Arc<dyn Fanout>,
        config: WatchConfig,
        done: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            store,
            fanout,
            config,
            done,
            state: Mutex::default(),
            version: Head::new(),
            nudge: Notify::new(),
            beginning: tokio::sync::Mutex::default(),
        })
    }

    /// Follows the list, beginning now if nobody else does. The reader keeps it going.
    pub(crate) async fn join(self: &Arc<Self>) -> Result<(Reader, Place), StoreError> {
        let _beginning = self.beginning.lock().await;
        // Before the look: from here on the task does not end.
        let reader = self.version.subscribe();
        if !self.state().followed {
            let read = self.begin().await?;
            let mut state = self.state();
            *state = read;
            state.followed = true;
            drop(state);
            tokio::spawn(self.clone().follow());
        }
        Ok((reader, self.place()))
    }

    /// Something has changed that this gateway knows of.
    pub(crate) fn nudge(&self) {
        self.nudge.notify_one();
    }

    /// What has changed after `place`.
    pub(crate) fn after(&self, place: Place) -> After {
        let state = self.state();
        let version = self.version.get();
        let behind = version.saturating_sub(place.version);
        if behind == 0 {
            return After::Nothing;
        }
        match state.changes.len().checked_sub(behind as usize) {
            None => After::Older,
            Some(first) => {
                let changes: Vec<_> = state.changes.range(first..).take(TAKE).cloned().collect();
                let version = place.version + changes.len() as u64;
                let all = version == self.version.get();
                let latest = if all { state.latest } else { place.latest };
                After::Changes(changes, Place { version, latest })
            }
        }
    }

    /// The place after everything that is known.
    pub(crate) fn place(&self) -> Place {
        let state = self.state();
        Place { version: self.version.get(), latest: state.latest }
    }

    /// At most `limit` runs that have not ended, by their ids, those after `after`.
    pub(crate) fn live(&self, after: RunId, limit: usize) -> Vec<Arc<ListedRun>> {
        let state = self.state();
        let next = state.live.range((Bound::Excluded(after), Bound::Unbounded)).take(limit);
        next.map(|(_, run)| run.clone()).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The list as it is now.
    async fn begin(&self) -> Result<State, StoreError> {
        let latest = self.store.last_list_change().await?;
        let mut state = State { latest, ..State::default() };
        for (at, run) in self.changes_since(latest).await? {
            state.recent.insert(run, at);
            state.latest = state.latest.max(at);
        }
        let live: Vec<RunId> = self.store.live_heads().await?.into_iter().map(|(run, _)| run).collect();
        for run in self.read(&live).await? {
            if !run.summary.status.is_final() {
                state.live.insert(run.summary.run_id, Arc::new(run));
            }
        }
        Ok(state)
    }

    /// Runs until nobody has watched for a while.
    async fn follow(self: Arc<Self>) {
        let mut tick = tokio::time::interval(self.config.list_check);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut subscription = None;
        let mut confirming = None;
        let mut idle_since = None;
        loop {
            tokio::select! {
                biased;
                () = self.done.cancelled() => break,
                () = self.nudge.notified() => {}
                confirmed = hub::pending(&mut confirming) => {
                    confirming = None;
                    subscription = confirmed;
                }
                signal = hub::hear(&mut subscription) => {
                    if signal.is_none() {
                        subscription = None;
                    }
                }
                _ = tick.tick() => {
                    if subscription.is_none() && confirming.is_none() {
                        confirming = Some(hub::subscribe(&*self.fanout, Topic::Wake).boxed());
                    }
                }
            }
            if self.version.readers() > 0 {
                idle_since = None;
            } else if idle_since.get_or_insert_with(Instant::now).elapsed() >= self.config.linger {
                let _beginning = self.beginning.lock().await;
                if self.version.readers() == 0 {
                    break *self.state() = State::default();
                }
            }
            tokio::time::sleep(GATHER).await;
            // Whatever came meanwhile is read with it.
            while let Some(Some(Some(_))) = subscription.as_mut().map(|heard| heard.next().now_or_never()) {}
            if let Err(error) = self.poll().await {
                error.note("cannot read what has changed in the list of runs");
            }
        }
    }

    /// Reads what has changed since the last time.
    async fn poll(&self) -> Result<(), StoreError> {
        let latest = self.state().latest;
        let changed = self.changes_since(latest).await?;
        let heads = self.store.live_heads().await?;
        let mut wanted: Vec<RunId> = Vec::new();
        {
            let state = self.state();
            let is_news = |(at, run): &&(Timestamp, RunId)| state.recent.get(run) != Some(at);
            wanted.extend(changed.iter().filter(is_news).map(|(_, run)| *run));
            let moved = |(run, head): &&(RunId, u64)| {
                state.live.get(run).is_none_or(|known| known.summary.head_seq != *head)
            };
            wanted.extend(heads.iter().filter(moved).map(|(run, _)| *run));
            let there: HashSet<RunId> = heads.iter().map(|(run, _)| *run).collect();
            wanted.extend(state.live.keys().filter(|run| !there.contains(run)));
        }
        wanted.sort_unstable();
        wanted.dedup();
        let mut read: HashMap<RunId, Arc<ListedRun>> = HashMap::with_capacity(wanted.len());
        for run in self.read(&wanted).await? {
            read.insert(run.summary.run_id, Arc::new(run));
        }
        let mut state = self.state();
        let mut news = 0;
        for run in wanted {
            let (before, now) = (state.live.remove(&run), read.remove(&run));
            if let Some(now) = now.as_ref().filter(|now| !now.summary.status.is_final()) {
                state.live.insert(run, now.clone());
            }
            if before == now {
                continue;
            }
            news += 1;
            if state.changes.len() == WINDOW {
                state.changes.pop_front();
            }
            state.changes.push_back(Arc::new(Change::new(run, before, now)));
        }
        for (at, run) in changed {
            state.recent.insert(run, at);
            state.latest = state.latest.max(at);
        }
        let (oldest, _) = look_back(state.latest);
        state.recent.retain(|_, at| *at > oldest);
        if news > 0 {
            self.version.set(self.version.get() + news);
        }
        Ok(())
    }

    /// Every change since `latest`, and again those shortly before it.
    async fn changes_since(&self, latest: Timestamp) -> Result<Vec<(Timestamp, RunId)>, StoreError> {
        let mut after = look_back(latest);
        let mut changes = Vec::new();
        loop {
            let page = self.store.list_changes(after, PAGE).await?;
            let whole = page.len() == PAGE;
            after = page.last().copied().unwrap_or(after);
            changes.extend(page);
            if !whole {
                return Ok(changes);
            }
        }
    }

    async fn read(&self, runs: &[RunId]) -> Result<Vec<ListedRun>, StoreError> {
        let mut read = Vec::with_capacity(runs.len());
        for runs in runs.chunks(PAGE) {
            read.extend(self.store.listed_runs(runs).await?);
        }
        Ok(read)
    }
}
