//! The state of a run: the graph that users see, and what decisions need in addition.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use serde::Serialize;
use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::{RunId, RunSpec, RunStatus, Sparse, StepId, Timestamp};

use crate::blocked::Waiting;
use crate::budget::{Amounts, Ledger};
use crate::call::{CallKey, CallKind, RoleCall};
use crate::decide::Input;
use crate::graph::{Graph, ReplayError};
use crate::held::CHANGES;

/// One run, as a fold of its log.
#[derive(Clone, Debug)]
pub struct Run {
    pub(crate) graph: Graph,
    /// One for each node of the graph, by index.
    pub(crate) control: Vec<Control>,
    pub(crate) spec: RunSpec,
    pub(crate) started_at: Option<Timestamp>,
    /// Nodes that exist or are planned. The node budget is checked against this number.
    pub(crate) planned_nodes: u32,
    /// The exhausted budget.
    pub(crate) exhausted: Option<String>,
    pub(crate) exhausted_at: Option<Timestamp>,
    /// The needs of calls so far.
    pub(crate) ledger: Ledger,
    /// What nodes waited for.
    pub(crate) waiting: Waiting,

    // The fields below are not in the log. They are lost with the driver and rebuilt by its successor.
    pub(crate) in_flight: HashMap<usize, CallInFlight>,
    /// Nodes that need a call which is not in flight.
    pub(crate) ready: BTreeSet<usize>,
    /// Nodes whose role service could not be reached: how often in a row, and when to retry.
    pub(crate) unreachable: HashMap<usize, (u32, Timestamp)>,
    /// The call that last wrote to a node's scratchpad while it was at work.
    pub(crate) writing: HashMap<usize, CallKey>,
    /// Updates of calls in flight that could not be handled yet, by node, in order.
    pub(crate) held: BTreeMap<usize, VecDeque<Input>>,
    /// The wall clock ran out, and leaf work in flight was stopped.
    pub(crate) overtime: bool,
    stale: u64,
    /// When the due calls were last taken. Calls that were ready then and were not made did not fit the budgets.
    asked_at: Option<Timestamp>,
}

/// A call in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallInFlight {
    pub(crate) key: CallKey,
    /// What it may use.
    pub(crate) allotted: Amounts,
    /// Use of this attempt in the log before the call was made, by a previous driver that made it before.
    before: Amounts,
}

impl CallInFlight {
    /// What the call may still use.
    pub(crate) fn left(&self, spent: Amounts) -> Amounts {
        std::array::from_fn(|m| self.allotted[m].saturating_sub(spent[m].saturating_sub(self.before[m])))
    }
}

/// What decisions about one node need in addition to its [`GraphNode`](tree_agent_contract::graph::GraphNode).
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Control {
    pub(crate) parent: Option<usize>,
    /// Data that only nodes with a plan have. It is boxed because most nodes have no plan and a driver holds many.
    pub(crate) planned_children: Option<Box<PlannedChildren>>,
    /// Version of the parent's plan that this node came from.
    pub(crate) born_version: u32,
    /// Version of the node's own latest plan; 0 for none.
    pub(crate) plan_version: u32,
    pub(crate) replans: u32,
    /// The current band of the latest plan.
    pub(crate) band: Option<u32>,
    /// The role call that the node needs next.
    pub(crate) needs: Option<CallKind>,
    /// Attempt number of that call; 0 while none is needed.
    pub(crate) attempt: u32,
    /// When the next attempt may begin.
    pub(crate) retry_at: Option<Timestamp>,
    /// A guard removed work, so the result will be partial.
    pub(crate) cut: bool,
    /// What parents and later siblings see of the node's artifacts, in addition to the graph.
    pub(crate) shown: Vec<ArtifactSummary>,
    /// What the role call that the node needs next has used so far.
    pub(crate) spent: Amounts,
    /// The node has a plan and has not ended, so it still needs an aggregator.
    pub(crate) owes: bool,
    /// The times of the last changes of its scratchpad, the latest last.
    pub(crate) written: Sparse<[Option<Timestamp>; CHANGES]>,
}

/// The children and steps of a node's plans.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct PlannedChildren {
    /// The children of all plans, in order of creation.
    pub(crate) children: Vec<usize>,
    /// The latest child of each step of all plans, in order of creation.
    pub(crate) steps: Vec<(StepId, usize)>,
    pub(crate) replan_reason: Option<String>,
}

static CHILDLESS: PlannedChildren =
    PlannedChildren { children: Vec::new(), steps: Vec::new(), replan_reason: None };

/// What roles learn about an artifact in addition to the graph.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ArtifactSummary {
    pub(crate) id: tree_agent_contract::ArtifactId,
    pub(crate) snippet: Option<String>,
    /// Its node hinted the parent to read it.
    pub(crate) hinted: bool,
}

impl Control {
    pub(crate) fn planned_children(&self) -> &PlannedChildren {
        self.planned_children.as_deref().unwrap_or(&CHILDLESS)
    }

    pub(crate) fn planned_children_mut(&mut self) -> &mut PlannedChildren {
        self.planned_children.get_or_insert_default()
    }

    /// Distinguishes the calls of a node for different plans or after different results.
    fn round(&self) -> u32 {
        self.plan_version + self.replans
    }
}

/// All state that comes from the log, for comparison.
#[derive(Serialize)]
struct State<'a> {
    graph: tree_agent_contract::graph::GraphSnapshot,
    control: &'a [Control],
    spec: &'a RunSpec,
    started_at: Option<Timestamp>,
    planned_nodes: u32,
    exhausted: &'a Option<String>,
    ledger: &'a Ledger,
    waiting: &'a Waiting,
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
        let EventBody::RunCreated(created) = &first.body else {
            return Err(ReplayError::Unknown { run: first.run_id, seq: first.seq, what: "the run".into() });
        };
        let mut graph = Graph::new(first.run_id);
        graph.apply(first)?;
        Ok(Self {
            graph,
            control: Vec::new(),
            spec: created.spec.clone(),
            started_at: None,
            planned_nodes: 1,
            exhausted: None,
            exhausted_at: None,
            ledger: Ledger::default(),
            waiting: Waiting::default(),
            in_flight: HashMap::new(),
            ready: BTreeSet::new(),
            unreachable: HashMap::new(),
            writing: HashMap::new(),
            held: BTreeMap::new(),
            overtime: false,
            stale: 0,
            asked_at: None,
        })
    }

    /// The graph that users see.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The specification of the run.
    pub fn spec(&self) -> &RunSpec {
        &self.spec
    }

    /// The exhausted budget, if there is one.
    pub fn exhausted_budget(&self) -> Option<&str> {
        self.exhausted.as_deref()
    }

    /// True if the run has ended.
    pub fn is_final(&self) -> bool {
        self.graph.status().is_final()
    }

    /// Answers that were ignored because their call was not in flight, since this was last called.
    pub fn take_stale(&mut self) -> u64 {
        std::mem::take(&mut self.stale)
    }

    /// True while the call is in flight.
    pub fn is_in_flight(&self, key: &CallKey) -> bool {
        self.graph.position(key.node_id).and_then(|at| self.in_flight.get(&at)).is_some_and(|f| f.key == *key)
    }

    /// The state as bytes. Two runs with the same log have the same bytes. Calls in flight are not part of them.
    pub fn to_bytes(&self) -> Vec<u8> {
        let state = State {
            graph: self.graph.snapshot(),
            control: &self.control,
            spec: &self.spec,
            started_at: self.started_at,
            planned_nodes: self.planned_nodes,
            exhausted: &self.exhausted,
            ledger: &self.ledger,
            waiting: &self.waiting,
        };
        serde_json::to_vec(&state).unwrap_or_else(|e| unreachable!("the state always has a JSON form: {e}"))
    }

    /// The role calls to make now, at most `limit`. They count as in flight from here on. A paused or ended run has
    /// none.
    pub fn take_due(&mut self, now: Timestamp, limit: usize) -> Vec<RoleCall> {
        if self.graph.status() != RunStatus::Running {
            return Vec::new();
        }
        let due: Vec<usize> =
            self.ready.iter().copied().filter(|&at| self.ready_at(at).is_none_or(|t| t <= now)).collect();
        let mut free_budget = self.free_budget(due.len());
        let mut calls = Vec::new();
        for at in due {
            if calls.len() == limit {
                return calls;
            }
            let Some(kind) = self.control[at].needs else { continue };
            if let Some(allotted) = free_budget.allot(self, at, kind) {
                calls.push(self.begin_call(at, kind, allotted, now));
            }
        }
        self.asked_at = Some(now);
        calls
    }

    fn begin_call(&mut self, at: usize, kind: CallKind, allotted: Amounts, now: Timestamp) -> RoleCall {
        let control = &self.control[at];
        let attempt = control.attempt.max(1);
        let key = CallKey { node_id: self.graph.nodes()[at].id, kind, round: control.round(), attempt };
        self.ready.remove(&at);
        self.in_flight.insert(at, CallInFlight { key, allotted, before: control.spent });
        let left = self.deadlines().map_or(u64::MAX, |(_, last)| last.millis_since(now));
        let timeout_ms = self.spec.budgets.call_timeout_ms.min(left.max(1));
        RoleCall { key, input: self.call_input(at, kind, attempt, allotted, now), timeout_ms }
    }

    /// When [`Run::take_due`] or [`Input::Tick`](crate::Input::Tick) may next have something to do if nothing else
    /// happens; none if the run has ended.
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        if self.is_final() {
            return None;
        }
        let times = self.ready.iter().filter_map(|&at| self.ready_at(at));
        let retries = times.filter(|t| self.asked_at.is_none_or(|asked| *t > asked)).min();
        let deadline = self.deadlines().map(|(end, last)| if self.overtime { last } else { end });
        retries.into_iter().chain(deadline).chain(self.next_held()).min()
    }

    fn ready_at(&self, at: usize) -> Option<Timestamp> {
        let unreachable = self.unreachable.get(&at).map(|&(_, until)| until);
        self.control[at].retry_at.max(unreachable)
    }

    /// The index of the node of call `key`, if that call is in flight. Otherwise counts a stale answer.
    pub(crate) fn in_flight_at(&mut self, key: &CallKey) -> Option<usize> {
        let at = self
            .graph
            .position(key.node_id)
            .filter(|at| self.in_flight.get(at).is_some_and(|f| f.key == *key));
        self.stale += u64::from(at.is_none());
        at
    }
}
