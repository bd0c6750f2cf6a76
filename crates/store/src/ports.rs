//! The ports: what the rest of the system asks of a store. Two adapters implement them, `postgres` and
//! `embedded`, and one contract suite (`tests/contract`) holds both to the promises written here.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tree_agent_contract::document::{Document, DocumentKind, DocumentOp, DocumentSummary};
use tree_agent_contract::event::Event;
use tree_agent_contract::graph::Usage;
use tree_agent_contract::session::Session;
use tree_agent_contract::{
    ArtifactId, ArtifactType, Command, DocumentId, NodeId, NodeStatus, PlanId, ProjectId, Reply, Role,
    RunContext, RunId, RunSpec, RunStatus, RunSummary, Timestamp,
};

mod archives;
mod commands;
mod forks;
mod leases;
mod members;
mod operations;
mod passages;
mod projects;
mod run_lists;
mod sessions;
mod vectors;

pub use archives::{Archives, Partition, RunRecord, StoredDocument, StoredEdge};
pub(crate) use commands::too_late;
pub use commands::{Answer, PendingCommand, Sent};
pub use forks::{Forks, NewFork, Segment};
pub(crate) use leases::quarantine_time;
pub use leases::{Claim, Failed, Leases, QUARANTINE_MAX, Renewed, Term};
pub use members::{Member, MemberChange, Members};
pub use operations::{
    ClusterState, DocumentRecord, DriverAbout, DriverState, Operations, PeerState, Stored, StoredChunk,
    StoredEvent, WholeProjection,
};
pub use passages::{
    CANDIDATES, CheckedPassages, FoundPassages, PassageId, PassageQuery, Passages, StoredPassage,
};
pub(crate) use projects::USERS_NAMED;
pub use projects::{
    NewProject, Project, ProjectChange, ProjectDeletion, ProjectQuery, Projects, RulesChange,
};
pub use run_lists::{IdPart, ListedRun, Reader, RunFilter, RunLists, RunQuery};
pub(crate) use sessions::CHAIN;
pub use sessions::Sessions;
pub use vectors::{Unembedded, VectorMarks, Vectors};

use crate::error::StoreError;

/// A whole store. Services hold an `Arc<dyn Store>`.
pub trait Store:
    EventLog
    + Leases
    + Runs
    + Forks
    + RunLists
    + Documents
    + Passages
    + Vectors
    + Sessions
    + Projects
    + Members
    + Operations
{
}
impl<T> Store for T where
    T: EventLog
        + Leases
        + Runs
        + Forks
        + RunLists
        + Documents
        + Passages
        + Vectors
        + Sessions
        + Projects
        + Members
        + Operations
        + ?Sized
{
}

/// The append-only log and the projections that are written with it.
#[async_trait]
pub trait EventLog: Send + Sync {
    /// Appends to many runs in one round trip and one transaction per run at the least: all of one run's part is
    /// written or none of it. The outcomes are in the order of `appends`; a run may occur once.
    ///
    /// The fence is inside: a run's part is written only while its row has exactly `epoch` and `expected_head`.
    /// An append that is repeated after an ambiguous commit (same epoch, same expected head, same events) reports
    /// [`AppendOutcome::Appended`] without writing twice. Shared, so that a caller keeps what it may have to repeat.
    async fn append(&self, appends: Arc<[RunAppend]>) -> Result<Vec<AppendOutcome>, StoreError>;

    /// Events with `seq > after_seq`, in order, at most `limit`, and fewer if their payloads would be more than
    /// [`READ_BYTES`]. Empty at or beyond the head and for unknown runs, and only there.
    /// [`StoreError::Archived`] where there are events that were moved to an archive.
    async fn read(&self, run: RunId, after_seq: u64, limit: usize) -> Result<Vec<Event>, StoreError>;

    /// The head seq of each run that exists, in no particular order.
    async fn heads(&self, runs: &[RunId]) -> Result<Vec<(RunId, u64)>, StoreError>;
}

/// Bytes of payloads, as JSON text, that one read of a log returns. A larger event is returned alone.
pub const READ_BYTES: usize = 4 * 1024 * 1024;

/// One run's part of an append.
#[derive(Clone, Debug)]
pub struct RunAppend {
    /// The run.
    pub run_id: RunId,
    /// The epoch of the writer's claim.
    pub epoch: u64,
    /// The seq of the last event that the writer knows; `events` begin at the next.
    pub expected_head: u64,
    /// The events, contiguous, at least one.
    pub events: Vec<Event>,
    /// Final rows of the nodes, plans and artifacts that the events touch.
    pub projection: Projection,
    /// Document writes that belong to the events, in order.
    pub documents: Vec<DocumentOp>,
    /// Conversations that belong to the events. Each is written once.
    pub sessions: Vec<Session>,
    /// Commands of the run that were carried out with these events; they leave the inbox with them.
    pub answers: Vec<Answer>,
}

impl RunAppend {
    /// True if the run has ended with these events: its inbox is emptied with them.
    pub(crate) fn ends_run(&self) -> bool {
        self.projection.run.as_ref().is_some_and(|row| row.status.is_final())
    }
}

/// Rows derived from the log by the engine; written with the events they come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Projection {
    /// The run's own row, when its status, partiality, error, node count, usage, start or end changed.
    pub run: Option<RunRow>,
    /// Nodes, inserted or replaced by id.
    pub nodes: Vec<NodeRow>,
    /// Plans, inserted or replaced by id.
    pub plans: Vec<PlanRow>,
    /// Artifacts, inserted or replaced by id.
    pub artifacts: Vec<ArtifactRow>,
}

/// The derived columns of `tree_agent_runs`.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRow {
    /// Where it stands.
    pub status: RunStatus,
    /// True when it ended with less than was asked for.
    pub partial: bool,
    /// Why it failed.
    pub error: Option<String>,
    /// Nodes created so far.
    pub node_count: u64,
    /// Those of them that have ended. The number stands beside the sums in the column `usage`.
    pub ended_nodes: u64,
    /// Sums over all its role calls; those of a fork are the calls since it forked.
    pub usage: Usage,
    /// The models that answered, the latest last. They stand beside the sums in the column `usage`.
    pub models: Vec<String>,
    /// When a driver first took it up.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

/// The column `usage` of `tree_agent_runs`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct UsageColumn {
    #[serde(flatten)]
    pub(crate) usage: Usage,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) models: Vec<String>,
    #[serde(default)]
    pub(crate) ended_nodes: u64,
}

impl RunRow {
    pub(crate) fn usage_column(&self) -> UsageColumn {
        UsageColumn { usage: self.usage, models: self.models.clone(), ended_nodes: self.ended_nodes }
    }
}

/// A row of `tree_agent_nodes`.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRow {
    /// The node.
    pub id: NodeId,
    /// Its parent; none for the root.
    pub parent_node_id: Option<NodeId>,
    /// Its title.
    pub title: String,
    /// Why its parent wants it.
    pub reason: String,
    /// How it will be judged.
    pub success_criteria: Vec<String>,
    /// Band of the parent's plan.
    pub band_index: Option<u32>,
    /// Place in that band.
    pub step_index: Option<u32>,
    /// 0 for the root.
    pub depth: u32,
    /// What it is doing.
    pub status: NodeStatus,
    /// The role it shows.
    pub role_state: Role,
    /// Its scratchpad.
    pub scratchpad_doc_id: Option<DocumentId>,
    /// When it first left `waiting`.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// A row of `tree_agent_plans`.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanRow {
    /// The plan.
    pub id: PlanId,
    /// The node that wrote it.
    pub node_id: NodeId,
    /// 1, 2, …
    pub version: u32,
    /// `{"summary","bands":[{"index","goal","parallelizable","steps":[…]}]}`.
    pub plan_json: serde_json::Value,
    /// When.
    pub created_at: Timestamp,
}

/// A row of `tree_agent_artifacts`.
#[derive(Clone, Debug, PartialEq)]
pub struct ArtifactRow {
    /// The artifact.
    pub id: ArtifactId,
    /// The node that returned it.
    pub node_id: NodeId,
    /// What it is.
    pub artifact_type: ArtifactType,
    /// The document, for document artifacts.
    pub document_id: Option<DocumentId>,
    /// The payload, for JSON artifacts.
    pub json_payload: Option<serde_json::Map<String, serde_json::Value>>,
    /// True for the one to read first.
    pub is_primary: bool,
    /// The role's name for it.
    pub label: String,
    /// When.
    pub created_at: Timestamp,
}

/// How one run's part of an append ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOutcome {
    /// Written (now, or by an earlier try of the same append).
    Appended,
    /// The run row has another epoch or head: another driver owns the run. Nothing was written; stop driving.
    Fenced,
}

/// Runs as their users see them, and the inbox through which they are steered.
#[async_trait]
pub trait Runs: Send + Sync {
    /// Writes a run with its first events (seq 1, 2, …). When `request_id` is given and was used before by the
    /// same user, nothing is written: [`Created::Existing`] if the spec is the same, else
    /// [`StoreError::Conflict`].
    async fn create_run(&self, run: NewRun) -> Result<Created, StoreError>;

    /// The run that `user_id` created with `request_id`, also a deleted one; none for an empty one.
    async fn run_of_request(&self, user_id: &str, request_id: &str) -> Result<Option<RunId>, StoreError>;

    /// What the runs of `user_id` have used in the minute and in the day before `now`, also deleted ones. Those that
    /// come after `now`, which a clock has made that was ahead, count only as live.
    async fn used_by(&self, user_id: &str, now: Timestamp) -> Result<UsedBy, StoreError>;

    /// The run, or [`StoreError::NotFound`]; also when it was [deleted](RunLists::delete_run).
    async fn run(&self, run: RunId) -> Result<RunSummary, StoreError>;

    /// Every node of the run with its parent, parents first; empty for unknown and archived runs.
    async fn node_parents(&self, run: RunId) -> Result<Vec<(NodeId, Option<NodeId>)>, StoreError>;

    /// Puts a command in the inbox of a run that has not ended. From then on the run can be claimed even if it is
    /// paused or in quarantine (see [`Leases::claim`]). [`StoreError::NotFound`] for an unknown run.
    ///
    /// A request id makes it idempotent within the run: the same command again writes nothing and returns what has
    /// become of it, also after the end of the run. Another command with the same request id is
    /// [`StoreError::Conflict`].
    ///
    /// A command leaves the inbox with the events that carry it out, with a refusal, or with the end of the run, which
    /// refuses it.
    async fn send_command(&self, run: RunId, command: Command) -> Result<Sent, StoreError>;

    /// The reply to the command that was sent with `request_id`. None as long as it has none, and for unknown ones.
    /// Replies are kept until the run is removed or moved to an archive.
    async fn reply(&self, run: RunId, request_id: &str) -> Result<Option<Reply>, StoreError>;

    /// Answers commands without an event: those that were refused, and those that changed nothing. What they were
    /// judged by must have been written. The same answers again change nothing. False, and nothing is written, if the
    /// epoch of the run is another one.
    async fn answer(&self, run: RunId, epoch: u64, answers: Vec<Answer>) -> Result<bool, StoreError>;

    /// The unanswered commands of the runs that `driver` owns, by run, oldest first.
    async fn commands(&self, driver: &str) -> Result<Vec<PendingCommand>, StoreError>;
}

/// A run to be written.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// Its id.
    pub run_id: RunId,
    /// What was asked for.
    pub spec: RunSpec,
    /// Makes the call idempotent per user; empty for none.
    pub request_id: String,
    /// Its first events, from seq 1.
    pub events: Vec<Event>,
    /// Their projection.
    pub projection: Projection,
    /// Their documents.
    pub documents: Vec<DocumentOp>,
    /// Their conversations.
    pub sessions: Vec<Session>,
}

/// What a user's runs have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsedBy {
    /// Runs that have not ended.
    pub live: u64,
    /// Runs of the last minute.
    pub new: u64,
    /// Tokens that the last day's runs have used, and that those of them may still use which have not ended.
    pub tokens: u64,
    /// Millionths of a US dollar of the same.
    pub cost_micros: u64,
}

/// How `create_run` ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// Written.
    New(RunId),
    /// The same request made this run before.
    Existing(RunId),
}

/// A page, and whether there is more behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// True when a further page would not be empty.
    pub more: bool,
}

/// Documents outside of appends.
#[async_trait]
pub trait Documents: Send + Sync {
    /// The document, or [`StoreError::NotFound`]; also when its run was [deleted](RunLists::delete_run).
    async fn document(&self, id: DocumentId) -> Result<Document, StoreError>;

    /// The document and its place, as they are now or as they were after the event `at_seq` of its run, however large
    /// that is. [`StoreError::NotFound`] also before the document was created, and for one of a project at any event:
    /// only runs keep the texts that were.
    async fn document_at(&self, id: DocumentId, at_seq: Option<u64>) -> Result<PlacedDocument, StoreError>;

    /// The texts that a document of a run has had, the first one first: those of events after `after`, at most `limit`.
    /// None for a document of a project. [`StoreError::NotFound`] as [`document`](Self::document).
    async fn document_versions(
        &self,
        id: DocumentId,
        after: u64,
        limit: usize,
    ) -> Result<Page<DocumentVersion>, StoreError>;

    /// The text of a document from byte `from` on, at most `max` bytes of it (4 or more, so that any character fits),
    /// or [`StoreError::NotFound`]. Bytes are counted from the first that the document ever had, also after its body
    /// has lost its beginning to the limit or was replaced, so that whoever follows a document that grows gets each
    /// byte once.
    async fn document_tail(&self, id: DocumentId, from: u64, max: usize) -> Result<DocumentTail, StoreError>;

    /// A page of documents, by path, then id. Those of one run come in the order of their tree: each after the one
    /// above it, and those below the same one in the order in which they were created.
    async fn list_documents(&self, query: DocumentQuery) -> Result<Page<DocumentSummary>, StoreError>;

    /// The documents of projects that were written after `since`, where the context allows them: of all projects if
    /// its scope is global. One that was deleted since is not among them.
    async fn documents_changed(
        &self,
        context: &RunContext,
        since: Timestamp,
        limit: usize,
    ) -> Result<ChangedDocuments, StoreError>;

    /// Writes a document whole, with its passages, replacing body, title and props of one with the same id. A source
    /// with the same project and path but another id is [`StoreError::Conflict`]; an unknown project is
    /// [`StoreError::NotFound`].
    async fn put_document(&self, document: Document) -> Result<(), StoreError>;

    /// The same for a source that a tool writes, whose props name its run. False, and nothing is written, where a
    /// document stands whose props name none: people wrote it.
    async fn put_tool_document(&self, document: Document) -> Result<bool, StoreError>;

    /// Removes a source. If `import` is given, only if that [import](tree_agent_contract::DocumentImport::source) wrote
    /// it last; false, and nothing is removed, if not. [`StoreError::NotFound`] for an unknown document and for one of
    /// a run.
    async fn delete_source(&self, id: DocumentId, import: Option<&str>) -> Result<bool, StoreError>;
}

/// The end of a document's text, or the beginning of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentTail {
    /// Where `bytes` begin: at what was asked for, or behind it when the text there is no longer kept.
    pub start: u64,
    /// Where the text of the document ends.
    pub end: u64,
    /// Where the present text begins. It moves on when the text is replaced: what was read before is no part of it.
    pub text_start: u64,
    /// When the document was last written whole. Text that was added since does not count.
    pub written_at: Timestamp,
    /// UTF-8, from `start` to `end` or as far as was asked for; empty when `start` is at or beyond the end. Begins
    /// within a character when `start` does, and ends with a whole one.
    pub bytes: Vec<u8>,
}

/// Documents that were written after some moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedDocuments {
    /// The first of them by path, then id; as many as were asked for.
    pub ids: Vec<DocumentId>,
    /// How many there are.
    pub total: u64,
}

/// A document and its place in the tree of its run.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedDocument {
    /// The document.
    pub document: Document,
    /// The one above it; none for the first of a run and for documents of projects.
    pub parent_id: Option<DocumentId>,
}

/// One of the texts that a document has had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentVersion {
    /// The event with which it got this text.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// Bytes of the text. Readers see the end of one over the limit.
    pub bytes: u64,
    /// True if the text replaced the one before, also for the first; false if it continued it.
    pub replaced: bool,
}

/// Which documents to list.
#[derive(Clone, Debug, Default)]
pub struct DocumentQuery {
    /// Only documents of these projects; empty for any.
    pub project_ids: Vec<ProjectId>,
    /// Only documents of this run.
    pub run_id: Option<RunId>,
    /// Only documents right below this one.
    pub parent_id: Option<DocumentId>,
    /// Only documents with this `doc_role`.
    pub doc_role: Option<String>,
    /// Only documents of the homework of this run (`homework_run_id`).
    pub homework_run_id: Option<RunId>,
    /// Only documents of this branch.
    pub branch_id: Option<String>,
    /// Only these kinds; empty for all.
    pub kinds: Vec<DocumentKind>,
    /// Only paths that begin with this.
    pub path_prefix: String,
    /// Only rows after this one (path, then id). Of a run, only the id counts.
    pub after: Option<(String, DocumentId)>,
    /// Rows, 1 to [`PAGE_MAX`](tree_agent_contract::limits::PAGE_MAX).
    pub limit: usize,
}
