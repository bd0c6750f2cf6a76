//! Ended runs as files: written, checked, and only then removed from the store; and brought back as they were.
//!
//! An archive is one gzip file per run, `RUN.jsonl.gz`, of JSON lines:
//!
//! 1. `{"run":{"format":"tree-agent-run","version","runId","requestId","epoch","headSeq","status"}}`, with
//!    `deletedAt` of a run that is hidden and `segments` of a fork
//! 2. `{"event":{"seq","id","nodeId","parentNodeId","timestamp","eventType","payload"}}` for every event, in order
//! 3. `{"document":{…}}` for every document that the run wrote, with its place, by id
//! 4. `{"chunk":{…}}` for every text that was added to one or replaced the earlier ones, by document and event
//! 5. `{"session":{…}}` for every conversation of the run, by id
//! 6. `{"end":{"sha256"}}`: the SHA-256 of all bytes before this line
//!
//! Nodes, plans, artifacts and the columns of the run's row are not in it: they follow from the events. The archive of
//! a fork holds the whole log, so it can be restored without the runs before it.

mod read;
mod write;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tree_agent_contract::RunId;
use tree_agent_contract::session::Session;
use tree_agent_store::{Archives, RunRecord, StoredChunk, StoredDocument, StoredEvent};

use crate::MaintenanceError;

pub use read::{Archive, read};

/// What `format` must say.
const FORMAT: &str = "tree-agent-run";
/// The version of the format.
const VERSION: u32 = 1;

/// One line.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Line {
    Run(Head),
    Event(StoredEvent),
    Document(Box<StoredDocument>),
    Chunk(Box<StoredChunk>),
    Session(Box<Session>),
    End(End),
}

#[derive(Serialize, Deserialize)]
struct Head {
    format: String,
    version: u32,
    #[serde(flatten)]
    record: RunRecord,
}

#[derive(Serialize, Deserialize)]
struct End {
    sha256: String,
}

/// The file of a run's archive in a folder.
pub fn path_of(folder: &Path, run: RunId) -> PathBuf {
    folder.join(format!("{run}.jsonl.gz"))
}

/// What became of a run that was to be archived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archived {
    /// The run.
    pub run_id: RunId,
    /// Its file.
    pub file: PathBuf,
    /// Its events.
    pub events: u64,
    /// Its documents.
    pub documents: u64,
    /// The checksum that the file's last line names.
    pub sha256: String,
}

/// Writes an ended run to a file of `folder`, reads the file back and checks it. One that is there already, and holds
/// what the store holds, stays as it is.
///
/// # Errors
/// When the run has not ended or is archived, its log does not replay, or the file cannot be written or is not what
/// it must be.
pub async fn archive(store: &dyn Archives, run: RunId, folder: &Path) -> Result<Archived, MaintenanceError> {
    let record = ended(store, run).await?;
    let file = path_of(folder, run);
    let stored = write::digest(store, &record).await?;
    let written = match read_blocking(&file).await {
        Ok(there) if there.sha256 == stored => there,
        _ => {
            write::file(store, &record, &file).await?;
            same(read_blocking(&file).await?, &stored, &file)?
        }
    };
    Ok(Archived {
        run_id: run,
        file,
        events: written.events.len() as u64,
        documents: written.documents.len() as u64,
        sha256: written.sha256,
    })
}

/// Removes an archived run from the store, but for its row, and the row too when the run was deleted: after its file
/// was read whole, replayed, and found to hold exactly what the store holds. Its space is freed by [`Archives::tidy`].
/// False when it was removed before.
///
/// # Errors
/// When the file is not what it must be; nothing is removed then.
pub async fn prune(store: &dyn Archives, run: RunId, folder: &Path) -> Result<bool, MaintenanceError> {
    let file = path_of(folder, run);
    let archive = read_blocking(&file).await?;
    let record = store.run_record(run).await?;
    if let Some(sha256) = record.archive_sha256 {
        if sha256 != archive.sha256 {
            let other = "is not the archive that the run was pruned for";
            return Err(MaintenanceError::archive(&file, other));
        }
        // Of a run that was deleted since then, the row goes too.
        return Ok(record.deleted_at.is_some() && store.prune_run(run, record.head_seq, &sha256).await?);
    }
    let record = ended(store, run).await?;
    let archive = same(archive, &write::digest(store, &record).await?, &file)?;
    match store.prune_run(run, record.head_seq, &archive.sha256).await? {
        true => Ok(true),
        false => Err(MaintenanceError::Moving(run)),
    }
}

/// Brings an archived run back, exactly as it was. False when it is in the store already, which nothing overwrites.
///
/// The store may be another one than the run was archived from. A run that this store pruned comes back only from the
/// archive that it was pruned for.
///
/// # Errors
/// When the file is not what it must be; nothing is written then.
pub async fn restore(store: &dyn Archives, run: RunId, folder: &Path) -> Result<bool, MaintenanceError> {
    let file = path_of(folder, run);
    let Archive { record, events, documents, chunks, sessions, whole, .. } = read_blocking(&file).await?;
    if record.run_id != run {
        let other = format!("holds run {}, not {run}", record.run_id);
        return Err(MaintenanceError::archive(&file, other));
    }
    Ok(store.restore_run(record, events, documents, chunks, sessions, *whole).await?)
}

/// The archive, if it holds what the store holds.
fn same(archive: Archive, stored: &str, file: &Path) -> Result<Archive, MaintenanceError> {
    match archive.sha256 == stored {
        true => Ok(archive),
        false => {
            let other = "holds something else than the store; archive the run again";
            Err(MaintenanceError::archive(file, other))
        }
    }
}

/// The record of a run that has ended and is all there.
async fn ended(store: &dyn Archives, run: RunId) -> Result<RunRecord, MaintenanceError> {
    let record = store.run_record(run).await?;
    if record.archive_sha256.is_some() {
        return Err(MaintenanceError::Archived(run));
    }
    if !record.status.is_final() {
        return Err(MaintenanceError::Live(run));
    }
    Ok(record)
}

/// Reads a file on a thread that may wait for the disk.
async fn read_blocking(file: &Path) -> Result<Archive, MaintenanceError> {
    let file = file.to_owned();
    let shown = file.clone();
    match tokio::task::spawn_blocking(move || read(&file)).await {
        Ok(result) => result,
        Err(error) => Err(MaintenanceError::archive(&shown, format!("could not be read: {error}"))),
    }
}
