//! Strategies: how a tree grows. Each is one module here and one line in [`strategies!`].
//!
//! A strategy says how a node begins, what an answer leads to, what happens when a child ends, what to do when a role
//! fails for good, how to wind down when a budget trips, what a role is told, and what it keeps in its own logged
//! state. Everything else (the log, retries, budgets, pacing, takeover) is the same for all and knows no strategy.

mod bands;
mod notes;
mod picks;
mod returned;
mod rules;

use serde::Serialize;
use tree_agent_contract::Strategy as Name;
use tree_agent_contract::event::{Event, EventBody, StepStatusChanged};
use tree_agent_contract::role::{CallContext, CallKind};
use tree_agent_contract::{RunStatus, StepStatus};

use crate::briefing::step_status;
use crate::budgets;
use crate::call::CallInput;
use crate::decide::{Decider, Next};
use crate::graph::{ReplayError, grow_gently};
use crate::pacing;
use crate::state::State;
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
        }
        Ok(())
    }

    fn of(&self, at: usize) -> &dyn Rules {
        self.values[self.of[at] as usize].rules()
    }

    /// The input of the call that the node at `at` needs.
    pub(crate) fn brief(&self, state: &State, at: usize, kind: CallKind, call: CallContext) -> CallInput {
        self.of(at).brief(state, at, kind, call)
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
                Next::Answered { at, output } => self.strategies.of(at).answered(d, at, *output),
                Next::Failed { at, failure } => {
                    d.give_up(at);
                    self.strategies.of(at).failed(d, at, failure);
                }
                Next::WindDown { at } => {
                    d.give_up(at);
                    self.strategies.of(at).wind_down(d, at);
                }
                Next::Ended { at } => self.ended(at),
                Next::Advance { at } if d.state.node(at).status.is_final() => {}
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
        if d.state.exhausted().is_some() {
            return rules.wind_down(d, at);
        }
        if let (Some(parent), Some(step_id)) = (d.state.control(at).parent, d.state.planned_step(at)) {
            d.emit(parent, StepStatusChanged { step_id, status: StepStatus::Running });
        }
        rules.begin(d, at);
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
        if !d.state.node(parent).status.is_final() {
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
        let Decider { state, in_flight, now, .. } = &mut self.decider;
        let now = *now;
        if state.graph().status() != RunStatus::Running {
            return;
        }
        if state.exhausted().is_none() {
            if let Some(body) = budgets::tripped(state, in_flight, now) {
                let late = budgets::is_late(state, now);
                self.decider.emit(0, body);
                self.stop_starting(late);
            }
        } else if budgets::is_late(state, now) && !in_flight.overtime() {
            // An earlier budget did not stop leaf work in flight; the wall clock does.
            self.stop_starting(true);
        } else if budgets::wants_work(in_flight) {
            // It was in flight when the budget was exhausted, and then its driver died.
            self.stop_starting(false);
        }
        while self.decider.state.exhausted().is_some()
            && self.decider.state.graph().status() == RunStatus::Running
        {
            let Some((at, budget)) = budgets::unaffordable(self.decider.state, self.decider.in_flight, now)
            else {
                break;
            };
            self.decider.refuse(at, budget);
            self.carry_on();
        }
    }

    /// Winds down what has not begun, and with `at_work` also leaf work in flight. Calls that finish something go on.
    /// The deepest nodes come first, so that every parent sees its children ended.
    fn stop_starting(&mut self, at_work: bool) {
        if at_work {
            self.decider.in_flight.stop_leaves();
        }
        for at in (0..self.decider.state.nodes().len()).rev() {
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
                    in_flight.call(at).is_none() || at_work && !pacing::has_finished(in_flight, at)
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
