//! Documents of the run that the scripted server knows.

use std::pin::Pin;

use futures::{Stream, stream};
use tonic::{Request, Response, Status};
use tree_agent_contract::{NodeId, Timestamp};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::document_service_server::DocumentService;

use super::{Fake, document_id, run_id};

#[tonic::async_trait]
impl DocumentService for Fake {
    async fn get_document(
        &self,
        request: Request<pb::GetDocumentRequest>,
    ) -> Result<Response<pb::GetDocumentResponse>, Status> {
        let request = request.into_inner();
        self.0.lock().unwrap().read.push(request.clone());
        let id = request.document_id;
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
            body: self.0.lock().unwrap().body.clone(),
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
        self.0.lock().unwrap().followed.push(request.clone());
        if request.document_id != document_id().to_string() {
            return Err(Status::not_found(format!("document {} does not exist", request.document_id)));
        }
        let at = request.after_bytes;
        let text = |offset: u64, text: &str| {
            Message::Text(pb::DocumentText { offset, text: text.into(), ..Default::default() })
        };
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
        request: Request<pb::ListDocumentsRequest>,
    ) -> Result<Response<pb::ListDocumentsResponse>, Status> {
        assert_eq!(request.into_inner().kinds, [pb::DocumentKind::Prompt as i32]);
        let documents = vec![pb::DocumentSummary {
            document_id: document_id().to_string(),
            node_id: Some(NodeId::root(run_id()).to_string()),
            bytes: self.0.lock().unwrap().prompt_bytes,
            ..Default::default()
        }];
        Ok(Response::new(pb::ListDocumentsResponse { documents, ..Default::default() }))
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

    async fn import_file(
        &self,
        _: Request<pb::ImportFileRequest>,
    ) -> Result<Response<pb::ImportFileResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn list_document_versions(
        &self,
        _: Request<pb::ListDocumentVersionsRequest>,
    ) -> Result<Response<pb::ListDocumentVersionsResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn delete_document(
        &self,
        _: Request<pb::DeleteDocumentRequest>,
    ) -> Result<Response<pb::DeleteDocumentResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }
}
