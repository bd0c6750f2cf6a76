//! `ListCitations`.

use crate::common::{Gateway, Log, field};
use tonic::Code;
use tree_agent_contract::document::{Document, DocumentKind, DocumentOp, DocumentProps};
use tree_agent_contract::event::{ArtifactCited, ArtifactCreated, NodeCreated};
use tree_agent_contract::result::ArtifactType;
use tree_agent_contract::{
    ArtifactId, Citation, CitationCounts, DocumentId, EventBody, NodeId, StepId, Timestamp,
};
use tree_agent_event_gateway::Config;
use tree_agent_proto::v1 as pb;
use tree_agent_retrieval::Visible;
use tree_agent_store::Projection;

const SOURCE: &str = "The moon pulls. Spring tides come twice a month. Neap tides are low.";

async fn import(gateway: &Gateway, project: &pb::Project, path: &str, body: &str) -> DocumentId {
    let request = pb::CreateDocumentRequest {
        project_id: project.project_id.clone(),
        path: path.into(),
        title: format!("Title of {path}"),
        body: body.into(),
        ..Default::default()
    };
    let imported = gateway.documents().create_document(request).await.unwrap().into_inner();
    imported.document.unwrap().document_id.parse().unwrap()
}

fn cite(claim: &str, quote: &str, document_id: DocumentId, source: &str) -> Citation {
    let (verdict, passage) = Visible::of("", source).judge(quote);
    Citation { verdict, passage, ..Citation::unchecked(claim.into(), quote.into(), document_id) }
}

/// Records that a node returned an artifact with this text and these citations. The document of the artifact.
async fn returns(log: &mut Log, node: NodeId, text: &str, citations: Vec<Citation>) -> DocumentId {
    let artifact_id = ArtifactId::of(node, 0, "findings");
    let id = DocumentId::of_artifact(artifact_id);
    let title = format!("Findings of {node}");
    let created = ArtifactCreated {
        artifact_id,
        artifact_type: ArtifactType::Document,
        document_id: Some(id),
        label: Some("findings".into()),
        title: Some(title.clone()),
        json_payload: None,
        is_primary: true,
        snippet: None,
    };
    let document = Document {
        id,
        kind: DocumentKind::Artifact,
        project_id: None,
        run_id: Some(log.run),
        path: String::new(),
        title,
        body: text.into(),
        props: DocumentProps { tree_agent_node_id: Some(node), ..DocumentProps::default() },
        created_at: Timestamp(1),
        updated_at: Timestamp(1),
    };
    let root = NodeId::root(log.run);
    let parent = (node != root).then_some(root);
    let counts = CitationCounts::of(&citations, 0);
    let bodies: [EventBody; 2] =
        [created.into(), ArtifactCited { artifact_id, citations, counts, disagreements: Vec::new() }.into()];
    let bodies = bodies.into_iter().map(|body| (node, parent, body)).collect();
    log.record(bodies, Projection::default(), vec![DocumentOp::Create(document)]).await;
    id
}

#[tokio::test]
async fn claims_are_followed_to_their_sources_and_to_what_has_changed_there() {
    let gateway = Gateway::start(Config::default()).await;
    let project = gateway.create_project("tides").await;
    let source = import(&gateway, &project, "tides.md", SOURCE).await;
    let other = import(&gateway, &project, "other.md", "Rivers have bores, which are waves.").await;
    let run = gateway.create_run("citations").await;
    let mut log = gateway.drive(&run).await;
    let root = NodeId::root(log.run);
    let [a, b] = ["a", "b"].map(|step| NodeId::child(root, 1, &StepId::new(step)));
    for node in [a, b] {
        let created = NodeCreated { depth: 1, ..NodeCreated::new("child") };
        log.record(vec![(node, Some(root), created.into())], Projection::default(), Vec::new()).await;
    }
    let spring = "Spring tides are a fortnight apart.";
    let neap = "Neap tides are weak.";
    let of_a = format!("# Tides\n\n{spring} {neap} The sun does it.\n");
    let citations = vec![
        cite(spring, "Spring tides come twice a month.", source, SOURCE),
        cite(neap, "Neap tides are low.", source, SOURCE),
        cite("The sun does it.", "The sun pulls harder.", source, SOURCE),
    ];
    let document_a = returns(&mut log, a, &of_a, citations).await;
    let bores = cite(
        "Bores are waves.",
        "Rivers have bores, which are waves.",
        other,
        "Rivers have bores, which are waves.",
    );
    returns(&mut log, b, "Bores are waves.", vec![bores]).await;
    let citations = vec![
        cite("Twice a month the tide is high.", spring, document_a, &of_a),
        cite("Weak ones lie between.", neap, document_a, &of_a),
        cite("Both are so.", "fortnight apart. Neap tides", document_a, &of_a),
    ];
    returns(&mut log, root, "Twice a month the tide is high. Weak ones lie between. Both are so.", citations)
        .await;
    let list = async |check_sources: bool, node_id: String, page_size: u32| {
        let (mut claims, mut redo, mut page_token) = (Vec::new(), Vec::new(), String::new());
        loop {
            let request = pb::ListCitationsRequest {
                run_id: run.run_id.clone(),
                node_id: node_id.clone(),
                check_sources,
                page_size,
                page_token,
            };
            let mut page = gateway.runs().list_citations(request).await.unwrap().into_inner();
            claims.extend(page.claims.clone());
            redo.append(&mut page.redo_node_ids);
            page_token = page.next_page_token.clone();
            if page_token.is_empty() {
                break (claims, pb::ListCitationsResponse { redo_node_ids: redo, ..page });
            }
        }
    };
    let (claims, page) = list(false, String::new(), 0).await;
    let counts = |total, found, not_found| {
        let doubted = not_found;
        Some(pb::CitationCounts { total, found, not_found, doubted, ..Default::default() })
    };
    // Those of the answer, whatever nodes below cite.
    assert_eq!(page.counts, counts(3, 3, 0));
    assert_eq!((page.seq, page.redo_node_ids.len()), (log.head, 0));
    let seen: Vec<_> =
        claims.iter().map(|one| (one.node_id.as_str(), one.index, one.of_run, &one.rests_on[..])).collect();
    let (root_id, a_id, b_id) = (root.to_string(), a.to_string(), b.to_string());
    let none: &[u64] = &[];
    let expected = [
        (root_id.as_str(), 0, true, [3].as_slice()),
        (&root_id, 1, true, &[4]),
        // A quote of two sentences rests on both.
        (&root_id, 2, true, none),
        (&a_id, 3, false, none),
        (&a_id, 4, false, none),
        (&a_id, 5, false, none),
        (&b_id, 6, false, none),
    ];
    assert_eq!(seen, expected);
    assert_eq!(claims[3].source_title, "Title of tides.md");
    let citation = claims[3].citation.as_ref().unwrap();
    assert_eq!(citation.passage.as_ref().unwrap().offset, 16);
    assert_eq!(claims[5].citation.as_ref().unwrap().verdict(), pb::Verdict::NotFound);
    assert!(claims.iter().all(|one| !one.stale && one.source() == pb::SourceState::Unspecified));
    assert_eq!(list(false, String::new(), 2).await.0, claims);
    let (of_a, page) = list(false, a.to_string(), 1).await;
    assert_eq!(of_a, claims[3..6]);
    assert_eq!(page.counts, counts(3, 2, 1));

    // Nothing has changed yet.
    let (claims, page) = list(true, String::new(), 0).await;
    assert!(claims.iter().all(|one| !one.stale) && page.redo_node_ids.is_empty());
    // One sentence changes and another one moves.
    let changed = "The moon pulls hard. Spring tides come once a month. Neap tides are low.";
    assert_eq!(import(&gateway, &project, "tides.md", changed).await, source);
    let (claims, page) = list(true, String::new(), 3).await;
    let states: Vec<_> = claims.iter().map(|one| (one.source(), one.stale)).collect();
    use pb::SourceState::{Changed, Moved, Unchanged, Unspecified};
    let expected = [
        (Unchanged, true),
        (Unchanged, false),
        (Unchanged, false),
        (Changed, true),
        (Moved, false),
        (Unspecified, false),
        (Unchanged, false),
    ];
    assert_eq!(states, expected);
    assert_eq!(page.redo_node_ids, [root.to_string(), a.to_string()]);

    let ask = async |node_id: &str, page_token: &str| {
        let (node_id, page_token) = (node_id.to_owned(), page_token.to_owned());
        let run_id = run.run_id.clone();
        let request = pb::ListCitationsRequest { run_id, node_id, page_token, ..Default::default() };
        gateway.runs().list_citations(request).await.unwrap_err()
    };
    for (node, token, code, name) in [
        ("nonsense", "", Code::InvalidArgument, "node_id"),
        (&*NodeId::from(uuid::Uuid::nil()).to_string(), "", Code::NotFound, "node_id"),
        ("", "00", Code::InvalidArgument, "page_token"),
    ] {
        let refused = ask(node, token).await;
        assert_eq!((refused.code(), field(&refused)), (code, name.into()));
    }
    gateway.stop().await;
}
