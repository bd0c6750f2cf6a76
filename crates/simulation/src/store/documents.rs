//! The documents of the simulated store: their texts, the places that they have, and what they were at each event. The
//! history is kept as it was written, so that what a document was is computed anew, and not as the adapters do it.

use std::collections::{BTreeMap, BTreeSet};

use tree_agent_contract::document::{Document, DocumentOp};
use tree_agent_contract::limits::DOCUMENT_BYTES;
use tree_agent_contract::text::suffix;
use tree_agent_contract::{DocumentId, RunId};
use tree_agent_store::{DocumentTail, DocumentVersion, Page, PlacedDocument, RunAppend, StoreError};

use super::Model;

/// What was written of one document, since it was last created.
#[derive(Clone, Debug)]
pub(crate) struct History {
    /// The first event at which its text is known.
    created: u64,
    /// The text of events up to this one was created with it.
    base: u64,
    ops: Vec<DocumentOp>,
}

/// The place of a document: the one above it, and the event with which it got there.
pub(crate) type Place = (DocumentId, u64);

impl History {
    /// Of a document that is created.
    pub(super) fn new(created: u64, base: u64, op: DocumentOp) -> Self {
        Self { created, base, ops: vec![op] }
    }

    pub(super) fn push(&mut self, op: DocumentOp) {
        self.ops.push(op);
    }

    /// What was written up to the event `seq`; none before the document was created.
    pub(super) fn until(mut self, seq: u64) -> Option<Self> {
        if self.created > seq {
            return None;
        }
        let base = self.base;
        self.ops.retain(|op| match op {
            DocumentOp::Append { seq: of, .. } | DocumentOp::Replace { seq: of, .. } => *of <= seq.max(base),
            _ => true,
        });
        self.base = base.min(seq);
        Some(self)
    }

    /// The texts that it has had.
    pub(super) fn versions(&self, after: u64, limit: usize) -> Page<DocumentVersion> {
        let versions = self.changes().into_iter().filter_map(|(seq, replaced)| {
            let document = self.at(seq)?;
            let at = if seq == self.created { document.created_at } else { document.updated_at };
            Some(DocumentVersion { seq, at, bytes: document.body.len() as u64, replaced })
        });
        let mut items: Vec<_> = versions.filter(|version| version.seq > after).collect();
        let more = items.len() > limit;
        items.truncate(limit);
        Page { items, more }
    }

    /// Its text from byte `from` on, counted from the first that it ever had.
    pub(super) fn tail(&self, from: u64, max: usize, id: DocumentId) -> Result<DocumentTail, StoreError> {
        let document = self.at(u64::MAX).ok_or_else(|| StoreError::not_found("document", id))?;
        let (mut end, mut begin) = (0, 0);
        for op in &self.ops {
            match op {
                DocumentOp::Create(document) => end += document.body.len() as u64,
                DocumentOp::Append { text, .. } => end += text.len() as u64,
                DocumentOp::Replace { text, .. } => (begin, end) = (end, end + text.len() as u64),
                DocumentOp::Link { .. } => {}
            }
        }
        let lost = end - document.body.len() as u64;
        let start = from.max(lost);
        let first = (start.min(end) - lost) as usize;
        let last = document.body.floor_char_boundary(first.saturating_add(max)).max(first);
        let bytes = document.body.as_bytes()[first..last].to_vec();
        Ok(DocumentTail { start, end, text_start: begin, written_at: document.created_at, bytes })
    }

    /// The document after the event `seq`; none before it was created.
    pub(super) fn at(&self, seq: u64) -> Option<Document> {
        let mut found: Option<Document> = None;
        for op in self.ops.iter().filter(|_| self.created <= seq) {
            match (op, &mut found) {
                (DocumentOp::Create(document), _) => found = Some(document.clone()),
                (DocumentOp::Append { seq: of, text, at, .. }, Some(document))
                    if *of <= seq.max(self.base) =>
                {
                    document.body.push_str(&text[excess(text)..]);
                    document.updated_at = *at;
                }
                (DocumentOp::Replace { seq: of, text, at, .. }, Some(document))
                    if *of <= seq.max(self.base) =>
                {
                    document.body = text[excess(text)..].to_owned();
                    document.updated_at = *at;
                }
                _ => {}
            }
            if let Some(document) = &mut found {
                document.body.drain(..excess(&document.body));
            }
        }
        found
    }

    /// The events with which its text changed, each with whether it was replaced.
    fn changes(&self) -> BTreeMap<u64, bool> {
        let mut changes = BTreeMap::from([(self.created, true)]);
        for op in &self.ops {
            match op {
                DocumentOp::Append { seq, text, .. } if *seq > self.base && !text.is_empty() => {
                    changes.entry(*seq).or_default();
                }
                DocumentOp::Replace { seq, .. } if *seq > self.base => drop(changes.insert(*seq, true)),
                _ => {}
            }
        }
        changes
    }
}

impl Model {
    /// Refuses an append that puts a document where it cannot be.
    pub(super) fn check_places(&self, append: &RunAppend) -> Result<(), StoreError> {
        if self.fork_documents.contains_key(&append.run_id) {
            return Ok(());
        }
        self.places_of(append.run_id, append.expected_head, append.events.len() as u64, &append.documents)
    }

    pub(super) fn places_of(
        &self,
        run: RunId,
        head: u64,
        events: u64,
        ops: &[DocumentOp],
    ) -> Result<(), StoreError> {
        let created: BTreeSet<DocumentId> = ops
            .iter()
            .filter_map(|op| match op {
                DocumentOp::Create(document) => Some(document.id),
                _ => None,
            })
            .collect();
        let mut parents: BTreeMap<DocumentId, DocumentId> =
            self.places.iter().map(|(child, place)| (*child, place.0)).collect();
        let there = |id: &DocumentId| {
            created.contains(id)
                || self.documents.get(id).is_some_and(|document| document.run_id == Some(run))
        };
        for op in ops {
            let DocumentOp::Link { parent, child, seq, .. } = op else { continue };
            // One that is created again keeps its place.
            let again = created.contains(child) && self.documents.contains_key(child);
            let moved = again && self.places.get(child).is_none_or(|place| place.0 != *parent);
            let other = parents.get(child).is_some_and(|present| present != parent);
            let mut above = std::iter::successors(Some(*parent), |id| parents.get(id).copied());
            if moved
                || other
                || !there(child)
                || !there(parent)
                || above.any(|id| id == *child)
                || !(head + 1..=head + events).contains(seq)
            {
                return Err(StoreError::Conflict(format!(
                    "document {child} of run {run} cannot be below {parent}"
                )));
            }
            parents.insert(*child, *parent);
        }
        Ok(())
    }

    /// Writes the documents of the events `first` to `head`.
    pub(super) fn write_documents(&mut self, ops: Vec<DocumentOp>, first: u64, head: u64) {
        let placed: BTreeMap<DocumentId, u64> = ops
            .iter()
            .filter_map(|op| match op {
                DocumentOp::Link { child, seq, .. } => Some((*child, *seq)),
                _ => None,
            })
            .collect();
        for op in ops {
            match &op {
                DocumentOp::Create(document) => {
                    let (id, place) = (document.id, placed.get(&document.id).copied());
                    self.lost.remove(&id);
                    self.starts.remove(&id);
                    self.documents.insert(id, document.clone());
                    let (created, base) = (place.unwrap_or(first), place.unwrap_or(head));
                    self.histories.insert(id, History { created, base, ops: vec![op] });
                }
                DocumentOp::Append { id, text, at, .. } => {
                    let Some(document) = self.documents.get_mut(id) else { continue };
                    // A text that is too long for a document loses its beginning.
                    document.body.push_str(&text[excess(text)..]);
                    document.updated_at = *at;
                    let from = excess(&document.body);
                    document.body.drain(..from);
                    *self.lost.entry(*id).or_default() += from as u64;
                    self.note(*id, op);
                }
                DocumentOp::Replace { id, seq, text, at } => {
                    let Some(document) = self.documents.get_mut(id) else { continue };
                    let begins = self.histories.get(id).is_some_and(|history| *seq <= history.base);
                    let end = self.lost.get(id).copied().unwrap_or_default() + document.body.len() as u64;
                    let start = if begins { 0 } else { end };
                    document.body = text[excess(text)..].to_owned();
                    document.updated_at = *at;
                    self.lost.insert(*id, start);
                    self.starts.insert(*id, start);
                    self.note(*id, op);
                }
                DocumentOp::Link { parent, child, seq, .. } => {
                    self.places.entry(*child).or_insert((*parent, *seq));
                }
            }
        }
    }

    fn note(&mut self, id: DocumentId, op: DocumentOp) {
        if let Some(history) = self.histories.get_mut(&id) {
            history.ops.push(op);
        }
    }

    /// A document, unless its run was deleted.
    pub(crate) fn document(&self, id: DocumentId) -> Result<&Document, StoreError> {
        let shown = |document: &&Document| {
            !document.run_id.and_then(|run| self.runs.get(&run)).is_some_and(|run| run.deleted)
        };
        self.documents.get(&id).filter(shown).ok_or_else(|| StoreError::not_found("document", id))
    }

    /// [`Documents::document_at`](tree_agent_store::Documents::document_at).
    pub(crate) fn document_at(&self, id: DocumentId, seq: Option<u64>) -> Result<PlacedDocument, StoreError> {
        let latest = self.document(id)?;
        let place = self.places.get(&id).filter(|place| seq.is_none_or(|seq| place.1 <= seq));
        let document = match seq {
            None => Some(latest.clone()),
            Some(seq) => self.histories.get(&id).and_then(|history| history.at(seq)),
        };
        let document = document.ok_or_else(|| StoreError::not_found("document", id))?;
        Ok(PlacedDocument { document, parent_id: place.map(|place| place.0) })
    }

    /// [`Documents::document_versions`](tree_agent_store::Documents::document_versions).
    pub(crate) fn document_versions(
        &self,
        id: DocumentId,
        after: u64,
        limit: usize,
    ) -> Result<Page<DocumentVersion>, StoreError> {
        self.document(id)?;
        let none = Page { items: Vec::new(), more: false };
        Ok(self.histories.get(&id).map_or(none, |history| history.versions(after, limit)))
    }

    /// The bytes from `from` on, counted from the first byte that the document ever had.
    pub(crate) fn document_tail(
        &self,
        id: DocumentId,
        from: u64,
        max: usize,
    ) -> Result<DocumentTail, StoreError> {
        let document = self.document(id)?;
        let lost = self.lost.get(&id).copied().unwrap_or_default();
        let (start, end) = (from.max(lost), lost + document.body.len() as u64);
        // The part may begin within a character, and ends between two.
        let first = (start.min(end) - lost) as usize;
        let last = document.body.floor_char_boundary(first.saturating_add(max)).max(first);
        let bytes = document.body.as_bytes()[first..last].to_vec();
        let text_start = self.starts.get(&id).copied().unwrap_or_default();
        // Nothing writes a document of a run anew here.
        Ok(DocumentTail { start, end, text_start, written_at: document.created_at, bytes })
    }
}

/// Bytes to remove from the beginning of `text` so that it fits into a document.
fn excess(text: &str) -> usize {
    text.len() - suffix(text, DOCUMENT_BYTES).len()
}
