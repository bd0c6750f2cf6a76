//! `ImportFile`: a file of any type, as the documents that `tree-agent import` makes of it.

use std::convert::Infallible;
use std::path::Path;

use futures::{StreamExt, stream};
use http::{Request, Response, header};
use http_body_util::{BodyExt, BodyStream, StreamBody};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Service, ServiceExt};
use tree_agent_contract::error::Checks;
use tree_agent_contract::text::{nfc, nfd};
use tree_agent_contract::{DocumentId, DocumentImport, DocumentKind, DocumentSummary, ProjectId, limits};
use tree_agent_convert::{Kind, Part, by_name, file_hash, fingerprint, sha256, split};
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_runtime::errors::{invalid, invalid_field};
use tree_agent_store::{DocumentQuery, StoreError, storable};

use crate::auth::Caller;
use crate::documents::{Documents, Source, check_path};
use crate::errors;
use crate::fields::id;
use crate::shares::Shares;
use crate::summaries::summary;
use crate::view::View;

/// The path of the call.
pub(crate) const IMPORT_FILE: &str = "/treeagent.v1.DocumentService/ImportFile";
/// The other call that carries a document.
const CREATE_DOCUMENT: &str = "/treeagent.v1.DocumentService/CreateDocument";
/// The name of the import to which all of these files belong.
const SOURCE: &str = "upload";

/// Passes a request on. One that carries a document waits for room before its body is read.
pub(crate) async fn admitted<S>(
    imports: Shares,
    services: S,
    mut request: Request<Body>,
) -> Result<Response<Body>, Infallible>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    let share = match [IMPORT_FILE, CREATE_DOCUMENT].contains(&request.uri().path()) {
        true => {
            let caller = Caller::of(request.extensions());
            let user = caller.works_for.map_or(caller.user_id, |run| run.to_string());
            let bytes = match announced(&mut request).await {
                Ok(bytes) => bytes,
                Err(status) => return Ok(status.into_http()),
            };
            match imports.take(&user, bytes).await {
                Ok(share) => Some(share),
                Err(status) => return Ok(status.into_http()),
            }
        }
        false => None,
    };
    let response = services.oneshot(request).await;
    drop(share);
    response
}

/// The bytes that a request announces, by its header, or by the length before the message of gRPC, which its first part
/// holds. The most that it may have if it does not.
async fn announced(request: &mut Request<Body>) -> Result<u64, Status> {
    let most = limits::DOCUMENT_REQUEST_BYTES as u64;
    let length = request.headers().get(header::CONTENT_LENGTH);
    if let Some(length) = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok()) {
        return Ok(length.min(most));
    }
    let mut body = std::mem::take(request.body_mut());
    let first = body.frame().await.transpose()?;
    let data = first.as_ref().and_then(|frame| frame.data_ref());
    let length = data.and_then(|data| Some(u32::from_be_bytes(data.get(1..5)?.try_into().ok()?)));
    let whole = stream::iter(first.map(Ok)).chain(BodyStream::new(body));
    *request.body_mut() = Body::new(StreamBody::new(whole));
    Ok(length.map_or(most, |length| u64::from(length).min(most)))
}

impl Documents {
    /// Imports one file by the rules of `tree-agent import`.
    pub(crate) async fn import(
        &self,
        caller: Caller,
        request: pb::ImportFileRequest,
    ) -> Result<pb::ImportFileResponse, Status> {
        let view = View::of(&*self.0.store, caller.clone()).await?;
        let pb::ImportFileRequest { mut project_id, path, content } = request;
        let path = nfc(&path);
        self.0.by_name(&view, "project_id", &mut project_id).await?;
        let project_id = id(ProjectId::parse_field("project_id", &project_id))?;
        let mut checks = Checks::default();
        check_path(&mut checks, &path);
        checks.finish().map_err(|e| invalid(&e))?;
        if content.len() > limits::FILE_BYTES {
            return Err(too_large());
        }
        let project = self.open_project(&view, project_id).await?;
        let Some(kind) = Kind::of(Path::new(&path)) else { return Ok(skipped(by_name(Path::new(&path)).0)) };
        let mut stored = self.stored(project_id, &path).await.map_err(errors::store)?;
        // Before 0.3 a name was kept as it came.
        if nfd(&path) != path {
            stored.extend(self.stored(project_id, &nfd(&path)).await.map_err(errors::store)?);
        }
        let hash = file_hash("", &content);
        let is_of_file = |import: &DocumentImport| nfc(&import.file) == path;
        let of_file: Vec<_> =
            stored.iter().filter(|document| import_of(document).is_some_and(is_of_file)).collect();
        let is_whole = |import: &DocumentImport| import.fingerprint == fingerprint(&hash, of_file.len());
        if !of_file.is_empty() && of_file.iter().all(|document| import_of(document).is_some_and(is_whole)) {
            return Ok(done(pb::ImportOutcome::Unchanged, of_file.into_iter().map(Wire::to_wire).collect()));
        }
        let place = match kind.is_converted() {
            true => Some(self.0.users.conversions.take(view.user(), 1).await?),
            false => None,
        };
        let converted = self.0.converter.convert(&path, kind, content).await;
        drop(place);
        let converted = match converted {
            Ok(converted) => converted,
            Err(fault) => return Ok(skipped(fault.why)),
        };
        // It took a while. Whoever is no member any more writes nothing.
        View::of(&*self.0.store, caller).await?.check_project("project_id", project_id)?;
        let left_out = converted.left_out_in_words();
        let parts = split(&path, &converted.title, converted.text);
        if let ([part], Some(document)) = (&parts[..], stored.first())
            && is_text_of(document, part)
        {
            return Ok(done(pb::ImportOutcome::Unchanged, vec![document.to_wire()]));
        }
        let mut checks = Checks::default();
        parts.iter().for_each(|part| check_path(&mut checks, &part.path));
        checks.finish().map_err(|e| invalid(&e))?;
        let replaces = stored.iter().any(|document| parts.iter().any(|part| part.path == document.path));
        let paths: Vec<_> = parts.iter().map(|part| part.path.clone()).collect();
        let mut documents = Vec::new();
        for part in parts {
            let import = DocumentImport {
                source: SOURCE.to_owned(),
                file: path.clone(),
                fingerprint: fingerprint(&hash, paths.len()),
                left_out: storable(&left_out).into_owned(),
            };
            let title = storable(&part.title).into_owned();
            let body = storable(&part.body).into_owned();
            let source = Source { path: part.path, title, body, import: Some(Box::new(import)) };
            documents.push(self.put(&project, None, source).await?);
        }
        // The file has fewer parts than before. What somebody has written in the place of one since stays.
        for document in of_file.iter().filter(|document| !paths.contains(&document.path)) {
            let source = import_of(document).map(|import| &*import.source);
            match self.0.store.delete_source(document.id, source).await {
                Ok(_) | Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(errors::store(error)),
            }
        }
        let outcome = if replaces { pb::ImportOutcome::Replaced } else { pb::ImportOutcome::Created };
        Ok(done(outcome, documents))
    }

    /// What the project holds at the path of a file, and at those of its further parts.
    async fn stored(&self, project: ProjectId, path: &str) -> Result<Vec<DocumentSummary>, StoreError> {
        let first = match self.0.store.document(DocumentId::source(project, path)).await {
            Ok(document) => Some(summary(&document)),
            Err(StoreError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        let parts = DocumentQuery {
            project_ids: vec![project],
            kinds: vec![DocumentKind::Source],
            path_prefix: format!("{path}/part-"),
            limit: limits::PAGE_MAX,
            ..DocumentQuery::default()
        };
        Ok(first.into_iter().chain(self.0.store.list_documents(parts).await?.items).collect())
    }
}

fn import_of(document: &DocumentSummary) -> Option<&DocumentImport> {
    document.props.import.as_deref()
}

/// True if no import wrote the document and it has this path, this text and, if the file names one, this title.
fn is_text_of(document: &DocumentSummary, part: &Part) -> bool {
    import_of(document).is_none()
        && document.path == part.path
        && document.props.content_hash.as_deref() == Some(&*sha256(&[part.body.as_bytes()]))
        && (part.title.is_empty() || part.title == document.title)
}

fn done(outcome: pb::ImportOutcome, documents: Vec<pb::DocumentSummary>) -> pb::ImportFileResponse {
    pb::ImportFileResponse { outcome: outcome.into(), documents, reason: String::new() }
}

fn skipped(reason: String) -> pb::ImportFileResponse {
    pb::ImportFileResponse { outcome: pb::ImportOutcome::Skipped.into(), documents: Vec::new(), reason }
}

/// Names the field of a file that is too large, and the remedy.
pub(crate) fn too_large() -> Status {
    let most = limits::FILE_BYTES >> 20;
    invalid_field("content", format!("is too large; at most {most} MiB are allowed: split the file"))
}

/// Names the field where a request was too large for the gRPC library to read it.
pub(crate) fn explain_size<B>(mut response: Response<B>) -> Response<B> {
    let headers = response.headers_mut();
    if Status::from_header_map(headers).is_some_and(|status| status.code() == Code::OutOfRange) {
        // Its text is plain, so it is a valid header.
        let _ = too_large().add_header(headers);
    }
    response
}
