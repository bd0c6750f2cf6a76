//! How far a run came that a budget has stopped.

use std::collections::HashSet;

use tree_agent_contract::graph::GraphSnapshot;
use tree_agent_contract::{NodeStatus, Timestamp};

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
    let (answered, all) = parts(graph);
    Some(format!("stopped at {at}, {answered} of {all} parts answered"))
}

/// Such as `waits for the quota until 14:05 (UTC), 40 of 60 parts are done`.
pub(crate) fn waits(graph: &GraphSnapshot, until: Timestamp) -> String {
    let (answered, all) = parts(graph);
    let until = until.to_string();
    // The day is told, too: quotas may end tomorrow.
    let (day, time) = (until.get(..10).unwrap_or_default(), until.get(11..16).unwrap_or(&until));
    format!("waits for the quota until {day} {time} UTC, {answered} of {all} parts are done")
}

/// How many parts have been answered, and how many there are: the nodes that divide no work.
fn parts(graph: &GraphSnapshot) -> (usize, usize) {
    let parents: HashSet<_> = graph.nodes.iter().filter_map(|node| node.parent_id).collect();
    let parts = graph.nodes.iter().filter(|node| !parents.contains(&node.id));
    parts.fold((0, 0), |(answered, all), node| {
        (answered + usize::from(node.status == NodeStatus::Completed), all + 1)
    })
}
