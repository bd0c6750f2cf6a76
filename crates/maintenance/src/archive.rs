//! Ended runs as files: written, checked, and only then removed from the store; and brought back as they were.
//!
//! An archive is one gzip file per run, `RUN.jsonl.gz`, of JSON lines:
//!
//! 1. `{"run":{"format":"tree-agent-run","version","runId","requestId","epoch","headSeq","status"}}`, with
//!    `deletedAt` of a run that is hidden and `segments` of a fork
//! 2. `{"event":{"seq","id","nodeId","parentNodeId","timestamp","type","payload"}}` for every event, in order
//! 3. `{"document":{…}}` for every document that the run wrote, with its place, by id
//! 4. `{"chunk":{…}}` for every text that was added to one or replaced the earlier ones, by document and event
//! 5. `{"session":{…}}` for every conversation of the run, by id
//! 6. `{"end":{"events","documents","chunks","sessions","sha256"}}`: how many there were, and the SHA-256 of all bytes
//!    before this line
//!
//! Nodes, plans, artifacts and the columns of the run's row are not in it: they follow from the events.

mod format;
mod line;
mod read;
mod write;

use std::path::{Path, PathBuf};

use tree_agent_contract::RunId;
use tree_agent_store::{Archives, RunRecord, StoreError};

use crate::{MaintenanceError, PAGE};

pub use read::{Archive, read};

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
    if let Ok(there) = read_blocking(&file).await
        && there.sha256 == stored
    {
        return Ok(there.summary(file));
    }
    write::file(store, &record, &file).await?;
    let written = read_blocking(&file).await?;
    if written.sha256 != stored {
        return Err(MaintenanceError::archive(
            &file,
            "holds something else than the store; archive the run again",
        ));
    }
    Ok(written.summary(file))
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
    if write::digest(store, &record).await? != archive.sha256 {
        return Err(MaintenanceError::archive(
            &file,
            "holds something else than the store; archive the run again",
        ));
    }
    match store.prune_run(run, record.head_seq, &archive.sha256).await? {
        true => Ok(true),
        false => Err(MaintenanceError::Moving(run)),
    }
}

/// Brings an archived run back, exactly as it was. False when it is in the store already.
///
/// A run that this store pruned comes back only from the archive that it was pruned for. A store that does not know the
/// run believes what the archive says of it, which the caller must want: `trusted`. Even then it takes nothing that
/// would be of another run: the ids of nodes, artifacts and documents must follow from the log. If the log goes on with
/// that of a run which this store has, the shared part must be the same. If this store made a run of that line itself,
/// documents are found only by those who name the fork.
///
/// # Errors
/// When the file is not what it must be; nothing is written then.
pub async fn restore(
    store: &dyn Archives,
    run: RunId,
    folder: &Path,
    trusted: bool,
) -> Result<bool, MaintenanceError> {
    let file = path_of(folder, run);
    let archive = read_blocking(&file).await?;
    if archive.record.run_id != run {
        let other = format!("holds run {}, not {run}", archive.record.run_id);
        return Err(MaintenanceError::archive(&file, other));
    }
    // That of a pruned run has the checksum that the store recorded.
    match store.run_record(run).await {
        Ok(_) => {}
        Err(StoreError::NotFound { .. }) => {
            if !trusted {
                return Err(MaintenanceError::archive(&file, UNKNOWN));
            }
            archive.check_names().map_err(|wrong| MaintenanceError::archive(&file, wrong))?;
            check_shared(store, &file, &archive).await?;
        }
        Err(error) => return Err(error.into()),
    }
    let Archive { record, events, documents, chunks, sessions, whole, .. } = archive;
    Ok(store.restore_run(record, events, documents, chunks, sessions, *whole).await?)
}

/// Why an archive from elsewhere is not restored unasked.
const UNKNOWN: &str = "holds a run that this store does not know, so nothing shows whether the archive was changed; pass \
                       --trusted if you trust where it comes from";

/// Refuses a fork whose log differs from that of a run before it, as far as the store has that one.
async fn check_shared(store: &dyn Archives, file: &Path, archive: &Archive) -> Result<(), MaintenanceError> {
    for part in archive.record.segments.iter().rev() {
        match store.run_record(part.writer).await {
            Ok(known) if known.archive_sha256.is_none() => {}
            Ok(_) | Err(StoreError::NotFound { .. }) => continue,
            Err(error) => return Err(error.into()),
        }
        let mut after = 0;
        while after < part.until {
            let limit = PAGE.min((part.until - after) as usize);
            let events = store.stored_events(part.writer, after, limit).await?;
            let shared = &archive.events[after as usize..];
            if events.is_empty() || events.iter().zip(shared).any(|(ours, theirs)| ours != theirs) {
                let other =
                    format!("shares events with run {}, but they are not those of the store", part.writer);
                return Err(MaintenanceError::archive(file, other));
            }
            after += events.len() as u64;
        }
        // Its log begins with those of the runs before it.
        break;
    }
    Ok(())
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
