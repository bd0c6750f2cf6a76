//! How runs stop being owned: their lease was lost, their task is wedged, or they are released.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tree_agent_contract::RunId;
use tree_agent_fanout::{Fanout, Topic};
use tree_agent_store::{Claim, Term};

use crate::fleet::Fleet;
use crate::task::Message;

/// A task counts as wedged only after this many times the time that the store takes to answer a renewal, besides the
/// length of a lease: an append takes several round trips.
const ROUND_TRIPS: u32 = 4;

impl Fleet {
    /// Begins another term. Drops the runs that were lost, and takes up those that a claim took whose answer was lost.
    /// False if the store cannot be reached.
    pub(crate) async fn begin_term(&mut self) -> bool {
        match self.shared.store.begin_term(&self.config.owner, self.config.lease).await {
            Ok(Term { number, owned }) => {
                self.lease.begin(number);
                self.compare(owned).await;
                true
            }
            Err(error) => {
                self.lease.doubt();
                error.note("cannot begin a term now");
                false
            }
        }
    }

    async fn compare(&mut self, owned: Vec<Claim>) {
        let epochs: BTreeMap<RunId, u64> = owned.iter().map(|claim| (claim.run_id, claim.epoch)).collect();
        for (run, active) in &self.active {
            if epochs.get(run) != Some(&active.claim.epoch) {
                active.abort.abort();
            }
        }
        let leaving: BTreeSet<(RunId, u64)> = self.leaving().collect();
        let unknown = owned.into_iter().filter(|claim| {
            let driven = self.active.get(&claim.run_id).is_some_and(|a| a.claim.epoch == claim.epoch);
            !driven && !leaving.contains(&(claim.run_id, claim.epoch))
        });
        let unknown: Vec<Claim> = unknown.collect();
        self.take_up(unknown).await;
    }

    /// Releases the runs whose tasks make no progress although the store answers, so that any driver can take them. All
    /// others are reminded that time passes.
    pub(crate) fn check_progress(&mut self) {
        let mut wedged = Vec::new();
        for (run, active) in &self.active {
            if let Some((answering, answer)) = self.lease.answering(self.config.lease)
                && active.progress.age().min(answering) >= self.config.lease + answer * ROUND_TRIPS
            {
                wedged.push((*run, active.claim.epoch, active.progress.age()));
            }
            let _ = active.orders.try_send(Message::Tick);
        }
        for (run, epoch, age) in wedged {
            let age_ms = age.as_millis() as u64;
            tracing::error!(%run, epoch, age_ms, "the run's task makes no progress; the run is released");
            self.drop_task(run);
            self.to_release.push((run, epoch));
        }
    }

    /// Runs that are owned until the store knows otherwise, but not driven any more.
    fn leaving(&self) -> impl Iterator<Item = (RunId, u64)> + '_ {
        let quarantined = self.to_quarantine.iter().map(|(run, epoch, _)| (*run, *epoch));
        let failed = self.to_fail.iter().map(|failure| (failure.claim.run_id, failure.claim.epoch));
        self.to_release.iter().copied().chain(quarantined).chain(failed)
    }

    /// Tells the store which runs are released or in quarantine. What fails is repeated in the next round, because a
    /// run that stays owned is driven by nobody.
    pub(crate) async fn settle(&mut self) {
        self.count_failures().await;
        if !self.to_release.is_empty() {
            match self.shared.store.release(&self.to_release).await {
                Ok(locked) => self.to_release.retain(|(run, _)| locked.contains(run)),
                Err(error) => error.note("cannot release runs now"),
            }
        }
        for (run, epoch, wait) in std::mem::take(&mut self.to_quarantine) {
            if let Err(error) = self.shared.store.quarantine(run, epoch, wait).await {
                tracing::warn!(%run, error = %error, "cannot put the run in quarantine now");
                self.to_quarantine.push((run, epoch, wait));
            }
        }
    }

    /// Waits until every task has stopped, then releases all runs and wakes other drivers. What cannot be released in
    /// time waits until the lease ends.
    pub(crate) async fn release_all(mut self, fanout: Arc<dyn Fanout>) {
        let finish = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(Duration::from_secs(2), finish).await.is_err() {
            tracing::warn!("some runs did not stop in time");
        }
        self.tasks.shutdown().await;
        self.to_release.extend(self.active.iter().map(|(run, active)| (*run, active.claim.epoch)));
        if self.leaving().next().is_none() {
            return;
        }
        let settled = async {
            loop {
                self.settle().await;
                if self.leaving().next().is_none() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(2), settled).await.is_err() {
            tracing::warn!("cannot release runs in time; they wait until the lease ends");
        }
        let _ = fanout.publish(vec![(Topic::Wake, bytes::Bytes::new())]).await;
    }
}
