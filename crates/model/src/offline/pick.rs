//! The picker: the topic that promises most.

use std::cmp::Reverse;

use tree_agent_contract::role::{PickInput, PickOutput};
use tree_agent_contract::text::count;

use super::short;

/// Chooses the topic of the highest score. Among equals the one nearest to the root comes first, then the first.
pub(super) fn pick(input: &PickInput) -> PickOutput {
    let promise = |score: Option<f64>| (score.unwrap_or_default() * 1_000.0) as u64;
    let best = input
        .leaves
        .iter()
        .enumerate()
        .max_by_key(|(place, leaf)| (promise(leaf.score), Reverse(leaf.depth), Reverse(*place)));
    let Some((_, leaf)) = best else {
        return PickOutput { path: String::new(), reason: "No topic is offered.".to_owned() };
    };
    let offered = count(input.leaves.len(), "open topic");
    let reason = format!("Of {offered}, “{}” holds the best passage.", short(&leaf.title, 300));
    PickOutput { path: leaf.path.clone(), reason }
}
