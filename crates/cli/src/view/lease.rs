//! The budget of a subtree in a few characters: `≤ 50,000 tokens`, and `! maxTokens` once it is used up.

use tree_agent_contract::SubtreeBudget;
use tree_agent_contract::graph::Lease;

use super::line::Line;
use super::paint::{Paint, duration};
use super::usage::{dollars, grouped};

/// The limits, such as `50,000 tokens, $0.20, 12 tool calls, 10m`; empty if there are none.
pub(crate) fn limits(budget: &SubtreeBudget) -> String {
    let parts = [
        budget.max_tokens.map(|n| format!("{} tokens", grouped(n))),
        budget.max_cost_micros.map(dollars),
        budget.max_tool_calls.map(|n| format!("{} tool calls", grouped(n))),
        budget.max_wall_clock_ms.map(duration),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Adds what is said about a lease to the line of its node.
pub(crate) fn show(lease: &Lease, line: &mut Line) {
    let limits = limits(&lease.limits);
    if !limits.is_empty() {
        line.after(format!("≤ {limits}"), Paint::Dim);
    }
    if let Some(budget) = &lease.exhausted {
        line.after(format!("! {budget}"), Paint::Warn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_limits_that_are_set_are_shown() {
        let budget = SubtreeBudget {
            max_tokens: Some(50_000),
            max_wall_clock_ms: Some(600_000),
            ..SubtreeBudget::default()
        };
        assert_eq!(limits(&budget), format!("50,000 tokens, {}", duration(600_000)));
        assert_eq!(limits(&SubtreeBudget::default()), "");
    }
}
