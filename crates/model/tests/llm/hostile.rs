//! Providers that try to lead requests elsewhere or never stop answering, and names that would.

use tree_agent_contract::role::RoleErrorKind;
use tree_agent_model::{LlmArgs, Models};

use crate::provider::{Answer, Provider, status, text};
use crate::support::*;

fn redirect_to(provider: &Provider) -> Answer {
    Answer::Status(307, vec![("location", format!("{}/chat/completions", provider.url))], String::new())
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Provider::always(text(&direct())).await;
    let provider = Provider::always(redirect_to(&elsewhere)).await;
    provider.models(redirect_to(&elsewhere));
    let outcome = Service::new(&served_by(&provider)).plan(&plan_input("What is it?")).await;
    assert_eq!(outcome.error().kind, RoleErrorKind::Rejected, "{}", outcome.error());
    let message = &outcome.error().message;
    assert!(message.contains("redirects") && message.contains("TREE_AGENT_MODEL_BASE_URL"), "{message}");
    language(&served_by(&provider)).check_keys().await.expect("it says nothing of the key");
    assert_eq!((elsewhere.asked().len(), elsewhere.listed()), (0, 0), "the key stays with its provider");
}

#[tokio::test]
async fn a_name_that_is_a_path_never_reaches_the_provider() {
    let provider = Provider::always(text(&direct())).await;
    let args = LlmArgs { models: "gemini:*,openai:*".into(), ..gemini(&provider) };
    let models = Models::with_language_models("", language(&args)).expect("a model is set");
    for name in ["gemini:../../x", "gemini:a%2f..%2fb", "gemini:x:countTokens", "openai:a/../b", "gemini:a b"]
    {
        let error = models.resolve(name).map(|_| ()).expect_err(name);
        assert_eq!(error.kind, RoleErrorKind::Rejected, "{name}");
        models.check(name).await.expect_err(name);
    }
    // Nor does one that the operator does not offer.
    let models = Models::with_language_models("", language(&gemini(&provider))).expect("a model is set");
    let error = models.resolve("gemini:gemini-other").map(|_| ()).expect_err("it is not offered");
    assert!(error.message.contains("TREE_AGENT_MODELS"), "{error}");
    assert_eq!((provider.asked().len(), provider.listed()), (0, 0));
}

#[tokio::test]
async fn an_answer_is_read_up_to_a_limit() {
    // 1 MiB, and 32 bytes for each of 128 tokens.
    let endless = "x".repeat(2 * 1024 * 1024);
    for answer in [
        Answer::Text(endless.clone(), "stop"),
        Answer::Tools("", vec![("c1", "search_documents", format!("{{\"query\": \"{endless}\"}}"))]),
    ] {
        let provider = Provider::always(answer).await;
        let args = LlmArgs {
            model_max_output_tokens: "128".into(),
            // The chunks are large, and a busy machine takes its time for them.
            model_stall_seconds: "600".into(),
            ..served_by(&provider)
        };
        let outcome = Service::new(&args).execute(&execute_input("What is it?")).await;
        assert_eq!(outcome.error().kind, RoleErrorKind::InvalidOutput);
        assert!(outcome.error().message.contains("longer than"), "{}", outcome.error());
        assert_eq!(provider.asked().len(), 1, "it is not asked for again");
    }
}

/// Events that carry nothing count as silence, such as pieces of tool calls that belong to no call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_answer_without_content_ends_like_silence() {
    for event in [
        "data: {\"id\": \"c\", \"choices\": [{\"index\": 0, \"delta\": {\"tool_calls\": [{\"index\": -1}]}}]}\n\n",
        "data: {\"id\": \"c\", \"choices\": []}\n\n",
    ] {
        let provider = Provider::always(Answer::Forever(event)).await;
        let args = LlmArgs { model_tries: "1".into(), ..served_by(&provider) };
        let outcome = Service::new(&args).plan(&plan_input("What is it?")).await;
        assert_eq!(outcome.error().kind, RoleErrorKind::Timeout, "{event}: {}", outcome.error());
        assert!(outcome.error().message.contains("sent nothing of an answer for 1 s"), "{}", outcome.error());
    }
}

/// Comments say that somebody works, so they are no silence; but not without end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn comments_are_signs_of_life_up_to_the_size_of_an_answer() {
    let provider = Provider::always(Answer::Forever(": still there\n\n")).await;
    let args = LlmArgs { model_max_output_tokens: "128".into(), ..served_by(&provider) };
    let outcome = Service::new(&args).plan(&plan_input("What is it?")).await;
    assert_eq!(outcome.error().kind, RoleErrorKind::InvalidOutput);
    assert!(outcome.error().message.contains("longer than"), "{}", outcome.error());
}

#[tokio::test]
async fn the_index_of_a_tool_call_allocates_nothing() {
    let args = || serde_json::json!({"query": "tides"}).to_string();
    let calls = Answer::ToolsAt(4_000_000_000, "search_documents", args());
    let provider = Provider::new(vec![calls, text(&executed())]).await;
    let outcome = Service::new(&served_by(&provider)).execute(&execute_input("When is high water?")).await;
    outcome.output();
    let called: Vec<&str> = outcome.requested.iter().map(|call| call.tool_name.as_str()).collect();
    assert_eq!(called, ["search_documents"], "the call is made once");
}

#[tokio::test]
async fn a_list_of_models_is_read_up_to_a_limit() {
    let provider = Provider::always(text(&direct())).await;
    provider.models(status(200, &" ".repeat(5 * 1024 * 1024)));
    // Only the address is set, so the first model of the list is meant.
    let args = LlmArgs { model_balanced: String::new(), ..served_by(&provider) };
    let outcome = Service::new(&args).plan(&plan_input("What is it?")).await;
    assert!(outcome.error().message.contains("longer than"), "{}", outcome.error());
    assert!(provider.asked().is_empty());
}

#[tokio::test]
async fn a_used_up_quota_and_a_missing_permission_end_the_call_with_their_cause() {
    for (code, body, cause) in [
        (429, r#"{"error":{"code":"insufficient_quota","message":"You exceeded your quota"}}"#, "quota"),
        (403, r#"{"error":{"message":"This key cannot use this model"}}"#, "permission"),
    ] {
        let provider = Provider::always(status(code, body)).await;
        let outcome = Service::new(&served_by(&provider)).plan(&plan_input("What is it?")).await;
        assert_eq!(outcome.error().kind, RoleErrorKind::Rejected, "{code}");
        let message = &outcome.error().message;
        assert!(message.contains(cause) && message.contains("OPENAI_API_KEY"), "{message}");
        assert_eq!(provider.asked().len(), 1, "asking again does not help");
    }
}
