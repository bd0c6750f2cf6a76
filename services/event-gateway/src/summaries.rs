//! Documents without their text, as answers show them.

use tree_agent_contract::{Document, DocumentSummary};
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_store::PlacedDocument;

pub(crate) fn summary(document: &Document) -> DocumentSummary {
    DocumentSummary {
        id: document.id,
        kind: document.kind,
        project_id: document.project_id,
        run_id: document.run_id,
        path: document.path.clone(),
        title: document.title.clone(),
        bytes: document.body.len() as u64,
        props: document.props.clone(),
        updated_at: document.updated_at,
        parent_id: None,
    }
}

/// As [`summary`], with the place.
pub(crate) fn placed_summary(placed: &PlacedDocument) -> DocumentSummary {
    DocumentSummary { parent_id: placed.parent_id, ..summary(&placed.document) }
}

pub(crate) fn summary_to_wire(summary: &DocumentSummary) -> pb::DocumentSummary {
    pb::DocumentSummary {
        document_id: summary.id.to_wire(),
        kind: summary.kind.to_wire(),
        project_id: summary.project_id.to_wire(),
        run_id: summary.run_id.to_wire(),
        node_id: summary.props.tree_agent_node_id.to_wire(),
        path: summary.path.clone(),
        title: summary.title.clone(),
        bytes: summary.bytes,
        updated_at: Some(summary.updated_at.to_wire()),
        content_hash: summary.props.content_hash.as_deref().unwrap_or_default().to_owned(),
        import: summary.props.import.to_wire(),
        parent_id: summary.parent_id.map(|id| id.to_wire()).unwrap_or_default(),
        doc_role: summary.props.doc_role.clone().unwrap_or_default(),
        branch_id: summary.props.branch_id.clone().unwrap_or_default(),
        iteration: summary.props.iteration.unwrap_or_default(),
        owner: summary.props.owner.clone().unwrap_or_default(),
        tags: summary.props.tags.clone(),
    }
}
