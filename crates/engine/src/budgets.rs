//! Budgets of tokens, cost and tool calls, which role calls use up, and of the wall clock.
//!
//! A call is made only if it fits: the sum of what is used, what calls in flight may still use, what the call itself
//! may use and what is kept for aggregation must stay within the limit. What a call may use is its *allotment*. It is
//! at least as much as the largest call of its role in this run needed, and otherwise an even share of what is free,
//! so that parallel calls do not starve each other. Tool calls are shared by the calls that are due and those that will
//! follow plans at work: other calls at work have their shares, and what one of them leaves goes to the next. If
//! something is left and nothing is in flight, one call is always made. So only calls in flight that use more than
//! their allotment can exceed a budget.
//!
//! | used | what happens |
//! | --- | --- |
//! | 80 % | every role is told to finish, with the budget and what is left of it |
//! | the limit minus what aggregation needs (at most a fifth) | `tree.budget_exhausted`: no new work; existing results are aggregated |
//! | the limit | aggregators are not called any more either: results are returned unchanged |
//!
//! A subtree with a lease has the same rules of its own, and nothing begins in it that does not fit the budgets above.
//! What its lease holds is not free for others until it ends. If only what is promised to steps stands in the way of a
//! call, its node ends as if it had used up a lease: nothing would be free before that step begins, and it may wait for
//! the node.
//!
//! The wall clock stops leaf work at its limit. Aggregators then have as long as one call may take, but at most a fifth
//! of the limit (and at least 10 s). Nodes and depth never exceed their limits: plans are cut.

use std::collections::BTreeMap;

use tree_agent_contract::event::{BudgetExhausted, LeaseCovered};
use tree_agent_contract::role::CallKind;
use tree_agent_contract::{Allowance, BudgetLeft, Timestamp};

use crate::amounts::{Amounts, NAMES, TOOL_CALLS};
use crate::in_flight::InFlight;
use crate::lease_time::{deadlines_of, elapsed_of};
use crate::state::{Account, Accounts, State};

/// What is free while due calls are chosen.
pub(crate) struct FreeBudget {
    /// None if no budget has a limit; then nothing needs to be counted.
    accounts: Option<Accounts>,
    /// What calls take of each account; that of the run has no lease.
    pools: BTreeMap<Option<usize>, Pool>,
}

/// What calls take of one account.
#[derive(Clone, Copy, Debug, Default)]
struct Pool {
    /// Allotted to calls that count against this account first.
    own: Amounts,
    /// Those calls, and due ones that have not been considered yet.
    calls: [u64; 3],
    /// Allotted to all calls in flight in the subtree.
    flying: Amounts,
    /// Those calls.
    in_flight: u64,
}

/// What is neither used nor allotted to a call in flight, for the calls that could be made now.
pub(crate) fn free(state: &State, in_flight: &InFlight, due: usize) -> FreeBudget {
    let accounts = Accounts::of(state);
    let mut free = FreeBudget { accounts: None, pools: BTreeMap::new() };
    if accounts.are_unlimited() {
        return free;
    }
    for (at, call) in in_flight.calls() {
        let left = call.left(state.control(at).spent);
        free.take(state, &accounts, at, left);
        let shares = |m: &usize| *m != TOOL_CALLS || creates_work(call.key.kind);
        (0..3).filter(shares).for_each(|m| free.pool(state.account_of(at, m)).calls[m] += 1);
    }
    if state.has_leases() {
        for at in in_flight.ready().due_nodes() {
            (0..3).for_each(|m| free.pool(state.account_of(at, m)).calls[m] += 1);
        }
    } else {
        free.pool(None).calls.iter_mut().for_each(|calls| *calls += due as u64);
    }
    free.accounts = Some(accounts);
    free
}

impl FreeBudget {
    /// The allotment of a call of `kind` for the node at `at`, or none if it does not fit now.
    pub(crate) fn allot(&mut self, state: &State, at: usize, kind: CallKind) -> Option<Amounts> {
        let Some(accounts) = self.accounts.take() else { return Some([u64::MAX; 3]) };
        let allotted = self.allotment(state, &accounts, at, kind);
        if let Some(allotted) = allotted {
            self.take(state, &accounts, at, allotted);
        }
        self.accounts = Some(accounts);
        allotted
    }

    fn allotment(
        &mut self,
        state: &State,
        accounts: &Accounts,
        at: usize,
        kind: CallKind,
    ) -> Option<Amounts> {
        let mut allotted = [u64::MAX; 3];
        let keys: [Option<usize>; 3] = std::array::from_fn(|m| state.account_of(at, m));
        let calls: [u64; 3] = std::array::from_fn(|m| {
            let calls = &mut self.pool(keys[m]).calls[m];
            let before = (*calls).max(1);
            *calls = before - 1;
            before
        });
        for m in 0..3 {
            let (account, pool) = (accounts.get(keys[m]), *self.pool(keys[m]));
            let Some(limit) = account.limits[m] else { continue };
            let flying = |lease: Option<usize>| self.pools.get(&lease).map_or(0, |pool| pool.flying[m]);
            let free = account.room(m).saturating_sub(pool.own[m]);
            let free = free.min(bound(state, accounts, at, m, flying));
            let free = free.saturating_sub(keep(state, accounts, at, kind, m));
            let reserve = reserve(state, kind, limit, m);
            let may_do_without = does_without(kind, m);
            if free < reserve && !may_do_without && !(pool.in_flight == 0 && free > 0) {
                return None;
            }
            let share = match m == TOOL_CALLS && (may_do_without || creates_work(kind)) {
                // What it does not need is for those whose work consists of tool calls.
                true => free.min(limit / 8).max(1),
                false => free / calls[m],
            };
            allotted[m] = free.min(reserve.max(share));
        }
        Some(allotted)
    }

    fn pool(&mut self, lease: Option<usize>) -> &mut Pool {
        self.pools.entry(lease).or_default()
    }

    /// A call for the node at `at` may use `amounts`.
    fn take(&mut self, state: &State, accounts: &Accounts, at: usize, amounts: Amounts) {
        for (m, amount) in amounts.into_iter().enumerate() {
            let lease = state.account_of(at, m);
            if accounts.get(lease).limits[m].is_some() {
                let own = &mut self.pool(lease).own[m];
                *own = own.saturating_add(amount);
            }
        }
        for lease in state.leases_of(at).into_iter().map(Some).chain([None]) {
            let pool = self.pool(lease);
            pool.in_flight += 1;
            (0..3).for_each(|m| pool.flying[m] = pool.flying[m].saturating_add(amounts[m]));
        }
    }
}

/// What the accounts above that of the node at `at` have left: a limit may have been lowered below what it has
/// promised. `flying` is what calls in flight may still use of an account.
fn bound(
    state: &State,
    accounts: &Accounts,
    at: usize,
    m: usize,
    flying: impl Fn(Option<usize>) -> u64,
) -> u64 {
    if state.account_of(at, m).is_none() {
        return u64::MAX;
    }
    let above = state.accounts_of(at, m).skip(1).map(Some).chain([None]);
    let left = above.map(|lease| {
        let account = accounts.get(lease);
        match account.limits[m] {
            Some(_) => account.limit(m).saturating_sub(account.used[m]).saturating_sub(flying(lease)),
            None => u64::MAX,
        }
    });
    left.min().unwrap_or(u64::MAX)
}

/// True for tool calls, of which those that put results together or verify them need none.
fn does_without(kind: CallKind, m: usize) -> bool {
    m == TOOL_CALLS && (kind.finishes() || kind == CallKind::Verify)
}

/// True for calls after which there is work that needs tool calls.
fn creates_work(kind: CallKind) -> bool {
    matches!(kind, CallKind::Plan | CallKind::Pick)
}

/// The expected need of a call of `kind`, of a budget with this limit.
fn reserve(state: &State, kind: CallKind, limit: u64, m: usize) -> u64 {
    let largest = state.ledger().largest(kind).map(|largest| largest[m]);
    largest.unwrap_or_else(|| state.behaviour().unseen[m].min(limit / 8).max(1))
}

/// What is kept for aggregation: the need of one aggregator for every node with a plan, but at most a fifth of the
/// limit.
fn kept(state: &State, account: &Account, m: usize) -> u64 {
    if m == TOOL_CALLS {
        // Aggregators can do without.
        return 0;
    }
    let owed = u64::from(account.owed(m));
    account.limits[m]
        .map_or(0, |limit| owed.saturating_mul(reserve(state, CallKind::Aggregate, limit, m)).min(limit / 5))
}

/// What a call for the node at `at` must leave free. New work must leave what aggregation needs. Once there is no
/// budget left for that, the aggregators below the top must leave what the aggregator of the top needs.
fn keep(state: &State, accounts: &Accounts, at: usize, kind: CallKind, m: usize) -> u64 {
    let lease = state.account_of(at, m);
    let account = accounts.get(lease);
    // What the aggregators needed is spent when the answer is verified.
    if kind == CallKind::Verify {
        return 0;
    }
    if !kind.finishes() {
        return kept(state, account, m);
    }
    if state.exhausted_of(at).is_none() || at == lease.unwrap_or(0) {
        return 0;
    }
    account.limits[m].map_or(0, |limit| reserve(state, kind, limit, m).min(limit / 5))
}

/// What calls that count first against the account `lease` are expected to need, without the node at `at`. It follows
/// from the log alone: nobody knows which of them are in flight.
fn needed(state: &State, lease: Option<usize>, at: usize, limit: u64, m: usize) -> u64 {
    let needs = (0..state.nodes().len()).filter(|&other| other != at).filter_map(|other| {
        let control = state.control(other);
        let kind = control.needs.filter(|kind| !kind.finishes() && state.account_of(other, m) == lease)?;
        Some(reserve(state, kind, limit, m).saturating_sub(control.spent[m]))
    });
    needs.fold(0, u64::saturating_add)
}

/// What is free for leases of steps of the node at `at`: what calls at work and aggregators do not need.
pub(crate) fn free_for_leases(state: &State, at: usize) -> Amounts {
    let accounts = Accounts::of(state);
    std::array::from_fn(|m| {
        let lease = state.account_of(at, m);
        let account = accounts.get(lease);
        let Some(limit) = account.limits[m] else { return u64::MAX };
        // It is about to need an aggregator.
        let owed = u64::from(account.owed(m)) + u64::from(!state.control(at).owes());
        let kept = owed.saturating_mul(reserve(state, CallKind::Aggregate, limit, m)).min(limit / 5);
        let room = account.room(m).min(bound(state, &accounts, at, m, |_| 0));
        room.saturating_sub(kept).saturating_sub(needed(state, lease, at, limit, m))
    })
}

/// What the account above the lease of the node at `at` has promised beyond its limit.
pub(crate) fn promised_beyond(state: &State, at: usize) -> Amounts {
    let accounts = Accounts::of(state);
    std::array::from_fn(|m| {
        let lease = state.account_above(at, m);
        let account = accounts.get(lease);
        let Some(limit) = account.limits[m] else { return 0 };
        let needed = needed(state, lease, at, limit, m).saturating_add(kept(state, account, m));
        account.committed(m).saturating_add(needed).saturating_sub(limit)
    })
}

/// What the lease of the node at `at` has used or promised.
pub(crate) fn committed(state: &State, at: usize) -> Amounts {
    let accounts = Accounts::of(state);
    std::array::from_fn(|m| accounts.get(Some(at)).committed(m))
}

/// An allotment in the form in which the role receives it.
pub(crate) fn allowance(state: &State, at: usize, allotted: Amounts) -> Allowance {
    let limits = state.limits_of(at);
    let told = |m: usize| limits[m].map(|_| allotted[m]);
    Allowance { tokens: told(0), cost_micros: told(1), tool_calls: told(TOOL_CALLS) }
}

/// The budget with the smallest share left, if that is a fifth or less. The budget of nodes concerns only calls that
/// can create some.
pub(crate) fn finish(state: &State, at: usize, kind: CallKind, now: Timestamp) -> Option<BudgetLeft> {
    let (budget, limit, used) = least(state, at, now, |name| name != "maxNodes" || kind.creates_nodes())?;
    Some(BudgetLeft { budget: budget.to_owned(), limit, left: limit.saturating_sub(used) })
}

/// The budget of which so little is left that the node at `at` does its task itself instead of dividing it, as its
/// guard is called.
pub(crate) fn near_end(state: &State, at: usize, now: Timestamp) -> Option<&'static str> {
    let (budget, ..) = least(state, at, now, |name| name != NAMES[TOOL_CALLS])?;
    Some(if budget == "maxWallClockMs" { "maxTime" } else { budget })
}

/// The budget with the smallest share left among those that count, if that is a fifth or less: its name, its limit and
/// what is used of it.
fn least(
    state: &State,
    at: usize,
    now: Timestamp,
    counts: impl Fn(&str) -> bool,
) -> Option<(&'static str, u64, u64)> {
    let (budgets, accounts) = (state.budgets(), Accounts::of(state));
    let leases = state.leases_of(at);
    let all = [None].into_iter().chain(leases.iter().copied().map(Some));
    let metered = (0..3).flat_map(|m| all.clone().map(move |lease| (m, lease))).filter_map(|(m, lease)| {
        let account = accounts.get(lease);
        Some((NAMES[m], account.limits[m]?, account.used[m]))
    });
    let times = leases.iter().filter_map(|&lease| {
        let limit = state.lease(lease)?.limits.max_wall_clock_ms?;
        Some(("maxWallClockMs", limit, elapsed_of(state, lease, now)))
    });
    metered
        .chain([
            ("maxNodes", budgets.max_nodes.into(), state.planned_nodes().into()),
            ("maxWallClockMs", budgets.max_wall_clock_ms, elapsed(state, now)),
        ])
        .chain(times)
        .filter(|&(name, _, _)| counts(name))
        .filter(|&(_, limit, used)| u128::from(used) * 5 >= u128::from(limit) * 4)
        // The first of equals, so that the answer depends only on the state.
        .min_by(|a, b| {
            let part = |&(_, limit, used): &(&str, u64, u64), other: u64| {
                u128::from(limit.saturating_sub(used)) * u128::from(other)
            };
            part(a, b.1).cmp(&part(b, a.1))
        })
}

/// Milliseconds that are left of the time of the run, or of the lease above the node at `at` that ends first.
pub(crate) fn time_left(state: &State, at: usize, now: Timestamp) -> u64 {
    let run = state.budgets().max_wall_clock_ms.saturating_sub(elapsed(state, now));
    let leases = state.leases_of(at).into_iter().filter_map(|lease| {
        let limit = state.lease(lease)?.limits.max_wall_clock_ms?;
        Some(limit.saturating_sub(elapsed_of(state, lease, now)))
    });
    leases.min().map_or(run, |least| least.min(run))
}

/// Milliseconds since the run was taken up, without those for which the clock stood still.
fn elapsed(state: &State, now: Timestamp) -> u64 {
    state.elapsed_ms(now)
}

/// True if the wall clock has run out.
pub(crate) fn is_late(state: &State, now: Timestamp) -> bool {
    elapsed(state, now) >= state.budgets().max_wall_clock_ms
}

/// When leaf work is stopped, and when the run stops waiting for aggregators. None before the run has begun and while
/// the clock stands still.
pub(crate) fn deadlines(state: &State) -> Option<(Timestamp, Timestamp)> {
    let (budgets, steering) = (state.budgets(), state.steering());
    if steering.is_still() {
        return None;
    }
    let start = state.started_at()?;
    let end = start.plus_millis(budgets.max_wall_clock_ms).plus_millis(steering.stood_still_ms(start));
    Some((end, end.plus_millis(budgets.grace_ms())))
}

/// True if a call is due that would be new work and is not in flight.
pub(crate) fn wants_work(in_flight: &InFlight) -> bool {
    in_flight.ready().nodes().any(|(_, kind)| !kind.finishes())
}

/// As [`wants_work`], below the node at `top`.
pub(crate) fn wants_work_below(state: &State, in_flight: &InFlight, top: usize) -> bool {
    let mut wanted = in_flight.ready().nodes().filter(|(_, kind)| !kind.finishes());
    wanted.any(|(at, _)| state.line(at).any(|above| above == top))
}

/// A node whose results must be put together without a call, with the budget that forbids it. What is left never grows,
/// so waiting for calls in flight would not help.
pub(crate) fn unaffordable(
    state: &State,
    in_flight: &InFlight,
    now: Timestamp,
) -> Option<(usize, &'static str)> {
    let late = deadlines(state).is_some_and(|(_, last)| now >= last);
    let finishing = |at: &usize| state.control(*at).needs.filter(|kind| kind.finishes());
    let is_late = |at: usize| deadlines_of(state, at).is_some_and(|(_, last)| now >= last);
    let mut all = (0..state.nodes().len()).rev().filter(|at| finishing(at).is_some());
    if let Some(at) = all.find(|&at| late || state.has_leases() && is_late(at)) {
        return Some((at, "maxWallClockMs"));
    }
    let accounts = Accounts::of(state);
    let mut waiting = in_flight.ready().nodes().rev().filter(|&(at, kind)| {
        kind.finishes() && (state.exhausted().is_some() || state.exhausted_of(at).is_some())
    });
    waiting.find_map(|(at, kind)| {
        let over = |&m: &usize| {
            let (account, keep) =
                (accounts.get(state.account_of(at, m)), keep(state, &accounts, at, kind, m));
            account.limits[m].is_some()
                && (account.used[m].saturating_add(keep) >= account.limit(m)
                    || lacks(state, &accounts, at, kind, m))
        };
        (0..TOOL_CALLS).find(over).map(|m| (at, NAMES[m]))
    })
}

/// True if a call for the node at `at` does not fit, and waiting for leases below its account would not help: what is
/// promised goes to steps that have not begun, or a limit above was lowered.
fn lacks(state: &State, accounts: &Accounts, at: usize, kind: CallKind, m: usize) -> bool {
    let (account, keep) = (accounts.get(state.account_of(at, m)), keep(state, accounts, at, kind, m));
    let is_promised = account.has_promised(m) && !account.awaits(m) && account.room(m) <= keep;
    is_promised || bound(state, accounts, at, m, |_| 0) <= keep
}

/// A node that can never make its call, because what is left is promised to others, if the log does not say so yet.
pub(crate) fn starved(state: &State, in_flight: &InFlight) -> Option<(usize, BudgetExhausted)> {
    if !state.has_leases() {
        return None;
    }
    let accounts = Accounts::of(state);
    let waiting = in_flight.ready().nodes().filter(|&(at, _)| state.exhausted_of(at).is_none());
    waiting
        .filter_map(|(at, kind)| {
            let may_do_without = |m: usize| does_without(kind, m);
            let m = (0..3).find(|&m| !may_do_without(m) && lacks(state, &accounts, at, kind, m))?;
            let account = accounts.get(state.account_of(at, m));
            let (used, limit) = (account.committed(m), account.limit(m));
            let reserved = limit.saturating_sub(used);
            Some((at, BudgetExhausted { budget: NAMES[m].into(), limit, used, reserved }))
        })
        .next()
}

/// The budget of the run that is used up, if the log does not say so yet.
pub(crate) fn tripped(state: &State, in_flight: &InFlight, now: Timestamp) -> Option<BudgetExhausted> {
    if is_late(state, now) {
        return Some(BudgetExhausted {
            budget: "maxWallClockMs".into(),
            limit: state.budgets().max_wall_clock_ms,
            used: elapsed(state, now),
            reserved: 0,
        });
    }
    used_up(state, in_flight, &Accounts::of(state), None)
}

/// The budget of the lease of the node at `at` that is used up.
pub(crate) fn lease_tripped(
    state: &State,
    in_flight: &InFlight,
    accounts: &Accounts,
    at: usize,
    now: Timestamp,
) -> Option<BudgetExhausted> {
    let time = state.lease(at)?.limits.max_wall_clock_ms;
    let elapsed = elapsed_of(state, at, now);
    if let Some(limit) = time.filter(|limit| elapsed >= *limit) {
        return Some(BudgetExhausted { budget: "maxWallClockMs".into(), limit, used: elapsed, reserved: 0 });
    }
    used_up(state, in_flight, accounts, Some(at))
}

fn used_up(
    state: &State,
    in_flight: &InFlight,
    accounts: &Accounts,
    lease: Option<usize>,
) -> Option<BudgetExhausted> {
    let account = accounts.get(lease);
    let over = |is_over: &dyn Fn(usize) -> bool| {
        (0..3).find_map(|m| {
            let limit = account.limits[m].filter(|_| is_over(m))?;
            let used = account.used[m];
            let reserved = limit.saturating_sub(used);
            Some(BudgetExhausted { budget: NAMES[m].into(), limit, used, reserved })
        })
    };
    // A verification takes what is left. It never makes a run that has its answer run out of a budget.
    let wants = |kind: CallKind| !kind.finishes() && kind != CallKind::Verify;
    let wants_own_work = |m: usize| {
        in_flight.ready().nodes().any(|(at, kind)| wants(kind) && state.account_of(at, m) == lease)
    };
    // What is kept for aggregation matters only if new work needs it.
    over(&|m| account.used[m] >= account.limit(m)).or_else(|| {
        let is_full = |m: usize| account.used[m].saturating_add(kept(state, account, m)) >= account.limit(m);
        over(&|m| !account.has_promised(m) && is_full(m) && wants_own_work(m))
    })
}

/// Use of budget `m` beyond the lease of the node at `at`, at most `most`, that the nearest account above
/// with room takes over.
pub(crate) fn cover(state: &State, at: usize, m: usize, most: u64) -> Option<LeaseCovered> {
    let beyond = state.uncovered(at)[m].min(most);
    if beyond == 0 {
        return None;
    }
    let accounts = Accounts::of(state);
    let mut above = state.accounts_of(at, m).skip(1).map(Some).chain([None]);
    let (by, room) = above.find_map(|lease| {
        let room = accounts.get(lease).room(m);
        (room > 0).then_some((lease.unwrap_or(0), room))
    })?;
    let (budget, amount) = (NAMES[m].to_owned(), beyond.min(room));
    Some(LeaseCovered { budget, amount, by_node_id: state.node(by).id })
}
