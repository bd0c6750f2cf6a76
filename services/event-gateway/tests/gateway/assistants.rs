//! The tools of assistants over HTTP, by both protocols.

use std::time::Duration;

use http::{Request, StatusCode, header};
use serde_json::{Value, json};
use tree_agent_event_gateway::Config;
use tree_agent_proto::v1::{CreateDocumentRequest, CreateRunRequest, ReviewRule};

use crate::auth::Guarded;
use crate::common::Gateway;
use crate::common::driver::TestDriver;

const OLD: &str = "2025-06-18";
const NEW: &str = "2026-07-28";

/// One request of the protocol `version`, with a token; the answer, or the status that refused it.
async fn ask(
    gateway: &Gateway,
    version: &str,
    token: &str,
    method: &str,
    mut params: Value,
) -> Result<Value, StatusCode> {
    if version == NEW {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": NEW,
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
        });
    }
    let mut request = Request::post("/")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, text/event-stream")
        .header("mcp-protocol-version", version)
        .header("mcp-method", method)
        .header(header::AUTHORIZATION, format!("Bearer {token}"));
    if let Some(name) = params["name"].as_str() {
        request = request.header("mcp-name", name);
    }
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let answer = gateway.send(request, "/mcp", body.to_string()).await;
    match answer.status() {
        StatusCode::OK => Ok(serde_json::from_slice(answer.body()).unwrap()),
        other => Err(other),
    }
}

/// What a tool says.
async fn call(gateway: &Gateway, tool: &str, arguments: Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    let mut answer = ask(gateway, OLD, "none", "tools/call", params).await.unwrap();
    assert!(answer["result"].is_object(), "{tool}: {answer}");
    answer["result"].take()
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

#[tokio::test]
async fn both_protocols_list_the_same_tools_with_their_hints() {
    let gateway = Gateway::start(Config::default()).await;
    let begin =
        json!({ "protocolVersion": OLD, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let begun = ask(&gateway, OLD, "none", "initialize", begin).await.unwrap();
    assert_eq!(begun["result"]["protocolVersion"], OLD, "{begun}");
    assert_eq!(begun["result"]["serverInfo"]["name"], "tree-agent");
    let found = ask(&gateway, NEW, "none", "server/discover", json!({})).await.unwrap();
    assert!(found["result"]["supportedVersions"].to_string().contains(NEW), "{found}");
    let mut lists = Vec::new();
    for version in [OLD, NEW] {
        let listed = ask(&gateway, version, "none", "tools/list", json!({})).await.unwrap();
        let tools = listed["result"]["tools"].as_array().unwrap().clone();
        assert_eq!(tools.len(), 8, "{listed}");
        for tool in &tools {
            assert!(tool["annotations"]["readOnlyHint"].is_boolean(), "{tool}");
            assert_eq!(tool["inputSchema"]["type"], "object");
        }
        lists.push(tools);
    }
    assert_eq!(lists[0], lists[1]);
    let unknown = ask(&gateway, OLD, "none", "tools/call", json!({ "name": "rm", "arguments": {} })).await;
    assert_eq!(unknown.unwrap()["error"]["code"], -32602);
    let from_the_future = ask(&gateway, "2099-01-01", "none", "tools/list", json!({})).await;
    assert!(from_the_future.is_err_and(|status| status.is_client_error()), "an unknown version is refused");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_started_waited_for_steered_and_read() {
    let gateway = Gateway::start(Config::default()).await;
    let driver = TestDriver::start(gateway.store.clone(), gateway.fanout.clone());
    let asked = json!({ "objective": "Compare the offers", "request_id": "once", "max_cost_usd": 2.0 });
    let started = call(&gateway, "start_research", asked.clone()).await;
    let run = started["structuredContent"]["run"].as_str().unwrap().to_owned();
    assert!(text(&started).contains(&run), "{started}");
    let again = call(&gateway, "start_research", asked).await;
    assert_eq!(again["structuredContent"]["run"], run, "the same question starts no second run");

    let waited = call(&gateway, "wait_research", json!({ "run": run, "seconds": 0 })).await;
    assert!(text(&waited).contains(" of ") && text(&waited).contains("of $2.00"), "{waited}");
    assert!(text(&call(&gateway, "research_result", json!({ "run": run })).await).contains("wait_research"));
    for (action, text) in [("pause", ""), ("guide", "mind the fees"), ("resume", "")] {
        let steer = json!({ "run": run, "action": action, "text": text });
        assert_eq!(call(&gateway, "steer_research", steer).await["isError"], false, "{action}");
    }
    driver.open_gate();
    let ended = loop {
        let waited = call(&gateway, "wait_research", json!({ "run": run, "seconds": 45 })).await;
        if waited["structuredContent"]["next"] == "research_result" {
            break waited;
        }
    };
    assert_eq!(ended["structuredContent"]["status"], "completed", "{ended}");
    let result = call(&gateway, "research_result", json!({ "run": run })).await;
    // Some clients show their assistant only the data.
    let data = &result["structuredContent"];
    assert!(!text(&result).is_empty() && data["text"] == text(&result), "{result}");
    assert_eq!(data["status"], "completed", "{result}");
    assert_eq!(call(&gateway, "cite", json!({ "run": run })).await["isError"], false);
    driver.stop().await;
    gateway.stop().await;
}

#[tokio::test]
async fn documents_are_found_and_read_in_parts() {
    let gateway = Gateway::start(Config::default()).await;
    let project_id = gateway.create_project("Notes").await.project_id;
    let body = format!("# Crane\n\nThe crane stops at force 8. {}", "ä".repeat(5_000));
    let request = CreateDocumentRequest { project_id, path: "crane.md".into(), body, ..Default::default() };
    gateway.documents().create_document(request).await.unwrap();
    let listed = call(&gateway, "list_projects", json!({})).await;
    assert!(text(&listed).contains("Notes (1 documents)"), "{listed}");
    // A project by its name.
    let found = call(&gateway, "search_documents", json!({ "query": "crane", "projects": ["notes"] })).await;
    assert!(text(&found).contains("force 8"), "{found}");
    let document = found["structuredContent"]["passages"][0]["document"].as_str().unwrap();
    let part =
        call(&gateway, "read_document", json!({ "document": document, "from": 2, "characters": 5 })).await;
    assert!(text(&part).starts_with("Crane\n\n[") && text(&part).contains("from: 7"), "{part}");
    assert_eq!(part["structuredContent"]["text"], "Crane", "{part}");
    for (tool, arguments, said) in [
        ("read_document", json!({ "document": document, "from": 99_999 }), "from"),
        ("read_document", json!({ "document": "x" }), "document_id"),
        ("search_documents", json!({ "query": "x", "projects": ["none"] }), "no project is named"),
        ("start_research", json!({}), "objective"),
        ("start_research", json!({ "objective": "a", "colour": 1 }), "colour"),
        ("start_research", json!({ "objective": "a", "max_cost_usd": -1 }), "max_cost_usd"),
        ("steer_research", json!({ "run": "x", "action": "explode" }), "pause"),
        ("wait_research", json!({ "run": "x" }), "run_id"),
    ] {
        let refused = call(&gateway, tool, arguments.clone()).await;
        assert_eq!(refused["isError"], true, "{tool} {arguments}: {refused}");
        assert!(text(&refused).contains(said), "{tool} {arguments}: {refused}");
    }
    gateway.stop().await;
}

/// A person is asked by a client that can ask, and the answer ends the review.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_review_is_a_question_to_those_who_can_answer_it() {
    let gateway = Gateway::start(Config::default()).await;
    let driver = TestDriver::start(gateway.store.clone(), gateway.fanout.clone());
    let request = CreateRunRequest {
        objective: "Compare the offers".into(),
        review: Some(ReviewRule::default()),
        ..Default::default()
    };
    let run = gateway.runs().create_run(request).await.unwrap().into_inner().run.unwrap().run_id;
    let old = call(&gateway, "wait_research", json!({ "run": run, "seconds": 45 })).await;
    assert!(old["structuredContent"]["needsPerson"] == true && text(&old).contains("approve"), "{old}");
    let wait = json!({ "name": "wait_research", "arguments": { "run": run, "seconds": 45 } });
    let asked = ask(&gateway, NEW, "none", "tools/call", wait.clone()).await.unwrap();
    let asked = &asked["result"];
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let question = &asked["inputRequests"]["review"]["params"];
    assert!(question["message"].as_str().unwrap().contains("- Costs"), "{question}");
    let mut answer = wait;
    answer["arguments"]["seconds"] = json!(0);
    answer["inputResponses"] =
        json!({ "review": { "action": "accept", "content": { "decision": "carry out" } } });
    let goes_on = ask(&gateway, NEW, "none", "tools/call", answer).await.unwrap();
    assert_eq!(goes_on["result"]["structuredContent"]["needsPerson"], false, "{goes_on}");
    driver.open_gate();
    driver.stop().await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_tool_may_do_what_its_user_may_do() {
    let guarded = Guarded::start().await;
    let hour = Duration::from_secs(3_600);
    let (ann, eve) = (guarded.issuer.token("ann", hour), guarded.issuer.token("eve", hour));
    let gateway = &guarded.gateway;
    let refused = ask(gateway, OLD, "nonsense", "tools/list", json!({})).await;
    assert_eq!(refused.unwrap_err(), StatusCode::UNAUTHORIZED);
    let start = json!({ "name": "start_research", "arguments": { "objective": "why?" } });
    let started = ask(gateway, OLD, &ann, "tools/call", start).await.unwrap();
    let run = &started["result"]["structuredContent"]["run"];
    for tool in ["wait_research", "research_result", "cite", "steer_research"] {
        let mut arguments = json!({ "run": run });
        if tool == "steer_research" {
            arguments["action"] = json!("pause");
        }
        let call = json!({ "name": tool, "arguments": arguments });
        let refused = ask(gateway, OLD, &eve, "tools/call", call).await.unwrap();
        assert!(text(&refused["result"]).contains("does not exist"), "{tool}: {refused}");
    }
    let evil = Request::post("/").header(header::ORIGIN, "https://evil.example");
    assert_eq!(gateway.send(evil, "/mcp", "{}").await.status(), StatusCode::FORBIDDEN);
    let get = Request::get("/").header(header::AUTHORIZATION, format!("Bearer {ann}"));
    let stream = gateway.send(get.header(header::ACCEPT, "text/event-stream"), "/mcp", "").await;
    assert_eq!(stream.status(), StatusCode::METHOD_NOT_ALLOWED, "there are no sessions");
    guarded.gateway.stop().await;
}
