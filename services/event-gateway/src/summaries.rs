//! Documents without their text, as answers show them.

use tree_agent_contract::{Document, DocumentSummary};
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
