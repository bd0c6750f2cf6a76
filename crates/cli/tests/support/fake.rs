//! A server that does what a script says: runs on a real port, answers with made-up logs, breaks on command.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use futures::{Stream, StreamExt, stream};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};
use tree_agent_contract::event::{
    ArtifactCreated, Event, EventBody, NodeCompleted, NodeCreated, NodeResult, NodeStatusChanged, RunCreated,
    RunStatusChanged, SCHEMA_VERSION,
};
use tree_agent_contract::*;
use tree_agent_engine::Graph;
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::document_service_server::{DocumentService, DocumentServiceServer};
use tree_agent_proto::v1::run_service_server::{RunService, RunServiceServer};
use tree_agent_proto::v1::watch_run_response::Message;

/// What one `WatchRun` call does after it has sent its messages.
#[allow(dead_code, reason = "each test binary uses a part of the script")]
pub(crate) enum Then {
    /// Closes the stream in peace.
    Close,
    /// Ends it with a status.
    Fail(Status),
    /// Says nothing more, ever.
    Silence,
}

/// One `WatchRun` call.
pub(crate) struct Call {
    pub(crate) send: Vec<Message>,
    pub(crate) then: Then,
}

/// What the server knows.
pub(crate) struct State {
    pub(crate) log: Vec<Event>,
    /// The calls of `WatchRun` in order; when they are used up it serves the log and closes.
    pub(crate) calls: VecDeque<Call>,
    /// The `after_seq` of every `WatchRun` call.
    pub(crate) asked: Vec<u64>,
    /// Refusals of `CreateRun`, used up one by one.
    pub(crate) create_failures: Vec<Status>,
    /// The requests of `CreateRun`.
    pub(crate) created: Vec<pb::CreateRunRequest>,
}

#[derive(Clone)]
pub(crate) struct Fake(pub(crate) Arc<Mutex<State>>);

impl Fake {
    /// Serves on a free port of the loopback and returns the URL.
    pub(crate) async fn serve(log: Vec<Event>, calls: Vec<Call>) -> (Self, String) {
        let state = State {
            log,
            calls: calls.into(),
            asked: Vec::new(),
            create_failures: Vec::new(),
            created: Vec::new(),
        };
        let fake = Fake(Arc::new(Mutex::new(state)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = tonic::transport::Server::builder()
            .add_service(RunServiceServer::new(fake.clone()))
            .add_service(DocumentServiceServer::new(fake.clone()));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        (fake, url)
    }

    fn run(&self) -> pb::Run {
        let state = self.0.lock().unwrap();
        let mut graph = Graph::new(run_id());
        state.log.iter().for_each(|e| graph.apply(e).unwrap());
        RunSummary {
            run_id: run_id(),
            spec: RunSpec::new("why?"),
            status: graph.status(),
            partial: graph.partial(),
            root_node_id: NodeId::root(run_id()),
            head_seq: graph.seq(),
            node_count: graph.nodes().len() as u64,
            usage: graph.usage(),
            error: None,
            created_at: Timestamp::from_millis(0),
            updated_at: Timestamp::from_millis(0),
            started_at: None,
            ended_at: None,
        }
        .to_wire()
    }
}

pub(crate) fn run_id() -> RunId {
    RunId(uuid::Uuid::from_u128(0x0190_b6f1_8d3e_7cc4_a1c7_3f7f_6c1d_2e4b))
}

pub(crate) fn message(event: &Event) -> Message {
    Message::Event(event.to_wire())
}

pub(crate) fn document_id() -> DocumentId {
    DocumentId::of_artifact(ArtifactId::of(NodeId::root(run_id()), 0, "synthesis"))
}

/// A whole run of one node that ends with `status`.
pub(crate) fn log(status: RunStatus, partial: bool) -> Vec<Event> {
    let root = NodeId::root(run_id());
    let artifact = ArtifactId::of(root, 0, "synthesis");
    let bodies: Vec<EventBody> = vec![
        RunCreated { spec: RunSpec::new("why?"), root_node_id: root, schema_version: SCHEMA_VERSION }.into(),
        NodeCreated {
            parent_node_id: None,
            title: "why?".into(),
            depth: 0,
            band_index: None,
            step_index: None,
            step_id: None,
            reason: String::new(),
            success_criteria: Vec::new(),
        }
        .into(),
        RunStatusChanged { status: RunStatus::Running, reason: None, partial: false }.into(),
        NodeStatusChanged {
            status: NodeStatus::Executing,
            role: Role::Executor,
            message: Some("leaf_decision:direct".into()),
            progress: None,
            attempt: None,
        }
        .into(),
        ArtifactCreated {
            artifact_id: artifact,
            artifact_type: ArtifactType::Document,
            document_id: Some(document_id()),
            label: Some("synthesis".into()),
            title: Some("Synthesis".into()),
            json_payload: None,
            is_primary: true,
            snippet: None,
        }
        .into(),
        NodeResult {
            result: TreeAgentResult {
                kind: ResultKind::Document,
                summary: "Because.".into(),
                success_assessment: None,
                primary_artifact_id: Some(artifact),
                artifact_ids: vec![artifact],
                document_ids: vec![document_id()],
                json_payload: None,
                scratchpad_doc_id: None,
                scratchpad_tail: None,
            },
        }
        .into(),
        NodeCompleted { outcome: Outcome::Success, evidence: None, metrics: None }.into(),
        RunStatusChanged { status, reason: Some("as the script says".into()), partial }.into(),
    ];
    let events = bodies.into_iter().zip(1..).map(|(body, seq)| Event {
        run_id: run_id(),
        seq,
        node_id: root,
        parent_node_id: None,
        timestamp: Timestamp::from_millis(seq as i64 * 250),
        body,
    });
    events.collect()
}

type Watched = Pin<Box<dyn Stream<Item = Result<pb::WatchRunResponse, Status>> + Send>>;

#[tonic::async_trait]
impl RunService for Fake {
    type WatchRunStream = Watched;

    async fn create_run(
        &self,
        request: Request<pb::CreateRunRequest>,
    ) -> Result<Response<pb::CreateRunResponse>, Status> {
        let failure = {
            let mut state = self.0.lock().unwrap();
            state.created.push(request.into_inner());
            state.create_failures.pop()
        };
        match failure {
            Some(status) => Err(status),
            None => Ok(Response::new(pb::CreateRunResponse { run: Some(self.run()) })),
        }
    }

    async fn get_run(
        &self,
        request: Request<pb::GetRunRequest>,
    ) -> Result<Response<pb::GetRunResponse>, Status> {
        if request.get_ref().run_id != run_id().to_string() {
            return Err(Status::not_found(format!("run {} does not exist", request.get_ref().run_id)));
        }
        Ok(Response::new(pb::GetRunResponse { run: Some(self.run()) }))
    }

    async fn list_runs(
        &self,
        _: Request<pb::ListRunsRequest>,
    ) -> Result<Response<pb::ListRunsResponse>, Status> {
        Ok(Response::new(pb::ListRunsResponse { runs: vec![self.run()], next_page_token: String::new() }))
    }

    type WatchRunsStream = Pin<Box<dyn Stream<Item = Result<pb::WatchRunsResponse, Status>> + Send>>;

    async fn watch_runs(
        &self,
        _: Request<pb::WatchRunsRequest>,
    ) -> Result<Response<Self::WatchRunsStream>, Status> {
        Err(Status::unimplemented("nothing asks for it"))
    }

    async fn get_node(
        &self,
        _: Request<pb::GetNodeRequest>,
    ) -> Result<Response<pb::GetNodeResponse>, Status> {
        Err(Status::unimplemented("nothing asks for it"))
    }

    async fn get_result(
        &self,
        _: Request<pb::GetResultRequest>,
    ) -> Result<Response<pb::GetResultResponse>, Status> {
        Err(Status::unimplemented("nothing asks for it"))
    }

    async fn estimate_run(
        &self,
        _: Request<pb::EstimateRunRequest>,
    ) -> Result<Response<pb::EstimateRunResponse>, Status> {
        Err(Status::unimplemented("nothing asks for it"))
    }

    async fn delete_run(
        &self,
        _: Request<pb::DeleteRunRequest>,
    ) -> Result<Response<pb::DeleteRunResponse>, Status> {
        Err(Status::unimplemented("nothing asks for it"))
    }

    async fn watch_run(&self, request: Request<pb::WatchRunRequest>) -> Result<Response<Watched>, Status> {
        let request = request.into_inner();
        if request.run_id != run_id().to_string() {
            return Err(Status::not_found(format!("run {} does not exist", request.run_id)));
        }
        let mut state = self.0.lock().unwrap();
        state.asked.push(request.after_seq);
        let call = state.calls.pop_front().unwrap_or_else(|| Call {
            send: state.log.iter().filter(|e| e.seq > request.after_seq).map(message).collect(),
            then: Then::Close,
        });
        let sent = stream::iter(call.send).map(|m| Ok(pb::WatchRunResponse { message: Some(m) }));
        Ok(Response::new(match call.then {
            Then::Close => Box::pin(sent),
            Then::Fail(status) => Box::pin(sent.chain(stream::iter([Err(status)]))),
            Then::Silence => Box::pin(sent.chain(stream::pending())),
        }))
    }

    /// Pages of three.
    async fn list_events(
        &self,
        request: Request<pb::ListEventsRequest>,
    ) -> Result<Response<pb::ListEventsResponse>, Status> {
        let request = request.into_inner();
        let state = self.0.lock().unwrap();
        let after = request.page_token.parse().unwrap_or(request.after_seq);
        let wanted =
            |e: &&Event| request.types.is_empty() || request.types.iter().any(|t| t == e.body.event_type());
        let events: Vec<&Event> = state.log.iter().filter(|e| e.seq > after).filter(wanted).collect();
        let page: Vec<&Event> = events.iter().take(3).copied().collect();
        let next = if events.len() > 3 { page[2].seq.to_string() } else { String::new() };
        Ok(Response::new(pb::ListEventsResponse {
            events: page.into_iter().map(Wire::to_wire).collect(),
            next_page_token: next,
            head_seq: state.log.len() as u64,
        }))
    }

    async fn get_graph(
        &self,
        request: Request<pb::GetGraphRequest>,
    ) -> Result<Response<pb::GetGraphResponse>, Status> {
        let state = self.0.lock().unwrap();
        let at = request.into_inner().at_seq.unwrap_or(u64::MAX);
        let mut graph = Graph::new(run_id());
        state.log.iter().filter(|e| e.seq <= at).for_each(|e| graph.apply(e).unwrap());
        Ok(Response::new(pb::GetGraphResponse { graph: Some(graph.snapshot().to_wire()) }))
    }

    async fn cancel_run(
        &self,
        _: Request<pb::CancelRunRequest>,
    ) -> Result<Response<pb::CancelRunResponse>, Status> {
        Ok(Response::new(pb::CancelRunResponse { run: Some(self.run()) }))
    }
}

#[tonic::async_trait]
impl DocumentService for Fake {
    async fn get_document(
        &self,
        request: Request<pb::GetDocumentRequest>,
    ) -> Result<Response<pb::GetDocumentResponse>, Status> {
        let id = request.into_inner().document_id;
        if id != document_id().to_string() {
            return Err(Status::not_found(format!("document {id} does not exist")));
        }
        let summary = pb::DocumentSummary {
            document_id: id,
            kind: pb::DocumentKind::Artifact as i32,
            run_id: Some(run_id().to_string()),
            title: "Synthesis".into(),
            bytes: 10,
            updated_at: Some(Timestamp::from_millis(0).to_wire()),
            ..Default::default()
        };
        let document = pb::Document {
            summary: Some(summary),
            body: "# Because\n".into(),
            created_at: Some(Timestamp::from_millis(0).to_wire()),
        };
        Ok(Response::new(pb::GetDocumentResponse { document: Some(document) }))
    }

    type WatchDocumentStream = Pin<Box<dyn Stream<Item = Result<pb::WatchDocumentResponse, Status>> + Send>>;

    /// A few bytes a call: then it breaks, asks to be called again, and ends.
    async fn watch_document(
        &self,
        request: Request<pb::WatchDocumentRequest>,
    ) -> Result<Response<Self::WatchDocumentStream>, Status> {
        use pb::watch_document_response::Message;
        let request = request.into_inner();
        if request.document_id != document_id().to_string() {
            return Err(Status::not_found(format!("document {} does not exist", request.document_id)));
        }
        let at = request.after_bytes;
        let text = |offset: u64, text: &str| Message::Text(pb::DocumentText { offset, text: text.into() });
        let (messages, status) = match at {
            0 => (vec![text(0, "# Be"), text(4, "ca")], Some(Status::unavailable("bye"))),
            6 => {
                let hint = pb::DocumentResumeHint { after_bytes: 8, reason: "drain".into() };
                (vec![text(6, "us"), Message::ResumeHint(hint)], None)
            }
            _ => (vec![text(at, &"# Because\n"[at as usize..])], None),
        };
        let messages = messages.into_iter().map(|m| Ok(pb::WatchDocumentResponse { message: Some(m) }));
        Ok(Response::new(Box::pin(stream::iter(messages.chain(status.map(Err))))))
    }

    async fn list_documents(
        &self,
        _: Request<pb::ListDocumentsRequest>,
    ) -> Result<Response<pb::ListDocumentsResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn search_documents(
        &self,
        _: Request<pb::SearchDocumentsRequest>,
    ) -> Result<Response<pb::SearchDocumentsResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn create_document(
        &self,
        _: Request<pb::CreateDocumentRequest>,
    ) -> Result<Response<pb::CreateDocumentResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }
}
