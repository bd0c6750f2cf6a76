//! Documents over real loopback gRPC: scope travels with every call, and a gateway that is gone is passed over.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tree_agent_contract::{DocumentId, ProjectId, RunContext, RunId};
use tree_agent_proto::v1::document_service_server::{DocumentService, DocumentServiceServer};
use tree_agent_proto::v1::*;
use tree_agent_runtime::channel::Connector;
use tree_agent_runtime::{Readiness, Server};
use tree_agent_tools::{Caller, DocumentSource, GatewayDocuments, ListDocuments, SearchDocuments, ToolError};

/// One document of one project; remembers what it was asked.
#[derive(Clone)]
struct OneDocument {
    project: ProjectId,
    asked: Arc<Mutex<Vec<String>>>,
}

impl OneDocument {
    fn summary(&self) -> DocumentSummary {
        DocumentSummary {
            document_id: DocumentId::derive(&[b"one"]).to_string(),
            kind: DocumentKind::Source as i32,
            project_id: Some(self.project.to_string()),
            path: "a.md".into(),
            title: "A".into(),
            bytes: 4,
            import: Some(DocumentImport { left_out: "page 2".into(), ..Default::default() }),
            ..Default::default()
        }
    }

    fn note(&self, text: String) {
        self.asked.lock().unwrap().push(text);
    }
}

/// A call that ends without an answer.
struct Ended(OneDocument);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.note("ended".into());
    }
}

#[tonic::async_trait]
impl DocumentService for OneDocument {
    async fn get_document(
        &self,
        request: Request<GetDocumentRequest>,
    ) -> Result<Response<GetDocumentResponse>, Status> {
        if request.into_inner().document_id != self.summary().document_id {
            return Err(Status::not_found("no such document"));
        }
        let document = Document { summary: Some(self.summary()), body: "body".into(), created_at: None };
        Ok(Response::new(GetDocumentResponse { document: Some(document) }))
    }
    type WatchDocumentStream = futures::stream::Empty<Result<WatchDocumentResponse, Status>>;
    async fn watch_document(
        &self,
        _: Request<WatchDocumentRequest>,
    ) -> Result<Response<Self::WatchDocumentStream>, Status> {
        Err(Status::unimplemented("does not grow"))
    }
    async fn list_documents(
        &self,
        request: Request<ListDocumentsRequest>,
    ) -> Result<Response<ListDocumentsResponse>, Status> {
        let request = request.into_inner();
        self.note(format!("list {:?} {:?}", request.project_ids, request.kinds));
        if request.path_prefix == "endless" {
            let _ended = Ended(self.clone());
            std::future::pending::<()>().await;
        }
        Ok(Response::new(ListDocumentsResponse {
            documents: vec![self.summary()],
            next_page_token: "more".into(),
        }))
    }
    async fn search_documents(
        &self,
        request: Request<SearchDocumentsRequest>,
    ) -> Result<Response<SearchDocumentsResponse>, Status> {
        let context = request.into_inner().context.unwrap();
        self.note(format!("search {:?}", context.project_ids));
        Err(Status::invalid_argument("query: holds no word"))
    }
    async fn create_document(
        &self,
        _: Request<CreateDocumentRequest>,
    ) -> Result<Response<CreateDocumentResponse>, Status> {
        Err(Status::unimplemented("read only"))
    }
    async fn import_file(
        &self,
        _: Request<ImportFileRequest>,
    ) -> Result<Response<ImportFileResponse>, Status> {
        Err(Status::unimplemented("read only"))
    }
    async fn list_document_versions(
        &self,
        _: Request<ListDocumentVersionsRequest>,
    ) -> Result<Response<ListDocumentVersionsResponse>, Status> {
        Err(Status::unimplemented("nothing asks for it"))
    }
    async fn delete_document(
        &self,
        _: Request<DeleteDocumentRequest>,
    ) -> Result<Response<DeleteDocumentResponse>, Status> {
        Err(Status::unimplemented("read only"))
    }
}

async fn serve(service: OneDocument) -> http::Uri {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let server = Server::new(Readiness::new()).service(DocumentServiceServer::new(service));
    tokio::spawn(server.serve(listener, CancellationToken::new()));
    uri
}

fn caller(project: ProjectId) -> Caller {
    Caller::new(RunId(uuid::Uuid::from_u128(1)), RunContext::project(project))
}

#[tokio::test]
async fn scope_travels_and_is_checked_on_both_sides() {
    let project = ProjectId::derive(&[b"mine"]);
    let service = OneDocument { project, asked: Arc::default() };
    let source = GatewayDocuments::connect_lazy(&[serve(service.clone()).await], &Connector::default());
    let mine = caller(project);
    let page =
        source.list_documents(&mine, &ListDocuments { page_size: 10, ..Default::default() }).await.unwrap();
    assert_eq!((page.documents[0].path.as_str(), page.next_page_token.as_str()), ("a.md", "more"));
    let query = SearchDocuments { query: "?".into(), limit: 5, ..Default::default() };
    let refused = source.search_documents(&mine, &query).await.unwrap_err();
    assert_eq!(refused, ToolError::Source("query: holds no word".into()));
    assert_eq!(
        *service.asked.lock().unwrap(),
        [format!("list [\"{project}\"] [1]"), format!("search [\"{project}\"]")]
    );
    let id = page.documents[0].id;
    let read = source.read_document(&mine, id).await.unwrap();
    assert_eq!((read.body.as_str(), read.props.import.unwrap().left_out.as_str()), ("body", "page 2"));
    // The gateway would hand it out; the tool's side must not.
    let foreign = caller(ProjectId::derive(&[b"other"]));
    assert!(matches!(source.read_document(&foreign, id).await, Err(ToolError::NotFound(_))));
    let unknown = DocumentId::derive(&[b"none"]);
    assert!(matches!(source.read_document(&mine, unknown).await, Err(ToolError::NotFound(_))));
}

#[tokio::test]
async fn a_gateway_that_is_gone_is_passed_over_and_none_at_all_is_said() {
    let project = ProjectId::derive(&[b"mine"]);
    let alive = serve(OneDocument { project, asked: Arc::default() }).await;
    let gone = http::Uri::from_static("http://127.0.0.1:1");
    let source = GatewayDocuments::connect_lazy(&[gone.clone(), alive], &Connector::default());
    for _ in 0..4 {
        let page = source
            .list_documents(&caller(project), &ListDocuments { page_size: 1, ..Default::default() })
            .await;
        assert_eq!(page.unwrap().documents.len(), 1);
    }
    let none = GatewayDocuments::connect_lazy(&[gone], &Connector::default());
    let error = none.list_documents(&caller(project), &ListDocuments::default()).await.unwrap_err();
    assert!(error.retryable(), "{error}");
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_ended_there_and_not_made_again() {
    let project = ProjectId::derive(&[b"mine"]);
    let service = OneDocument { project, asked: Arc::default() };
    let source = GatewayDocuments::connect_lazy(&[serve(service.clone()).await], &Connector::default());
    let source = source.limit(Duration::from_millis(500));
    // On a connection that is there, the library's own timer ends first.
    source.list_documents(&caller(project), &ListDocuments::default()).await.unwrap();
    let query = ListDocuments { path_prefix: "endless".into(), ..Default::default() };
    let late = source.list_documents(&caller(project), &query).await.unwrap_err();
    assert_eq!(late, ToolError::Unavailable("no answer within 0.5 s".into()));
    let ended = async {
        while service.asked.lock().unwrap().last().is_none_or(|last| last != "ended") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), ended).await.expect("it has ended there, too");
    assert_eq!(service.asked.lock().unwrap().len(), 3, "asked once");
}
