//! The rules about budgets of subtrees.

use std::collections::{HashMap, HashSet};

use tree_agent_contract::event::{Event, EventBody, NodeCreated};
use tree_agent_contract::{Budgets, NodeId, StepId, SubtreeBudget};

use crate::amounts::{Limits, NAMES, limits, of_subtree};

/// The leases of a run, as far as the log has named them.
#[derive(Clone, Debug, Default)]
pub(super) struct Leases {
    run: Limits,
    budgets: Budgets,
    nodes: HashMap<NodeId, Leased>,
    steps: HashMap<(NodeId, StepId), SubtreeBudget>,
    /// Nodes whose latest plan a person has written. It keeps leases that were granted before.
    edited: HashSet<NodeId>,
}

#[derive(Clone, Debug, Default)]
struct Leased {
    parent: Option<NodeId>,
    lease: SubtreeBudget,
    used_up: bool,
}

impl Leases {
    /// Reads the next event. Returns what is wrong with it.
    pub(super) fn event(&mut self, event: &Event) -> Option<String> {
        let id = event.node_id;
        match &event.body {
            EventBody::RunCreated(e) => self.set_run(e.spec.budgets.clone()),
            EventBody::NodeCreated(e) => self.created(id, e),
            EventBody::PlanCreated(_) => self.steps.retain(|(node, _), _| *node != id),
            EventBody::PlanEdited(_) => drop(self.edited.insert(id)),
            EventBody::ReplanRequested(_) => drop(self.edited.remove(&id)),
            EventBody::StepCreated(e) => {
                let budget = e.budget?;
                self.steps.insert((id, e.step_id.clone()), budget);
                return self.beyond(Some(id), &budget).filter(|_| !self.edited.contains(&id));
            }
            EventBody::NodeReopened(e) => {
                self.edited.remove(&id);
                let node = self.nodes.get_mut(&id)?;
                node.used_up = false;
                if e.again || e.budget.is_some() {
                    node.lease = e.budget.unwrap_or_default();
                }
                let parent = node.parent;
                return self.beyond(parent, &e.budget?);
            }
            EventBody::BudgetSet(e) if event.parent_node_id.is_none() => {
                self.set_run(e.change.apply(&self.budgets));
            }
            EventBody::BudgetSet(e) => {
                let node = self.nodes.get_mut(&id)?;
                (node.lease, node.used_up) = (e.change.apply_to_subtree(node.lease), false);
            }
            EventBody::BudgetExhausted(_) if event.parent_node_id.is_some() => {
                let node = self.nodes.get_mut(&id)?;
                let again = std::mem::replace(&mut node.used_up, true);
                return again.then(|| "says again that the lease of its node is used up".to_owned());
            }
            EventBody::LeaseCovered(e) => {
                let above = !self.line(id).skip(1).any(|above| above == e.by_node_id);
                return above.then(|| format!("names node {}, which is not above its own", e.by_node_id));
            }
            EventBody::RunForked(_) => self.nodes.values_mut().for_each(|node| node.used_up = false),
            _ => {}
        }
        None
    }

    fn set_run(&mut self, budgets: Budgets) {
        self.run = limits(&budgets);
        self.budgets = budgets;
    }

    fn created(&mut self, id: NodeId, e: &NodeCreated) {
        let parent = e.parent_node_id;
        let step = parent.zip(e.step_id.clone()).filter(|_| e.band_index.is_some());
        let lease = step.and_then(|step| self.steps.get(&step).copied()).unwrap_or_default();
        self.nodes.insert(id, Leased { parent, lease, used_up: false });
    }

    fn line(&self, id: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        std::iter::successors(Some(id), |id| self.nodes.get(id)?.parent)
    }

    /// What is wrong with a lease below the node `above`: it exceeds the limit that holds there.
    fn beyond(&self, above: Option<NodeId>, budget: &SubtreeBudget) -> Option<String> {
        let line: Vec<Limits> = above
            .into_iter()
            .flat_map(|above| self.line(above))
            .filter_map(|id| self.nodes.get(&id).map(|node| of_subtree(&node.lease)))
            .collect();
        let granted = of_subtree(budget);
        (0..3).find_map(|m| {
            let limit = line.iter().find_map(|limits| limits[m]).or(self.run[m])?;
            let granted = granted[m].filter(|granted| *granted > limit)?;
            Some(format!("leases {granted} of {}, of which there are {limit} above", NAMES[m]))
        })
    }
}
