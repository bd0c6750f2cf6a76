//! From a file to a run that could be put into a store, or to what is wrong with the file.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use sha2::{Digest, Sha256};
use tree_agent_contract::event::{Event, EventBody};
use tree_agent_store::{RunRecord, StoredDocument, StoredEvent, WholeProjection};

use super::Archived;
use super::format::{End, FORMAT, Line, VERSION};
use super::write::hex;
use crate::{Fold, MaintenanceError};

/// An archive that was read whole and found to be what it must be.
#[derive(Debug)]
pub struct Archive {
    /// What its run's row said.
    pub record: RunRecord,
    /// Its events.
    pub events: Vec<StoredEvent>,
    /// Its documents.
    pub documents: Vec<StoredDocument>,
    /// What follows from the events.
    pub whole: Box<WholeProjection>,
    /// The checksum of all lines but the last.
    pub sha256: String,
}

impl Archive {
    pub(super) fn summary(&self, file: PathBuf) -> Archived {
        Archived {
            run_id: self.record.run_id,
            file,
            events: self.events.len() as u64,
            documents: self.documents.len() as u64,
            sha256: self.sha256.clone(),
        }
    }
}

/// Reads an archive: its checksum is right, nothing is missing, and its log replays to the status that it names.
///
/// # Errors
/// When the file cannot be read or any of that is not so, with what is wrong.
pub fn read(file: &Path) -> Result<Archive, MaintenanceError> {
    let wrong = |what: String| MaintenanceError::archive(file, what);
    let handle = File::open(file).map_err(|e| MaintenanceError::file(file, e))?;
    let mut lines = BufReader::new(MultiGzDecoder::new(BufReader::new(handle)));
    let mut digest = Sha256::new();
    let (mut record, mut events, mut documents) = (None, Vec::new(), Vec::new());
    let mut text = Vec::new();
    let end: End = loop {
        text.clear();
        let read = lines.read_until(b'\n', &mut text).map_err(|e| MaintenanceError::file(file, e))?;
        if read == 0 {
            return Err(wrong("has no end; it is cut off".into()));
        }
        let line =
            serde_json::from_slice(&text).map_err(|e| wrong(format!("holds a line that is none: {e}")))?;
        match line {
            Line::End(end) => break end,
            Line::Run(head) if head.format != FORMAT || head.version > VERSION => {
                return Err(wrong(format!(
                    "has format {} version {}; this tree-agent reads {FORMAT} up to version {VERSION}",
                    head.format, head.version
                )));
            }
            Line::Run(head) => record = Some(head.record()),
            Line::Event(event) => events.push(event.stored()),
            Line::Document(document) => documents.push(*document),
        }
        digest.update(&text);
    };
    let sha256 = hex(&digest.finalize());
    let record: RunRecord = record.ok_or_else(|| wrong("does not say which run it holds".into()))?;
    if sha256 != end.sha256 {
        return Err(wrong(format!("has SHA-256 {sha256}, but its end names {}; it was changed", end.sha256)));
    }
    let counts = (events.len() as u64, documents.len() as u64);
    if counts != (end.events, end.documents) || counts.0 != record.head_seq {
        return Err(wrong(format!(
            "holds {} events and {} documents, not what it names",
            counts.0, counts.1
        )));
    }
    let whole = replay(file, &record, &events)?;
    let status = whole.rows.run.as_ref().map(|row| row.status);
    if status != Some(record.status) {
        return Err(wrong(format!("names a run that is {}, but its log says otherwise", record.status)));
    }
    Ok(Archive { record, events, documents, whole: Box::new(whole), sha256 })
}

fn replay(
    file: &Path,
    record: &RunRecord,
    events: &[StoredEvent],
) -> Result<WholeProjection, MaintenanceError> {
    let mut fold = None;
    for stored in events {
        let body = EventBody::from_json(&stored.event_type, stored.payload.as_bytes());
        let body = body.map_err(|e| MaintenanceError::archive(file, format!("event {}: {e}", stored.seq)))?;
        let event = Event {
            run_id: record.run_id,
            seq: stored.seq,
            node_id: stored.node_id,
            parent_node_id: stored.parent_node_id,
            timestamp: stored.timestamp,
            body,
        };
        Fold::extend(&mut fold, std::slice::from_ref(&event))?;
    }
    fold.map(Fold::whole).ok_or_else(|| MaintenanceError::archive(file, "holds no event"))
}
