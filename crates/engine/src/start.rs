//! The first events of a run.

use tree_agent_contract::document::{Document, DocumentKind, DocumentOp, DocumentProps};
use tree_agent_contract::event::*;
use tree_agent_contract::{DocumentId, NodeId, RunId, RunSpec, RunStatus, Timestamp};

use crate::behaviour::Behaviour;
use crate::input::Decision;

/// What is written when a run is created: its first events and the root's scratchpad. The spec must be valid.
pub fn start(run_id: RunId, spec: RunSpec, now: Timestamp) -> Decision {
    let root = NodeId::root(run_id);
    let title = spec.title();
    let scratchpad = scratchpad(run_id, root, None, 0, &title, now);
    let bodies: [EventBody; 4] = [
        RunCreated { behaviour_version: Behaviour::LATEST, ..RunCreated::new(spec, root) }.into(),
        RunStatusChanged { status: RunStatus::Queued, reason: None, partial: false }.into(),
        NodeCreated { reason: "The user's objective".into(), ..NodeCreated::new(title) }.into(),
        ScratchpadLinked { scratchpad_doc_id: DocumentId::scratchpad(root) }.into(),
    ];
    let events = (1..).zip(bodies).map(|(seq, body)| Event {
        run_id,
        seq,
        node_id: root,
        parent_node_id: None,
        timestamp: now,
        body,
    });
    Decision {
        events: events.collect(),
        documents: vec![DocumentOp::Create(scratchpad)],
        sessions: Vec::new(),
    }
}

/// The empty scratchpad of a node.
pub(crate) fn scratchpad(
    run_id: RunId,
    node: NodeId,
    parent: Option<NodeId>,
    depth: u32,
    title: &str,
    now: Timestamp,
) -> Document {
    Document {
        id: DocumentId::scratchpad(node),
        kind: DocumentKind::Scratchpad,
        project_id: None,
        run_id: Some(run_id),
        path: String::new(),
        title: title.to_owned(),
        body: String::new(),
        props: DocumentProps {
            doc_role: Some("tree_agent_scratchpad".into()),
            tree_agent_run_id: Some(run_id),
            tree_agent_node_id: Some(node),
            parent_node_id: parent,
            depth: Some(depth),
            ..DocumentProps::default()
        },
        created_at: now,
        updated_at: now,
    }
}
