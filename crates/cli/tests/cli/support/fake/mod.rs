//! A server that does what a script says: runs on a real port, answers with made-up logs, breaks on command.

mod documents;
mod log;
mod projects;
mod steering;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use futures::{Stream, StreamExt, stream};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};
use tree_agent_contract::event::Event;
use tree_agent_contract::graph::GraphView;
use tree_agent_contract::*;
use tree_agent_engine::Graph;
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::document_service_server::DocumentServiceServer;
use tree_agent_proto::v1::model_service_server::{ModelService, ModelServiceServer};
use tree_agent_proto::v1::project_service_server::ProjectServiceServer;
use tree_agent_proto::v1::run_service_server::{RunService, RunServiceServer};
use tree_agent_proto::v1::server_service_server::{ServerService, ServerServiceServer};
use tree_agent_proto::v1::watch_run_response::Message;

pub(crate) use self::log::{BODY, document_id, log, message, project_id, run_id};

pub(crate) use self::projects::HOSTILE_NAME;
pub(crate) use self::steering::Steered;

/// What one `WatchRun` call does after it has sent its messages.
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
    /// The requests of `EstimateRun`.
    pub(crate) estimated: Vec<pb::EstimateRunRequest>,
    /// The runs that were deleted.
    pub(crate) deleted: Vec<String>,
    /// The requests of `ListRuns`.
    pub(crate) listed: Vec<pb::ListRunsRequest>,
    /// Objectives of the runs that the list has beside the run of the log, newest first.
    pub(crate) others: Vec<String>,
    /// A watched list has no run.
    pub(crate) lists_nothing: bool,
    /// What the others do differently as forks of the run of the log, if they are.
    pub(crate) fork_edits: Vec<String>,
    /// The requests of `GetDocument`.
    pub(crate) read: Vec<pb::GetDocumentRequest>,
    /// The requests of `WatchDocument`.
    pub(crate) followed: Vec<pb::WatchDocumentRequest>,
    /// The synthesis.
    pub(crate) body: String,
    /// Bytes of the only prompt.
    pub(crate) prompt_bytes: u64,
    /// The model of runs that name none.
    pub(crate) default_model: String,
    /// The model of estimates.
    pub(crate) estimate_model: String,
    /// The answers of `DiffRuns`, used up one by one.
    pub(crate) differences: VecDeque<pb::DiffRunsResponse>,
    /// The requests of `DiffRuns`.
    pub(crate) compared: Vec<pb::DiffRunsRequest>,
    /// The commands to runs.
    pub(crate) steered: Vec<Steered>,
    /// Refusals of commands, used up one by one.
    pub(crate) steering_failures: VecDeque<Status>,
    /// The fork that `ForkRun` and `RetryNode` name.
    pub(crate) fork: Option<String>,
    /// If set, `GetProject` never answers, and tells this channel that it was called.
    pub(crate) stuck_project: Option<std::sync::mpsc::Sender<()>>,
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
            estimated: Vec::new(),
            deleted: Vec::new(),
            listed: Vec::new(),
            others: Vec::new(),
            lists_nothing: false,
            fork_edits: Vec::new(),
            read: Vec::new(),
            followed: Vec::new(),
            body: BODY.into(),
            prompt_bytes: 0,
            default_model: "offline".into(),
            estimate_model: "openai:gpt-4o".into(),
            differences: VecDeque::new(),
            compared: Vec::new(),
            steered: Vec::new(),
            steering_failures: VecDeque::new(),
            fork: None,
            stuck_project: None,
        };
        let fake = Fake(Arc::new(Mutex::new(state)));
        let address = fake.clone().listen(tonic::transport::Server::builder()).await;
        (fake, format!("http://{address}"))
    }

    /// Serves with `server` on a free port of the loopback.
    pub(crate) async fn listen(self, mut server: tonic::transport::Server) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = server
            .add_service(RunServiceServer::new(self.clone()))
            .add_service(DocumentServiceServer::new(self.clone()))
            .add_service(ProjectServiceServer::new(self.clone()))
            .add_service(ModelServiceServer::new(self.clone()))
            .add_service(ServerServiceServer::new(self));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        address
    }

    fn run(&self) -> pb::Run {
        let state = self.0.lock().unwrap();
        let mut graph = Graph::new(run_id());
        state.log.iter().for_each(|e| graph.apply(e).unwrap());
        RunSummary {
            run_id: run_id(),
            spec: RunSpec { context: RunContext::project(project_id()), ..RunSpec::new("why?") },
            status: graph.status(),
            partial: graph.partial(),
            root_node_id: NodeId::root(run_id()),
            head_seq: graph.seq(),
            node_count: graph.nodes().len() as u64,
            ended_nodes: 0,
            usage: graph.usage(),
            models: graph.models().to_vec(),
            error: None,
            created_at: Timestamp::from_millis(0),
            updated_at: Timestamp::from_millis(0),
            started_at: Some(Timestamp::from_millis(1_000)),
            ended_at: Some(Timestamp::from_millis(63_000)),
            fork: None,
        }
        .to_wire()
    }

    /// The run of the log first, then the others; their ids end alike.
    fn runs(&self) -> Vec<pb::Run> {
        let first = self.run();
        let (others, fork_edits) = {
            let state = self.0.lock().unwrap();
            (state.others.clone(), state.fork_edits.clone())
        };
        let parent = (!fork_edits.is_empty()).then(|| first.run_id.clone());
        let others = others.into_iter().zip(1_u8..).map(|(objective, n)| pb::Run {
            run_id: format!("{n:02x}90b6f1-8d3e-7cc4-a1c7-3f7f6c1d{n:02x}4b"),
            objective,
            parent_seq: if parent.is_some() { 4 } else { 0 },
            parent_run_id: parent.clone(),
            fork_edits: fork_edits.clone(),
            ..first.clone()
        });
        std::iter::once(first.clone()).chain(others).collect()
    }
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
            None => Ok(Response::new(pb::CreateRunResponse { run: Some(self.run()), warnings: Vec::new() })),
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
        request: Request<pb::ListRunsRequest>,
    ) -> Result<Response<pb::ListRunsResponse>, Status> {
        let request = request.into_inner();
        self.0.lock().unwrap().listed.push(request.clone());
        let fits = |run: &pb::Run| {
            (run.run_id.starts_with(&request.id_part) || run.run_id.ends_with(&request.id_part))
                && run.objective.contains(&request.objective_contains)
        };
        let runs = self.runs().into_iter().filter(fits).take(request.page_size as usize).collect();
        Ok(Response::new(pb::ListRunsResponse { runs, next_page_token: String::new() }))
    }

    type WatchRunsStream = Pin<Box<dyn Stream<Item = Result<pb::WatchRunsResponse, Status>> + Send>>;

    async fn watch_runs(
        &self,
        _: Request<pb::WatchRunsRequest>,
    ) -> Result<Response<Self::WatchRunsStream>, Status> {
        use pb::watch_runs_response::Message;
        let mut messages: Vec<Message> = self.runs().into_iter().map(Message::Added).collect();
        messages.push(Message::CaughtUp(pb::RunsCaughtUp { resume_token: "here".into() }));
        messages.push(Message::Changed(self.run()));
        if self.0.lock().unwrap().lists_nothing {
            messages.retain(|message| matches!(message, Message::CaughtUp(_)));
        }
        let sent = messages.into_iter().map(|m| Ok(pb::WatchRunsResponse { message: Some(m) }));
        Ok(Response::new(Box::pin(stream::iter(sent).chain(stream::pending()))))
    }

    async fn get_node(
        &self,
        _: Request<pb::GetNodeRequest>,
    ) -> Result<Response<pb::GetNodeResponse>, Status> {
        Err(Status::unimplemented("nothing asks for it"))
    }

    async fn list_citations(
        &self,
        _: Request<pb::ListCitationsRequest>,
    ) -> Result<Response<pb::ListCitationsResponse>, Status> {
        Err(Status::unimplemented("nothing asks for it"))
    }

    async fn wait_run(
        &self,
        _: Request<pb::WaitRunRequest>,
    ) -> Result<Response<pb::WaitRunResponse>, Status> {
        Err(Status::unimplemented("nothing asks for it"))
    }

    async fn get_result(
        &self,
        _: Request<pb::GetResultRequest>,
    ) -> Result<Response<pb::GetResultResponse>, Status> {
        let run = self.run();
        let synthesis = pb::GetResultResponse {
            run_id: run.run_id,
            status: run.status,
            partial: run.partial,
            error: run.error,
            usage: run.usage,
            models: run.models,
            ..Default::default()
        };
        if !RunStatus::from_wire(run.status).unwrap().is_final() {
            return Ok(Response::new(synthesis));
        }
        Ok(Response::new(pb::GetResultResponse {
            outcome: Some(Outcome::Success.to_wire()),
            summary: "Because.".into(),
            text: self.0.lock().unwrap().body.clone(),
            title: "Synthesis".into(),
            document_id: Some(document_id().to_string()),
            ..synthesis
        }))
    }

    async fn diff_runs(
        &self,
        request: Request<pb::DiffRunsRequest>,
    ) -> Result<Response<pb::DiffRunsResponse>, Status> {
        let mut state = self.0.lock().unwrap();
        state.compared.push(request.into_inner());
        state.differences.pop_front().map(Response::new).ok_or_else(|| Status::not_found("no such run"))
    }

    async fn estimate_run(
        &self,
        request: Request<pb::EstimateRunRequest>,
    ) -> Result<Response<pb::EstimateRunResponse>, Status> {
        let request = request.into_inner();
        self.0.lock().unwrap().estimated.push(request.clone());
        let estimate = pb::Estimate {
            nodes: 5,
            depth: 1,
            plan_calls: 2,
            execute_calls: 5,
            aggregate_calls: 2,
            attempts: 3,
            cost_micros: Some(500_000),
            tool_calls: Some(9),
            wall_clock_ms: 600_000,
            ends_within_ms: 900_000,
            unlimited: vec!["maxTokens".into()],
            ..Default::default()
        };
        let cost = Some(pb::CallCost { tokens: 10, cost_micros: Some(70) });
        Ok(Response::new(pb::EstimateRunResponse {
            warnings: Vec::new(),
            estimate: Some(estimate),
            budgets: request.budgets,
            model: self.0.lock().unwrap().estimate_model.clone(),
            per_call: Some(pb::RoleCosts { plan: cost, execute: cost, aggregate: cost, research: None }),
        }))
    }

    async fn delete_run(
        &self,
        request: Request<pb::DeleteRunRequest>,
    ) -> Result<Response<pb::DeleteRunResponse>, Status> {
        self.0.lock().unwrap().deleted.push(request.into_inner().run_id);
        Ok(Response::new(pb::DeleteRunResponse {}))
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

    async fn pause_run(
        &self,
        request: Request<pb::PauseRunRequest>,
    ) -> Result<Response<pb::PauseRunResponse>, Status> {
        let request = request.into_inner();
        let validate_only = request.validate_only;
        self.steer(Steered::Pause(request), validate_only, |outcome| pb::PauseRunResponse { outcome })
    }

    async fn resume_run(
        &self,
        request: Request<pb::ResumeRunRequest>,
    ) -> Result<Response<pb::ResumeRunResponse>, Status> {
        let request = request.into_inner();
        let validate_only = request.validate_only;
        self.steer(Steered::Resume(request), validate_only, |outcome| pb::ResumeRunResponse { outcome })
    }

    async fn guide_node(
        &self,
        request: Request<pb::GuideNodeRequest>,
    ) -> Result<Response<pb::GuideNodeResponse>, Status> {
        let request = request.into_inner();
        let validate_only = request.validate_only;
        self.steer(Steered::Guide(request), validate_only, |outcome| pb::GuideNodeResponse { outcome })
    }

    async fn stop_node(
        &self,
        request: Request<pb::StopNodeRequest>,
    ) -> Result<Response<pb::StopNodeResponse>, Status> {
        let request = request.into_inner();
        let validate_only = request.validate_only;
        self.steer(Steered::Stop(request), validate_only, |outcome| pb::StopNodeResponse { outcome })
    }

    async fn retry_node(
        &self,
        request: Request<pb::RetryNodeRequest>,
    ) -> Result<Response<pb::RetryNodeResponse>, Status> {
        let (request, fork_run_id) = (request.into_inner(), self.0.lock().unwrap().fork.clone());
        let validate_only = request.validate_only;
        self.steer(Steered::Retry(request), validate_only, |outcome| pb::RetryNodeResponse {
            outcome,
            fork_run_id,
        })
    }

    async fn edit_plan(
        &self,
        request: Request<pb::EditPlanRequest>,
    ) -> Result<Response<pb::EditPlanResponse>, Status> {
        let request = request.into_inner();
        let validate_only = request.validate_only;
        self.steer(Steered::EditPlan(request), validate_only, |outcome| pb::EditPlanResponse { outcome })
    }

    async fn set_budget(
        &self,
        request: Request<pb::SetBudgetRequest>,
    ) -> Result<Response<pb::SetBudgetResponse>, Status> {
        let request = request.into_inner();
        let validate_only = request.validate_only;
        self.steer(Steered::SetBudget(request), validate_only, |outcome| pb::SetBudgetResponse { outcome })
    }

    async fn fork_run(
        &self,
        request: Request<pb::ForkRunRequest>,
    ) -> Result<Response<pb::ForkRunResponse>, Status> {
        let (request, fork) = (request.into_inner(), self.0.lock().unwrap().fork.clone());
        let validate_only = request.validate_only;
        self.steer(Steered::Fork(request), validate_only, |outcome| match validate_only {
            true => pb::ForkRunResponse {
                preview: outcome.and_then(|outcome| outcome.preview),
                changed_document_ids: vec![document_id().to_string()],
                changed_document_count: 1,
                ..Default::default()
            },
            false => pb::ForkRunResponse { fork_run_id: fork.unwrap_or_default(), ..Default::default() },
        })
    }

    async fn cancel_run(
        &self,
        _: Request<pb::CancelRunRequest>,
    ) -> Result<Response<pb::CancelRunResponse>, Status> {
        Ok(Response::new(pb::CancelRunResponse { run: Some(self.run()) }))
    }
}

#[tonic::async_trait]
impl ModelService for Fake {
    async fn list_models(
        &self,
        _: Request<pb::ListModelsRequest>,
    ) -> Result<Response<pb::ListModelsResponse>, Status> {
        let model = |name: &str, resolves_to: &str, problem: &str| pb::Model {
            name: name.into(),
            resolves_to: resolves_to.into(),
            description: format!("what {name} is for"),
            usable: problem.is_empty(),
            problem: problem.into(),
            ..Default::default()
        };
        let key = pb::ScriptedKey {
            key: "fanout".into(),
            values: "1 to 100 [3]".into(),
            description: "children of each node".into(),
        };
        Ok(Response::new(pb::ListModelsResponse {
            models: vec![
                model("offline", "", ""),
                model("fast", "openai:small", ""),
                model("powerful", "openai:large", "the key is missing; set OPENAI_API_KEY"),
            ],
            default_model: "offline".into(),
            scripted_keys: vec![key],
        }))
    }
}

#[tonic::async_trait]
impl ServerService for Fake {
    async fn get_status(
        &self,
        _: Request<pb::GetStatusRequest>,
    ) -> Result<Response<pb::GetStatusResponse>, Status> {
        Ok(Response::new(pb::GetStatusResponse::default()))
    }

    async fn get_server_info(
        &self,
        _: Request<pb::GetServerInfoRequest>,
    ) -> Result<Response<pb::GetServerInfoResponse>, Status> {
        let max_budgets = pb::Budgets { max_wall_clock_ms: Some(3_600_000), ..Default::default() };
        Ok(Response::new(pb::GetServerInfoResponse {
            version: "0.2.0".into(),
            api_version: "treeagent.v1".into(),
            strategies: vec![Strategy::Tree.to_wire()],
            limits: Some(pb::Limits { max_budgets: Some(max_budgets), ..Default::default() }),
            default_model: self.0.lock().unwrap().default_model.clone(),
            ..Default::default()
        }))
    }
}
