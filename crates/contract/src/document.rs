//! Documents: the sources that tools read, the scratchpads and the artifacts that nodes write.

use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::ids::{DocumentId, NodeId, ProjectId, RunId};
use crate::status::named_enum;
use crate::time::Timestamp;

named_enum! {
    /// What a document is (`type_key` in the tables).
    DocumentKind {
        /// Imported or created by a user: what tools read by default.
        Source = "document.source",
        /// A node's scratchpad.
        Scratchpad = "document.tree_agent.scratchpad",
        /// A node's artifact.
        Artifact = "document.tree_agent.artifact",
        /// The document above all others of a run.
        Workspace = "document.tree_agent.workspace",
        /// The document above all others of a run that begins as homework.
        HomeworkWorkspace = "document.homework.workspace",
        /// The main scratchpad of homework: what its planner writes, and the roll-ups.
        HomeworkScratchpad = "document.homework.scratchpad.root",
        /// The scratchpad of one branch of homework.
        HomeworkBranch = "document.homework.scratchpad.exec",
        /// The plan of homework: steps with their state.
        HomeworkPlan = "document.homework.plan",
        /// What one iteration of homework was about.
        HomeworkSummary = "document.homework.summary.iteration",
        /// The answer of a tool, kept for further calls.
        ToolAnswer = "document.tree_agent.tool_answer",
        /// What a model call was sent, and what the model thought and answered.
        Prompt = "document.tree_agent.prompt",
    }
}

impl DocumentKind {
    /// True for what may change while its run is live.
    pub const fn grows(self) -> bool {
        !matches!(self, Self::Source | Self::Artifact | Self::ToolAnswer | Self::Prompt)
    }
}

/// Links from a run's documents to its tree (the `props` column).
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentProps {
    /// What the document is for: `tree_agent_workspace`, `tree_agent_scratchpad`, `tree_agent_artifact`,
    /// `tree_agent_tool_answer` or `tree_agent_prompt`; in homework
    /// `workspace`, `scratchpad_root`, `scratchpad_exec`, `plan` or `iteration_summary`. Absent on sources.
    pub doc_role: Option<String>,
    /// The run that wrote it.
    pub tree_agent_run_id: Option<RunId>,
    /// The node that wrote it.
    pub tree_agent_node_id: Option<NodeId>,
    /// The parent of that node.
    pub parent_node_id: Option<NodeId>,
    /// The depth of that node.
    pub depth: Option<u32>,
    /// The run that wrote it, if it belongs to homework.
    pub homework_run_id: Option<RunId>,
    /// The branch of homework that it belongs to.
    pub branch_id: Option<String>,
    /// The iteration of homework in which it was created, 1 for the first.
    pub iteration: Option<u32>,
    /// `planner` or `executor`: the role that writes it. Only in homework.
    pub owner: Option<String>,
    /// Words by which it can be found. `homework` is the first in homework.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// SHA-256 of the body, in hex. Absent on documents of runs.
    pub content_hash: Option<Box<str>>,
    /// The import that wrote it; absent if a person or a tool did.
    pub import: Option<Box<DocumentImport>>,
}

/// Where an imported document comes from. The client that imports chooses all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentImport {
    /// Names what was imported, such as one folder of one machine. An import removes only its own documents.
    pub source: String,
    /// The file within it, `/`-separated. A long file is several documents.
    pub file: String,
    /// Changes with the content of the file and with the way it is converted.
    pub fingerprint: String,
    /// What of the file is not in the text, in words; empty if all of it is.
    #[serde(default, skip_serializing_if = "String::is_empty", rename = "leftOut")]
    pub left_out: String,
}

/// A document with its body.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// Its id.
    pub id: DocumentId,
    /// What it is.
    pub kind: DocumentKind,
    /// The project it belongs to; none for the documents of a run.
    pub project_id: Option<ProjectId>,
    /// The run that wrote it; none for sources.
    pub run_id: Option<RunId>,
    /// Path within its project or run, `/`-separated, unique there; empty for what a node writes.
    #[serde(default)]
    pub path: String,
    /// Its title.
    pub title: String,
    /// Markdown or plain text.
    pub body: String,
    /// Links to the tree.
    #[serde(default)]
    pub props: DocumentProps,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its body last changed.
    pub updated_at: Timestamp,
}

/// A document without its body.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DocumentSummary {
    /// Its id.
    pub id: DocumentId,
    /// What it is.
    pub kind: DocumentKind,
    /// The project it belongs to.
    pub project_id: Option<ProjectId>,
    /// The run that wrote it.
    pub run_id: Option<RunId>,
    /// Path within its project.
    #[serde(default)]
    pub path: String,
    /// Its title.
    pub title: String,
    /// Bytes of its body.
    pub bytes: u64,
    /// Links to the tree.
    #[serde(default)]
    pub props: DocumentProps,
    /// When its body last changed.
    pub updated_at: Timestamp,
    /// The document above it, within its run.
    pub parent_id: Option<DocumentId>,
}

/// A passage that answers a query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SearchHit {
    /// Its document.
    pub document: DocumentSummary,
    /// The headings above it, the outermost first.
    pub headings: Vec<String>,
    /// The head of the table whose rows it holds, if that stands further above; else empty.
    #[serde(default)]
    pub head: String,
    /// The byte of the body at which it begins.
    pub offset: u64,
    /// Its text, as it stands there.
    pub passage: String,
    /// Its place by the words of the query, from 1; 0 for none.
    pub lexical_rank: u32,
    /// Its place by the meaning of the query, from 1; 0 for none.
    pub vector_rank: u32,
    /// How similar the meanings are, at most 1; none beyond the first places.
    pub similarity: Option<f64>,
    /// Higher is better; comparable only within one answer.
    pub score: f64,
}

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SearchResults {
    /// The best passages, best first, at most as many as were asked for.
    pub hits: Vec<SearchHit>,
    /// How many passages hold a word of the query, whatever the limit.
    pub total: u64,
    /// How many passages were searched.
    pub passages: u64,
    /// How many of them can be found by their meaning; none if the server makes no vectors.
    pub embedded: Option<u64>,
    /// True if the order is by meaning, too.
    pub vectors: bool,
    /// How many of the passages hold each term of the query.
    pub words: Vec<WordCount>,
}

/// How many passages hold a term.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WordCount {
    /// The term: the stem of a word of the query.
    pub word: String,
    /// The passages that hold it.
    pub passages: u64,
}

/// A write to a document that belongs to an append: it happens in the same transaction as the events, or not
/// at all.
// Few of them are in memory at a time.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a box would cost an allocation for each document")]
pub enum DocumentOp {
    /// Creates a document, with its body.
    Create(Document),
    /// Adds to the end of a document's body. Of a body over
    /// [`DOCUMENT_BYTES`](crate::limits::DOCUMENT_BYTES) readers see the end.
    Append {
        /// The document.
        id: DocumentId,
        /// The event with which it grows. The text of a document at an event is what was added until then.
        seq: u64,
        /// What is added.
        text: String,
        /// When.
        at: Timestamp,
    },
    /// Gives a document another text. Its earlier texts stay in its history.
    Replace {
        /// The document.
        id: DocumentId,
        /// The event with which it changes.
        seq: u64,
        /// The whole new text.
        text: String,
        /// When.
        at: Timestamp,
    },
    /// Puts a document of the run below another one (`document_has_document`). Both exist, the child has no other
    /// parent, and it is not above the parent. Else the append is refused. With the creation of the child it also says
    /// which event creates it.
    Link {
        /// The one above.
        parent: DocumentId,
        /// The one below.
        child: DocumentId,
        /// The event with which it gets its place.
        seq: u64,
        /// When.
        at: Timestamp,
    },
}
