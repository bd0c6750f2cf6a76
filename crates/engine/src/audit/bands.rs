//! The rules about bands, for nodes that have a plan.

use std::collections::BTreeMap;

use tree_agent_contract::event::EventBody;
use tree_agent_contract::{StepId, StepStatus};

/// The steps of a node's latest plan, each with its band.
#[derive(Clone, Debug, Default)]
pub(super) struct Bands(BTreeMap<StepId, (u32, StepStatus)>);

impl Bands {
    /// Reads an event about the plan. Returns what is wrong with it.
    pub(super) fn event(&mut self, body: &EventBody) -> Option<String> {
        match body {
            EventBody::PlanCreated(_) => {
                self.0.clear();
                None
            }
            EventBody::StepCreated(e) => {
                let twice = self.0.insert(e.step_id.clone(), (e.band_index, StepStatus::Pending)).is_some();
                twice.then(|| format!("creates step {} again", e.step_id))
            }
            EventBody::StepStatusChanged(e) => {
                let (_, status) = self.0.get_mut(&e.step_id)?;
                let before = std::mem::replace(status, e.status);
                let (step, status) = (&e.step_id, e.status);
                let text = || format!("makes step {step} {status}, whose outcome {before} was recorded");
                before.is_final().then(text)
            }
            _ => None,
        }
    }

    /// A child of `band` is created. Returns what is wrong with that.
    pub(super) fn opens(&self, band: u32) -> Option<String> {
        let open = self.0.iter().find(|(_, (b, status))| *b < band && !status.is_final());
        open.map(|(step, (earlier, status))| {
            format!("opens band {band} while step {step} of band {earlier} is {status}")
        })
    }
}
