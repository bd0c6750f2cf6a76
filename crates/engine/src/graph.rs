//! The graph projection: what users see, folded from the events.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use tree_agent_contract::event::{Event, EventBody, RunForked};
use tree_agent_contract::graph::{
    GraphArtifact, GraphBand, GraphNode, GraphPlan, GraphSnapshot, GraphStep, GraphTopic, GraphView,
    ToolActivity, Usage,
};
use tree_agent_contract::{NodeId, NodeStatus, Role, RunId, RunStatus, Sparse, StepStatus, Timestamp};

mod leases;
mod models;
mod node;
use node::{count_steps, decide, end, is_topic, reopen, step_mut, task, turn};

/// Why an event cannot follow the events before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The log has a gap or a duplicate.
    #[error("event {found} follows event {head} of run {run}; the log must be contiguous")]
    Gap {
        /// The run.
        run: RunId,
        /// The last event that was applied.
        head: u64,
        /// The event that came instead of the next.
        found: u64,
    },
    /// The event is about something that no earlier event created.
    #[error("event {seq} of run {run} is about {what}, which no earlier event created")]
    Unknown {
        /// The run.
        run: RunId,
        /// The event.
        seq: u64,
        /// The node or step.
        what: String,
    },
    /// The log was begun by a newer program.
    #[error(
        "run {run} was begun with schema version {schema} and behaviour version {behaviour}; update this program"
    )]
    Version {
        /// The run.
        run: RunId,
        /// Version of the event contract.
        schema: u32,
        /// Version of the engine's behaviour.
        behaviour: u32,
    },
    /// The event belongs to another run.
    #[error("an event of run {found} was applied to run {run}")]
    OtherRun {
        /// The run.
        run: RunId,
        /// The event's run.
        found: RunId,
    },
}

impl ReplayError {
    /// True if a newer program wrote the log and can go on with it. Nothing is wrong with the run.
    pub fn is_newer(&self) -> bool {
        matches!(self, Self::Version { .. })
    }
}

/// Hashes an id to its last eight bytes. Node ids are derived by SHA-1 within this project, so they need no mixing and
/// nobody can choose them to collide.
#[derive(Clone, Copy, Debug, Default)]
struct IdHasher(u64);

type BuildIdHasher = BuildHasherDefault<IdHasher>;

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(last) = bytes.last_chunk() {
            self.0 = u64::from_le_bytes(*last);
        }
    }

    fn write_usize(&mut self, _length: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The tree of one run. Nodes are in order of creation, so a child always comes after its parent.
#[derive(Clone, Debug)]
pub struct Graph {
    run_id: RunId,
    seq: u64,
    /// An event of an unknown type may have changed anything.
    unsure: bool,
    status: RunStatus,
    partial: bool,
    started_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    error: Option<String>,
    /// When the run, which waits for a quota, goes on by itself.
    goes_on_at: Option<Timestamp>,
    /// What was used before the run was forked, which the fork does not count as its own.
    before_fork: Usage,
    /// The models that answered in the run, the latest last.
    models: Vec<String>,
    /// Of nodes that were reopened or were open at a fork: since when their use counts, and what it was then.
    counted_from: HashMap<usize, (Timestamp, Usage)>,
    nodes: Vec<GraphNode>,
    /// How many of them have ended.
    ended_nodes: u64,
    index: HashMap<NodeId, usize, BuildIdHasher>,
}

impl Graph {
    /// The graph of an empty log.
    pub fn new(run_id: RunId) -> Self {
        Self {
            run_id,
            seq: 0,
            unsure: false,
            status: RunStatus::Queued,
            partial: false,
            started_at: None,
            ended_at: None,
            error: None,
            goes_on_at: None,
            before_fork: Usage::default(),
            models: Vec::new(),
            counted_from: HashMap::new(),
            nodes: Vec::new(),
            ended_nodes: 0,
            index: HashMap::default(),
        }
    }

    /// A graph that continues from a snapshot. It does not know when the run started and ended.
    pub fn from_snapshot(snapshot: GraphSnapshot) -> Self {
        let index = snapshot.nodes.iter().enumerate().map(|(i, n)| (n.id, i)).collect();
        Self {
            seq: snapshot.seq,
            // Whoever made the snapshot may not have known every event.
            unsure: true,
            status: snapshot.status,
            partial: snapshot.partial,
            goes_on_at: snapshot.goes_on_at,
            models: models::of(&snapshot.nodes),
            ended_nodes: snapshot.nodes.iter().filter(|node| node.status.is_final()).count() as u64,
            nodes: snapshot.nodes,
            index,
            ..Self::new(snapshot.run_id)
        }
    }

    /// The run.
    pub fn run_id(&self) -> RunId {
        self.run_id
    }

    /// The last event that was applied; 0 for none.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The status of the run.
    pub fn status(&self) -> RunStatus {
        self.status
    }

    /// True if the run ended as partial.
    pub fn partial(&self) -> bool {
        self.partial
    }

    /// When a driver first took the run up.
    pub fn started_at(&self) -> Option<Timestamp> {
        self.started_at
    }

    /// When the run, which waits for the quota of its provider, goes on by itself.
    pub fn goes_on_at(&self) -> Option<Timestamp> {
        self.goes_on_at
    }

    /// When the run ended.
    pub fn ended_at(&self) -> Option<Timestamp> {
        self.ended_at
    }

    /// Why the run failed.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Every node in order of creation, the root first.
    pub fn nodes(&self) -> &[GraphNode] {
        &self.nodes
    }

    /// One node.
    pub fn node(&self, id: NodeId) -> Option<&GraphNode> {
        self.index.get(&id).map(|&i| &self.nodes[i])
    }

    /// Index of a node in [`Graph::nodes`].
    pub fn position(&self, id: NodeId) -> Option<usize> {
        self.index.get(&id).copied()
    }

    /// A copy for the wire or for printing.
    pub fn snapshot(&self) -> GraphSnapshot {
        GraphSnapshot {
            run_id: self.run_id,
            seq: self.seq,
            status: self.status,
            partial: self.partial,
            goes_on_at: self.goes_on_at,
            nodes: self.nodes.clone(),
        }
    }

    /// Applies the next event. If it returns an error, nothing has changed.
    ///
    /// An event of an unknown type changes nothing. Events after it that are about unknown things do not either: it may
    /// have created them.
    pub fn apply(&mut self, event: &Event) -> Result<(), ReplayError> {
        if event.run_id != self.run_id {
            return Err(ReplayError::OtherRun { run: self.run_id, found: event.run_id });
        }
        if event.seq != self.seq + 1 {
            return Err(ReplayError::Gap { run: self.run_id, head: self.seq, found: event.seq });
        }
        match self.apply_body(event) {
            Err(ReplayError::Unknown { .. }) if self.unsure => {}
            applied => applied?,
        }
        self.seq = event.seq;
        Ok(())
    }

    fn apply_body(&mut self, event: &Event) -> Result<(), ReplayError> {
        match &event.body {
            EventBody::RunCreated(_) => return Ok(()),
            EventBody::RunStatusChanged(e) => {
                self.status = e.status;
                self.partial |= e.partial;
                self.error = e.error();
                self.goes_on_at = e.goes_on_at;
                if e.status == RunStatus::Running {
                    self.started_at.get_or_insert(event.timestamp);
                } else if e.status.is_final() {
                    self.ended_at = Some(event.timestamp);
                }
                return Ok(());
            }
            EventBody::NodeCreated(e) => {
                self.index.insert(event.node_id, self.nodes.len());
                grow_gently(&mut self.nodes);
                self.nodes.push(GraphNode {
                    id: event.node_id,
                    parent_id: event.parent_node_id,
                    title: e.title.clone(),
                    reason: e.reason.clone(),
                    success_criteria: e.success_criteria.clone(),
                    status: NodeStatus::Waiting,
                    role: Role::Planner,
                    depth: e.depth,
                    band_index: e.band_index,
                    step_index: e.step_index,
                    step_id: e.step_id.clone(),
                    message: None,
                    decisions: Vec::new(),
                    progress: None,
                    outcome: None,
                    error: None,
                    scratchpad_doc_id: None,
                    scratchpad_tail: None,
                    last_tool: None,
                    plan: None,
                    result: None,
                    artifacts: Vec::new(),
                    verification: None,
                    review: None,
                    written_by: Vec::new(),
                    usage: Sparse::default(),
                    subtree_usage: Sparse::default(),
                    strategy: e.strategy,
                    topic: is_topic(e)
                        .then(|| Box::new(GraphTopic { score: e.score, ..GraphTopic::default() })),
                    task: task(e),
                    paused: false,
                    stopped: false,
                    generation: 0,
                    lease: self.lease_of_step(event.parent_node_id, e),
                    created_at: event.timestamp,
                    started_at: None,
                    ended_at: None,
                });
                return Ok(());
            }
            EventBody::Opaque(_) => {
                self.unsure = true;
                return Ok(());
            }
            EventBody::RunForked(e) => {
                self.forked(e, event.timestamp);
                return Ok(());
            }
            // The budget of the run.
            EventBody::BudgetExhausted(_) if event.parent_node_id.is_none() => return Ok(()),
            _ => {}
        }
        let unknown = |what: String| ReplayError::Unknown { run: event.run_id, seq: event.seq, what };
        let at = *self.index.get(&event.node_id).ok_or_else(|| unknown(format!("node {}", event.node_id)))?;
        let node = &mut self.nodes[at];
        match &event.body {
            EventBody::NodeStatusChanged(e) => {
                turn(node, &mut self.ended_nodes, e.status);
                node.role = e.role;
                node.message = e.message.clone();
                if let Some(why) = &e.why {
                    decide(node, why.clone());
                }
                node.progress = e.progress;
                count_steps(node);
                if e.status.is_final() {
                    end(node, event.timestamp);
                } else if node.started_at.is_none() && e.status != NodeStatus::Waiting {
                    node.started_at = Some(event.timestamp);
                }
                if !matches!(e.status, NodeStatus::Waiting) && !e.status.is_final() {
                    self.begin_lease(at, event.timestamp);
                }
            }
            EventBody::NodeCompleted(e) => {
                turn(node, &mut self.ended_nodes, NodeStatus::Completed);
                node.outcome = Some(e.outcome);
                node.message = None;
                end(node, event.timestamp);
            }
            EventBody::NodeFailed(e) => {
                turn(node, &mut self.ended_nodes, NodeStatus::Failed);
                node.error = Some(e.error.clone());
                node.message = None;
                end(node, event.timestamp);
            }
            EventBody::PlanCreated(e) => {
                node.plan = Some(Box::new(GraphPlan {
                    plan_id: e.plan_id,
                    version: e.version,
                    iteration: e.iteration,
                    summary: e.summary.clone().unwrap_or_default(),
                    bands: Vec::new(),
                }));
            }
            EventBody::PlanBandCreated(e) => {
                let plan = node.plan.as_mut().ok_or_else(|| unknown(format!("plan {}", e.plan_id)))?;
                plan.bands.push(GraphBand {
                    index: e.band_index,
                    goal: e.goal.clone(),
                    parallelizable: e.parallelizable,
                    steps: Vec::with_capacity(e.step_ids.len()),
                });
            }
            EventBody::StepCreated(e) => {
                let band = node.plan.as_mut().and_then(|p| p.bands.get_mut(e.band_index as usize));
                let band = band.ok_or_else(|| unknown(format!("band {}", e.band_index)))?;
                band.steps.push(GraphStep {
                    step_id: e.step_id.clone(),
                    title: e.title.clone(),
                    reason: e.reason.clone(),
                    success_criteria: e.success_criteria.clone(),
                    strategy: e.strategy,
                    search: e.search,
                    branch_id: e.branch_id.clone(),
                    budget: e.budget,
                    deliverable: e.deliverable,
                    profile: e.profile,
                    status: StepStatus::Pending,
                    node_id: None,
                });
                count_steps(node);
            }
            EventBody::StepStatusChanged(e) => {
                let step =
                    step_mut(node, &e.step_id).ok_or_else(|| unknown(format!("step {}", e.step_id)))?;
                step.status = e.status;
                let child = step.node_id.filter(|_| e.status == StepStatus::Running);
                count_steps(node);
                if let Some(child) = child.and_then(|id| self.position(id)) {
                    self.begin_lease(child, event.timestamp);
                }
            }
            EventBody::NodeDelegated(e) => {
                let step =
                    step_mut(node, &e.step_id).ok_or_else(|| unknown(format!("step {}", e.step_id)))?;
                step.node_id = Some(e.child_node_id);
            }
            EventBody::ScratchpadLinked(e) => node.scratchpad_doc_id = Some(e.scratchpad_doc_id),
            EventBody::ScratchpadUpdated(e) => node.scratchpad_tail = Some(e.tail_preview.clone()),
            EventBody::ArtifactCreated(e) => node.artifacts.push(GraphArtifact {
                artifact_id: e.artifact_id,
                artifact_type: e.artifact_type,
                document_id: e.document_id,
                label: e.label.clone().unwrap_or_default(),
                title: e.title.clone().unwrap_or_default(),
                is_primary: e.is_primary,
                json_payload: e.json_payload.clone(),
                citations: None,
            }),
            EventBody::ArtifactCited(e) => {
                let artifact = node.artifacts.iter_mut().rfind(|one| one.artifact_id == e.artifact_id);
                let artifact = artifact.ok_or_else(|| unknown(format!("artifact {}", e.artifact_id)))?;
                artifact.citations.get_or_insert_default().add(&e.counts);
            }
            EventBody::NodeResult(e) => {
                node.result = Some(Box::new(e.result.clone()));
                node.verification = None;
            }
            EventBody::AnswerVerified(e) => node.verification = Some(Box::new(e.verification.clone())),
            EventBody::UsageRecorded(e) => {
                models::wrote(node, e);
                models::answered(&mut self.models, e);
                self.add_usage(at, Usage::of(e));
            }
            EventBody::ToolCallRequested(e) => {
                node.last_tool = Some(Box::new(ToolActivity {
                    call_id: e.call_id.clone(),
                    tool_name: e.tool_name.clone(),
                    ok: None,
                }));
                if !e.cached {
                    self.add_usage(at, Usage::tool_call());
                }
            }
            EventBody::ToolCallResult(e) => {
                node.last_tool = Some(Box::new(ToolActivity {
                    call_id: e.call_id.clone(),
                    tool_name: e.tool_name.clone(),
                    ok: Some(e.ok),
                }));
            }
            // An event of the root of the search about one of its topics.
            EventBody::LeafPicked(e) => {
                let at = *self
                    .index
                    .get(&e.leaf_node_id)
                    .ok_or_else(|| unknown(format!("leaf {}", e.leaf_node_id)))?;
                self.nodes[at].topic.get_or_insert_default().picked = Some(e.clone());
            }
            EventBody::SessionForked(e) => {
                node.topic.get_or_insert_default().session_id = Some(e.session_id.clone());
            }
            EventBody::NodePaused(_) => node.paused = true,
            EventBody::NodeResumed(_) => (node.paused, node.review) = (false, None),
            EventBody::ReviewRequested(e) => node.review = Some(Box::new(e.review.clone())),
            EventBody::NodeStopped(_) => node.stopped = true,
            EventBody::NodeReopened(e) => {
                let had_ended = node.status.is_final();
                reopen(node, &mut self.ended_nodes, e);
                if had_ended {
                    self.lease_anew(at, e, event.timestamp);
                }
            }
            EventBody::BudgetSet(e) if at > 0 => {
                if e.clamped {
                    decide(node, "guard:lease".to_owned());
                }
                self.lease_set(at, e);
            }
            EventBody::BudgetExhausted(e) => self.lease_exhausted(at, &e.budget),
            EventBody::NodeSkipped(e) => node.topic.get_or_insert_default().skipped = Some(e.clone()),
            EventBody::RunCreated(_)
            | EventBody::RunStatusChanged(_)
            | EventBody::NodeCreated(_)
            | EventBody::LeaseCovered(_)
            | EventBody::RunForked(_)
            | EventBody::Opaque(_)
            | EventBody::ParentHint(_)
            | EventBody::NodeAggregated(_)
            | EventBody::ReplanRequested(_)
            | EventBody::GuidanceAdded(_)
            | EventBody::PlanEdited(_)
            | EventBody::CallStopped(_)
            | EventBody::BudgetSet(_)
            | EventBody::RollupUpdated(_)
            | EventBody::PlanDocumentUpdated(_)
            | EventBody::TaskRefused(_) => {}
        }
        Ok(())
    }

    /// Adds to the node's own sums and to those of every subtree that contains it. The cost grows with its depth.
    fn add_usage(&mut self, at: usize, usage: Usage) {
        let node = &mut self.nodes[at];
        node.usage.set(node.usage.get().plus(usage));
        let mut above = Some(at);
        while let Some(at) = above {
            let node = &mut self.nodes[at];
            node.subtree_usage.set(node.subtree_usage.get().plus(usage));
            above = node.parent_id.and_then(|id| self.index.get(&id).copied());
        }
    }

    /// Sums over every role call that the run made itself. The sums of nodes count those before a fork, too.
    pub fn usage(&self) -> Usage {
        self.whole_usage().minus(self.before_fork)
    }

    fn whole_usage(&self) -> Usage {
        self.nodes.first().map(|root| root.subtree_usage.get()).unwrap_or_default()
    }

    /// The run is a fork from here on: its clock and its accounts begin now. All else is as it was.
    fn forked(&mut self, e: &RunForked, now: Timestamp) {
        self.before_fork = self.whole_usage();
        self.models.clear();
        self.started_at = self.started_at.map(|_| now);
        self.ended_at = self.ended_at.map(|_| now);
        if e.goes_on {
            (self.status, self.partial, self.error, self.ended_at) = (RunStatus::Running, false, None, None);
        }
        self.fork_leases(now);
    }
}

impl GraphView for Graph {
    fn status(&self) -> RunStatus {
        self.status
    }

    fn partial(&self) -> bool {
        self.partial
    }

    fn node_count(&self) -> u64 {
        self.nodes.len() as u64
    }

    fn ended_nodes(&self) -> u64 {
        self.ended_nodes
    }

    fn usage(&self) -> Usage {
        self.usage()
    }

    fn models(&self) -> &[String] {
        &self.models
    }

    fn started_at(&self) -> Option<Timestamp> {
        self.started_at
    }

    fn ended_at(&self) -> Option<Timestamp> {
        self.ended_at
    }

    fn error(&self) -> Option<&str> {
        self.error()
    }

    fn node(&self, id: NodeId) -> Option<&GraphNode> {
        self.node(id)
    }
}

/// Grows the capacity by a quarter instead of doubling it. Drivers hold many trees of about a hundred nodes, and
/// doubling would reserve up to half of their memory for nodes that never come.
pub(crate) fn grow_gently<T>(items: &mut Vec<T>) {
    if items.len() == items.capacity() {
        items.reserve_exact((items.len() / 4).max(8));
    }
}
