//! Documents that a decision creates and changes, each with the event that says so.

use tree_agent_contract::document::{Document, DocumentOp};
use tree_agent_contract::event::ScratchpadUpdated;
use tree_agent_contract::text::suffix;
use tree_agent_contract::{DocumentId, limits};

use super::Decider;
use crate::pacing;

impl Decider<'_> {
    /// Creates a document below another one of the run. It belongs to the last event.
    pub(crate) fn create_document(&mut self, document: Document, parent: DocumentId) {
        let child = document.id;
        let (seq, at) = (self.state.graph().seq(), self.now);
        self.decision.documents.push(DocumentOp::Create(document));
        self.decision.documents.push(DocumentOp::Link { parent, child, seq, at });
    }

    /// Gives a document of the run another text. It belongs to the last event.
    pub(crate) fn replace_document(&mut self, id: DocumentId, text: String) {
        let (seq, at) = (self.state.graph().seq(), self.now);
        self.decision.documents.push(DocumentOp::Replace { id, seq, text, at });
    }

    /// The scratchpad of the node at `at`.
    pub(crate) fn scratchpad_of(&self, at: usize) -> DocumentId {
        let node = self.state.node(at);
        node.scratchpad_doc_id.unwrap_or_else(|| DocumentId::scratchpad(node.id))
    }

    /// Where documents that the node at `at` makes belong: its scratchpad, or that of the next node above which has
    /// one. A node that does no work has none.
    pub(crate) fn place_of(&self, at: usize) -> DocumentId {
        let mut next = Some(at);
        while let Some(at) = next {
            if let Some(id) = self.state.node(at).scratchpad_doc_id {
                return id;
            }
            next = self.state.control(at).parent;
        }
        DocumentId::workspace(self.state.origin())
    }

    /// Appends a note of whole lines to the node's scratchpad.
    pub(crate) fn append_scratchpad(&mut self, at: usize, markdown: &str) {
        if !pacing::may_change(self.state, at, self.now) {
            // The run ends before the note may be written. The result is used without it.
            return;
        }
        let mut text = markdown.to_owned();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        self.write_scratchpad(at, text, true);
    }

    /// Adds `text` to the end of the node's scratchpad, on a new line if it `begins` one. The event carries the new
    /// end.
    pub(super) fn write_scratchpad(&mut self, at: usize, mut text: String, begins: bool) {
        if text.is_empty() {
            return;
        }
        let id = self.scratchpad_of(at);
        let before = self.state.node(at).scratchpad_tail.as_deref().unwrap_or_default();
        if begins && !before.is_empty() && !before.ends_with('\n') {
            text.insert(0, '\n');
        }
        let tail_preview = if text.len() >= limits::TAIL_PREVIEW_BYTES {
            suffix(&text, limits::TAIL_PREVIEW_BYTES).to_owned()
        } else {
            suffix(&format!("{before}{text}"), limits::TAIL_PREVIEW_BYTES).to_owned()
        };
        self.emit(at, ScratchpadUpdated { scratchpad_doc_id: id, tail_preview, updated_at: self.now });
        self.decision.documents.push(DocumentOp::Append {
            id,
            seq: self.state.graph().seq(),
            text,
            at: self.now,
        });
    }
}
