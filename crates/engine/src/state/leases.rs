//! The accounts of a run and of its leases: what of each budget is used, held by leases below, set aside for steps, and
//! free.
//!
//! | word | meaning |
//! | --- | --- |
//! | used | by the subtree since its lease began, leases below included |
//! | held | what open leases below may still use |
//! | set aside | leases of steps that have no node yet |
//! | cover | use beyond the limit that an account above has taken over |
//!
//! The budgets of the run are the account at the top. A lease may limit some budgets only. What it does not limit
//! counts against the nearest account above that does. When a lease ends, what it held is free again.

use std::collections::BTreeMap;

use serde::Serialize;
use tree_agent_contract::event::LeaseCovered;
use tree_agent_contract::graph::{Lease, SubtreeUse, Usage};
use tree_agent_contract::{StepStatus, Timestamp};

use super::State;
use crate::amounts::{Amounts, Limits, NAMES, limits, of_subtree};

/// What the log says about an open lease beyond what users see of it.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct OpenLease {
    /// Use beyond the limits that accounts above have taken over.
    cover: Amounts,
    /// Use beyond the limits that no account has taken over yet.
    uncovered: Amounts,
    /// Nodes of the subtree that need an aggregator.
    owed: u32,
    /// When it was used up, in milliseconds on the run's clock.
    exhausted_ms: Option<u64>,
    /// It was used up before the run was forked.
    used_up_before: bool,
}

/// One account.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    pub(crate) limits: Limits,
    pub(crate) used: Amounts,
    /// What open leases below hold beyond what they have used.
    held: Amounts,
    /// What is set aside for steps.
    set_aside: Amounts,
    cover: Amounts,
    /// A lease below that holds something has begun, so that what it leaves will be free.
    awaits: [bool; 3],
    /// Nodes that need an aggregator, without those of leases below.
    owed: [u32; 3],
}

impl Account {
    fn of_lease(state: &State, at: usize, open: &OpenLease) -> Self {
        let (lease, node) = (state.lease(at), state.node(at));
        let before = lease.map_or_else(SubtreeUse::default, |lease| lease.before);
        let limits = lease.map_or([None; 3], |lease| of_subtree(&lease.limits));
        let used = amounts_of(node.subtree_usage.get());
        let before = [before.tokens, before.cost_micros, before.tool_calls];
        let used = std::array::from_fn(|m| used[m].saturating_sub(before[m]));
        Self { limits, used, cover: open.cover, owed: [open.owed; 3], ..Self::default() }
    }

    /// What is used or promised.
    pub(crate) fn committed(&self, m: usize) -> u64 {
        self.used[m].saturating_add(self.held[m]).saturating_add(self.set_aside[m])
    }

    /// What is neither used nor promised. Calls in flight do not count.
    pub(crate) fn room(&self, m: usize) -> u64 {
        self.limits[m].map_or(u64::MAX, |limit| limit.saturating_sub(self.committed(m)))
    }

    /// The limit, and what is promised beyond it as far as that is covered from above.
    pub(crate) fn limit(&self, m: usize) -> u64 {
        let beyond = |limit: u64| self.committed(m).saturating_sub(limit).min(self.cover[m]);
        self.limits[m].map_or(u64::MAX, |limit| limit.saturating_add(beyond(limit)))
    }

    /// True if a part is promised to leases below.
    pub(crate) fn has_promised(&self, m: usize) -> bool {
        self.held[m] > 0 || self.set_aside[m] > 0
    }

    /// True if what a lease below leaves will be free.
    pub(crate) fn awaits(&self, m: usize) -> bool {
        self.awaits[m]
    }

    /// Nodes that need an aggregator, without those of leases below.
    pub(crate) fn owed(&self, m: usize) -> u32 {
        self.owed[m]
    }
}

/// Every account of a run at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Accounts {
    run: Account,
    leases: BTreeMap<usize, Account>,
}

impl Accounts {
    pub(crate) fn of(state: &State) -> Self {
        let used = amounts_of(state.graph.usage());
        let owed = [state.ledger.owed(); 3];
        let run = Account { limits: limits(state.budgets()), used, owed, ..Account::default() };
        let leases = state.leases.iter().map(|(&at, open)| (at, Account::of_lease(state, at, open)));
        let mut accounts = Self { run, leases: leases.collect() };
        accounts.set_aside(state);
        accounts.hold(state);
        accounts
    }

    /// The account of the lease of a node, or of the run.
    pub(crate) fn get(&self, lease: Option<usize>) -> &Account {
        lease.and_then(|at| self.leases.get(&at)).unwrap_or(&self.run)
    }

    fn get_mut(&mut self, lease: Option<usize>) -> &mut Account {
        match lease.and_then(|at| self.leases.get_mut(&at)) {
            Some(account) => account,
            None => &mut self.run,
        }
    }

    /// True if no account has a limit.
    pub(crate) fn are_unlimited(&self) -> bool {
        let mut all = self.leases.values().chain([&self.run]);
        all.all(|account| account.limits.iter().all(Option::is_none))
    }

    /// Steps with a lease that have no node yet.
    fn set_aside(&mut self, state: &State) {
        for &at in state.lessors.iter().filter(|at| state.ending(**at).is_none()) {
            for (m, set_aside) in state.set_aside(at).into_iter().enumerate() {
                let amount = &mut self.get_mut(state.account_of(at, m)).set_aside[m];
                *amount = amount.saturating_add(set_aside);
            }
        }
    }

    /// What leases hold of the accounts above them, the deepest first.
    fn hold(&mut self, state: &State) {
        for (&at, open) in state.leases.iter().rev() {
            let (account, has_begun) = (self.leases[&at], state.lease(at).is_some_and(|l| l.since.is_some()));
            for m in 0..3 {
                if account.limits[m].is_none() {
                    continue;
                }
                let holds = account.limit(m).saturating_sub(account.used[m]);
                let above = self.get_mut(state.account_above(at, m));
                above.held[m] = above.held[m].saturating_add(holds);
                above.awaits[m] |= has_begun && holds > 0;
                above.owed[m] = above.owed[m].saturating_sub(open.owed);
            }
        }
    }
}

fn amounts_of(usage: Usage) -> Amounts {
    [usage.tokens(), usage.cost_micros, usage.tool_calls]
}

impl State {
    /// True if a node below the root has a lease, or a step will have one.
    pub(crate) fn has_leases(&self) -> bool {
        !self.leases.is_empty() || !self.lessors.is_empty()
    }

    /// The nodes with an open lease, those above first.
    pub(crate) fn leased(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.leases.keys().copied()
    }

    /// The open lease of the node at `at`.
    pub(crate) fn lease(&self, at: usize) -> Option<&Lease> {
        self.leases.contains_key(&at).then(|| self.node(at).lease.as_deref()).flatten()
    }

    /// The nodes with an open lease from the one at `at` upwards.
    pub(crate) fn leases_of(&self, at: usize) -> Vec<usize> {
        match self.leases.is_empty() {
            true => Vec::new(),
            false => self.line(at).filter(|at| self.lease(*at).is_some()).collect(),
        }
    }

    /// The lease against which budget `m` of the node at `at` counts; none for the run.
    pub(crate) fn account_of(&self, at: usize, m: usize) -> Option<usize> {
        match self.leases.is_empty() {
            true => None,
            false => self.accounts_of(at, m).next(),
        }
    }

    /// The leases that limit budget `m` of the node at `at`, upwards.
    pub(crate) fn accounts_of(&self, at: usize, m: usize) -> impl Iterator<Item = usize> + '_ {
        self.line(at).filter(move |at| self.lease(*at).is_some_and(|l| of_subtree(&l.limits)[m].is_some()))
    }

    /// The limits that apply to the node at `at`: of its lease, of those above, or of the run.
    pub(crate) fn limits_of(&self, at: usize) -> Limits {
        let of_run = limits(self.budgets());
        std::array::from_fn(|m| match self.account_of(at, m).and_then(|lease| self.lease(lease)) {
            Some(lease) => of_subtree(&lease.limits)[m],
            None => of_run[m],
        })
    }

    /// As [`account_of`](Self::account_of), without a lease of the node itself.
    pub(crate) fn account_above(&self, at: usize, m: usize) -> Option<usize> {
        self.control[at].parent.and_then(|parent| self.account_of(parent, m))
    }

    /// What is set aside for steps of the node at `at` that have no node yet.
    pub(crate) fn set_aside(&self, at: usize) -> Amounts {
        let steps = self.node(at).steps();
        let unborn = steps.filter(|step| step.node_id.is_none() && step.status == StepStatus::Pending);
        unborn.filter_map(|step| step.budget).fold(Amounts::default(), |sum, budget| {
            let limits = of_subtree(&budget);
            std::array::from_fn(|m| sum[m].saturating_add(limits[m].unwrap_or_default()))
        })
    }

    /// The used up budget of the node at `at`: that of the run, or of the nearest lease.
    pub(crate) fn exhausted_of(&self, at: usize) -> Option<&str> {
        self.exhausted().or_else(|| {
            let at = self.exhausted_lease(at)?;
            self.lease(at)?.exhausted.as_deref()
        })
    }

    /// When that was used up, in milliseconds on the run's clock.
    pub(crate) fn exhausted_ms_of(&self, at: usize) -> Option<u64> {
        let lease = || self.leases.get(&self.exhausted_lease(at)?)?.exhausted_ms;
        self.exhausted.as_ref().map(|e| e.clock_ms).or_else(lease)
    }

    /// The nearest node upwards from `at` whose lease is used up.
    pub(crate) fn exhausted_lease(&self, at: usize) -> Option<usize> {
        match self.leases.is_empty() {
            true => None,
            false => self.line(at).find(|at| self.lease(*at).is_some_and(|lease| lease.exhausted.is_some())),
        }
    }

    /// True if a lease is used up.
    pub(crate) fn has_exhausted_leases(&self) -> bool {
        self.leases.values().any(|lease| lease.exhausted_ms.is_some())
    }

    /// True if the lease of the node at `at` is used up, was when the node ended, or before the run was forked.
    pub(crate) fn has_used_up_lease(&self, at: usize) -> bool {
        self.node(at).lease.as_ref().is_some_and(|lease| lease.exhausted.is_some())
            || self.leases.get(&at).is_some_and(|lease| lease.used_up_before)
    }

    /// Use of the node's lease beyond its limit that no account has taken over yet.
    pub(crate) fn uncovered(&self, at: usize) -> Amounts {
        self.leases.get(&at).map_or_else(Amounts::default, |lease| lease.uncovered)
    }

    /// The node at `at` needs an aggregator from here on.
    pub(super) fn owe(&mut self, at: usize) {
        self.ledger.owe();
        self.each_lease_above(at, |lease| lease.owed += 1);
    }

    /// The node at `at` needs no aggregator any more.
    pub(super) fn settle(&mut self, at: usize) {
        self.ledger.settle();
        self.each_lease_above(at, |lease| lease.owed = lease.owed.saturating_sub(1));
    }

    fn each_lease_above(&mut self, at: usize, mut change: impl FnMut(&mut OpenLease)) {
        if self.leases.is_empty() {
            return;
        }
        let line: Vec<usize> = self.line(at).collect();
        for at in line {
            self.leases.get_mut(&at).map(&mut change);
        }
    }

    /// Opens the lease that the graph shows for the node at `at`, or closes it if it shows none. `anew`: nothing is
    /// known of it.
    pub(super) fn sync_lease(&mut self, at: usize, anew: bool) {
        if self.node(at).lease.is_none() || self.node(at).status.is_final() {
            self.leases.remove(&at);
        } else if anew || !self.leases.contains_key(&at) {
            let owed = self.subtree(at).into_iter().filter(|below| self.control[*below].owes).count() as u32;
            self.leases.insert(at, OpenLease { owed, ..OpenLease::default() });
        } else if let Some(open) = self.leases.get_mut(&at) {
            let is_exhausted = self.graph.nodes()[at].lease.as_ref().is_some_and(|l| l.exhausted.is_some());
            open.exhausted_ms = open.exhausted_ms.filter(|_| is_exhausted);
        }
    }

    /// The lease of the node at `at` is used up.
    pub(super) fn lease_exhausted(&mut self, at: usize, now: Timestamp) {
        self.sync_lease(at, false);
        let clock_ms = self.elapsed_ms(now);
        if let Some(open) = self.leases.get_mut(&at) {
            open.exhausted_ms = Some(clock_ms);
        }
    }

    /// An account above has taken over use of the lease of the node at `at` beyond its limit.
    pub(super) fn lease_covered(&mut self, at: usize, e: &LeaseCovered) {
        let Some(m) = NAMES.iter().position(|name| *name == e.budget) else { return };
        let below = self.accounts_of(at, m).take_while(|lease| self.node(*lease).id != e.by_node_id);
        for lease in below.collect::<Vec<usize>>() {
            if let Some(open) = self.leases.get_mut(&lease) {
                open.cover[m] = open.cover[m].saturating_add(e.amount);
            }
        }
        if let Some(open) = self.leases.get_mut(&at) {
            open.uncovered[m] = open.uncovered[m].saturating_sub(e.amount);
        }
    }

    /// The node at `at` has used something. What goes beyond a lease needs a cover.
    pub(super) fn note_overrun(&mut self, at: usize, used: Amounts) {
        if self.leases.is_empty() {
            return;
        }
        let mut accounts = None;
        for m in (0..3).filter(|m| used[*m] > 0) {
            let Some(lease) = self.account_of(at, m) else { continue };
            let accounts = accounts.get_or_insert_with(|| Accounts::of(self));
            let account = accounts.get(Some(lease));
            let beyond = account.limits[m].map_or(0, |limit| account.committed(m).saturating_sub(limit));
            if let Some(open) = self.leases.get_mut(&lease) {
                let known = open.cover[m].saturating_add(open.uncovered[m]);
                open.uncovered[m] += beyond.saturating_sub(known).min(used[m]);
            }
        }
    }

    /// The accounts of leases begin anew in a fork.
    pub(super) fn fork_leases(&mut self) {
        let nodes = self.graph.nodes();
        self.leases.retain(|at, _| nodes[*at].lease.is_some());
        for open in self.leases.values_mut() {
            *open = OpenLease {
                owed: open.owed,
                used_up_before: open.used_up_before || open.exhausted_ms.is_some(),
                ..OpenLease::default()
            };
        }
    }
}
