//! The one error type of the store.

use tree_agent_contract::{ProjectId, RunId};

/// Why a store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// What was named does not exist.
    #[error("{what} {id} does not exist")]
    NotFound {
        /// `run`, `document`, `project`.
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// What was written before says otherwise.
    #[error("{0}")]
    Conflict(String),
    /// Everything of the run but its row was moved to an archive.
    #[error("run {0} is archived; `tree-agent log restore` brings it back")]
    Archived(RunId),
    /// The store cannot be reached or cannot serve now; the same call may work later. After an append it is
    /// unknown whether it was written: repeat it unchanged.
    #[error("the store is unavailable: {message}")]
    Unavailable {
        /// What happened.
        message: String,
        /// The cause.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// What is stored cannot be read, or the schema is not what this version needs.
    #[error("{message}")]
    Broken {
        /// What is wrong and what to do.
        message: String,
        /// The cause.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

/// The cause of [`StoreError::Unavailable`] when another client holds a lock for too long.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct LockHeld(pub(crate) String);

impl StoreError {
    /// `what` with `id` does not exist.
    pub fn not_found(what: &'static str, id: impl ToString) -> Self {
        Self::NotFound { what, id: id.to_string() }
    }

    /// Something stored is not readable.
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

    /// Run `id` exists (under `request_id`, unless that is empty) and was asked for otherwise.
    pub(crate) fn other_spec(id: RunId, request_id: &str) -> Self {
        Self::Conflict(if request_id.is_empty() {
            format!("run {id} exists with another spec")
        } else {
            format!(
                "request_id {request_id:?} was used before for run {id} with another spec; use a new request_id"
            )
        })
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

    /// True when another client of the database holds a row locked that the call needs: calls that need other rows work.
    /// Nothing was written.
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Unavailable { source: Some(source), .. } if source.is::<LockHeld>())
    }

    /// True when the same call may work later.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}
