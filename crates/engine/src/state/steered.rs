//! What commands of people change in the logged state: pauses, stops, nodes that are reopened, budgets.

use tree_agent_contract::event::{BudgetSet, Event, EventBody, NodeReopened};
use tree_agent_contract::{Strategy, Timestamp};

use super::State;
use crate::amounts::{NAMES, limits};

/// Why nothing new begins for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending<'a> {
    /// This budget of the run, or of a lease, is used up.
    Budget(&'a str),
    /// A person has stopped the node or one above it.
    Stopped,
}

impl Ending<'_> {
    /// The name of the guard that cuts the work of nodes which have something to return.
    pub(crate) fn guard(self) -> &'static str {
        match self {
            Ending::Budget(_) => "budget",
            Ending::Stopped => "stopped",
        }
    }

    /// The message of a node that ends without a result.
    pub(crate) fn message(self) -> String {
        match self {
            Ending::Budget(budget) => format!("{OF_BUDGET}{budget}"),
            Ending::Stopped => "stopped".to_owned(),
        }
    }
}

/// How the message of a node begins that was cancelled because a budget is used up.
pub(crate) const OF_BUDGET: &str = "budget:";

impl State {
    /// True if the node at `at`, or one above it, is paused: no role call begins for it.
    pub(crate) fn is_paused(&self, at: usize) -> bool {
        self.steering.has_pauses() && self.line(at).any(|at| self.node(at).paused)
    }

    /// When the run, which waits for a review or for a quota, goes on by itself; none for never.
    pub(crate) fn goes_on_at(&self) -> Option<Timestamp> {
        let review = self.graph.nodes().first()?.review.as_ref();
        review.and_then(|review| review.goes_on_at).or(self.graph.goes_on_at())
    }

    /// Why nothing new begins for the node at `at`; none if something may.
    pub(crate) fn ending(&self, at: usize) -> Option<Ending<'_>> {
        if let Some(budget) = self.exhausted_of(at) {
            return Some(Ending::Budget(budget));
        }
        let is_stopped = self.steering.has_stops() && self.line(at).any(|at| self.node(at).stopped);
        is_stopped.then_some(Ending::Stopped)
    }

    /// The model of the calls for the node at `at`; empty for the service's default.
    pub(crate) fn model(&self, at: usize) -> &str {
        let of_nodes = self.line(at).find_map(|at| self.control[at].steered().model.as_deref());
        of_nodes.unwrap_or(&self.spec.model)
    }

    /// True if the clock stands still: something is paused, and nothing else can go on.
    pub(super) fn stands_still(&self) -> bool {
        debug_assert!((0..self.control.len()).all(|at| self.moves(at) == self.moving.contains(&at)));
        self.steering.has_pauses() && !self.is_final() && self.moving.is_empty()
    }

    fn moves(&self, at: usize) -> bool {
        let control = &self.control[at];
        control.needs.is_some() && (control.flying || !self.is_paused(at))
    }

    /// The node at `at` may have begun to move, or have come to rest.
    pub(super) fn note_moving(&mut self, at: usize) {
        match self.moves(at) {
            true => self.moving.insert(at),
            false => self.moving.remove(&at),
        };
    }

    /// The same for it and all below it: its own pause has begun or ended.
    pub(super) fn note_moving_below(&mut self, at: usize) {
        let mut open = vec![at];
        while let Some(at) = open.pop() {
            self.note_moving(at);
            open.extend(&self.control[at].bands().children);
        }
    }

    /// Milliseconds since the run was taken up, without those for which the clock stood still.
    pub(crate) fn elapsed_ms(&self, now: Timestamp) -> u64 {
        let since = self.started_at.map_or(0, |start| now.millis_since(start));
        since.saturating_sub(self.steering.stood_still_ms(now))
    }

    /// The call in flight was stopped: the node needs the same call again, from its beginning.
    pub(super) fn call_stopped(&mut self, at: usize) {
        self.call_ended(at, false);
        let control = &mut self.control[at];
        // Another round, so that a late answer to the stopped call is not taken for one to the next.
        control.calls += 1;
        (control.tool_calls, control.retry_at, control.flying) = (0, None, false);
        control.restarted = true;
    }

    pub(super) fn end_pause(&mut self, at: usize) {
        if std::mem::take(&mut self.control[at].paused) {
            self.steering.unpause();
        }
    }

    /// The node goes on, though it had ended or was about to.
    pub(super) fn reopened(&mut self, at: usize, e: &NodeReopened) {
        self.call_ended(at, false);
        // A person wants what it did done again.
        self.control[at].earlier_calls = Vec::new();
        if !self.leases.contains_key(&at) {
            self.sync_lease(at, true);
        }
        if self.control[at].stopped.take().is_some() {
            self.steering.unstop();
        }
        let control = &mut self.control[at];
        (control.needs, control.attempt, control.retry_at) = (None, 0, None);
        (control.tool_calls, control.flying, control.wound_down) = (0, false, false);
        if e.again {
            control.cut = false;
            control.begun_again += 1;
            control.shown.clear();
            if let Some(bands) = &mut control.bands {
                bands.begin_again();
            }
        }
        if let Some(model) = &e.model {
            self.waiting.begin_again();
            control.steered.get_or_insert_default().model = Some(model.clone());
        }
        let needs_aggregator = !e.again && self.node(at).plan.is_some() || self.always_owes(at);
        let owes = std::mem::replace(&mut self.control[at].owes, needs_aggregator);
        match (owes, needs_aggregator) {
            (false, true) => self.owe(at),
            (true, false) => self.settle(at),
            _ => {}
        }
    }

    /// True if the node at `at` ends with a synthesis from its beginning on: it begins a search that wants one.
    pub(crate) fn always_owes(&self, at: usize) -> bool {
        let control = &self.control[at];
        let begins = control.parent.is_none_or(|p| self.control[p].strategy != Strategy::Search);
        control.strategy == Strategy::Search
            && begins
            && (control.parent.is_some() || self.spec.search().synthesis)
    }

    /// Budgets have changed. One that was used up may have room again.
    pub(super) fn budget_set(&mut self, e: &BudgetSet, now: Timestamp) {
        let raised = |budget: &String| self.raises(budget, &e.change);
        let raised: Vec<String> = self.exhausted_before.iter().filter(|b| raised(b)).cloned().collect();
        self.exhausted_before.retain(|budget| !raised.contains(budget));
        self.spec.budgets = e.change.apply(&self.spec.budgets);
        let Some(exhausted) = &self.exhausted else { return };
        let usage = self.graph.usage();
        let used = [usage.tokens(), usage.cost_micros, usage.tool_calls];
        let has_room = match NAMES.iter().position(|name| *name == exhausted.budget) {
            Some(m) => limits(&self.spec.budgets)[m].is_none_or(|limit| used[m] < limit),
            None => self.elapsed_ms(now) < self.spec.budgets.max_wall_clock_ms,
        };
        if has_room {
            self.exhausted = None;
        }
    }

    /// Keeps when the node at `at` changed, for people who decide on what they have seen.
    pub(super) fn note_change(&mut self, at: usize, event: &Event) {
        let control = &mut self.control[at];
        match &event.body {
            EventBody::NodePaused(_)
            | EventBody::NodeResumed(_)
            | EventBody::NodeStopped(_)
            | EventBody::NodeReopened(_)
            | EventBody::GuidanceAdded(_)
            | EventBody::PlanEdited(_) => {
                if let EventBody::NodeStopped(e) = &event.body {
                    control.stopped = Some(e.discard);
                }
                (control.changed, control.commanded) = (event.seq, event.seq);
            }
            EventBody::NodeCreated(_)
            | EventBody::NodeStatusChanged(_)
            | EventBody::NodeCompleted(_)
            | EventBody::NodeFailed(_)
            | EventBody::PlanCreated(_)
            | EventBody::StepStatusChanged(_)
            | EventBody::ReplanRequested(_) => control.changed = event.seq,
            EventBody::BudgetSet(_) if at > 0 => {
                (control.changed, control.commanded) = (event.seq, event.seq)
            }
            _ => {}
        }
    }

    /// True if the node at `at` has its result from before it was reopened.
    pub(crate) fn has_old_result(&self, at: usize) -> bool {
        let node = self.node(at);
        node.result.is_some() && self.control[at].result_of != node.generation
    }
}
