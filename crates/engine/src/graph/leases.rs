//! What users see of leases: the budgets of subtrees.

use tree_agent_contract::event::{BudgetSet, NodeCreated, NodeReopened};
use tree_agent_contract::graph::{GraphNode, Lease, Usage};
use tree_agent_contract::{NodeId, Timestamp};

use super::Graph;

impl Graph {
    /// The lease of a new node: that of the step which it carries out.
    pub(super) fn lease_of_step(&self, parent: Option<NodeId>, e: &NodeCreated) -> Option<Box<Lease>> {
        e.band_index?;
        let step = self.node(parent?)?.steps().find(|step| Some(&step.step_id) == e.step_id.as_ref())?;
        step.budget.map(|limits| Box::new(Lease { limits, ..Lease::default() }))
    }

    /// The node at `at` begins, and with it the time of its lease.
    pub(super) fn begin_lease(&mut self, at: usize, now: Timestamp) {
        if self.nodes[at].lease.as_ref().is_some_and(|lease| lease.since.is_none()) {
            self.change_lease(at, |lease| lease.since = Some(now));
        }
    }

    /// A person has changed the budget of the node at `at`. One that was used up may have room again: if it has none,
    /// that is said again.
    pub(super) fn lease_set(&mut self, at: usize, e: &BudgetSet) {
        let node = &self.nodes[at];
        let mut lease = match &node.lease {
            Some(lease) if !lease.limits.is_empty() => (**lease).clone(),
            // What was used before counts.
            _ => {
                let from = self.counted_from.get(&at).copied();
                let (since, before) = from.map_or((node.started_at, Usage::default()), |(t, u)| (Some(t), u));
                let before = before.into();
                Lease { since, before, ..Lease::default() }
            }
        };
        lease.limits = e.change.apply_to_subtree(lease.limits);
        lease.exhausted = None;
        let is_empty = lease.limits.is_empty();
        self.nodes[at].lease = (!is_empty).then(|| Box::new(lease));
        self.change_lease(at, |_| {});
    }

    /// The lease of the node at `at` is used up. A node without one has used up its share of what is above it.
    pub(super) fn lease_exhausted(&mut self, at: usize, budget: &str) {
        self.nodes[at].lease.get_or_insert_default().exhausted = Some(budget.to_owned());
    }

    /// The node at `at` goes on after its end: it has another lease.
    pub(super) fn lease_anew(&mut self, at: usize, e: &NodeReopened, now: Timestamp) {
        let node = &mut self.nodes[at];
        let before = node.subtree_usage.get();
        let since = (!e.again).then_some(now);
        node.lease = e
            .budget
            .map(|limits| Box::new(Lease { limits, since, before: before.into(), ..Lease::default() }));
        self.counted_from.insert(at, (now, before));
        self.change_lease(at, |_| {});
    }

    /// In a fork, what is used counts from the fork on.
    pub(super) fn fork_leases(&mut self, now: Timestamp) {
        for at in 0..self.nodes.len() {
            if self.nodes[at].status.is_final() {
                continue;
            }
            let before = self.nodes[at].subtree_usage.get();
            self.counted_from.insert(at, (now, before));
            // A share of what is above that was used up is not a lease.
            self.nodes[at].lease.take_if(|lease| lease.limits.is_empty());
            self.change_lease(at, |lease| {
                (lease.since, lease.before, lease.exhausted) =
                    (lease.since.map(|_| now), before.into(), None);
            });
        }
    }

    /// Changes the lease of the node at `at`, if it has one. Its time ends no later than that of the leases above.
    fn change_lease(&mut self, at: usize, change: impl FnOnce(&mut Lease)) {
        let above = self.deadline_above(&self.nodes[at]);
        let Some(lease) = &mut self.nodes[at].lease else { return };
        change(lease);
        let own = lease.since.zip(lease.limits.max_wall_clock_ms).map(|(since, ms)| since.plus_millis(ms));
        lease.deadline = own.map(|own| above.map_or(own, |above| own.min(above)));
    }

    fn deadline_above(&self, node: &GraphNode) -> Option<Timestamp> {
        let parent = |node: &GraphNode| node.parent_id.and_then(|id| self.node(id));
        let mut line = std::iter::successors(parent(node), |node| parent(node));
        line.find_map(|node| node.lease.as_ref()?.deadline)
    }
}
