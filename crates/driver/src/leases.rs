//! Renews the leases of runs that make progress, and releases those that are not driven any more.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tree_agent_contract::RunId;
use tree_agent_fanout::{Fanout, Topic};

use crate::fleet::Fleet;
use crate::task::Message;

impl Fleet {
    /// Renews the leases of runs whose tasks make progress. A task that makes none is stuck: its lease expires, and
    /// another driver takes the run over.
    pub(crate) async fn renew(&mut self) {
        let mut held = Vec::with_capacity(self.active.len());
        for (run, active) in &self.active {
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
        match self.shared.store.renew(&held, self.config.lease).await {
            Ok(kept) => {
                let kept: HashSet<RunId> = kept.into_iter().collect();
                for (run, _) in held.into_iter().filter(|(run, _)| !kept.contains(run)) {
                    if let Some(active) = self.active.get(&run) {
                        active.abort.abort();
                    }
                }
            }
            Err(error) => tracing::warn!(error = %error, "cannot renew leases now"),
        }
    }

    /// Releases, in one call, the runs that could not be driven because the store was unavailable. If that fails too,
    /// their leases expire.
    pub(crate) async fn release(&mut self) {
        let held = std::mem::take(&mut self.to_release);
        if !held.is_empty()
            && let Err(error) = self.shared.store.release(&held).await
        {
            tracing::warn!(error = %error, "cannot release runs; their leases will expire");
        }
    }

    /// Waits until every task has stopped, then releases the runs and wakes other drivers.
    pub(crate) async fn release_all(mut self, fanout: Arc<dyn Fanout>) {
        let mut held = std::mem::take(&mut self.to_release);
        held.extend(self.active.iter().map(|(run, active)| (*run, active.claim.epoch)));
        let finish = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(Duration::from_secs(2), finish).await.is_err() {
            tracing::warn!("some runs did not stop in time; their leases will expire");
        }
        self.tasks.shutdown().await;
        if held.is_empty() {
            return;
        }
        match tokio::time::timeout(Duration::from_secs(2), self.shared.store.release(&held)).await {
            Ok(Ok(())) => {
                let _ = fanout.publish(vec![(Topic::Wake, bytes::Bytes::new())]).await;
            }
            Ok(Err(error)) => tracing::warn!(error = %error, "cannot release runs; their leases will expire"),
            Err(_) => tracing::warn!("cannot release runs in time; their leases will expire"),
        }
    }
}
