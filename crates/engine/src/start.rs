//! The first events of a run.

use tree_agent_contract::document::{Document, DocumentOp};
use tree_agent_contract::event::*;
use tree_agent_contract::{DocumentId, NodeId, RunId, RunSpec, RunStatus, Strategy, Timestamp};

use crate::behaviour::Behaviour;
use crate::documents;
use crate::input::Decision;

/// What is written when a run is created: its first events, and its workspace with the root's scratchpad. The spec must
/// be valid.
pub fn start(run_id: RunId, spec: RunSpec, now: Timestamp) -> Decision {
    let root = NodeId::root(run_id);
    let title = spec.title();
    let workspace = documents::workspace(run_id, &spec, now);
    let below = match spec.strategy {
        Strategy::Tree => {
            let scratchpad = documents::scratchpad(run_id, root, None, 0, &title, now);
            vec![documents::asked(scratchpad, &spec.objective, &[])]
        }
        Strategy::Search => vec![documents::scratchpad(run_id, root, None, 0, &title, now)],
        Strategy::Homework => vec![
            documents::main_scratchpad(run_id, root, &title, now),
            documents::plan(run_id, root, &title, now),
        ],
    };
    let bodies: [EventBody; 4] = [
        RunCreated { behaviour_version: Behaviour::NEW, ..RunCreated::new(spec, root) }.into(),
        RunStatusChanged { status: RunStatus::Queued, reason: None, partial: false, goes_on_at: None }.into(),
        NodeCreated { reason: "The user's objective".into(), ..NodeCreated::new(title) }.into(),
        ScratchpadLinked { scratchpad_doc_id: DocumentId::scratchpad(root) }.into(),
    ];
    let events: Vec<Event> = (1..)
        .zip(bodies)
        .map(|(seq, body)| Event { run_id, seq, node_id: root, parent_node_id: None, timestamp: now, body })
        .collect();
    let seq = events.len() as u64;
    let link =
        |document: &Document| DocumentOp::Link { parent: workspace.id, child: document.id, seq, at: now };
    let links: Vec<DocumentOp> = below.iter().map(link).collect();
    let documents = std::iter::once(workspace).chain(below).map(DocumentOp::Create).chain(links);
    Decision { events, documents: documents.collect(), sessions: Vec::new() }
}
