//! How far a run came that a budget has stopped.

use std::collections::HashSet;

use tree_agent_contract::NodeStatus;
use tree_agent_contract::graph::GraphSnapshot;

use super::usage::{dollars, grouped};

/// How the reason of a run begins that a budget has stopped.
pub(crate) const BUDGET: &str = "budget ";

/// Such as `stopped at $0.50, 23 of 40 parts answered`. Parts are the nodes that divide no work. None for other
/// reasons.
pub(crate) fn words(graph: &GraphSnapshot, reason: &str) -> Option<String> {
    let used = graph.nodes.first()?.subtree_usage.get();
    let at = match reason.strip_prefix(BUDGET)?.split(' ').next()? {
        "maxCostMicros" => dollars(used.cost_micros),
        "maxTokens" => format!("{} tokens", grouped(used.input_tokens + used.output_tokens)),
        "maxToolCalls" => format!("{} tool calls", grouped(used.tool_calls)),
        "maxWallClockMs" => "the end of its time".to_owned(),
        _ => return None,
    };
    let parents: HashSet<_> = graph.nodes.iter().filter_map(|node| node.parent_id).collect();
    let parts = graph.nodes.iter().filter(|node| !parents.contains(&node.id));
    let (all, answered) = parts.fold((0, 0), |(all, answered), node| {
        (all + 1, answered + usize::from(node.status == NodeStatus::Completed))
    });
    Some(format!("stopped at {at}, {answered} of {all} parts answered"))
}
