//! Facts in a refusal, or in an answer that is none, are used: the next request does what they ask for.

use serde_json::json;
use tree_agent_contract::role::RoleErrorKind;
use tree_agent_model::LlmArgs;

use crate::provider::{Answer, Asked, Provider, status, text};
use crate::support::*;

/// Roughly, as servers count.
fn tokens(asked: &Asked) -> u64 {
    asked.body["messages"].to_string().len() as u64 / 4
}

fn most(asked: &Asked) -> u64 {
    asked.body["max_tokens"].as_u64().unwrap()
}

#[tokio::test]
async fn a_context_that_a_refusal_names_is_kept_to_by_all_later_requests() {
    let said = r#"{"error": "greater than the context length (n_keep: 10247 >= n_ctx: 4096). Try a shorter prompt."}"#;
    let provider = Provider::by(move |asked| match tokens(asked) + most(asked) > 4_096 {
        true => status(400, said),
        false => text(&two_steps()),
    })
    .await;
    let mut input = plan_input("Compare the parts");
    input.call.scratchpad_tail = "old notes ".repeat(3_000);
    let service = Service::new(&LlmArgs { model_max_output_tokens: "3000".into(), ..served_by(&provider) });
    service.plan(&input).await.output();
    service.plan(&input).await.output();
    let asked = provider.asked();
    assert_eq!(asked.len(), 3, "once refused, then shorter, and the second call begins so");
    assert!(most(&asked[1]) <= 2_048 && tokens(&asked[1]) < tokens(&asked[0]), "{:?}", asked[1].said().len());
}

#[tokio::test]
async fn a_fallback_has_its_own_chance_with_a_prompt_that_is_too_long() {
    let long = status(400, r#"{"error":{"code":"context_length_exceeded"}}"#);
    let provider = Provider::by(move |asked| match asked.body["model"].as_str() {
        Some("larger") => text(&two_steps()),
        _ => long.clone(),
    })
    .await;
    let args = LlmArgs { model_fallback: "openai:larger".into(), ..served_by(&provider) };
    let outcome = Service::new(&args).plan(&plan_input("Compare the parts")).await;
    outcome.output();
    let models: Vec<String> =
        provider.asked().iter().map(|asked| asked.body["model"].as_str().unwrap().to_owned()).collect();
    assert_eq!(models, ["test-model", "test-model", "larger"]);
}

#[tokio::test]
async fn blanks_without_end_are_cut_and_asked_again_without_a_schema() {
    let chunk = |content: &str| {
        format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"content": content}}]}))
    };
    let blanks = chunk("{\"decision\"") + &chunk(&"\n    ".repeat(40)).repeat(400);
    let provider = Provider::by(move |asked| match asked.body.get("response_format") {
        Some(_) => Answer::Raw("text/event-stream", blanks.clone()),
        None => text(&two_steps()),
    })
    .await;
    let outcome = Service::new(&served_by(&provider)).plan(&plan_input("Compare the parts")).await;
    outcome.output();
    assert_eq!(provider.asked().len(), 2);
    assert!(outcome.scratchpad.contains("without an enforced schema"), "{}", outcome.scratchpad);
}

#[tokio::test]
async fn a_character_that_is_cut_between_two_events_is_whole() {
    let answer = direct().to_string().replace("notes", "not\\ud83d\\ude00es");
    let event = |content: &str| {
        // The halves of a character are written as they come, which is no valid JSON alone.
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{content}\"}}}}]}}\n\n")
    };
    let escaped = json!(answer).to_string().replace("\\\\ud83d", "\\ud83d").replace("\\\\ude00", "\\ude00");
    let escaped = escaped.trim_matches('"');
    let body = match escaped.split_once("\\ude00") {
        Some((first, rest)) => event(first) + &event(&format!("\\ude00{rest}")),
        None => event("\\ud83d") + &event(&format!("\\ude00 {escaped}")),
    };
    let provider = Provider::new(vec![Answer::Raw("text/event-stream", body + "data: [DONE]\n\n")]).await;
    let outcome = Service::new(&served_by(&provider)).plan(&plan_input("Compare the parts")).await;
    outcome.output();
    assert!(outcome.scratchpad.contains('😀'), "{}", outcome.scratchpad);
}

#[tokio::test]
async fn an_answer_of_nothing_costs_two_calls_and_the_failure_names_the_setting() {
    let provider = Provider::always(Answer::Text(String::new(), "stop")).await;
    let outcome = Service::new(&served_by(&provider)).plan(&plan_input("Compare the parts")).await;
    assert_eq!(outcome.error().kind, RoleErrorKind::Rejected, "it is not tried again");
    assert!(outcome.error().message.contains("TREE_AGENT_MODEL_TABLE"), "{}", outcome.error());
    assert_eq!(provider.asked().len(), 2);
}

#[tokio::test]
async fn a_passage_that_a_content_filter_refuses_is_left_out_and_named() {
    let refused = r#"{"error":{"code":"content_filter","message":"The prompt triggered the content management policy"}}"#;
    let provider = Provider::by(move |asked| match asked.said().contains("foul words") {
        true => status(400, refused),
        false => text(&executed()),
    })
    .await;
    let args = LlmArgs { model_tool_rounds: "0".into(), ..served_by(&provider) };
    let service = Service::new(&args);
    let project = service.documents.add_project("harbour");
    service.documents.add_source(
        project,
        "foul.md",
        "# Tides and foul words\n\nThe mole of the tides with foul words was built in 1931.\n",
    );
    // No pair of sentences that disagree brings its words back.
    let other = "# Tides\n\nThe mole of the tides with words was built in 1957.\n";
    service.documents.add_source(project, "mole.md", other);
    let outcome = service.execute(&execute_input("Tides?")).await;
    outcome.output();
    assert!(outcome.scratchpad.contains("a content filter refuses foul.md"), "{}", outcome.scratchpad);
    let last = provider.asked().into_iter().find(|asked| !asked.said().contains("foul words")).unwrap();
    assert!(last.said().contains("High water is at noon"), "the others stay");
    assert!(last.said().contains("passages that a content filter refuses"));
}

#[tokio::test]
async fn a_router_without_a_server_for_a_schema_is_asked_without_one() {
    let refused =
        r#"{"error":{"message":"No endpoints found that can handle the requested parameters.","code":404}}"#;
    let provider = Provider::by(move |asked| match asked.body.get("response_format") {
        Some(format) if format["type"] == "json_schema" => status(404, refused),
        _ => text(&two_steps()),
    })
    .await;
    Service::new(&served_by(&provider)).plan(&plan_input("Compare the parts")).await.output();
    let provider = Provider::always(status(404, refused)).await;
    let outcome = Service::new(&served_by(&provider)).plan(&plan_input("Compare the parts")).await;
    assert!(outcome.error().message.contains("TREE_AGENT_MODEL_TABLE"), "{}", outcome.error());
}
