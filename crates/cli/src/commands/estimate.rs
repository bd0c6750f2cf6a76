//! `run --estimate`: what a run can use at the most, before anything is spent.

use serde::Serialize;
use tree_agent_contract::{Budgets, Estimate, RoleCosts};
use tree_agent_model::LlmConfig;

use crate::Context;
use crate::error::CliError;
use crate::view::paint::duration;
use crate::view::usage::{dollars, grouped};

/// What is printed with `-o jsonl`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Printed<'a> {
    /// Empty: the server's default, which is not known here.
    model: &'a str,
    #[serde(flatten)]
    estimate: &'a Estimate,
    /// What one call of each role can use, when the model is known.
    per_call: Option<RoleCosts>,
}

/// Prints the bounds of a run with `budgets` on `model`; an empty name is one that is not known.
pub(super) fn print(
    context: &Context,
    budgets: &Budgets,
    model: &str,
    config: &LlmConfig,
) -> Result<(), CliError> {
    let per_call = match model.split(':').next() {
        Some("offline" | "scripted") => Some(RoleCosts::FREE),
        _ => config.max_cost_per_call(model),
    };
    let estimate = Estimate::of(budgets, per_call.as_ref());
    if context.out.is_jsonl() {
        return context.out.json(&Printed { model, estimate: &estimate, per_call });
    }
    for line in lines(&estimate, model, per_call.is_some()) {
        context.out.line(line)?;
    }
    Ok(())
}

fn lines(estimate: &Estimate, model: &str, model_is_known: bool) -> Vec<String> {
    let model =
        if model.is_empty() { "the server's default; name one with --model to bound more" } else { model };
    let open = |flag: &str, why: &str| format!("no limit{why}; set {flag}");
    let bounded = |amount: Option<String>, flag: &str, why: &str| amount.unwrap_or_else(|| open(flag, why));
    let unpriced = if model_is_known { " (the price of this model is unknown)" } else { "" };
    let calls = format!(
        "{} plan, {} execute, {} aggregate; each made up to {} times",
        grouped(estimate.plan_calls),
        grouped(estimate.execute_calls),
        grouped(estimate.aggregate_calls),
        estimate.attempts
    );
    let rows = [
        ("model", model.to_owned()),
        ("nodes", format!("{}, down to level {}", grouped(estimate.nodes), estimate.depth)),
        ("role calls", calls),
        ("tokens", bounded(estimate.tokens.map(grouped), "--max-tokens", "")),
        ("cost", bounded(estimate.cost_micros.map(dollars), "--max-cost-micros", unpriced)),
        ("tool calls", bounded(estimate.tool_calls.map(grouped), "--max-tool-calls", "")),
        (
            "wall clock",
            format!(
                "{}, and up to {} more to aggregate what exists",
                duration(estimate.wall_clock_ms),
                duration(estimate.ends_within_ms - estimate.wall_clock_ms)
            ),
        ),
    ];
    let mut out = vec!["At the most; a call in flight may exceed a budget by what it uses:".to_owned()];
    out.extend(rows.into_iter().map(|(name, text)| format!("  {name:<11} {text}")));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_bounded_names_the_flag() {
        let budgets = Budgets { max_nodes: 10, max_depth: 1, ..Budgets::default() };
        let text = lines(&Estimate::of(&budgets, None), "", false).join("\n");
        assert!(text.contains("nodes       10, down to level 1"), "{text}");
        assert!(text.contains("2 plan, 10 execute, 2 aggregate; each made up to 3 times"), "{text}");
        assert!(text.contains("tokens      no limit; set --max-tokens"), "{text}");
        assert!(text.contains("cost        no limit; set --max-cost-micros"), "{text}");
        assert!(text.contains("wall clock  30m00s, and up to 5m00s more"), "{text}");
        let free = lines(&Estimate::of(&budgets, Some(&RoleCosts::FREE)), "offline", true).join("\n");
        assert!(free.contains("tokens      0") && free.contains("cost        $0"), "{free}");
    }
}
