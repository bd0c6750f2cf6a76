//! What a caller may see.
//!
//! Users see everything. A role sees what its run may see: the projects of the run's context and the documents of the
//! run itself. Everything else looks to it as if it did not exist.

use http::Extensions;
use tonic::{Code, Status};
use tree_agent_contract::project::CREATE_DOCUMENT;
use tree_agent_contract::{DocumentId, ProjectId, RunContext, RunId, RunSpec};
use tree_agent_runtime::errors::status;
use tree_agent_store::{PlacedDocument, Project, Projects, Store, StoreError};

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
        /// It may change no project.
        read_only: bool,
        /// Whose run it is.
        user_id: String,
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
            Ok(run) if !run.status.is_final() => {
                let RunSpec { context, read_only, user_id, .. } = run.spec;
                Ok(Self::Run { id, context, read_only, user_id })
            }
            Ok(_) | Err(StoreError::NotFound { .. }) => {
                let text = "roles may call only while their run is live";
                Err(status(Code::PermissionDenied, "RUN_NOT_LIVE", text))
            }
            Err(error) => Err(errors::store(error)),
        }
    }

    /// Whose limits count: the caller's, or those of whoever started the run.
    pub(crate) fn user<'a>(&'a self, caller: &'a Caller) -> &'a str {
        match self {
            Self::Everything => &caller.user_id,
            Self::Run { user_id, .. } => user_id,
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

    /// The document `id` as `run` has it, which is the run that created it if none is named, as it is now or was after
    /// an event of the run, if it is visible. Whoever acts for a run sees what that has.
    pub(crate) async fn placed_document(
        &self,
        store: &dyn Store,
        run: Option<RunId>,
        id: DocumentId,
        at_seq: Option<u64>,
    ) -> Result<PlacedDocument, StoreError> {
        let own = match self {
            Self::Run { id, .. } => Some(*id),
            _ => None,
        };
        let of_run = match run.or(own) {
            Some(run) => {
                self.check_run(run)?;
                store.run(run).await?;
                match store.document_of(run, id, at_seq).await {
                    Err(StoreError::NotFound { .. }) => None,
                    found => Some(found?),
                }
            }
            None => None,
        };
        let placed = match of_run {
            Some(placed) => placed,
            None => store.document_at(id, at_seq).await?,
        };
        if run.is_some() && placed.document.project_id.is_none() && placed.document.run_id != run {
            return Err(StoreError::not_found("document", id));
        }
        let document = &placed.document;
        let visible = match (document.project_id, document.run_id) {
            (Some(project), _) => self.has_project(project),
            (None, Some(run)) => self.check_run(run).is_ok(),
            (None, None) => *self == Self::Everything,
        };
        if visible { Ok(placed) } else { Err(StoreError::not_found("document", id)) }
    }

    /// The run on whose behalf the caller writes into `project`; none for users.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` if the run is read-only, or if a project of its context or `project` itself forbids it.
    pub(crate) async fn writer(&self, store: &dyn Store, project: &Project) -> Result<Option<RunId>, Status> {
        let Self::Run { id, context, read_only, .. } = self else { return Ok(None) };
        if *read_only {
            let text = "the run is read-only; it writes its own documents only";
            return Err(status(Code::FailedPrecondition, "RUN_READ_ONLY", text));
        }
        // As for the tools that the run is offered: what every project of its context allows.
        let mut projects = vec![project.clone()];
        for other in context.project_ids.iter().filter(|other| **other != project.id) {
            match store.uncounted_project(*other).await {
                Ok(other) => projects.push(other),
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(errors::store(error)),
            }
        }
        match projects.iter().find(|project| !project.tools.offer(CREATE_DOCUMENT, true)) {
            Some(project) => {
                let text = format!("project {} does not allow the tool {CREATE_DOCUMENT}", project.id);
                Err(status(Code::FailedPrecondition, "TOOL_DENIED", text))
            }
            None => Ok(Some(*id)),
        }
    }

    /// The projects. `NOT_FOUND` with the field unless every one exists.
    pub(crate) async fn projects(
        &self,
        store: &dyn Store,
        field: &str,
        ids: &[ProjectId],
    ) -> Result<Vec<Project>, Status> {
        let mut projects = Vec::with_capacity(ids.len());
        for (i, project) in ids.iter().enumerate() {
            let found = self.project(store, *project).await;
            projects.push(found.map_err(errors::missing(&format!("{field}[{i}]")))?);
        }
        Ok(projects)
    }

    /// The project `id`, if it is visible.
    pub(crate) async fn project(&self, store: &dyn Store, id: ProjectId) -> Result<Project, StoreError> {
        self.check_project(id)?;
        Projects::project(store, id).await
    }
}
