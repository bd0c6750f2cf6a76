//! Gemini: what it is sent, and what becomes of its answers.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tree_agent_contract::ModelProblemKind;
use tree_agent_contract::role::{PlannerMode, RoleErrorKind};
use tree_agent_model::LlmArgs;

use crate::provider::{Answer, Provider, status, text};
use crate::support::*;

/// A wrong key, as Google refuses it: not with 401.
fn bad_key() -> Answer {
    let body = json!({"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.",
        "status": "INVALID_ARGUMENT", "details": [
            {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID",
             "domain": "googleapis.com", "metadata": {"service": "generativelanguage.googleapis.com", "key": KEY}}]}});
    status(400, &body.to_string())
}

/// Too many requests; when to come back stands in the body, not in a header.
fn busy(after: &str) -> Answer {
    let body = json!({"error": {"code": 429, "message": "You exceeded your current quota.",
        "status": "RESOURCE_EXHAUSTED", "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": after}]}});
    status(429, &body.to_string())
}

fn texts(content: &Value) -> String {
    let parts = content["parts"].as_array().expect("parts");
    parts.iter().filter_map(|part| part["text"].as_str()).collect()
}

#[tokio::test]
async fn an_answer_keeps_to_the_schema_streams_and_is_counted() {
    let provider = Provider::new(vec![text(&plan(&[band(&[step("a", "A"), step("b", "B")])]))]).await;
    let outcome = Service::new(&gemini(&provider)).plan(&plan_input("Compare the tides")).await;
    assert_eq!(outcome.output().mode, PlannerMode::Plan);
    assert_eq!(outcome.output().plan.as_ref().unwrap().bands[0].steps.len(), 2);
    assert!(outcome.scratchpad.contains("Two parts, side by side."), "{}", outcome.scratchpad);
    assert!(outcome.pieces > 1, "text arrives while it is written");
    let [usage] = &outcome.usage[..] else { panic!("{:?}", outcome.usage) };
    assert_eq!(usage.model, "gemini:gemini-test");
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.cached_tokens), (1000, 70, 400));
    assert_eq!(outcome.purposes(), ["plan"], "nothing is estimated");

    let asked = &provider.asked()[0];
    assert_eq!(asked.headers["x-goog-api-key"], KEY);
    assert!(!asked.said().contains("0123456789"));
    let config = &asked.body["generationConfig"];
    assert_eq!(config["responseMimeType"], "application/json");
    let schema = config["responseJsonSchema"].to_string();
    assert!(schema.contains("modeReason") && schema.contains("anyOf"), "{schema}");
    assert!(config["maxOutputTokens"].as_u64().is_some_and(|n| n > 0), "{config}");
    assert!(texts(&asked.body["systemInstruction"]).contains("planner"));
    assert_eq!(asked.body["contents"][0]["role"], "user");
    assert!(texts(&asked.body["contents"][0]).contains("Compare the tides"));
}

#[tokio::test]
async fn tools_are_called_and_the_schema_is_demanded_once_none_may_be() {
    let search = |id, query: &str| (id, "search_documents", json!({"query": query}).to_string());
    let calls = vec![search("", "tides"), search("", "rules")];
    let provider = Provider::new(vec![Answer::Tools("I search. ", calls), text(&executed())]).await;
    let args = LlmArgs { model_tool_rounds: "1".into(), ..gemini(&provider) };
    let outcome = Service::new(&args).execute(&execute_input("When is high water?")).await;
    assert_eq!(outcome.output().result.summary, "High water is at noon.");
    assert_eq!(outcome.results.len(), 2);
    assert!(outcome.results.iter().all(|result| result.ok));
    let ids: Vec<_> = outcome.requested.iter().map(|call| &call.call_id).collect();
    assert_ne!(ids[0], ids[1], "Gemini names no calls, and still they are told apart");

    let asked = provider.asked();
    let [first, second] = &asked[..] else { panic!("{} requests", asked.len()) };
    let declared = first.body["tools"].to_string();
    assert!(declared.contains("functionDeclarations") && declared.contains("read_document"), "{declared}");
    assert!(
        first.body["generationConfig"].get("responseJsonSchema").is_none(),
        "Gemini refuses both together"
    );
    assert!(second.body["generationConfig"].get("responseJsonSchema").is_some());
    assert_eq!(second.body["toolConfig"]["functionCallingConfig"]["mode"], "NONE");
    let contents = second.body["contents"].as_array().unwrap();
    let parts = |kind: &str| -> Vec<Value> {
        let all = contents.iter().filter_map(|c| c["parts"].as_array()).flatten();
        all.filter(|part| part.get(kind).is_some()).cloned().collect()
    };
    let called = parts("functionCall");
    assert_eq!(called.len(), 2);
    assert_eq!(called[0]["functionCall"]["args"]["query"], "tides");
    assert!(
        called.iter().all(|part| part["thoughtSignature"] == "c2lnbmVk"),
        "Gemini wants them back: {called:?}"
    );
    let told = parts("functionResponse");
    assert_eq!(told.len(), 2);
    assert_eq!(told[0]["functionResponse"]["name"], "search_documents");
    assert!(told[0].to_string().contains("High water is at noon"), "{}", told[0]);
}

#[tokio::test]
async fn a_refusal_is_a_typed_failure_whether_of_the_answer_or_of_the_prompt() {
    let filtered = Answer::Text("{\"decision\": {\"mode\": ".into(), "safety");
    let provider = Provider::always(filtered).await;
    let outcome = Service::new(&gemini(&provider)).plan(&plan_input("Compare")).await;
    assert_eq!(outcome.error().kind, RoleErrorKind::InvalidOutput);
    assert!(outcome.error().message.contains("a content filter ended the answer"), "{}", outcome.error());
    assert_eq!(provider.asked().len(), 3, "the answer and two repairs");
    assert_eq!(outcome.usage.len(), 3, "what was refused was paid for");

    let provider = Provider::always(Answer::Text(String::new(), "blocked")).await;
    let outcome = Service::new(&gemini(&provider)).plan(&plan_input("Compare")).await;
    assert_eq!(outcome.error().kind, RoleErrorKind::Rejected);
    assert!(outcome.error().message.contains("blocked the prompt"), "{}", outcome.error());
    assert_eq!(provider.asked().len(), 1, "the same prompt is not sent again");
}

#[tokio::test]
async fn a_wrong_key_is_told_from_other_bad_requests_and_not_shown() {
    let provider = Provider::always(bad_key()).await;
    provider.models(bad_key());
    let problem = language(&gemini(&provider)).check_keys().await.unwrap_err();
    assert_eq!(problem.kind, ModelProblemKind::KeyRefused);
    assert!(problem.message.contains("GEMINI_API_KEY was refused"), "{problem}");
    let outcome = Service::new(&gemini(&provider)).plan(&plan_input("Compare")).await;
    assert_eq!(outcome.error().kind, RoleErrorKind::Rejected, "it is not retried");
    assert!(outcome.error().message.contains("GEMINI_API_KEY was refused"), "{}", outcome.error());
    assert_eq!(provider.asked().len(), 1);
    assert!(!format!("{problem:?}{outcome:?}").contains("0123456789"));
}

#[tokio::test]
async fn the_time_to_come_back_is_read_from_the_body() {
    let provider = Provider::new(vec![busy("0.4s"), text(&direct())]).await;
    let begun = Instant::now();
    let outcome = Service::new(&gemini(&provider)).plan(&plan_input("What is it?")).await;
    assert_eq!(outcome.output().mode, PlannerMode::Execute);
    assert!(begun.elapsed() >= Duration::from_millis(400), "RetryInfo was kept: {:?}", begun.elapsed());
    assert_eq!(provider.asked().len(), 2);
}

#[tokio::test]
async fn an_answer_that_stops_in_the_middle_is_asked_for_again() {
    let half = "{\"decision\": {\"mode\": \"execute\", \"modeReason\": \"One lo";
    for bad in [
        // Nothing tells this from an end, but that Gemini always says why it ended.
        Answer::Text(half.into(), "unfinished"),
        Answer::Break(half),
        Answer::Stall(half),
    ] {
        let provider = Provider::new(vec![bad.clone(), text(&direct())]).await;
        let outcome = Service::new(&gemini(&provider)).plan(&plan_input("What is it?")).await;
        assert_eq!(outcome.output().mode, PlannerMode::Execute, "{bad:?}");
        assert_eq!(outcome.purposes(), ["plan"], "it is no answer to be repaired: {bad:?}");
        assert_eq!(provider.asked().len(), 2, "{bad:?}");
    }
    // One that was cut at its limit has ended, and is repaired.
    let provider = Provider::new(vec![Answer::Text(half.into(), "length"), text(&direct())]).await;
    let outcome = Service::new(&gemini(&provider)).plan(&plan_input("What is it?")).await;
    assert_eq!(outcome.purposes(), ["plan", "plan (repair 1)"]);
}

#[tokio::test]
async fn tokens_are_estimated_when_gemini_does_not_say() {
    let provider = Provider::new(vec![Answer::NoUsage(direct().to_string())]).await;
    let outcome = Service::new(&gemini(&provider)).plan(&plan_input("What is it?")).await;
    assert_eq!(outcome.purposes(), ["plan, tokens estimated"]);
    assert!(
        outcome.usage[0].input_tokens > 100 && outcome.usage[0].output_tokens > 10,
        "{:?}",
        outcome.usage
    );
}
