//! How the driver handles role services that answer garbage, too late, twice or never.

use std::pin::Pin;
use std::time::Duration;

use futures::Stream;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status};
use tree_agent_contract::role::*;
use tree_agent_contract::{Budgets, NodeId, RunContext, RunId};
use tree_agent_driver::{GrpcRoles, Roles, Updates};
use tree_agent_engine::{CallInput, CallKey, CallKind, CallOutput, RoleCall};
use tree_agent_proto::internal::v1::planner_service_server::{PlannerService, PlannerServiceServer};
use tree_agent_proto::{Wire, internal::v1 as pb, role_status};
use tree_agent_runtime::config::RoleUrls;

type Answer = Vec<Result<pb::PlanResponse, Status>>;

/// Sends `answer` and then ends the stream, or keeps it open silently.
struct Scripted {
    answer: Answer,
    hang: bool,
}

#[tonic::async_trait]
impl PlannerService for Scripted {
    type PlanStream = Pin<Box<dyn Stream<Item = Result<pb::PlanResponse, Status>> + Send>>;

    async fn plan(&self, _: Request<pb::PlanRequest>) -> Result<Response<Self::PlanStream>, Status> {
        let (sender, receiver) = mpsc::channel(16);
        for message in self.answer.clone() {
            let _ = sender.try_send(message);
        }
        if self.hang {
            tokio::spawn(async move { sender.closed().await });
        }
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    type PickStream = Pin<Box<dyn Stream<Item = Result<pb::PickResponse, Status>> + Send>>;

    async fn pick(&self, _: Request<pb::PickRequest>) -> Result<Response<Self::PickStream>, Status> {
        Err(Status::unimplemented("these tests plan"))
    }
}

fn output() -> PlannerOutput {
    PlannerOutput {
        premises: None,
        homework: None,
        mode: PlannerMode::Execute,
        mode_reason: "small".into(),
        leaf_decision: None,
        plan: None,
        scratchpad: ScratchpadDraft { append_markdown: "- small".into(), tail_preview: "small".into() },
    }
}

fn message(message: pb::plan_response::Message) -> Result<pb::PlanResponse, Status> {
    Ok(pb::PlanResponse { message: Some(message) })
}

fn an_output() -> Result<pb::PlanResponse, Status> {
    message(pb::plan_response::Message::Output(output().to_wire()))
}

fn call(timeout_ms: u64) -> RoleCall {
    let run_id = RunId(uuid::Uuid::from_u128(1));
    let node_id = NodeId::root(run_id);
    let context = CallContext {
        run_id,
        node_id,
        attempt: 1,
        objective: "why".into(),
        title: "why".into(),
        reason: String::new(),
        success_criteria: vec![],
        depth: 0,
        budgets: Budgets::default(),
        context: RunContext::default(),
        model: String::new(),
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
    };
    let input = PlanInput {
        review: false,
        homework: None,
        call: context,
        existing_plan_summary: String::new(),
        replan_reason: String::new(),
        earlier_result: None,
        prior_steps: vec![],
    };
    RoleCall {
        key: CallKey { node_id, kind: CallKind::Plan, round: 0, attempt: 1 },
        input: CallInput::Plan(Box::new(input)),
        timeout_ms,
    }
}

/// Every role at one URL.
fn everywhere(url: http::Uri) -> RoleUrls {
    let urls = vec![url];
    RoleUrls { planners: urls.clone(), executors: urls.clone(), aggregators: urls, ..RoleUrls::default() }
}

/// Calls a planner that answers like this; returns the updates as well.
async fn ask(
    answer: Answer,
    hang: bool,
    timeout_ms: u64,
) -> (Result<CallOutput, RoleError>, Vec<RoleUpdate>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound")).parse().expect("a url");
    let server = tonic::transport::Server::builder()
        .add_service(PlannerServiceServer::new(Scripted { answer, hang }))
        .serve_with_incoming(TcpListenerStream::new(listener));
    let server = tokio::spawn(server);
    let roles = GrpcRoles::new(&everywhere(url), 1).heartbeat(Duration::from_millis(300));
    let call = call(timeout_ms);
    let (updates, mut received) = Updates::channel(call.key, 16);
    let result = roles.call(call, updates).await;
    let mut seen = Vec::new();
    while let Some(update) = received.next().await {
        seen.push(update);
    }
    server.abort();
    (result, seen)
}

fn kind(result: Result<CallOutput, RoleError>) -> RoleErrorKind {
    result.expect_err("the call must fail").kind
}

#[tokio::test]
async fn updates_come_in_order_before_the_output() {
    let delta = |text: &str| {
        let update = RoleUpdate::Scratchpad(ScratchpadDelta { append_markdown: text.into() });
        message(pb::plan_response::Message::Update(update.to_wire()))
    };
    let (result, updates) = ask(vec![delta("a"), delta("b"), an_output()], false, 5_000).await;
    assert_eq!(result, Ok(CallOutput::Plan(output())));
    let texts: Vec<_> = updates
        .into_iter()
        .map(|u| match u {
            RoleUpdate::Scratchpad(delta) => delta.append_markdown,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(texts, ["a", "b"]);
}

#[tokio::test]
async fn garbage_is_a_broken_contract() {
    let no_scratchpad = pb::PlannerOutput { mode: 1, ..Default::default() };
    let garbage = message(pb::plan_response::Message::Output(no_scratchpad));
    let (result, _) = ask(vec![garbage], false, 5_000).await;
    let error = result.expect_err("garbage");
    assert_eq!(error.kind, RoleErrorKind::InvalidOutput);
    assert!(error.message.contains("scratchpad"), "{error}");

    let (result, _) = ask(vec![Ok(pb::PlanResponse { message: None })], false, 5_000).await;
    assert_eq!(kind(result), RoleErrorKind::InvalidOutput);
}

#[tokio::test]
async fn two_outputs_are_a_broken_contract() {
    let (result, _) = ask(vec![an_output(), an_output()], false, 5_000).await;
    assert_eq!(kind(result), RoleErrorKind::InvalidOutput);
}

#[tokio::test]
async fn an_end_without_an_output_is_a_broken_contract() {
    let (result, _) = ask(vec![], false, 5_000).await;
    assert_eq!(kind(result), RoleErrorKind::InvalidOutput);
}

#[tokio::test]
async fn silence_is_noticed_before_the_deadline() {
    let (result, _) = ask(vec![], true, 60_000).await;
    let error = result.expect_err("silence");
    assert_eq!(error.kind, RoleErrorKind::Timeout);
    assert!(error.message.contains("no sign of life"), "{error}");
}

#[tokio::test]
async fn a_late_answer_is_a_timeout() {
    let (result, _) = ask(vec![], true, 100).await;
    assert_eq!(kind(result), RoleErrorKind::Timeout);
}

#[tokio::test]
async fn a_typed_failure_keeps_its_type() {
    let error = RoleError::new(RoleErrorKind::Overloaded, "later");
    let (result, _) = ask(vec![Err(role_status(&error))], false, 5_000).await;
    assert_eq!(result, Err(error));
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    let roles = GrpcRoles::new(&everywhere(http::Uri::from_static("http://127.0.0.1:1")), 1)
        .heartbeat(Duration::from_millis(300));
    let call = call(5_000);
    let (updates, _received) = Updates::channel(call.key, 1);
    assert_eq!(kind(roles.call(call, updates).await), RoleErrorKind::Unreachable);
}

/// Beyond the streams of one connection, calls would wait in the client until they count as unanswered.
#[tokio::test]
async fn more_calls_than_a_connection_has_streams_get_more_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let mut everywhere = everywhere(url);
    (everywhere.executors, everywhere.aggregators) = (Vec::new(), Vec::new());
    let roles = GrpcRoles::new(&everywhere, 12_000);
    let call = call(60_000);
    let (updates, _received) = Updates::channel(call.key, 1);
    let calling = tokio::spawn(async move { roles.call(call, updates).await });
    let mut open = Vec::new();
    for number in 1..=6 {
        let accepted = tokio::time::timeout(Duration::from_secs(20), listener.accept()).await;
        open.push(accepted.unwrap_or_else(|_| panic!("connection {number} was not made")).unwrap());
    }
    calling.abort();
}
