//! `run --estimate`: what a run can use at most, before anything is spent.

use serde::Serialize;
use tree_agent_contract::{Estimate, ModelChoice, RoleCosts, RunSpec};
use tree_agent_model::LlmConfig;
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;

use crate::client::present;
use crate::context::Context;
use crate::error::CliError;
use crate::view::paint::duration;
use crate::view::printable::one_line;
use crate::view::usage::{dollars, grouped};

/// A run as it was asked for.
pub(super) struct Asked {
    /// With every default of this program.
    pub(super) spec: RunSpec,
    /// What was given; the server fills in the rest.
    pub(super) budgets: pb::Budgets,
    /// The same of a search.
    pub(super) search: Option<pb::SearchConfig>,
    /// Whether the answer is verified; none if that is left to the server.
    pub(super) verify: Option<bool>,
    /// Whether prompts are kept; none if that is left to the server.
    pub(super) keep_prompts: Option<bool>,
    /// Whether a run without a project may write into any.
    pub(super) write: Option<bool>,
}

/// An estimate as `-o json` prints it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunEstimate {
    /// The model of such a run; empty when it is not known.
    model: String,
    #[serde(flatten)]
    estimate: Estimate,
    /// What one call of each role can use, when the model is known.
    per_call: Option<RoleCosts>,
    /// What its user should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// The estimate of the server that would do what is `asked`, of which it fills in what is absent.
pub(super) async fn of_server(context: &Context, asked: Asked) -> Result<RunEstimate, CliError> {
    let client = context.connect().await?;
    let Asked { spec, budgets, search, verify, .. } = asked;
    let message = pb::EstimateRunRequest {
        objective: spec.objective,
        strategy: spec.strategy.to_wire(),
        context: Some(spec.context.to_wire()),
        budgets: Some(budgets),
        model: spec.model,
        search,
        verify,
    };
    let answer = client.ask(message).await?;
    Ok(RunEstimate {
        model: answer.model,
        warnings: answer.warnings,
        estimate: Estimate::from_wire(present(answer.estimate, "estimate")?)?,
        per_call: Wire::from_wire(answer.per_call)?,
    })
}

/// The estimate of a run in this process. Nothing is started for it.
pub(super) fn of_this_process(spec: &RunSpec, verify: Option<bool>, models: &LlmConfig) -> RunEstimate {
    let model = match spec.model.trim() {
        "" if models.is_set() => "llm",
        "" => "offline",
        name => name,
    };
    let language = ModelChoice::parse(model).is_ok_and(|choice| choice.is_language() == Some(true));
    let spec = &RunSpec { verify: verify.unwrap_or(language), ..spec.clone() };
    let per_call = match model.split(':').next() {
        Some("offline" | "scripted") => Some(RoleCosts::FREE),
        _ => models.max_cost_per_call(model),
    };
    let warnings = per_call.and_then(|costs| costs.unpriced(&spec.budgets, model)).into_iter().collect();
    let estimate = Estimate::of(spec, per_call.as_ref());
    RunEstimate { model: model.to_owned(), estimate, per_call, warnings }
}

/// Prints an estimate.
pub(super) fn print(context: &Context, estimate: &RunEstimate) -> Result<(), CliError> {
    if context.out.is_json() {
        return context.out.json(estimate);
    }
    let RunEstimate { model, estimate, per_call, warnings } = estimate;
    warnings.iter().for_each(|warning| context.out.warn(one_line(&format!("warning: {warning}"))));
    lines(estimate, model, per_call.is_some()).into_iter().try_for_each(|line| context.out.line(line))
}

fn lines(estimate: &Estimate, model: &str, model_is_known: bool) -> Vec<String> {
    let model = match model {
        "" => "not known; name one with --model for a closer estimate".to_owned(),
        name => one_line(name),
    };
    let open = |flag: &str, why: &str| format!("no limit{why}; set {flag}");
    let bounded = |amount: Option<String>, flag: &str, why: &str| amount.unwrap_or_else(|| open(flag, why));
    let unpriced = if model_is_known { " (the price of this model is unknown)" } else { "" };
    let mut calls = vec![
        (estimate.plan_calls, "plan"),
        (estimate.execute_calls, "execute"),
        (estimate.aggregate_calls, "aggregate"),
    ];
    let is_search = estimate.research_calls > 0;
    if is_search {
        calls.retain(|(calls, _)| *calls > 0);
        calls.push((estimate.research_calls, "research (2 questions each)"));
        calls.push((estimate.pick_calls, "pick"));
    }
    if estimate.verify_calls > 0 {
        calls.push((estimate.verify_calls, "verify"));
    }
    let calls: Vec<String> = calls.into_iter().map(|(n, name)| format!("{} {name}", grouped(n))).collect();
    let calls = format!("{}; each made up to {} times", calls.join(", "), estimate.attempts);
    let mut nodes = format!("{}, down to level {}", grouped(estimate.nodes), estimate.depth);
    if is_search {
        nodes.push_str("; --max-nodes and --max-depth bound them");
    } else if estimate.plan_calls > 0 && model != "offline" {
        nodes.push_str("; topics of steps that are searches come on top, up to --max-nodes");
    }
    let rows = [
        ("model", model),
        ("nodes", nodes),
        ("role calls", calls),
        ("tokens", bounded(estimate.tokens.map(grouped), "--max-tokens", "")),
        ("cost", bounded(estimate.cost_micros.map(dollars), "--max-cost", unpriced)),
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
    let mut out =
        vec!["Upper bounds; a call that is in flight when a budget is used up may exceed them:".to_owned()];
    out.extend(rows.into_iter().map(|(name, text)| format!("  {name:<11} {text}")));
    out
}

#[cfg(test)]
mod tests {
    use tree_agent_contract::{Budgets, SearchConfig};

    use super::*;

    #[test]
    fn what_is_not_bounded_names_the_flag() {
        let budgets = Budgets { max_nodes: 10, max_depth: 1, ..Budgets::default() };
        let text = lines(&Estimate::of_tree(&budgets, false, None), "", false).join("\n");
        assert!(text.contains("nodes       10, down to level 1"), "{text}");
        assert!(text.contains("2 plan, 10 execute, 2 aggregate; each made up to 3 times"), "{text}");
        assert!(text.contains("tokens      no limit; set --max-tokens"), "{text}");
        assert!(text.contains("cost        no limit; set --max-cost"), "{text}");
        assert!(text.contains("wall clock  30m00s, and up to 5m00s more"), "{text}");
        let free =
            lines(&Estimate::of_tree(&budgets, true, Some(&RoleCosts::FREE)), "offline", true).join("\n");
        assert!(free.contains("tokens      0") && free.contains("cost        $0"), "{free}");
        assert!(text.contains("steps that are searches come on top") && !free.contains("searches"), "{text}");
    }

    #[test]
    fn a_search_counts_researches_and_picks() {
        let budgets = Budgets { max_nodes: 20, ..Budgets::default() };
        let search = SearchConfig::default();
        let text = lines(&Estimate::of_search(&budgets, &search, false, None), "", false).join("\n");
        assert!(text.contains("20, down to level 4; --max-nodes and --max-depth bound them"), "{text}");
        let calls = "1 aggregate, 20 research (2 questions each), 72 pick; each made up to 3 times";
        assert!(text.contains(calls), "{text}");
    }
}
