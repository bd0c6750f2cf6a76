//! `DocumentService`.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::Empty;
use tonic::{Code, Request, Response, Status};
use tree_agent_contract::error::Checks;
use tree_agent_contract::text::{is_blank, nfc};
use tree_agent_contract::{
    Document, DocumentId, DocumentImport, DocumentKind, DocumentProps, ProjectId, ProjectStatus, RunContext,
    RunId, SearchResults, limits,
};
use tree_agent_convert::sha256;
use tree_agent_proto::v1::document_service_server::DocumentService;
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_retrieval::default_title;
use tree_agent_runtime::errors::{invalid, invalid_field};
use tree_agent_store::{DocumentQuery, DocumentVersion, PlacedDocument, Project, StoreError, storable};

use crate::auth::Caller;
use crate::errors;
use crate::fields::{at_most, distinct, from_wire, id, now, optional};
use crate::gateway::Gateway;
use crate::pages::{self, Pages};
use crate::search::{Asked, search};
use crate::summaries::{placed_summary, summary};
use crate::view::View;

/// Hits of a search when the client names no limit, and at the most.
const HITS: (u32, u32) = (10, 100);

/// Seconds that a search waits for vectors at the most.
const WHOLE_WITHIN: u32 = 30;

/// The service.
pub(crate) struct Documents(pub(crate) Arc<Gateway>);

#[tonic::async_trait]
impl DocumentService for Documents {
    async fn get_document(
        &self,
        request: Request<pb::GetDocumentRequest>,
    ) -> Result<Response<pb::GetDocumentResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        let id = id(DocumentId::parse_field("document_id", &request.get_ref().document_id))?;
        let run = optional("run_id", &request.get_ref().run_id, RunId::parse_field)?;
        let found = match request.get_ref().at_seq {
            None => view.placed_document(&*self.0.store, run, id, None).await?,
            Some(seq) => self.document_at(&view, run, id, seq).await?,
        };
        let summary = placed_summary(&found).to_wire();
        let document = found.document;
        Ok(Response::new(pb::GetDocumentResponse {
            document: Some(pb::Document {
                summary: Some(summary),
                created_at: Some(document.created_at.to_wire()),
                body: document.body,
            }),
        }))
    }

    type WatchDocumentStream = Empty<Result<pb::WatchDocumentResponse, Status>>;

    /// Never called: [`crate::streams`] stands before it.
    async fn watch_document(
        &self,
        _: Request<pb::WatchDocumentRequest>,
    ) -> Result<Response<Self::WatchDocumentStream>, Status> {
        Err(errors::intercepted())
    }

    async fn list_documents(
        &self,
        request: Request<pb::ListDocumentsRequest>,
    ) -> Result<Response<pb::ListDocumentsResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        let mut request = request.into_inner();
        self.0.all_by_name(&view, "project_ids", &mut request.project_ids).await?;
        let project_ids: Vec<ProjectId> =
            from_wire("project_ids", request.project_ids.clone()).map_err(|e| invalid(&e.into()))?;
        let mut checks = Checks::default();
        at_most(&mut checks, "project_ids", project_ids.len(), limits::CONTEXT_PROJECTS);
        let mut kinds = distinct::<DocumentKind>(&mut checks, "kinds", request.kinds.clone());
        checks.finish().map_err(|e| invalid(&e))?;
        if kinds.is_empty() && request.doc_role.is_empty() {
            // A run may keep hundreds of answers and prompts, which nobody looks for among its documents.
            kinds.extend(DocumentKind::ALL);
            kinds.retain(|kind| !matches!(kind, DocumentKind::ToolAnswer | DocumentKind::Prompt));
        }
        let run_id = optional("run_id", &request.run_id, RunId::parse_field)?;
        let parent_id = optional("parent_id", &request.parent_id, DocumentId::parse_field)?;
        for (field, value) in [
            ("parent_id", &request.parent_id),
            ("doc_role", &request.doc_role),
            ("branch_id", &request.branch_id),
        ] {
            if run_id.is_none() && !value.is_empty() {
                return Err(invalid_field(field, "is for documents of a run; give run_id, too"));
            }
        }
        let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let of_list = pb::ListDocumentsRequest { page_size: 0, page_token: String::new(), ..request.clone() };
        let pages = Pages::of_request("documents", &of_list);
        let limit = pages::size(request.page_size);
        let after = pages.cursor(&request.page_token, |cursor| {
            let (id, path) = cursor.split_once(':')?;
            Some((path.to_owned(), id.parse().ok()?))
        })?;
        let project_ids = view.readable(&*self.0.store, "project_ids", project_ids).await?;
        if let Some(run) = run_id {
            view.run(&*self.0.store, run).await?;
        }
        let mut query = DocumentQuery {
            project_ids,
            run_id,
            kinds,
            parent_id,
            doc_role: some(&request.doc_role),
            branch_id: some(&request.branch_id),
            path_prefix: nfc(&request.path_prefix),
            after,
            limit,
            ..DocumentQuery::default()
        };
        if !narrow(&mut query, &view) {
            return Ok(Response::new(pb::ListDocumentsResponse::default()));
        }
        let page = self.0.store.list_documents(query).await.map_err(|e| errors::store(&e))?;
        let (documents, next_page_token) =
            pages.answer(&page, Wire::to_wire, |document| format!("{}:{}", document.id, document.path));
        Ok(Response::new(pb::ListDocumentsResponse { documents, next_page_token }))
    }

    async fn list_document_versions(
        &self,
        request: Request<pb::ListDocumentVersionsRequest>,
    ) -> Result<Response<pb::ListDocumentVersionsResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        let request = request.into_inner();
        let id = id(DocumentId::parse_field("document_id", &request.document_id))?;
        let pages = Pages::of("document versions", &[&request.document_id, &request.run_id]);
        let limit = pages::size(request.page_size);
        let after = pages.cursor(&request.page_token, |cursor| cursor.parse().ok())?;
        let (store, after) = (&*self.0.store, after.unwrap_or_default());
        let run = optional("run_id", &request.run_id, RunId::parse_field)?;
        let found = view.placed_document(store, run, id, None).await?;
        let page = match found.document.run_id.filter(|_| run.is_some()) {
            Some(run) => store.document_versions_of(run, id, after, limit).await,
            None => store.document_versions(id, after, limit).await,
        };
        let page = page.map_err(|e| errors::store(&e))?;
        let to_wire = |version: &DocumentVersion| pb::DocumentVersion {
            seq: version.seq,
            created_at: Some(version.at.to_wire()),
            bytes: version.bytes,
            replaces: version.replaced,
        };
        let (versions, next_page_token) = pages.answer(&page, to_wire, |version| version.seq.to_string());
        Ok(Response::new(pb::ListDocumentVersionsResponse { versions, next_page_token }))
    }

    async fn search_documents(
        &self,
        request: Request<pb::SearchDocumentsRequest>,
    ) -> Result<Response<pb::SearchDocumentsResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        let mut request = request.into_inner();
        self.0.context_by_name(&view, request.context.as_mut()).await?;
        let mut context: RunContext =
            from_wire("context", request.context.unwrap_or_default()).map_err(|e| invalid(&e.into()))?;
        context.validate().map_err(|e| invalid(&e))?;
        let limit = if request.limit == 0 { HITS.0 } else { request.limit.min(HITS.1) };
        let mut checks = Checks::default();
        checks.at_most("query", &request.query, limits::TEXT_BYTES);
        checks.finish().map_err(|e| invalid(&e))?;
        let named = std::mem::take(&mut context.project_ids);
        context.project_ids = view.readable(&*self.0.store, "context.project_ids", named).await?;
        let Some(context) = view.narrowed(&context) else {
            return Ok(Response::new(SearchResults::default().to_wire()));
        };
        let whole_within = request.whole_within_seconds.map(|seconds| seconds.min(WHOLE_WITHIN));
        let asked = Asked {
            query: request.query,
            context,
            path_prefix: nfc(&request.path_prefix),
            limit: limit as usize,
            whole_within: whole_within.map(|seconds| Duration::from_secs(seconds.into())),
        };
        let found = search(&self.0, view.user(), asked).await?;
        Ok(Response::new(found.to_wire()))
    }

    async fn create_document(
        &self,
        request: Request<pb::CreateDocumentRequest>,
    ) -> Result<Response<pb::CreateDocumentResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        let mut request = request.into_inner();
        self.0.by_name(&view, "project_id", &mut request.project_id).await?;
        let project_id = match (&*request.project_id, &*request.run_id) {
            ("", run) if !run.is_empty() => {
                let run = id(RunId::parse_field("run_id", run))?;
                view.run(&*self.0.store, run).await?;
                return Err(errors::run_writes_its_documents(run));
            }
            (project, "") => id(ProjectId::parse_field("project_id", project))?,
            _ => return Err(invalid_field("run_id", "must be empty when project_id is given")),
        };
        // The answer says what is stored, and the limits hold for it.
        let (title, body) = (storable(&request.title), storable(&request.body));
        let path = nfc(&request.path);
        let mut checks = Checks::default();
        check_path(&mut checks, &path);
        checks.at_most("title", &title, limits::TITLE_BYTES);
        checks.at_most("body", &body, limits::DOCUMENT_BYTES);
        let import: Option<Box<DocumentImport>> = id(Wire::from_wire(request.import))?;
        if let Some(import) = &import {
            check_import(&mut checks, import);
            checks.require(!view.is_role(), "import", || "is not for roles".into());
        }
        checks.finish().map_err(|e| invalid(&e))?;
        let project = self.open_project(&view, project_id).await?;
        let writer = view.writer(&*self.0.store, &project).await?;
        let body = body.into_owned();
        let source = Source { path, title: title.into_owned(), body, import };
        let written = self.put(&project, writer, source).await?;
        Ok(Response::new(pb::CreateDocumentResponse { document: Some(written) }))
    }

    async fn import_file(
        &self,
        request: Request<pb::ImportFileRequest>,
    ) -> Result<Response<pb::ImportFileResponse>, Status> {
        let caller = Caller::of(request.extensions());
        self.import(caller, request.into_inner()).await.map(Response::new)
    }

    async fn delete_document(
        &self,
        request: Request<pb::DeleteDocumentRequest>,
    ) -> Result<Response<pb::DeleteDocumentResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        let request = request.into_inner();
        let id = id(DocumentId::parse_field("document_id", &request.document_id))?;
        let mut checks = Checks::default();
        checks.at_most("import_source", &request.import_source, limits::IMPORT_BYTES);
        checks.finish().map_err(|e| invalid(&e))?;
        let missing =
            |error: &StoreError| request.allow_missing && matches!(error, StoreError::NotFound { .. });
        let document = match view.placed_document(&*self.0.store, None, id, None).await {
            Ok(placed) => placed.document,
            Err(status) if request.allow_missing && status.code() == Code::NotFound => {
                return Ok(Response::new(pb::DeleteDocumentResponse {}));
            }
            Err(status) => return Err(status),
        };
        let Some(project) = document.project_id else { return Err(errors::document_of_run(id)) };
        view.check_project("document_id", project)?;
        let project = self.0.store.uncounted_project(project).await.map_err(|e| errors::store(&e))?;
        if project.status == ProjectStatus::Archived {
            return Err(errors::archived_project("document_id", project.id));
        }
        let import = (!request.import_source.is_empty()).then_some(&*request.import_source);
        match self.0.store.delete_source(id, import).await {
            Ok(true) => {}
            Ok(false) => return Err(errors::not_of_import(id, &request.import_source)),
            Err(error) if missing(&error) => {}
            Err(error) => return Err(errors::store(&error)),
        }
        Ok(Response::new(pb::DeleteDocumentResponse {}))
    }
}

/// A source as it is to be written.
pub(crate) struct Source {
    pub(crate) path: String,
    /// The first heading or the file name when empty.
    pub(crate) title: String,
    pub(crate) body: String,
    pub(crate) import: Option<Box<DocumentImport>>,
}

impl Documents {
    /// The project, if it takes new documents.
    pub(crate) async fn open_project(&self, view: &View, id: ProjectId) -> Result<Project, Status> {
        view.check_project("project_id", id)?;
        let project = self.0.store.uncounted_project(id).await.map_err(|e| errors::store(&e))?;
        match project.status {
            ProjectStatus::Archived => Err(errors::archived_project("project_id", project.id)),
            _ => Ok(project),
        }
    }

    /// Writes a source of `project`, for the run `writer` if a tool of it does.
    pub(crate) async fn put(
        &self,
        project: &Project,
        writer: Option<RunId>,
        source: Source,
    ) -> Result<pb::DocumentSummary, Status> {
        let Source { path, title, body, import } = source;
        let title = match title.trim() {
            "" => default_title(&path, &body),
            title => title.to_owned(),
        };
        let now = now();
        let content_hash = Some(sha256(&[body.as_bytes()]).into());
        let document = Document {
            // The same project and path make the same id: writing again replaces.
            id: DocumentId::source(project.id, &path),
            kind: DocumentKind::Source,
            project_id: Some(project.id),
            run_id: None,
            path,
            title,
            body,
            // Of a source that has a run, people know that a tool wrote it.
            props: DocumentProps {
                tree_agent_run_id: writer,
                content_hash,
                import,
                ..DocumentProps::default()
            },
            created_at: now,
            updated_at: now,
        };
        let written = summary(&document).to_wire();
        let put = match writer.is_none() || project.tools.replace_imported {
            true => self.0.store.put_document(document).await.map(|()| true),
            false => self.0.store.put_tool_document(document).await,
        };
        let is_written = put.map_err(errors::conflict("path"))?;
        if !is_written {
            return Err(errors::imported(&written.path));
        }
        self.0.wake_embedder();
        Ok(written)
    }

    /// The document as it was after the event `seq` of its run.
    async fn document_at(
        &self,
        view: &View,
        of: Option<RunId>,
        id: DocumentId,
        seq: u64,
    ) -> Result<PlacedDocument, Status> {
        let store = &*self.0.store;
        let found = view.placed_document(store, of, id, None).await?;
        let Some(run) = found.document.run_id else {
            return Err(invalid_field("at_seq", "is for documents of runs; this one belongs to a project"));
        };
        let head = store.run(run).await.map_err(|e| errors::store(&e))?.head_seq;
        if seq > head {
            return Err(errors::beyond_head("at_seq", seq, head));
        }
        view.placed_document(store, of, id, Some(seq)).await.map_err(|status| match status.code() {
            Code::NotFound => {
                let text = format!("document {id} did not exist after event {seq} of its run");
                errors::not_found("at_seq", text)
            }
            _ => status,
        })
    }
}

/// Limits a list without a run to the sources that `view` shows. False if nothing is left.
fn narrow(query: &mut DocumentQuery, view: &View) -> bool {
    if query.run_id.is_some() || view.sees_everything() {
        return true;
    }
    if query.project_ids.is_empty() {
        match view.projects_seen() {
            None => {}
            Some(projects) if projects.is_empty() => return false,
            Some(projects) => query.project_ids = projects,
        }
    }
    let has_sources = query.kinds.is_empty() || query.kinds.contains(&DocumentKind::Source);
    query.kinds = vec![DocumentKind::Source];
    has_sources
}

/// A path is relative and says one thing only: no blank, `.` or `..` part, and no character that a name may not have.
pub(crate) fn check_path(checks: &mut Checks, path: &str) {
    checks.name("path", path, limits::PATH_BYTES);
    let odd = |part: &str| is_blank(part) || part == "." || part == "..";
    checks.require(path.is_empty() || !path.split('/').any(odd), "path", || {
        format!("{path:?} must be relative, separated by /, without empty, . or .. parts")
    });
    checks.require(!path.contains('\\'), "path", || format!("{path:?} must not hold backslashes"));
}

fn check_import(checks: &mut Checks, import: &DocumentImport) {
    checks.name("import.source", &import.source, limits::IMPORT_BYTES);
    checks.name("import.file", &import.file, limits::PATH_BYTES);
    checks.name("import.fingerprint", &import.fingerprint, limits::IMPORT_BYTES);
    checks.at_most("import.left_out", &import.left_out, limits::LEFT_OUT_BYTES);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_could_mean_two_things_are_refused() {
        let refused = |path: &str| {
            let mut checks = Checks::default();
            check_path(&mut checks, path);
            checks.finish().is_err()
        };
        for bad in [
            "",
            " ",
            "/a",
            "a/",
            "a//b",
            "a/ /b",
            "./a",
            "a/../b",
            "a\\b",
            "a\nb",
            "..",
            &"x".repeat(1025),
            // What readers do not see, or see in another order.
            "notes\u{202e}txt.md",
            "a\u{2028}b.md",
            "a/\u{2800}/b",
        ] {
            assert!(refused(bad), "{bad:?}");
        }
        for good in [
            "a",
            "a/b.md",
            "notes/2024 plan.md",
            "ä/ö.txt",
            "a\u{308}.txt",
            ".hidden",
            "a/..b",
            "می\u{200c}خواهم/👨\u{200d}👩\u{200d}👧.md",
            "❤\u{fe0f}.md",
        ] {
            assert!(!refused(good), "{good:?}");
        }
    }
}
