//! The run that the scripted server knows.

use tree_agent_contract::event::{
    ArtifactCreated, Event, EventBody, NodeCompleted, NodeCreated, NodeResult, NodeStatusChanged, RunCreated,
    RunStatusChanged,
};
use tree_agent_contract::*;
use tree_agent_proto::Wire;
use tree_agent_proto::v1::watch_run_response::Message;

pub(crate) fn project_id() -> ProjectId {
    ProjectId(uuid::Uuid::from_u128(0x11))
}

pub(crate) fn run_id() -> RunId {
    RunId(uuid::Uuid::from_u128(0x0190_b6f1_8d3e_7cc4_a1c7_3f7f_6c1d_2e4b))
}

pub(crate) fn message(event: &Event) -> Message {
    Message::Event(event.to_wire())
}

pub(crate) fn document_id() -> DocumentId {
    DocumentId::of_artifact(ArtifactId::of(NodeId::root(run_id()), 0, "synthesis"))
}

/// The synthesis, unless a test says otherwise.
pub(crate) const BODY: &str = "# Because\n";

/// A whole run of one node that ends with `status`.
pub(crate) fn log(status: RunStatus, partial: bool) -> Vec<Event> {
    let root = NodeId::root(run_id());
    let artifact = ArtifactId::of(root, 0, "synthesis");
    let bodies: Vec<EventBody> = vec![
        RunCreated::new(RunSpec::new("why?"), root).into(),
        NodeCreated::new("why?").into(),
        RunStatusChanged { status: RunStatus::Running, reason: None, partial: false, goes_on_at: None }
            .into(),
        NodeStatusChanged {
            message: Some("leaf_decision:direct".into()),
            ..NodeStatusChanged::new(NodeStatus::Executing, Role::Executor)
        }
        .into(),
        ArtifactCreated {
            artifact_id: artifact,
            artifact_type: ArtifactType::Document,
            document_id: Some(document_id()),
            label: Some("synthesis".into()),
            title: Some("Synthesis".into()),
            json_payload: None,
            is_primary: true,
            snippet: None,
        }
        .into(),
        NodeResult {
            result: TreeAgentResult {
                kind: ResultKind::Document,
                summary: "Because.".into(),
                success_assessment: None,
                primary_artifact_id: Some(artifact),
                artifact_ids: vec![artifact],
                document_ids: vec![document_id()],
                json_payload: None,
                scratchpad_doc_id: None,
                scratchpad_tail: None,
                key_findings: Vec::new(),
                gaps: Vec::new(),
            },
        }
        .into(),
        NodeCompleted { outcome: Outcome::Success, evidence: None, metrics: None }.into(),
        RunStatusChanged { status, reason: Some("as the script says".into()), partial, goes_on_at: None }
            .into(),
    ];
    let events = bodies.into_iter().zip(1..).map(|(body, seq)| Event {
        run_id: run_id(),
        seq,
        node_id: root,
        parent_node_id: None,
        timestamp: Timestamp::from_millis(seq as i64 * 250),
        body,
    });
    events.collect()
}
