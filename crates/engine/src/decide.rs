//! Deciding: the events that follow from an input, up to the point where it matters how the tree grows. That is left to
//! the strategies: what they have to do is collected as [`Next`].

mod documents;
mod ending;
mod listing;
mod result;

use tree_agent_contract::answers::CACHED_CALLS;
use tree_agent_contract::event::*;
use tree_agent_contract::role::{
    AggregatorOutput, CallKind, ResearchOutput, RoleError, RoleErrorKind, RoleUpdate, Synthesis,
};
use tree_agent_contract::text::prefix;
use tree_agent_contract::{NodeId, NodeStatus, Role, Timestamp, limits};

use crate::amounts::TOOL_CALLS;
use crate::call::{CallKey, CallOutput, at_work};
use crate::in_flight::InFlight;
use crate::input::{Decision, Input};
use crate::state::{ABANDONED, State, ToolUse};
use crate::{briefing, pacing, waiting};

/// How often a verifier that cannot be reached is called again: about a minute.
const VERIFIER_TRIES: u32 = 12;

/// A run that is deciding. Every event that it emits is applied at once, so that the next decision sees it.
pub(crate) struct Decider<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) in_flight: &'a mut InFlight,
    pub(crate) now: Timestamp,
    pub(crate) decision: Decision,
    /// What strategies have been asked to do since the last of them did something, in this order.
    asked: Vec<Next>,
    /// What they have to do after that, the next one last.
    next: Vec<Next>,
}

/// What a strategy has to do about the node at `at`.
#[derive(Debug)]
pub(crate) enum Next {
    /// The node begins its first work.
    Begin { at: usize },
    /// A role has answered.
    Answered { at: usize, output: Box<CallOutput> },
    /// A role has failed for good.
    Failed { at: usize, failure: Failure },
    /// The node must not begin or continue new work, because the run is out of budget.
    WindDown { at: usize },
    /// The node has ended.
    Ended { at: usize },
    /// Something has happened that may let the node go on.
    Advance { at: usize },
    /// What an earlier run found is known before the run begins.
    Adopted { path: String, output: Box<ResearchOutput> },
}

/// The failure of a role call that is not made again.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The call.
    pub(crate) kind: CallKind,
    /// Why it failed.
    pub(crate) error: RoleError,
    /// The provider of its model has never answered in this run.
    pub(crate) gave_up: bool,
}

impl Failure {
    /// The cause in a few words, if they are known.
    pub(crate) fn reason(&self) -> String {
        self.error.reason.clone().unwrap_or_else(|| self.text())
    }

    /// As users read it.
    pub(crate) fn text(&self) -> String {
        let text = match self.gave_up {
            true => format!("no language model has answered in this run: {}", self.error.message),
            false => self.error.to_string(),
        };
        prefix(&text, limits::TEXT_BYTES).to_owned()
    }
}

impl<'a> Decider<'a> {
    pub(crate) fn new(state: &'a mut State, in_flight: &'a mut InFlight, now: Timestamp) -> Self {
        Self { state, in_flight, now, decision: Decision::default(), asked: Vec::new(), next: Vec::new() }
    }

    /// Emits an event about the node at `at`.
    pub(crate) fn emit(&mut self, at: usize, body: impl Into<EventBody>) {
        let node = self.state.node(at);
        let (node_id, parent_node_id) = (node.id, node.parent_id);
        self.push(node_id, parent_node_id, body.into());
    }

    /// What [`emit`](Self::emit) would emit.
    pub(crate) fn event(&self, at: usize, body: impl Into<EventBody>) -> Event {
        let node = self.state.node(at);
        self.event_of(node.id, node.parent_id, body.into())
    }

    fn event_of(&self, node_id: NodeId, parent_node_id: Option<NodeId>, body: EventBody) -> Event {
        let (run_id, seq) = (self.state.graph().run_id(), self.state.graph().seq() + 1);
        Event { run_id, seq, node_id, parent_node_id, timestamp: self.now, body }
    }

    /// Emits an event about a node that may be new.
    pub(crate) fn push(&mut self, node_id: NodeId, parent_node_id: Option<NodeId>, body: EventBody) {
        let event = self.event_of(node_id, parent_node_id, body);
        self.state
            .apply(&event)
            .unwrap_or_else(|e| unreachable!("the engine emits only events that apply: {e}"));
        self.in_flight.follow(self.state, &event);
        self.decision.events.push(event);
    }

    /// Asks a strategy to do something once what is being done now is complete.
    pub(crate) fn ask(&mut self, next: Next) {
        self.asked.push(next);
    }

    /// What a strategy has to do next. What follows from a thing comes before what was asked earlier, as if one had
    /// called the other. It is a list so that no plan can overflow the stack.
    pub(crate) fn take_next(&mut self) -> Option<Next> {
        self.next.extend(self.asked.drain(..).rev());
        self.next.pop()
    }

    /// The node at `at` shows a status and needs no other role call than before: the same while it is at work, none
    /// while it delegates or waits.
    pub(crate) fn status(&mut self, at: usize, status: NodeStatus, message: Option<String>) {
        self.show(at, NodeStatusChanged { message, ..self.shown(at, status) });
    }

    /// The node at `at` needs a new role call.
    pub(crate) fn need(&mut self, at: usize, kind: CallKind, message: Option<String>) {
        self.show(at, NodeStatusChanged { message, ..self.needing(at, kind) });
    }

    /// The node at `at` shows that it follows a decision.
    pub(crate) fn status_because(&mut self, at: usize, status: NodeStatus, why: String) {
        self.show(at, NodeStatusChanged { why: Some(why), ..self.shown(at, status) });
    }

    /// The node at `at` could not give its steps the leases that it planned.
    pub(crate) fn cut_leases(&mut self, at: usize, why: String) {
        let (message, why) = (Some("guard:lease".into()), Some(why));
        self.show(at, NodeStatusChanged { message, why, ..self.shown(at, NodeStatus::Delegating) });
    }

    /// The node at `at` shows a status, with the reason that its message gives unless there is another.
    pub(crate) fn show(&mut self, at: usize, shown: NodeStatusChanged) {
        let why = shown.why.or_else(|| lasting(shown.message.as_deref()));
        self.emit(at, NodeStatusChanged { why, ..shown });
    }

    /// What the node at `at` shows if it needs a new role call.
    pub(crate) fn needing(&self, at: usize, kind: CallKind) -> NodeStatusChanged {
        NodeStatusChanged { call: Some(kind), ..self.shown(at, at_work(kind)) }
    }

    /// What the node at `at` shows with a status: its role, and how many of its steps have ended.
    fn shown(&self, at: usize, status: NodeStatus) -> NodeStatusChanged {
        let waits = matches!(status, NodeStatus::Delegating | NodeStatus::Waiting | NodeStatus::Aggregating);
        let steps = self.state.node(at).ended_steps().filter(|_| waits);
        let progress = steps.map(|(ended, all)| f64::from(ended) / f64::from(all));
        NodeStatusChanged { progress, ..NodeStatusChanged::new(status, self.role(at, status)) }
    }

    /// These children of the node at `at` were read. Its result says what was found and what is missing.
    pub(crate) fn aggregated(&mut self, at: usize, child_ids: Vec<NodeId>, out: &mut AggregatorOutput) {
        self.append_scratchpad(at, &out.scratchpad.append_markdown);
        let Synthesis { summary, key_findings, gaps } = std::mem::take(&mut out.synthesis);
        (out.result.key_findings, out.result.gaps) = (key_findings, gaps);
        let success_assessment = out.result.success_assessment.clone();
        self.emit(at, NodeAggregated { child_ids, summary, success_assessment });
    }

    /// The role that the node at `at` shows with a status.
    fn role(&self, at: usize, status: NodeStatus) -> Role {
        match status {
            NodeStatus::Planning | NodeStatus::Delegating => Role::Planner,
            NodeStatus::Executing | NodeStatus::Aggregating => Role::Executor,
            _ => self.state.node(at).role,
        }
    }

    /// A call sent an update or ended. It is handled now, or after those that wait.
    pub(crate) fn heard(&mut self, key: CallKey, input: Input) {
        let Some(at) = self.in_flight.expect(self.state, &key) else { return };
        if !matches!(input, Input::Failed(..)) {
            self.unblock(at);
        }
        if !pacing::must_wait(self.state, self.in_flight, at, &input, self.now) {
            return self.take(at, input);
        }
        if pacing::is_flooded(self.in_flight, at) {
            self.give_up(at);
            let message = "said more within a second than can be shown; a role must gather what it writes";
            return self.on_failure(at, key, RoleError::new(RoleErrorKind::InvalidOutput, message));
        }
        pacing::hold(self.in_flight, at, input);
    }

    /// Handles the next update that has waited long enough for the node at `at`. False if there is none.
    pub(crate) fn release(&mut self, at: usize) -> bool {
        let Some(input) = pacing::release(self.state, self.in_flight, at, self.now) else { return false };
        // The call may have been given up since.
        if input.call().is_some_and(|key| self.in_flight.expect(self.state, &key).is_some()) {
            self.take(at, input);
        }
        true
    }

    fn take(&mut self, at: usize, input: Input) {
        match input {
            Input::Update(key, update) => self.on_update(at, key, update),
            Input::Output(key, output) => self.on_output(at, key, output),
            Input::Failed(key, error) => self.on_failure(at, key, error),
            Input::Claimed | Input::Cancel { .. } | Input::Abandon { .. } | Input::Tick => {}
        }
        // Updates of a call after its end, such as a duplicated answer, must not delay those of the next call.
        if self.in_flight.call(at).is_none() {
            self.in_flight.take_held(at);
        }
    }

    /// The call of the node at `at` is given up. What it used and wrote so far stays.
    pub(crate) fn give_up(&mut self, at: usize) {
        self.flush(at);
        self.end_call(at);
    }

    /// Handles the updates that wait for the node at `at`, as far as they may be handled now. Returns the output of its
    /// call, if that has finished.
    fn flush(&mut self, at: usize) -> Option<(CallKey, CallOutput)> {
        for input in self.in_flight.take_held(at) {
            let (key, update) = match input {
                Input::Update(key, update) => (key, update),
                Input::Output(key, output) => return Some((key, output)),
                _ => return None,
            };
            let may = match &update {
                RoleUpdate::Scratchpad(_) => pacing::may_change(self.state, at, self.now),
                // A tool call beyond the allowance would end the call in another way.
                RoleUpdate::ToolCallRequested(call) => !self.tools_spent(at, call.cached),
                _ => true,
            };
            if may && self.in_flight.position(self.state, &key).is_some() {
                self.on_update(at, key, update);
            }
        }
        None
    }

    /// Stops waiting for the call that the node at `at` needs, because `budget` is used up. If the call has finished
    /// and only its outcome was held back, the outcome is used.
    pub(crate) fn refuse(&mut self, at: usize, budget: &str) {
        let Some(kind) = self.state.control(at).needs else { return };
        if let Some((key, output)) = self.flush(at) {
            return self.on_output(at, key, output);
        }
        let message = format!("the budget {budget} is used up");
        let reason = Some(format!("budget {budget}"));
        let error = RoleError { reason, ..RoleError::new(RoleErrorKind::Rejected, message) };
        self.ask(Next::Failed { at, failure: Failure { kind, error, gave_up: false } });
    }

    /// The call of the node at `at` has ended. Tool calls that it left open get no other result.
    fn end_call(&mut self, at: usize) {
        self.in_flight.end(at);
        self.close_tools(at);
    }

    /// Ends the tool calls of the node at `at` that have no result: nobody waits for one any more.
    pub(crate) fn close_tools(&mut self, at: usize) {
        for ToolUse { call_id, phase, call, .. } in self.state.control(at).open_tools.clone() {
            let tool_name = call.tool_name;
            let unknown = "; nobody knows whether it was carried out, and it is not made again";
            let error = format!("{ABANDONED}{}", if call.writes { unknown } else { "" });
            self.emit(
                at,
                ToolCallResult { call_id, tool_name, error: Some(error), phase, ..ToolCallResult::default() },
            );
        }
    }

    /// A role that could not be reached has answered, so the node shows its work again.
    fn unblock(&mut self, at: usize) {
        self.in_flight.reached(at);
        if self.state.node(at).status == NodeStatus::Blocked {
            self.show_at_work(at);
        }
    }

    fn on_update(&mut self, at: usize, key: CallKey, update: RoleUpdate) {
        self.show_retry_at_work(at);
        match update {
            RoleUpdate::Scratchpad(delta) => {
                // Pieces of one call follow each other without a break. Another call begins a new line.
                let begins = self.in_flight.writes(at, key);
                self.write_scratchpad(at, delta.append_markdown, begins);
            }
            RoleUpdate::ToolCallRequested(call) if self.tools_spent(at, call.cached) => {
                // What waits behind it was used before the call ended.
                self.give_up(at);
                let message = "asked for more tool calls than it may make; a role must keep to its allowance";
                self.on_failure(at, key, RoleError::new(RoleErrorKind::InvalidOutput, message));
            }
            RoleUpdate::ToolCallRequested(mut call) => {
                call.call_id = self.tool_call_id(at, &call.call_id);
                self.emit(at, call);
            }
            RoleUpdate::ToolCallResult(mut result) => {
                result.call_id = self.tool_call_id(at, &result.call_id);
                let tools = &self.state.control(at).open_tools;
                let is_refused = tools.iter().any(|tool| tool.call_id == result.call_id && !tool.is_made);
                let refusal = result.error.clone().filter(|_| is_refused);
                self.emit(at, result);
                if let Some(error) = refusal {
                    self.say_refused(at, &error);
                }
            }
            RoleUpdate::ToolCallKept(mut kept) => {
                kept.result.call_id = self.tool_call_id(at, &kept.result.call_id);
                self.keep_documents(at, *kept);
            }
            RoleUpdate::Usage { usage, prompt } => {
                let beyond = self.beyond(at, &usage);
                self.record_usage(at, usage, prompt);
                self.cover(at, beyond);
            }
            RoleUpdate::Heartbeat => {}
        }
    }

    /// A tool call of the node at `at` was refused, because its share of the budget is used up. The node says so once.
    fn say_refused(&mut self, at: usize, error: &str) {
        let why = prefix(&format!("a tool call was refused: {error}"), limits::TEXT_BYTES).to_owned();
        if self.state.node(at).decisions.last() != Some(&why) {
            self.status_because(at, self.state.node(at).status, why);
        }
    }

    /// The id in the log of a tool call of the call in flight.
    fn tool_call_id(&self, at: usize, id: &str) -> String {
        self.in_flight.call(at).map_or_else(|| id.to_owned(), |call| call.tool_call_id(id))
    }

    /// True if the call in flight has made every tool call that it may make. Calls that the run could answer itself use
    /// no budget, but they have a limit of their own.
    fn tools_spent(&self, at: usize, cached: bool) -> bool {
        let control = self.state.control(at);
        self.in_flight.call(at).is_some_and(|call| match cached {
            true => {
                let made = u64::from(control.tool_calls.saturating_sub(call.tool_calls_before));
                let counted = control.spent[TOOL_CALLS].saturating_sub(call.before[TOOL_CALLS]);
                made.saturating_sub(counted) >= u64::from(CACHED_CALLS)
            }
            false => call.left(control.spent)[TOOL_CALLS] == 0,
        })
    }

    /// A retried call is shown as `waiting` until its role sends something.
    fn show_retry_at_work(&mut self, at: usize) {
        if self.state.node(at).status == NodeStatus::Waiting {
            self.show_at_work(at);
        }
    }

    fn show_at_work(&mut self, at: usize) {
        let control = self.state.control(at);
        if let (Some(kind), attempt) = (control.needs, control.attempt) {
            let attempt = (attempt > 1).then_some(attempt);
            self.show(at, NodeStatusChanged { attempt, ..self.shown(at, at_work(kind)) });
        }
    }

    fn on_output(&mut self, at: usize, key: CallKey, output: CallOutput) {
        let valid = match output.kind() {
            kind if kind != key.kind => Err(format!("a {:?} answer to a {:?} call", kind, key.kind)),
            _ => output.validate(&briefing::prior_steps(self.state, at), briefing::asked(self.state, at)),
        };
        if let Err(message) = valid {
            return self.on_failure(at, key, RoleError::new(RoleErrorKind::InvalidOutput, message));
        }
        self.show_retry_at_work(at);
        self.end_call(at);
        self.ask(Next::Answered { at, output: Box::new(output) });
    }

    fn on_failure(&mut self, at: usize, key: CallKey, error: RoleError) {
        self.end_call(at);
        if self.state.ending(at).is_some() && !key.kind.finishes() {
            return self.ask(Next::WindDown { at });
        }
        let quota = self.quota_ends_at(&error);
        let behaviour = self.state.behaviour();
        let is_provider = waiting::is_provider(&error);
        let clock_ms = self.state.elapsed_ms(self.now);
        let gave_up = is_provider
            && self.state.waiting().gives_up_on_provider(clock_ms, behaviour.provider_patience_ms);
        let is_away = is_provider || error.kind == RoleErrorKind::Unreachable || quota.is_some();
        if is_away && key.kind == CallKind::Verify && self.in_flight.tries(at) >= VERIFIER_TRIES {
            // The answer is there, and its reader waits for it.
            self.in_flight.reached(at);
            return self.ask(Next::Failed { at, failure: Failure { kind: key.kind, error, gave_up } });
        }
        if is_away && (quota.is_some() || !gave_up) {
            let exhausted_ms = self.state.exhausted_ms_of(at).map(|since| clock_ms.saturating_sub(since));
            if exhausted_ms.is_some_and(|ms| ms >= behaviour.grace_ms) {
                self.in_flight.reached(at);
                return self.ask(Next::Failed { at, failure: Failure { kind: key.kind, error, gave_up } });
            }
            return match quota {
                Some(until) => self.on_quota(at, error, until),
                None => self.on_unreachable(at, error),
            };
        }
        self.in_flight.reached(at);
        let attempts = self.state.budgets().max_attempts;
        if error.retryable() && key.attempt < attempts && !gave_up {
            let next = key.attempt + 1;
            let message =
                prefix(&format!("retry:{next}/{attempts} after {error}"), limits::TEXT_BYTES).to_owned();
            let (message, attempt) = (Some(message), Some(next));
            return self
                .show(at, NodeStatusChanged { message, attempt, ..self.shown(at, NodeStatus::Waiting) });
        }
        self.ask(Next::Failed { at, failure: Failure { kind: key.kind, error, gave_up } });
    }

    /// When a quota ends that `error` is about, if that is said: neither soon nor too late.
    fn quota_ends_at(&self, error: &RoleError) -> Option<Timestamp> {
        let waits = limits::QUOTA_LEAST_MS..=limits::QUOTA_MS;
        error.retry_after_ms.filter(|ms| waits.contains(ms)).map(|ms| self.now.plus_millis(ms))
    }

    /// The quota of the provider is used up until then. Nothing was attempted, and the node waits; others may go on.
    fn on_quota(&mut self, at: usize, error: RoleError, until: Timestamp) {
        let message = format!("waits for the quota until {until}: {}", error.message);
        let error = RoleError { message, kind: RoleErrorKind::ProviderUnreachable, ..error };
        self.in_flight.wait_for_quota(at);
        self.wait_until(at, &error, until);
    }

    /// Nothing was attempted, so this does not count as an attempt. The node says once for each kind of cause that it
    /// is blocked, and the call is made again until it can be made.
    fn on_unreachable(&mut self, at: usize, error: RoleError) {
        let behaviour = self.state.behaviour();
        let delay = behaviour.retry.delay_ms(self.in_flight.tries(at), at).min(behaviour.unreachable_max_ms);
        self.wait_until(at, &error, self.now.plus_millis(delay));
    }

    /// The node at `at` is blocked by `error`, and its call is made again then.
    fn wait_until(&mut self, at: usize, error: &RoleError, until: Timestamp) {
        let tries = self.in_flight.tries(at);
        let is_provider = waiting::is_provider(error);
        let is_blocked = self.state.node(at).status == NodeStatus::Blocked;
        if !is_blocked || is_provider && !self.state.waiting().names_provider(at) {
            let attempt = self.state.control(at).attempt;
            let message = Some(waiting::message(error));
            let attempt = (attempt > 1).then_some(attempt);
            self.show(at, NodeStatusChanged { message, attempt, ..self.shown(at, NodeStatus::Blocked) });
        }
        self.in_flight.wait_for_role(self.state, at, tries, until);
        if self.state.control(at).flying {
            // The log must say that the call is over, because the clock may stand still from now on.
            self.emit(at, CallStopped { reason: "unreachable".into() });
        }
    }

    /// Stops the call in flight for the node at `at`. What it used and wrote so far stays. A call that has finished,
    /// and whose end only waits, is not stopped.
    pub(crate) fn stop_call(&mut self, at: usize, reason: &str) {
        if self.in_flight.call(at).is_none() || pacing::has_finished(self.in_flight, at) {
            return;
        }
        self.give_up(at);
        self.emit(at, CallStopped { reason: reason.to_owned() });
    }
}

/// A message that stays on its node: a guard, the reason of a retry, the budget that ended it.
fn lasting(message: Option<&str>) -> Option<String> {
    let lasts =
        |m: &&str| ["guard:", "retry:", "budget:", "stopped"].iter().any(|start| m.starts_with(start));
    message.filter(lasts).map(str::to_owned)
}
