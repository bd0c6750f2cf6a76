//! What callers of the executor rely on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Status, Streaming};
use tree_agent_contract::role::{CallContext, ExecuteInput, ExecutorOutput, RoleErrorKind, RoleUpdate};
use tree_agent_contract::{
    Budgets, Document, DocumentId, DocumentSummary, NodeId, ProjectId, RunContext, RunId, SearchResults,
};
use tree_agent_model::{Models, RoleServer};
use tree_agent_proto::internal::v1::execute_response::Message;
use tree_agent_proto::internal::v1::executor_service_client::ExecutorServiceClient;
use tree_agent_proto::internal::v1::{ExecuteRequest, ExecuteResponse};
use tree_agent_proto::{Wire, role_error};
use tree_agent_runtime::channel::{Connector, Peers};
use tree_agent_runtime::role_token::RoleToken;
use tree_agent_tools::{
    Caller, DocumentSource, ListDocuments, Listing, MemoryDocuments, NewDocument, ProjectInfo, ProjectState,
    SearchDocuments, ToolError, ToolRegistry,
};

const PATIENCE: Duration = Duration::from_secs(60);

/// Serves an executor over `source` and returns a client of it.
async fn client(source: Arc<dyn DocumentSource>) -> ExecutorServiceClient<Peers> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let token = RoleToken::random();
    let role = RoleServer::new(Models::new("scripted").unwrap(), ToolRegistry::new(source));
    let serving = tree_agent_executor::serve_role(
        role,
        token.clone(),
        Duration::ZERO,
        listener,
        CancellationToken::new(),
    );
    tokio::spawn(serving);
    connect(&url, &token).await
}

/// A client that shows `token`.
pub(crate) async fn connect(url: &str, token: &RoleToken) -> ExecutorServiceClient<Peers> {
    let connector = Connector::default().with_credentials(token.credentials());
    ExecutorServiceClient::new(connector.connect(url).await.unwrap())
}

pub(crate) fn request(model: &str, change: impl FnOnce(&mut CallContext)) -> ExecuteRequest {
    let run_id = RunId(uuid::Uuid::from_u128(5));
    let mut call = CallContext {
        run_id,
        node_id: NodeId::root(run_id),
        attempt: 1,
        objective: "objective".into(),
        title: "task".into(),
        reason: String::new(),
        success_criteria: vec![],
        depth: 3,
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
    };
    change(&mut call);
    ExecuteInput { task: None, call, earlier: vec![] }.to_wire()
}

/// Reads a stream to its end: the updates, then the output or the failure.
pub(crate) async fn read(
    mut stream: Streaming<ExecuteResponse>,
) -> (Vec<RoleUpdate>, Result<ExecutorOutput, Status>) {
    let mut updates = Vec::new();
    loop {
        match timeout(PATIENCE, stream.next()).await.expect("the stream stalled") {
            None => panic!("the stream ended without output or error"),
            Some(Err(status)) => {
                assert!(stream.next().await.is_none(), "nothing may follow an error");
                return (updates, Err(status));
            }
            Some(Ok(response)) => match response.message.unwrap() {
                Message::Update(update) => updates.push(RoleUpdate::from_wire(update).unwrap()),
                Message::Output(output) => {
                    assert!(stream.next().await.is_none(), "nothing may follow the output");
                    return (updates, Ok(ExecutorOutput::from_wire(output).unwrap()));
                }
            },
        }
    }
}

#[tokio::test]
async fn a_call_streams_its_updates_and_ends_with_one_output() {
    let mut client = client(Arc::new(MemoryDocuments::default())).await;
    let stream = client.execute(request("scripted:tools=2", |_| {})).await.unwrap().into_inner();
    let (updates, output) = read(stream).await;
    let calls: Vec<String> = updates
        .iter()
        .map(|update| match update {
            RoleUpdate::ToolCallRequested(call) => format!("{}?", call.call_id),
            RoleUpdate::ToolCallResult(result) => format!("{}!", result.call_id),
            other => panic!("unexpected {other:?}"),
        })
        .collect();
    assert_eq!(calls, ["t1?", "t1!", "t2?", "t2!"]);
    output.unwrap().validate().unwrap();
}

#[tokio::test]
async fn failures_are_typed() {
    let mut client = client(Arc::new(MemoryDocuments::default())).await;
    for (model, kind) in [
        ("scripted:fail=garbage", RoleErrorKind::InvalidOutput),
        ("scripted:fail=overloaded", RoleErrorKind::Overloaded),
        ("scripted:fail=rejected", RoleErrorKind::Rejected),
    ] {
        let stream = client.execute(request(model, |_| {})).await.unwrap().into_inner();
        assert_eq!(role_error(&read(stream).await.1.unwrap_err()).kind, kind, "{model}");
    }
    for model in ["nonsense", "scripted:fanout=0"] {
        let status = client.execute(request(model, |_| {})).await.unwrap_err();
        assert_eq!(role_error(&status).kind, RoleErrorKind::Rejected, "{model}");
    }
    let mut malformed = request("", |_| {});
    malformed.call.as_mut().unwrap().node_id = "nope".into();
    let status = client.execute(malformed).await.unwrap_err();
    assert!(status.message().contains("call.node_id"), "{status}");
}

#[tokio::test]
async fn the_nearer_of_budget_and_caller_deadline_ends_a_call() {
    let mut client = client(Arc::new(MemoryDocuments::default())).await;
    let by_budget = request("scripted:fail=hang", |call| call.budgets.call_timeout_ms = 200);
    let stream = client.execute(by_budget).await.unwrap().into_inner();
    let error = role_error(&read(stream).await.1.unwrap_err());
    assert_eq!(error.kind, RoleErrorKind::Timeout);
    assert!(error.message.contains("200 ms"), "{error}");

    let mut by_caller = Request::new(request("scripted:fail=hang", |_| {}));
    by_caller.set_timeout(Duration::from_millis(150));
    let stream = client.execute(by_caller).await.unwrap().into_inner();
    let error = role_error(&read(stream).await.1.unwrap_err());
    assert_eq!(error.kind, RoleErrorKind::Timeout);
}

/// Documents that never answer, and tell when a call begins and when it is dropped.
#[derive(Default)]
struct Stuck {
    begun: Notify,
    dropped: Arc<(AtomicBool, Notify)>,
}

struct OnDrop(Arc<(AtomicBool, Notify)>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::SeqCst);
        self.0.1.notify_one();
    }
}

#[async_trait]
impl DocumentSource for Stuck {
    async fn list_documents(&self, _: &Caller, _: &ListDocuments) -> Result<Listing, ToolError> {
        let _guard = OnDrop(self.dropped.clone());
        self.begun.notify_one();
        std::future::pending().await
    }
    async fn search_documents(&self, _: &Caller, _: &SearchDocuments) -> Result<SearchResults, ToolError> {
        Ok(SearchResults::default())
    }
    async fn read_document(&self, _: &Caller, id: DocumentId) -> Result<Document, ToolError> {
        Err(ToolError::NotFound(id.to_string()))
    }
    async fn create_document(&self, _: &Caller, _: NewDocument) -> Result<DocumentSummary, ToolError> {
        Err(ToolError::Source("read only".into()))
    }
    async fn project_states(
        &self,
        _: &Caller,
        projects: &[ProjectId],
    ) -> Result<Vec<Option<ProjectState>>, ToolError> {
        Ok(projects.iter().map(|_| None).collect())
    }
    async fn list_projects(&self, _: &Caller, _: u32) -> Result<Vec<ProjectInfo>, ToolError> {
        Ok(vec![])
    }
}

#[tokio::test]
async fn dropping_the_stream_drops_the_work() {
    let stuck = Arc::new(Stuck::default());
    let mut client = client(stuck.clone()).await;
    let mut stream = client.execute(request("scripted:tools=1", |_| {})).await.unwrap().into_inner();
    timeout(PATIENCE, stuck.begun.notified()).await.unwrap();
    assert!(matches!(stream.next().await, Some(Ok(_))), "the tool call is said while it runs");
    assert!(!stuck.dropped.0.load(Ordering::SeqCst));
    drop(stream);
    timeout(PATIENCE, stuck.dropped.1.notified()).await.expect("the work went on without its caller");
}
