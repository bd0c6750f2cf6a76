//! `GetNode`, `GetResult`, and streams of one subtree.

use crate::common::{Gateway, Log, SOON, field};
use tonic::Code;
use tree_agent_contract::document::{Document, DocumentKind, DocumentOp, DocumentProps};
use tree_agent_contract::event::{ArtifactCreated, NodeCompleted, NodeCreated, NodeResult};
use tree_agent_contract::result::{ArtifactType, ResultKind, TreeAgentResult};
use tree_agent_contract::{ArtifactId, DocumentId, EventBody, NodeId, NodeStatus, Outcome, Role, Timestamp};
use tree_agent_event_gateway::Config;
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::watch_run_response::Message;
use tree_agent_store::{NodeRow, Projection};
use uuid::Uuid;

fn created(title: &str, depth: u32) -> EventBody {
    NodeCreated { depth, band_index: Some(0), step_index: Some(0), ..NodeCreated::new(title) }.into()
}

fn row(id: NodeId, parent: NodeId, depth: u32) -> NodeRow {
    NodeRow {
        id,
        parent_node_id: Some(parent),
        title: String::new(),
        reason: String::new(),
        success_criteria: Vec::new(),
        band_index: None,
        step_index: None,
        depth,
        status: NodeStatus::Waiting,
        role_state: Role::Planner,
        scratchpad_doc_id: None,
        started_at: None,
        ended_at: None,
        created_at: Timestamp(1),
        updated_at: Timestamp(1),
    }
}

fn node(n: u128) -> NodeId {
    NodeId(Uuid::from_u128(n))
}

/// Children 1 and 2 of the root, and 3 below 1.
async fn grow(log: &mut Log) {
    let root = NodeId::root(log.run);
    let nodes = [(node(1), root, 1), (node(2), root, 1), (node(3), node(1), 2)];
    let events = nodes.iter().map(|&(id, parent, depth)| (id, Some(parent), created("child", depth)));
    let rows = nodes.iter().map(|&(id, parent, depth)| row(id, parent, depth)).collect();
    log.record(events.collect(), Projection { nodes: rows, ..Projection::default() }, Vec::new()).await;
}

#[tokio::test]
async fn a_node_can_be_had_without_the_graph() {
    let gateway = Gateway::start(Config::default()).await;
    let run = gateway.create_run("nodes").await;
    let mut log = gateway.drive(&run).await;
    let before = log.head;
    grow(&mut log).await;
    let mut runs = gateway.runs();
    let mut get = async |node_id: &str, at_seq| {
        let request = pb::GetNodeRequest { run_id: run.run_id.clone(), node_id: node_id.into(), at_seq };
        runs.get_node(request).await.map(tonic::Response::into_inner)
    };
    let root = get(&run.root_node_id, None).await.unwrap();
    assert_eq!((root.child_ids, root.seq), (vec![node(1).to_string(), node(2).to_string()], log.head));
    let child = get(&node(3).to_string(), None).await.unwrap();
    assert_eq!(child.node.unwrap().parent_id, Some(node(1).to_string()));
    assert_eq!(get(&run.root_node_id, Some(before)).await.unwrap().child_ids, [""; 0]);
    for (node_id, at_seq, code, name) in [
        ("nonsense", None, Code::InvalidArgument, "node_id"),
        (&*Uuid::nil().to_string(), None, Code::NotFound, "node_id"),
        (&*node(3).to_string(), Some(before), Code::NotFound, "node_id"),
        (&*run.root_node_id, Some(log.head + 1), Code::OutOfRange, "at_seq"),
    ] {
        let refused = get(node_id, at_seq).await.unwrap_err();
        assert_eq!((refused.code(), field(&refused)), (code, name.into()));
    }
    // A node that has not begun has written nothing yet. It exists.
    for (node_id, found) in [(node(3), true), (NodeId(Uuid::nil()), false)] {
        let (run_id, node_id, after_seq) = (run.run_id.clone(), node_id.to_string(), log.head);
        let request = pb::ListEventsRequest { run_id, node_id, after_seq, ..Default::default() };
        assert_eq!(gateway.runs().list_events(request).await.is_ok(), found);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_stream_can_be_of_one_subtree_also_of_nodes_that_come_later() {
    let gateway = Gateway::start(Config::default()).await;
    let run = gateway.create_run("subtree").await;
    let mut log = gateway.drive(&run).await;
    grow(&mut log).await;
    let request = pb::WatchRunRequest {
        run_id: run.run_id.clone(),
        node_id: node(1).to_string(),
        ..Default::default()
    };
    let mut stream = gateway.runs().watch_run(request).await.unwrap().into_inner();
    let below = |n, parent| (node(n), Some(node(parent)), created("later", 3));
    log.record(vec![below(4, 2), below(5, 3), below(6, 5)], Projection::default(), Vec::new()).await;
    log.finish().await;
    let mut nodes = Vec::new();
    loop {
        let message = tokio::time::timeout(SOON, stream.message()).await.unwrap().unwrap();
        let Some(message) = message else { break };
        if let Some(Message::Event(event)) = message.message {
            nodes.push(event.node_id);
        }
    }
    assert_eq!(nodes, [1, 3, 5, 6].map(|n| node(n).to_string()));
    gateway.stop().await;
}

#[tokio::test]
async fn the_result_is_the_synthesis_of_the_root() {
    let gateway = Gateway::start(Config::default()).await;
    let run = gateway.create_run("result").await;
    let mut log = gateway.drive(&run).await;
    let get = || pb::GetResultRequest { run_id: run.run_id.clone() };
    let live = gateway.runs().get_result(get()).await.unwrap().into_inner();
    assert_eq!((live.status(), live.result, live.text.as_str()), (pb::RunStatus::Queued, None, ""));
    let root = NodeId::root(log.run);
    let artifact_id = ArtifactId::of(root, 0, "synthesis");
    let document_id = DocumentId::of_artifact(artifact_id);
    let document = Document {
        id: document_id,
        kind: DocumentKind::Artifact,
        project_id: None,
        run_id: Some(log.run),
        path: String::new(),
        title: "The answer".into(),
        body: "# Because".into(),
        props: DocumentProps::default(),
        created_at: Timestamp(1),
        updated_at: Timestamp(1),
    };
    let artifact = ArtifactCreated {
        artifact_id,
        artifact_type: ArtifactType::Document,
        document_id: Some(document_id),
        label: Some("synthesis".into()),
        title: Some("The answer".into()),
        json_payload: None,
        is_primary: true,
        snippet: None,
    };
    let result = TreeAgentResult {
        kind: ResultKind::Document,
        summary: "In short".into(),
        success_assessment: None,
        primary_artifact_id: Some(artifact_id),
        artifact_ids: vec![artifact_id],
        document_ids: vec![DocumentId(Uuid::from_u128(7)), document_id],
        json_payload: None,
        scratchpad_doc_id: None,
        scratchpad_tail: None,
        key_findings: Vec::new(),
        gaps: Vec::new(),
    };
    let completed = NodeCompleted { outcome: Outcome::Partial, evidence: None, metrics: None };
    let bodies = [artifact.into(), NodeResult { result }.into(), completed.into()];
    let bodies = bodies.map(|body| (root, None, body)).to_vec();
    log.record(bodies, Projection::default(), vec![DocumentOp::Create(document)]).await;
    // The result need not be near the end of the log.
    log.append(200, 1).await;
    log.finish().await;
    let result = gateway.runs().get_result(get()).await.unwrap().into_inner();
    assert_eq!((result.status(), result.outcome()), (pb::RunStatus::Completed, pb::Outcome::Partial));
    assert_eq!((result.summary.as_str(), result.text.as_str()), ("In short", "# Because"));
    assert_eq!((result.title.as_str(), result.document_id), ("The answer", Some(document_id.to_string())));
    assert_eq!(result.result.unwrap().document_ids.len(), 2);
    let missing = pb::GetResultRequest { run_id: Uuid::nil().to_string() };
    assert_eq!(gateway.runs().get_result(missing).await.unwrap_err().code(), Code::NotFound);
    gateway.stop().await;
}
