//! Providers that are busy, broken or gone.

use std::time::{Duration, Instant};

use tree_agent_contract::role::{PlannerMode, RoleErrorKind};
use tree_agent_model::LlmArgs;

use crate::provider::{Answer, Provider, status, text};
use crate::support::*;

fn busy(after: &str) -> Answer {
    Answer::Status(429, vec![("retry-after", after.to_owned())], "slow down".into())
}

#[tokio::test]
async fn busy_and_broken_providers_are_asked_again() {
    let provider = Provider::new(vec![busy("0.3"), status(503, "oops"), text(&direct())]).await;
    let begun = Instant::now();
    let outcome = Service::new(&served_by(&provider)).plan(&plan_input("What is it?")).await;
    assert_eq!(outcome.output().mode, PlannerMode::Execute);
    assert!(begun.elapsed() >= Duration::from_millis(300), "Retry-After was kept");
    assert_eq!(provider.asked().len(), 3);
}

#[tokio::test]
async fn a_list_of_models_that_is_not_given_is_asked_for_again() {
    for answer in [busy("1"), status(503, "oops")] {
        let provider = Provider::always(text(&direct())).await;
        provider.models(answer);
        // Only the address is set, so the first model of the list is meant.
        let args = LlmArgs { model_balanced: String::new(), ..served_by(&provider) };
        let outcome = Service::new(&args).plan(&plan_input("What is it?")).await;
        assert_eq!(outcome.error().kind, RoleErrorKind::Overloaded);
        assert_eq!((provider.listed(), provider.asked().len()), (3, 0), "as often as is set");
    }
}

#[tokio::test]
async fn a_page_in_place_of_a_list_of_models_is_told_from_an_empty_list() {
    let hostile = format!(r#"{{"data":[{{"id":"../../x?{KEY}"}}]}}"#);
    for (body, what) in [
        (hostile.as_str(), "cannot be used; set TREE_AGENT_MODEL_BALANCED"),
        ("<html><body>Please sign in</body></html>", "check that TREE_AGENT_MODEL_BASE_URL is the address"),
        (r#"{"data":[]}"#, "lists no model; set TREE_AGENT_MODEL_BALANCED"),
    ] {
        let provider = Provider::always(text(&direct())).await;
        provider.models(status(200, body));
        let args = LlmArgs { model_balanced: String::new(), ..served_by(&provider) };
        let outcome = Service::new(&args).plan(&plan_input("What is it?")).await;
        assert_eq!(outcome.error().kind, RoleErrorKind::Rejected);
        let message = &outcome.error().message;
        assert!(message.contains(what) && !message.contains(KEY), "{message}");
    }
}

#[tokio::test]
async fn a_list_of_models_that_nobody_serves_names_the_cause() {
    let args = LlmArgs { model_base_url: "http://127.0.0.1:1/v1".into(), ..quick() };
    let outcome = Service::new(&args).plan(&plan_input("What is it?")).await;
    assert_eq!(outcome.error().kind, RoleErrorKind::ProviderUnreachable);
    let message = &outcome.error().message;
    assert!(
        message.contains("127.0.0.1:1/v1/ cannot be reached: ") && message.contains("refused"),
        "{message}"
    );
}

#[tokio::test]
async fn a_provider_that_stays_busy_is_overloaded() {
    let provider = Provider::always(busy("0")).await;
    let outcome = Service::new(&served_by(&provider)).plan(&plan_input("What is it?")).await;
    assert_eq!(outcome.error().kind, RoleErrorKind::Overloaded);
    assert_eq!(provider.asked().len(), 3, "as often as is set");
}

#[tokio::test]
async fn a_server_that_serves_no_model_is_told_from_an_answer_that_broke_off() {
    for (body, what) in [
        (
            "<html><body>Please sign in</body></html>",
            "sent no answer of a model; check that TREE_AGENT_MODEL_BASE_URL",
        ),
        ("", "sent no answer of a model; check that TREE_AGENT_MODEL_BASE_URL"),
        (r#"data: {"choices":[{"delta":{"content":"{"}}]}"#, "ended its answer in the middle"),
    ] {
        let provider = Provider::always(status(200, &format!("{body}\n\n"))).await;
        let outcome = Service::new(&served_by(&provider)).plan(&plan_input("What is it?")).await;
        assert!(outcome.error().message.contains(what), "{}", outcome.error().message);
    }
}

#[tokio::test]
async fn the_circuit_opens_and_the_node_is_blocked_until_it_closes() {
    let provider = Provider::always(status(500, "oops")).await;
    let args = LlmArgs {
        model_circuit_failures: "3".into(),
        model_circuit_seconds: "1".into(),
        ..served_by(&provider)
    };
    let service = Service::new(&args);
    let first = service.plan(&plan_input("What is it?")).await;
    assert_eq!(first.error().kind, RoleErrorKind::Overloaded);
    let second = service.plan(&plan_input("What is it?")).await;
    // The engine shows a node as blocked for this kind, and makes the call again without counting an attempt.
    assert_eq!(second.error().kind, RoleErrorKind::ProviderUnreachable);
    assert!(second.error().message.contains("the circuit is open"), "{}", second.error());
    assert_eq!(provider.asked().len(), 3, "an open circuit asks nobody");

    provider.then(vec![text(&direct())]);
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match service.plan(&plan_input("What is it?")).await.output {
            Ok(output) => break assert_eq!(output.mode, PlannerMode::Execute),
            Err(error) => assert!(Instant::now() < deadline, "it did not close: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn nobody_at_the_address_is_unreachable() {
    let nobody = "http://127.0.0.1:1/v1".into();
    let args = LlmArgs { model_balanced: "openai:m".into(), model_base_url: nobody, ..quick() };
    let outcome = Service::new(&args).plan(&plan_input("What is it?")).await;
    assert_eq!(outcome.error().kind, RoleErrorKind::ProviderUnreachable);
    assert!(outcome.error().message.contains("cannot be reached"), "{}", outcome.error());
}

/// As behind a firewall that drops what it does not let through. Each attempt takes ten seconds.
#[tokio::test]
async fn an_address_that_does_not_answer_at_all_is_tried_once() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    // The queue of connections is full, so the kernel drops the next ones.
    let mut queued = Vec::new();
    for _ in 0..2 {
        queued.push(tokio::net::TcpStream::connect(address).await.unwrap());
    }
    let args = LlmArgs {
        model_balanced: "openai:m".into(),
        model_base_url: format!("http://{address}/v1"),
        model_circuit_failures: "2".into(),
        model_stall_seconds: "60".into(),
        ..quick()
    };
    let outcome = Service::new(&args).plan(&plan_input("What is it?")).await;
    assert_eq!(outcome.error().kind, RoleErrorKind::ProviderUnreachable);
    let message = &outcome.error().message;
    assert!(message.contains("neither accepts nor refuses") && !message.contains("circuit"), "{message}");
}

#[tokio::test]
async fn another_model_is_asked_when_one_is_set() {
    let broken = Provider::always(status(500, "oops")).await;
    let spare = Provider::new(vec![text(&direct())]).await;
    let args = LlmArgs {
        model_fallback: "anthropic:claude-spare".into(),
        anthropic_base_url: spare.url.clone(),
        ..served_by(&broken)
    };
    let outcome = Service::new(&args).plan(&plan_input("What is it?")).await;
    assert_eq!(outcome.output().mode, PlannerMode::Execute);
    assert_eq!(outcome.usage[0].model, "anthropic:claude-spare");
    assert!(outcome.scratchpad.contains("anthropic:claude-spare is asked instead"), "{}", outcome.scratchpad);

    // A refused key is for its owner to put right.
    let refusing = Provider::always(status(401, "no")).await;
    let args = LlmArgs { model_base_url: refusing.url.clone(), ..args };
    let outcome = Service::new(&args).plan(&plan_input("What is it?")).await;
    assert_eq!(outcome.error().kind, RoleErrorKind::Rejected);
}

#[tokio::test]
async fn only_so_many_requests_are_made_at_a_time() {
    let provider = Provider::always(text(&direct())).await;
    let args = LlmArgs { model_concurrency: "2".into(), ..served_by(&provider) };
    let service = Service::new(&args);
    let input = plan_input("What is it?");
    let calls = futures::future::join_all((0..8).map(|_| service.plan(&input))).await;
    assert!(calls.iter().all(|outcome| outcome.output.is_ok()));
    assert_eq!(provider.most_at_once(), 2);
}

#[tokio::test]
async fn a_long_wait_for_the_own_limit_blocks_the_node_and_is_no_failure_of_the_provider() {
    let provider = Provider::always(text(&direct())).await;
    let spare = Provider::always(text(&direct())).await;
    let args = LlmArgs {
        model_tokens_per_minute: "600".into(),
        model_fallback: "anthropic:claude-spare".into(),
        anthropic_base_url: spare.url.clone(),
        ..served_by(&provider)
    };
    let service = Service::new(&args);
    let first = service.plan(&plan_input("What is it?")).await;
    assert_eq!(first.output().mode, PlannerMode::Execute);
    let second = service.plan(&plan_input("What is it?")).await;
    // The engine shows a node as blocked for this kind, makes the call again without counting an attempt, and never
    // takes it for a provider that does not answer.
    assert_eq!(second.error().kind, RoleErrorKind::Unreachable);
    let message = &second.error().message;
    assert!(
        message.starts_with("waits ") && message.ends_with("TREE_AGENT_MODEL_TOKENS_PER_MINUTE"),
        "{message}"
    );
    assert_eq!(provider.asked().len(), 1, "nobody was asked");
    assert!(spare.asked().is_empty(), "nor another model");
}
