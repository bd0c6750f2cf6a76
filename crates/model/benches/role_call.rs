//! What a role call costs besides the model: assembling the prompt, reading and checking the answer, showing it while
//! it arrives, and turning it all into messages. The provider answers at once; what the bare HTTP exchange with it
//! takes is measured beside and subtracted. Prints one JSON object a line.

#![allow(missing_docs, clippy::print_stdout)]

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::routing::post;
use futures::StreamExt;
use serde_json::{Value, json};
use tree_agent_contract::role::*;
use tree_agent_contract::*;
use tree_agent_model::{LanguageModels, LlmArgs, Models, RoleInput, RoleServer};
use tree_agent_proto::Wire;
use tree_agent_runtime::config::Problems;
use tree_agent_tools::{MemoryDocuments, ToolRegistry};
use uuid::Uuid;

/// The allocator of the role services.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 5;
const CALLS: usize = 200;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let call = CallContext {
        run_id: RunId(Uuid::from_u128(1)),
        node_id: NodeId::from(Uuid::from_u128(2)),
        attempt: 1,
        objective: "Compare what happens when Postgres is down with what happens when Redis is down".into(),
        title: "What happens when Postgres is down".into(),
        reason: "One half of the comparison".into(),
        success_criteria: vec!["Names every service that notices".into(), "Returns a document".into()],
        depth: 1,
        budgets: Budgets::default(),
        context: RunContext::default(),
        model: String::new(),
        scratchpad_tail: "Looked at the index.\n".repeat(20),
        sibling_index: 0,
        allowance: Allowance::default(),
        finish: None,
        read_only: false,
        keep_prompts: false,
        origin_run_id: None,
        guidance: Vec::new(),
        deliverable: None,
        profile: None,
        started_at: None,
        time_left_ms: None,
        answers: None,
        siblings: Vec::new(),
        earlier_calls: Vec::new(),
        language: String::new(),
    };
    let plan = PlanInput {
        review: false,
        homework: None,
        call: call.clone(),
        existing_plan_summary: String::new(),
        replan_reason: String::new(),
        earlier_result: None,
        prior_steps: Vec::new(),
    };
    let steps: Vec<Value> = (0..4)
        .map(|n| {
            json!({"id": format!("s{n}"), "title": format!("Look at part {n} of the documents"),
                "reason": "It may say so", "successCriteria": ["Quotes the passage"]})
        })
        .collect();
    let planned = json!({"decision": {"mode": "plan", "modeReason": "Four parts.",
        "scratchpad": {"appendMarkdown": "Four parts, side by side."},
        "plan": {"summary": "Look at each.", "bands": [{"goal": "look", "parallelizable": true, "steps": steps}]}}});
    let document = "A paragraph of the answer, with its source (ARCHITECTURE.md).\n\n".repeat(40);
    let executed = json!({"scratchpad": {"appendMarkdown": "Read three documents."},
        "artifacts": [{"type": "document", "label": "answer", "title": "Answer", "documentMarkdown": document}],
        "result": {"summary": "Runs wait until it is back.", "successAssessment": {"met": true}}});
    let aggregated = json!({"scratchpad": {"appendMarkdown": "They agree."},
        "synthesis": {"summary": "Runs wait.", "keyFindings": ["Runs wait."], "gaps": []},
        "artifacts": [{"type": "document", "label": "answer", "title": "Answer", "documentMarkdown": document}],
        "result": {"summary": "Runs wait until it is back.", "successAssessment": {"met": true}}});
    let execute = ExecuteInput { task: None, call: call.clone(), earlier: (0..3).map(child).collect() };
    let aggregate = AggregateInput {
        homework: None,
        call,
        plan_summary: "Look at each.".into(),
        children: (0..8).map(child).collect(),
        exhausted_budget: None,
    };
    measure("plan", plan, &planned).await;
    measure("execute", execute, &executed).await;
    measure("aggregate", aggregate, &aggregated).await;
}

fn child(n: u128) -> ChildOutcome {
    let summary = "The driver keeps the lease and tries again until the database is back. ".repeat(10);
    ChildOutcome {
        node_id: NodeId::from(Uuid::from_u128(10 + n)),
        step_id: StepId::new(format!("s{n}")),
        title: format!("Part {n}"),
        status: NodeStatus::Completed,
        partial: false,
        result: Some(TreeAgentResult {
            kind: ResultKind::Hybrid,
            summary,
            success_assessment: Some(SuccessAssessment { met: true, notes: None }),
            primary_artifact_id: None,
            artifact_ids: Vec::new(),
            document_ids: Vec::new(),
            json_payload: json!({"passages": vec!["a passage of some length"; 30]}).as_object().cloned(),
            scratchpad_doc_id: None,
            scratchpad_tail: None,
            key_findings: Vec::new(),
            gaps: Vec::new(),
        }),
        error: None,
        artifacts: vec![ArtifactRef {
            label: "answer".into(),
            title: format!("Part {n}"),
            document_id: Some(DocumentId::from(Uuid::from_u128(100 + n))),
            is_primary: true,
            snippet: Some("The beginning of the document. ".repeat(19)),
            hinted: true,
            json_payload: None,
        }],
        scratchpad_doc_id: None,
        scratchpad_tail: None,
    }
}

/// The stream of a provider that has `answer` ready, in pieces of a token's size.
fn stream(answer: &Value) -> String {
    let text = answer.to_string();
    let chars: Vec<char> = text.chars().collect();
    let mut events: String = chars
        .chunks(4)
        .map(|piece| {
            let piece: String = piece.iter().collect();
            let chunk =
                json!({"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": null}]});
            format!("data: {chunk}\n\n")
        })
        .collect();
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 2000, "completion_tokens": 500, "total_tokens": 2500}});
    events.push_str(&format!("data: {end}\n\ndata: {usage}\n\ndata: [DONE]\n\n"));
    events
}

async fn measure<I>(role: &str, input: I, answer: &Value)
where
    I: RoleInput + Clone,
    <I::Output as Wire>::Pb: Send,
{
    let body = stream(answer);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/v1/", listener.local_addr().expect("bound"));
    let reply = body.clone();
    let app = Router::new().route(
        "/v1/chat/completions",
        post(move || std::future::ready(([("content-type", "text/event-stream")], reply.clone()))),
    );
    // On a thread of its own, as a provider is elsewhere.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let listener = listener.into_std().expect("a listener");
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            axum::serve(listener, app).await
        })
    });
    let args = LlmArgs {
        model_balanced: "openai:instant".into(),
        model_base_url: url.clone(),
        model_tool_rounds: "0".into(),
        ..LlmArgs::default()
    };
    let language = LanguageModels::new(&args.check_with(&mut Problems::default(), &|_| None));
    let models = Models::with_language_models("", language).expect("a model is set");
    let server = RoleServer::new(models, ToolRegistry::new(Arc::new(MemoryDocuments::default())));
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let prompt = vec![b'x'; 8_000];

    let mut messages = 0;
    let (mut cost, mut whole) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let begun = Instant::now();
        for _ in 0..CALLS {
            let request = tonic::Request::new(input.to_wire());
            let mut updates = server.call::<I>(request).expect("a call").into_inner();
            while let Some(message) = updates.next().await {
                std::hint::black_box(message.expect("an answer"));
                messages += 1;
            }
        }
        let call = begun.elapsed().as_secs_f64() * 1_000.0 / CALLS as f64;
        let begun = Instant::now();
        for _ in 0..CALLS {
            let sent = client.post(format!("{url}chat/completions")).body(prompt.clone()).send().await;
            let text = sent.expect("an exchange").text().await.expect("a body");
            assert_eq!(text.len(), body.len());
        }
        let exchange = begun.elapsed().as_secs_f64() * 1_000.0 / CALLS as f64;
        // The first round warms up.
        if round > 0 {
            cost.push(call - exchange);
            whole.push(call);
        }
    }
    cost.sort_by(f64::total_cmp);
    whole.sort_by(f64::total_cmp);
    let tokens = (body.matches("data: ").count() - 3) as u64;
    let line = json!({
        "bench": format!("role call besides the model, {role}"), "value": cost[ROUNDS / 2], "unit": "ms",
        "with the HTTP exchange": whole[ROUNDS / 2], "chunks": tokens,
        "updates": messages / (CALLS * (ROUNDS + 1)), "repeat": ROUNDS,
    });
    println!("{line}");
}
