//! The aggregator over real loopback gRPC.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;
use tree_agent_contract::role::{AggregateInput, AggregatorOutput, CallContext, ChildOutcome, RoleErrorKind};
use tree_agent_contract::{Budgets, NodeId, NodeStatus, RunContext, RunId, StepId};
use tree_agent_model::{Models, RoleServer};
use tree_agent_proto::internal::v1::aggregate_response::Message;
use tree_agent_proto::internal::v1::aggregator_service_client::AggregatorServiceClient;
use tree_agent_proto::{Wire, role_error};
use tree_agent_runtime::channel::Connector;
use tree_agent_runtime::role_token::RoleToken;
use tree_agent_tools::{MemoryDocuments, ToolRegistry};

fn input(model: &str) -> AggregateInput {
    let run_id = RunId(uuid::Uuid::from_u128(8));
    AggregateInput {
        homework: None,
        call: CallContext {
            run_id,
            node_id: NodeId::root(run_id),
            attempt: 1,
            objective: "What about leases?".into(),
            title: "What about leases?".into(),
            reason: String::new(),
            success_criteria: vec![],
            depth: 0,
            budgets: Budgets::default(),
            context: RunContext::default(),
            model: model.into(),
            scratchpad_tail: String::new(),
            sibling_index: 0,
            allowance: Default::default(),
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
        },
        plan_summary: "plan".into(),
        children: vec![ChildOutcome {
            node_id: NodeId::child(NodeId::root(run_id), 1, &StepId::new("a")),
            step_id: StepId::new("a"),
            title: "a child".into(),
            status: NodeStatus::Failed,
            partial: false,
            result: None,
            error: Some("it broke".into()),
            artifacts: vec![],
            scratchpad_doc_id: None,
            scratchpad_tail: None,
        }],
        exhausted_budget: None,
    }
}

#[tokio::test]
async fn a_call_ends_with_one_valid_output_or_a_typed_error_and_the_server_drains() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let tools = ToolRegistry::new(Arc::new(MemoryDocuments::default()));
    let role = RoleServer::new(Models::new("offline").unwrap(), tools);
    let shutdown = CancellationToken::new();
    let token = RoleToken::random();
    let (drain, stop) = (Duration::from_secs(5), shutdown.clone());
    let server = tree_agent_aggregator::serve_role(role, token.clone(), drain, listener, stop);
    let server = tokio::spawn(server);
    let connector = Connector::default().with_credentials(token.credentials());
    let mut client = AggregatorServiceClient::new(connector.connect(&url).await.unwrap());

    let mut stream = client.aggregate(input("").to_wire()).await.unwrap().into_inner();
    let mut outputs = Vec::new();
    while let Some(response) = stream.next().await {
        if let Message::Output(output) = response.unwrap().message.unwrap() {
            outputs.push(AggregatorOutput::from_wire(output).unwrap());
        }
    }
    let [output] = outputs.as_slice() else { panic!("{} outputs", outputs.len()) };
    output.validate().unwrap();
    assert!(output.synthesis.gaps.iter().any(|gap| gap.contains("it broke")), "{:?}", output.synthesis.gaps);

    let garbage = input("scripted:fail=garbage,fail_role=aggregate").to_wire();
    let status = client.aggregate(garbage).await.unwrap().into_inner().next().await.unwrap().unwrap_err();
    assert_eq!(role_error(&status).kind, RoleErrorKind::InvalidOutput);

    drop(client);
    shutdown.cancel();
    tokio::time::timeout(Duration::from_secs(10), server).await.expect("did not drain").unwrap().unwrap();
}
