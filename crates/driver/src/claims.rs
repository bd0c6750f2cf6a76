//! Claims runs, and brings users' commands to the runs that are being driven.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use tree_agent_contract::RunId;
use tree_agent_store::{Claim, PendingCommand};

use crate::fleet::Fleet;
use crate::task::Message;

/// Places beyond those for runs, for runs to which a command was sent while nobody drove them. A driver that is full
/// would otherwise hear a cancellation only when another run ends.
const RESERVE: usize = 8;

impl Fleet {
    /// Claims as many runs as there is room for, and starts to drive them: runs of drivers that are gone, and others
    /// for which there are permits. What is left of the permits is offered to runs that wait at other drivers.
    pub(crate) async fn claim(&mut self) {
        // If there is no room now, the driver looks again when there is.
        self.more = self.room().1 > 0;
        if self.reserve() == 0 {
            return;
        }
        if self.lease.term().is_none() && !self.begin_term().await {
            self.more = false;
            return;
        }
        // The new term may have filled the room.
        let ((room, free), reserve) = (self.room(), self.reserve());
        let Some(term) = self.lease.term().filter(|_| reserve > 0) else { return };
        let startable = self.startable().min(room);
        let claims = match self.shared.store.claim(&self.config.owner, term, room, startable, reserve).await {
            Ok(claims) => claims,
            Err(error) => {
                // It may have taken runs all the same.
                self.lease.doubt();
                self.more = false;
                return error.note("cannot claim runs now");
            }
        };
        self.more = claims.len() >= room && room < free;
        self.lease.offer(if claims.len() < startable.max(1) { self.spare() } else { 0 });
        self.shared.stats.claimed.fetch_add(claims.len() as u64, Ordering::Relaxed);
        if claims.is_empty() {
            return;
        }
        let takeovers = claims.iter().filter(|claim| claim.epoch > 1).count();
        self.shared.stats.takeovers.fetch_add(takeovers as u64, Ordering::Relaxed);
        self.take_up(claims).await;
    }

    /// Runs that may be claimed for their commands.
    fn reserve(&self) -> usize {
        (self.config.max_runs + RESERVE).saturating_sub(self.active.len()).min(RESERVE)
    }

    /// Starts to drive runs that this driver owns.
    pub(crate) async fn take_up(&mut self, claims: Vec<Claim>) {
        if claims.is_empty() {
            return;
        }
        // Commands that users sent before anybody drove the run come first: a cancelled run makes no calls.
        match self.shared.store.commands(&self.config.owner).await {
            Ok(commands) => {
                let mut by_run = by_run(commands);
                for claim in claims {
                    let abandon = self.verdict(&claim).await;
                    self.begin(claim, by_run.remove(&claim.run_id).unwrap_or_default(), abandon);
                }
            }
            Err(error) => {
                claims.iter().for_each(|claim| self.drop_task(claim.run_id));
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
        match self.shared.store.commands(&self.config.owner).await {
            Ok(commands) => {
                for (run, commands) in by_run(commands) {
                    if let Some(active) = self.active.get(&run) {
                        // A task that is behind gets them in the next round.
                        let _ = active.orders.try_send(Message::Commands(commands));
                    }
                }
            }
            Err(error) => error.note("cannot read commands now"),
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
