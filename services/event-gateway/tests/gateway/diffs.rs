//! `DiffRuns`: two runs, compared.

use std::sync::Arc;

use crate::common::{Gateway, Log, Mode, TestFanout, field};
use tonic::Code;
use tree_agent_contract::document::{Document, DocumentKind, DocumentOp, DocumentProps};
use tree_agent_contract::event::{NodeCreated, NodeResult};
use tree_agent_contract::result::{ResultKind, TreeAgentResult};
use tree_agent_contract::{ArtifactId, DocumentId, EventBody, NodeId, StepId, Timestamp};
use tree_agent_event_gateway::Config;
use tree_agent_proto::v1 as pb;
use tree_agent_store::embedded::EmbeddedStore;
use tree_agent_store::{Archives, Projection};
use uuid::Uuid;

/// Children of the root, each with its step and its title.
async fn grow(log: &mut Log, children: &[(&str, &str)]) {
    let root = NodeId::root(log.run);
    let created = |(step, title): &(&str, &str)| {
        let step_id = Some(StepId::new(*step));
        let body = NodeCreated { depth: 1, band_index: Some(0), step_id, ..NodeCreated::new(*title) };
        (NodeId::child(root, 1, &StepId::new(*step)), Some(root), EventBody::from(body))
    };
    log.record(children.iter().map(created).collect(), Projection::default(), Vec::new()).await;
}

/// The root returns a document with this text.
async fn answer(log: &mut Log, text: &str) {
    let root = NodeId::root(log.run);
    let document_id = DocumentId::of_artifact(ArtifactId::of(root, 0, "synthesis"));
    let document = Document {
        id: document_id,
        kind: DocumentKind::Artifact,
        project_id: None,
        run_id: Some(log.run),
        path: String::new(),
        title: "The answer".into(),
        body: text.into(),
        props: DocumentProps::default(),
        created_at: Timestamp(1),
        updated_at: Timestamp(1),
    };
    let result = TreeAgentResult {
        kind: ResultKind::Document,
        summary: "In short".into(),
        success_assessment: None,
        primary_artifact_id: None,
        artifact_ids: Vec::new(),
        document_ids: vec![document_id],
        json_payload: None,
        scratchpad_doc_id: None,
        scratchpad_tail: None,
        key_findings: Vec::new(),
        gaps: Vec::new(),
    };
    let bodies = vec![(root, None, NodeResult { result }.into())];
    log.record(bodies, Projection::default(), vec![DocumentOp::Create(document)]).await;
}

async fn diff(
    gateway: &Gateway,
    request: pb::DiffRunsRequest,
) -> Result<pb::DiffRunsResponse, tonic::Status> {
    gateway.runs().diff_runs(request).await.map(tonic::Response::into_inner)
}

fn of(a: &pb::Run, b: &pb::Run) -> pb::DiffRunsRequest {
    pb::DiffRunsRequest { a: a.run_id.clone(), b: b.run_id.clone(), ..Default::default() }
}

/// `=`, `~`, `-` or `+` with the title, for each node.
fn shown(nodes: &[pb::NodeDiff]) -> Vec<String> {
    let title = |side: &Option<pb::NodeTotals>| side.as_ref().map(|side| side.title.clone());
    let line = |node: &pb::NodeDiff| {
        let mark = match node.comparison() {
            pb::NodeComparison::Same => '=',
            pb::NodeComparison::Changed => '~',
            pb::NodeComparison::OnlyA => '-',
            pb::NodeComparison::OnlyB => '+',
            pb::NodeComparison::Unspecified => '?',
        };
        format!("{mark} {}", title(&node.a).or_else(|| title(&node.b)).unwrap_or_default())
    };
    nodes.iter().map(line).collect()
}

#[tokio::test]
async fn two_runs_are_compared_with_what_they_returned() {
    let gateway = Gateway::start(Config::default()).await;
    let a = gateway.create_run("Compare us").await;
    let mut log_a = gateway.drive(&a).await;
    let b = gateway.create_run("Compare us").await;
    let mut log_b = gateway.drive(&b).await;
    grow(&mut log_a, &[("1", "Costs"), ("2", "Risks")]).await;
    grow(&mut log_b, &[("1", "Costs"), ("3", "Dates")]).await;
    answer(&mut log_a, "# Answer\nIt costs 7.\n").await;
    answer(&mut log_b, "# Answer\nIt costs 8.\n").await;
    let found = diff(&gateway, of(&a, &b)).await.unwrap();
    assert_eq!(found.matching(), pb::NodeMatching::Steps);
    assert_eq!(shown(&found.nodes), ["= Compare us", "= Costs", "- Risks", "+ Dates"]);
    assert_eq!(found.counts, Some(pb::DiffCounts { same: 2, changed: 0, only_a: 1, only_b: 1 }));
    let totals = found.a.unwrap();
    assert_eq!((totals.run_id, totals.seq, totals.nodes), (a.run_id.clone(), log_a.head, 3));
    let synthesis = found.synthesis.unwrap();
    let lines: Vec<_> = synthesis.hunks[0].lines.iter().map(|l| (l.comparison(), &*l.text)).collect();
    use pb::LineComparison::{Added, Removed, Same};
    assert_eq!(lines, [(Same, "# Answer"), (Removed, "It costs 7."), (Added, "It costs 8.")]);

    // A run and its own past share their nodes.
    let past = pb::DiffRunsRequest { a_seq: log_a.head - 2, ..of(&a, &a) };
    let found = diff(&gateway, past).await.unwrap();
    assert_eq!(found.matching(), pb::NodeMatching::Ids);
    assert_eq!(shown(&found.nodes), ["~ Compare us", "= Costs", "+ Risks"]);
    assert_eq!(found.nodes[0].changes().collect::<Vec<_>>(), [pb::NodeAspect::Result]);
    assert_eq!(found.synthesis.unwrap().added, 2, "nothing was returned yet");
    gateway.stop().await;
}

#[tokio::test]
async fn pages_are_about_the_same_moments_while_the_runs_grow() {
    let gateway = Gateway::start(Config::default()).await;
    let (a, b) = (gateway.create_run("pages").await, gateway.create_run("pages").await);
    let mut log = gateway.drive(&a).await;
    grow(&mut log, &[("1", "One"), ("2", "Two"), ("3", "Three")]).await;
    let seq = log.head;
    let mut request = pb::DiffRunsRequest { page_size: 2, ..of(&a, &b) };
    let first = diff(&gateway, request.clone()).await.unwrap();
    assert_eq!(shown(&first.nodes), ["= pages", "- One"]);
    grow(&mut log, &[("4", "Four")]).await;
    request.page_token = first.next_page_token.clone();
    let second = diff(&gateway, request.clone()).await.unwrap();
    assert_eq!(shown(&second.nodes), ["- Two", "- Three"]);
    assert_eq!((second.next_page_token.as_str(), second.a.unwrap().seq), ("", seq));
    assert_eq!((second.counts, second.synthesis), (first.counts, None));
    // A token is for its own runs.
    let other = pb::DiffRunsRequest { page_token: first.next_page_token, ..of(&b, &a) };
    let refused = diff(&gateway, other).await.unwrap_err();
    assert_eq!((refused.code(), field(&refused)), (Code::InvalidArgument, "page_token".into()));
    gateway.stop().await;
}

#[tokio::test]
async fn what_cannot_be_compared_is_named() {
    let store = Arc::new(EmbeddedStore::open_in_memory().await.unwrap());
    let gateway = Gateway::over(store.clone(), TestFanout::new(Mode::Faithful), Config::default()).await;
    let (run, gone) = (gateway.create_run("here").await, gateway.create_run("gone").await);
    let nil = pb::Run { run_id: Uuid::nil().to_string(), ..Default::default() };
    let nonsense = pb::Run { run_id: "nonsense".into(), ..Default::default() };
    let beyond = |a_seq, b_seq| pb::DiffRunsRequest { a_seq, b_seq, ..of(&run, &run) };
    for (request, code, name) in [
        (of(&nonsense, &run), Code::InvalidArgument, "a"),
        (of(&run, &nonsense), Code::InvalidArgument, "b"),
        (of(&nil, &run), Code::NotFound, "a"),
        (of(&run, &nil), Code::NotFound, "b"),
        (beyond(run.head_seq + 1, 0), Code::OutOfRange, "a_seq"),
        (beyond(0, run.head_seq + 1), Code::OutOfRange, "b_seq"),
        (
            pb::DiffRunsRequest { page_token: "00".into(), ..of(&run, &run) },
            Code::InvalidArgument,
            "page_token",
        ),
    ] {
        let refused = diff(&gateway, request).await.unwrap_err();
        assert_eq!((refused.code(), field(&refused)), (code, name.into()));
    }
    let mut log = gateway.drive(&gone).await;
    log.finish().await;
    assert!(store.prune_run(log.run, log.head, "none").await.unwrap());
    let refused = diff(&gateway, of(&run, &gone)).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains(&gone.run_id), "{}", refused.message());
    gateway.stop().await;
}
