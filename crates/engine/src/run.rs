//! One run: its logged state, what is in flight, and the strategies that say how its tree grows.

use tree_agent_contract::event::{Event, RunStatusChanged};
use tree_agent_contract::role::{ResearchForm, ResearchOutput};
use tree_agent_contract::{Invalid, RunId, RunSpec, RunStatus, Timestamp};

use crate::briefing;
use crate::call::{CallKey, RoleCall};
use crate::calls;
use crate::decide::{Decider, Next};
use crate::graph::{Graph, ReplayError};
use crate::in_flight::InFlight;
use crate::input::{Decision, Input};
use crate::state::State;
use crate::strategy::{Strategies, Turn};

/// Why something that an earlier run found cannot be recorded.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AdoptError {
    /// The run does its own work already.
    #[error("the run has begun")]
    Begun,
    /// It breaks the contract of a research.
    #[error("it cannot be taken over: {0}")]
    Invalid(#[from] Invalid),
    /// No open topic of a guided search has this path. The limit of nodes may have cut the list that it stands in.
    #[error("no open topic of a search has the path {path:?}")]
    Unknown {
        /// The path.
        path: String,
    },
}

/// One run, as a fold of its log.
#[derive(Clone, Debug)]
pub struct Run {
    state: State,
    strategies: Strategies,
    in_flight: InFlight,
}

impl Run {
    /// Rebuilds a run from its log, from the first event on. Nothing is in flight afterwards: calls that were due at
    /// the end of the log are due again.
    pub fn replay<'a>(
        run_id: RunId,
        events: impl IntoIterator<Item = &'a Event>,
    ) -> Result<Self, ReplayError> {
        let mut events = events.into_iter();
        let mut run = match events.next() {
            Some(first) => Self::begin(first)?,
            None => return Err(ReplayError::Gap { run: run_id, head: 0, found: 0 }),
        };
        for event in events {
            run.apply(event)?;
        }
        Ok(run)
    }

    /// A run of which only the first event is known. It must be `tree.run_created`.
    pub fn begin(first: &Event) -> Result<Self, ReplayError> {
        Ok(Self {
            state: State::begin(first)?,
            strategies: Strategies::default(),
            in_flight: InFlight::default(),
        })
    }

    /// Applies the next event of the log. On an error the run must be dropped.
    pub fn apply(&mut self, event: &Event) -> Result<(), ReplayError> {
        self.state.apply(event)?;
        self.in_flight.follow(&self.state, event);
        self.strategies.follow(&self.state, event)
    }

    /// The graph that users see.
    pub fn graph(&self) -> &Graph {
        self.state.graph()
    }

    /// The specification of the run.
    pub fn spec(&self) -> &RunSpec {
        self.state.spec()
    }

    /// The exhausted budget, if there is one.
    pub fn exhausted_budget(&self) -> Option<&str> {
        self.state.exhausted()
    }

    /// True if the run has ended.
    pub fn is_final(&self) -> bool {
        self.state.is_final()
    }

    /// Answers that were ignored because their call was not in flight, since this was last called.
    pub fn take_stale(&mut self) -> u64 {
        self.in_flight.take_stale()
    }

    /// True while the call is in flight.
    pub fn is_in_flight(&self, key: &CallKey) -> bool {
        self.in_flight.position(&self.state, key).is_some()
    }

    /// The logged state as bytes. Two runs with the same log have the same bytes. What is in flight is not part of
    /// them.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.state.to_bytes();
        let kept = serde_json::to_vec(&self.strategies);
        bytes.extend(kept.unwrap_or_else(|e| unreachable!("the state always has a JSON form: {e}")));
        bytes
    }

    /// Handles one input and returns its events. `now` must not go backwards by much; it is only compared with
    /// deadlines. An input that no longer matters (the run has ended, the call is not in flight) gives nothing.
    pub fn handle(&mut self, input: Input, now: Timestamp) -> Decision {
        let Self { state, strategies, in_flight } = self;
        let mut turn = Turn::new(Decider::new(state, in_flight, now), strategies);
        if !turn.decider.state.is_final() {
            turn.release();
        }
        if !turn.decider.state.is_final() {
            dispatch(&mut turn, input);
            turn.check_budgets();
        }
        turn.decider.decision
    }

    /// Records what an earlier run found, before this one begins: of a guided search, the research of the topic at
    /// `path`, which is the first level if it is empty. A topic comes after the one that lists it. It counts as skipped,
    /// with its document.
    ///
    /// # Errors
    /// If it cannot be recorded. The run is as it was.
    pub fn adopt(
        &mut self,
        path: &str,
        output: ResearchOutput,
        now: Timestamp,
    ) -> Result<Decision, AdoptError> {
        if self.state.graph().status() != RunStatus::Queued {
            return Err(AdoptError::Begun);
        }
        let form = if path.is_empty() { ResearchForm::Root } else { ResearchForm::Topic };
        output.validate(form)?;
        let Self { state, strategies, in_flight } = self;
        let mut turn = Turn::new(Decider::new(state, in_flight, now), strategies);
        turn.decider.ask(Next::Adopted { path: path.to_owned(), output: Box::new(output) });
        turn.carry_on();
        match turn.decider.decision {
            decision if decision.is_empty() => Err(AdoptError::Unknown { path: path.to_owned() }),
            decision => Ok(decision),
        }
    }

    /// The role calls to make now, at most `limit`: what finishes something comes first. They count as in flight from
    /// here on. A paused or ended run has none.
    pub fn take_due(&mut self, now: Timestamp, limit: usize) -> Vec<RoleCall> {
        let begun = calls::begin_due(&self.state, &mut self.in_flight, now, limit);
        let calls = begun.into_iter().map(|calls::Begun { at, key, allotted, timeout_ms }| {
            let context = briefing::context(&self.state, at, key.kind, key.attempt, allotted, now);
            let input = self.strategies.brief(&self.state, at, key.kind, context);
            RoleCall { key, input, timeout_ms }
        });
        calls.collect()
    }

    /// How many calls are due. A budget may have no room for some of them.
    pub fn due(&self, now: Timestamp) -> usize {
        calls::due(&self.state, &self.in_flight, now)
    }

    /// When [`Run::take_due`] or [`Input::Tick`] may next have something to do if nothing else happens; none if the run
    /// has ended.
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        calls::next_wakeup(&self.state, &self.in_flight)
    }
}

fn dispatch(turn: &mut Turn<'_>, input: Input) {
    let d = &mut turn.decider;
    match input {
        Input::Claimed if d.state.graph().status() == RunStatus::Queued => {
            d.emit(0, RunStatusChanged { status: RunStatus::Running, reason: None, partial: false });
            d.ask(Next::Begin { at: 0 });
        }
        // The calls of the previous driver are lost, and so are the tool calls that they made.
        Input::Claimed => (0..d.state.nodes().len()).for_each(|at| {
            if d.in_flight.call(at).is_none() {
                d.close_tools(at);
            }
        }),
        Input::Tick => {}
        Input::Update(key, _) | Input::Output(key, _) | Input::Failed(key, _) => d.heard(key, input),
        Input::Cancel { reason } => d.end_all(RunStatus::Cancelled, reason),
        Input::Abandon { reason } => d.end_all(RunStatus::Failed, reason),
    }
    turn.carry_on();
}

#[cfg(test)]
mod tests;
