//! The documents of a run through the API: their tree, the texts that they had, and how they are followed.

use crate::common::{Gateway, Log, SOON, field};
use tonic::Code;
use tree_agent_contract::document::{Document, DocumentKind, DocumentOp, DocumentProps};
use tree_agent_contract::event::NodeStatusChanged;
use tree_agent_contract::{DocumentId, EventBody, NodeId, NodeStatus, Role, Timestamp};
use tree_agent_event_gateway::Config;
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::watch_document_response::Message;
use tree_agent_store::Projection;

fn id(n: u128) -> DocumentId {
    DocumentId(uuid::Uuid::from_u128(n))
}

fn create(
    log: &Log,
    n: u128,
    kind: DocumentKind,
    role: &str,
    branch: Option<&str>,
    body: &str,
) -> DocumentOp {
    DocumentOp::Create(Document {
        id: id(n),
        kind,
        project_id: None,
        run_id: Some(log.run),
        path: String::new(),
        title: format!("Document {n}"),
        body: body.into(),
        props: DocumentProps {
            doc_role: Some(role.into()),
            homework_run_id: Some(log.run),
            branch_id: branch.map(Into::into),
            iteration: Some(2),
            owner: Some("planner".into()),
            tags: vec!["homework".into()],
            ..DocumentProps::default()
        },
        created_at: Timestamp(1),
        updated_at: Timestamp(1),
    })
}

fn link(child: u128, parent: u128, seq: u64) -> DocumentOp {
    DocumentOp::Link { parent: id(parent), child: id(child), seq, at: Timestamp(1) }
}

fn replace(n: u128, seq: u64, text: &str) -> DocumentOp {
    DocumentOp::Replace { id: id(n), seq, text: text.into(), at: Timestamp(seq as i64) }
}

fn grow(n: u128, seq: u64, text: &str) -> DocumentOp {
    DocumentOp::Append { id: id(n), seq, text: text.into(), at: Timestamp(seq as i64) }
}

/// Appends one event with these documents.
async fn write(log: &mut Log, documents: Vec<DocumentOp>) {
    let body: EventBody = NodeStatusChanged::new(NodeStatus::Executing, Role::Executor).into();
    log.record(vec![(NodeId::root(log.run), None, body)], Projection::default(), documents).await;
}

/// A workspace (1) above a main scratchpad (2) with two branches (3, 4), and a plan (5).
async fn homework(log: &mut Log) {
    let at = log.head + 1;
    let ops = vec![
        create(log, 1, DocumentKind::HomeworkWorkspace, "workspace", None, ""),
        create(log, 2, DocumentKind::HomeworkScratchpad, "scratchpad_root", None, "main"),
        link(2, 1, at),
        create(log, 3, DocumentKind::HomeworkBranch, "scratchpad_exec", Some("b1"), "one"),
        link(3, 2, at),
        create(log, 4, DocumentKind::HomeworkBranch, "scratchpad_exec", Some("b2"), "two"),
        link(4, 2, at),
        create(log, 5, DocumentKind::HomeworkPlan, "plan", None, "first"),
        link(5, 1, at),
    ];
    write(log, ops).await;
}

#[tokio::test]
async fn documents_of_a_run_are_listed_as_a_tree() {
    let gateway = Gateway::start(Config::default()).await;
    let run = gateway.create_run("a tree of documents").await;
    let mut log = gateway.drive(&run).await;
    homework(&mut log).await;
    let ours: Vec<String> = (1..=5).map(|n| id(n).to_string()).collect();
    let list = async |request: pb::ListDocumentsRequest| {
        let request = pb::ListDocumentsRequest { run_id: run.run_id.clone(), ..request };
        let mut all = Vec::new();
        let mut next = request.clone();
        loop {
            let page = gateway.documents().list_documents(next).await.unwrap().into_inner();
            all.extend(page.documents);
            if page.next_page_token.is_empty() {
                break;
            }
            next = pb::ListDocumentsRequest { page_token: page.next_page_token, ..request.clone() };
        }
        // The run has documents of its own beside these.
        let place = |d: &pb::DocumentSummary| ours.iter().position(|id| *id == d.document_id);
        (all.iter().filter_map(place).map(|at| at + 1).collect::<Vec<_>>(), all)
    };
    for page_size in [0, 1, 2] {
        let request = pb::ListDocumentsRequest { page_size, ..Default::default() };
        assert_eq!(list(request).await.0, [1, 2, 3, 4, 5], "each after the one above it");
    }
    let of = |parent: u128, role: &str, branch: &str| pb::ListDocumentsRequest {
        parent_id: if parent == 0 { String::new() } else { id(parent).to_string() },
        doc_role: role.into(),
        branch_id: branch.into(),
        ..Default::default()
    };
    assert_eq!(list(of(1, "", "")).await.0, [2, 5]);
    assert_eq!(list(of(2, "scratchpad_exec", "")).await.0, [3, 4]);
    let (found, documents) = list(of(0, "scratchpad_exec", "b2")).await;
    assert_eq!(found, [4]);
    let branch = &documents[0];
    assert_eq!(branch.kind(), pb::DocumentKind::HomeworkBranch);
    assert_eq!((&*branch.parent_id, &*branch.branch_id, branch.iteration), (&*ours[1], "b2", 2));
    assert_eq!((&*branch.doc_role, &*branch.owner), ("scratchpad_exec", "planner"));
    assert_eq!(branch.tags, ["homework"]);
    // Only a run has a tree.
    for (request, name) in
        [(of(2, "", ""), "parent_id"), (of(0, "plan", ""), "doc_role"), (of(0, "", "b1"), "branch_id")]
    {
        let refused = gateway.documents().list_documents(request).await.unwrap_err();
        assert_eq!((refused.code(), field(&refused)), (Code::InvalidArgument, name.into()));
    }
    let wrong = pb::ListDocumentsRequest {
        parent_id: "nonsense".into(),
        run_id: run.run_id.clone(),
        ..Default::default()
    };
    let refused = gateway.documents().list_documents(wrong).await.unwrap_err();
    assert_eq!((refused.code(), field(&refused)), (Code::InvalidArgument, "parent_id".into()));
    gateway.stop().await;
}

#[tokio::test]
async fn a_document_can_be_read_as_it_was() {
    let gateway = Gateway::start(Config::default()).await;
    let run = gateway.create_run("versions").await;
    let mut log = gateway.drive(&run).await;
    let before = log.head;
    homework(&mut log).await;
    let at = log.head;
    write(&mut log, vec![replace(5, at + 1, "second")]).await;
    write(&mut log, vec![grow(5, at + 2, ", and more")]).await;
    write(&mut log, vec![]).await;
    let get = async |document_id: String, at_seq| {
        let answer = gateway
            .documents()
            .get_document(pb::GetDocumentRequest { document_id, at_seq, ..Default::default() })
            .await;
        answer.map(|answer| answer.into_inner().document.unwrap())
    };
    for (seq, text) in [
        (None, "second, and more"),
        (Some(at), "first"),
        (Some(at + 1), "second"),
        (Some(at + 2), "second, and more"),
        (Some(at + 3), "second, and more"),
    ] {
        let document = get(id(5).to_string(), seq).await.unwrap();
        let summary = document.summary.unwrap();
        assert_eq!((&*document.body, summary.bytes), (text, text.len() as u64), "{seq:?}");
        assert_eq!(summary.parent_id, id(1).to_string());
    }
    for (seq, code) in [(before, Code::NotFound), (0, Code::NotFound), (at + 4, Code::OutOfRange)] {
        let refused = get(id(5).to_string(), Some(seq)).await.unwrap_err();
        assert_eq!((refused.code(), field(&refused)), (code, "at_seq".into()), "{seq}");
    }
    let project_id = gateway.create_project("Docs").await.project_id;
    let source =
        pb::CreateDocumentRequest { project_id, path: "a.md".into(), body: "a".into(), ..Default::default() };
    let source = gateway.documents().create_document(source).await.unwrap().into_inner().document.unwrap();
    let refused = get(source.document_id.clone(), Some(1)).await.unwrap_err();
    assert_eq!((refused.code(), field(&refused)), (Code::InvalidArgument, "at_seq".into()));
    // The texts that it had, in pages.
    let list = async |document_id: String, page_size| {
        let mut versions = Vec::new();
        let mut request = pb::ListDocumentVersionsRequest {
            document_id,
            page_size,
            page_token: String::new(),
            ..Default::default()
        };
        loop {
            let page = gateway.documents().list_document_versions(request.clone()).await?.into_inner();
            versions.extend(page.versions.iter().map(|v| (v.seq, v.bytes, v.replaces)));
            if page.next_page_token.is_empty() {
                return Ok::<_, tonic::Status>(versions);
            }
            request.page_token = page.next_page_token;
        }
    };
    for page_size in [0, 1, 2] {
        let all = [(at, 5, true), (at + 1, 6, true), (at + 2, 16, false)];
        assert_eq!(list(id(5).to_string(), page_size).await.unwrap(), all);
    }
    assert_eq!(list(source.document_id, 0).await.unwrap(), []);
    assert_eq!(list(id(77).to_string(), 0).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(list("nonsense".into(), 0).await.unwrap_err().code(), Code::InvalidArgument);
    gateway.stop().await;
}

#[tokio::test]
async fn a_follower_is_told_that_a_text_was_replaced() {
    let gateway = Gateway::start(Config::default()).await;
    let run = gateway.create_run("follow the plan").await;
    let mut log = gateway.drive(&run).await;
    homework(&mut log).await;
    let watch = async |after_bytes| {
        let request =
            pb::WatchDocumentRequest { document_id: id(5).to_string(), after_bytes, ..Default::default() };
        let mut stream = gateway.documents().watch_document(request).await.unwrap().into_inner();
        let first = stream.message().await.unwrap().unwrap().message;
        assert!(matches!(first, Some(Message::Document(summary)) if summary.parent_id == id(1).to_string()));
        stream
    };
    let next = async |stream: &mut tonic::Streaming<pb::WatchDocumentResponse>| loop {
        let message = tokio::time::timeout(SOON, stream.message()).await.expect("something is said").unwrap();
        match message.map(|message| message.message.unwrap()) {
            Some(Message::Text(piece)) => break Some((piece.offset, piece.text, piece.replaces)),
            Some(Message::Heartbeat(_)) => {}
            None => break None,
            other => panic!("{other:?}"),
        }
    };
    let text = |offset, text: &str, replaces| Some((offset, text.to_owned(), replaces));
    let mut early = watch(0).await;
    assert_eq!(next(&mut early).await, text(0, "first", false));
    let seq = log.head + 1;
    write(&mut log, vec![replace(5, seq, "second")]).await;
    assert_eq!(next(&mut early).await, text(5, "second", true));
    write(&mut log, vec![grow(5, seq + 1, "!")]).await;
    assert_eq!(next(&mut early).await, text(11, "!", false));
    // Those who come again, with the old text or with nothing, begin anew; one who has a part of the new text goes on.
    for after_bytes in [0, 3, 5] {
        assert_eq!(next(&mut watch(after_bytes).await).await, text(5, "second!", true), "{after_bytes}");
    }
    assert_eq!(next(&mut watch(8).await).await, text(8, "ond!", false));
    write(&mut log, vec![replace(5, seq + 2, "")]).await;
    assert_eq!(next(&mut early).await, text(12, "", true), "there is no text any more");
    assert_eq!(next(&mut watch(12).await).await, text(12, "", true));
    write(&mut log, vec![grow(5, seq + 3, "last")]).await;
    assert_eq!(next(&mut early).await, text(12, "last", false));
    log.finish().await;
    assert_eq!(next(&mut early).await, None, "the stream ends with the run");
    assert_eq!(next(&mut watch(0).await).await, text(12, "last", true));
    gateway.stop().await;
}
