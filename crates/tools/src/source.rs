//! The port through which tools reach documents.

use async_trait::async_trait;
use tree_agent_contract::{
    AnswerUse, Document, DocumentId, DocumentKind, DocumentSummary, NodeId, ProjectId, RunContext, RunId,
    SearchResults, ToolRules,
};

use crate::error::ToolError;

/// On whose behalf a tool runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The run. Documents that it wrote itself are always readable.
    pub run_id: RunId,
    /// What the run may look at.
    pub context: RunContext,
    /// The run may call no tool that writes.
    pub read_only: bool,
    /// The run after which documents are named that tools write: the one that began the log of a fork.
    pub origin_run_id: RunId,
    /// The node for which it works; none outside of role calls.
    pub node_id: Option<NodeId>,
    /// What it does about answers that the run keeps; none if the run keeps none.
    pub answers: Option<AnswerUse>,
}

impl Caller {
    /// A run that may write.
    pub const fn new(run_id: RunId, context: RunContext) -> Self {
        Self { run_id, context, read_only: false, origin_run_id: run_id, node_id: None, answers: None }
    }

    /// True when the caller may read a document that belongs to `project` and `run`.
    pub fn may_read(&self, project: Option<ProjectId>, run: Option<RunId>) -> bool {
        run == Some(self.run_id) || project.is_some_and(|p| self.context.allows(p))
    }
}

/// Which documents to list.
#[derive(Clone, Debug, Default)]
pub struct ListDocuments {
    /// Only this project; every project of the context when none.
    pub project_id: Option<ProjectId>,
    /// Only paths that begin with this.
    pub path_prefix: String,
    /// Rows of the page, 1 to [`PAGE_MAX`](tree_agent_contract::limits::PAGE_MAX).
    pub page_size: u32,
    /// [`Listing::next_page_token`] of the page before; empty for the first.
    pub page_token: String,
}

/// A page of documents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// Source documents by path, without bodies.
    pub documents: Vec<DocumentSummary>,
    /// Empty on the last page.
    pub next_page_token: String,
}

/// What to search for.
#[derive(Clone, Debug, Default)]
pub struct SearchDocuments {
    /// Free text.
    pub query: String,
    /// Only paths that begin with this.
    pub path_prefix: String,
    /// Maximum of hits, 1 to 100.
    pub limit: u32,
    /// If set, the order is by meaning only if all passages have vectors within so many seconds.
    pub whole_within: Option<u8>,
}

/// A source document to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDocument {
    /// The project.
    pub project_id: ProjectId,
    /// Path within the project. A document that stands there already is replaced.
    pub path: String,
    /// Title; the first heading or the file name when empty.
    pub title: String,
    /// Markdown or plain text.
    pub body: String,
}

/// A project as tools see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectInfo {
    /// Its id.
    pub id: ProjectId,
    /// Its name.
    pub name: String,
    /// What it is about.
    pub description: String,
    /// Its source documents.
    pub document_count: u64,
    /// What it says about tools.
    pub rules: ToolRules,
    /// Another number after each change of the project or its documents; 0 if nobody counts.
    pub revision: u64,
}

/// What tools must know of a project before they work on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectState {
    /// What it says about tools.
    pub rules: ToolRules,
    /// Another number after each change of the project or its documents; 0 if nobody counts.
    pub revision: u64,
    /// The user of the run only reads it, so no document of it is written.
    pub reads_only: bool,
}

/// Where documents come from. Every method is told the caller and must answer only with what the caller's context
/// reaches; every method may fail with [`ToolError::Unavailable`].
#[async_trait]
pub trait DocumentSource: Send + Sync {
    /// A page of source documents, by path.
    async fn list_documents(&self, caller: &Caller, query: &ListDocuments) -> Result<Listing, ToolError>;

    /// The passages of source documents that answer a query, best first; the total counts every match.
    async fn search_documents(
        &self,
        caller: &Caller,
        query: &SearchDocuments,
    ) -> Result<SearchResults, ToolError>;

    /// One document with its body: a source of the context, or what the caller's run wrote. Else
    /// [`ToolError::NotFound`].
    async fn read_document(&self, caller: &Caller, id: DocumentId) -> Result<Document, ToolError>;

    /// The states of the projects, in their order; none for a project that does not exist. They change while runs are
    /// at work.
    async fn project_states(
        &self,
        caller: &Caller,
        projects: &[ProjectId],
    ) -> Result<Vec<Option<ProjectState>>, ToolError>;

    /// Writes a source document; the same project and path again replaces it, so a repeated call is safe. A document
    /// that people imported is replaced only if its project allows that.
    async fn create_document(
        &self,
        caller: &Caller,
        document: NewDocument,
    ) -> Result<DocumentSummary, ToolError>;

    /// The projects of the context, by name, at most `limit`.
    async fn list_projects(&self, caller: &Caller, limit: u32) -> Result<Vec<ProjectInfo>, ToolError>;
}

/// True for the documents that tools list and search.
pub(crate) fn is_source(document: &DocumentSummary) -> bool {
    document.kind == DocumentKind::Source
}
