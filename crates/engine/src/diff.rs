//! The comparison of two runs.

use tree_agent_contract::diff::{
    DiffCounts, NodeAspect, NodeComparison, NodeDiff, NodeMatching, NodeTotals, RunDiff, RunTotals,
};
use tree_agent_contract::graph::GraphNode;

use crate::diff_nodes::{changes, duration_ms};
use crate::diff_pairs::{Pair, matching, pairs};
use crate::diff_text::text_diff;
use crate::graph::Graph;

/// A run that is compared: its tree after some event, and the text that it had returned by then.
#[derive(Clone, Copy, Debug)]
pub struct Compared<'a> {
    /// The tree.
    pub graph: &'a Graph,
    /// The synthesis; empty for none.
    pub synthesis: &'a str,
}

/// Compares run `a` with run `b`. The cost grows with the nodes of both and the length of their texts.
pub fn diff(a: Compared<'_>, b: Compared<'_>) -> RunDiff {
    let matching = matching(a.graph, b.graph);
    let pairs = pairs(a.graph, b.graph, matching);
    let nodes: Vec<NodeDiff> = pairs.into_iter().map(|pair| node(a.graph, b.graph, pair, matching)).collect();
    let mut counts = DiffCounts::default();
    nodes.iter().for_each(|node| counts.add(node.comparison));
    RunDiff {
        a: totals(a.graph),
        b: totals(b.graph),
        matching,
        counts,
        nodes,
        synthesis: text_diff(a.synthesis, b.synthesis),
    }
}

fn node(a: &Graph, b: &Graph, pair: Pair, matching: NodeMatching) -> NodeDiff {
    let (a, b) = (pair.a.map(|at| &a.nodes()[at]), pair.b.map(|at| &b.nodes()[at]));
    let changes: Vec<NodeAspect> = a.zip(b).map_or_else(Vec::new, |(a, b)| changes(a, b, matching));
    let comparison = match (a, b) {
        (Some(_), None) => NodeComparison::OnlyA,
        (None, _) => NodeComparison::OnlyB,
        _ if changes.is_empty() => NodeComparison::Same,
        _ => NodeComparison::Changed,
    };
    NodeDiff { comparison, depth: pair.depth, changes, a: a.map(node_totals), b: b.map(node_totals) }
}

fn node_totals(node: &GraphNode) -> NodeTotals {
    NodeTotals {
        node_id: node.id,
        title: node.title.clone(),
        status: node.status,
        outcome: node.outcome,
        spending: node.usage.get().into(),
        duration_ms: duration_ms(node),
    }
}

fn totals(graph: &Graph) -> RunTotals {
    let root = graph.nodes().first();
    let times = graph.nodes().iter().flat_map(|n| [Some(n.created_at), n.started_at, n.ended_at]);
    // A reopened run has ended before, but is live again.
    let ended = graph.ended_at().filter(|_| graph.status().is_final());
    let end = ended.or_else(|| times.flatten().max());
    RunTotals {
        run_id: graph.run_id(),
        seq: graph.seq(),
        status: graph.status(),
        partial: graph.partial(),
        outcome: root.and_then(|root| root.outcome),
        error: root.and_then(|root| root.error.clone()),
        nodes: graph.nodes().len() as u64,
        spending: graph.usage().into(),
        duration_ms: graph.started_at().zip(end).map(|(started, end)| end.millis_since(started)),
    }
}
