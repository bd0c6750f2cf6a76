//! `RunService`.

use std::sync::Arc;

use futures::stream::Empty;
use prost::Message;
use tonic::{Request, Response, Status};
use tree_agent_contract::command::Action;
use tree_agent_contract::error::Checks;
use tree_agent_contract::project::CREATE_DOCUMENT;
use tree_agent_contract::{Command, Estimate, Event, ModelChoice, NodeId, RunId, RunSpec, Scope, limits};
use tree_agent_engine::Graph;
use tree_agent_proto::v1::run_service_server::RunService;
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_runtime::errors::invalid;
use tree_agent_runtime::telemetry;
use tree_agent_store::{NewRun, Projection, Sent, Store, StoreError};
use uuid::Uuid;

use crate::auth::Caller;
use crate::errors;
use crate::fields::{check_types, id, now, optional};
use crate::forks::{fork, retry};
use crate::gateway::Gateway;
use crate::models::{Described, MODEL_PATIENCE};
use crate::pages::{self, Pages};
use crate::specs::{as_run, spec};
use crate::steering::{Asked, steer};
use crate::{citations, copies, diffs, results, run_lists, waits};

/// Events that one `ListEvents` call looks at: with a filter that matches little, pages may be short.
const SCAN: usize = 20_000;
/// Events read from the log at a time.
const PAGE: usize = 1_000;

/// The service.
pub(crate) struct Runs(pub(crate) Arc<Gateway>);

impl Runs {
    /// Whether the answer of a run with this model is verified: as asked, else if it is a language model. Nobody says
    /// so of the default model if no role service answers; then the answer is not verified.
    async fn verifies(&self, asked: Option<bool>, model: &str) -> bool {
        if let Some(asked) = asked {
            return asked;
        }
        match is_language(model) {
            Some(is_language) => is_language,
            None => {
                let default = self.0.models.describe("", MODEL_PATIENCE).await.model;
                is_language(&default).unwrap_or_default()
            }
        }
    }

    /// Carries out a command, or says what it would do.
    async fn steered(
        &self,
        request: Request<impl Into<Asked>>,
    ) -> Result<Option<pb::CommandOutcome>, Status> {
        let view = self.0.view(request.extensions()).await?;
        steer(&self.0, &view, request.into_inner().into()).await.map(Some)
    }

    /// `NOT_FOUND` for a node that the run does not have.
    async fn require_node(&self, run: RunId, node: NodeId) -> Result<(), Status> {
        let nodes = self.0.store.node_parents(run).await.map_err(errors::store)?;
        match nodes.iter().any(|(id, _)| *id == node) {
            true => Ok(()),
            false => Err(errors::no_node(run, node)),
        }
    }
}

#[tonic::async_trait]
impl RunService for Runs {
    async fn create_run(
        &self,
        request: Request<pb::CreateRunRequest>,
    ) -> Result<Response<pb::CreateRunResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        let (store, mut request) = (&*self.0.store, request.into_inner());
        let request_id = request.request_id.clone();
        // Before the look-up: the same request may be under way.
        let turn = self.0.users.turn(view.user()).await?;
        let accepted = copies::accepted(store, view.user(), &request_id).await?;
        let asks_to_write_nothing = request.read_only == Some(true);
        self.0.context_by_name(&view, request.context.as_mut()).await?;
        let mut request = copies::completed(store, &view, request, accepted.as_ref()).await?;
        // What was accepted once stays accepted, whatever has become of the maxima, of its projects and of its model.
        let mut warned = Vec::new();
        let spec = match accepted {
            Some(accepted) => {
                let mut spec = spec(copies::as_accepted(request, &accepted), &view, None)?;
                spec.by_administrator = accepted.by_administrator;
                let per_call = accepted.review.and_then(|review| review.per_call);
                spec.review.iter_mut().for_each(|review| review.per_call = per_call);
                spec
            }
            None => {
                request.keep_prompts.get_or_insert(self.0.keep_prompts);
                let (verify, asked) = (request.verify, request.budgets.unwrap_or_default());
                let mut spec = spec(request, &view, Some(&self.0.maxima))?;
                self.0.require(&view, &spec).await?;
                let (user, budgets) = (&spec.user_id, &mut spec.budgets);
                self.0.users.admit_run(store, user, now(), &asked, budgets).await?;
                let is_unasked = spec.read_only && !asks_to_write_nothing;
                if is_unasked || spec.review.is_some() || spec.budgets.max_cost_micros.is_some() {
                    let described = self.0.models.describe(&spec.model, MODEL_PATIENCE).await;
                    warned = warnings(&spec, &described);
                    warned.extend(is_unasked.then(|| read_only_unasked(&spec, &described)).flatten());
                    spec.review.iter_mut().for_each(|review| review.per_call = described.per_call);
                }
                spec.verify = self.verifies(verify, &spec.model).await;
                spec
            }
        };
        let run_id = RunId::from(Uuid::now_v7());
        let started = tree_agent_engine::start(run_id, spec.clone(), now());
        let projection = first_rows(run_id, &started.events)?;
        let batch = pb::EventBatch { events: started.events.iter().map(Wire::to_wire).collect() };
        let run = NewRun {
            run_id,
            spec,
            request_id,
            events: started.events,
            projection,
            documents: started.documents,
            sessions: started.sessions,
        };
        let created = self.0.store.create_run(run).await.map_err(errors::conflict("request_id"))?;
        drop(turn);
        // Persisted; now tell.
        let run_id = self.0.announce(created, batch).await;
        if telemetry::exporting() {
            telemetry::join_run(&tracing::info_span!("create run", run = %run_id), run_id);
        }
        let run = self.0.store.run(run_id).await.map_err(|error| match error {
            StoreError::NotFound { .. } => copies::deleted(run_id),
            other => errors::store(other),
        })?;
        Ok(Response::new(pb::CreateRunResponse { run: Some(run.to_wire()), warnings: warned }))
    }

    async fn get_run(
        &self,
        request: Request<pb::GetRunRequest>,
    ) -> Result<Response<pb::GetRunResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        let run = id(RunId::parse_field("run_id", &request.get_ref().run_id))?;
        let run = view.run(&*self.0.store, run).await?;
        Ok(Response::new(pb::GetRunResponse { run: Some(run.to_wire()) }))
    }

    async fn list_runs(
        &self,
        request: Request<pb::ListRunsRequest>,
    ) -> Result<Response<pb::ListRunsResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        let mut request = request.into_inner();
        self.0.by_name(&view, "project_id", &mut request.project_id).await?;
        let response = run_lists::list(&*self.0.store, &view, request).await?;
        Ok(Response::new(response))
    }

    type WatchRunsStream = Empty<Result<pb::WatchRunsResponse, Status>>;

    /// Never called: [`crate::streams`] stands before it.
    async fn watch_runs(
        &self,
        _: Request<pb::WatchRunsRequest>,
    ) -> Result<Response<Self::WatchRunsStream>, Status> {
        Err(errors::intercepted())
    }

    async fn get_result(
        &self,
        request: Request<pb::GetResultRequest>,
    ) -> Result<Response<pb::GetResultResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        let run = id(RunId::parse_field("run_id", &request.get_ref().run_id))?;
        let run = view.run(&*self.0.store, run).await?;
        Ok(Response::new(results::result(&*self.0.store, run).await?))
    }

    async fn wait_run(
        &self,
        request: Request<pb::WaitRunRequest>,
    ) -> Result<Response<pb::WaitRunResponse>, Status> {
        let caller = Caller::of(request.extensions());
        Ok(Response::new(waits::wait(&self.0, &caller, request.into_inner()).await?))
    }

    async fn list_citations(
        &self,
        request: Request<pb::ListCitationsRequest>,
    ) -> Result<Response<pb::ListCitationsResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        Ok(Response::new(citations::page(&self.0, &view, request.into_inner()).await?))
    }

    async fn get_node(
        &self,
        request: Request<pb::GetNodeRequest>,
    ) -> Result<Response<pb::GetNodeResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        Ok(Response::new(results::node(&self.0, &view, request.into_inner()).await?))
    }

    async fn estimate_run(
        &self,
        request: Request<pb::EstimateRunRequest>,
    ) -> Result<Response<pb::EstimateRunResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        let mut request = request.into_inner();
        self.0.context_by_name(&view, request.context.as_mut()).await?;
        let verify = request.verify;
        let mut spec = spec(as_run(request), &view, Some(&self.0.maxima))?;
        self.0.require(&view, &spec).await?;
        spec.verify = self.verifies(verify, &spec.model).await;
        let described = self.0.models.describe(&spec.model, MODEL_PATIENCE).await;
        let estimate = Estimate::of(&spec, described.per_call.as_ref());
        Ok(Response::new(pb::EstimateRunResponse {
            estimate: Some(estimate.to_wire()),
            budgets: Some(spec.budgets.to_wire()),
            warnings: warnings(&spec, &described),
            model: described.model,
            per_call: described.per_call.to_wire(),
        }))
    }

    async fn delete_run(
        &self,
        request: Request<pb::DeleteRunRequest>,
    ) -> Result<Response<pb::DeleteRunResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        let run = id(RunId::parse_field("run_id", &request.get_ref().run_id))?;
        // One that is deleted already, too.
        let listed = self.0.store.listed_runs(&[run]).await.map_err(errors::store)?;
        let listed = listed.first().ok_or_else(|| errors::store(StoreError::not_found("run", run)))?;
        view.check_run("run_id", &listed.summary)?;
        if !self.0.store.delete_run(run).await.map_err(errors::store)? {
            return Err(errors::not_ended(run));
        }
        self.0.board.nudge();
        Ok(Response::new(pb::DeleteRunResponse {}))
    }

    type WatchRunStream = Empty<Result<pb::WatchRunResponse, Status>>;

    /// Never called: [`crate::streams`] stands before it.
    async fn watch_run(
        &self,
        _: Request<pb::WatchRunRequest>,
    ) -> Result<Response<Self::WatchRunStream>, Status> {
        Err(errors::intercepted())
    }

    async fn list_events(
        &self,
        request: Request<pb::ListEventsRequest>,
    ) -> Result<Response<pb::ListEventsResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        let request = request.into_inner();
        let run = id(RunId::parse_field("run_id", &request.run_id))?;
        check_types(&request.types)?;
        let node = optional("node_id", &request.node_id, NodeId::parse_field)?;
        let limit = pages::size(request.page_size);
        let of_list = pb::ListEventsRequest { page_size: 0, page_token: String::new(), ..request.clone() };
        let pages = Pages::of_request("events", &of_list);
        let cursor = pages.cursor(&request.page_token, |cursor| cursor.parse::<u64>().ok())?;
        let head_seq = view.run(&*self.0.store, run).await?.head_seq;
        if request.after_seq > head_seq {
            return Err(errors::beyond_head("after_seq", request.after_seq, head_seq));
        }
        let (begin, wanted) = (cursor.unwrap_or(request.after_seq), (&*request.types, node));
        let (events, seq) = scan(&*self.0.store, run, begin, head_seq, limit, wanted).await?;
        if let (Some(node), true) = (node, cursor.is_none() && events.is_empty()) {
            self.require_node(run, node).await?;
        }
        let next_page_token = if seq < head_seq { pages.token(&seq.to_string()) } else { String::new() };
        Ok(Response::new(pb::ListEventsResponse { events, next_page_token, head_seq }))
    }

    async fn get_graph(
        &self,
        request: Request<pb::GetGraphRequest>,
    ) -> Result<Response<pb::GetGraphResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        let request = request.into_inner();
        let run = id(RunId::parse_field("run_id", &request.run_id))?;
        let (shown, _place) = self.0.graph_at(&view, run, request.at_seq).await?;
        let answer = pb::GetGraphResponse { graph: Some(shown.graph.snapshot().to_wire()) };
        let bytes = answer.encoded_len();
        if bytes > limits::GRAPH_BYTES {
            return Err(errors::graph_too_large(bytes));
        }
        Ok(Response::new(answer))
    }

    async fn diff_runs(
        &self,
        request: Request<pb::DiffRunsRequest>,
    ) -> Result<Response<pb::DiffRunsResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        Ok(Response::new(diffs::page(&self.0, &view, request.into_inner()).await?))
    }

    async fn pause_run(
        &self,
        request: Request<pb::PauseRunRequest>,
    ) -> Result<Response<pb::PauseRunResponse>, Status> {
        Ok(Response::new(pb::PauseRunResponse { outcome: self.steered(request).await? }))
    }

    async fn resume_run(
        &self,
        request: Request<pb::ResumeRunRequest>,
    ) -> Result<Response<pb::ResumeRunResponse>, Status> {
        Ok(Response::new(pb::ResumeRunResponse { outcome: self.steered(request).await? }))
    }

    async fn guide_node(
        &self,
        request: Request<pb::GuideNodeRequest>,
    ) -> Result<Response<pb::GuideNodeResponse>, Status> {
        Ok(Response::new(pb::GuideNodeResponse { outcome: self.steered(request).await? }))
    }

    async fn stop_node(
        &self,
        request: Request<pb::StopNodeRequest>,
    ) -> Result<Response<pb::StopNodeResponse>, Status> {
        Ok(Response::new(pb::StopNodeResponse { outcome: self.steered(request).await? }))
    }

    async fn retry_node(
        &self,
        request: Request<pb::RetryNodeRequest>,
    ) -> Result<Response<pb::RetryNodeResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        Ok(Response::new(retry(&self.0, &view, request.into_inner()).await?))
    }

    async fn edit_plan(
        &self,
        request: Request<pb::EditPlanRequest>,
    ) -> Result<Response<pb::EditPlanResponse>, Status> {
        Ok(Response::new(pb::EditPlanResponse { outcome: self.steered(request).await? }))
    }

    async fn set_budget(
        &self,
        request: Request<pb::SetBudgetRequest>,
    ) -> Result<Response<pb::SetBudgetResponse>, Status> {
        Ok(Response::new(pb::SetBudgetResponse { outcome: self.steered(request).await? }))
    }

    async fn fork_run(
        &self,
        request: Request<pb::ForkRunRequest>,
    ) -> Result<Response<pb::ForkRunResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        Ok(Response::new(fork(&self.0, &view, request.into_inner()).await?))
    }

    async fn cancel_run(
        &self,
        request: Request<pb::CancelRunRequest>,
    ) -> Result<Response<pb::CancelRunResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        let request = request.into_inner();
        let run = id(RunId::parse_field("run_id", &request.run_id))?;
        let mut checks = Checks::default();
        checks.at_most("reason", &request.reason, limits::TEXT_BYTES);
        checks.finish().map_err(|e| invalid(&e))?;
        let mut summary = view.run(&*self.0.store, run).await?;
        if !summary.status.is_final() {
            let command = Command::new(Action::Cancel { reason: request.reason });
            let sent = self.0.store.send_command(run, command).await.map_err(errors::store)?;
            match sent {
                Sent::Pending(_) | Sent::Answered(_) => {
                    self.0.wake().await;
                }
                // It has ended meanwhile. The answer says how.
                Sent::Ended => summary = view.run(&*self.0.store, run).await?,
            }
        }
        Ok(Response::new(pb::CancelRunResponse { run: Some(summary.to_wire()) }))
    }
}

/// The rows that belong to the first events of a run: its own and its root's.
pub(crate) fn first_rows(run: RunId, events: &[Event]) -> Result<Projection, Status> {
    let mut graph = Graph::new(run);
    for event in events {
        graph.apply(event).map_err(errors::replay)?;
    }
    Ok(Projection::of(events, &graph))
}

/// What the user of a run should know that changes no project although nobody asked for that. None if its model is
/// rules, which call no tool that writes.
fn read_only_unasked(spec: &RunSpec, described: &Described) -> Option<String> {
    if is_language(&described.model) == Some(false) {
        return None;
    }
    if spec.context.scope != Scope::Global {
        let text = "the copy is read-only, as the run is; with read_only off (--read-only off) it is not";
        return Some(text.to_owned());
    }
    let foreign = described.writing_tools.iter().map(String::as_str);
    let tools: Vec<&str> = std::iter::once(CREATE_DOCUMENT).chain(foreign).collect();
    Some(format!(
        "no project is chosen, so the run writes its own documents only, without these tools: {}; choose a project, or \
         ask to write (--write)",
        tools.join(", ")
    ))
}

/// Whether the model with this name is a language model; none if nobody knows.
fn is_language(name: &str) -> Option<bool> {
    ModelChoice::parse(name).ok()?.is_language()
}

/// What the user of such a run should know.
fn warnings(spec: &RunSpec, described: &Described) -> Vec<String> {
    let unpriced = described.per_call.and_then(|costs| costs.unpriced(&spec.budgets, &described.model));
    unpriced.into_iter().collect()
}

/// Looks at the events after `seq` up to `head` until `limit` of these types and this node are found, or enough have
/// been looked at. Returns them, and the last event that was looked at.
async fn scan(
    store: &dyn Store,
    run: RunId,
    mut seq: u64,
    head: u64,
    limit: usize,
    (types, node): (&[String], Option<NodeId>),
) -> Result<(Vec<pb::Event>, u64), Status> {
    let (mut events, mut bytes, mut looked_at) = (Vec::new(), 0, 0);
    let page = if node.is_some() || !types.is_empty() { PAGE } else { limit };
    'scan: while seq < head && looked_at < SCAN {
        let read = store.read(run, seq, page).await.map_err(errors::store)?;
        if read.is_empty() {
            break;
        }
        for event in &read {
            if events.len() == limit || bytes >= pages::BYTES || event.seq > head {
                break 'scan;
            }
            seq = event.seq;
            looked_at += 1;
            let at_node = node.is_none_or(|node| node == event.node_id);
            if at_node && (types.is_empty() || types.iter().any(|name| name == event.body.event_type())) {
                let event = event.to_wire();
                bytes += event.encoded_len();
                events.push(event);
            }
        }
    }
    Ok((events, seq))
}
