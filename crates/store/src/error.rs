//! The one error type of the store.

use tree_agent_contract::{DocumentId, ProjectId, RunId};

/// Why a call to a store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Something that the call names does not exist.
    #[error("{what} {id} does not exist")]
    NotFound {
        /// `run`, `document`, `project`.
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// The call contradicts what is already stored.
    #[error("{0}")]
    Conflict(String),
    /// Everything of the run except its row was moved to an archive.
    #[error("run {0} is archived; `tree-agent log restore` brings it back")]
    Archived(RunId),
    /// The store cannot be reached or cannot serve now. The same call may work later. It is unknown whether an append
    /// was written: repeat it unchanged.
    #[error("the store is unavailable: {message}")]
    Unavailable {
        /// What happened.
        message: String,
        /// The cause.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// Stored data cannot be read, or the schema is not the one that this version needs.
    #[error("{message}")]
    Broken {
        /// What is wrong and what to do.
        message: String,
        /// The cause.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

/// The cause of [`StoreError::Unavailable`] if another client holds a lock for too long.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct LockHeld(pub(crate) String);

/// The cause of [`StoreError::Unavailable`] if the database ended a statement because it took too long.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct TookTooLong(pub(crate) String);

impl StoreError {
    /// `what` with `id` does not exist.
    pub fn not_found(what: &'static str, id: impl ToString) -> Self {
        Self::NotFound { what, id: id.to_string() }
    }

    /// Stored data is not readable.
    pub fn broken(
        message: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Broken { message: message.into(), source: Some(source.into()) }
    }

    /// The store cannot serve now.
    pub fn unavailable(
        message: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Unavailable { message: message.into(), source: Some(source.into()) }
    }

    /// Run `id` exists (under `request_id`, unless that is empty) with another spec.
    pub(crate) fn other_spec(id: RunId, request_id: &str) -> Self {
        Self::Conflict(if request_id.is_empty() {
            format!("run {id} exists with another spec")
        } else {
            format!(
                "request_id {request_id:?} was used before for run {id} with another spec; use a new request_id"
            )
        })
    }

    /// The archive is not the one that the run was pruned for.
    pub(crate) fn other_archive(run: RunId, pruned_for: &str) -> Self {
        Self::Conflict(format!(
            "run {run} was pruned for the archive with SHA-256 {pruned_for}, and this is another one; restore it from the \
             archive that was written then"
        ))
    }

    /// The writer wants a document where it cannot be. Nothing of the append is written.
    pub(crate) fn refused_place(run: RunId, child: DocumentId, parent: DocumentId, why: &str) -> Self {
        Self::Conflict(format!("document {child} of run {run} cannot be below document {parent}: {why}"))
    }

    /// The name of a project is in use.
    pub(crate) fn name_taken(name: &str) -> Self {
        Self::Conflict(format!("a project named {name:?} exists (letter case aside); choose another name"))
    }

    /// The path of a source document is in use.
    pub(crate) fn path_taken(project: Option<ProjectId>, path: &str) -> Self {
        let project = project.map_or_else(String::new, |id| format!(" in project {id}"));
        Self::Conflict(format!("another document has the path {path:?}{project}; choose another path"))
    }

    /// Logs that something cannot be done now. That the store cannot be reached is said once, by whoever watches it.
    pub fn note(&self, what: &str) {
        match self.is_transient() {
            true => tracing::debug!(error = %self, "{what}"),
            false => tracing::warn!(error = %self, "{what}"),
        }
    }

    /// True if another client of the database holds a lock on a row that the call needs. Nothing was written. Calls
    /// that need other rows work.
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Unavailable { source: Some(source), .. } if source.is::<LockHeld>())
    }

    /// True if the same call may work later. A statement that took too long is as large later as it is now.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable { source: Some(source), .. } => !source.is::<TookTooLong>(),
            Self::Unavailable { source: None, .. } => true,
            _ => false,
        }
    }
}
