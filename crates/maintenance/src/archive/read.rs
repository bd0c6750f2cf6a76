//! From a file to a run that could be put into a store, or to what is wrong with the file.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use sha2::{Digest, Sha256};
use tree_agent_contract::RunId;
use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::session::Session;
use tree_agent_contract::text::hex;
use tree_agent_store::{RunRecord, StoredChunk, StoredDocument, StoredEvent, WholeProjection};

use super::{End, FORMAT, Head, Line, VERSION};
use crate::{Fold, MaintenanceError};

/// An archive that was read whole and found to be what it must be.
#[derive(Debug)]
pub struct Archive {
    /// What its run's row said, and the checksum of the archive.
    pub record: RunRecord,
    /// Its events.
    pub events: Vec<StoredEvent>,
    /// Its documents.
    pub documents: Vec<StoredDocument>,
    /// The chunks of the documents.
    pub chunks: Vec<StoredChunk>,
    /// Its conversations.
    pub sessions: Vec<Session>,
    /// What follows from the events.
    pub whole: Box<WholeProjection>,
    /// The checksum of all lines but the last.
    pub sha256: String,
}

/// Reads an archive: it is whole, its checksum is right, and its log replays to the end that it names.
///
/// # Errors
/// When the file cannot be read or any of that is not so, with what is wrong.
pub fn read(file: &Path) -> Result<Archive, MaintenanceError> {
    let wrong = |what: String| MaintenanceError::archive(file, what);
    let failed = |e| MaintenanceError::file(file, e);
    let handle = File::open(file).map_err(failed)?;
    let mut lines = BufReader::new(MultiGzDecoder::new(BufReader::new(handle)));
    let (mut digest, mut text) = (Sha256::new(), Vec::new());
    let mut record: Option<RunRecord> = None;
    let (mut events, mut documents, mut chunks, mut sessions) = (vec![], vec![], vec![], vec![]);
    let sha256 = loop {
        text.clear();
        if lines.read_until(b'\n', &mut text).map_err(failed)? == 0 {
            return Err(wrong("has no end; it is cut off".into()));
        }
        let line = serde_json::from_slice(&text)
            .map_err(|e| wrong(format!("holds a line that cannot be read: {e}")))?;
        match line {
            Line::Run(Head { format, version, .. }) if format != FORMAT || version != VERSION => {
                return Err(wrong(format!(
                    "has format {format} version {version}; this tree-agent reads {FORMAT} version {VERSION}"
                )));
            }
            Line::Run(head) => record = Some(head.record),
            Line::Event(event) => events.push(event),
            Line::Document(document) => documents.push(*document),
            Line::Chunk(chunk) => chunks.push(*chunk),
            Line::Session(session) => sessions.push(*session),
            Line::End(End { sha256 }) => break sha256,
        }
        digest.update(&text);
    };
    if !lines.fill_buf().map_err(failed)?.is_empty() {
        return Err(wrong("goes on after its end".into()));
    }
    let found = hex(&digest.finalize());
    if found != sha256 {
        return Err(wrong(format!("has SHA-256 {found}, but its end names {sha256}; it was changed")));
    }
    let record = record.ok_or_else(|| wrong("does not say which run it holds".into()))?;
    let fold = replay(file, record.run_id, &events)?;
    if fold.seq() != record.head_seq {
        return Err(wrong(format!("names {} events, but holds {}", record.head_seq, fold.seq())));
    }
    let whole = Box::new(fold.whole());
    if !record.status.is_final() || whole.rows.run.as_ref().map(|row| row.status) != Some(record.status) {
        return Err(wrong(format!("names a run that is {}, but its log says otherwise", record.status)));
    }
    let record = RunRecord { archive_sha256: Some(sha256.clone()), ..record };
    Ok(Archive { record, events, documents, chunks, sessions, whole, sha256 })
}

/// What follows from the events.
fn replay(file: &Path, run_id: RunId, events: &[StoredEvent]) -> Result<Fold, MaintenanceError> {
    let mut fold = None;
    for stored in events {
        let body = EventBody::from_json(&stored.event_type, stored.payload.as_bytes())
            .map_err(|e| MaintenanceError::archive(file, format!("holds event {}: {e}", stored.seq)))?;
        let event = Event {
            run_id,
            seq: stored.seq,
            node_id: stored.node_id,
            parent_node_id: stored.parent_node_id,
            timestamp: stored.timestamp,
            body,
        };
        Fold::extend(&mut fold, &[event])?;
    }
    fold.ok_or_else(|| MaintenanceError::archive(file, "holds no event"))
}
