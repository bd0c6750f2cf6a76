//! The one error type of this crate.

use std::io;
use std::path::Path;

use tree_agent_contract::RunId;
use tree_agent_engine::ReplayError;
use tree_agent_store::StoreError;

use crate::verify::UnknownType;

/// Why an operation on a log failed.
#[derive(Debug, thiserror::Error)]
pub enum MaintenanceError {
    /// The store failed.
    #[error("the store could not be read or written")]
    Store(#[from] StoreError),
    /// No run can have written this log.
    #[error("the log does not replay; `tree-agent verify` says where")]
    Replay(#[from] ReplayError),
    /// A newer version wrote the log. What follows from it is unknown.
    #[error(
        "event {} of run {run} is of the type {}, which this version does not know; use the version that wrote it",
        event.seq, event.event_type
    )]
    Newer {
        /// The run.
        run: RunId,
        /// The first such event.
        event: UnknownType,
    },
    /// The run row and the log disagree about where the log ends.
    #[error(
        "run {run} names event {head_seq} as its last, but its log ends at event {last_seq}; restore it from a backup \
         or an archive"
    )]
    Head {
        /// The run.
        run: RunId,
        /// What the row says.
        head_seq: u64,
        /// What the log holds.
        last_seq: u64,
    },
    /// Everything of the run except its row was moved to an archive.
    #[error("run {0} is archived; `tree-agent log restore` brings it back")]
    Archived(RunId),
    /// The run has not ended.
    #[error("run {0} has not ended; only ended runs can be archived")]
    Live(RunId),
    /// An archive is not what it must be.
    #[error("{file} {what}")]
    Archive {
        /// The file.
        file: String,
        /// What is wrong and what to do.
        what: String,
    },
    /// A file cannot be read or written.
    #[error("{file} cannot be read or written")]
    File {
        /// The file.
        file: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The run was written to at every attempt.
    #[error(
        "run {0} is being driven and its log grew at every attempt; try again, or wait until the run has ended"
    )]
    Moving(RunId),
}

impl MaintenanceError {
    pub(crate) fn archive(file: &Path, what: impl Into<String>) -> Self {
        Self::Archive { file: file.display().to_string(), what: what.into() }
    }

    pub(crate) fn file(file: &Path, source: io::Error) -> Self {
        Self::File { file: file.display().to_string(), source }
    }
}
