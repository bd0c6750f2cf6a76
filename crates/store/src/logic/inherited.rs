//! Which parts a log consists of, and the documents that come together from them.

use std::collections::BTreeMap;

use tree_agent_contract::document::{Document, DocumentSummary};
use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::limits::DOCUMENT_BYTES;
use tree_agent_contract::{DocumentId, NodeId, RunId};

use crate::chunks::{Span, cut};
use crate::error::StoreError;
use crate::ports::{
    DocumentQuery, DocumentRecord, DocumentTail, DocumentVersion, NewFork, Page, PlacedDocument, Segment,
    StoredChunk, StoredDocument,
};

use super::rows::page;

/// A part of a log: the events of `run` after `after`, up to `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) run: RunId,
    pub(crate) after: i64,
    pub(crate) until: i64,
}

/// The parts of the log of `run`, its own included.
pub(crate) fn ranges(run: RunId, segments: &[Segment]) -> Vec<Range> {
    // A document that was put before the first event belongs to the first part.
    let mut after = -1;
    let mut ranges = Vec::with_capacity(segments.len() + 1);
    for segment in segments {
        let until = segment.until as i64;
        ranges.push(Range { run: segment.run, after, until });
        after = until;
    }
    ranges.push(Range { run, after, until: i64::MAX });
    ranges
}

/// The segments of a fork of `parent`, which has `segments` and the epoch `epoch`.
pub(crate) fn extended(parent: RunId, epoch: u64, until: u64, mut segments: Vec<Segment>) -> Vec<Segment> {
    segments.push(Segment { run: parent, writer: parent, epoch, until });
    segments
}

/// What a fork that shares `parts` has to copy before the run `from` is removed, of which some are stored there. They
/// are stored from then on under the run that wrote what follows them: under the fork, which copies them, or under
/// another run before it, which does so itself. So whatever is stored under one run is contiguous.
pub(crate) fn take_over(fork: RunId, parts: &mut [Segment], from: RunId) -> Vec<Range> {
    let Some(last) = parts.iter().rposition(|part| part.run == from) else { return Vec::new() };
    let keeper = parts.get(last + 1).map_or(fork, |next| next.run);
    let shared =
        ranges(fork, parts).into_iter().filter(|range| range.run == from && keeper == fork).collect();
    parts.iter_mut().filter(|part| part.run == from).for_each(|part| part.run = keeper);
    shared
}

/// Refuses a fork that no writer may make.
pub(crate) fn check(fork: &NewFork) -> Result<(), StoreError> {
    let is_first = fork.event.seq == fork.parent_seq + 1 && fork.event.run_id == fork.run_id;
    match &fork.event.body {
        EventBody::RunForked(e)
            if is_first && (e.source_run_id, e.at_seq) == (fork.parent_run_id, fork.parent_seq) =>
        {
            Ok(())
        }
        _ => Err(StoreError::Conflict(format!("the first event of the fork {} is malformed", fork.run_id))),
    }
}

/// Refuses a fork at an event that its parent did not write.
pub(crate) fn check_parent(fork: &NewFork, head: u64, shared: u64) -> Result<(), StoreError> {
    let (parent, seq) = (fork.parent_run_id, fork.parent_seq);
    if seq > head {
        return Err(StoreError::Conflict(format!(
            "event {seq} is beyond the head of run {parent}, which is {head}"
        )));
    }
    if seq <= shared {
        return Err(StoreError::Conflict(format!(
            "event {seq} of run {parent} was written by a run before it"
        )));
    }
    Ok(())
}

/// True if the stored payload of `tree.run_forked` holds the same edits as `event`.
pub(crate) fn has_edits_of(payload: &[u8], event: &Event) -> bool {
    let stored = EventBody::from_json(event.body.event_type(), payload);
    match (stored, &event.body) {
        (Ok(EventBody::RunForked(stored)), EventBody::RunForked(asked)) => stored.edits == asked.edits,
        _ => false,
    }
}

/// Text that is stored under some run of a fork's line.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) chunk: StoredChunk,
    /// Bytes of its text, which may not have been read.
    pub(crate) bytes: u64,
}

/// A document as a fork has it.
#[derive(Clone, Debug)]
pub(crate) struct Inherited {
    pub(crate) stored: StoredDocument,
    /// Bytes of the body, which may not have been read.
    body_bytes: u64,
    pieces: Vec<Piece>,
}

/// The row of a document that `run` has from a part of its log which ends with event `until`.
pub(crate) fn row(run: RunId, until: i64, mut stored: StoredDocument) -> StoredDocument {
    // What was written with the same append belongs to the body.
    stored.base_seq = stored.base_seq.min(until as u64);
    stored.edge = stored.edge.filter(|edge| edge.seq as i64 <= until);
    stored.document.run_id = Some(run);
    stored
}

/// Chunks of which the document is one of the fork, and that were written after its body. `bases` says for documents
/// of the fork which event their body belongs to.
pub(crate) fn of_documents(
    chunks: Vec<StoredChunk>,
    bases: &BTreeMap<DocumentId, i64>,
) -> impl Iterator<Item = StoredChunk> {
    let is_shown =
        |chunk: &StoredChunk| bases.get(&chunk.document_id).is_some_and(|base| chunk.seq as i64 > *base);
    chunks.into_iter().filter(is_shown)
}

/// The documents of a fork. `rows` and `pieces` come in the order of the parts of its log, and each belongs to its
/// part.
pub(crate) fn together(
    run: RunId,
    rows: Vec<(Range, StoredDocument, u64)>,
    pieces: Vec<Piece>,
) -> BTreeMap<DocumentId, Inherited> {
    let mut documents = BTreeMap::new();
    for (range, stored, body_bytes) in rows {
        let stored = row(run, range.until, stored);
        documents.insert(stored.document.id, Inherited { stored, body_bytes, pieces: Vec::new() });
    }
    for piece in pieces {
        if let Some(document) = documents.get_mut(&piece.chunk.document_id)
            && piece.chunk.seq > document.stored.base_seq
        {
            document.pieces.push(piece);
        }
    }
    for document in documents.values_mut() {
        document.pieces.sort_by_key(|piece| piece.chunk.seq);
    }
    documents
}

impl Inherited {
    /// The first event at which its text is known.
    fn created_seq(&self) -> u64 {
        self.stored.created_seq
    }

    /// The pieces up to an event, and the first of them that belongs to the text then; none if its body does.
    fn until(&self, seq: u64) -> (&[Piece], Option<usize>) {
        let pieces = &self.pieces[..self.pieces.partition_point(|piece| piece.chunk.seq <= seq)];
        (pieces, pieces.iter().rposition(|piece| piece.chunk.replaces))
    }

    /// As it was after the event `seq`; none before it was created.
    pub(crate) fn at(&self, seq: u64) -> Option<PlacedDocument> {
        if seq < self.created_seq() {
            return None;
        }
        let (pieces, replaced) = self.until(seq);
        let mut body = if replaced.is_some() { String::new() } else { self.stored.document.body.clone() };
        pieces[replaced.unwrap_or(0)..].iter().for_each(|piece| body.push_str(&piece.chunk.body));
        let updated_at =
            pieces.last().map_or(self.stored.document.updated_at, |piece| piece.chunk.created_at);
        let document = Document { body: cut(body), updated_at, ..self.stored.document.clone() };
        let parent_id = self.stored.edge.filter(|edge| edge.seq <= seq).map(|edge| edge.parent_id);
        Some(PlacedDocument { document, parent_id })
    }

    fn span(&self) -> Span {
        let (pieces, replaced) = self.until(u64::MAX);
        let end = pieces.last().map(|piece| piece.chunk.start_byte + piece.bytes);
        Span {
            origin: replaced.map_or(self.stored.dropped_bytes, |i| pieces[i].chunk.start_byte),
            end: end.unwrap_or(self.stored.dropped_bytes + self.body_bytes),
        }
    }

    pub(crate) fn tail(&self, from: u64, max: usize) -> DocumentTail {
        let span = self.span();
        let begin = span.from(from);
        let body = (self.stored.dropped_bytes, self.stored.document.body.as_bytes());
        let pieces = self.pieces.iter().map(|piece| (piece.chunk.start_byte, piece.chunk.body.as_bytes()));
        let parts = std::iter::once(body).chain(pieces);
        let parts = parts.filter(|(at, text)| at + text.len() as u64 > begin && *at >= span.origin);
        span.tail(from, max, self.stored.document.updated_at, parts)
    }

    pub(crate) fn versions(&self, after: u64, limit: usize) -> Page<DocumentVersion> {
        let first = DocumentVersion {
            seq: self.created_seq(),
            at: self.stored.document.created_at,
            bytes: self.body_bytes,
            replaced: true,
        };
        let mut origin = self.stored.dropped_bytes;
        let later = self.pieces.iter().map(|piece| {
            if piece.chunk.replaces {
                origin = piece.chunk.start_byte;
            }
            DocumentVersion {
                seq: piece.chunk.seq,
                at: piece.chunk.created_at,
                bytes: piece.chunk.start_byte + piece.bytes - origin,
                replaced: piece.chunk.replaces,
            }
        });
        let all = std::iter::once(first).chain(later).filter(|version| version.seq > after);
        page(all.take(limit.saturating_add(1)).collect(), limit)
    }

    /// What its row says.
    pub(crate) fn record(&self) -> DocumentRecord {
        DocumentRecord {
            id: self.stored.document.id,
            type_key: self.stored.document.kind.as_str().to_owned(),
            base_seq: self.stored.base_seq,
            created_seq: self.created_seq(),
            edge: self.stored.edge,
        }
    }

    fn summary(&self) -> DocumentSummary {
        let (document, span) = (&self.stored.document, self.span());
        DocumentSummary {
            id: document.id,
            kind: document.kind,
            project_id: None,
            run_id: document.run_id,
            path: document.path.clone(),
            title: document.title.clone(),
            bytes: (span.end - span.origin).min(DOCUMENT_BYTES as u64),
            props: document.props.clone(),
            updated_at: self.pieces.last().map_or(document.updated_at, |piece| piece.chunk.created_at),
            parent_id: self.stored.edge.map(|edge| edge.parent_id),
        }
    }
}

/// A page of the documents of a fork, in the order of their tree.
pub(crate) fn list(
    documents: &BTreeMap<DocumentId, Inherited>,
    query: &DocumentQuery,
) -> Page<DocumentSummary> {
    let place = |id: &DocumentId| {
        let mut line = Vec::new();
        let mut next = Some(*id);
        while let Some(document) = next.and_then(|id| documents.get(&id)) {
            let id = document.stored.document.id;
            if line.len() > documents.len() {
                break;
            }
            line.push((document.created_seq(), id));
            next = document.stored.edge.map(|edge| edge.parent_id);
        }
        line.reverse();
        line
    };
    let after = query.after.as_ref().map(|(_, id)| place(id));
    let is_meant = |document: &Inherited| {
        let (d, props) = (&document.stored.document, &document.stored.document.props);
        (query.kinds.is_empty() || query.kinds.contains(&d.kind))
            && query.parent_id.is_none_or(|parent| document.stored.edge.is_some_and(|e| e.parent_id == parent))
            && (query.doc_role.is_none() || props.doc_role == query.doc_role)
            // Those of the runs before name these.
            && (query.homework_run_id.is_none() || props.homework_run_id.is_some())
            && query.branch_id.as_ref().is_none_or(|branch| props.branch_id.as_ref() == Some(branch))
            && d.path.starts_with(&query.path_prefix)
    };
    let mut found: Vec<_> =
        documents.iter().filter(|(_, d)| is_meant(d)).map(|(id, d)| (place(id), d)).collect();
    found.retain(|(place, _)| after.as_ref().is_none_or(|after| place > after));
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let more = found.len() > query.limit;
    Page { items: found.iter().take(query.limit).map(|(_, document)| document.summary()).collect(), more }
}

/// Nodes with their parents, parents first: those of the parts before, then the run's own.
pub(crate) fn nodes(created: Vec<(NodeId, Option<NodeId>)>) -> Vec<(NodeId, Option<NodeId>)> {
    let mut depth: BTreeMap<NodeId, usize> = BTreeMap::new();
    for (node, parent) in &created {
        let above = parent.and_then(|parent| depth.get(&parent)).copied();
        depth.insert(*node, above.map_or(0, |above| above + 1));
    }
    let mut nodes = created;
    nodes.sort_by_key(|(node, _)| (depth[node], *node));
    nodes
}
