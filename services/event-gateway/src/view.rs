//! What a caller may see and change.
//!
//! The method says what it does ([`Access`]), the store who is a member of what. Everything that a handler reads for
//! its caller goes through here. What a caller may not read looks to them as if it did not exist.
//!
//! A role sees what its run may see: of the projects of the run's context those that the run's user may read, and the
//! documents of the run itself.

use std::collections::BTreeMap;

use tonic::{Code, Status};
use tree_agent_contract::project::CREATE_DOCUMENT;
use tree_agent_contract::{
    DocumentId, FieldError, MemberRole, ProjectId, RunContext, RunId, RunSpec, RunSummary, Scope,
};
use tree_agent_proto::rights::Access;
use tree_agent_runtime::errors::{field, status};
use tree_agent_store::{PlacedDocument, Project, Projects, Reader, Store, StoreError};

use crate::auth::Caller;
use crate::errors;

/// What a user is a member of.
pub(crate) type Memberships = BTreeMap<ProjectId, MemberRole>;

/// The part of the data that a caller may see, and what they may do with it.
#[derive(Clone, Debug)]
pub(crate) struct View {
    access: Access,
    user_id: String,
    /// None if the user may do everything.
    memberships: Option<Memberships>,
    /// The live run that a role works for.
    run: Option<OfRun>,
}

/// What narrows the view of a role.
#[derive(Clone, Debug)]
struct OfRun {
    id: RunId,
    context: RunContext,
    /// It may change no project.
    read_only: bool,
}

impl View {
    /// The view of whoever calls.
    ///
    /// # Errors
    /// `PERMISSION_DENIED` if a role names a run that is not live.
    pub(crate) async fn of(store: &dyn Store, caller: Caller) -> Result<Self, Status> {
        let Caller { access, user_id, administrator, works_for, .. } = caller;
        let Some(id) = works_for else {
            let memberships = memberships(store, &user_id, administrator).await?;
            return Ok(Self { access, user_id, memberships, run: None });
        };
        match store.run(id).await {
            Ok(run) if !run.status.is_final() => {
                let RunSpec { context, read_only, user_id, by_administrator, .. } = run.spec;
                // Runs without a user belong to administrators.
                let all = administrator || by_administrator || user_id.is_empty();
                let memberships = memberships(store, &user_id, all).await?;
                Ok(Self { access, user_id, memberships, run: Some(OfRun { id, context, read_only }) })
            }
            Ok(_) | Err(StoreError::NotFound { .. }) => {
                let text = "roles may call only while their run is live";
                Err(status(Code::PermissionDenied, "RUN_NOT_LIVE", text))
            }
            Err(error) => Err(errors::store(error)),
        }
    }

    /// The view of the same caller, who only reads.
    pub(crate) fn reading(&self) -> Self {
        Self { access: Access::Read, ..self.clone() }
    }

    /// Whose limits count: the caller, or whoever started the run of a role.
    pub(crate) fn user(&self) -> &str {
        &self.user_id
    }

    /// True if the user may do everything.
    pub(crate) const fn is_administrator(&self) -> bool {
        self.memberships.is_none()
    }

    /// True for the runs that the caller starts if no membership bounds them. Runs without a user belong to
    /// administrators as it is.
    pub(crate) fn by_administrator(&self) -> bool {
        self.is_administrator() && !self.user_id.is_empty()
    }

    /// True if nothing is hidden from the caller.
    pub(crate) const fn sees_everything(&self) -> bool {
        self.memberships.is_none() && self.run.is_none()
    }

    /// The memberships that bound what the user may do; none if the user may do everything.
    pub(crate) const fn memberships(&self) -> Option<&Memberships> {
        self.memberships.as_ref()
    }

    /// How many projects have given the user this role.
    pub(crate) fn count(&self, role: MemberRole) -> usize {
        self.memberships.iter().flatten().filter(|(_, given)| **given == role).count()
    }

    /// True if a role calls.
    pub(crate) const fn is_role(&self) -> bool {
        self.run.is_some()
    }

    /// Whose lists of runs are asked for; none if all runs are shown.
    pub(crate) fn reader(&self) -> Option<Reader> {
        let memberships = self.memberships.as_ref()?;
        let project_ids = memberships.keys().copied().collect();
        Some(Reader { user_id: self.user_id.clone(), project_ids })
    }

    /// What the caller may do with a project; none if it is not visible.
    pub(crate) fn role_in(&self, project: ProjectId) -> Option<MemberRole> {
        if self.run.as_ref().is_some_and(|run| !run.context.allows(project)) {
            return None;
        }
        match &self.memberships {
            None => Some(MemberRole::Owner),
            Some(memberships) => memberships.get(&project).copied(),
        }
    }

    /// The projects that may be seen; none for all.
    pub(crate) fn projects_seen(&self) -> Option<Vec<ProjectId>> {
        self.narrowed(&RunContext::default()).map_or(Some(Vec::new()), |context| match context.scope {
            Scope::Global => None,
            _ => Some(context.project_ids),
        })
    }

    /// What of a context may be seen; none if it is nothing.
    pub(crate) fn narrowed(&self, context: &RunContext) -> Option<RunContext> {
        let context = match &self.run {
            Some(run) if context.scope == Scope::Global => &run.context,
            _ => context,
        };
        let Some(memberships) = &self.memberships else { return Some(context.clone()) };
        let project_ids: Vec<ProjectId> = match context.scope {
            Scope::Global => memberships.keys().copied().collect(),
            _ => context.project_ids.iter().copied().filter(|id| memberships.contains_key(id)).collect(),
        };
        (!project_ids.is_empty()).then_some(RunContext { scope: Scope::MultiProject, project_ids })
    }

    /// The row of the run that `name` names, if the caller may do with it what the method does.
    pub(crate) async fn run_in(
        &self,
        store: &dyn Store,
        name: &str,
        run: RunId,
    ) -> Result<RunSummary, Status> {
        let summary = store.run(run).await.map_err(errors::missing(name))?;
        self.check_run(name, &summary)?;
        Ok(summary)
    }

    /// True if the run is visible.
    pub(crate) fn may_read(&self, summary: &RunSummary) -> bool {
        match (&self.run, &self.memberships) {
            (Some(own), _) => own.id == summary.run_id,
            (None, Some(memberships)) => {
                summary.spec.is_readable_by(&self.user_id, |project| memberships.contains_key(&project))
            }
            (None, None) => true,
        }
    }

    /// An error unless the caller may do with the run in the field `name` what the method does.
    pub(crate) fn check_run(&self, name: &str, summary: &RunSummary) -> Result<(), Status> {
        let (run, spec) = (summary.run_id, &summary.spec);
        if !self.may_read(summary) {
            return Err(errors::missing(name)(StoreError::not_found("run", run)));
        }
        if self.access > Access::Read && !self.is_administrator() && spec.user_id != self.user_id {
            let text = format!("run {run} belongs to somebody else; fork it to go on from any of its events");
            return Err(denied(name, text));
        }
        Ok(())
    }

    /// The same for the field `run_id`.
    pub(crate) async fn run(&self, store: &dyn Store, run: RunId) -> Result<RunSummary, Status> {
        self.run_in(store, "run_id", run).await
    }

    /// An error unless the caller may do with the project in the field `name` what the method does.
    pub(crate) fn check_project(&self, name: &str, project: ProjectId) -> Result<(), Status> {
        let needed = match self.access {
            Access::Open | Access::Read => MemberRole::Reader,
            Access::Write => MemberRole::Editor,
            Access::Own => MemberRole::Owner,
        };
        match self.role_in(project) {
            None => Err(errors::missing(name)(StoreError::not_found("project", project))),
            Some(role) if role < needed => {
                let text = format!("project {project} allows this to members who are {needed}, not {role}");
                Err(denied(name, text))
            }
            Some(_) => Ok(()),
        }
    }

    /// The project in the field `name`, if the caller may do with it what the method does.
    pub(crate) async fn project(
        &self,
        store: &dyn Store,
        name: &str,
        id: ProjectId,
    ) -> Result<Project, Status> {
        self.check_project(name, id)?;
        Projects::project(store, id).await.map_err(errors::missing(name))
    }

    /// The same without the number of its documents.
    pub(crate) async fn uncounted(
        &self,
        store: &dyn Store,
        name: &str,
        id: ProjectId,
    ) -> Result<Project, Status> {
        self.check_project(name, id)?;
        store.uncounted_project(id).await.map_err(errors::missing(name))
    }

    /// The same for a list of projects.
    pub(crate) async fn projects(
        &self,
        store: &dyn Store,
        name: &str,
        ids: &[ProjectId],
    ) -> Result<Vec<Project>, Status> {
        let mut projects = Vec::with_capacity(ids.len());
        for (i, id) in ids.iter().enumerate() {
            projects.push(self.uncounted(store, &format!("{name}[{i}]"), *id).await?);
        }
        Ok(projects)
    }

    /// Those of the projects in the list `name` that are to be read. A role names all of its context: what it may not
    /// read any more is left out, unless nothing else is left.
    ///
    /// # Errors
    /// `NOT_FOUND` if a user names a project that they may not read, or a role one that is not of its context.
    pub(crate) async fn readable(
        &self,
        store: &dyn Store,
        name: &str,
        ids: Vec<ProjectId>,
    ) -> Result<Vec<ProjectId>, Status> {
        let mut lost = None;
        let mut readable = Vec::with_capacity(ids.len());
        for (i, id) in ids.into_iter().enumerate() {
            let is_of_context = self.run.as_ref().is_some_and(|run| run.context.allows(id));
            match self.uncounted(store, &format!("{name}[{i}]"), id).await {
                Ok(_) => readable.push(id),
                Err(status) if is_of_context && status.code() == Code::NotFound => {
                    lost.get_or_insert(status);
                }
                Err(status) => return Err(status),
            }
        }
        match lost {
            Some(status) if readable.is_empty() => Err(status),
            _ => Ok(readable),
        }
    }

    /// The document `id` as `run` has it, which is the run that created it if none is named, as it is now or was after
    /// an event of the run, if it is visible. Whoever acts for a run sees what that has.
    pub(crate) async fn placed_document(
        &self,
        store: &dyn Store,
        run: Option<RunId>,
        id: DocumentId,
        at_seq: Option<u64>,
    ) -> Result<PlacedDocument, Status> {
        let missing = || errors::store(StoreError::not_found("document", id));
        let of_run = match run.or(self.run.as_ref().map(|own| own.id)) {
            Some(run) => {
                self.run(store, run).await?;
                match store.document_of(run, id, at_seq).await {
                    Err(StoreError::NotFound { .. }) => None,
                    found => Some(found.map_err(errors::store)?),
                }
            }
            None => None,
        };
        let placed = match of_run {
            Some(placed) => placed,
            None => store.document_at(id, at_seq).await.map_err(errors::store)?,
        };
        let document = &placed.document;
        let visible = match (document.project_id, document.run_id) {
            (Some(project), _) => self.role_in(project).is_some(),
            (None, of) if of.is_some() && (of == run) => true,
            (None, _) if run.is_some() => false,
            (None, Some(of)) => match self.run(store, of).await {
                Ok(_) => true,
                Err(status) if status.code() == Code::NotFound => false,
                Err(status) => return Err(status),
            },
            (None, None) => self.sees_everything(),
        };
        if visible { Ok(placed) } else { Err(missing()) }
    }

    /// The run on whose behalf the caller writes into `project`; none for users.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` if the run is read-only, or if a project of its context or `project` itself forbids it.
    pub(crate) async fn writer(&self, store: &dyn Store, project: &Project) -> Result<Option<RunId>, Status> {
        let Some(OfRun { id, context, read_only }) = &self.run else { return Ok(None) };
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
}

/// What a user is a member of; none if they may do everything.
async fn memberships(store: &dyn Store, user: &str, all: bool) -> Result<Option<Memberships>, Status> {
    match (all, user) {
        (true, _) => Ok(None),
        // Whoever has no name owns nothing.
        (false, "") => Ok(Some(Memberships::new())),
        (false, user) => store.memberships(user).await.map(Some).map_err(errors::store),
    }
}

/// `PERMISSION_DENIED` for what `name` names, which the caller may read.
fn denied(name: &str, message: String) -> Status {
    field(Code::PermissionDenied, "NOT_ALLOWED", &FieldError::new(name, message))
}
