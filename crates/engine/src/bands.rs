//! Bands as the log shows them: the children and steps of a node's plans.

use serde::Serialize;
use tree_agent_contract::StepId;
use tree_agent_contract::event::{NodeCreated, PlanCreated, ReplanRequested};

/// The children and steps of a node's plans. Only nodes that plan have them.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Bands {
    /// The children of all plans, in order of creation.
    pub(crate) children: Vec<usize>,
    /// The latest child of each step of all plans, in order of creation.
    pub(crate) steps: Vec<(StepId, usize)>,
    /// Version of the latest plan; 0 for none.
    pub(crate) plan_version: u32,
    /// Times that another plan was asked for.
    pub(crate) replans: u32,
    /// Why it was, the last time.
    pub(crate) replan_reason: Option<String>,
    /// The current band of the latest plan.
    pub(crate) current: Option<u32>,
    /// Version of the latest plan that a person wrote; 0 for none.
    edited_version: u32,
}

/// Of a node that has never planned.
pub(crate) static NO_BANDS: Bands = Bands {
    children: Vec::new(),
    steps: Vec::new(),
    plan_version: 0,
    replans: 0,
    replan_reason: None,
    current: None,
    edited_version: 0,
};

impl Bands {
    /// A child was created at `at`.
    pub(crate) fn child_created(&mut self, at: usize, e: &NodeCreated) {
        self.children.push(at);
        let Some(step) = e.step_id.as_ref().filter(|_| e.band_index.is_some()) else { return };
        match self.steps.iter_mut().find(|(id, _)| id == step) {
            Some((_, child)) => *child = at,
            None => self.steps.push((step.clone(), at)),
        }
    }

    /// The node has a new plan.
    pub(crate) fn planned(&mut self, e: &PlanCreated) {
        self.plan_version = e.version;
        self.current = None;
        // It was answered.
        self.replan_reason = None;
    }

    /// A person writes the plan of version `version`.
    pub(crate) fn edited(&mut self, version: u32) {
        self.edited_version = version;
    }

    /// True if a person wrote the latest plan.
    pub(crate) fn is_edited(&self) -> bool {
        self.plan_version > 0 && self.plan_version == self.edited_version
    }

    /// The node does its work again. Versions of plans count on, so that new children have new ids.
    pub(crate) fn begin_again(&mut self) {
        *self = Self { plan_version: self.plan_version, ..Self::default() };
    }

    /// A step of band `band` of the latest plan was given to a child.
    pub(crate) fn opened(&mut self, band: Option<u32>) {
        self.current = self.current.max(band);
    }

    /// Another plan was asked for.
    pub(crate) fn replan_requested(&mut self, e: &ReplanRequested) {
        self.replans += 1;
        self.replan_reason = Some(e.reason.clone());
    }

    /// The child that carried out `step` last.
    pub(crate) fn child_of(&self, step: &StepId) -> Option<usize> {
        self.steps.iter().find(|(id, _)| id == step).map(|&(_, child)| child)
    }

    /// For each step of all plans, the child that carried it out last.
    pub(crate) fn latest_children(&self) -> impl Iterator<Item = usize> + '_ {
        self.steps.iter().map(|&(_, child)| child)
    }
}
