//! Checks that a log is valid and that the tables match it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use tree_agent_contract::document::DocumentKind;
use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::{DocumentId, EventId, NodeId, RunId, SessionId};
use tree_agent_engine::Audit;
use tree_agent_store::{Row, Segment, Store, Stored, StoredChunk, StoredEvent};

use crate::{Fold, MaintenanceError, PAGE};

/// Chunks of one page: each may hold a megabyte.
const CHUNKS: usize = 100;

/// The kind of documents of which the log names every change.
const SCRATCHPAD: &str = DocumentKind::Scratchpad.as_str();

/// Maximum of findings that are kept for one run. A log that is broken early is broken at every event.
const FINDINGS: usize = 100;

/// The findings about one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The run.
    pub run_id: RunId,
    /// The last event that was checked.
    pub head_seq: u64,
    /// True if the run is archived. Then there is nothing to check.
    pub archived: bool,
    /// The first event of a type that this version does not know. From there on the log is only checked for its numbers
    /// and its writers, and rows are not compared: only the version that wrote it can say more.
    pub unknown: Option<UnknownType>,
    /// What is wrong, faults of the log first; empty if nothing is.
    pub findings: Vec<Finding>,
    /// Number of further findings that were not kept.
    pub more: usize,
}

impl Report {
    /// True if nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    /// True if [`rebuild`](crate::rebuild) can repair everything that is wrong.
    pub fn can_be_rebuilt(&self) -> bool {
        self.findings.iter().all(|finding| matches!(finding.subject, Subject::Row { .. }))
    }
}

/// An event of a type that this version does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownType {
    /// The event.
    pub seq: u64,
    /// Its type.
    pub event_type: String,
}

impl UnknownType {
    /// What `event` is, if this version does not know its type.
    pub(crate) fn of(event: &Event) -> Option<Self> {
        match &event.body {
            EventBody::Opaque(body) => Some(Self { seq: event.seq, event_type: body.event_type.clone() }),
            _ => None,
        }
    }
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where it is.
    pub subject: Subject,
    /// What is wrong, in a sentence.
    pub message: String,
}

/// The subject of a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The log as a whole.
    Log,
    /// An event of it.
    Event(u64),
    /// A row that is derived from it.
    Row {
        /// The table.
        table: &'static str,
        /// The row's id.
        id: String,
    },
    /// A document that it names.
    Document(DocumentId),
    /// A conversation that it names.
    Session(SessionId),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            Subject::Log => write!(f, "log: {}", self.message),
            Subject::Event(seq) => write!(f, "event {seq}: {}", self.message),
            Subject::Row { table, id } => write!(f, "{table} {id}: {}", self.message),
            Subject::Document(id) => write!(f, "document {id}: {}", self.message),
            Subject::Session(id) => write!(f, "conversation {id}: {}", self.message),
        }
    }
}

/// Checks one run as it is at this moment. It may be driven meanwhile. The checks are:
///
/// - `seq` is contiguous and ends where the run row says.
/// - Every event was written by a holder of the run's lease, and epochs never decrease. What a fork shares was written
///   by the runs before it.
/// - The log replays and keeps the invariants of [`Audit`].
/// - Nodes, plans, artifacts and the run's own row match the log.
/// - The documents that the log names exist, and what they grew by is whole.
/// - The places of documents form a tree, and all that the log names is below the workspace of the run.
/// - The conversation about each node that was researched exists.
///
/// Some of them are left out from the first event on whose type is [unknown](Report::unknown).
///
/// # Errors
/// Only if the store cannot be read or the run does not exist. What is wrong with the run is in the report.
pub async fn verify(store: &dyn Store, run: RunId) -> Result<Report, MaintenanceError> {
    let stored = store.stored(run).await?;
    if stored.archived {
        let head_seq = stored.head_seq;
        return Ok(Report {
            run_id: run,
            head_seq,
            archived: true,
            unknown: None,
            findings: Vec::new(),
            more: 0,
        });
    }
    let mut check = Check::new(run, &stored, store.segments(run).await?);
    loop {
        let left = stored.last_seq.saturating_sub(check.seq);
        let want = usize::try_from(left).unwrap_or(PAGE).min(PAGE);
        if want == 0 {
            break;
        }
        let page = store.stored_events(run, check.seq, want).await?;
        if page.is_empty() {
            break;
        }
        for event in page {
            check.event(event);
        }
    }
    let mut after = None;
    loop {
        let page = store.document_chunks(run, after, CHUNKS).await?;
        let Some(last) = page.last() else { break };
        after = Some((last.document_id, last.seq));
        page.iter().for_each(|chunk| check.chunk(chunk, &stored));
    }
    Ok(check.finish(&stored))
}

/// A check in progress.
struct Check {
    run: RunId,
    /// The parts of the log that runs before it have written.
    segments: Vec<Segment>,
    /// The run that wrote the event before.
    writer: RunId,
    /// Epochs that writers may have had.
    epochs: u64,
    seq: u64,
    epoch: u64,
    /// None once the log cannot be replayed any further.
    replay: Option<Replay>,
    unknown: Option<UnknownType>,
    documents: BTreeSet<DocumentId>,
    /// Topics of searches that needed no research.
    skipped: BTreeSet<NodeId>,
    /// The conversations about nodes that have no result yet.
    forked: BTreeMap<NodeId, SessionId>,
    /// The conversations about nodes that have one.
    sessions: BTreeSet<SessionId>,
    /// The events with which documents grew, and whose text was not found yet.
    grown: BTreeSet<(DocumentId, u64)>,
    /// The document whose chunks were read last, and where the last one ended.
    chunk_end: Option<(DocumentId, u64)>,
    findings: Vec<Finding>,
}

struct Replay {
    fold: Option<Fold>,
    audit: Audit,
}

impl Check {
    fn new(run: RunId, stored: &Stored, segments: Vec<Segment>) -> Self {
        let mut check = Self {
            run,
            writer: segments.first().map_or(run, |part| part.writer),
            segments,
            epochs: stored.epoch,
            seq: 0,
            epoch: 0,
            replay: Some(Replay { fold: None, audit: Audit::new() }),
            unknown: None,
            documents: BTreeSet::new(),
            skipped: BTreeSet::new(),
            forked: BTreeMap::new(),
            sessions: BTreeSet::new(),
            grown: BTreeSet::new(),
            chunk_end: None,
            findings: Vec::new(),
        };
        if stored.last_seq != stored.head_seq {
            let message = format!(
                "the run row names event {} as the last, but the log ends at event {}",
                stored.head_seq, stored.last_seq
            );
            check.note(Subject::Log, message);
        }
        if stored.events == 0 {
            check.note(Subject::Log, "there are no events");
        }
        check
    }

    fn note(&mut self, subject: Subject, message: impl Into<String>) {
        self.findings.push(Finding { subject, message: message.into() });
    }

    fn event(&mut self, stored: StoredEvent) {
        let seq = stored.seq;
        if seq != self.seq + 1 {
            let message = format!("follows event {}; the events between are missing", self.seq);
            self.note(Subject::Event(seq), message);
            self.replay = None;
        }
        self.seq = seq;
        self.check_writer(&stored);
        match EventBody::from_json(&stored.event_type, stored.payload.as_bytes()) {
            Ok(body) => self.follow(&Event {
                run_id: self.run,
                seq,
                node_id: stored.node_id,
                parent_node_id: stored.parent_node_id,
                timestamp: stored.timestamp,
                body,
            }),
            Err(error) => {
                let cause = std::error::Error::source(&error).map(|e| format!(": {e}")).unwrap_or_default();
                self.note(Subject::Event(seq), format!("cannot be read: {error}{cause}"));
                self.replay = None;
            }
        }
    }

    /// An event's id is derived from run, epoch and seq, so it shows the epoch of its writer.
    fn check_writer(&mut self, stored: &StoredEvent) {
        let part = self.segments.iter().find(|part| stored.seq <= part.until);
        let (writer, epochs) = part.map_or((self.run, self.epochs), |part| (part.writer, part.epoch));
        if writer != self.writer {
            (self.writer, self.epoch) = (writer, 0);
        }
        let epoch = stored.id.epoch();
        if epoch > epochs || stored.id != EventId::of(writer, epoch, stored.seq) {
            let of = if writer == self.run { "the run".to_owned() } else { format!("run {writer}") };
            let message = format!("its id {} was made by no holder of {of}'s lease", stored.id);
            self.note(Subject::Event(stored.seq), message);
        } else if epoch < self.epoch {
            let message = format!("was written in epoch {epoch}, after an event of epoch {}", self.epoch);
            self.note(Subject::Event(stored.seq), message);
        } else {
            self.epoch = epoch;
        }
    }

    fn follow(&mut self, event: &Event) {
        match &event.body {
            EventBody::ScratchpadLinked(e) => drop(self.documents.insert(e.scratchpad_doc_id)),
            EventBody::ArtifactCreated(e) => self.documents.extend(e.document_id),
            EventBody::UsageRecorded(e) => self.documents.extend(e.prompt.map(|prompt| prompt.document_id)),
            EventBody::ToolCallResult(e) => self.documents.extend(e.answer.map(|answer| answer.document_id)),
            EventBody::ScratchpadUpdated(e) => drop(self.grown.insert((e.scratchpad_doc_id, event.seq))),
            EventBody::PlanDocumentUpdated(e) => {
                self.documents.insert(e.document_id);
                self.grown.insert((e.document_id, event.seq));
            }
            EventBody::RollupUpdated(e) => self.documents.extend(e.summary_document_id),
            // Nothing was said about a topic that needed no research.
            EventBody::NodeSkipped(_) => drop(self.skipped.insert(event.node_id)),
            EventBody::SessionForked(e) if !self.skipped.contains(&event.node_id) => {
                self.forked.insert(event.node_id, SessionId::new(e.session_id.clone()));
            }
            EventBody::NodeResult(_) => self.sessions.extend(self.forked.remove(&event.node_id)),
            EventBody::Opaque(_) => {
                self.unknown = self.unknown.take().or_else(|| UnknownType::of(event));
                if let Some(replay) = self.replay.take() {
                    self.audited(replay.audit);
                }
            }
            _ => {}
        }
        let Some(replay) = &mut self.replay else { return };
        replay.audit.event(event);
        if let Err(error) = Fold::extend(&mut replay.fold, std::slice::from_ref(event)) {
            let audit = std::mem::take(&mut replay.audit);
            self.replay = None;
            self.audited(audit);
            self.note(Subject::Event(event.seq), format!("does not follow: {error}"));
        }
    }

    /// A chunk belongs to an event about its document, and begins where the one before it ends.
    fn chunk(&mut self, chunk: &StoredChunk, stored: &Stored) {
        let (document, seq) = (chunk.document_id, chunk.seq);
        let known = self.grown.remove(&(document, seq));
        // Only of scratchpads does the log name every change.
        let named = stored.documents.iter().any(|d| d.id == document && d.type_key == SCRATCHPAD);
        if !known && named && self.unknown.is_none() && seq <= stored.head_seq {
            let message = format!("it has text of event {seq}, which is not about it");
            self.note(Subject::Document(document), message);
        }
        if let Some((_, end)) =
            self.chunk_end.filter(|(last, end)| *last == document && *end != chunk.start_byte)
        {
            let message =
                format!("the text of event {seq} begins at byte {}, not at {end}", chunk.start_byte);
            self.note(Subject::Document(document), message);
        }
        self.chunk_end = Some((document, chunk.start_byte + chunk.body.len() as u64));
    }

    /// Each document is below one that is there, and none is above itself. What the log names is below the workspace.
    fn check_places(&mut self, stored: &Stored) {
        let parents: BTreeMap<DocumentId, Option<DocumentId>> = stored
            .documents
            .iter()
            .map(|document| (document.id, document.edge.map(|edge| edge.parent_id)))
            .collect();
        for document in &stored.documents {
            let Some(edge) = document.edge else { continue };
            if !parents.contains_key(&edge.parent_id) {
                let message = format!("it is below document {}, which is not there", edge.parent_id);
                self.note(Subject::Document(document.id), message);
            }
            if edge.seq > stored.head_seq || edge.seq < document.created_seq {
                let message = format!("it got its place with event {}, which cannot be", edge.seq);
                self.note(Subject::Document(document.id), message);
            }
            if top(&parents, document.id).is_none() {
                self.note(Subject::Document(document.id), "it is above itself");
            }
        }
        let workspace = DocumentId::workspace(self.segments.first().map_or(self.run, |part| part.writer));
        if !parents.contains_key(&workspace) {
            self.note(Subject::Document(workspace), "the run began with this workspace, but it is not there");
            return;
        }
        let named: Vec<DocumentId> =
            self.documents.iter().copied().filter(|id| parents.contains_key(id)).collect();
        for id in named {
            if top(&parents, id).is_some_and(|top| top != workspace) {
                self.note(
                    Subject::Document(id),
                    format!("it is not below the workspace {workspace} of its run"),
                );
            }
        }
    }

    fn audited(&mut self, audit: Audit) {
        for violation in audit.finish() {
            self.note(Subject::Event(violation.seq), violation.message);
        }
    }

    fn finish(mut self, stored: &Stored) -> Report {
        if let Some(replay) = self.replay.take() {
            self.audited(replay.audit);
            if let Some(fold) = replay.fold {
                self.findings.extend(differences(&stored.rows, &fold.whole().rows(self.run)));
            }
        }
        self.check_places(stored);
        let there: BTreeMap<_, _> = stored.documents.iter().map(|d| (d.id, d.base_seq)).collect();
        for (document, seq) in std::mem::take(&mut self.grown) {
            // What was written with the document, or before there were chunks, is in its body. Events may have come
            // since the documents were looked at.
            if there.get(&document).is_some_and(|base| seq > *base) && seq <= stored.head_seq {
                let message = format!("the text that it grew by with event {seq} is missing");
                self.note(Subject::Document(document), message);
            }
        }
        let there: BTreeSet<_> = there.into_keys().collect();
        for missing in std::mem::take(&mut self.documents).difference(&there) {
            self.note(Subject::Document(*missing), "the log names it, but it is not there");
        }
        let there: BTreeSet<_> = stored.sessions.iter().cloned().collect();
        for missing in std::mem::take(&mut self.sessions).difference(&there) {
            self.note(Subject::Session(missing.clone()), "the log names it, but it is not there");
        }
        let more = self.findings.len().saturating_sub(FINDINGS);
        self.findings.truncate(FINDINGS);
        Report {
            run_id: self.run,
            head_seq: self.seq,
            archived: false,
            unknown: self.unknown,
            findings: self.findings,
            more,
        }
    }
}

/// The first of the documents above `id`, or itself; none if they form a circle.
fn top(parents: &BTreeMap<DocumentId, Option<DocumentId>>, id: DocumentId) -> Option<DocumentId> {
    let mut at = id;
    for _ in 0..=parents.len() {
        match parents.get(&at).copied().flatten() {
            Some(parent) => at = parent,
            None => return Some(at),
        }
    }
    None
}

/// The differences between the tables and what follows from the log.
pub(crate) fn differences(stored: &[Row], derived: &[Row]) -> Vec<Finding> {
    let by_id = |rows: &[Row]| -> BTreeMap<_, Row> {
        rows.iter().map(|row| ((row.table, row.id), row.clone())).collect()
    };
    let (stored, derived) = (by_id(stored), by_id(derived));
    let mut findings = Vec::new();
    let mut note = |row: &Row, message: String| {
        let subject = Subject::Row { table: row.table, id: row.id.to_string() };
        findings.push(Finding { subject, message });
    };
    for (key, row) in &derived {
        let Some(found) = stored.get(key) else {
            note(row, "the row is missing".into());
            continue;
        };
        for ((column, expected), (_, actual)) in row.cells.iter().zip(&found.cells) {
            if expected != actual {
                let message = format!("{column} is {}, the log says {}", shown(actual), shown(expected));
                note(row, message);
            }
        }
    }
    for (_, row) in stored.iter().filter(|(key, _)| !derived.contains_key(*key)) {
        note(row, "the log knows nothing of this row".into());
    }
    findings
}

/// A value for a message. Long ones are cut.
fn shown(value: &Option<String>) -> String {
    const LENGTH: usize = 120;
    match value {
        None => "null".to_owned(),
        Some(text) => match text.char_indices().nth(LENGTH) {
            Some((at, _)) => format!("{:?}…", &text[..at]),
            None => format!("{text:?}"),
        },
    }
}
