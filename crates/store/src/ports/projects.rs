//! Projects.

use async_trait::async_trait;
use serde::Serialize;
use tree_agent_contract::{ProjectId, ProjectStatus, RunId, Timestamp, ToolRules};

use super::Page;
use crate::error::StoreError;

/// Named sets of documents.
#[async_trait]
pub trait Projects: Send + Sync {
    /// Writes a project with its user as an owner, and returns what is stored. A user who repeats a request id gets the
    /// project that the first request made, whatever the second one says; the same id again does the same. The name of
    /// another project is [`StoreError::Conflict`].
    async fn create_project(&self, project: NewProject) -> Result<Project, StoreError>;

    /// The project, or [`StoreError::NotFound`].
    async fn project(&self, id: ProjectId) -> Result<Project, StoreError>;

    /// The same in a time that does not grow with its documents: their number may be 0.
    async fn uncounted_project(&self, id: ProjectId) -> Result<Project, StoreError> {
        self.project(id).await
    }

    /// A page of projects by name.
    async fn list_projects(&self, query: ProjectQuery) -> Result<Page<Project>, StoreError>;

    /// Changes a project, and returns what is stored. The name of another project is [`StoreError::Conflict`].
    async fn update_project(&self, id: ProjectId, change: ProjectChange) -> Result<Project, StoreError>;

    /// Removes a project and its documents for good. Nothing is removed while live runs name it in their context,
    /// unless `force` is set. [`StoreError::NotFound`] for an unknown project.
    async fn delete_project(&self, id: ProjectId, force: bool) -> Result<ProjectDeletion, StoreError>;
}

/// A project that is to be written.
#[derive(Clone, Debug)]
pub struct NewProject {
    /// What is written.
    pub project: Project,
    /// Who asks for it; empty without authentication.
    pub user_id: String,
    /// Tells a repeated request from a new one, among the requests of this user; empty for none.
    pub request_id: String,
}

/// A named set of documents.
#[derive(Clone, Debug, PartialEq)]
pub struct Project {
    /// Its id.
    pub id: ProjectId,
    /// Its name, unique, letter case aside.
    pub name: String,
    /// What it is about.
    pub description: String,
    /// Its source documents (computed on reading).
    pub document_count: u64,
    /// When it was created.
    pub created_at: Timestamp,
    /// Whether it takes new runs. A new project does.
    pub status: ProjectStatus,
    /// What tools may do in it. A new project has the default.
    pub tools: ToolRules,
    /// When it last changed, its documents aside.
    pub updated_at: Timestamp,
    /// Another number after each change of the project or its documents (computed by the store).
    pub revision: u64,
}

impl Project {
    /// A project that is new.
    pub fn new(id: ProjectId, name: impl Into<String>, created_at: Timestamp) -> Self {
        Self {
            id,
            name: name.into(),
            description: String::new(),
            document_count: 0,
            created_at,
            status: ProjectStatus::default(),
            tools: ToolRules::default(),
            updated_at: created_at,
            revision: 1,
        }
    }
}

/// Which projects to list.
#[derive(Clone, Debug, Default)]
pub struct ProjectQuery {
    /// Only names that contain this, letter case aside.
    pub name_contains: String,
    /// Only these statuses; empty for all.
    pub statuses: Vec<ProjectStatus>,
    /// Only these projects; none for all.
    pub among: Option<Vec<ProjectId>>,
    /// Only names after this one.
    pub after_name: String,
    /// Rows, 1 to [`PAGE_MAX`](tree_agent_contract::limits::PAGE_MAX).
    pub limit: usize,
}

/// What changes of a project. What is none stays as it is.
#[derive(Clone, Debug, Default)]
pub struct ProjectChange {
    /// Its name.
    pub name: Option<String>,
    /// What it is about.
    pub description: Option<String>,
    /// Whether it takes new runs.
    pub status: Option<ProjectStatus>,
    /// What tools may do in it.
    pub tools: RulesChange,
    /// When.
    pub at: Timestamp,
}

/// What changes of the rules for tools: the keys of [`ToolRules`] that are replaced.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RulesChange {
    /// Only these tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// Not these tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denied_tools: Option<Vec<String>>,
    /// No tool that writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// A tool may replace a document that people imported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replace_imported: Option<bool>,
}

/// How `delete_project` ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProjectDeletion {
    /// It is gone.
    Deleted,
    /// These live runs name it, and perhaps others. Nothing was removed.
    InUse(Vec<RunId>),
}

/// Runs that [`ProjectDeletion::InUse`] names at most.
pub(crate) const USERS_NAMED: usize = 3;
