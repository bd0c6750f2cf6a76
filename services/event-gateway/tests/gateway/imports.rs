//! `ImportFile`, with the real process that converts.

use crate::common::{Gateway, field};
use crate::files::{docx_of, file_of, locked_docx, paragraph, pdf_of, xlsx_of};
use crate::http::framed;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, StatusCode, header};
use tonic::{Code, Status};
use tree_agent_contract::limits::{DOCUMENT_REQUEST_BYTES, FILE_BYTES};
use tree_agent_event_gateway::Config;
use tree_agent_proto::v1::*;

async fn start() -> (Gateway, Project) {
    let config =
        Config { converter: env!("CARGO_BIN_EXE_tree-agent-event-gateway").into(), ..Config::default() };
    let gateway = Gateway::start(config).await;
    let project = gateway.create_project("files").await;
    (gateway, project)
}

fn request(project: &Project, path: &str, content: impl Into<Vec<u8>>) -> ImportFileRequest {
    ImportFileRequest { project_id: project.project_id.clone(), path: path.into(), content: content.into() }
}

async fn import(
    gateway: &Gateway,
    project: &Project,
    path: &str,
    content: impl Into<Vec<u8>>,
) -> Result<ImportFileResponse, Status> {
    Ok(gateway.documents().import_file(request(project, path, content)).await?.into_inner())
}

async fn body(gateway: &Gateway, document: &DocumentSummary) -> String {
    let request = GetDocumentRequest { document_id: document.document_id.clone(), ..Default::default() };
    gateway.documents().get_document(request).await.unwrap().into_inner().document.unwrap().body
}

async fn paths(gateway: &Gateway, project: &Project) -> Vec<String> {
    let list = ListDocumentsRequest { project_ids: vec![project.project_id.clone()], ..Default::default() };
    let documents = gateway.documents().list_documents(list).await.unwrap().into_inner().documents;
    documents.into_iter().map(|document| document.path).collect()
}

#[tokio::test]
async fn files_of_every_type_become_documents() {
    let (gateway, project) = start().await;
    let workbook = xlsx_of(&[("Prices", &[&["Item", "Price"], &["Tea", "3"]])]);
    for (path, content, title, text) in [
        ("a.md", b"# Alpha\n\nThe first.".to_vec(), "Alpha", "The first."),
        ("latin.txt", b"caf\xe9 au lait".to_vec(), "latin.txt", "café au lait"),
        ("src/main.rs", b"fn main() {}".to_vec(), "main.rs", "fn main() {}"),
        ("page.html", b"<title>The page</title><h1>Hello</h1>".to_vec(), "The page", "# Hello"),
        ("deep/letter.docx", docx_of(&paragraph("Dear all")), "letter.docx", "Dear all"),
        ("paper.pdf", pdf_of(&["The lease decides."]), "paper.pdf", "The lease decides."),
        ("prices.xlsx", workbook, "prices.xlsx", "| Tea | 3 |"),
    ] {
        let answer = import(&gateway, &project, path, content).await.unwrap();
        assert_eq!(answer.outcome(), ImportOutcome::Created, "{path}: {answer:?}");
        let [document] = &answer.documents[..] else { panic!("{path}: {answer:?}") };
        assert_eq!((&*document.path, &*document.title), (path, title));
        assert!(body(&gateway, document).await.contains(text), "{path}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_file_replaces_what_was_there_if_it_has_changed() {
    let (gateway, project) = start().await;
    let first = import(&gateway, &project, "a.html", "<h1>One</h1>").await.unwrap();
    let again = import(&gateway, &project, "a.html", "<h1>One</h1>").await.unwrap();
    assert_eq!(again.outcome(), ImportOutcome::Unchanged);
    assert_eq!(again.documents, first.documents, "and it was not written");
    let changed = import(&gateway, &project, "a.html", "<h1>Two</h1>").await.unwrap();
    assert_eq!(changed.outcome(), ImportOutcome::Replaced);
    assert_eq!(body(&gateway, &changed.documents[0]).await, "# Two");

    // A long file is several documents. When it becomes shorter, those that it has no more are removed.
    let long = |bytes: usize| "A sentence of the long text.\n\n".repeat(bytes / 30);
    let parts = import(&gateway, &project, "long.txt", long(1_200_000)).await.unwrap();
    assert_eq!((parts.outcome(), parts.documents.len()), (ImportOutcome::Created, 2));
    let again = import(&gateway, &project, "long.txt", long(1_200_000)).await.unwrap();
    assert_eq!((again.outcome(), again.documents.len()), (ImportOutcome::Unchanged, 2));
    let shorter = import(&gateway, &project, "long.txt", long(600_000)).await.unwrap();
    assert_eq!((shorter.outcome(), shorter.documents.len()), (ImportOutcome::Replaced, 1));
    assert_eq!(paths(&gateway, &project).await, ["a.html", "long.txt"]);

    // What a person wrote stays as it is if the file says the same, and is replaced if not.
    let written = CreateDocumentRequest {
        project_id: project.project_id.clone(),
        path: "b.md".into(),
        body: "# Same".into(),
        ..Default::default()
    };
    gateway.documents().create_document(written).await.unwrap();
    let same = import(&gateway, &project, "b.md", "# Same").await.unwrap();
    assert_eq!((same.outcome(), &same.documents[0].import), (ImportOutcome::Unchanged, &None));
    let other = import(&gateway, &project, "b.md", "# Other").await.unwrap();
    assert_eq!(other.outcome(), ImportOutcome::Replaced);
    gateway.stop().await;
}

#[tokio::test]
async fn names_are_the_same_however_their_letters_are_encoded() {
    let (gateway, project) = start().await;
    let (composed, decomposed) = ("\u{dc}bersicht.md", "U\u{308}bersicht.md");
    let first = import(&gateway, &project, decomposed, "# Plan").await.unwrap();
    assert_eq!((first.outcome(), &*first.documents[0].path), (ImportOutcome::Created, composed));
    let again = import(&gateway, &project, composed, "# Plan").await.unwrap();
    assert_eq!(again.outcome(), ImportOutcome::Unchanged);
    for prefix in [composed, decomposed] {
        let listed = ListDocumentsRequest {
            project_ids: vec![project.project_id.clone()],
            path_prefix: prefix.into(),
            ..Default::default()
        };
        let listed = gateway.documents().list_documents(listed).await.unwrap().into_inner();
        assert_eq!(listed.documents.len(), 1, "{prefix:?}");
    }
    gateway.stop().await;
}

/// A file whose page draws a form that draws itself.
fn drawing_itself() -> Vec<u8> {
    let draws = |more: &str| {
        format!("<< {more} /Resources << /XObject << /F 5 0 R >> >> /Length 5 >>\nstream\n/F Do\nendstream")
    };
    file_of(&[
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>".to_vec(),
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /XObject << /F 5 0 R >> >> >>"
            .to_vec(),
        draws("").into_bytes(),
        draws("/Type /XObject /Subtype /Form /BBox [0 0 9 9]").into_bytes(),
    ])
}

#[tokio::test]
async fn a_file_without_text_is_skipped_with_the_reason_and_costs_only_itself() {
    let (gateway, project) = start().await;
    import(&gateway, &project, "kept.pdf", pdf_of(&["The lease decides."])).await.unwrap();
    let broken = [b"%PDF-1.7\n".as_slice(), &[0xfe; 5_000]].concat();
    for (path, content, reason) in [
        ("binary.txt", b"\x7fELF\0\0\0\x01".repeat(100), "not text"),
        ("picture.png", vec![0x89, b'P'], "no text: image"),
        ("plan.xyz", b"plan".to_vec(), "unknown type .xyz"),
        ("empty.md", Vec::new(), "empty"),
        ("locked.docx", locked_docx(), "password"),
        ("kept.pdf", broken, "broken"),
        // It draws itself: it overflows the stack of its process, or takes too long.
        ("loop.pdf", drawing_itself(), "its PDF breaks the conversion, or needs too much"),
    ] {
        let answer = import(&gateway, &project, path, content).await.unwrap();
        assert_eq!(answer.outcome(), ImportOutcome::Skipped, "{path}: {answer:?}");
        assert!(answer.reason.contains(reason), "{path}: {}", answer.reason);
        assert!(answer.documents.is_empty(), "{path}");
    }
    assert_eq!(paths(&gateway, &project).await, ["kept.pdf"], "what was there stays");
    let good = import(&gateway, &project, "good.html", "<h1>Good</h1>").await.unwrap();
    assert_eq!(good.outcome(), ImportOutcome::Created);
    gateway.stop().await;
}

#[tokio::test]
async fn what_cannot_be_imported_is_an_error_that_names_its_field() {
    let (gateway, project) = start().await;
    let nobody = Project { project_id: "0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b".into(), ..Project::default() };
    let archived = gateway.create_project("archived").await;
    let archive = Project { status: ProjectStatus::Archived.into(), ..archived.clone() };
    let update = UpdateProjectRequest { project: Some(archive), update_mask: None };
    gateway.projects().update_project(update).await.unwrap();
    for (project, path, content, code, name) in [
        (&Project::default(), "a.md", "x".to_owned(), Code::InvalidArgument, "project_id"),
        (&nobody, "a.md", "x".into(), Code::NotFound, "project_id"),
        (&archived, "a.md", "x".into(), Code::FailedPrecondition, "project_id"),
        (&project, "", "x".into(), Code::InvalidArgument, "path"),
        (&project, "../a.md", "x".into(), Code::InvalidArgument, "path"),
        (&project, "a.md", "x".repeat(FILE_BYTES + 1), Code::InvalidArgument, "content"),
        // The gRPC library does not read it.
        (&project, "a.md", "x".repeat(DOCUMENT_REQUEST_BYTES + 1), Code::InvalidArgument, "content"),
    ] {
        let refused = import(&gateway, project, path, content).await.unwrap_err();
        assert_eq!((refused.code(), &*field(&refused)), (code, name), "{refused:?}");
        assert!(name != "content" || refused.message().contains("at most 8 MiB are allowed"), "{refused:?}");
    }
    // Nor does the translation of JSON.
    let json = format!(r#"{{"path":"a.md","content":"{}"}}"#, "A".repeat(DOCUMENT_REQUEST_BYTES));
    let call = Request::post("/").header(header::CONTENT_TYPE, "application/json");
    let refused = gateway.send(call, "/treeagent.v1.DocumentService/ImportFile", json).await;
    let text = String::from_utf8_lossy(refused.body());
    assert!(text.contains("content: is too large; at most 8 MiB are allowed"), "{text}");
    assert!(paths(&gateway, &project).await.is_empty());
    gateway.stop().await;
}

#[tokio::test]
async fn a_file_of_the_greatest_size_passes_in_every_protocol() {
    let (gateway, project) = start().await;
    // Of a type that takes no time.
    let (path, content) = ("a.bin", vec![0xff; FILE_BYTES]);
    let over_grpc = import(&gateway, &project, path, content.clone()).await.unwrap();
    assert_eq!(over_grpc.outcome(), ImportOutcome::Skipped);
    let framed = framed(&request(&project, path, content.clone()));
    let json = serde_json::json!({
        "projectId": project.project_id, "path": path, "content": STANDARD.encode(&content)
    });
    for (content_type, body) in
        [("application/grpc-web+proto", framed), ("application/json", Bytes::from(json.to_string()))]
    {
        let call = Request::post("/").header(header::CONTENT_TYPE, content_type);
        let answer = gateway.send(call, "/treeagent.v1.DocumentService/ImportFile", body).await;
        assert_eq!(answer.status(), StatusCode::OK, "{content_type}: {answer:?}");
        let text = String::from_utf8_lossy(answer.body()).into_owned();
        assert!(text.contains("unknown type .bin"), "{content_type}: {text}");
    }
    gateway.stop().await;
}
