//! Moving ended runs out of the store and back.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tree_agent_contract::document::Document;
use tree_agent_contract::session::Session;
use tree_agent_contract::{DocumentId, RunId, RunStatus, Timestamp};

use super::Segment;
use super::{Store, StoredChunk, StoredEvent, WholeProjection};
use crate::error::StoreError;

/// What operators need to keep a store from growing for ever. What an archive is, and that it is whole, is the caller's
/// matter.
#[async_trait]
pub trait Archives: Store {
    /// Ended runs whose last event is older than `before` and that are not archived, or deleted, by id after `after`,
    /// at most `limit`.
    async fn ended_runs(
        &self,
        before: Timestamp,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<RunId>, StoreError>;

    /// What the run's row says that does not follow from its log.
    async fn run_record(&self, run: RunId) -> Result<RunRecord, StoreError>;

    /// Documents that the run wrote, without their [chunks](super::Operations::document_chunks), by id after `after`,
    /// at most `limit`.
    async fn run_documents(
        &self,
        run: RunId,
        after: Option<DocumentId>,
        limit: usize,
    ) -> Result<Vec<StoredDocument>, StoreError>;

    /// Removes everything of an ended run but its row, which says from here on that it is archived, in one
    /// transaction. False, and nothing changes, when the run has not ended, is archived, or its head is not
    /// `head_seq`. The space of its events may be freed later, by [`tidy`](Self::tidy).
    ///
    /// Of a deleted run, archived or not, the row is removed too: the store then knows nothing of it. Forks of the run
    /// get all that they share with it before.
    async fn prune_run(&self, run: RunId, head_seq: u64, sha256: &str) -> Result<bool, StoreError>;

    /// Brings a run back as it was, in one transaction. False, and nothing changes, when the run is there and not
    /// archived. A run that was pruned for another archive than the one that `record` names is a conflict.
    ///
    /// That the archive is whole, and that its segments are those of its log, is the caller's matter.
    async fn restore_run(
        &self,
        record: RunRecord,
        events: Vec<StoredEvent>,
        documents: Vec<StoredDocument>,
        chunks: Vec<StoredChunk>,
        sessions: Vec<Session>,
        whole: WholeProjection,
    ) -> Result<bool, StoreError>;

    /// Frees the space of archived runs. Names the partitions that were dropped as a whole, which are those of ended
    /// months of which every run is archived. May be repeated, also after it was interrupted.
    async fn tidy(&self) -> Result<Vec<String>, StoreError>;

    /// Makes the partitions of this month and the next `months`; how many that were. Does nothing where there are no
    /// partitions.
    async fn make_partitions(&self, months: u32) -> Result<u32, StoreError>;

    /// The partitions of the log, oldest first; none where there are no partitions.
    async fn partitions(&self) -> Result<Vec<Partition>, StoreError>;
}

/// What a run's row says that does not follow from its log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// The run.
    pub run_id: RunId,
    /// Its request id; empty for none.
    pub request_id: String,
    /// Its epoch.
    pub epoch: u64,
    /// Its head.
    pub head_seq: u64,
    /// Where it stands.
    pub status: RunStatus,
    /// The checksum of its archive: the one that it was pruned for, or the one that it is restored from.
    #[serde(skip)]
    pub archive_sha256: Option<String>,
    /// When it was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<Timestamp>,
    /// The parts of its log that runs before it have written; empty if it is no fork.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<Segment>,
}

/// A document that a run wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredDocument {
    /// The document.
    #[serde(flatten)]
    pub document: Document,
    /// Bytes that its body has lost from its beginning.
    pub dropped_bytes: u64,
    /// The last event before its chunks.
    pub base_seq: u64,
    /// The first event at which its text is known.
    pub created_seq: u64,
    /// Its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge: Option<StoredEdge>,
}

/// The place of a document in the tree of its run (`document_has_document`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredEdge {
    /// The document above it.
    pub parent_id: DocumentId,
    /// The event with which it got its place.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
}

/// A partition of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its name.
    pub name: String,
    /// The least id of a run in it; none for no bound.
    pub from: Option<RunId>,
    /// The least id beyond it; none for no bound.
    pub to: Option<RunId>,
    /// True for the one that takes what no other does.
    pub is_default: bool,
    /// Bytes on disk, indexes included.
    pub bytes: u64,
}
