//! Role calls: which are due, their inputs and their outputs.

use tree_agent_contract::role::*;
use tree_agent_contract::{Allowance, NodeId, NodeStatus, Outcome, Timestamp};

use crate::budget::Amounts;
use crate::run::Run;

/// Which role is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum CallKind {
    /// The planner.
    Plan,
    /// The executor.
    Execute,
    /// The aggregator.
    Aggregate,
}

/// Identifies one role call of a run. An answer whose key is not in flight is stale and is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallKey {
    /// The node.
    pub node_id: NodeId,
    /// The role.
    pub kind: CallKind,
    /// Grows with every plan and with every request for another plan.
    pub round: u32,
    /// 1 for the first attempt.
    pub attempt: u32,
}

/// A role call to be made now.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleCall {
    /// Its key.
    pub key: CallKey,
    /// The input of the role.
    pub input: CallInput,
    /// Its time limit in milliseconds.
    pub timeout_ms: u64,
}

/// The input of a role.
#[derive(Clone, Debug, PartialEq)]
pub enum CallInput {
    /// For the planner.
    Plan(Box<PlanInput>),
    /// For the executor.
    Execute(Box<ExecuteInput>),
    /// For the aggregator.
    Aggregate(Box<AggregateInput>),
}

/// The output of a role.
#[derive(Clone, Debug, PartialEq)]
pub enum CallOutput {
    /// The planner.
    Plan(PlannerOutput),
    /// The executor.
    Execute(ExecutorOutput),
    /// The aggregator.
    Aggregate(AggregatorOutput),
}

impl CallOutput {
    /// The role that answered.
    pub fn kind(&self) -> CallKind {
        match self {
            CallOutput::Plan(_) => CallKind::Plan,
            CallOutput::Execute(_) => CallKind::Execute,
            CallOutput::Aggregate(_) => CallKind::Aggregate,
        }
    }
}

impl Run {
    /// The input of the call for the node at `at`, assembled from the state alone.
    pub(crate) fn call_input(
        &self,
        at: usize,
        kind: CallKind,
        attempt: u32,
        allotted: Amounts,
        now: Timestamp,
    ) -> CallInput {
        let mut call = self.call_context(at, attempt);
        call.allowance = self.allowance(allotted);
        call.finish = self.finish(kind, now);
        match kind {
            CallKind::Plan => CallInput::Plan(Box::new(PlanInput {
                call,
                existing_plan_summary: self.plan_summary(at),
                replan_reason: self.control[at].planned_children().replan_reason.clone().unwrap_or_default(),
                prior_steps: self.prior_steps(at),
            })),
            CallKind::Execute => {
                CallInput::Execute(Box::new(ExecuteInput { call, earlier: self.earlier_outcomes(at) }))
            }
            CallKind::Aggregate => CallInput::Aggregate(Box::new(AggregateInput {
                call,
                plan_summary: self.plan_summary(at),
                children: self.latest_children(at).map(|c| self.child_outcome(c)).collect(),
                exhausted_budget: self.exhausted.clone(),
            })),
        }
    }

    fn call_context(&self, at: usize, attempt: u32) -> CallContext {
        let node = &self.graph.nodes()[at];
        let sibling_index = self.control[at].parent.map_or(0, |p| {
            self.control[p].planned_children().children.iter().position(|&c| c == at).unwrap_or_default()
                as u32
        });
        CallContext {
            run_id: self.graph.run_id(),
            node_id: node.id,
            attempt,
            objective: self.spec.objective.clone(),
            title: node.title.clone(),
            reason: node.reason.clone(),
            success_criteria: node.success_criteria.clone(),
            depth: node.depth,
            budgets: self.spec.budgets.clone(),
            context: self.spec.context.clone(),
            model: self.spec.model.clone(),
            scratchpad_tail: node.scratchpad_tail.clone().unwrap_or_default(),
            sibling_index,
            allowance: Allowance::default(),
            finish: None,
        }
    }

    fn plan_summary(&self, at: usize) -> String {
        self.graph.nodes()[at].plan.as_ref().map(|p| p.summary.clone()).unwrap_or_default()
    }

    /// Every step of every plan of the node, with its outcome.
    pub(crate) fn prior_steps(&self, at: usize) -> Vec<PriorStep> {
        let step = |&(ref id, child): &(tree_agent_contract::StepId, usize)| {
            let node = &self.graph.nodes()[child];
            let summary = node.result.as_ref().map(|r| r.summary.clone()).or_else(|| node.error.clone());
            PriorStep {
                id: id.clone(),
                title: node.title.clone(),
                status: crate::tree::step_status(node.status),
                summary: summary.unwrap_or_default(),
            }
        };
        self.control[at].planned_children().steps.iter().map(step).collect()
    }

    /// The results that an executor may use: those of siblings in earlier bands, and of its own children if it planned
    /// before.
    fn earlier_outcomes(&self, at: usize) -> Vec<ChildOutcome> {
        let own = self.control[at].planned_children().children.iter().copied();
        let band = self.graph.nodes()[at].band_index;
        let siblings = self.control[at]
            .parent
            .map(|p| self.control[p].planned_children().children.as_slice())
            .unwrap_or_default();
        let before = siblings.iter().copied().take_while(|&s| s < at).filter(|&s| {
            let sibling = &self.graph.nodes()[s];
            sibling.band_index < band || self.control[s].born_version < self.control[at].born_version
        });
        before
            .chain(own)
            .filter(|&s| self.graph.nodes()[s].status.is_final())
            .map(|s| self.child_outcome(s))
            .collect()
    }

    /// For each step of all plans, the child that carried it out last.
    pub(crate) fn latest_children(&self, at: usize) -> impl Iterator<Item = usize> {
        self.control[at].planned_children().steps.iter().map(|&(_, child)| child)
    }

    pub(crate) fn child_outcome(&self, at: usize) -> ChildOutcome {
        let node = &self.graph.nodes()[at];
        ChildOutcome {
            node_id: node.id,
            step_id: node.step_id.clone().unwrap_or_else(|| tree_agent_contract::StepId::new("")),
            title: node.title.clone(),
            status: node.status,
            partial: node.outcome == Some(Outcome::Partial),
            result: node.result.as_deref().cloned(),
            error: match node.status {
                NodeStatus::Cancelled => node.message.clone(),
                _ => node.error.clone(),
            },
            artifacts: node
                .artifacts
                .iter()
                .map(|a| {
                    let shown = self.control[at].shown.iter().find(|s| s.id == a.artifact_id);
                    ArtifactRef {
                        label: a.label.clone(),
                        title: a.title.clone(),
                        document_id: a.document_id,
                        is_primary: a.is_primary,
                        snippet: shown.and_then(|s| s.snippet.clone()),
                        hinted: shown.is_some_and(|s| s.hinted),
                    }
                })
                .collect(),
        }
    }
}
