//! Live runs: every event once, in order, to any number of clients.
//!
//! A [`Hub`](hub) per watched run listens to fan-out and keeps a window of recent events, each encoded once
//! ([`frame`]). A [`Watcher`](watcher) per client is a cursor: it takes from the window, or from the log when it is
//! behind the window, so a slow client holds no memory and nobody up. [`Watches`] owns the hubs and asks the
//! store more than once a second for the heads of all watched runs, so that a deaf fan-out is noticed and bridged
//! before an event is a second old. [`board`] follows the list of runs for all who watch it, and a [`ListWatcher`]
//! tells one client what its filter shows. [`document`] follows one document of a run in the same way: the events say
//! when it has grown, the store what was added. [`pace`] is what both kinds of stream have in common, [`stats`] what
//! they count. [`service`] puts the shared bytes on the wire as they are, and [`stall`] gives up what clients never
//! take.

mod board;
mod document;
mod filter;
pub(crate) mod frame;
mod head;
mod hub;
mod list;
mod pace;
mod room;
pub(crate) mod service;
mod stall;
mod stats;
mod tree;
mod watcher;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tree_agent_contract::RunId;
use tree_agent_fanout::Fanout;
use tree_agent_runtime::Metrics;
use tree_agent_store::{Store, StoreError};

pub(crate) use board::Board;
pub(crate) use document::{DocumentStart, DocumentWatcher};
pub(crate) use filter::EventFilter;
use head::Reader;
use hub::Hub;
pub(crate) use hub::{pending, subscribe};
pub(crate) use list::{ListFrom, ListStart, ListWatcher, since};
pub(crate) use pace::Until;
pub(crate) use stall::Stalls;
pub(crate) use stats::Stats;
pub(crate) use tree::Tree;
pub(crate) use watcher::{Start, Watcher};

/// How watching behaves. The defaults are those of the public contract; tests shorten them.
#[derive(Clone, Debug)]
pub struct WatchConfig {
    /// Silence after which a heartbeat is sent.
    pub heartbeat: Duration,
    /// Age at which a stream is closed with a resume hint, give or take a tenth.
    pub stream_age: Duration,
    /// How long a client may take nothing that is ready for it; then what is kept for its stream is given up, and when
    /// it reads on it finds a resume hint.
    pub stall: Duration,
    /// How often the heads of all watched runs are checked against the log. An event that fan-out kept from us reaches
    /// its watchers after this time at most, a twentieth of it, and what the store takes for two look-ups: with the
    /// default of 600 ms that is a second as long as the store takes less than 370 ms.
    pub head_check: Duration,
    /// How often the store is asked what has changed in the list of runs, while somebody watches it.
    pub list_check: Duration,
    /// How long a run, or the list of runs, is followed after its last watcher has gone.
    pub linger: Duration,
    /// Recent events kept per watched run.
    pub window_events: usize,
    /// Bytes of recent events kept per watched run.
    pub window_bytes: usize,
}

impl Default for WatchConfig {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(10),
            stream_age: Duration::from_secs(3_600),
            stall: Duration::from_secs(60),
            head_check: Duration::from_millis(600),
            list_check: Duration::from_secs(1),
            linger: Duration::from_secs(5),
            window_events: 4_096,
            window_bytes: 4 * 1024 * 1024,
        }
    }
}

/// A position in a run's log that a watcher waits on, and the recent events behind it.
pub(crate) struct Feed {
    hub: Arc<Hub>,
    head: Reader,
    stats: Arc<Stats>,
}

/// The hubs of all watched runs.
pub(crate) struct Watches {
    store: Arc<dyn Store>,
    fanout: Arc<dyn Fanout>,
    config: WatchConfig,
    hubs: Mutex<BTreeMap<RunId, Arc<Hub>>>,
    /// Ends every hub.
    done: CancellationToken,
    pub(crate) stats: Arc<Stats>,
}

impl Feed {
    /// The tree of the run, with every node that it had at `head`.
    pub(crate) async fn tree(&self, store: &dyn Store, head: u64) -> Result<Arc<Tree>, StoreError> {
        self.hub.tree.read(&self.hub, store, head).await?;
        Ok(self.hub.tree.clone())
    }
}

impl Watches {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        fanout: Arc<dyn Fanout>,
        config: WatchConfig,
        done: CancellationToken,
    ) -> Arc<Self> {
        let watches =
            Arc::new(Self { store, fanout, config, hubs: Mutex::default(), done, stats: Arc::default() });
        tokio::spawn(watches.clone().check_heads());
        watches
    }

    /// Follows `run`, beginning now if nobody else does.
    pub(crate) fn follow(self: &Arc<Self>, run: RunId) -> Feed {
        let mut hubs = self.hubs();
        let hub = hubs.entry(run).or_insert_with(|| {
            let hub = Arc::new(Hub::new(run, &self.config));
            tokio::spawn(hub::follow(hub.clone(), self.clone()));
            hub
        });
        Feed { hub: hub.clone(), head: hub.subscribe(), stats: self.stats.clone() }
    }

    /// Adds what streams count.
    pub(crate) fn measure(self: &Arc<Self>, metrics: &mut Metrics) {
        self.stats.measure(&self.fanout, metrics);
        let watches = Arc::downgrade(self);
        metrics.gauge("tree_agent_gateway_watched_runs", "Runs that are followed for somebody", move || {
            watches.upgrade().map_or(0.0, |watches| watches.hubs().len() as f64)
        });
        let watches = Arc::downgrade(self);
        metrics.gauge("tree_agent_gateway_subscribers", "Streams that follow a live run", move || {
            let count = |watches: Arc<Self>| watches.hubs().values().map(|hub| hub.watchers()).sum::<usize>();
            watches.upgrade().map_or(0.0, |watches| count(watches) as f64)
        });
    }

    /// Forgets `hub` unless someone watches it; true when it is forgotten.
    fn forget_if_idle(&self, hub: &Hub) -> bool {
        let mut hubs = self.hubs();
        // Checked under the lock under which watchers subscribe.
        let idle = hub.watchers() == 0;
        if idle {
            hubs.remove(&hub.run);
        }
        idle
    }

    fn hubs(&self) -> MutexGuard<'_, BTreeMap<RunId, Arc<Hub>>> {
        self.hubs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One query every [`head_check`](WatchConfig::head_check) tells for every watched run whether fan-out has kept
    /// something from us.
    async fn check_heads(self: Arc<Self>) {
        // By the clock rather than after a pause, so that what the query itself takes does not add up.
        let mut tick = tokio::time::interval(self.config.head_check);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = self.done.cancelled() => return,
                _ = tick.tick() => {}
            }
            let runs: Vec<RunId> = self.hubs().keys().copied().collect();
            if runs.is_empty() {
                continue;
            }
            match self.store.heads(&runs).await {
                Ok(heads) => {
                    // What is on its way through fan-out gets a moment to arrive.
                    tokio::time::sleep(self.config.head_check / 20).await;
                    let hubs = self.hubs();
                    for (run, head) in heads {
                        if let Some(hub) = hubs.get(&run)
                            && hub.head() < head
                        {
                            hub.bridge();
                        }
                    }
                }
                Err(error) => tracing::warn!("cannot check the heads of watched runs: {error}"),
            }
        }
    }
}
