//! The logged state of a run: the graph that users see, and what decisions need in addition. Applying an event is the
//! only way to change it.

use std::collections::BTreeSet;

use serde::Serialize;
use tree_agent_contract::event::{Event, EventBody, NodeStatusChanged, SCHEMA_VERSION};
use tree_agent_contract::graph::GraphNode;
use tree_agent_contract::role::CallKind;
use tree_agent_contract::{
    ArtifactId, Budgets, DocumentId, NodeId, NodeStatus, RunSpec, RunStatus, Sparse, StepId, Strategy,
    Timestamp,
};

use crate::amounts::{Amounts, Ledger, TOOL_CALLS};
use crate::bands::{Bands, NO_BANDS};
use crate::behaviour::Behaviour;
use crate::call::{at_work, meant_by};
use crate::graph::{Graph, ReplayError, grow_gently};
use crate::waiting::Waiting;

/// Changes of a scratchpad whose times are kept.
pub(crate) const CHANGES: usize = 4;

/// What the log says.
#[derive(Clone, Debug)]
pub(crate) struct State {
    graph: Graph,
    /// One for each node of the graph, by index.
    control: Vec<Control>,
    spec: RunSpec,
    behaviour: &'static Behaviour,
    started_at: Option<Timestamp>,
    /// Nodes that exist or are planned. The node budget is checked against this number.
    planned_nodes: u32,
    exhausted: Option<Exhausted>,
    /// The needs of calls so far.
    ledger: Ledger,
    /// What nodes waited for.
    waiting: Waiting,
    /// Documents of the run that tools wrote.
    kept: BTreeSet<DocumentId>,
}

/// A budget was used up.
#[derive(Clone, Debug, Serialize)]
struct Exhausted {
    budget: String,
    at: Timestamp,
}

/// What decisions about one node need in addition to its [`GraphNode`].
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Control {
    pub(crate) parent: Option<usize>,
    /// How the tree grows below it: what its parent's does, unless the log says otherwise.
    pub(crate) strategy: Strategy,
    /// It is boxed because most nodes never plan and a driver holds many.
    bands: Option<Box<Bands>>,
    /// Version of the parent's plan that this node came from.
    pub(crate) born_version: u32,
    /// The role call that the node needs next.
    pub(crate) needs: Option<CallKind>,
    /// Attempt number of that call; 0 while none is needed.
    pub(crate) attempt: u32,
    /// The role calls that the node has needed so far, that one included.
    calls: u32,
    /// When the next attempt may begin.
    pub(crate) retry_at: Option<Timestamp>,
    /// A guard removed work, so the result will be partial.
    pub(crate) cut: bool,
    /// Results that the node has returned.
    pub(crate) results: u32,
    /// What parents and later siblings see of the node's artifacts, in addition to the graph.
    pub(crate) shown: Vec<ArtifactSummary>,
    /// What the role call that the node needs next has used so far.
    pub(crate) spent: Amounts,
    /// Tool calls of the attempt that the node needs next, or is at, that are in the log.
    pub(crate) tool_calls: u32,
    /// Tool calls without a result.
    pub(crate) open_tools: Vec<OpenTool>,
    /// The node has a plan and has not ended, so it still needs an aggregator.
    owes: bool,
    /// The times of the last changes of its scratchpad, the latest last.
    written: Sparse<[Option<Timestamp>; CHANGES]>,
}

/// What roles learn about an artifact in addition to the graph.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ArtifactSummary {
    pub(crate) id: ArtifactId,
    pub(crate) snippet: Option<String>,
    /// Its node hinted the parent to read it.
    pub(crate) hinted: bool,
}

/// A tool call without a result.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OpenTool {
    pub(crate) call_id: String,
    pub(crate) tool_name: String,
    pub(crate) phase: Option<String>,
}

impl Control {
    /// The children and steps of its plans.
    pub(crate) fn bands(&self) -> &Bands {
        self.bands.as_deref().unwrap_or(&NO_BANDS)
    }

    /// The calls that the node needed before the one that it needs now.
    pub(crate) fn round(&self) -> u32 {
        self.calls.saturating_sub(1)
    }

    /// When its scratchpad last changed for the `n`th time from the end; 1 for the last change.
    pub(crate) fn written_before(&self, n: usize) -> Option<Timestamp> {
        self.written.get()[CHANGES - n]
    }
}

/// The state as bytes, for comparison.
#[derive(Serialize)]
struct Bytes<'a> {
    graph: tree_agent_contract::graph::GraphSnapshot,
    control: &'a [Control],
    spec: &'a RunSpec,
    started_at: Option<Timestamp>,
    planned_nodes: u32,
    exhausted: &'a Option<Exhausted>,
    ledger: &'a Ledger,
    waiting: &'a Waiting,
    kept: &'a BTreeSet<DocumentId>,
}

impl State {
    /// The state after the first event, which must be `tree.run_created`.
    pub(crate) fn begin(first: &Event) -> Result<Self, ReplayError> {
        let EventBody::RunCreated(created) = &first.body else {
            return Err(ReplayError::Unknown { run: first.run_id, seq: first.seq, what: "the run".into() });
        };
        let (schema, version) = (created.schema_version, created.behaviour_version);
        let behaviour = Behaviour::of(version)
            .filter(|_| (1..=SCHEMA_VERSION).contains(&schema))
            .ok_or(ReplayError::Version { run: first.run_id, schema, behaviour: version })?;
        let mut graph = Graph::new(first.run_id);
        graph.apply(first)?;
        Ok(Self {
            graph,
            control: Vec::new(),
            spec: created.spec.clone(),
            behaviour,
            started_at: None,
            planned_nodes: 1,
            exhausted: None,
            ledger: Ledger::default(),
            waiting: Waiting::default(),
            kept: BTreeSet::new(),
        })
    }

    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    pub(crate) fn nodes(&self) -> &[GraphNode] {
        self.graph.nodes()
    }

    pub(crate) fn node(&self, at: usize) -> &GraphNode {
        &self.graph.nodes()[at]
    }

    pub(crate) fn control(&self, at: usize) -> &Control {
        &self.control[at]
    }

    pub(crate) fn position(&self, id: NodeId) -> Option<usize> {
        self.graph.position(id)
    }

    pub(crate) fn is_final(&self) -> bool {
        self.graph.status().is_final()
    }

    pub(crate) fn spec(&self) -> &RunSpec {
        &self.spec
    }

    pub(crate) fn budgets(&self) -> &Budgets {
        &self.spec.budgets
    }

    pub(crate) fn behaviour(&self) -> &'static Behaviour {
        self.behaviour
    }

    /// When a driver first took the run up.
    pub(crate) fn started_at(&self) -> Option<Timestamp> {
        self.started_at
    }

    /// Nodes that exist or are planned.
    pub(crate) fn planned_nodes(&self) -> u32 {
        self.planned_nodes
    }

    /// The exhausted budget.
    pub(crate) fn exhausted(&self) -> Option<&str> {
        self.exhausted.as_ref().map(|e| e.budget.as_str())
    }

    /// When a budget was exhausted.
    pub(crate) fn exhausted_at(&self) -> Option<Timestamp> {
        self.exhausted.as_ref().map(|e| e.at)
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(crate) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// The step of a plan that the node at `at` carries out. A topic of a search has a step id, but no plan.
    pub(crate) fn planned_step(&self, at: usize) -> Option<StepId> {
        let node = self.node(at);
        node.band_index.and_then(|_| node.step_id.clone())
    }

    /// For each step of all plans of the node at `at`, the child that carried it out last.
    pub(crate) fn latest_children(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        self.control[at].bands().latest_children()
    }

    /// True if a child of the node at `at` has completed.
    pub(crate) fn has_completed_children(&self, at: usize) -> bool {
        self.latest_children(at).any(|c| self.node(c).status == NodeStatus::Completed)
    }

    /// True if a tool has written this document of the run.
    pub(crate) fn has_kept(&self, id: DocumentId) -> bool {
        self.kept.contains(&id)
    }

    /// True if a child of the node at `at` was a task of `branch` before the latest one.
    pub(crate) fn has_branch(&self, at: usize, branch: &str) -> bool {
        let children = &self.control[at].bands().children;
        let earlier = &children[..children.len().saturating_sub(1)];
        earlier.iter().any(|&c| self.node(c).task.as_ref().is_some_and(|task| task.branch_id == branch))
    }

    /// The child of an earlier plan that already completed `step`. Finished work is not repeated.
    pub(crate) fn reusable_child(&self, at: usize, step: &StepId) -> Option<usize> {
        let child = self.control[at].bands().child_of(step)?;
        (self.node(child).status == NodeStatus::Completed).then_some(child)
    }

    /// The state as bytes. Two runs with the same log have the same bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let bytes = Bytes {
            graph: self.graph.snapshot(),
            control: &self.control,
            spec: &self.spec,
            started_at: self.started_at,
            planned_nodes: self.planned_nodes,
            exhausted: &self.exhausted,
            ledger: &self.ledger,
            waiting: &self.waiting,
            kept: &self.kept,
        };
        serde_json::to_vec(&bytes).unwrap_or_else(|e| unreachable!("the state always has a JSON form: {e}"))
    }

    /// Applies the next event of the log. On an error the state must be dropped.
    pub(crate) fn apply(&mut self, event: &Event) -> Result<(), ReplayError> {
        self.graph.apply(event)?;
        match &event.body {
            EventBody::NodeCreated(e) => {
                let parent = event.parent_node_id.and_then(|p| self.graph.position(p));
                let at = self.control.len();
                let above = parent.map_or(self.spec.strategy, |p| self.control[p].strategy);
                let strategy = e.strategy.unwrap_or(above);
                let mut control = Control { parent, strategy, ..Control::default() };
                // A node that carries out a step of a plan was counted with its plan.
                self.planned_nodes += u32::from(parent.is_some() && e.band_index.is_none());
                // A synthesis of a search must be affordable from its beginning. A step always ends with one.
                let is_search = strategy == Strategy::Search
                    && parent.is_none_or(|p| self.control[p].strategy != Strategy::Search);
                control.owes = is_search && (parent.is_some() || self.spec.search().synthesis);
                if control.owes {
                    self.ledger.owe();
                }
                if let Some(parent) = parent {
                    let bands = self.control[parent].bands.get_or_insert_default();
                    control.born_version = bands.plan_version;
                    bands.child_created(at, e);
                }
                grow_gently(&mut self.control);
                self.control.push(control);
            }
            EventBody::RunStatusChanged(e) if e.status == RunStatus::Running => {
                self.started_at.get_or_insert(event.timestamp);
            }
            EventBody::BudgetExhausted(e) => {
                self.exhausted = Some(Exhausted { budget: e.budget.clone(), at: event.timestamp });
            }
            _ => {}
        }
        if let Some(at) = self.graph.position(event.node_id) {
            self.apply_to_control(at, event);
        }
        Ok(())
    }

    fn apply_to_control(&mut self, at: usize, event: &Event) {
        match &event.body {
            EventBody::NodeStatusChanged(e) => self.apply_status(at, e, event.timestamp),
            EventBody::NodeCompleted(_) => self.node_ended(at, true),
            EventBody::NodeFailed(_) => self.node_ended(at, false),
            EventBody::NodeResult(_) => self.control[at].results += 1,
            EventBody::PlanCreated(e) => {
                let control = &mut self.control[at];
                control.bands.get_or_insert_default().planned(e);
                if !std::mem::replace(&mut control.owes, true) {
                    self.ledger.owe();
                }
            }
            EventBody::UsageRecorded(e) => {
                self.waiting.model_answered(at);
                let spent = &mut self.control[at].spent;
                spent[0] = spent[0].saturating_add(e.input_tokens).saturating_add(e.output_tokens);
                spent[1] = spent[1].saturating_add(e.cost_micros);
            }
            EventBody::ScratchpadUpdated(_) => {
                let mut written = self.control[at].written.get();
                written.rotate_left(1);
                written[CHANGES - 1] = Some(event.timestamp);
                self.control[at].written.set(written);
            }
            EventBody::ToolCallRequested(e) => {
                let control = &mut self.control[at];
                control.spent[TOOL_CALLS] += 1;
                control.tool_calls += 1;
                control.open_tools.push(OpenTool {
                    call_id: e.call_id.clone(),
                    tool_name: e.tool_name.clone(),
                    phase: e.phase.clone(),
                });
            }
            EventBody::ToolCallResult(e) => {
                self.kept.extend(e.document_id);
                self.control[at].open_tools.retain(|open| open.call_id != e.call_id);
            }
            EventBody::StepCreated(e) => {
                let reused = self.reusable_child(at, &e.step_id).is_some();
                self.planned_nodes += u32::from(!reused);
            }
            EventBody::NodeDelegated(e) => {
                let plan = self.node(at).plan.as_ref();
                let band = plan.and_then(|p| {
                    p.bands.iter().find(|b| b.steps.iter().any(|s| s.step_id == e.step_id)).map(|b| b.index)
                });
                self.control[at].bands.get_or_insert_default().opened(band);
            }
            EventBody::ArtifactCreated(e) => self.control[at].shown.push(ArtifactSummary {
                id: e.artifact_id,
                snippet: e.snippet.clone(),
                hinted: false,
            }),
            EventBody::ParentHint(e) => {
                for artifact in &mut self.control[at].shown {
                    artifact.hinted |= e.artifact_ids.contains(&artifact.id);
                }
            }
            EventBody::ReplanRequested(e) => {
                self.control[at].bands.get_or_insert_default().replan_requested(e);
            }
            _ => {}
        }
    }

    fn apply_status(&mut self, at: usize, e: &NodeStatusChanged, now: Timestamp) {
        if e.status.is_final() {
            return self.node_ended(at, false);
        }
        self.waiting.status_changed(at, e, now);
        let before = self.control[at].needs;
        let needs = match e.status {
            _ if e.call.is_some() => e.call,
            status if before.is_some_and(|kind| at_work(kind) == status) => before,
            NodeStatus::Waiting if e.attempt.is_some() => before,
            NodeStatus::Blocked => before,
            status => meant_by(status),
        };
        let is_new = e.call.is_some() || needs != before;
        let attempt = if needs.is_some() { e.attempt.unwrap_or(1) } else { 0 };
        let is_new_attempt = is_new || attempt != self.control[at].attempt;
        if is_new_attempt || e.status == NodeStatus::Blocked {
            self.call_ended(at, is_new);
        }
        if is_new_attempt {
            self.control[at].tool_calls = 0;
        }
        let control = &mut self.control[at];
        if let Some(guard) = e.message.as_deref().and_then(|m| m.strip_prefix("guard:")) {
            // A node at the depth limit does its own work. Every other guard loses work.
            control.cut |= guard != "maxDepth";
        }
        control.calls += u32::from(needs.is_some() && is_new);
        control.needs = needs;
        control.attempt = attempt;
        control.retry_at = match (e.status, e.attempt) {
            (NodeStatus::Waiting, Some(attempt)) => {
                let delay = self.behaviour.retry.delay_ms(attempt.saturating_sub(1), at);
                Some(now.plus_millis(delay))
            }
            _ => None,
        };
    }

    /// The role call that the node needed has ended, so its usage is known. A call that was never made counts for
    /// nothing.
    fn call_ended(&mut self, at: usize, answered: bool) {
        if answered {
            self.waiting.moved_on(at);
        }
        let spent = std::mem::take(&mut self.control[at].spent);
        if let Some(kind) = self.control[at].needs
            && (answered || spent != Amounts::default())
        {
            self.ledger.ended(kind, spent);
        }
    }

    /// The node has ended: nothing is due for it any more.
    fn node_ended(&mut self, at: usize, answered: bool) {
        self.call_ended(at, answered);
        let control = &mut self.control[at];
        control.needs = None;
        control.attempt = 0;
        control.retry_at = None;
        if std::mem::take(&mut control.owes) {
            self.ledger.settle();
        }
    }
}
