//! From the store to lines, and from lines to a file that is on disk when it has its name.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use tree_agent_contract::text::hex;
use tree_agent_security::private_files;
use tree_agent_store::{Archives, RunRecord, Segment};

use super::{End, FORMAT, Head, Line, VERSION};
use crate::{MaintenanceError, PAGE};

/// Documents of one page: each may hold a megabyte.
const DOCUMENTS: usize = 100;

/// Writes bytes on and digests them.
struct Digested<W> {
    out: W,
    digest: Sha256,
}

impl<W: Write> Digested<W> {
    fn line(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.digest.update(&text);
        self.out.write_all(&text)
    }

    fn sha256(&self) -> String {
        hex(&self.digest.clone().finalize())
    }
}

/// The checksum that an archive of what the store holds has.
pub(super) async fn digest(store: &dyn Archives, record: &RunRecord) -> Result<String, MaintenanceError> {
    let mut out = Digested { out: io::sink(), digest: Sha256::new() };
    lines(store, record, &mut out, Path::new("the archive")).await?;
    Ok(out.sha256())
}

/// Writes the file beside its name first, and waits for the disk before it gets it.
pub(super) async fn file(
    store: &dyn Archives,
    record: &RunRecord,
    file: &Path,
) -> Result<(), MaintenanceError> {
    let failed = |e: io::Error| MaintenanceError::file(file, e);
    let folder = file.parent().filter(|f| !f.as_os_str().is_empty()).unwrap_or(Path::new("."));
    private_files::create_folder(folder).map_err(failed)?;
    let beside = file.with_extension("gz.new");
    let gzip = GzEncoder::new(
        BufWriter::new(private_files::create(&beside).map_err(failed)?),
        Compression::default(),
    );
    let mut out = Digested { out: gzip, digest: Sha256::new() };
    lines(store, record, &mut out, file).await?;
    let end = Line::End(End { sha256: out.sha256() });
    out.line(&end).map_err(failed)?;
    let written =
        out.out.finish().and_then(|buffer| buffer.into_inner().map_err(io::IntoInnerError::into_error));
    written.and_then(|handle| handle.sync_all()).map_err(failed)?;
    std::fs::rename(&beside, file).map_err(failed)?;
    // The name too must be on disk before anything is removed.
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}

/// Every line but the last.
async fn lines<W: Write>(
    store: &dyn Archives,
    record: &RunRecord,
    out: &mut Digested<W>,
    file: &Path,
) -> Result<(), MaintenanceError> {
    let run = record.run_id;
    let mut line = |line: Line| out.line(&line).map_err(|e| MaintenanceError::file(file, e));
    // All of it is stored under the run itself when it comes back.
    let segments = record.segments.iter().map(|part| Segment { run, ..*part }).collect();
    let record = RunRecord { segments, ..record.clone() };
    line(Line::Run(Head { format: FORMAT.to_owned(), version: VERSION, record: record.clone() }))?;
    let mut seq = 0;
    while seq < record.head_seq {
        let page = store.stored_events(run, seq, PAGE).await?;
        let Some(last) = page.last() else {
            return Err(MaintenanceError::Head { run, head_seq: record.head_seq, last_seq: seq });
        };
        seq = last.seq;
        page.into_iter().try_for_each(|event| line(Line::Event(event)))?;
    }
    let mut after = None;
    loop {
        let page = store.run_documents(run, after, DOCUMENTS).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.document.id);
        page.into_iter().try_for_each(|document| line(Line::Document(Box::new(document))))?;
    }
    let mut after = None;
    loop {
        let page = store.document_chunks(run, after, DOCUMENTS).await?;
        let Some(last) = page.last() else { break };
        after = Some((last.document_id, last.seq));
        page.into_iter().try_for_each(|chunk| line(Line::Chunk(Box::new(chunk))))?;
    }
    let mut after = None;
    loop {
        let page = store.run_sessions(run, after, DOCUMENTS).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.id.clone());
        page.into_iter().try_for_each(|session| line(Line::Session(Box::new(session))))?;
    }
}
