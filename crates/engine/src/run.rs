//! One run: its logged state, what is in flight, and the strategies that say how its tree grows.

use std::collections::{BTreeMap, BTreeSet};

use tree_agent_contract::command::{Action, check_edits};
use tree_agent_contract::event::{CallStopped, Event, EventBody, RunForked, RunStatusChanged};
use tree_agent_contract::role::{CallKind, ResearchForm, ResearchOutput};
use tree_agent_contract::{
    Command, Invalid, Premises, Preview, Refusal, RefusalKind, RunId, RunSpec, RunStatus, Timestamp, limits,
};

use crate::briefing;
use crate::call::{CallKey, RoleCall};
use crate::calls;
use crate::decide::{Decider, Next};
use crate::graph::{Graph, ReplayError};
use crate::in_flight::InFlight;
use crate::input::{Decision, Input};
use crate::state::{LOST, State};
use crate::steer;
use crate::strategy::{Strategies, Turn, review};

/// Why something that an earlier run found cannot be recorded.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AdoptError {
    /// The run does its own work already.
    #[error("the run has begun")]
    AlreadyBegun,
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

    /// The run that began the log: another one if this is a fork. Documents of the run are named after it.
    pub fn origin(&self) -> RunId {
        self.state.origin()
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
            steer::go_on_in_time(&mut turn);
            turn.check_budgets();
            steer::park(&mut turn);
        }
        turn.decider.decision
    }

    /// Carries out a command of a person. It is done once: if the log has its request id already, nothing follows from
    /// it. What the log has is the verb and the node, so a command that differs in either is refused.
    ///
    /// # Errors
    /// Why it is refused. The run is as it was.
    pub fn command(&mut self, command: &Command, now: Timestamp) -> Result<Decision, Refusal> {
        if self.state.steering().has_applied(command, self.state.node(0).id)? {
            return Ok(Decision::default());
        }
        command.validate()?;
        if self.state.is_final() {
            let message =
                format!("the run has ended ({}); fork it to change it", self.state.graph().status());
            return Err(Refusal::new(RefusalKind::Precondition, message));
        }
        let Self { state, strategies, in_flight } = self;
        let mut turn = Turn::new(Decider::new(state, in_flight, now), strategies);
        steer::carry_out(&mut turn, command)?;
        turn.check_budgets();
        Ok(turn.decider.decision)
    }

    /// What a command would do. Calls that the log says are needed count as in flight.
    ///
    /// # Errors
    /// Why it would be refused.
    pub fn preview(&self, command: &Command, now: Timestamp) -> Result<Preview, Refusal> {
        let mut run = self.clone();
        if run.graph().status() == RunStatus::Queued || !run.state.steering().edits().is_empty() {
            run.handle(Input::Claimed, now);
        }
        run.take_due(now, usize::MAX);
        let in_flight =
            |run: &Self| -> BTreeSet<CallKey> { run.in_flight.calls().map(|(_, c)| c.key).collect() };
        let (before, flying) = (run.state.clone(), in_flight(&run));
        let decision = run.command(&Command { request_id: String::new(), ..command.clone() }, now)?;
        let stops = flying.difference(&in_flight(&run)).count() as u32;
        let preview = steer::preview::preview(&before, &run.state, &decision.events, stops);
        Ok(Preview { seq: self.graph().seq(), ..preview })
    }

    /// What a fork of the run that begins here would do, and whether it would go on although the run has ended.
    ///
    /// # Errors
    /// Why the edits would be refused. The field names the edit.
    pub fn fork(&self, edits: &[Action], now: Timestamp) -> Result<(Preview, bool), Refusal> {
        check_edits(edits)?;
        let mut run = self.clone();
        run.begin_fork(now);
        let Self { state, strategies, in_flight } = &mut run;
        let mut turn = Turn::new(Decider::new(state, in_flight, now), strategies);
        if !self.is_final() {
            // This begins a run that waits.
            take_up(&mut turn.decider);
            turn.carry_on();
        }
        // Edits of a fork that nobody has driven yet come first.
        steer::fork::carry_out_edits(&mut turn);
        let before = state.clone();
        let mut turn = Turn::new(Decider::new(state, in_flight, now), strategies);
        steer::fork::try_edits(&mut turn, edits)?;
        complete(&mut turn);
        let events = turn.decider.decision.events;
        let goes_on = self.is_final() && events.iter().any(|e| matches!(e.body, EventBody::NodeReopened(_)));
        let mut preview = steer::preview::of_fork(&before, &run.state, &events, !self.is_final());
        preview.seq = self.graph().seq();
        if self.is_final() && !goes_on {
            preview
                .notes
                .push("The run has ended, and nothing is done again: the fork has ended, too.".into());
        }
        Ok((preview, goes_on))
    }

    /// From here on this is a fork, which goes on even if the run has ended.
    fn begin_fork(&mut self, now: Timestamp) {
        let run_id = self.graph().run_id();
        let body = RunForked {
            source_run_id: run_id,
            at_seq: self.graph().seq(),
            origin_run_id: Some(self.state.origin()),
            author: self.spec().user_id.clone(),
            by_administrator: self.spec().by_administrator,
            request_id: String::new(),
            display_name: String::new(),
            labels: BTreeMap::new(),
            edits: Vec::new(),
            goes_on: self.is_final(),
        };
        let (node_id, seq) = (self.state.node(0).id, self.graph().seq() + 1);
        let event = Event { run_id, seq, node_id, parent_node_id: None, timestamp: now, body: body.into() };
        self.apply(&event).unwrap_or_else(|e| unreachable!("a run can be forked at any event: {e}"));
    }

    /// True if the run is paused and nothing is in flight: nothing happens until somebody gives a command.
    pub fn rests(&self) -> bool {
        self.state.graph().status() == RunStatus::Paused
            && self.in_flight.calls().len() == 0
            && self.in_flight.holding().next().is_none()
    }

    /// Milliseconds until the run that rests goes on by itself, from `now` on. Of a run whose review has ended, those
    /// until somebody looks at it again. None for a run that has no time of its own.
    pub fn rests_for_ms(&self, now: Timestamp) -> Option<u64> {
        if let Some(at) = self.graph().goes_on_at() {
            return Some(at.millis_since(now));
        }
        let longest = self.spec().review?.goes_on_after_ms.map(|_| limits::REVIEW_MS)?;
        Some(self.state.goes_on_at().map_or(longest, |at| at.millis_since(now)))
    }

    /// Records what an earlier run found, before this one begins: of a guided search, the research of the topic at
    /// `path`, which is the first level if it is empty. A topic comes after the one that lists it. It counts as
    /// skipped, with its document.
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
            return Err(AdoptError::AlreadyBegun);
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
        let calls = begun.into_iter().map(|calls::CallStart { at, key, allotted, timeout_ms }| {
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
    let is_takeover = matches!(input, Input::Claimed);
    let d = &mut turn.decider;
    match input {
        Input::Claimed => take_up(d),
        Input::Tick => {}
        Input::Update(key, _) | Input::Output(key, _) | Input::Failed(key, _) => d.heard(key, input),
        Input::Cancel { reason } => d.end_all(RunStatus::Cancelled, reason),
        Input::Abandon { reason } => d.end_all(RunStatus::Failed, reason),
    }
    turn.carry_on();
    if is_takeover {
        // Before anything may end the run for want of something to do.
        steer::fork::carry_out_edits(turn);
        turn.end_if_over();
        complete(turn);
    }
}

/// A driver begins a run, or takes it up where another one has left it.
fn take_up(d: &mut Decider<'_>) {
    if d.state.graph().status() == RunStatus::Queued {
        d.emit(
            0,
            RunStatusChanged { status: RunStatus::Running, reason: None, partial: false, goes_on_at: None },
        );
        return d.ask(Next::Begin { at: 0 });
    }
    // The calls of the previous driver are lost, and so are the tool calls that they made.
    let nodes = 0..d.state.nodes().len();
    let lost: Vec<usize> = nodes.filter(|at| d.in_flight.call(*at).is_none()).collect();
    let flying: Vec<usize> = lost.iter().copied().filter(|at| d.state.control(*at).flying).collect();
    for at in flying {
        d.emit(at, CallStopped { reason: LOST.into() });
    }
    lost.into_iter().for_each(|at| d.close_tools(at));
}

/// Completes what the previous driver has written in part.
fn complete(turn: &mut Turn<'_>) {
    let d = &mut turn.decider;
    if d.state.is_final() {
        return;
    }
    if d.state.node(0).paused && d.state.graph().status() == RunStatus::Running {
        match review::is_overdue(d.state) {
            true => review::ask(d, Premises::default()),
            false => d.emit(
                0,
                RunStatusChanged {
                    status: RunStatus::Paused,
                    reason: None,
                    partial: false,
                    goes_on_at: None,
                },
            ),
        }
    }
    // In a fork, a search may have nothing to pick from: a budget that is clear now had cancelled it.
    let picks = (0..d.state.nodes().len()).filter(|at| d.state.control(*at).needs == Some(CallKind::Pick));
    picks.collect::<Vec<_>>().into_iter().for_each(|at| d.ask(Next::Advance { at }));
    turn.carry_on();
    if turn.decider.state.steering().has_stops() {
        steer::stop::go_on(turn);
    }
    turn.complete_endings();
}

#[cfg(test)]
mod tests;
