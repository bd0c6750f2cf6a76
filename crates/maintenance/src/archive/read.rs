//! From a file to a run that could be put into a store, or to what is wrong with the file.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use sha2::{Digest, Sha256};
use tree_agent_contract::event::{Event, EventBody, RunForked};
use tree_agent_contract::session::Session;
use tree_agent_contract::text::hex;
use tree_agent_contract::{DocumentKind, RunId, limits};
use tree_agent_engine::Names;
use tree_agent_store::{RunRecord, StoredChunk, StoredDocument, StoredEvent, WholeProjection};

use super::format::{End, FORMAT, Line, VERSION};
use super::{Archived, line};
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

impl Archive {
    /// Refuses ids that do not follow from the log: they could be those of another run.
    pub(super) fn check_names(&self) -> Result<(), String> {
        let run = self.record.run_id;
        let mut names = Names::new(self.record.segments.first().map_or(run, |first| first.writer));
        let mut citations = line::Citations::default();
        for stored in &self.events {
            let event = event(run, stored)?;
            names.event(&event).map_err(|wrong| format!("has event {}: {wrong}", stored.seq))?;
            citations.event(&event).map_err(|wrong| format!("has event {}: {wrong}", stored.seq))?;
        }
        match self.documents.iter().find(|stored| !names.has(&stored.document)) {
            Some(stored) => {
                Err(format!("holds document {}, which its log does not name", stored.document.id))
            }
            None => Ok(()),
        }
    }

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

/// How much of a file is read. A few megabytes of gzip can hold gigabytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Bytes of one line, decompressed.
    pub(super) line: usize,
    /// Bytes of all lines, decompressed.
    pub(super) total: u64,
}

/// A line holds at most a document of which every character is escaped (six bytes for one) and what is said about it.
/// An archive beyond the total is never written: what `archive` writes it reads back before anything is removed.
const LIMITS: Limits = Limits { line: 8 * limits::DOCUMENT_BYTES, total: 4 * 1024 * 1024 * 1024 };

/// Reads an archive: its checksum is right, nothing is missing, all of it belongs to one run, its log replays to the
/// status that it names, and the runs before a fork are those that its log names.
///
/// # Errors
/// When the file cannot be read or any of that is not so, with what is wrong.
pub fn read(file: &Path) -> Result<Archive, MaintenanceError> {
    read_within(file, LIMITS)
}

pub(super) fn read_within(file: &Path, limits: Limits) -> Result<Archive, MaintenanceError> {
    let wrong = |what: String| MaintenanceError::archive(file, what);
    let failed = |e| MaintenanceError::file(file, e);
    let handle = File::open(file).map_err(failed)?;
    let mut lines = BufReader::new(MultiGzDecoder::new(BufReader::new(handle)));
    let mut digest = Sha256::new();
    let mut record: Option<RunRecord> = None;
    let (mut events, mut documents, mut chunks) = (Vec::new(), Vec::new(), Vec::new());
    let mut sessions: Vec<Session> = Vec::new();
    let (mut text, mut total) = (Vec::new(), 0);
    let end: End = loop {
        text.clear();
        let mut line = (&mut lines).take(limits.line as u64 + 1);
        let read = line.read_until(b'\n', &mut text).map_err(failed)?;
        total += read as u64;
        if read == 0 {
            return Err(wrong("has no end; it is cut off".into()));
        }
        if read > limits.line || total > limits.total {
            return Err(wrong(format!(
                "is too large; decompressed, a line may have {} bytes and the whole file {}",
                limits.line, limits.total
            )));
        }
        let line = serde_json::from_slice(&text)
            .map_err(|e| wrong(format!("holds a line that cannot be read: {e}")))?;
        match (line, &record) {
            (Line::Run(head), None) if head.format != FORMAT || head.version > VERSION => {
                return Err(wrong(format!(
                    "has format {} version {}; this tree-agent reads {FORMAT} up to version {VERSION}",
                    head.format, head.version
                )));
            }
            (Line::Run(head), None) => record = Some(head.record()),
            (Line::Run(_), Some(_)) => return Err(wrong("says twice which run it holds".into())),
            (_, None) => return Err(wrong("does not begin with the run that it holds".into())),
            (Line::Event(event), Some(record)) if (events.len() as u64) < record.head_seq => {
                events.push(event.stored());
            }
            (Line::Event(_), Some(record)) => {
                return Err(wrong(format!("holds more than the {} events that it names", record.head_seq)));
            }
            (Line::Document(document), Some(record)) => {
                of_run(record.run_id, &document).map_err(wrong)?;
                if documents
                    .last()
                    .is_some_and(|last: &StoredDocument| last.document.id >= document.document.id)
                {
                    return Err(wrong(format!(
                        "holds document {} twice or out of order",
                        document.document.id
                    )));
                }
                documents.push(*document);
            }
            (Line::Chunk(chunk), Some(_)) => {
                let place = |chunk: &StoredChunk| (chunk.document_id, chunk.seq);
                // Documents stand in the order of their ids.
                let document =
                    documents.binary_search_by_key(&chunk.document_id, |stored| stored.document.id);
                if document.is_err() || chunks.last().is_some_and(|last| place(last) >= place(&chunk)) {
                    return Err(wrong(format!(
                        "holds a chunk of document {} twice or out of order, or without its document",
                        chunk.document_id
                    )));
                }
                chunks.push(*chunk);
            }
            (Line::Session(session), Some(_)) => {
                if sessions.last().is_some_and(|last| last.id >= session.id) {
                    return Err(wrong(format!("holds conversation {} twice or out of order", session.id)));
                }
                sessions.push(*session);
            }
            (Line::End(end), Some(_)) => break end,
        }
        digest.update(&text);
    };
    if !lines.fill_buf().map_err(failed)?.is_empty() {
        return Err(wrong("goes on after its end".into()));
    }
    let sha256 = hex(&digest.finalize());
    let record = record.ok_or_else(|| wrong("does not say which run it holds".into()))?;
    if sha256 != end.sha256 {
        return Err(wrong(format!("has SHA-256 {sha256}, but its end names {}; it was changed", end.sha256)));
    }
    let counts = [events.len(), documents.len(), chunks.len(), sessions.len()].map(|count| count as u64);
    if counts != [end.events, end.documents, end.chunks, end.sessions] || counts[0] != record.head_seq {
        return Err(wrong(format!(
            "holds {} events, {} documents, {} chunks and {} conversations, not what it names",
            counts[0], counts[1], counts[2], counts[3]
        )));
    }
    line::check_numbers(&record, &documents, &chunks).map_err(wrong)?;
    let (whole, forks) = replay(file, &record, &events)?;
    line::check(&record, &forks).map_err(wrong)?;
    let status = whole.rows.run.as_ref().map(|row| row.status);
    if status != Some(record.status) {
        return Err(wrong(format!("names a run that is {}, but its log says otherwise", record.status)));
    }
    if !record.status.is_final() {
        return Err(wrong("holds a run that has not ended".into()));
    }
    let record = RunRecord { archive_sha256: Some(sha256.clone()), ..record };
    Ok(Archive { record, events, documents, chunks, sessions, whole: Box::new(whole), sha256 })
}

/// A run writes documents of its own and none of a project: anything else in its archive was put there.
fn of_run(run: RunId, stored: &StoredDocument) -> Result<(), String> {
    let document = &stored.document;
    if document.run_id == Some(run) && document.project_id.is_none() && document.kind != DocumentKind::Source
    {
        return Ok(());
    }
    Err(format!("holds document {}, which is none of run {run}", document.id))
}

/// An event as the engine reads it.
fn event(run_id: RunId, stored: &StoredEvent) -> Result<Event, String> {
    let body = EventBody::from_json(&stored.event_type, stored.payload.as_bytes());
    Ok(Event {
        run_id,
        seq: stored.seq,
        node_id: stored.node_id,
        parent_node_id: stored.parent_node_id,
        timestamp: stored.timestamp,
        body: body.map_err(|e| format!("event {}: {e}", stored.seq))?,
    })
}

/// What follows from the events, and where the log says that it was forked.
fn replay(
    file: &Path,
    record: &RunRecord,
    events: &[StoredEvent],
) -> Result<(WholeProjection, Vec<(u64, RunForked)>), MaintenanceError> {
    let (mut fold, mut forks) = (None, Vec::new());
    for stored in events {
        let event = event(record.run_id, stored).map_err(|wrong| MaintenanceError::archive(file, wrong))?;
        Fold::extend(&mut fold, std::slice::from_ref(&event))?;
        if let EventBody::RunForked(forked) = event.body {
            forks.push((event.seq, forked));
        }
    }
    let whole = fold.map(Fold::whole).ok_or_else(|| MaintenanceError::archive(file, "holds no event"))?;
    Ok((whole, forks))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    /// What is wrong with a file of these bytes.
    fn wrong(bytes: impl IntoIterator<Item = Vec<u8>>, limits: Limits) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut gzip = GzEncoder::new(file.reopen().unwrap(), Compression::fast());
        for part in bytes {
            gzip.write_all(&part).unwrap();
        }
        gzip.finish().unwrap();
        read_within(file.path(), limits).unwrap_err().to_string()
    }

    #[test]
    fn a_small_file_that_holds_a_huge_line_is_refused_before_it_is_held() {
        let megabytes = std::iter::repeat_n(vec![b' '; 1024 * 1024], 100);
        let text = wrong(megabytes, LIMITS);
        assert!(text.contains("is too large") && text.contains("8388608"), "{text}");
    }

    #[test]
    fn all_lines_together_are_bounded_too() {
        let head = r#"{"run":{"format":"tree-agent-run","version":1,"runId":"00000000-0000-0000-0000-000000000001",
            "requestId":"","epoch":1,"headSeq":1000,"status":"completed"}}"#;
        let mut lines = vec![head.replace('\n', "").into_bytes()];
        lines[0].push(b'\n');
        let event = r#"{"event":{"seq":1,"id":"00000000-0000-0000-0000-000000000001",
            "nodeId":"00000000-0000-0000-0000-000000000001","parentNodeId":null,"timestamp":"2026-01-01T00:00:00Z",
            "type":"tree.run_status","payload":{}}}"#;
        lines.extend(std::iter::repeat_n(format!("{}\n", event.replace('\n', "")).into_bytes(), 100));
        let text = wrong(lines, Limits { line: 1024, total: 4096 });
        assert!(text.contains("is too large") && text.contains("4096"), "{text}");
    }
}
