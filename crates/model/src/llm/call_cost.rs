//! The maximum that one call of a role can use, computed from the settings. Estimates are made of it.

use tree_agent_contract::{CallCost, ModelChoice, ModelName, Profile, RoleCosts};

use super::ask::REPAIRS;
use super::delivery::TEXTS;
use super::effort::Effort;
use super::settings::LlmConfig;

/// Requests of a call that repair its citations.
const CITATIONS: u32 = 1;

impl LlmConfig {
    /// The maximum that one call of each role can use in a run with the model `name` (`llm`, a profile or
    /// `provider:model`); none if the name does not mean a language model. The most expensive model that may answer
    /// counts, including the fallback.
    pub fn max_cost_per_call(&self, name: &str) -> Option<RoleCosts> {
        let named = match ModelChoice::parse(name).ok()? {
            ModelChoice::Profiles => None,
            ModelChoice::Profile(profile) => Some(self.of_profile(profile)?.clone()),
            ModelChoice::Model(model) => Some(model),
            ModelChoice::Default | ModelChoice::Offline | ModelChoice::Scripted(_) => return None,
        };
        let of = |profile| named.as_ref().or_else(|| self.of_profile(profile));
        let tuning = &self.tuning;
        let role = |profiles: &[Profile], context: Option<usize>, rounds: u32, texts: u32| {
            let of = |profile: &Profile| Some((of(*profile)?, tuning.effort_of(*profile)));
            let mut models: Vec<(&ModelName, Option<Effort>)> = profiles.iter().filter_map(of).collect();
            let effort = models.first()?.1;
            models.extend(self.fallback.as_ref().map(|fallback| (fallback, effort)));
            // Every round of tools, every repair, every text of a document and the repair of citations is an answer.
            // Its request holds the prompt and at most as many tokens of history.
            let answers = u64::from(rounds + 1 + REPAIRS + texts);
            let costs: Vec<(u64, Option<u64>)> = models
                .into_iter()
                .map(|(model, effort)| {
                    let facts = self.facts(model);
                    let output = facts.output_limit(tuning.max_output_tokens, effort);
                    let input = facts.own_tokens(2 * facts.prompt(context, output)) as u64;
                    let output = u64::from(output);
                    (input + output, facts.price().map(|price| price.most_micros(input, output)))
                })
                .collect();
            let most = costs.iter().map(|(tokens, _)| *tokens).max()?;
            let dearest = costs.iter().map(|(_, cost)| *cost).collect::<Option<Vec<u64>>>();
            let dearest = dearest.and_then(|all| all.into_iter().max());
            Some(CallCost {
                tokens: answers.saturating_mul(most),
                cost_micros: dearest.map(|cost| answers.saturating_mul(cost)),
            })
        };
        let context = tuning.context;
        let question =
            role(&[Profile::Powerful, Profile::Balanced], context.executor, tuning.tool_rounds, 0)?;
        // A plan may ask for any profile for its workers, and for a better one for everybody else.
        let any = [Profile::Powerful, Profile::Balanced, Profile::Fast];
        Some(RoleCosts {
            plan: role(&[Profile::Powerful, Profile::Balanced], context.planner, 0, 0)?,
            execute: role(&any, context.executor, tuning.tool_rounds, TEXTS + CITATIONS)?,
            aggregate: role(
                &[Profile::Powerful, Profile::Balanced],
                context.aggregator,
                0,
                TEXTS + CITATIONS,
            )?,
            // The document, and the topics below it.
            research: Some(CallCost {
                tokens: question.tokens.saturating_mul(2),
                cost_micros: question.cost_micros.map(|cost| cost.saturating_mul(2)),
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use tree_agent_runtime::config::Problems;

    use super::super::settings::LlmArgs;
    use super::*;

    fn config(args: LlmArgs) -> LlmConfig {
        args.check_with(&mut Problems::default(), &|_| Some("key".into()))
    }

    #[test]
    fn a_call_costs_at_most_every_answer_at_its_longest() {
        let args = LlmArgs {
            model_fast: "openai:gpt-4o-mini".into(),
            model_balanced: "openai:gpt-4o".into(),
            model_context_tokens: "1000".into(),
            model_max_output_tokens: "500".into(),
            model_tool_rounds: "4".into(),
            ..LlmArgs::default()
        };
        let most = config(args.clone()).max_cost_per_call("llm").unwrap();
        // Three answers (two are repairs) of 2,000 tokens in and 500 out, at 2.50 and 10 dollars per million.
        assert_eq!(most.plan, CallCost { tokens: 7_500, cost_micros: Some(3 * (5_000 + 5_000)) });
        // Eight answers more for the texts of documents, and one for citations.
        assert_eq!(most.aggregate, CallCost { tokens: 12 * 2_500, cost_micros: Some(12 * 10_000) });
        // Four rounds of tools more. Its plan may ask for the more expensive model.
        assert_eq!(most.execute, CallCost { tokens: 16 * 2_500, cost_micros: Some(16 * 10_000) });
        // Two questions of as many answers, by the more expensive model.
        let research = CallCost { tokens: 2 * 17_500, cost_micros: Some(2 * 7 * 10_000) };
        assert_eq!(most.research, Some(research));
        let dear = config(LlmArgs { model_fallback: "openai:gpt-4o".into(), ..args.clone() });
        assert_eq!(dear.max_cost_per_call("llm").unwrap().execute.cost_micros, Some(16 * 10_000));
        let other = config(args.clone()).max_cost_per_call("openai:made-up").unwrap();
        assert_eq!(other.plan, CallCost { tokens: 7_500, cost_micros: None }, "its price is unknown");
        let own = config(LlmArgs { model_base_url: "http://127.0.0.1:1/v1".into(), ..args });
        assert_eq!(
            own.max_cost_per_call("llm").unwrap().plan.cost_micros,
            None,
            "prices are those of the provider"
        );
        assert_eq!(config(LlmArgs::default()).max_cost_per_call("llm"), None);
        assert_eq!(config(LlmArgs::default()).max_cost_per_call("offline"), None);
    }
}
