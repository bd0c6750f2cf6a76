//! Applying events: the only place that changes the logged part of the state.

use tree_agent_contract::event::{Event, EventBody, NodeStatusChanged};
use tree_agent_contract::{NodeStatus, RunStatus, Timestamp};

use crate::budget::{Amounts, TOOL_CALLS};
use crate::call::CallKind;
use crate::graph::{ReplayError, grow_gently};
use crate::held::CHANGES;
use crate::run::{ArtifactSummary, Control, Run};

/// Milliseconds before the second attempt; doubled for each further one.
const RETRY_BASE_MS: u64 = 200;
/// Maximum of milliseconds between attempts.
const RETRY_MAX_MS: u64 = 30_000;

/// The backoff after failed attempt number `failed` (1 for the first). It is spread by up to half as much again by the
/// node's position, so that siblings that failed together do not retry together. This needs no randomness.
pub(crate) fn backoff_ms(failed: u32, at: usize) -> u64 {
    let base = RETRY_BASE_MS.saturating_mul(1 << failed.saturating_sub(1).min(16)).min(RETRY_MAX_MS);
    base + (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % (base / 2 + 1)
}

impl Run {
    /// Applies the next event of the log. On an error the run must be dropped.
    pub fn apply(&mut self, event: &Event) -> Result<(), ReplayError> {
        self.graph.apply(event)?;
        match &event.body {
            EventBody::NodeCreated(e) => {
                let parent = event.parent_node_id.and_then(|p| self.graph.position(p));
                let at = self.control.len();
                let mut control = Control { parent, ..Control::default() };
                if let Some(parent) = parent {
                    let above = &mut self.control[parent];
                    control.born_version = above.plan_version;
                    let below = above.planned_children_mut();
                    below.children.push(at);
                    if let Some(step) = &e.step_id {
                        match below.steps.iter_mut().find(|(id, _)| id == step) {
                            Some((_, child)) => *child = at,
                            None => below.steps.push((step.clone(), at)),
                        }
                    }
                }
                grow_gently(&mut self.control);
                self.control.push(control);
            }
            EventBody::RunStatusChanged(e) if e.status == RunStatus::Running => {
                self.started_at.get_or_insert(event.timestamp);
            }
            EventBody::BudgetExhausted(e) => {
                self.exhausted = Some(e.budget.clone());
                self.exhausted_at = Some(event.timestamp);
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
            EventBody::NodeCompleted(_) => self.settle(at, true),
            EventBody::NodeFailed(_) => self.settle(at, false),
            EventBody::PlanCreated(e) => {
                let control = &mut self.control[at];
                control.plan_version = e.version;
                control.band = None;
                self.ledger.owed += u32::from(!std::mem::replace(&mut control.owes, true));
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
            EventBody::ToolCallRequested(_) => self.control[at].spent[TOOL_CALLS] += 1,
            EventBody::StepCreated(e) => {
                let reused = self.reusable_child(at, &e.step_id).is_some();
                self.planned_nodes += u32::from(!reused);
            }
            EventBody::NodeDelegated(e) => {
                let plan = self.graph.nodes()[at].plan.as_ref();
                let band = plan.and_then(|p| {
                    p.bands.iter().find(|b| b.steps.iter().any(|s| s.step_id == e.step_id)).map(|b| b.index)
                });
                self.control[at].band = self.control[at].band.max(band);
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
                self.control[at].replans += 1;
                self.control[at].planned_children_mut().replan_reason = Some(e.reason.clone());
            }
            _ => {}
        }
    }

    fn apply_status(&mut self, at: usize, e: &NodeStatusChanged, now: Timestamp) {
        if e.status.is_final() {
            return self.settle(at, false);
        }
        self.waiting.status_changed(at, e, now);
        let control = &self.control[at];
        let needs = match e.status {
            NodeStatus::Planning => Some(CallKind::Plan),
            NodeStatus::Executing => Some(CallKind::Execute),
            NodeStatus::Aggregating => Some(CallKind::Aggregate),
            NodeStatus::Waiting if e.attempt.is_some() => control.needs,
            NodeStatus::Blocked => control.needs,
            _ => None,
        };
        let attempt = if needs.is_some() { e.attempt.unwrap_or(1) } else { 0 };
        if (needs, attempt) != (control.needs, control.attempt) || e.status == NodeStatus::Blocked {
            self.call_ended(at, needs != control.needs);
        }
        let control = &mut self.control[at];
        if let Some(guard) = e.message.as_deref().and_then(|m| m.strip_prefix("guard:")) {
            // A node at the depth limit does its own work. Every other guard loses work.
            control.cut |= guard != "maxDepth";
        }
        control.needs = needs;
        control.attempt = attempt;
        control.retry_at = match (e.status, e.attempt) {
            (NodeStatus::Waiting, Some(attempt)) => {
                Some(now.plus_millis(backoff_ms(attempt.saturating_sub(1), at)))
            }
            _ => None,
        };
        if needs.is_some() && !self.in_flight.contains_key(&at) {
            self.ready.insert(at);
        }
        if needs.is_none() {
            self.ready.remove(&at);
        }
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
    fn settle(&mut self, at: usize, answered: bool) {
        self.call_ended(at, answered);
        let control = &mut self.control[at];
        control.needs = None;
        control.attempt = 0;
        control.retry_at = None;
        self.ledger.owed -= u32::from(std::mem::take(&mut control.owes));
        self.ready.remove(&at);
        self.in_flight.remove(&at);
        self.held.remove(&at);
        self.unreachable.remove(&at);
    }
}
