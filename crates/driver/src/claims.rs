//! Claims runs, and brings users' commands to the runs that are being driven.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use tree_agent_contract::RunId;
use tree_agent_store::PendingCommand;

use crate::fleet::Fleet;
use crate::task::Message;

impl Fleet {
    /// Claims as many runs as there is room for, and starts to drive them.
    pub(crate) async fn claim(&mut self) {
        let (room, free) = self.room();
        // If there is no room now, the driver looks again when there is.
        self.more = free > 0;
        if room == 0 {
            return;
        }
        let mut claims = match self.shared.store.claim(&self.config.owner, self.config.lease, room).await {
            Ok(claims) => claims,
            Err(error) => {
                self.more = false;
                return tracing::warn!(error = %error, "cannot claim runs now");
            }
        };
        self.more = claims.len() == room && room < free;
        self.shared.stats.claimed.fetch_add(claims.len() as u64, Ordering::Relaxed);
        self.newer.rest(&*self.shared.store, self.config.lease, &mut claims).await;
        if claims.is_empty() {
            return;
        }
        let takeovers = claims.iter().filter(|claim| claim.epoch > 1).count();
        self.shared.stats.takeovers.fetch_add(takeovers as u64, Ordering::Relaxed);
        claims.iter().for_each(|claim| self.drop_older(claim.run_id));
        // Commands that users sent before anybody drove the run come first: a cancelled run makes no calls.
        let runs: Vec<RunId> = claims.iter().map(|claim| claim.run_id).collect();
        match self.shared.store.commands(&runs).await {
            Ok(commands) => {
                let mut by_run = by_run(commands);
                for claim in claims {
                    self.begin(claim, by_run.remove(&claim.run_id).unwrap_or_default());
                }
            }
            Err(error) => {
                self.to_release.extend(claims.iter().map(|claim| (claim.run_id, claim.epoch)));
                tracing::warn!(error = %error, runs = claims.len(), "runs are released: their commands cannot be read");
            }
        }
    }

    /// Passes the commands of users to the tasks of their runs.
    pub(crate) async fn fetch_commands(&mut self) {
        if self.active.is_empty() {
            return;
        }
        let runs: Vec<RunId> = self.active.keys().copied().collect();
        match self.shared.store.commands(&runs).await {
            Ok(commands) => {
                for (run, commands) in by_run(commands) {
                    if let Some(active) = self.active.get(&run) {
                        // A task that is behind gets them in the next round.
                        let _ = active.orders.try_send(Message::Commands(commands));
                    }
                }
            }
            Err(error) => tracing::warn!(error = %error, "cannot read commands now"),
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
