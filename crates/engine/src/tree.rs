//! The `tree` strategy: execute or plan; bands one after the other, steps of a band side by side; aggregate; replan.
//!
//! | status | input | next status |
//! | --- | --- | --- |
//! | (created) | a free place in its band | `planning`; `executing` at the depth limit |
//! | `planning` | planner: execute | `executing` (`leaf_decision:direct`) |
//! | `planning` | planner: plan | `delegating`, then `waiting` for the first band |
//! | `executing` | executor: result | `completed` |
//! | `waiting` | last step of a band ended | next band, or `aggregating` |
//! | `aggregating` | aggregator: result | `completed` |
//! | `aggregating` | aggregator: replan, within budget | `planning` |
//! | any of these | failure, attempts left | `waiting` with the next attempt number |
//! | any of these | failure, no attempts left | `failed` (an aggregator's: `completed`, partial) |
//! | any of these | cancelled, or out of budget | `cancelled` |

use tree_agent_contract::document::DocumentOp;
use tree_agent_contract::event::*;
use tree_agent_contract::limits;
use tree_agent_contract::role::{AggregatorOutput, ExecutorOutput, PlanDraft, PlannerMode, PlannerOutput};
use tree_agent_contract::text::prefix;
use tree_agent_contract::{DocumentId, NodeId, NodeStatus, PlanId, StepId, StepStatus};

use crate::decide::Decider;
use crate::run::Run;
use crate::start::scratchpad;

/// The status of a step whose node has `status`.
pub(crate) fn step_status(status: NodeStatus) -> StepStatus {
    match status {
        NodeStatus::Completed => StepStatus::Completed,
        NodeStatus::Failed => StepStatus::Failed,
        NodeStatus::Cancelled => StepStatus::Cancelled,
        _ => StepStatus::Running,
    }
}

impl Run {
    /// The child of an earlier plan that already completed `step`. Finished work is not repeated.
    pub(crate) fn reusable_child(&self, at: usize, step: &StepId) -> Option<usize> {
        let child = self.control[at]
            .planned_children()
            .steps
            .iter()
            .find(|(id, _)| id == step)
            .map(|&(_, child)| child)?;
        (self.graph.nodes()[child].status == NodeStatus::Completed).then_some(child)
    }
}

impl Decider<'_> {
    /// Starts the first work of a node.
    pub(crate) fn start_node(&mut self, at: usize) {
        if self.run.exhausted.is_some() {
            return self.cancel_node(at);
        }
        if self.run.graph.nodes()[at].depth >= self.run.spec.budgets.max_depth {
            self.status(at, NodeStatus::Executing, Some("guard:maxDepth".into()));
        } else {
            self.status(at, NodeStatus::Planning, None);
        }
    }

    pub(crate) fn on_planned(&mut self, at: usize, out: PlannerOutput) {
        self.append_scratchpad(at, &out.scratchpad.append_markdown);
        if self.run.exhausted.is_some() {
            return self.cancel_node(at);
        }
        match (out.mode, out.plan) {
            (PlannerMode::Plan, Some(plan)) => self.delegate(at, plan, out.mode_reason),
            _ => self.status(at, NodeStatus::Executing, Some("leaf_decision:direct".into())),
        }
    }

    /// Writes the plan, cut to the run's limits, and opens its first band.
    fn delegate(&mut self, at: usize, mut plan: PlanDraft, mode_reason: String) {
        let guards = self.clamp(at, &mut plan);
        if plan.bands.is_empty() {
            let guard = guards.into_iter().next_back().unwrap_or("guard:maxNodes");
            return self.status(at, NodeStatus::Executing, Some(guard.into()));
        }
        let version = self.run.control[at].plan_version + 1;
        let plan_id = PlanId::of(self.run.graph.nodes()[at].id, version);
        self.emit(
            at,
            PlanCreated { plan_id, version, summary: Some(plan.summary), mode_reason: Some(mode_reason) },
        );
        for (band_index, band) in (0..).zip(&plan.bands) {
            self.emit(
                at,
                PlanBandCreated {
                    plan_id,
                    band_index,
                    step_ids: band.steps.iter().map(|s| s.id.clone()).collect(),
                    goal: band.goal.clone(),
                    parallelizable: band.parallelizable,
                },
            );
        }
        for (band_index, band) in (0..).zip(plan.bands) {
            for (step_index, step) in (0..).zip(band.steps) {
                self.emit(
                    at,
                    StepCreated {
                        step_id: step.id,
                        band_index,
                        step_index,
                        title: step.title,
                        reason: step.reason,
                        success_criteria: step.success_criteria,
                    },
                );
            }
        }
        for guard in guards {
            self.status(at, NodeStatus::Delegating, Some(guard.into()));
        }
        self.status(at, NodeStatus::Delegating, None);
        self.open_band(at, 0);
    }

    /// Cuts the plan to the run's limits and returns the names of the guards that did so.
    fn clamp(&self, at: usize, plan: &mut PlanDraft) -> Vec<&'static str> {
        let budgets = &self.run.spec.budgets;
        let mut guards = Vec::new();
        let mut guard = |tripped: bool, name| {
            if tripped && !guards.contains(&name) {
                guards.push(name);
            }
        };
        guard(plan.bands.len() > budgets.max_bands_per_plan as usize, "guard:maxBandsPerPlan");
        plan.bands.truncate(budgets.max_bands_per_plan as usize);
        let mut children = budgets
            .max_children_per_node
            .saturating_sub(self.run.control[at].planned_children().children.len() as u32);
        let mut nodes = budgets.max_nodes.saturating_sub(self.run.planned_nodes);
        for band in &mut plan.bands {
            guard(band.steps.len() > budgets.max_steps_per_band as usize, "guard:maxStepsPerBand");
            band.steps.truncate(budgets.max_steps_per_band as usize);
            band.steps.retain(|step| {
                if self.run.reusable_child(at, &step.id).is_some() {
                    return true;
                }
                guard(children == 0, "guard:maxChildrenPerNode");
                guard(nodes == 0, "guard:maxNodes");
                let fits = children > 0 && nodes > 0;
                children = children.saturating_sub(1);
                nodes = nodes.saturating_sub(1);
                fits
            });
        }
        plan.bands.retain(|band| !band.steps.is_empty());
        guards
    }

    /// Creates all children of a band, so that users see the whole band at once, and starts as many as may run.
    fn open_band(&mut self, at: usize, band_index: u32) {
        let band = self.run.graph.nodes()[at].plan.as_ref().and_then(|p| p.bands.get(band_index as usize));
        let Some(steps) = band.map(|b| b.steps.clone()) else {
            return self.bands_done(at);
        };
        if self.run.exhausted.is_some() {
            for step in steps {
                self.emit(at, StepStatusChanged { step_id: step.step_id, status: StepStatus::Cancelled });
            }
            return self.open_band(at, band_index + 1);
        }
        let version = self.run.control[at].plan_version;
        let parent = self.run.graph.nodes()[at].id;
        let depth = self.run.graph.nodes()[at].depth + 1;
        for (step_index, step) in (0..).zip(steps) {
            if let Some(child) = self.run.reusable_child(at, &step.step_id) {
                let child_node_id = self.run.graph.nodes()[child].id;
                self.emit(at, NodeDelegated { child_node_id, step_id: step.step_id.clone() });
                self.emit(at, StepStatusChanged { step_id: step.step_id, status: StepStatus::Completed });
                continue;
            }
            let child = NodeId::child(parent, version, &step.step_id);
            self.push(
                child,
                Some(parent),
                NodeCreated {
                    parent_node_id: Some(parent),
                    title: step.title.clone(),
                    depth,
                    band_index: Some(band_index),
                    step_index: Some(step_index),
                    step_id: Some(step.step_id.clone()),
                    reason: step.reason,
                    success_criteria: step.success_criteria,
                }
                .into(),
            );
            self.emit(at, NodeDelegated { child_node_id: child, step_id: step.step_id });
            let document =
                scratchpad(self.run.graph.run_id(), child, Some(parent), depth, &step.title, self.now);
            self.push(
                child,
                Some(parent),
                ScratchpadLinked { scratchpad_doc_id: DocumentId::scratchpad(child) }.into(),
            );
            self.decision.documents.push(DocumentOp::Create(document));
        }
        if self.run.graph.nodes()[at].status != NodeStatus::Waiting {
            self.status(at, NodeStatus::Waiting, None);
        }
        self.advance_band(at);
    }

    /// Starts as many steps of the open band as there are free places. If all have ended, opens the next band.
    fn advance_band(&mut self, at: usize) {
        let Some(band_index) = self.run.control[at].band else { return };
        let Some(band) =
            self.run.graph.nodes()[at].plan.as_ref().and_then(|p| p.bands.get(band_index as usize))
        else {
            return;
        };
        if band.steps.iter().all(|s| s.status.is_final()) {
            return self.open_band(at, band_index + 1);
        }
        let places = if band.parallelizable { self.run.spec.budgets.max_parallel_steps as usize } else { 1 };
        let running = band.steps.iter().filter(|s| s.status == StepStatus::Running).count();
        let next: Vec<(StepId, NodeId)> = band
            .steps
            .iter()
            .filter(|s| s.status == StepStatus::Pending)
            .filter_map(|s| s.node_id.map(|node| (s.step_id.clone(), node)))
            .take(places.saturating_sub(running))
            .collect();
        for (step_id, node) in next {
            let Some(child) = self.run.graph.position(node) else { continue };
            if self.run.graph.nodes()[child].status.is_final() {
                continue;
            }
            if self.run.exhausted.is_none() {
                self.emit(at, StepStatusChanged { step_id, status: StepStatus::Running });
            }
            self.start_node(child);
        }
    }

    /// A node has ended: informs its parent, which continues.
    pub(crate) fn ended(&mut self, at: usize) {
        let Some(parent) = self.run.control[at].parent else {
            return self.end_run();
        };
        let status = step_status(self.run.graph.nodes()[at].status);
        if let Some(step_id) = self.run.graph.nodes()[at].step_id.clone() {
            self.emit(parent, StepStatusChanged { step_id, status });
        }
        if !self.run.graph.nodes()[parent].status.is_final() {
            self.advance_band(parent);
        }
    }

    /// Every band has ended: aggregates the results, or fails if there are none.
    fn bands_done(&mut self, at: usize) {
        let nodes = self.run.graph.nodes();
        if self.run.latest_children(at).any(|c| nodes[c].status == NodeStatus::Completed) {
            return self.status(at, NodeStatus::Aggregating, None);
        }
        if self.run.exhausted.is_some() {
            return self.cancel_node(at);
        }
        let steps = self.run.latest_children(at).count();
        let first = self.run.latest_children(at).find_map(|c| nodes[c].error.as_deref()).unwrap_or("unknown");
        let error = format!("none of its {steps} steps completed; the first error: {first}");
        self.fail_node(at, prefix(&error, limits::TEXT_BYTES).to_owned(), false);
    }

    pub(crate) fn on_executed(&mut self, at: usize, out: ExecutorOutput) {
        self.append_scratchpad(at, &out.scratchpad.append_markdown);
        let evidence = out.result.success_assessment.as_ref().and_then(|a| a.notes.clone());
        self.return_result(at, out.artifacts, out.result);
        self.complete_node(at, evidence);
    }

    pub(crate) fn on_aggregated(&mut self, at: usize, out: AggregatorOutput) {
        self.append_scratchpad(at, &out.scratchpad.append_markdown);
        let nodes = self.run.graph.nodes();
        let child_ids: Vec<NodeId> = self.run.latest_children(at).map(|c| nodes[c].id).collect();
        self.emit(
            at,
            NodeAggregated {
                child_ids: child_ids.clone(),
                summary: out.synthesis.summary,
                success_assessment: out.result.success_assessment.clone(),
            },
        );
        if out.next.should_replan {
            let exhausted = self.run.exhausted.is_some();
            if !exhausted && self.run.control[at].replans < self.run.spec.budgets.max_replans_per_node {
                let reason = out.next.replan_reason.unwrap_or_default();
                self.emit(at, ReplanRequested { reason, based_on_child_ids: child_ids });
                return self.status(at, NodeStatus::Planning, None);
            }
            let guard = if exhausted { "guard:budget" } else { "guard:maxReplansPerNode" };
            self.status(at, NodeStatus::Aggregating, Some(guard.into()));
        }
        let evidence = out.result.success_assessment.as_ref().and_then(|a| a.notes.clone());
        self.return_result(at, out.artifacts, out.result);
        self.complete_node(at, evidence);
    }
}
