//! What servers send that speak OpenAI's chat completions in their own way, and what they want back.

use std::time::Duration;

use serde_json::{Value, json};
use tree_agent_contract::role::{PlannerMode, RoleErrorKind};
use tree_agent_model::LlmArgs;

use crate::provider::{Answer, Asked, Provider, status, text};
use crate::support::*;

const DONE: &str = "data: [DONE]\n\n";

fn event(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn chunk(delta: &Value, finish: Option<&str>) -> String {
    event(&json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
}

/// The beginning of an answer, without its end.
fn said(text: &str) -> String {
    let (first, second) = text.split_at(text.len() / 2);
    chunk(&json!({"role": "assistant", "content": ""}), None)
        + &chunk(&json!({"content": first}), None)
        + &chunk(&json!({"content": second}), None)
}

fn stop() -> String {
    chunk(&json!({}), Some("stop"))
}

fn stream(body: impl Into<String>) -> Answer {
    Answer::Raw("text/event-stream", body.into())
}

#[tokio::test]
async fn an_answer_is_complete_in_every_shape_that_servers_send() {
    let answer = direct().to_string();
    let usage = event(&json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5}}));
    let message = json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}]});
    for (what, body) in [
        ("without [DONE]", stream(said(&answer) + &stop() + &usage)),
        ("without a reason", stream(said(&answer) + DONE)),
        ("its end without an empty line", stream((said(&answer) + &stop()).trim_end().to_owned())),
        ("with a word of its own for the end", stream(said(&answer) + &chunk(&json!({}), Some("eos_token")))),
        ("comments, a byte order mark, no space, CRLF", {
            let body = format!("\u{feff}: OK\n\n{}: ping\n\n{}{DONE}", said(&answer), stop());
            stream(body.replace("data: ", "data:").replace('\n', "\r\n"))
        }),
        ("no empty lines", stream((said(&answer) + &stop() + DONE).replace("\n\n", "\n"))),
        ("in one object", Answer::Raw("application/json", message.to_string())),
        ("in one object of another type", Answer::Raw("text/plain", message.to_string())),
        ("a message in place of a change", stream(event(&message) + DONE)),
        ("in parts", stream(chunk(&json!({"content": [{"type": "text", "text": answer}]}), Some("stop")))),
        ("null in place of a change", stream(chunk(&Value::Null, None) + &said(&answer) + &stop())),
        (
            "two choices",
            stream(
                event(&json!({"choices": [{"index": 1, "delta": {"content": "x"}}]}))
                    + &said(&answer)
                    + &stop(),
            ),
        ),
    ] {
        let provider = Provider::new(vec![body]).await;
        let outcome = Service::new(&served_by(&provider)).plan(&plan_input("What is it?")).await;
        assert_eq!(outcome.output.as_ref().map(|out| out.mode), Ok(PlannerMode::Execute), "{what}");
        assert_eq!(outcome.purposes().len(), 1, "{what}");
    }
}

/// Each kind of failure may go on for ever: the requests of the call are few, and the error has the provider's words.
#[tokio::test]
async fn a_failure_that_stays_ends_the_call_with_its_cause() {
    let error = |message: &str, code: Value| json!({"error": {"message": message, "code": code}});
    let refusal =
        chunk(&json!({"refusal": "I cannot "}), None) + &chunk(&json!({"refusal": "help."}), Some("stop"));
    for (what, body, kind, words, requests) in [
        (
            "an error in the stream",
            stream(event(&error("the queue is full", json!(503)))),
            RoleErrorKind::Overloaded,
            "the queue is full",
            3,
        ),
        (
            "an error in the middle",
            stream(said("{\"decision\"") + &event(&error("out of memory", json!(500)))),
            RoleErrorKind::Overloaded,
            "out of memory",
            3,
        ),
        (
            "an event of the name",
            stream("event: error\ndata: {\"message\": \"overloaded\"}\n\n"),
            RoleErrorKind::Overloaded,
            "overloaded",
            3,
        ),
        (
            "an error with status 200",
            Answer::Raw("application/json", error("no credit", json!("insufficient_quota")).to_string()),
            RoleErrorKind::Rejected,
            "no credit",
            1,
        ),
        (
            "a page",
            Answer::Raw("text/html", "<html>Sign in</html>".into()),
            RoleErrorKind::Internal,
            "TREE_AGENT_MODEL_BASE_URL",
            2,
        ),
        (
            "no end",
            stream(said("{\"decision\"")),
            RoleErrorKind::Internal,
            "ended its answer in the middle",
            2,
        ),
        ("nothing", stream(DONE), RoleErrorKind::Internal, "sent no answer of a model", 2),
        ("a refusal", stream(refusal), RoleErrorKind::InvalidOutput, "I cannot help.", 3),
        (
            "a filter",
            stream(said("The har") + &chunk(&json!({}), Some("content_filter"))),
            RoleErrorKind::InvalidOutput,
            "a content filter ended the answer",
            3,
        ),
        (
            "a request that a minute never allows",
            status(429, "{\"error\": {\"message\": \"Request too large: Limit 3000, Requested 4937\"}}"),
            RoleErrorKind::Rejected,
            "Requested 4937",
            2,
        ),
        (
            "an odd parameter",
            status(400, "{\"error\": {\"message\": \"stream_options is unknown\"}}"),
            RoleErrorKind::Rejected,
            "stream_options",
            2,
        ),
    ] {
        let provider = Provider::always(body).await;
        let service = Service::new(&LlmArgs { model_circuit_failures: "20".into(), ..served_by(&provider) });
        let outcome = service.plan(&plan_input("What is it?")).await;
        assert_eq!(outcome.error().kind, kind, "{what}: {}", outcome.error());
        assert!(outcome.error().message.contains(words), "{what}: {}", outcome.error());
        assert_eq!(provider.asked().len(), requests, "{what}");
        // Another call is asked as before: no circuit opened.
        provider.then(vec![text(&direct())]);
        service.plan(&plan_input("What is it?")).await.output();
    }
}

/// What was sent back of the calls of tools: the messages of the assistant that hold some.
fn sent_back(asked: &Asked) -> Vec<Value> {
    let messages = asked.body["messages"].as_array().expect("messages");
    messages.iter().filter(|m| m["tool_calls"].is_array()).cloned().collect()
}

fn calls(calls: &Value, more: &Value) -> Answer {
    let mut delta = json!({"role": "assistant", "tool_calls": calls});
    more.as_object().into_iter().flatten().for_each(|(key, value)| delta[key] = value.clone());
    stream(chunk(&delta, Some("tool_calls")) + DONE)
}

fn call(id: &str, arguments: Value) -> Value {
    json!({"index": 0, "id": id, "type": "function", "function": {"name": "search_documents", "arguments": arguments}})
}

#[tokio::test]
async fn what_a_server_wants_back_with_its_calls_is_repeated_also_after_a_repair() {
    let mut signed = call("c1", json!("{\"query\": \"tides\"}"));
    signed["extra_content"] = json!({"google": {"thought_signature": "c2ln"}});
    for name in ["reasoning_content", "reasoning"] {
        let first = calls(&json!([signed]), &json!({name: "I look it up."}));
        let provider = Provider::new(vec![first, stream(said("I know.") + &stop()), text(&executed())]).await;
        Service::new(&served_by(&provider)).execute(&execute_input("Tides?")).await.output();
        let asked = provider.asked();
        assert_eq!(asked.len(), 3);
        for later in &asked[1..] {
            let [message] = &sent_back(later)[..] else { panic!("{}", later.body) };
            assert_eq!(message[name], "I look it up.");
            assert_eq!(message["content"], Value::Null);
            assert_eq!(message["tool_calls"][0]["extra_content"], signed["extra_content"]);
        }
        assert!(
            asked[2].body["tools"].is_array() && asked[2].body.get("tool_choice").is_none(),
            "tools stay"
        );
    }
}

#[tokio::test]
async fn arguments_that_are_no_object_go_back_as_one_and_the_model_is_told() {
    for (arguments, back, told) in [
        (json!("{\"query\":\"harbour lo"), json!({}), "no JSON object"),
        (json!(["harbour"]), json!({}), "must be a JSON object"),
        (json!(""), json!({}), "is required"),
        (json!({"query": "tides"}), json!({"query": "tides"}), "High water"),
    ] {
        let provider =
            Provider::new(vec![calls(&json!([call("c1", arguments)]), &json!({})), text(&executed())]).await;
        Service::new(&served_by(&provider)).execute(&execute_input("Tides?")).await.output();
        let asked = &provider.asked()[1];
        let arguments = sent_back(asked)[0]["tool_calls"][0]["function"]["arguments"].clone();
        let arguments: Value = serde_json::from_str(arguments.as_str().expect("text")).expect("JSON");
        assert_eq!(arguments, back);
        assert!(asked.last().contains(told), "{told}: {}", asked.last());
    }
    // The same for Anthropic.
    let cut = ("toolu_1", "search_documents", "{\"query\":\"harbour lo".to_owned());
    let provider = Provider::new(vec![Answer::Tools("", vec![cut]), text(&executed())]).await;
    Service::new(&anthropic(&provider)).execute(&execute_input("Tides?")).await.output();
    assert!(provider.asked()[1].said().contains("\"input\":{}"), "{}", provider.asked()[1].body);
}

#[tokio::test]
async fn thoughts_in_the_text_are_no_part_of_the_answer() {
    let thoughts = "The user wants {\"mode\": \"plan\"} or {\"a\": 1}.\n</think>\n\n";
    for opening in ["<think>\n", ""] {
        let named = json!({"artifacts": [{"type": "document", "label": "a", "title": "Tides", "isPrimary": true}],
            "scratchpad": {"appendMarkdown": "n"}, "result": {"summary": "Noon.", "successAssessment": {"met": true}}});
        let answer = format!("{opening}{thoughts}{named}");
        let document = format!("{opening}Let me see.\n</think>\n# Tides\n\nNoon.\n");
        let provider =
            Provider::new(vec![stream(said(&answer) + &stop()), stream(said(&document) + &stop())]).await;
        let outcome = Service::new(&served_by(&provider)).execute(&execute_input("Tides?")).await;
        assert_eq!(outcome.output().artifacts[0].document_markdown.as_deref(), Some("# Tides\n\nNoon.\n"));
        assert_eq!(provider.asked().len(), 2);
    }
}

/// A model that thinks in its text for longer than a silence may last is at work.
#[tokio::test]
async fn thoughts_in_the_text_are_signs_of_life() {
    let apart = Duration::from_millis(300);
    let answer = Answer::Thinks { thoughts: 5, apart, text: direct().to_string(), calls: Vec::new() };
    let provider = Provider::new(vec![answer]).await;
    let outcome = Service::new(&served_by(&provider)).plan(&plan_input("What is it?")).await;
    outcome.output();
    assert!(!outcome.scratchpad.contains("thought 0"), "{}", outcome.scratchpad);
}

#[tokio::test]
async fn a_refusal_of_tools_costs_as_little_as_it_says_and_only_this_call() {
    let odd = status(400, "{\"error\": {\"message\": \"At most 2 tools may be given\"}}");
    let provider = Provider::new(vec![odd, text(&executed()), text(&executed())]).await;
    let service = Service::new(&served_by(&provider));
    let outcome = service.execute(&execute_input("Tides?")).await;
    outcome.output();
    assert!(outcome.scratchpad.contains("2 of "), "the node says so: {}", outcome.scratchpad);
    service.execute(&execute_input("Tides?")).await.output();
    let offered: Vec<usize> =
        provider.asked().iter().map(|asked| asked.body["tools"].as_array().map_or(0, Vec::len)).collect();
    assert!(offered[0] > 2 && offered[1] == 2 && offered[2] == offered[0], "{offered:?}");

    // One that takes no results of tools is told them as text.
    let no_role = status(400, "{\"error\": {\"message\": \"Tool role is not supported by this template\"}}");
    let first = calls(&json!([call("c1", json!("{\"query\": \"tides\"}"))]), &json!({}));
    let provider = Provider::new(vec![first, no_role, text(&executed())]).await;
    Service::new(&served_by(&provider)).execute(&execute_input("Tides?")).await.output();
    let asked = &provider.asked()[2];
    assert!(sent_back(asked).is_empty() && asked.body.get("tools").is_none(), "{}", asked.body);
    assert!(asked.said().contains("I called search_documents") && asked.last().contains("High water"));
    // They are still told when an answer is repaired.
    let first = calls(&json!([call("c1", json!("{\"query\": \"tides\"}"))]), &json!({}));
    let no_role = status(400, "{\"error\": {\"message\": \"Tool role is not supported by this template\"}}");
    let prose = stream(said("I know.") + &stop());
    let provider = Provider::new(vec![first, no_role, prose, text(&executed())]).await;
    Service::new(&served_by(&provider)).execute(&execute_input("Tides?")).await.output();
    let asked = &provider.asked()[3];
    assert!(asked.said().contains("I called search_documents"), "{}", asked.body);
}

#[tokio::test]
async fn a_parameter_that_is_refused_is_left_out_from_then_on() {
    for (refused, words, instead) in [
        (
            "max_tokens",
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            Some("max_completion_tokens"),
        ),
        ("stream_options", "Unrecognized request argument supplied: stream_options", None),
    ] {
        let provider = Provider::by(move |asked| match asked.body.get(refused) {
            Some(_) => status(400, &json!({"error": {"message": words}}).to_string()),
            None => text(&direct()),
        })
        .await;
        let service = Service::new(&served_by(&provider));
        service.plan(&plan_input("What is it?")).await.output();
        service.plan(&plan_input("What is it?")).await.output();
        let asked = provider.asked();
        assert_eq!(asked.len(), 3, "it is refused once");
        assert!(asked[0].body.get(refused).is_some());
        assert!(
            instead.is_none_or(|name| asked[2].body[name] == asked[0].body[refused]),
            "{}",
            asked[2].body
        );
    }
    // What the system prompt says is not lost.
    let provider = Provider::by(|asked| match asked.said().contains("\"role\":\"system\"") {
        true => status(400, "{\"error\": {\"message\": \"System role not supported\"}}"),
        false => text(&direct()),
    })
    .await;
    Service::new(&served_by(&provider)).plan(&plan_input("What is it?")).await.output();
    let messages = provider.asked()[1].body["messages"].clone();
    assert_eq!(messages.as_array().map(Vec::len), Some(1));
    assert!(
        messages[0]["content"]
            .as_str()
            .is_some_and(|c| c.contains("You are the planner") && c.contains("What is it?"))
    );
}

#[tokio::test]
async fn a_document_holds_no_half_sentence_and_nothing_round_it() {
    let mut named = executed();
    named["artifacts"][0].as_object_mut().unwrap().remove("documentMarkdown");
    for (body, markdown) in [
        (
            said("# Tides\n\nThe harbour has") + &chunk(&json!({}), Some("content_filter")),
            "# Tides\n\nThe harbour has\n\n\n*The text ends here: a content filter ended the answer: content_filter.*\n",
        ),
        (
            said("Sure! Here is the document:\n\n```markdown\n# Tides\n\nNoon.\n```\n\nLet me know.")
                + &stop(),
            "# Tides\n\nNoon.\n",
        ),
        (said(&json!({"documentMarkdown": "# Tides\n\nNoon."}).to_string()) + &stop(), "# Tides\n\nNoon.\n"),
        // The object once more has no text, so the summary stands for it.
        (said(&named.to_string()) + &stop(), "High water is at noon.\n"),
    ] {
        let provider = Provider::new(vec![text(&named), stream(body)]).await;
        let outcome = Service::new(&served_by(&provider)).execute(&execute_input("Tides?")).await;
        assert_eq!(outcome.output().artifacts[0].document_markdown.as_deref(), Some(markdown));
    }
}

#[tokio::test]
async fn a_server_that_cuts_the_prompt_is_named_with_the_setting() {
    let usage = event(&json!({"choices": [], "usage": {"prompt_tokens": 2_048, "completion_tokens": 5}}));
    let mut input = plan_input("What is it?");
    input.call.scratchpad_tail = "old notes ".repeat(3_000);
    let prose = stream(said("Well.") + &stop() + &usage);
    let provider = Provider::always(prose).await;
    let outcome = Service::new(&served_by(&provider)).plan(&input).await;
    assert_eq!(outcome.error().kind, RoleErrorKind::Rejected);
    let message = &outcome.error().message;
    assert!(
        message.contains("has read 2048 of about") && message.contains("OLLAMA_CONTEXT_LENGTH"),
        "{message}"
    );
    assert_eq!(provider.asked().len(), 1, "it would not read a repair either");
    // A usable answer is taken, and the node says what happened.
    let provider = Provider::always(stream(said(&direct().to_string()) + &stop() + &usage)).await;
    let outcome = Service::new(&served_by(&provider)).plan(&input).await;
    outcome.output();
    assert!(outcome.scratchpad.contains("has read 2048 of about"), "{}", outcome.scratchpad);
}

#[tokio::test]
async fn the_reason_of_an_empty_answer_of_gemini_is_kept() {
    let body = json!({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "index": 0}]});
    let provider = Provider::always(stream(event(&body))).await;
    let outcome = Service::new(&gemini(&provider)).execute(&execute_input("Tides?")).await;
    assert!(outcome.error().message.contains("MALFORMED_FUNCTION_CALL"), "{}", outcome.error());
    let asked = provider.asked();
    assert_eq!(asked.len(), 3);
    assert!(asked[1].body["tools"].is_array() && asked[1].body.get("toolConfig").is_none(), "tools stay");
}
