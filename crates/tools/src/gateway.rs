//! Documents over gRPC: the event-gateway's document and project services.

use std::time::Duration;

use async_trait::async_trait;
use futures::future::try_join_all;
use http::Uri;
use tokio::time::timeout;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::{Code, Request, Status};
use tree_agent_contract::{
    Document, DocumentId, DocumentSummary, ProjectId, Scope, SearchResults, Timestamp, limits,
};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::document_service_client::DocumentServiceClient;
use tree_agent_proto::v1::project_service_client::ProjectServiceClient;
use tree_agent_runtime::channel::{Connector, Peers};
use tree_agent_runtime::retry::backoff;
use tree_agent_runtime::role_token::RUN_ID;

use crate::error::ToolError;
use crate::source::{
    Caller, DocumentSource, ListDocuments, Listing, NewDocument, ProjectInfo, ProjectState, SearchDocuments,
};

/// How long one try may take. The gateway is told, and ends what takes longer.
const TRY_TIMEOUT: Duration = Duration::from_secs(10);
/// Projects that are asked for at the same time.
const PROJECTS_AT_ONCE: usize = 8;
/// Tries of one call. The channel takes another replica each time, if there is one.
const TRIES: u32 = 4;

/// Names the run with each call, which decides what the gateway shows, and how long the call may take.
#[derive(Clone)]
struct ForRun {
    run: MetadataValue<Ascii>,
    limit: Duration,
}

impl Interceptor for ForRun {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert(RUN_ID, self.run.clone());
        request.set_timeout(self.limit);
        Ok(request)
    }
}

/// Calls for one run.
type Calls = InterceptedService<Peers, ForRun>;

/// Documents over gRPC, from any of several gateways. A call that meets a gateway which is gone is made again, which
/// is safe because every call may be repeated. One that takes too long is not: a gateway under load would get more.
pub struct GatewayDocuments {
    channel: Peers,
    limit: Duration,
}

impl GatewayDocuments {
    /// Prepares clients of the gateways at `urls`; connects with the first call, and again after every loss. Must be
    /// called in a runtime. Without any URL every call fails with [`ToolError::Unavailable`]. `connector` sends the
    /// role token.
    pub fn connect_lazy(urls: &[Uri], connector: &Connector) -> Self {
        Self { channel: connector.balanced(urls), limit: TRY_TIMEOUT }
    }

    /// Sets how long a call may take. Default 10 s.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Makes a call for the caller's run, and again while no gateway answers.
    async fn call<R, T, F>(
        &self,
        caller: &Caller,
        what: &str,
        request: R,
        call: impl Fn(Calls, R) -> F,
    ) -> Result<T, ToolError>
    where
        R: Clone,
        F: Future<Output = Result<T, Status>>,
    {
        self.call_within(self.limit, caller, what, request, call).await
    }

    /// [`call`](Self::call), with `limit` for each try.
    async fn call_within<R, T, F>(
        &self,
        limit: Duration,
        caller: &Caller,
        what: &str,
        request: R,
        call: impl Fn(Calls, R) -> F,
    ) -> Result<T, ToolError>
    where
        R: Clone,
        F: Future<Output = Result<T, Status>>,
    {
        let run = caller.run_id.to_string().parse().expect("an id is visible ASCII");
        let calls = InterceptedService::new(self.channel.clone(), ForRun { run, limit });
        let mut tried = 0;
        loop {
            tried += 1;
            let status = match timeout(limit, call(calls.clone(), request.clone())).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(status)) => status,
                Err(_) => Status::deadline_exceeded("too late"),
            };
            match status.code() {
                // The client library says so of a deadline, too.
                Code::DeadlineExceeded | Code::Cancelled => {
                    let text = format!("no answer within {} s", limit.as_secs_f64());
                    return Err(ToolError::Unavailable(text));
                }
                // A broken connection shows as Unknown; what a handler refuses has another code.
                // A refused token is no fault of the call, and the next one may be on its way.
                Code::Unavailable | Code::Unknown | Code::ResourceExhausted | Code::Unauthenticated => {
                    if tried == TRIES {
                        if status.code() == Code::Unauthenticated {
                            tracing::warn!(
                                "a gateway refuses our token (TREE_AGENT_ROLE_TOKEN): {}",
                                status.message()
                            );
                        }
                        return Err(ToolError::Unavailable(status.message().to_owned()));
                    }
                    tokio::time::sleep(backoff(tried)).await;
                }
                Code::NotFound | Code::PermissionDenied => return Err(ToolError::NotFound(what.to_owned())),
                _ => return Err(ToolError::Source(status.message().to_owned())),
            }
        }
    }

    async fn create(
        &self,
        caller: &Caller,
        what: &str,
        request: pb::CreateDocumentRequest,
    ) -> Result<DocumentSummary, ToolError> {
        let written = self
            .call(caller, what, request, |c, request| async move {
                let mut client = Self::documents(c).max_encoding_message_size(limits::MESSAGE_BYTES);
                Ok(client.create_document(request).await?.into_inner())
            })
            .await?;
        read(given(written.document)?)
    }

    async fn project(&self, caller: &Caller, id: ProjectId) -> Result<pb::Project, ToolError> {
        let key = Some(pb::get_project_request::Key::ProjectId(id.to_string()));
        let request = pb::GetProjectRequest { key };
        let found = self
            .call(caller, &format!("project {id}"), request, |c, request| async move {
                Ok(ProjectServiceClient::new(c).get_project(request).await?.into_inner())
            })
            .await?;
        given(found.project)
    }

    /// None if the project does not exist for the caller.
    async fn state_of(&self, caller: &Caller, id: ProjectId) -> Result<Option<ProjectState>, ToolError> {
        match self.project(caller, id).await {
            // A gateway that knows no rules sends none.
            Ok(project) => {
                let reads_only = project.caller_role == pb::MemberRole::Reader as i32;
                let rules = read(project.tools.unwrap_or_default())?;
                Ok(Some(ProjectState { rules, revision: project.revision, reads_only }))
            }
            Err(ToolError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn documents(channel: Calls) -> DocumentServiceClient<Calls> {
        DocumentServiceClient::new(channel).max_decoding_message_size(limits::MESSAGE_BYTES)
    }
}

#[async_trait]
impl DocumentSource for GatewayDocuments {
    async fn list_documents(&self, caller: &Caller, query: &ListDocuments) -> Result<Listing, ToolError> {
        let projects = match query.project_id {
            Some(id) => vec![id.to_string()],
            None => caller.context.project_ids.iter().map(ToString::to_string).collect(),
        };
        let request = pb::ListDocumentsRequest {
            project_ids: projects,
            kinds: vec![pb::DocumentKind::Source as i32],
            path_prefix: query.path_prefix.clone(),
            page_size: query.page_size,
            page_token: query.page_token.clone(),
            ..Default::default()
        };
        let page = self
            .call(caller, "the project", request, |c, request| async move {
                Ok(Self::documents(c).list_documents(request).await?.into_inner())
            })
            .await?;
        Ok(Listing { documents: read(page.documents)?, next_page_token: page.next_page_token })
    }

    async fn search_documents(
        &self,
        caller: &Caller,
        query: &SearchDocuments,
    ) -> Result<SearchResults, ToolError> {
        let request = pb::SearchDocumentsRequest {
            query: query.query.clone(),
            context: Some(caller.context.to_wire()),
            path_prefix: query.path_prefix.clone(),
            limit: query.limit,
            whole_within_seconds: query.whole_within.map(u32::from),
        };
        let limit = self.limit + Duration::from_secs(query.whole_within.unwrap_or_default().into());
        let found = self
            .call_within(limit, caller, "the project", request, |c, request| async move {
                Ok(Self::documents(c).search_documents(request).await?.into_inner())
            })
            .await?;
        read(found)
    }

    async fn read_document(&self, caller: &Caller, id: DocumentId) -> Result<Document, ToolError> {
        let request = pb::GetDocumentRequest { document_id: id.to_string(), ..Default::default() };
        let what = format!("document {id}");
        let found = self
            .call(caller, &what, request, |c, request| async move {
                Ok(Self::documents(c).get_document(request).await?.into_inner())
            })
            .await?;
        let document = given(found.document)?;
        let s: DocumentSummary = read(given(document.summary)?)?;
        if !caller.may_read(s.project_id, s.run_id) {
            return Err(ToolError::NotFound(what));
        }
        Ok(Document {
            id: s.id,
            kind: s.kind,
            project_id: s.project_id,
            run_id: s.run_id,
            path: s.path,
            title: s.title,
            body: document.body,
            props: s.props,
            created_at: read::<Option<Timestamp>>(document.created_at)?.unwrap_or_default(),
            updated_at: s.updated_at,
        })
    }

    async fn project_states(
        &self,
        caller: &Caller,
        projects: &[ProjectId],
    ) -> Result<Vec<Option<ProjectState>>, ToolError> {
        let mut states = Vec::with_capacity(projects.len());
        for some in projects.chunks(PROJECTS_AT_ONCE) {
            states.extend(try_join_all(some.iter().map(|id| self.state_of(caller, *id))).await?);
        }
        Ok(states)
    }

    async fn create_document(
        &self,
        caller: &Caller,
        document: NewDocument,
    ) -> Result<DocumentSummary, ToolError> {
        let what = format!("project {}", document.project_id);
        if !caller.context.allows(document.project_id) {
            return Err(ToolError::NotFound(what));
        }
        let request = pb::CreateDocumentRequest {
            project_id: document.project_id.to_string(),
            path: document.path,
            title: document.title,
            body: document.body,
            run_id: String::new(),
            import: None,
        };
        self.create(caller, &what, request).await
    }

    async fn list_projects(&self, caller: &Caller, limit: u32) -> Result<Vec<ProjectInfo>, ToolError> {
        if caller.context.scope == Scope::Global {
            let (mut projects, mut page_token) = (Vec::new(), String::new());
            loop {
                let page_size = (limit - projects.len() as u32).min(limits::PAGE_MAX as u32);
                let request = pb::ListProjectsRequest { page_size, page_token, ..Default::default() };
                let page = self
                    .call(caller, "the list", request, |c, request| async move {
                        Ok(ProjectServiceClient::new(c).list_projects(request).await?.into_inner())
                    })
                    .await?;
                projects.extend(page.projects);
                page_token = page.next_page_token;
                if page_token.is_empty() || projects.len() >= limit as usize {
                    return projects.into_iter().map(project).collect();
                }
            }
        }
        let mut projects = Vec::new();
        for id in caller.context.project_ids.iter().take(limit as usize) {
            match self.project(caller, *id).await {
                Ok(found) => projects.push(project(found)?),
                Err(ToolError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        projects.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(projects)
    }
}

fn given<T>(message: Option<T>) -> Result<T, ToolError> {
    message.ok_or_else(|| ToolError::Source("the answer holds no document or project".to_owned()))
}

/// A field as the contract has it.
fn read<T: Wire>(pb: T::Pb) -> Result<T, ToolError> {
    T::from_wire(pb).map_err(|e| ToolError::Source(format!("the answer is malformed: {e}")))
}

fn project(p: pb::Project) -> Result<ProjectInfo, ToolError> {
    Ok(ProjectInfo {
        id: read(p.project_id)?,
        name: p.name,
        description: p.description,
        document_count: p.document_count,
        rules: read(p.tools.unwrap_or_default())?,
        revision: p.revision,
    })
}
