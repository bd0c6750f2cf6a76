//! Counts the budgets that calls use up, independently of the engine.

use std::collections::{BTreeMap, BTreeSet};

use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::graph::{GraphStep, Usage};
use tree_agent_contract::*;
use tree_agent_engine::{CallKey, CallKind, RoleCall, Run};

use super::{World, WorldPlan, leases};

type Amounts = [u64; 3];

/// What calls may use and have used.
#[derive(Debug, Default)]
pub(super) struct Meters {
    /// For each call in flight: what it may use, and what it has used.
    flights: BTreeMap<CallKey, (Allowance, Amounts)>,
    /// The largest use by one call of each role, over the calls that have ended.
    largest: BTreeMap<CallKind, Amounts>,
    /// For each exhausted budget, the calls that were in flight then. No other call may use more of it.
    beyond: [Option<BTreeSet<CallKey>>; 3],
    /// People stop the clock or change the budgets while the run runs, or subtrees have their own, so only the counts
    /// are kept.
    lenient: bool,
    /// Roles keep to their allowance and subtrees have budgets of their own.
    leased: bool,
    /// Since when the run waits for a quota, and for how long it did before.
    parked: (Option<Timestamp>, u64),
}

fn limits(budgets: &Budgets) -> [Option<u64>; 3] {
    [budgets.max_tokens, budgets.max_cost_micros, budgets.max_tool_calls]
}

fn used(run: &Run) -> Amounts {
    let usage = run.graph().usage();
    [usage.input_tokens + usage.output_tokens, usage.cost_micros, usage.tool_calls]
}

fn told(allowance: &Allowance) -> [Option<u64>; 3] {
    [allowance.tokens, allowance.cost_micros, allowance.tool_calls]
}

impl Meters {
    pub(super) fn new(plan: &WorldPlan) -> Self {
        let lenient = plan.commands > 0 || plan.leases > 0 || plan.review.is_some();
        Self { lenient, leased: plan.leases > 0 && plan.obedient, ..Self::default() }
    }

    /// The clock stands still while the run waits for a quota.
    pub(super) fn follow(&mut self, event: &Event) {
        let EventBody::RunStatusChanged(e) = &event.body else { return };
        match (e.goes_on_at, self.parked.0.take()) {
            (Some(_), _) => self.parked.0 = Some(event.timestamp),
            (None, Some(since)) => self.parked.1 += event.timestamp.millis_since(since),
            (None, None) => {}
        }
    }

    pub(super) fn of_fork(plan: &WorldPlan) -> Self {
        Self { lenient: true, ..Self::new(plan) }
    }

    /// A call is made. It must fit.
    pub(super) fn begin(&mut self, run: &Run, call: &RoleCall, now: Timestamp) {
        let context = call.input.context();
        if self.leased {
            let left = |(a, spent): &(Allowance, Amounts)| -> Amounts {
                std::array::from_fn(|m| told(a)[m].unwrap_or(0).saturating_sub(spent[m]))
            };
            let flights: Vec<_> = self.flights.iter().map(|(key, call)| (key.node_id, left(call))).collect();
            leases::check_fits(run, &call.key, told(&context.allowance), &flights);
        }
        if self.lenient {
            self.flights.insert(call.key, (context.allowance, [0; 3]));
            return;
        }
        let budgets = &run.spec().budgets;
        let exhausted = run.exhausted_budget();
        assert!(
            exhausted.is_none() || call.key.kind.finishes(),
            "new work after {exhausted:?} was used up: {:?}",
            call.key
        );
        let (limits, used, allowance) = (limits(budgets), used(run), told(&context.allowance));
        for m in 0..3 {
            let Some(limit) = limits[m] else {
                assert_eq!(allowance[m], None);
                continue;
            };
            let may = allowance[m].expect("a limit gives an allowance");
            let without_tools = m == 2 && call.key.kind.finishes();
            assert!(used[m] < limit || without_tools, "a call after budget {m} was used up: {:?}", call.key);
            let needed = self.largest.get(&call.key.kind).map_or(0, |largest| largest[m]);
            assert!(
                may >= needed || self.flights.is_empty() || without_tools,
                "{:?} may use {may} of budget {m}, and its role has needed {needed}",
                call.key
            );
            let in_flight: u64 = self
                .flights
                .values()
                .map(|(a, spent)| told(a)[m].unwrap_or(0).saturating_sub(spent[m]))
                .sum();
            assert!(
                used[m] + in_flight + may <= limit || may == 0,
                "budget {m}: {used:?} of {limit}, {in_flight} in flight, {may} more"
            );
        }
        self.flights.insert(call.key, (context.allowance, [0; 3]));
        self.check_finish(run, call, now);
    }

    /// From 80 % of any budget on, and only then, the role is told to finish.
    fn check_finish(&self, run: &Run, call: &RoleCall, now: Timestamp) {
        let (budgets, used) = (&run.spec().budgets, used(run));
        let started = run.graph().nodes()[0].started_at.expect("the root works");
        let mut all: Vec<(&str, u64, u64)> = ["maxTokens", "maxCostMicros", "maxToolCalls"]
            .into_iter()
            .zip(limits(budgets))
            .zip(used)
            .filter_map(|((name, limit), used)| Some((name, limit?, used)))
            .collect();
        all.push(("maxWallClockMs", budgets.max_wall_clock_ms, now.millis_since(started) - self.parked.1));
        if call.key.kind.creates_nodes() {
            let nodes = run.graph().nodes();
            // A step that names completed work creates no node.
            let done = |parent, step: &GraphStep| {
                nodes.iter().any(|n| {
                    n.parent_id == Some(parent)
                        && n.step_id.as_ref() == Some(&step.step_id)
                        && n.status == NodeStatus::Completed
                })
            };
            let open = nodes.iter().map(|n| {
                let steps = n.plan.iter().flat_map(|p| &p.bands).flat_map(|b| &b.steps);
                steps.filter(|s| s.node_id.is_none() && !done(n.id, s)).count() as u64
            });
            let planned = nodes.len() as u64 + open.sum::<u64>();
            all.push(("maxNodes", budgets.max_nodes.into(), planned));
        }
        let near = |&&(_, limit, used): &&(&str, u64, u64)| used as f64 >= 0.8 * limit as f64;
        match &call.input.context().finish {
            Some(finish) => {
                // Steps that a later plan dropped were counted as nodes, so this may count fewer nodes.
                let found =
                    all.iter().find(|(name, _, _)| *name == finish.budget).expect("a budget that applies");
                assert_eq!(found.1, finish.limit);
                if finish.budget != "maxNodes" {
                    assert!(near(&found), "{finish:?} is not near its end: {found:?}");
                    assert_eq!(finish.left, finish.limit.saturating_sub(found.2), "{finish:?}");
                }
            }
            None => assert_eq!(all.iter().find(near), None, "{:?} was not told to finish", call.key),
        }
    }

    pub(super) fn allowance(&self, key: &CallKey) -> Allowance {
        self.flights.get(key).expect("in flight").0
    }

    pub(super) fn spent(&self, key: &CallKey) -> Amounts {
        self.flights.get(key).map_or([0; 3], |(_, spent)| *spent)
    }

    /// A call in flight uses something.
    pub(super) fn used(&mut self, run: &Run, key: &CallKey, amounts: Amounts) {
        let (limits, used) = (limits(&run.spec().budgets), used(run));
        for m in 0..3 {
            if limits[m].is_some_and(|limit| used[m] >= limit) && self.beyond[m].is_none() {
                self.beyond[m] = Some(self.flights.keys().copied().collect());
            }
            if let Some(beyond) = self.beyond[m].as_ref().filter(|_| amounts[m] > 0 && !self.lenient) {
                assert!(beyond.contains(key), "{key:?} began after budget {m} was used up, and used more");
            }
        }
        let spent = &mut self.flights.get_mut(key).expect("in flight").1;
        (0..3).for_each(|m| spent[m] += amounts[m]);
    }

    pub(super) fn retain(&mut self, run: &Run) {
        let largest = &mut self.largest;
        self.flights.retain(|key, (_, spent)| {
            let ended = !run.is_in_flight(key);
            if ended {
                let most = largest.entry(key.kind).or_default();
                (0..3).for_each(|m| most[m] = most[m].max(spent[m]));
            }
            !ended
        });
    }

    pub(super) fn crash(&mut self) {
        self.flights.clear();
    }
}

impl World {
    /// The budgets held, and every total is the sum of its parts.
    pub(crate) fn check_usage(&self) {
        let budgets = &self.plan.budgets;
        let used = used(&self.run);
        for (m, limit) in limits(budgets).into_iter().enumerate() {
            let Some(limit) = limit else { continue };
            // The limit of tool calls holds whatever roles do; the others hold if roles keep to their allowance.
            assert!(
                used[m] <= limit || (m != 2 && !self.plan.obedient),
                "budget {m}: {} of {limit}",
                used[m]
            );
        }
        let mut own: BTreeMap<NodeId, Usage> = BTreeMap::new();
        let mut started = None;
        for event in &self.log {
            match &event.body {
                EventBody::UsageRecorded(e) => {
                    let sum = own.entry(event.node_id).or_default();
                    *sum = sum.plus(Usage::of(e));
                }
                EventBody::ToolCallRequested(e) if !e.cached => {
                    let sum = own.entry(event.node_id).or_default();
                    *sum = sum.plus(Usage::tool_call());
                }
                EventBody::RunStatusChanged(e) if e.status == RunStatus::Running => {
                    started = Some(event.timestamp)
                }
                EventBody::BudgetExhausted(e) => {
                    assert!(e.used + e.reserved >= e.limit, "{e:?}");
                    // New work stops early only because of what aggregation needs.
                    assert!(e.used >= e.limit || e.reserved <= e.limit / 5, "{e:?}");
                }
                _ => {}
            }
        }
        let graph = self.run.graph();
        for node in graph.nodes() {
            assert_eq!(
                node.usage.get(),
                own.get(&node.id).copied().unwrap_or_default(),
                "own sums of {}",
                node.title
            );
            let below = graph.nodes().iter().filter(|c| c.parent_id == Some(node.id));
            let sum = below.fold(node.usage.get(), |sum, child| sum.plus(child.subtree_usage.get()));
            assert_eq!(node.subtree_usage.get(), sum, "sums of the subtree of {}", node.title);
        }
        assert_eq!(graph.usage(), own.values().fold(Usage::default(), |sum, usage| sum.plus(*usage)));
        if let (Some(started), Some(last)) = (started, self.log.last()) {
            let grace = budgets.call_timeout_ms.min(10_000.max(budgets.max_wall_clock_ms / 5));
            // A dead driver is replaced after five seconds, and nobody checks the time meanwhile.
            let allowed =
                budgets.max_wall_clock_ms + grace + if self.plan.crash_every > 0 { 5_000 } else { 0 };
            let took = last.timestamp.millis_since(started);
            assert!(took <= allowed, "{took} ms of {}", budgets.max_wall_clock_ms);
        }
    }
}
