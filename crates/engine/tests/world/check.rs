//! Checks the invariants on a finished log: those of every strategy, and those of strategies that plan in bands.

mod bands;
mod homework;
mod search;

use std::collections::{BTreeMap, BTreeSet};

use tree_agent_contract::event::EventBody;
use tree_agent_contract::graph::{GraphNode, GraphStep, GraphView};
use tree_agent_contract::*;
use tree_agent_engine::{Audit, CallKind};

use super::World;

impl World {
    pub(crate) fn check(&self) {
        self.check_universal();
        // An estimate counts what plans can hold. Topics of their steps come on top.
        if !self.plan.search_steps {
            self.check_estimate();
        }
        match self.plan.strategy {
            Strategy::Search => {
                let limits = StepSearch { max_depth: self.plan.search.max_depth, max_nodes: u32::MAX };
                self.check_search(NodeId::root(self.run_id), limits);
            }
            Strategy::Homework => self.check_homework(),
            Strategy::Tree => {
                self.check_bands();
                self.check_searches();
            }
        }
    }

    /// What holds for every step that is a search.
    fn check_searches(&self) {
        for event in &self.log {
            if let EventBody::NodeCreated(e) = &event.body
                && e.strategy == Some(Strategy::Search)
            {
                self.check_search(event.node_id, e.search.expect("its limits"));
            }
        }
    }

    /// What holds whatever the strategy is.
    pub(crate) fn check_universal(&self) {
        let mut audit = Audit::new();
        self.log.iter().for_each(|event| audit.event(event));
        assert_eq!(audit.finish(), [], "the invariants of a log");
        let graph = self.run.graph();
        let ended = graph.nodes().iter().filter(|node| node.status.is_final()).count();
        assert_eq!(graph.ended_nodes(), ended as u64);
        self.check_limits();
        self.check_ids();
        self.check_usage();
        self.check_scratchpads();
        self.documents.check();
    }

    /// The nodes that exist and those that plans promise keep to the limit, or to one that held before.
    pub(super) fn check_nodes(&self) {
        let nodes = self.run.graph().nodes();
        let is_done = |node: &GraphNode, step: &GraphStep| {
            let is_it = |child: &GraphNode| {
                child.parent_id == Some(node.id) && child.step_id.as_ref() == Some(&step.step_id)
            };
            let latest = nodes.iter().rfind(|child| is_it(child));
            latest.is_some_and(|child| child.status == NodeStatus::Completed)
        };
        let open = nodes.iter().filter(|node| !node.status.is_final());
        let promised = open.map(|node| {
            let steps = node.plan.iter().flat_map(|plan| &plan.bands).flat_map(|band| &band.steps);
            let unborn = steps.filter(|step| step.node_id.is_none() && step.status == StepStatus::Pending);
            unborn.filter(|step| !is_done(node, step)).count()
        });
        let number = nodes.len() + promised.sum::<usize>();
        let limits = self.log.iter().filter_map(|event| match &event.body {
            EventBody::BudgetSet(e) => e.change.max_nodes,
            _ => None,
        });
        let most = limits.chain([self.plan.budgets.max_nodes]).max().unwrap_or_default();
        assert!(number <= most as usize, "{number} nodes, at most {most} are allowed\n{}", self.story());
    }

    /// The scratchpad of a node. The tasks of a branch share one.
    fn scratchpad(&self, node: NodeId) -> DocumentId {
        let node = self.run.graph().node(node).expect("a node");
        node.scratchpad_doc_id.unwrap_or_else(|| DocumentId::scratchpad(node.id))
    }

    /// The run stays within its estimate.
    fn check_estimate(&self) {
        let estimate = match self.plan.strategy {
            Strategy::Search => {
                Estimate::of_search(&self.plan.budgets, &self.plan.search, self.plan.verify, None)
            }
            Strategy::Homework => Estimate::of_homework(&self.plan.budgets, self.plan.verify, None),
            Strategy::Tree => Estimate::of_tree(&self.plan.budgets, self.plan.verify, None),
        };
        let made = |kind| self.made.iter().filter(|(_, k, _)| *k == kind).count() as u64;
        let nodes = self.run.graph().nodes();
        assert!(nodes.len() as u64 <= estimate.nodes, "{} nodes of {estimate:?}", nodes.len());
        assert!(nodes.iter().all(|n| n.depth <= estimate.depth), "{estimate:?}");
        for (kind, most) in [
            (CallKind::Plan, estimate.plan_calls),
            (CallKind::Execute, estimate.execute_calls),
            (CallKind::Aggregate, estimate.aggregate_calls),
            (CallKind::Research, estimate.research_calls),
            (CallKind::Pick, estimate.pick_calls),
            (CallKind::Verify, estimate.verify_calls),
        ] {
            assert!(made(kind) <= most, "{} calls of {kind:?}, of {estimate:?}", made(kind));
        }
    }

    /// Whatever is named is named once, also when a node is called again.
    pub(super) fn check_ids(&self) {
        let mut ids = BTreeSet::new();
        for event in &self.log {
            let id = match &event.body {
                EventBody::ArtifactCreated(e) => e.artifact_id.to_string(),
                EventBody::ToolCallRequested(e) => format!("{} {}", event.node_id, e.call_id),
                EventBody::PlanCreated(e) => e.plan_id.to_string(),
                _ => continue,
            };
            assert!(ids.insert(id.clone()), "event {} names {id} again", event.seq);
        }
    }

    /// A scratchpad changes at most four times in any second, and holds every written text once and in one piece.
    fn check_scratchpads(&self) {
        let mut times: BTreeMap<NodeId, Vec<Timestamp>> = BTreeMap::new();
        for event in self.log.iter().filter(|e| matches!(e.body, EventBody::ScratchpadUpdated(_))) {
            let times = times.entry(event.node_id).or_default();
            times.push(event.timestamp);
            if let [.., first, _, _, _, last] = times[..] {
                assert!(
                    last.millis_since(first) >= 1_000,
                    "event {} is the fifth within a second",
                    event.seq
                );
            }
        }
        let given_up = self.cancelled || self.run.exhausted_budget().is_some();
        for (node, wrote) in &self.said {
            let pad = self.documents.text(self.scratchpad(*node));
            let found = pad.matches(wrote.as_str()).count();
            assert!(wrote.is_empty() || found == 1 || given_up, "{wrote:?} is {found} times in {pad:?}");
        }
    }

    /// No limit of the run is exceeded. Only a budget, the user or the depth limit of a search cancels a node.
    fn check_limits(&self) {
        let budgets = &self.plan.budgets;
        // A search has a depth limit of its own, and lists one level beyond those that it researches.
        let deepest = match self.plan.strategy {
            Strategy::Search => self.plan.search.max_depth.max(2),
            _ if self.plan.search_steps => budgets.max_depth + 3,
            _ => budgets.max_depth,
        };
        let (mut nodes, mut exhausted) = (0, false);
        for (i, event) in self.log.iter().enumerate() {
            let at = format!("event {} {}", event.seq, event.body.event_type());
            assert_eq!(event.seq, i as u64 + 1, "seq is contiguous from 1");
            match &event.body {
                EventBody::BudgetExhausted(_) => {
                    assert!(!exhausted, "{at}: a budget trips once");
                    exhausted = true;
                }
                EventBody::NodeCreated(e) => {
                    assert!(!exhausted, "{at}: no node after a budget tripped");
                    assert!(e.depth <= deepest, "{at}: depth");
                    nodes += 1;
                    assert!(nodes <= budgets.max_nodes, "{at}: nodes");
                }
                EventBody::NodeStatusChanged(e) if e.status == NodeStatus::Cancelled => {
                    let too_deep = e.message.as_deref() == Some("guard:maxDepth");
                    assert!(exhausted || self.cancelled || too_deep, "{at}: nobody cancelled a node");
                }
                _ => {}
            }
        }
        assert!(self.run.graph().status().is_final(), "every run ends");
        let root = &self.run.graph().nodes()[0];
        if root.status == NodeStatus::Completed {
            assert!(root.result.is_some(), "a completed root holds its result");
        }
    }
}
