//! Documents: the sources that tools read, the scratchpads and the artifacts that nodes write.

use serde::{Deserialize, Serialize};

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
    }
}

/// Links from a run's documents to its tree (the `props` column).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentProps {
    /// `tree_agent_scratchpad` or `tree_agent_artifact`; absent on sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doc_role: Option<String>,
    /// The run that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree_agent_run_id: Option<RunId>,
    /// The node that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree_agent_node_id: Option<NodeId>,
    /// The parent of that node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_node_id: Option<NodeId>,
    /// The depth of that node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// SHA-256 of the body, in hex. Absent on documents of runs, and on sources that an earlier version wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_hash: Option<Box<str>>,
    /// The import that wrote it; absent if a person or a tool did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
}

/// A document with its body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// Its id.
    pub id: DocumentId,
    /// What it is.
    pub kind: DocumentKind,
    /// The project it belongs to; none for the documents of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    /// The run that wrote it; none for sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DocumentSummary {
    /// Its id.
    pub id: DocumentId,
    /// What it is.
    pub kind: DocumentKind,
    /// The project it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    /// The run that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
}

/// One document that matches a full-text query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SearchHit {
    /// The document.
    pub document: DocumentSummary,
    /// The text around the first matches.
    pub snippet: String,
    /// Higher is better; comparable only within one answer.
    pub score: f64,
}

/// What a full-text query found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SearchResults {
    /// The best matches, best first, at most as many as were asked for.
    pub hits: Vec<SearchHit>,
    /// How many documents match, whatever the limit.
    pub total: u64,
}

/// A write to a document that belongs to an append: it happens in the same transaction as the events, or not
/// at all.
#[derive(Clone, Debug, PartialEq)]
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
}
