//! Leases of the simulated store.

use std::time::Duration;

use tree_agent_contract::{RunId, RunStatus, Timestamp};
use tree_agent_store::{Claim, Failed, QUARANTINE_MAX, Renewed, Term};

use super::model::{Model, StoredDriver, StoredRun};
use crate::flaw::Flaw;

impl Model {
    /// [`Leases::begin_term`](tree_agent_store::Leases::begin_term) at `now`.
    pub fn begin_term(&mut self, driver: &str, now: Timestamp, ttl: Duration) -> Term {
        let row = self.drivers.entry(driver.to_owned()).or_insert(StoredDriver {
            term: 0,
            held_since: now,
            renewed_at: now,
            lease_until: now,
            spare: 0,
        });
        row.term += 1;
        row.renew(now, ttl);
        let owned = self
            .runs
            .iter()
            .filter(|(_, run)| !run.row.status.is_final() && run.owner.as_deref() == Some(driver));
        let claim = |(run_id, run): (&RunId, &StoredRun)| Claim {
            run_id: *run_id,
            epoch: run.epoch,
            head_seq: run.head(),
            failures: run.failures.0,
        };
        Term { number: row.term, owned: owned.map(claim).collect() }
    }

    /// [`Leases::claim`](tree_agent_store::Leases::claim) at `now`.
    pub fn claim(
        &mut self,
        driver: &str,
        term: u64,
        now: Timestamp,
        limit: usize,
        unowned: usize,
        called: usize,
    ) -> Vec<Claim> {
        let (same_epoch, eternal) = (self.has(Flaw::SameEpoch), self.has(Flaw::EternalLease));
        let deaf = self.has(Flaw::DeafToCommands);
        let Some(me) = self.drivers.get(driver).filter(|me| me.term == term && me.lease_until >= now) else {
            return Vec::new();
        };
        let since = me.held_since;
        let is_gone = |owner: &str| {
            owner != driver
                && !eternal
                && self.drivers.get(owner).is_none_or(|other| other.is_gone(now, since))
        };
        let free = self.runs.iter().filter(|(_, run)| {
            !run.row.status.is_final() && run.owner.as_ref().is_none_or(|owner| is_gone(owner))
        });
        let is_called = |id: &RunId, run: &StoredRun| {
            let pending = self.commands.range((*id, 0)..=(*id, i64::MAX)).next().is_some();
            !deaf && pending && run.last_command > run.claimed_command
        };
        let mut free: Vec<(bool, bool, Timestamp, RunId)> =
            free.map(|(id, run)| (!is_called(id, run), run.owner.is_none(), run.created_at, *id)).collect();
        free.sort_unstable();
        // Those that were called and have no place among the called may have one among the others.
        let (mut called, mut limit, mut unowned) = (called, limit, unowned);
        free.retain_mut(|(uncalled, _, _, id)| {
            let waited_for = self.commands.range((*id, 0)..=(*id, i64::MAX)).next().is_some();
            let Some(run) = self.runs.get(id) else { return false };
            let paused = run.row.status == RunStatus::Paused && !waited_for && !run.is_timed();
            let rests = run.owner.is_none() && (paused || run.not_before > now);
            *uncalled |= called == 0;
            let waits = *uncalled && run.owner.is_none();
            let places = if *uncalled { &mut limit } else { &mut called };
            let taken = *places > 0 && !(*uncalled && rests) && !(waits && unowned == 0);
            *places -= usize::from(taken);
            unowned -= usize::from(taken && waits);
            taken
        });
        let mut claims: Vec<_> = free
            .into_iter()
            .filter_map(|(uncalled, _, created_at, run_id)| {
                let run = self.runs.get_mut(&run_id)?;
                if run.progress > run.failed_at {
                    (run.failures.0, run.expiries) = (0, 0);
                }
                if let Some(owner) = &run.owner {
                    (run.expiries, run.failed_at) = (run.expiries + 1, run.progress);
                    let lease = self.drivers.get(owner).map_or(0, |d| d.lease_until.0 - d.renewed_at.0);
                    if let Some(times) = run.expiries.checked_sub(2).filter(|_| uncalled) {
                        let wait = Duration::from_micros(lease.unsigned_abs()) * (1 << times.min(16));
                        (run.owner, run.not_before) = (None, end(now, wait.min(QUARANTINE_MAX)));
                        return None;
                    }
                }
                run.epoch += u64::from(!same_epoch || run.epoch == 0);
                run.owner = Some(driver.to_owned());
                if run.row.status != RunStatus::Paused {
                    run.not_before = Timestamp::default();
                }
                run.claimed_command = run.last_command;
                let (epoch, head_seq, failures) = (run.epoch, run.head(), run.failures.0);
                Some((created_at, Claim { run_id, epoch, head_seq, failures }))
            })
            .collect();
        claims.sort_unstable_by_key(|(created_at, claim)| (*created_at, claim.run_id));
        claims.into_iter().map(|(_, claim)| claim).collect()
    }

    /// [`Leases::renew`](tree_agent_store::Leases::renew) at `now`.
    pub fn renew(&mut self, driver: &str, term: u64, now: Timestamp, ttl: Duration, spare: usize) -> Renewed {
        let Some(row) = self.drivers.get_mut(driver).filter(|row| row.term == term) else {
            return Renewed::default();
        };
        let held = row.lease_until >= now;
        row.renew(now, ttl);
        row.spare = spare;
        let half = |row: &StoredDriver| (row.lease_until.micros() - row.renewed_at.micros()) / 2;
        let others = self.drivers.iter().filter(|(id, _)| *id != driver).map(|(_, row)| row);
        let heard = others.filter(|row| now.micros() < row.renewed_at.micros() + half(row));
        Renewed { held, spare: heard.map(|row| row.spare).sum() }
    }

    /// [`Leases::release`](tree_agent_store::Leases::release).
    pub fn release(&mut self, held: &[(RunId, u64)]) {
        for (id, epoch) in held {
            self.disown(*id, *epoch, None);
        }
    }

    /// [`Leases::fail`](tree_agent_store::Leases::fail) at `now`.
    pub fn fail(
        &mut self,
        id: RunId,
        epoch: u64,
        reason: &str,
        now: Timestamp,
        lease: Duration,
    ) -> Option<Failed> {
        let run = self.runs.get_mut(&id).filter(|run| run.epoch == epoch && run.owner.is_some())?;
        if run.progress > run.failed_at {
            (run.failures.0, run.expiries) = (0, 0);
        }
        run.failed_at = run.progress;
        run.failures = (run.failures.0 + 1, reason.to_owned());
        let times = run.failures.0;
        let wait = lease.saturating_mul(1 << times.min(16)).min(QUARANTINE_MAX);
        self.disown(id, epoch, Some(end(now, wait)));
        Some(Failed { times, wait })
    }

    /// [`Leases::quarantine`](tree_agent_store::Leases::quarantine) at `now`.
    pub fn quarantine(&mut self, run: RunId, epoch: u64, now: Timestamp, wait: Duration) {
        self.disown(run, epoch, Some(end(now, wait)));
    }

    fn disown(&mut self, run: RunId, epoch: u64, not_before: Option<Timestamp>) {
        if let Some(run) = self.runs.get_mut(&run)
            && run.epoch == epoch
            && run.owner.is_some()
        {
            run.owner = None;
            run.not_before = not_before.unwrap_or(run.not_before);
        }
    }
}

impl StoredDriver {
    fn renew(&mut self, now: Timestamp, ttl: Duration) {
        if self.lease_until < now {
            self.held_since = now;
        }
        (self.renewed_at, self.lease_until) = (now, end(now, ttl));
    }

    /// True if one who has held a lease since `since` may take its runs.
    fn is_gone(&self, now: Timestamp, since: Timestamp) -> bool {
        let third = (self.lease_until.micros() - self.renewed_at.micros()) / 3;
        self.lease_until < now && since < self.lease_until.max(Timestamp(now.micros() - third))
    }
}

fn end(now: Timestamp, ttl: Duration) -> Timestamp {
    Timestamp(now.micros().saturating_add(i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX)))
}
