//! What a caller may see.
//!
//! Users see everything. A role sees what its run may see: the projects of the run's context and the documents of the run
//! itself. Everything else looks to it as if it did not exist.

use http::Extensions;
use tonic::{Code, Status};
use tree_agent_contract::{Document, DocumentId, ProjectId, RunContext, RunId};
use tree_agent_runtime::errors::status;
use tree_agent_store::{Project, Projects, Store, StoreError};

use crate::auth::Caller;
use crate::errors;

/// The part of the data that a caller may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// All of it.
    Everything,
    /// What a live run may see.
    Run {
        /// The run.
        id: RunId,
        /// Its context.
        context: RunContext,
    },
}

impl View {
    /// The view of the caller of a request.
    ///
    /// # Errors
    /// `PERMISSION_DENIED` if a role names a run that is not live.
    pub(crate) async fn of(store: &dyn Store, extensions: &Extensions) -> Result<Self, Status> {
        let Some(id) = Caller::of(extensions).works_for else { return Ok(Self::Everything) };
        match store.run(id).await {
            Ok(run) if !run.status.is_final() => Ok(Self::Run { id, context: run.spec.context }),
            Ok(_) | Err(StoreError::NotFound { .. }) => {
                let text = "roles may call only while their run is live";
                Err(status(Code::PermissionDenied, "RUN_NOT_LIVE", text))
            }
            Err(error) => Err(errors::store(&error)),
        }
    }

    /// The context of the run, if only that is visible.
    pub(crate) const fn context(&self) -> Option<&RunContext> {
        match self {
            Self::Everything => None,
            Self::Run { context, .. } => Some(context),
        }
    }

    fn has_project(&self, project: ProjectId) -> bool {
        self.context().is_none_or(|context| context.allows(project))
    }

    /// An error if `run` is not visible, as if it did not exist.
    pub(crate) fn check_run(&self, run: RunId) -> Result<(), StoreError> {
        match self {
            Self::Run { id, .. } if *id != run => Err(StoreError::not_found("run", run)),
            _ => Ok(()),
        }
    }

    /// An error if `project` is not visible, as if it did not exist.
    pub(crate) fn check_project(&self, project: ProjectId) -> Result<(), StoreError> {
        if self.has_project(project) { Ok(()) } else { Err(StoreError::not_found("project", project)) }
    }

    /// The document `id`, if it is visible.
    pub(crate) async fn document(&self, store: &dyn Store, id: DocumentId) -> Result<Document, StoreError> {
        let document = store.document(id).await?;
        let visible = match (document.project_id, document.run_id) {
            (Some(project), _) => self.has_project(project),
            (None, Some(run)) => self.check_run(run).is_ok(),
            (None, None) => *self == Self::Everything,
        };
        if visible { Ok(document) } else { Err(StoreError::not_found("document", id)) }
    }

    /// The project `id`, if it is visible.
    pub(crate) async fn project(&self, store: &dyn Store, id: ProjectId) -> Result<Project, StoreError> {
        self.check_project(id)?;
        Projects::project(store, id).await
    }
}
