//! The logged state of a run: the graph that users see, and what decisions need in addition. Applying an event is the
//! only way to change it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Serialize, Serializer};
use tree_agent_contract::event::{Event, EventBody, SCHEMA_VERSION};
use tree_agent_contract::graph::GraphNode;
use tree_agent_contract::role::{CallKind, Guidance};
use tree_agent_contract::{
    ArtifactId, Budgets, NodeId, NodeStatus, Profile, ResultKind, RunId, RunSpec, RunStatus, Sparse, StepId,
    Strategy, Timestamp,
};

use crate::amounts::{Amounts, Ledger, TOOL_CALLS};
use crate::answers::Answers;
use crate::bands::{Bands, NO_BANDS};
use crate::behaviour::Behaviour;
use crate::graph::{Graph, ReplayError, grow_gently};
use crate::steering::{GuidanceEntry, NOT_STEERED, Steered, Steering};
use crate::waiting::Waiting;

mod forked;
mod leases;
mod status;
mod steered;
mod tools;

use leases::OpenLease;
pub(crate) use leases::{Account, Accounts};
pub(crate) use steered::{Ending, OF_BUDGET};
pub(crate) use tools::{ABANDONED, ToolUse};

/// Why a call was stopped whose driver has vanished.
pub(crate) const LOST: &str = "lost";
/// Changes of a scratchpad whose times are kept.
pub(crate) const CHANGES: usize = 4;

/// What the log says.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct State {
    #[serde(serialize_with = "snapshot")]
    graph: Graph,
    /// One for each node of the graph, by index.
    control: Vec<Control>,
    spec: RunSpec,
    #[serde(skip)]
    behaviour: &'static Behaviour,
    started_at: Option<Timestamp>,
    /// Nodes that exist or are planned. The node budget is checked against this number.
    planned_nodes: u32,
    exhausted: Option<Exhausted>,
    /// Budgets that were used up before the run was forked. They are clear here, and what they cancelled stays so
    /// until they are raised.
    exhausted_before: BTreeSet<String>,
    /// Nodes whose children had all ended when the run was forked within a decision that was written in parts. Nothing
    /// else will tell them.
    left_open: BTreeSet<usize>,
    /// The needs of calls so far.
    ledger: Ledger,
    /// What nodes waited for.
    waiting: Waiting,
    /// What tools have answered.
    answers: Answers,
    /// The run that began the log.
    origin: RunId,
    /// What people have done to the run.
    steering: Steering,
    /// When the last event was written, apart from those about calls that were lost with their driver.
    last_at: Timestamp,
    /// Open leases, by node.
    leases: BTreeMap<usize, OpenLease>,
    /// Nodes whose plan has steps with a lease.
    lessors: BTreeSet<usize>,
    /// Nodes with a call that is in flight, or that no pause holds back.
    #[serde(skip)]
    moving: BTreeSet<usize>,
}

/// A budget was used up.
#[derive(Clone, Debug, Serialize)]
struct Exhausted {
    budget: String,
    /// When it was, in milliseconds on the run's clock.
    clock_ms: u64,
}

/// What decisions about one node need in addition to its [`GraphNode`].
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Control {
    pub(crate) parent: Option<usize>,
    /// How the tree grows below it: what its parent's does, unless the log says otherwise.
    pub(crate) strategy: Strategy,
    /// It is boxed because most nodes never plan and a driver holds many.
    bands: Option<Box<Bands>>,
    /// What the plan above it wants of it.
    pub(crate) deliverable: Option<ResultKind>,
    /// The ability that the plan above it asks of its model.
    pub(crate) profile: Option<Profile>,
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
    /// It combined the existing results early, because nothing new might begin, or without its aggregator. That ends
    /// when it is reopened.
    wound_down: bool,
    /// How often it began its work again.
    begun_again: u32,
    /// A person has stopped it, and it was not reopened since. True: the existing results are discarded.
    stopped: Option<bool>,
    /// A person has paused it. That ends with the node.
    paused: bool,
    /// Its call was in flight when it was paused, and has not ended in the log.
    pub(crate) flying: bool,
    /// The call that it needs was stopped before, and is made again.
    pub(crate) restarted: bool,
    /// Seq of the last event that changed what the node is doing, or its plan.
    changed: u64,
    /// Seq of the last command about the node.
    commanded: u64,
    /// What people have said about it. Only few nodes have some.
    steered: Option<Box<Steered>>,
    /// Results that the node has returned.
    pub(crate) results: u32,
    /// Its generation when it returned the last of them.
    result_of: u32,
    /// What parents and later siblings see of the node's artifacts, in addition to the graph.
    pub(crate) shown: Vec<ArtifactSummary>,
    /// What the role call that the node needs next has used so far.
    pub(crate) spent: Amounts,
    /// Tool calls of the attempt that the node needs next, or is at, that are in the log.
    pub(crate) tool_calls: u32,
    /// Tool calls without a result.
    pub(crate) open_tools: Vec<ToolUse>,
    /// Those with a result that the role call that the node needs has asked for so far.
    pub(crate) earlier_calls: Vec<ToolUse>,
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

impl Control {
    /// The children and steps of its plans.
    pub(crate) fn bands(&self) -> &Bands {
        self.bands.as_deref().unwrap_or(&NO_BANDS)
    }

    /// What people have said about the node.
    pub(crate) fn steered(&self) -> &Steered {
        self.steered.as_deref().unwrap_or(&NOT_STEERED)
    }

    /// Whether a person has stopped the node itself. True: the existing results are discarded.
    pub(crate) fn stopped(&self) -> Option<bool> {
        self.stopped
    }

    /// How often the node began its work again.
    pub(crate) fn begun_again(&self) -> u32 {
        self.begun_again
    }

    /// True if it combined the existing results early, because nothing new might begin, or without its aggregator.
    pub(crate) fn has_ended_early(&self) -> bool {
        self.wound_down
    }

    /// True if work of the node was lost, so that its result is partial.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut || self.wound_down
    }

    /// The calls that the node has needed.
    pub(crate) fn calls(&self) -> u32 {
        self.calls
    }

    /// Seq of the last event that changed what the node is doing, or its plan.
    pub(crate) fn changed(&self) -> u64 {
        self.changed
    }

    /// Seq of the last command about the node; 0 for none.
    pub(crate) fn commanded(&self) -> u64 {
        self.commanded
    }

    /// True if it has a plan and has not ended, so it still needs an aggregator.
    pub(crate) fn owes(&self) -> bool {
        self.owes
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

fn snapshot<S: Serializer>(graph: &Graph, serializer: S) -> Result<S::Ok, S::Error> {
    graph.snapshot().serialize(serializer)
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
            exhausted_before: BTreeSet::new(),
            left_open: BTreeSet::new(),
            ledger: Ledger::default(),
            waiting: Waiting::default(),
            answers: Answers::default(),
            origin: first.run_id,
            steering: Steering::default(),
            last_at: first.timestamp,
            leases: BTreeMap::new(),
            lessors: BTreeSet::new(),
            moving: BTreeSet::new(),
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

    /// The run after which documents are named: the one that began the log.
    pub(crate) fn origin(&self) -> RunId {
        self.origin
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

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(crate) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// What people have done to the run.
    pub(crate) fn steering(&self) -> &Steering {
        &self.steering
    }

    /// The node at `at` and those above it, upwards.
    pub(crate) fn line(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(at), |at| self.control[*at].parent)
    }

    /// The node at `at` and every node below it, in order of creation.
    pub(crate) fn subtree(&self, at: usize) -> Vec<usize> {
        let mut inside = vec![false; self.control.len()];
        inside[at] = true;
        for below in at + 1..self.control.len() {
            inside[below] = self.control[below].parent.is_some_and(|parent| inside[parent]);
        }
        (at..self.control.len()).filter(|&below| inside[below]).collect()
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

    /// What tools have answered.
    pub(crate) fn answers(&self) -> &Answers {
        &self.answers
    }

    /// True if a child of the node at `at` was a task of `branch` before the latest one.
    pub(crate) fn has_branch(&self, at: usize, branch: &str) -> bool {
        let children = (at..self.control.len()).filter(|c| self.control[*c].parent == Some(at));
        let of_branch =
            children.filter(|c| self.node(*c).task.as_ref().is_some_and(|t| t.branch_id == branch));
        of_branch.count() > 1
    }

    /// Steps of the plan of the node at `at` that will get a node and have none.
    pub(crate) fn unborn(&self, at: usize) -> u32 {
        let unborn = self.node(at).steps().filter(|step| step.node_id.is_none());
        unborn.filter(|step| self.reusable_child(at, &step.step_id).is_none()).count() as u32
    }

    /// The child of an earlier plan that already completed `step`. Finished work is not repeated.
    pub(crate) fn reusable_child(&self, at: usize, step: &StepId) -> Option<usize> {
        let child = self.control[at].bands().child_of(step)?;
        (self.node(child).status == NodeStatus::Completed).then_some(child)
    }

    /// The state as bytes. Two runs with the same log have the same bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_else(|e| unreachable!("the state always has a JSON form: {e}"))
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
                let (deliverable, profile) = (e.deliverable, e.profile);
                let mut control = Control { parent, strategy, deliverable, profile, ..Control::default() };
                // A node that carries out a step of a plan was counted with its plan.
                self.planned_nodes += u32::from(parent.is_some() && e.band_index.is_none());
                if let Some(parent) = parent {
                    let bands = self.control[parent].bands.get_or_insert_default();
                    control.born_version = bands.plan_version;
                    bands.child_created(at, e);
                }
                grow_gently(&mut self.control);
                self.control.push(control);
                // A synthesis of a search must be affordable from its beginning.
                if self.always_owes(at) {
                    self.control[at].owes = true;
                    self.owe(at);
                }
                self.sync_lease(at, true);
            }
            EventBody::RunStatusChanged(e) if e.status == RunStatus::Running => {
                self.started_at.get_or_insert(event.timestamp);
            }
            EventBody::RunForked(e) => self.forked(event.seq, e, event.timestamp),
            EventBody::BudgetExhausted(e) if event.parent_node_id.is_none() => {
                let clock_ms = self.elapsed_ms(event.timestamp);
                self.exhausted = Some(Exhausted { budget: e.budget.clone(), clock_ms });
            }
            _ => {}
        }
        self.steering.follow(event);
        if let Some(at) = self.graph.position(event.node_id) {
            let was_paused = self.control[at].paused;
            self.apply_to_control(at, event);
            match self.control[at].paused == was_paused {
                true => self.note_moving(at),
                false => self.note_moving_below(at),
            }
        }
        if self.steering.has_pauses() || self.steering.is_still() {
            let is_still = self.stands_still();
            // A call was lost when its driver wrote for the last time, not when its successor noticed it.
            let is_lost = matches!(&event.body, EventBody::CallStopped(e) if e.reason == LOST);
            let since = if is_lost { self.last_at } else { event.timestamp };
            self.steering.set_clock_stopped(is_still, since);
        }
        if !matches!(&event.body, EventBody::CallStopped(e) if e.reason == LOST) {
            self.last_at = event.timestamp;
        }
        Ok(())
    }

    fn apply_to_control(&mut self, at: usize, event: &Event) {
        self.note_change(at, event);
        match &event.body {
            EventBody::NodePaused(e) => {
                self.control[at].paused = true;
                for at in e.in_flight.iter().filter_map(|id| self.graph.position(*id)) {
                    self.control[at].flying = true;
                }
            }
            EventBody::NodeResumed(_) => self.end_pause(at),
            EventBody::CallStopped(_) => self.call_stopped(at),
            EventBody::NodeReopened(e) => self.reopened(at, e),
            EventBody::GuidanceAdded(e) => {
                let (author, text) = (e.author.clone(), e.text.clone());
                let told =
                    GuidanceEntry { seq: event.seq, subtree: e.subtree, guidance: Guidance { author, text } };
                self.control[at].steered.get_or_insert_default().guidance.push(told);
            }
            EventBody::PlanEdited(e) => {
                // Steps that the old plan never gave to a node are not planned any more.
                self.planned_nodes -= self.unborn(at);
                self.control[at].bands.get_or_insert_default().edited(e.version);
            }
            EventBody::BudgetSet(e) if at == 0 => self.budget_set(e, event.timestamp),
            EventBody::BudgetSet(_) => self.sync_lease(at, false),
            EventBody::BudgetExhausted(_) if at > 0 => self.lease_exhausted(at, event.timestamp),
            EventBody::LeaseCovered(e) => self.lease_covered(at, e),
            EventBody::NodeStatusChanged(e) => self.apply_status(at, e, event.timestamp),
            EventBody::NodeCompleted(_) => self.node_ended(at, true),
            EventBody::NodeFailed(_) => self.node_ended(at, false),
            EventBody::NodeResult(_) => {
                self.control[at].results += 1;
                self.control[at].result_of = self.node(at).generation;
            }
            EventBody::PlanCreated(e) => {
                let control = &mut self.control[at];
                control.bands.get_or_insert_default().planned(e);
                if !std::mem::replace(&mut control.owes, true) {
                    self.owe(at);
                }
                self.lessors.remove(&at);
            }
            EventBody::UsageRecorded(e) => {
                self.waiting.model_answered(at);
                let kept = e.prompt.map_or(0, |prompt| prompt.bytes);
                self.answers.prompt_bytes = self.answers.prompt_bytes.saturating_add(kept);
                let spent = &mut self.control[at].spent;
                spent[0] = spent[0].saturating_add(e.input_tokens).saturating_add(e.output_tokens);
                spent[1] = spent[1].saturating_add(e.cost_micros);
                self.note_overrun(at, [e.input_tokens.saturating_add(e.output_tokens), e.cost_micros, 0]);
            }
            EventBody::ScratchpadUpdated(_) => {
                let mut written = self.control[at].written.get();
                written.rotate_left(1);
                written[CHANGES - 1] = Some(event.timestamp);
                self.control[at].written.set(written);
            }
            EventBody::ToolCallRequested(e) => {
                let used = u64::from(!e.cached);
                let control = &mut self.control[at];
                control.spent[TOOL_CALLS] += used;
                control.tool_calls += 1;
                control.tool_began(e);
                self.note_overrun(at, [0, 0, used]);
            }
            EventBody::ToolCallResult(e) => {
                let about = self.control[at].tool_ended(e);
                self.answers.answered(at, e, about);
            }
            EventBody::StepCreated(e) => {
                self.planned_nodes += u32::from(self.reusable_child(at, &e.step_id).is_none());
                if e.budget.is_some() {
                    self.lessors.insert(at);
                }
            }
            EventBody::NodeDelegated(e) => {
                // A step that an edit keeps has a node already, so it will not get the one that was counted for it.
                // What has completed was not counted.
                let kept = self.graph.position(e.child_node_id).filter(|child| {
                    let is_older = self.control[*child].born_version < self.control[at].bands().plan_version;
                    is_older && self.node(*child).status != NodeStatus::Completed
                });
                self.planned_nodes -= u32::from(kept.is_some());
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
}
