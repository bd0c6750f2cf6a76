//! Models that reason: how much they are asked to, the Responses API, and what becomes of their thoughts.

use std::time::Duration;

use serde_json::{Value, json};
use tree_agent_contract::role::{PlannerMode, RoleErrorKind};
use tree_agent_model::LlmArgs;

use crate::provider::{Answer, Provider, status, text, thought_of};
use crate::support::*;

/// A server of the Responses API, whose model reasons.
fn responses(provider: &Provider, test: &str) -> LlmArgs {
    let entry = json!({"openai:test-model": {"api": "responses", "reasoning": "always", "context": 400_000, "output": 128_000}});
    with_table(served_by(provider), test, &entry)
}

fn claude(provider: &Provider, test: &str) -> LlmArgs {
    let args = LlmArgs { model_balanced: "anthropic:claude-sonnet-4-6".into(), ..anthropic(provider) };
    let entry =
        json!({"anthropic:claude-sonnet-4-6": {"reasoning": "asked", "context": 200_000, "output": 64_000}});
    with_table(args, test, &entry)
}

fn gemini_thinks(provider: &Provider, test: &str) -> LlmArgs {
    let entry = json!({"gemini:gemini-test": {"reasoning": "always", "output": 65_536}});
    with_table(gemini(provider), test, &entry)
}

fn search() -> Vec<(&'static str, &'static str, String)> {
    vec![("call_1", "search_documents", json!({"query": "tides"}).to_string())]
}

#[tokio::test]
async fn the_responses_api_is_asked_in_its_own_words() {
    let provider = Provider::new(vec![thought_of(&direct().to_string(), Vec::new())]).await;
    let args = LlmArgs { model_effort: "powerful=high,fast=low".into(), ..responses(&provider, "words") };
    let outcome = Service::new(&args).plan(&plan_input("What is it?")).await;
    assert_eq!(outcome.output().mode, PlannerMode::Execute);
    assert!(outcome.scratchpad.contains("Small."), "{}", outcome.scratchpad);
    assert!(!outcome.scratchpad.contains("thought 0"), "thoughts are not shown");
    let usage = &outcome.usage[0];
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.cached_tokens), (1_000, 50, 400));

    let asked = &provider.asked()[0];
    let body = &asked.body;
    assert_eq!(asked.headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!((&body["store"], &body["stream"]), (&json!(false), &json!(true)));
    assert_eq!(body["reasoning"]["effort"], "high", "the planner of the root is powerful");
    assert!(body["reasoning"]["summary"].is_string());
    assert_eq!(body["text"]["format"]["type"], "json_schema");
    assert!(body["instructions"].as_str().is_some_and(|text| text.len() > 500));
    assert!(body["input"].to_string().contains("What is it?"));
    // Reasoning is not charged against the answer: 16,384 tokens for it, and 32,768 for thoughts of a high effort.
    assert_eq!(body["max_output_tokens"], 16_384 + 32_768);
    assert!(body.get("messages").is_none() && body.get("max_tokens").is_none());
}

#[tokio::test]
async fn thoughts_go_back_with_the_calls_that_they_led_to() {
    let answers = || vec![thought_of("", search()), text(&executed())];
    let provider = Provider::new(answers()).await;
    let outcome = Service::new(&responses(&provider, "tools")).execute(&execute_input("Tides?")).await;
    outcome.output();
    assert_eq!(outcome.requested.len(), 1);
    let input = provider.asked()[1].body["input"].as_array().unwrap().clone();
    let at = |kind: &str| input.iter().position(|item| item["type"] == kind).expect(kind);
    let (thoughts, call, answer) = (at("reasoning"), at("function_call"), at("function_call_output"));
    assert!(thoughts < call && call < answer);
    assert_eq!(input[thoughts]["encrypted_content"], "c2VhbGVk");
    assert_eq!((&input[call]["call_id"], &input[answer]["call_id"]), (&json!("call_1"), &json!("call_1")));
    assert!(input[answer]["output"].to_string().contains("High water"), "{}", input[answer]);

    let provider = Provider::new(answers()).await;
    let args = LlmArgs { model_effort: "low".into(), ..claude(&provider, "tools-claude") };
    let outcome = Service::new(&args).execute(&execute_input("Tides?")).await;
    outcome.output();
    let asked = provider.asked();
    let assistant = &asked[1].body["messages"][1];
    assert_eq!(assistant["content"][0]["type"], "thinking", "{assistant}");
    assert_eq!(assistant["content"][0]["signature"], "c2lnbmVk");
    assert_eq!(assistant["content"].as_array().unwrap().last().unwrap()["type"], "tool_use");
}

#[tokio::test]
async fn effort_is_that_of_the_profile() {
    let provider = Provider::always(text(&direct())).await;
    let args = LlmArgs { model_effort: "powerful=medium".into(), ..claude(&provider, "effort") };
    let service = Service::new(&args);
    service.plan(&plan_input("The root")).await.output();
    let mut below = plan_input("Below");
    below.call.depth = 1;
    service.plan(&below).await.output();
    let asked = provider.asked();
    assert_eq!(asked[0].body["output_config"]["effort"], "medium");
    assert_eq!(asked[0].body["thinking"]["type"], "adaptive");
    assert_eq!(asked[0].body["max_tokens"], 16_384 + 16_384);
    // No effort is set for the profile balanced, and this model reasons only when it is asked to.
    assert!(asked[1].body.get("thinking").is_none(), "{}", asked[1].body);
    assert_eq!(asked[1].body["max_tokens"], 16_384);

    let provider = Provider::always(text(&direct())).await;
    let args = LlmArgs { model_effort: "low".into(), ..gemini_thinks(&provider, "effort-gemini") };
    Service::new(&args).plan(&plan_input("The root")).await.output();
    let config = &provider.asked()[0].body["generationConfig"];
    assert!(config["thinkingConfig"]["thinkingBudget"].as_u64().is_some_and(|n| n > 0), "{config}");
    assert_eq!(config["maxOutputTokens"], 16_384 + 8_192);

    // A model that cannot reason, as far as is known, is not asked to.
    let provider = Provider::always(text(&direct())).await;
    let args = LlmArgs { model_effort: "high".into(), ..served_by(&provider) };
    Service::new(&args).plan(&plan_input("The root")).await.output();
    let body = &provider.asked()[0].body;
    assert!(body.get("reasoning_effort").is_none() && body["max_tokens"] == 8_192, "{body}");
}

/// The thoughts take longer than a silence may last.
#[tokio::test]
async fn thoughts_are_signs_of_life() {
    let thinks = || Answer::Thinks {
        thoughts: 8,
        apart: Duration::from_millis(500),
        text: direct().to_string(),
        calls: Vec::new(),
    };
    let patient = |args: LlmArgs| LlmArgs {
        model_stall_seconds: "3".into(),
        model_tries: "1".into(),
        model_effort: "low".into(),
        ..args
    };
    let all = [responses, claude, gemini_thinks].map(|served| async move {
        let provider = Provider::new(vec![thinks()]).await;
        let outcome =
            Service::new(&patient(served(&provider, "alive"))).plan(&plan_input("What is it?")).await;
        assert_eq!(outcome.output().mode, PlannerMode::Execute);
    });
    futures::future::join_all(all).await;
}

#[tokio::test]
async fn where_thoughts_may_not_be_shown_they_are_not_asked_for() {
    let body = r#"{"error":{"message":"Your organization must be verified to generate reasoning summaries.","type":"invalid_request_error","param":"reasoning.summary"}}"#;
    let provider = Provider::new(vec![status(400, body), text(&direct()), text(&direct())]).await;
    let args = LlmArgs { model_effort: "medium".into(), ..responses(&provider, "unverified") };
    let service = Service::new(&args);
    service.plan(&plan_input("What is it?")).await.output();
    service.plan(&plan_input("And that?")).await.output();
    let asked: Vec<Value> = provider.asked().into_iter().map(|asked| asked.body).collect();
    assert_eq!(asked.len(), 3, "it is tried once");
    assert!(asked[0]["reasoning"]["summary"].is_string());
    for later in &asked[1..] {
        assert_eq!(later["reasoning"], json!({"effort": "medium"}));
        assert_eq!(later["include"], json!(["reasoning.encrypted_content"]), "they still go back");
    }
}

#[tokio::test]
async fn answers_of_the_responses_api_that_fail_are_told_apart() {
    let failed = |message: &str| Answer::Text(message.to_owned(), "failed");
    let unfinished = Answer::Text("{\"decision\": {\"mo".into(), "unfinished");
    let answers = vec![
        failed("Rate limit reached, try again"),
        unfinished,
        failed("The server had an error"),
        text(&direct()),
    ];
    let provider = Provider::new(answers).await;
    let args = LlmArgs { model_tries: "4".into(), ..responses(&provider, "failed") };
    let outcome = Service::new(&args).plan(&plan_input("What is it?")).await;
    assert_eq!(outcome.output().mode, PlannerMode::Execute);
    assert_eq!((provider.asked().len(), outcome.purposes()), (4, vec!["plan"]));

    let provider = Provider::always(failed("Rate limit reached, try again")).await;
    let outcome = Service::new(&responses(&provider, "limited")).plan(&plan_input("What is it?")).await;
    assert_eq!(outcome.error().kind, RoleErrorKind::Overloaded);
    assert!(outcome.error().message.contains("Rate limit reached"), "{}", outcome.error());

    // An answer that is cut is repaired, and the model is told its limit without the room for thoughts.
    let cut = Answer::Text("{\"decision\": {\"mode\": \"exec".into(), "length");
    let provider = Provider::new(vec![cut, text(&direct())]).await;
    Service::new(&responses(&provider, "cut")).plan(&plan_input("What is it?")).await.output();
    let said = provider.asked()[1].said();
    assert!(said.contains("limit of 16384 tokens"), "{said}");
}

#[tokio::test]
async fn the_window_of_the_model_is_the_budget_of_its_prompts() {
    let provider = Provider::always(text(&direct())).await;
    let entry = json!({"openai:test-model": {"context": 8_192, "output": 2_048}});
    let args = with_table(served_by(&provider), "window", &entry);
    let mut input = plan_input("Compare the parts");
    input.call.scratchpad_tail = "old notes ".repeat(6_000);
    Service::new(&args).plan(&input).await.output();
    Service::new(&served_by(&provider)).plan(&input).await.output();
    let asked = provider.asked();
    assert_eq!(asked[0].body["max_tokens"], 2_048);
    assert!(asked[0].said().contains("Left out of this prompt"));
    assert!(asked[0].said().len() * 2 < asked[1].said().len(), "{}", asked[0].said().len());
    assert!(!asked[1].said().contains("Left out of this prompt"), "24,000 tokens where nothing is known");
}

#[tokio::test]
async fn a_model_is_asked_for_by_the_name_that_was_checked_and_priced() {
    for name in ["gpt-4.1-high", "qwen3-max", "x::gpt-4.1", ":::gpt-4.1", "org/m-none", "deepseek-r1-zero"] {
        for (of, price) in [("openai", served_by as fn(&Provider) -> LlmArgs), ("anthropic", anthropic)] {
            let provider = Provider::new(vec![text(&executed())]).await;
            let args = LlmArgs { model_balanced: format!("{of}:{name}"), ..price(&provider) };
            Service::new(&args).execute(&execute_input("Tides?")).await;
            let body = &provider.asked()[0].body;
            assert_eq!(body["model"], name, "{of}");
            for effort in ["reasoning_effort", "reasoning", "thinking", "output_config"] {
                assert!(body.get(effort).is_none(), "{of} {name}: {body}");
            }
        }
    }
}

#[tokio::test]
async fn what_a_model_is_sent_thinks_and_answers_is_kept_if_the_run_asks_for_it() {
    let answer = || thought_of(&direct().to_string(), Vec::new());
    let cases: [fn(&Provider, &str) -> LlmArgs; 3] = [
        responses,
        |provider, test| LlmArgs { model_effort: "low".into(), ..claude(provider, test) },
        |provider, _| served_by(provider),
    ];
    for (n, args) in cases.into_iter().enumerate() {
        let provider = Provider::new(vec![answer(), answer()]).await;
        let mut service = Service::new(&args(&provider, "kept"));
        let outcome = service.plan(&plan_input("What is it?")).await;
        assert_eq!((outcome.usage.len(), outcome.prompts.len()), (1, 0), "nobody has asked for it");
        service.keeps_prompts = true;
        let outcome = service.plan(&plan_input("What is it?")).await;
        let [prompt] = &outcome.prompts[..] else { panic!("one call: {:?}", outcome.output) };
        let places = [
            "# Sent: System",
            "# Sent: User",
            "What is it?",
            "# Thoughts",
            "thought 0",
            "# Answer",
            "Small.",
        ];
        let found: Vec<_> =
            places.iter().map(|text| prompt.find(text).unwrap_or_else(|| panic!("{n}: {text}"))).collect();
        assert!(found.is_sorted(), "{prompt}");
        assert!(!prompt.contains(KEY));
    }
}
