//! The rules about bands, for nodes that have a plan.

use std::collections::BTreeMap;

use tree_agent_contract::event::EventBody;
use tree_agent_contract::{NodeId, StepId, StepStatus};

/// The steps of a node's latest plan, each with its band and its node.
#[derive(Clone, Debug, Default)]
pub(super) struct Bands {
    steps: BTreeMap<StepId, (u32, StepStatus)>,
    nodes: BTreeMap<StepId, NodeId>,
}

impl Bands {
    /// Reads an event about the plan. Returns what is wrong with it.
    pub(super) fn event(&mut self, body: &EventBody) -> Option<String> {
        match body {
            EventBody::PlanCreated(_) => {
                *self = Self::default();
                None
            }
            EventBody::StepCreated(e) => {
                let twice =
                    self.steps.insert(e.step_id.clone(), (e.band_index, StepStatus::Pending)).is_some();
                twice.then(|| format!("creates step {} again", e.step_id))
            }
            EventBody::NodeDelegated(e) => {
                self.nodes.insert(e.step_id.clone(), e.child_node_id);
                None
            }
            EventBody::StepStatusChanged(e) => {
                let (_, status) = self.steps.get_mut(&e.step_id)?;
                let before = std::mem::replace(status, e.status);
                let (step, status) = (&e.step_id, e.status);
                let text = || format!("makes step {step} {status}, whose outcome {before} was recorded");
                // A reopened step is pending again.
                (before.is_final() && e.status != StepStatus::Pending).then(text)
            }
            _ => None,
        }
    }

    /// The node that carries out a step.
    pub(super) fn node_of(&self, step: &StepId) -> Option<NodeId> {
        self.nodes.get(step).copied()
    }

    /// A child of `band` is created. Returns what is wrong with that.
    pub(super) fn opens(&self, band: u32) -> Option<String> {
        let open = self.steps.iter().find(|(_, (b, status))| *b < band && !status.is_final());
        open.map(|(step, (earlier, status))| {
            format!("opens band {band} while step {step} of band {earlier} is {status}")
        })
    }
}
