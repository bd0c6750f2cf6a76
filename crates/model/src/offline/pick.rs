//! The picker: prefers topics of which least is covered.

use std::collections::BTreeSet;

use tree_agent_contract::role::{OfferedLeaf, PickInput, PickOutput};
use tree_agent_contract::text::count;

use super::short;
use super::words::stems;

/// What the outline writes behind topics that are, or will be, covered.
const COVERED: [&str; 3] = ["[expanded]", "[leaf]", "[in-progress]"];

/// Chooses the topic whose title shares the smallest part of its words with what is covered. Among equals the one that
/// promises most comes first, then the one nearest to the root, then the first.
pub(super) fn pick(input: &PickInput) -> PickOutput {
    let covered = covered(&input.outline);
    let new_words = |leaf: &OfferedLeaf| {
        let words: BTreeSet<String> = stems(&leaf.title).collect();
        let new = words.iter().filter(|word| !covered.contains(*word)).count();
        (new, words.len())
    };
    let best = input.leaves.iter().enumerate().max_by_key(|(place, leaf)| {
        let (new, all) = new_words(leaf);
        let share = (new * 1_000).checked_div(all).unwrap_or_default();
        let promise = (leaf.score.unwrap_or_default() * 1_000.0) as u64;
        (share, promise, std::cmp::Reverse(leaf.depth), std::cmp::Reverse(*place))
    });
    let Some((_, leaf)) = best else {
        return PickOutput { path: String::new(), reason: "No topic is offered.".to_owned() };
    };
    let (new, all) = new_words(leaf);
    let offered = count(input.leaves.len(), "open topic");
    let reason = format!(
        "Of {offered}, “{}” has most that is not covered yet: {new} of its {} occur in no topic that was researched.",
        short(&leaf.title, 300),
        count(all, "word"),
    );
    PickOutput { path: leaf.path.clone(), reason }
}

/// The words in the titles of covered topics.
fn covered(outline: &str) -> BTreeSet<String> {
    let lines = outline.lines().filter(|line| COVERED.iter().any(|status| line.contains(status)));
    let titles = lines.map(|line| line.trim_start().trim_start_matches("- "));
    titles
        .flat_map(|title| stems(title.rsplit_once('[').map_or(title, |(title, _)| title)).collect::<Vec<_>>())
        .collect()
}
