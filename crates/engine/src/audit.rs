//! The invariants of every log, whatever strategies, failures and crashes it records. The audit reads a log event by
//! event and reports violations.

mod bands;
mod homework;
mod leases;
mod search;

use std::collections::{BTreeSet, HashMap};

use tree_agent_contract::event::{Event, EventBody, NodeReopened};
use tree_agent_contract::{NodeId, NodeStatus, RunStatus, StepStatus};

use crate::state::LOST;

/// Something that must not occur in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The event at which it was noticed.
    pub seq: u64,
    /// What is wrong, in a sentence.
    pub message: String,
}

/// Reads a log from its first event on and records every violation of these invariants:
///
/// - Nothing follows the end of a run, except the event with which a fork of it begins.
/// - A node's result comes before its completion, and nothing of the node follows its end.
/// - Children end, with their hint, before their parent ends and before it aggregates.
/// - A tool call has its result before its node ends or makes another call.
///
/// What people do:
///
/// - A node is reopened once for each generation. Only one that has ended begins its work again, and its parent has not
///   ended then. Everything here holds for each generation of a node anew: it has a result of this generation before it
///   completes, and its step has one outcome more.
/// - A pause ends before the next one of the same node begins.
/// - A node is stopped once in a generation. From then on no child is created and no step begins for it and below it.
/// - Whatever stops a call closes its tool calls before.
///
/// Of nodes with a plan also:
///
/// - A band opens when the earlier ones have ended.
/// - A step's outcome is recorded once, unless its node was reopened, or a raised budget lets it have one.
///
/// Of a guided search also:
///
/// - A topic is picked once, before its research begins, and its research begins once.
/// - A conversation begins once, and continues none or one that exists.
/// - The root of a search picks topics of its own search. None is researched beyond the depth limit of its search, and
///   a search that is a step lists no more topics than it may.
///
/// Of homework also:
///
/// - Iterations follow each other, within their limit, and each is rolled up once.
/// - A branch has one task in an iteration.
///
/// Of budgets of subtrees also:
///
/// - A lease is at most the limit above it, and it is said once that it is used up, until it changes.
/// - What goes beyond a lease is taken over by a node above.
/// - Prompts are kept only if the run asks for it.
///
/// [`Run::replay`](crate::Run::replay) checks that `seq` is contiguous and that events name what exists.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    nodes: HashMap<NodeId, Seen>,
    run_status: Option<RunStatus>,
    keeps_prompts: bool,
    searches: search::Searches,
    homework: homework::HomeworkRules,
    leases: leases::Leases,
    violations: Vec<Violation>,
}

/// What is known of a node so far.
#[derive(Clone, Debug, Default)]
struct Seen {
    parent: Option<NodeId>,
    status: Option<NodeStatus>,
    has_result: bool,
    has_hint: bool,
    /// Tool calls without a result.
    open_tools: BTreeSet<String>,
    children: Vec<NodeId>,
    bands: bands::Bands,
    generation: u32,
    is_paused: bool,
    is_stopped: bool,
}

impl Seen {
    fn ended(&self) -> bool {
        self.status.is_some_and(NodeStatus::is_final)
    }

    /// A pause ends with its node.
    fn show(&mut self, status: NodeStatus) {
        self.status = Some(status);
        self.is_paused &= !status.is_final();
    }
}

impl Audit {
    /// An audit of an empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// What was found so far, in the order of the log.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// The findings of the whole log. All nodes of an ended run must have ended. A run that has not ended may be in any
    /// state.
    pub fn finish(self) -> Vec<Violation> {
        self.violations
    }

    /// Reads the next event.
    pub fn event(&mut self, event: &Event) {
        let forks = matches!(event.body, EventBody::RunForked(_));
        if self.run_status.is_some_and(RunStatus::is_final) && !forks {
            self.note(event, "stands after the end of the run");
        }
        self.check_envelope(event);
        self.check_tools(event);
        let of_strategies =
            [self.searches.event(event), self.homework.event(event), self.leases.event(event)];
        of_strategies.into_iter().flatten().for_each(|message| self.note(event, message));
        match &event.body {
            EventBody::RunStatusChanged(e) => {
                self.run_status = Some(e.status);
                let open = self.nodes.values().filter(|n| !n.ended()).count();
                if e.status.is_final() && open > 0 {
                    self.note(event, format!("ends the run while {open} of its nodes have not ended"));
                }
            }
            EventBody::RunCreated(e) => self.keeps_prompts = e.spec.keep_prompts,
            EventBody::UsageRecorded(e) if e.prompt.is_some() && !self.keeps_prompts => {
                self.note(event, "keeps a prompt, and its run keeps none");
            }
            EventBody::RunForked(e) if e.goes_on => self.run_status = Some(RunStatus::Running),
            EventBody::NodeCreated(e) => self.created(event, e.parent_node_id, e.band_index),
            EventBody::PlanCreated(_)
            | EventBody::StepCreated(_)
            | EventBody::NodeDelegated(_)
            | EventBody::StepStatusChanged(_) => {
                self.check_step(event);
                let seen = self.nodes.get_mut(&event.node_id);
                if let Some(message) = seen.and_then(|seen| seen.bands.event(&event.body)) {
                    self.note(event, message);
                }
            }
            EventBody::NodeStatusChanged(e) => {
                if e.status == NodeStatus::Aggregating {
                    self.check_children(event, "aggregates", true);
                }
                self.with(event, |seen| seen.show(e.status));
            }
            EventBody::NodeReopened(e) => self.reopened(event, e),
            EventBody::NodePaused(_) => self.check_flag(event, |seen| &mut seen.is_paused, true),
            EventBody::NodeResumed(_) => self.check_flag(event, |seen| &mut seen.is_paused, false),
            EventBody::ReviewRequested(_) => {
                let is_paused = self.nodes.get(&event.node_id).is_some_and(|seen| seen.is_paused);
                if event.parent_node_id.is_some() || !is_paused {
                    self.note(event, "asks for a review, but the run goes on");
                }
            }
            EventBody::NodeStopped(_) => self.check_flag(event, |seen| &mut seen.is_stopped, true),
            EventBody::NodeResult(_) => self.with(event, |seen| seen.has_result = true),
            EventBody::ParentHint(e) => {
                let parent = self.nodes.get(&event.node_id).and_then(|n| n.parent);
                if parent != Some(e.parent_node_id) {
                    self.note(
                        event,
                        format!("hints to {}, which is not the node's parent", e.parent_node_id),
                    );
                }
                self.with(event, |seen| seen.has_hint = true);
            }
            EventBody::NodeCompleted(_) => {
                self.check_children(event, "completes", false);
                if self.nodes.get(&event.node_id).is_some_and(|n| !n.has_result) {
                    self.note(event, "completes a node that has no result");
                }
                self.with(event, |seen| seen.show(NodeStatus::Completed));
            }
            EventBody::NodeFailed(_) => {
                self.check_children(event, "fails", false);
                self.with(event, |seen| seen.show(NodeStatus::Failed));
            }
            _ => {}
        }
    }

    /// No event is about a node that has ended, except those about its steps and about the run. The envelope names the
    /// node's parent.
    fn check_envelope(&mut self, event: &Event) {
        let Some(seen) = self.nodes.get(&event.node_id) else { return };
        let of_the_run = matches!(
            event.body,
            EventBody::RunStatusChanged(_)
                | EventBody::StepStatusChanged(_)
                | EventBody::BudgetExhausted(_)
                | EventBody::RunForked(_)
                | EventBody::NodeReopened(_)
                | EventBody::BudgetSet(_)
        );
        let (ended, parent) = (seen.ended() && !of_the_run, seen.parent);
        if ended {
            self.note(event, "stands after the end of its node");
        }
        if parent != event.parent_node_id {
            self.note(event, "names another parent than its node was created with");
        }
    }

    /// No tool call is open when its node ends or goes on to another call or attempt.
    fn check_tools(&mut self, event: &Event) {
        let goes_on = match &event.body {
            EventBody::NodeStatusChanged(e) => {
                e.call.is_some()
                    || e.attempt.is_some() && e.status == NodeStatus::Waiting
                    || e.status.is_final()
            }
            EventBody::NodeCompleted(_) | EventBody::NodeFailed(_) | EventBody::NodeReopened(_) => true,
            EventBody::CallStopped(e) => e.reason != LOST,
            _ => false,
        };
        let Some(seen) = self.nodes.get_mut(&event.node_id) else { return };
        match &event.body {
            EventBody::ToolCallRequested(e) => drop(seen.open_tools.insert(e.call_id.clone())),
            EventBody::ToolCallResult(e) => drop(seen.open_tools.remove(&e.call_id)),
            _ => {}
        }
        if let Some(open) = seen.open_tools.first().cloned().filter(|_| goes_on) {
            self.note(event, format!("leaves tool call {open} without a result"));
        }
    }

    fn created(&mut self, event: &Event, parent: Option<NodeId>, band: Option<u32>) {
        if let (Some(above), Some(band)) = (parent.and_then(|p| self.nodes.get(&p)), band)
            && let Some(message) = above.bands.opens(band)
        {
            self.note(event, message);
        }
        if parent.is_some_and(|parent| self.is_stopped(parent)) {
            self.note(event, "creates a child of a node that is stopped");
        }
        if let Some(above) = parent.and_then(|p| self.nodes.get_mut(&p)) {
            above.children.push(event.node_id);
        }
        if self.nodes.insert(event.node_id, Seen { parent, ..Seen::default() }).is_some() {
            self.note(event, "creates a node again");
        }
    }

    /// The node goes on. All that must hold of a node holds again from here on.
    fn reopened(&mut self, event: &Event, e: &NodeReopened) {
        let Some(seen) = self.nodes.get_mut(&event.node_id) else { return };
        let before = std::mem::replace(&mut seen.generation, e.generation);
        let had_ended = seen.ended();
        (seen.status, seen.has_result, seen.has_hint) = (Some(NodeStatus::Waiting), false, false);
        seen.is_stopped = false;
        if e.again {
            seen.bands = bands::Bands::default();
            seen.children.clear();
        }
        let above = seen.parent.and_then(|id| self.nodes.get(&id));
        let has_ended = above.is_some_and(Seen::ended);
        if e.generation != before + 1 {
            self.note(event, format!("is generation {} after generation {before}", e.generation));
        }
        if has_ended {
            self.note(event, "reopens a node whose parent has ended");
        }
        if e.again && !had_ended {
            self.note(event, "begins a node again that has not ended");
        }
    }

    /// True if the node, or one above it, is stopped and has not ended.
    fn is_stopped(&self, node: NodeId) -> bool {
        let mut next = self.nodes.get(&node);
        while let Some(seen) = next {
            if seen.is_stopped && !seen.ended() {
                return true;
            }
            next = seen.parent.and_then(|parent| self.nodes.get(&parent));
        }
        false
    }

    /// A step that has an outcome is open again only if its node is. None begins below a node that is stopped.
    fn check_step(&mut self, event: &Event) {
        let EventBody::StepStatusChanged(e) = &event.body else { return };
        let Some(seen) = self.nodes.get(&event.node_id) else { return };
        let child = seen.bands.node_of(&e.step_id).and_then(|child| self.nodes.get(&child));
        let has_ended = child.is_some_and(Seen::ended);
        if e.status == StepStatus::Pending && has_ended {
            self.note(event, format!("opens step {} again, whose node has ended", e.step_id));
        }
        if e.status == StepStatus::Running && self.is_stopped(event.node_id) {
            self.note(event, format!("begins step {} of a node that is stopped", e.step_id));
        }
    }

    /// A flag of the node changes to `value`.
    fn check_flag(&mut self, event: &Event, flag: impl FnOnce(&mut Seen) -> &mut bool, value: bool) {
        let Some(seen) = self.nodes.get_mut(&event.node_id) else { return };
        if std::mem::replace(flag(seen), value) == value {
            self.note(event, "repeats what the log has said already");
        }
    }

    /// Every child has ended. With `hints`, every completed child has also hinted its parent what to read.
    fn check_children(&mut self, event: &Event, what: &str, hints: bool) {
        let Some(seen) = self.nodes.get(&event.node_id) else { return };
        let children = seen.children.iter().filter_map(|id| Some((*id, self.nodes.get(id)?)));
        let mut wrong = Vec::new();
        for (id, child) in children {
            if !child.ended() {
                wrong.push(format!("{what} a node whose child {id} has not ended"));
            } else if hints && child.status == Some(NodeStatus::Completed) && !child.has_hint {
                wrong.push(format!("{what} a node whose completed child {id} gave no hint"));
            }
        }
        for message in wrong {
            self.note(event, message);
        }
    }

    fn with(&mut self, event: &Event, change: impl FnOnce(&mut Seen)) {
        if let Some(seen) = self.nodes.get_mut(&event.node_id) {
            change(seen);
        }
    }

    fn note(&mut self, event: &Event, message: impl std::fmt::Display) {
        let message = format!("{} {message}", event.body.event_type());
        self.violations.push(Violation { seq: event.seq, message });
    }
}

#[cfg(test)]
mod tests {
    use tree_agent_contract::event::{
        NodeCompleted, NodeFailed, NodeResult, NodeStatusChanged, RunStatusChanged,
    };
    use tree_agent_contract::{
        DocumentId, KeptText, Outcome, ResultKind, Role, RunId, RunSpec, Timestamp, TreeAgentResult,
    };

    use super::*;
    use crate::start;

    fn log() -> Vec<Event> {
        start(RunId(uuid::Uuid::from_u128(1)), RunSpec::new("o"), Timestamp(1)).events
    }

    fn then(log: &mut Vec<Event>, body: impl Into<EventBody>) {
        let last = log.last().expect("a begun log").clone();
        log.push(Event { seq: last.seq + 1, body: body.into(), ..last });
    }

    fn found(log: &[Event]) -> Vec<String> {
        let mut audit = Audit::new();
        log.iter().for_each(|event| audit.event(event));
        audit.finish().into_iter().map(|v| format!("{}: {}", v.seq, v.message)).collect()
    }

    fn completed() -> NodeCompleted {
        NodeCompleted { outcome: Outcome::Success, evidence: None, metrics: None }
    }

    fn result() -> NodeResult {
        NodeResult {
            result: TreeAgentResult {
                kind: ResultKind::Json,
                summary: String::new(),
                success_assessment: None,
                primary_artifact_id: None,
                artifact_ids: Vec::new(),
                document_ids: Vec::new(),
                json_payload: None,
                scratchpad_doc_id: None,
                scratchpad_tail: None,
                key_findings: Vec::new(),
                gaps: Vec::new(),
            },
        }
    }

    #[test]
    fn what_may_be_is_not_noted() {
        let mut log = log();
        then(&mut log, result());
        then(&mut log, completed());
        then(
            &mut log,
            RunStatusChanged { status: RunStatus::Completed, reason: None, partial: false, goes_on_at: None },
        );
        assert_eq!(found(&log), Vec::<String>::new());
    }

    #[test]
    fn a_tool_call_has_a_result_before_its_node_goes_on() {
        let asked = || tree_agent_contract::event::ToolCallRequested {
            call_id: "t".into(),
            tool_name: "look".into(),
            args: None,
            purpose: None,
            phase: None,
            started_at: None,
            writes: false,
            cached: false,
        };
        let failed = || NodeFailed { error: "e".into(), retryable: false };
        let mut log = log();
        then(&mut log, asked());
        let before = log.clone();
        then(&mut log, failed());
        assert_eq!(found(&log), ["6: tree.node_failed leaves tool call t without a result"]);
        let mut log = before;
        then(
            &mut log,
            tree_agent_contract::event::ToolCallResult {
                document_id: None,
                call_id: "t".into(),
                tool_name: "look".into(),
                ok: false,
                summary: None,
                error: Some("abandoned".into()),
                phase: None,
                completed_at: None,
                answer: None,
            },
        );
        then(&mut log, failed());
        assert_eq!(found(&log), Vec::<String>::new());
    }

    #[test]
    fn a_run_keeps_prompts_only_if_it_asks_for_it() {
        let id = RunId(uuid::Uuid::from_u128(1));
        for keep_prompts in [true, false] {
            let spec = RunSpec { keep_prompts, ..RunSpec::new("o") };
            let mut log = start(id, spec, Timestamp(1)).events;
            let prompt = KeptText { document_id: DocumentId::of_run(id, "prompts/1.md"), bytes: 1 };
            then(
                &mut log,
                tree_agent_contract::event::UsageRecorded {
                    model: "m".into(),
                    input_tokens: 1,
                    output_tokens: 1,
                    cached_tokens: 0,
                    cache_write_tokens: 0,
                    cost_micros: 0,
                    duration_ms: 1,
                    purpose: "plan".into(),
                    documents: Vec::new(),
                    prompt: Some(prompt),
                },
            );
            let is_found = found(&log) == ["5: tree.usage_recorded keeps a prompt, and its run keeps none"];
            assert_eq!(
                (found(&log).is_empty(), is_found),
                (keep_prompts, !keep_prompts),
                "{:?}",
                found(&log)
            );
        }
    }

    #[test]
    fn a_topic_is_picked_and_begun_once_and_continues_a_conversation_that_exists() {
        let mut log = log();
        let leaf = log[0].node_id;
        let picked = || tree_agent_contract::event::LeafPicked {
            leaf_node_id: leaf,
            reason: String::new(),
            policy: None,
            fallback: None,
        };
        let forked = |session: &str, parent: Option<&str>| tree_agent_contract::event::SessionForked {
            session_id: session.into(),
            parent_session_id: parent.map(str::to_owned),
        };
        let begun = || NodeStatusChanged {
            call: Some(tree_agent_contract::role::CallKind::Research),
            ..NodeStatusChanged::new(NodeStatus::Executing, Role::Executor)
        };
        then(&mut log, picked());
        then(&mut log, forked("a", None));
        then(&mut log, forked("b", Some("a")));
        then(&mut log, begun());
        assert_eq!(found(&log), Vec::<String>::new());
        then(&mut log, picked());
        then(&mut log, forked("a", None));
        then(&mut log, forked("c", Some("z")));
        then(&mut log, begun());
        let expected = [
            format!("9: tree.leaf_picked picks {leaf}, whose research has begun"),
            format!("10: tree.session_forked begins conversation a of node {leaf} again"),
            "11: tree.session_forked continues conversation z, which does not exist".to_owned(),
            "12: tree.node_status begins a research again".to_owned(),
        ];
        assert_eq!(found(&log), expected);
    }

    #[test]
    fn a_lease_fits_what_is_above_and_is_used_up_once() {
        use tree_agent_contract::event::{
            BudgetExhausted, BudgetSet, LeaseCovered, NodeCreated, StepCreated,
        };
        use tree_agent_contract::{BudgetChange, StepId, SubtreeBudget};
        let mut log = log();
        let root = log[0].node_id;
        let step = |tokens| StepCreated {
            step_id: StepId::new("s"),
            band_index: 0,
            step_index: 0,
            title: "t".into(),
            reason: String::new(),
            success_criteria: Vec::new(),
            strategy: None,
            search: None,
            branch_id: None,
            budget: Some(SubtreeBudget { max_tokens: Some(tokens), ..SubtreeBudget::default() }),
            deliverable: None,
            profile: None,
        };
        let set = |tokens| BudgetSet {
            author: String::new(),
            request_id: String::new(),
            change: BudgetChange { max_tokens: Some(tokens), ..BudgetChange::default() },
            clamped: false,
        };
        let used_up = || BudgetExhausted { budget: "maxTokens".into(), limit: 1, used: 1, reserved: 0 };
        then(&mut log, set(50));
        then(&mut log, step(60));
        let created = NodeCreated {
            parent_node_id: Some(root),
            step_id: Some(StepId::new("s")),
            ..NodeCreated::new("t")
        };
        then(&mut log, created);
        let child = NodeId::from(uuid::Uuid::from_u128(9));
        if let Some(last) = log.last_mut() {
            (last.node_id, last.parent_node_id) = (child, Some(root));
        }
        then(&mut log, used_up());
        then(&mut log, used_up());
        then(&mut log, set(40));
        then(&mut log, used_up());
        then(&mut log, LeaseCovered { budget: "maxTokens".into(), amount: 1, by_node_id: root });
        then(&mut log, LeaseCovered { budget: "maxTokens".into(), amount: 1, by_node_id: child });
        let expected = [
            "6: tree.step_created leases 60 of maxTokens, of which there are 50 above".to_owned(),
            "9: tree.budget_exhausted says again that the lease of its node is used up".to_owned(),
            format!("13: tree.lease_covered names node {child}, which is not above its own"),
        ];
        assert_eq!(found(&log), expected);
    }

    #[test]
    fn what_may_not_be_is_noted_with_its_event() {
        let mut log = log();
        then(&mut log, completed());
        then(&mut log, result());
        then(
            &mut log,
            RunStatusChanged { status: RunStatus::Completed, reason: None, partial: false, goes_on_at: None },
        );
        then(&mut log, NodeStatusChanged::new(NodeStatus::Executing, Role::Executor));
        assert_eq!(
            found(&log),
            [
                "5: tree.node_completed completes a node that has no result",
                "6: tree.node_result stands after the end of its node",
                "8: tree.node_status stands after the end of the run",
                "8: tree.node_status stands after the end of its node",
            ]
        );
    }
}
