//! Strategies: how a tree grows. Each is one module here and one line in [`strategies!`].
//!
//! A strategy says how a node begins, what an answer leads to, what happens when a child ends, what to do when a role
//! fails for good, how to wind down when a budget trips, what a role is told, and what it keeps in its own logged
//! state. Everything else (the log, retries, budgets, pacing, takeover) is the same for all and knows no strategy.

pub(crate) mod bands;
mod notes;
mod picks;
mod returned;
pub(crate) mod review;
mod rules;
mod verified;

use serde::Serialize;
use tree_agent_contract::Strategy as Name;
use tree_agent_contract::event::{Event, EventBody, StepStatusChanged};
use tree_agent_contract::role::{CallContext, CallKind};
use tree_agent_contract::{Premises, RunStatus, StepStatus};

use crate::briefing::step_status;
use crate::budgets;
use crate::call::{CallInput, CallOutput};
use crate::decide::{Decider, Next};
use crate::graph::{ReplayError, grow_gently};
use crate::lease_time;
use crate::pacing;
use crate::state::{Accounts, State};
use rules::Rules;

/// Writes the enum of strategies.
macro_rules! strategies {
    ($($(#[$attr:meta])* $strategy:ident = $module:ident;)*) => {
        $($(#[$attr])* mod $module;)*

        /// The strategy of one node, with what it keeps about it.
        #[derive(Clone, Debug, Serialize)]
        enum Strategy { $($(#[$attr])* $strategy($module::$strategy),)* }

        impl Strategy {
            /// For a new node.
            fn new(name: Name) -> Self {
                match name {
                    $($(#[$attr])* $module::$strategy::NAME => Self::$strategy(Default::default()),)*
                }
            }

            fn rules(&self) -> &dyn Rules {
                match self { $($(#[$attr])* Self::$strategy(kept) => kept,)* }
            }

            fn rules_mut(&mut self) -> &mut dyn Rules {
                match self { $($(#[$attr])* Self::$strategy(kept) => kept,)* }
            }
        }
    };
}

strategies! {
    Tree = tree;
    Search = search;
    Homework = homework;
}

/// The logged state of the strategies.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Strategies {
    values: Vec<Strategy>,
    /// The value of each node, by index.
    of: Vec<u32>,
}

impl Strategies {
    /// Follows an event that was applied to `state`.
    pub(crate) fn follow(&mut self, state: &State, event: &Event) -> Result<(), ReplayError> {
        if matches!(event.body, EventBody::NodeCreated(_)) {
            let at = self.of.len();
            let name = state.control(at).strategy;
            let value = match state.control(at).parent {
                Some(parent)
                    if state.control(parent).strategy == name && self.of(parent).spans_children() =>
                {
                    self.of[parent]
                }
                _ => {
                    grow_gently(&mut self.values);
                    self.values.push(Strategy::new(name));
                    u32::try_from(self.values.len() - 1).unwrap_or(u32::MAX)
                }
            };
            grow_gently(&mut self.of);
            self.of.push(value);
        }
        if let Some(at) = state.position(event.node_id) {
            self.values[self.of[at] as usize].rules_mut().follow(state, at, event);
            if matches!(event.body, EventBody::NodePaused(_) | EventBody::NodeResumed(_)) {
                self.follow_above(state, at, event);
            }
        }
        Ok(())
    }

    /// A pause of the node at `at` began or ended: what keeps a state of its own below the node follows it, too.
    fn follow_above(&mut self, state: &State, at: usize, event: &Event) {
        for below in state.subtree(at).into_iter().skip(1) {
            let value = self.of[below];
            if state.control(below).parent.is_some_and(|parent| self.of[parent] != value) {
                self.values[value as usize].rules_mut().follow(state, below, event);
            }
        }
    }

    fn of(&self, at: usize) -> &dyn Rules {
        self.values[self.of[at] as usize].rules()
    }

    /// The input of the call that the node at `at` needs.
    pub(crate) fn brief(&self, state: &State, at: usize, kind: CallKind, call: CallContext) -> CallInput {
        match kind {
            CallKind::Verify => verified::brief(state, at, call, self.of(at).may_replan(state, at)),
            kind => self.of(at).brief(state, at, kind, call),
        }
    }
}

/// One input being decided, strategies included.
pub(crate) struct Turn<'a> {
    pub(crate) decider: Decider<'a>,
    strategies: &'a mut Strategies,
    /// Events of the decision that the strategies have followed.
    followed: usize,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(decider: Decider<'a>, strategies: &'a mut Strategies) -> Self {
        Self { decider, strategies, followed: 0 }
    }

    /// Lets strategies do what they were asked to do, and what follows from that.
    pub(crate) fn carry_on(&mut self) {
        while let Some(next) = self.decider.take_next() {
            if self.decider.state.is_final() {
                continue;
            }
            self.follow();
            let d = &mut self.decider;
            match next {
                Next::Begin { at } => self.begin(at),
                Next::Answered { at, output } => match *output {
                    CallOutput::Verify(out) => verified::answered(self.strategies.of(at), d, at, out),
                    output => {
                        let premises = review::hold_back(d, at, &output);
                        self.follow();
                        self.strategies.of(at).answered(&mut self.decider, at, output);
                        premises.into_iter().for_each(|premises| review::ask(&mut self.decider, premises));
                    }
                },
                Next::Failed { at, failure } => {
                    d.give_up(at);
                    match failure.kind {
                        CallKind::Verify => {
                            verified::give_up(self.strategies.of(at), d, at, &failure.reason());
                        }
                        _ => self.strategies.of(at).failed(d, at, failure),
                    }
                }
                Next::WindDown { at } => {
                    d.give_up(at);
                    match d.state.control(at).needs {
                        Some(CallKind::Verify) => verified::wind_down(self.strategies.of(at), d, at),
                        _ => self.strategies.of(at).wind_down(d, at),
                    }
                }
                Next::Ended { at } => self.ended(at),
                Next::Advance { at } if d.state.node(at).status.is_final() || d.state.is_paused(at) => {}
                Next::Advance { at } => self.strategies.of(at).advance(d, at),
                Next::Adopted { path, output } => self.strategies.of(0).adopted(d, &path, *output),
            }
        }
        self.follow();
    }

    /// Brings the strategies' logged state up to the last event.
    fn follow(&mut self) {
        for event in &self.decider.decision.events[self.followed..] {
            self.strategies
                .follow(self.decider.state, event)
                .unwrap_or_else(|e| unreachable!("the engine emits only events that apply: {e}"));
        }
        self.followed = self.decider.decision.events.len();
    }

    fn begin(&mut self, at: usize) {
        let (d, rules) = (&mut self.decider, self.strategies.of(at));
        if d.state.ending(at).is_some() {
            return rules.wind_down(d, at);
        }
        // Whoever ends the pause asks its parent to begin it.
        if d.state.is_paused(at) {
            return;
        }
        if let (Some(parent), Some(step_id)) = (d.state.control(at).parent, d.state.planned_step(at)) {
            d.emit(parent, StepStatusChanged { step_id, status: StepStatus::Running });
        }
        let is_reviewed = review::is_due(d.state, at);
        // What an earlier run has listed may begin at once.
        if is_reviewed && !d.state.control(at).bands().children.is_empty() {
            review::hold(d);
            self.follow();
        }
        self.strategies.of(at).begin(&mut self.decider, at);
        if is_reviewed && review::is_overdue(self.decider.state) {
            review::ask(&mut self.decider, Premises::default());
        }
    }

    /// A node has ended: its parent continues, or the run ends.
    fn ended(&mut self, at: usize) {
        let d = &mut self.decider;
        let Some(parent) = d.state.control(at).parent else {
            return d.end_run();
        };
        let status = step_status(d.state.node(at).status);
        if let Some(step_id) = d.state.planned_step(at) {
            d.emit(parent, StepStatusChanged { step_id, status });
        }
        // Whoever ends the pause asks it to go on.
        if !d.state.node(parent).status.is_final() && !d.state.is_paused(parent) {
            self.follow();
            self.strategies.of(parent).child_ended(&mut self.decider, parent);
        }
    }

    /// Handles the updates that have waited long enough.
    pub(crate) fn release(&mut self) {
        let nodes: Vec<usize> = self.decider.in_flight.holding().collect();
        for at in nodes {
            while self.decider.release(at) {
                self.carry_on();
                if self.decider.state.is_final() {
                    return;
                }
            }
        }
    }

    /// Checks whether a budget is exhausted. Then no new work starts, and existing results are put together while
    /// something is left for that.
    pub(crate) fn check_budgets(&mut self) {
        loop {
            let (before, has_leases) = (self.decider.decision.events.len(), self.decider.state.has_leases());
            self.check_run();
            self.check_leases();
            self.refuse_unaffordable();
            // The end of a lease lets others go on, which may be out of budget, too.
            if !has_leases || self.decider.decision.events.len() == before {
                return;
            }
        }
    }

    fn is_running(&self) -> bool {
        self.decider.state.graph().status() == RunStatus::Running
    }

    fn check_run(&mut self) {
        if !self.is_running() {
            return;
        }
        let Decider { state, in_flight, now, .. } = &mut self.decider;
        let now = *now;
        if state.exhausted().is_none() {
            self.check_limit();
        } else if budgets::is_late(state, now) && !in_flight.is_overtime(0) {
            // An earlier budget did not stop leaf work in flight; the wall clock does.
            self.run_out(0, true);
        } else if budgets::wants_work(in_flight) {
            // It was in flight when the budget was exhausted, and then its driver died.
            self.run_out(0, false);
        }
        self.stop_waiting(0);
    }

    /// As [`check_run`](Self::check_run), for leases.
    fn check_leases(&mut self) {
        if !self.is_running() || !self.decider.state.has_leases() {
            return;
        }
        self.check_each_lease();
        while self.is_running()
            && let Some((at, body)) = budgets::starved(self.decider.state, self.decider.in_flight)
        {
            self.decider.emit(at, body);
            self.run_out(at, false);
        }
    }

    fn check_each_lease(&mut self) {
        let leased: Vec<usize> = self.decider.state.leased().collect();
        let mut accounts = Accounts::of(self.decider.state);
        for at in leased {
            let before = self.decider.decision.events.len();
            if !self.decider.state.is_final() && self.decider.state.lease(at).is_some() {
                self.check_lease(&accounts, at);
            }
            if self.decider.decision.events.len() > before {
                accounts = Accounts::of(self.decider.state);
            }
        }
    }

    fn check_lease(&mut self, accounts: &Accounts, at: usize) {
        let Decider { state, in_flight, now, .. } = &mut self.decider;
        let late = lease_time::is_late(state, at, *now);
        let is_exhausted = state.lease(at).is_some_and(|lease| lease.exhausted.is_some());
        let trips = !is_exhausted && (late || state.ending(at).is_none());
        if let Some(body) = budgets::lease_tripped(state, in_flight, accounts, at, *now).filter(|_| trips) {
            self.decider.emit(at, body);
            self.run_out(at, late);
        } else if late && !in_flight.is_overtime(at) {
            self.run_out(at, true);
        } else if is_exhausted && budgets::wants_work_below(state, in_flight, at) {
            self.run_out(at, false);
        }
        self.stop_waiting(at);
    }

    /// True if nothing below the node at `top` is waited for any more.
    fn is_over(&self, top: usize) -> bool {
        let Decider { state, now, .. } = &self.decider;
        let of_run = budgets::deadlines(state).filter(|_| top == 0);
        let deadlines = of_run.into_iter().chain(lease_time::deadlines(state, top));
        deadlines.map(|(_, last)| last).any(|last| *now >= last)
    }

    /// Calls that have finished wait until what they said may be written, but not for ever.
    fn stop_waiting(&mut self, top: usize) {
        let Decider { state, in_flight, .. } = &self.decider;
        let waits = |at: usize| {
            let is_work = state.control(at).needs.is_some_and(|kind| !kind.finishes());
            is_work && !state.node(at).status.is_final() && state.line(at).any(|above| above == top)
        };
        if in_flight.is_overtime(top) && in_flight.holding().any(waits) && self.is_over(top) {
            self.stop_starting(top, true);
        }
    }

    /// What cannot be put together any more is returned as it is.
    fn refuse_unaffordable(&mut self) {
        while (self.decider.state.exhausted().is_some() || self.decider.state.has_exhausted_leases())
            && self.is_running()
        {
            let Decider { state, in_flight, now, .. } = &self.decider;
            let Some((at, budget)) = budgets::unaffordable(state, in_flight, *now) else { break };
            self.decider.refuse(at, budget);
            self.carry_on();
        }
    }

    /// Checks whether a budget is used up that was not before, also while the run is paused.
    pub(crate) fn check_limits(&mut self) {
        self.check_limit();
        self.check_each_lease();
    }

    fn check_limit(&mut self) {
        let Decider { state, in_flight, now, .. } = &mut self.decider;
        if state.is_final() || state.exhausted().is_some() {
            return;
        }
        if let Some(body) = budgets::tripped(state, in_flight, *now) {
            let late = budgets::is_late(state, *now);
            self.decider.emit(0, body);
            self.run_out(0, late);
        }
    }

    /// A fork goes on after the end of a run for the sake of its edits. If none of them does anything again, it ends,
    /// too.
    pub(crate) fn end_if_over(&mut self) {
        let d = &mut self.decider;
        if !d.state.is_final() && d.state.node(0).status.is_final() {
            d.end_run();
        }
    }

    /// A driver may die after it has written only a part of what ends many nodes. Its successor completes the rest
    /// where nothing new may begin: what has not begun is wound down, and a node whose children have all ended goes
    /// on. That one also does so in a fork of that part, where the budget is clear.
    pub(crate) fn complete_endings(&mut self) {
        if self.decider.state.exhausted().is_some() {
            self.stop_starting(0, false);
        }
        for at in self.decider.state.leased().collect::<Vec<_>>() {
            if self.decider.state.lease(at).is_some_and(|lease| lease.exhausted.is_some()) {
                self.stop_starting(at, false);
            }
        }
        for at in (0..self.decider.state.nodes().len()).rev() {
            let state = &self.decider.state;
            if state.waits_for_nothing(at) && (state.ending(at).is_some() || state.was_left_open(at)) {
                self.decider.ask(Next::Advance { at });
                self.carry_on();
            }
        }
    }

    /// The node at `top` and those below it are out of budget.
    fn run_out(&mut self, top: usize, at_work: bool) {
        if at_work {
            self.decider.in_flight.stop_leaves(top);
        }
        self.stop_starting(top, at_work);
    }

    /// Winds down, of the node at `top` and those below it, what has not begun, and with `at_work` also work in flight.
    /// Calls that finish something go on. The deepest nodes come first, so that every parent sees its children ended.
    pub(crate) fn stop_starting(&mut self, top: usize, at_work: bool) {
        let is_over = self.is_over(top);
        for at in self.decider.state.subtree(top).into_iter().rev() {
            let state = &self.decider.state;
            if state.node(at).status.is_final() || state.is_final() {
                continue;
            }
            let control = state.control(at);
            let stop = match control.needs {
                Some(kind) if kind.finishes() => false,
                // What has finished is worth the second until it may be written.
                Some(_) => {
                    let in_flight = &self.decider.in_flight;
                    in_flight.call(at).is_none()
                        || at_work && (is_over || !pacing::has_finished(in_flight, at))
                }
                // It waits for a place, not for children.
                None => control.bands().children.is_empty(),
            };
            if stop {
                self.decider.ask(Next::WindDown { at });
                self.carry_on();
            }
        }
    }
}
