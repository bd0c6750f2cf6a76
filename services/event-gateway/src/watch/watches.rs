//! The watched runs of a gateway.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tree_agent_contract::RunId;
use tree_agent_fanout::Fanout;
use tree_agent_runtime::Metrics;
use tree_agent_store::{Store, StoreError};

use super::config::WatchConfig;
use super::head::Reader;
use super::hub::Hub;
use super::stats::Stats;
use super::tree::Tree;

/// A position in a run's log that a watcher waits on, and the recent events behind it.
pub(crate) struct Feed {
    pub(super) hub: Arc<Hub>,
    pub(super) head: Reader,
    pub(super) stats: Arc<Stats>,
}

/// The hubs of all watched runs.
pub(crate) struct Watches {
    pub(super) store: Arc<dyn Store>,
    pub(super) fanout: Arc<dyn Fanout>,
    pub(super) config: WatchConfig,
    hubs: Mutex<BTreeMap<RunId, Arc<Hub>>>,
    /// Ends every hub.
    pub(super) done: CancellationToken,
    pub(crate) stats: Arc<Stats>,
}

impl Feed {
    /// The tree of the run, with every node that it had at `head`.
    pub(crate) async fn tree(&self, store: &dyn Store, head: u64) -> Result<Arc<Tree>, StoreError> {
        self.hub.tree.read(self.hub.run, store, head).await?;
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
    pub(super) fn forget_if_idle(&self, hub: &Hub) -> bool {
        let mut hubs = self.hubs();
        // Checked under the lock under which watchers subscribe.
        let idle = hub.watchers() == 0;
        if idle {
            hubs.remove(&hub.run);
        }
        idle
    }

    pub(super) fn hubs(&self) -> MutexGuard<'_, BTreeMap<RunId, Arc<Hub>>> {
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
                Err(error) => error.note("cannot check the heads of watched runs"),
            }
        }
    }
}
