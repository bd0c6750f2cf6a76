//! What each tool does: one call of the API, or a few.

use prost_types::Duration;
use rmcp::ErrorData;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock};
use rmcp::service::{RequestContext, RoleServer};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tonic::{Code, Status};
use tonic_types::StatusExt;
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::document_service_client::DocumentServiceClient;
use tree_agent_proto::v1::model_service_client::ModelServiceClient;
use tree_agent_proto::v1::project_service_client::ProjectServiceClient;
use tree_agent_proto::v1::run_service_client::RunServiceClient;

use crate::tools::{Action, Cite, Nothing, OfRun, Read, Search, Start, Steer, Strategy, Wait};
use crate::{Api, LONGEST_WAIT, review, said};

/// Above this, the tree of a run is not read to say what takes longest.
const LARGE: u64 = 2_000;
/// Rows that are read at the most.
const ROWS: u32 = 1_000;

/// What a tool says: text for people, and the same as data.
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) data: Value,
}

/// Why a tool has nothing to say.
pub(crate) enum Failure {
    /// The assistant can do something about it.
    Status(Status),
    /// The call is none of the tool's.
    Protocol(ErrorData),
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

/// Carries out a call.
pub(crate) async fn call(
    api: Api,
    request: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    match answered(api, request, context).await {
        Ok(response) => Ok(response),
        Err(Failure::Protocol(error)) => Err(error),
        Err(Failure::Status(status)) => {
            Ok(CallToolResult::error(vec![ContentBlock::text(refused(&status))]).into())
        }
    }
}

async fn answered(
    api: Api,
    request: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, Failure> {
    let said = match &*request.name {
        "start_research" => start(api, arguments(&request)?).await?,
        "wait_research" => {
            let wait: Wait = arguments(&request)?;
            if let Some(answer) = review::answer(&request)? {
                review::carry_out(api.clone(), &wait.run, answer).await?;
            }
            let answer = waited(api.clone(), &wait).await?;
            if review::is_asked(&answer, context)
                && let Some(question) = review::question(api.clone(), &answer).await?
            {
                return Ok(question.into());
            }
            progress(api, answer).await?
        }
        "research_result" => result(api, arguments(&request)?).await?,
        "cite" => cite(api, arguments(&request)?).await?,
        "steer_research" => steer(api, arguments(&request)?).await?,
        "list_projects" => {
            let Nothing {} = arguments(&request)?;
            projects(api).await?
        }
        "search_documents" => search(api, arguments(&request)?).await?,
        "read_document" => read(api, arguments(&request)?).await?,
        other => {
            return Err(Failure::Protocol(ErrorData::invalid_params(
                format!("there is no tool {other}"),
                None,
            )));
        }
    };
    let mut result = CallToolResult::success(vec![ContentBlock::text(said.text)]);
    result.structured_content = Some(said.data);
    Ok(result.into())
}

/// The arguments of a call. What is wrong with them is told to the assistant, which can mend it.
fn arguments<T: DeserializeOwned>(request: &CallToolRequestParams) -> Result<T, Failure> {
    let given = request.arguments.clone().unwrap_or_default();
    serde_json::from_value(Value::Object(given))
        .map_err(|error| Failure::Status(Status::invalid_argument(format!("{}: {error}", request.name))))
}

/// A refusal in words, with the field that it is about.
fn refused(status: &Status) -> String {
    let details = status.get_error_details();
    let fields = details.bad_request().map(|bad| bad.field_violations.clone()).unwrap_or_default();
    let named = |field: &str| status.message().contains(field);
    let about: Vec<_> = fields.iter().filter(|v| !named(&v.field)).map(|v| &*v.field).collect();
    let about = if about.is_empty() { String::new() } else { format!(" ({})", about.join(", ")) };
    let remedy = match status.code() {
        Code::Unavailable => "; the server is away or starting, call again in a few seconds",
        Code::Unauthenticated => "; the token is missing or has expired",
        _ => "",
    };
    format!("{}{about}{remedy}", status.message())
}

pub(crate) fn runs(api: Api) -> RunServiceClient<Api> {
    RunServiceClient::new(api).max_decoding_message_size(64 << 20)
}

fn documents(api: Api) -> DocumentServiceClient<Api> {
    DocumentServiceClient::new(api).max_decoding_message_size(16 << 20)
}

async fn start(api: Api, start: Start) -> Result<Said, Failure> {
    let cost = match start.max_cost_usd {
        Some(usd) if !usd.is_finite() || usd < 0.0 => {
            return Err(Status::invalid_argument("max_cost_usd must be a number that is not negative").into());
        }
        usd => usd.map(|usd| (usd * 1e6).round() as u64),
    };
    let budgets = pb::Budgets {
        max_cost_micros: cost,
        max_wall_clock_ms: start.max_minutes.map(|minutes| u64::from(minutes) * 60_000),
        ..Default::default()
    };
    let request = pb::CreateRunRequest {
        objective: start.objective,
        strategy: match start.strategy {
            Strategy::Tree => pb::Strategy::Tree,
            Strategy::Search => pb::Strategy::Search,
            Strategy::Homework => pb::Strategy::Homework,
        }
        .into(),
        context: context_of(start.projects),
        budgets: Some(budgets),
        model: start.model,
        request_id: start.request_id,
        review: start.review.then(pb::ReviewRule::default),
        // A question of an assistant changes no project.
        read_only: Some(true),
        ..Default::default()
    };
    let created = runs(api).create_run(request).await?.into_inner();
    let run = created.run.unwrap_or_default();
    Ok(said::started(&run, &created.warnings))
}

/// The context of these projects; every project if there are none.
fn context_of(projects: Vec<String>) -> Option<pb::RunContext> {
    (!projects.is_empty()).then(|| pb::RunContext { project_ids: projects, ..Default::default() })
}

async fn waited(api: Api, wait: &Wait) -> Result<pb::WaitRunResponse, Failure> {
    let seconds = wait.seconds.min(LONGEST_WAIT.as_secs()) as i64;
    let request = pb::WaitRunRequest {
        run_id: wait.run.clone(),
        after_seq: wait.since,
        timeout: Some(Duration { seconds, nanos: 0 }),
    };
    Ok(runs(api).wait_run(request).await?.into_inner())
}

async fn progress(api: Api, answer: pb::WaitRunResponse) -> Result<Said, Failure> {
    let run = answer.run.clone().unwrap_or_default();
    let is_live = answer.reason() == pb::WaitReason::Timeout && run.node_count <= LARGE;
    let graph = match is_live {
        true => {
            let request = pb::GetGraphRequest { run_id: run.run_id.clone(), at_seq: None };
            runs(api).get_graph(request).await?.into_inner().graph
        }
        false => None,
    };
    Ok(said::progress(&run, answer.reason(), graph.as_ref()))
}

async fn result(api: Api, of: OfRun) -> Result<Said, Failure> {
    let request = pb::GetResultRequest { run_id: of.run };
    Ok(said::result(&runs(api).get_result(request).await?.into_inner()))
}

async fn cite(api: Api, cite: Cite) -> Result<Said, Failure> {
    let wanted = cite.containing.to_lowercase();
    let mut runs = runs(api);
    let mut request = pb::ListCitationsRequest {
        run_id: cite.run.clone(),
        node_id: root(&mut runs, &cite.run).await?,
        page_size: ROWS,
        ..Default::default()
    };
    let mut claims = Vec::new();
    loop {
        let page = runs.list_citations(request.clone()).await?.into_inner();
        claims.extend(page.claims.into_iter().filter(|claim| {
            let citation = claim.citation.as_ref();
            citation.is_some_and(|c| {
                [&c.claim, &c.quote].iter().any(|text| text.to_lowercase().contains(&wanted))
            })
        }));
        if page.next_page_token.is_empty() {
            return Ok(said::citations(&claims, cite.limit.clamp(1, 50), page.counts.as_ref()));
        }
        request.page_token = page.next_page_token;
    }
}

/// The root of a run, whose citations are those of the answer.
async fn root(runs: &mut RunServiceClient<Api>, run: &str) -> Result<String, Failure> {
    let request = pb::GetRunRequest { run_id: run.to_owned() };
    Ok(runs.get_run(request).await?.into_inner().run.unwrap_or_default().root_node_id)
}

async fn steer(api: Api, steer: Steer) -> Result<Said, Failure> {
    let Steer { run, action, node, text } = steer;
    let needs_text = action == Action::Guide;
    if needs_text && text.trim().is_empty() {
        return Err(Status::invalid_argument("text: guide needs what to tell").into());
    }
    let mut runs = runs(api);
    let (run_id, node_id) = (run.clone(), node.clone());
    let done = match action {
        Action::Pause => {
            runs.pause_run(pb::PauseRunRequest { run_id, node_id, ..Default::default() }).await?;
            "Nothing new begins. What is in flight is still recorded; resume goes on."
        }
        Action::Resume => {
            runs.resume_run(pb::ResumeRunRequest { run_id, node_id, ..Default::default() }).await?;
            "It goes on."
        }
        Action::Guide => {
            guide(&mut runs, &run, node, text).await?;
            "The next calls read it."
        }
        Action::Stop if node.is_empty() => {
            let node_id = root(&mut runs, &run).await?;
            runs.stop_node(pb::StopNodeRequest { run_id, node_id, ..Default::default() }).await?;
            "Nothing new begins. What there is becomes the answer; wait_research says when."
        }
        Action::Stop => {
            runs.stop_node(pb::StopNodeRequest { run_id, node_id, ..Default::default() }).await?;
            "Nothing new begins there. The rest of the run goes on."
        }
        Action::Approve => {
            review::approve(&mut runs, &run, text).await?;
            "The plan is carried out."
        }
    };
    Ok(Said { text: done.to_owned(), data: json!({ "run": run, "done": done }) })
}

/// Tells a node, or the whole run, something.
pub(crate) async fn guide(
    runs: &mut RunServiceClient<Api>,
    run: &str,
    node: String,
    text: String,
) -> Result<(), Failure> {
    let subtree = node.is_empty();
    let node_id = if subtree { root(runs, run).await? } else { node };
    let request =
        pb::GuideNodeRequest { run_id: run.to_owned(), node_id, text, subtree, ..Default::default() };
    runs.guide_node(request).await?;
    Ok(())
}

async fn projects(api: Api) -> Result<Said, Failure> {
    let request = pb::ListProjectsRequest { page_size: ROWS, ..Default::default() };
    let mut client = ProjectServiceClient::new(api.clone());
    let projects = client.list_projects(request).await?.into_inner();
    // Without role services nobody knows the models, and the projects are there all the same.
    let models = ModelServiceClient::new(api).list_models(pb::ListModelsRequest {}).await;
    Ok(said::projects(&projects, models.ok().map(|models| models.into_inner()).as_ref()))
}

async fn search(api: Api, search: Search) -> Result<Said, Failure> {
    let request = pb::SearchDocumentsRequest {
        query: search.query,
        context: context_of(search.projects),
        limit: search.limit.clamp(1, 50) as u32,
        ..Default::default()
    };
    Ok(said::hits(&documents(api).search_documents(request).await?.into_inner()))
}

async fn read(api: Api, read: Read) -> Result<Said, Failure> {
    let request = pb::GetDocumentRequest { document_id: read.document, ..Default::default() };
    let document = documents(api).get_document(request).await?.into_inner().document.unwrap_or_default();
    let characters = document.body.chars().count();
    if read.from > characters {
        let text = format!("from: the document has {characters} characters");
        return Err(Status::out_of_range(text).into());
    }
    Ok(said::document(&document, read.from, read.characters.clamp(1, 30_000), characters))
}
