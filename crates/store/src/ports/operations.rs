//! What operators need: to look at what is stored as it is, and to mend what can be derived.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tree_agent_contract::ids::EventId;
use tree_agent_contract::{DocumentId, NodeId, RunId, RunSpec, SessionId, Timestamp};

use super::{Projection, StoredEdge};
use crate::cells::Row;
use crate::error::StoreError;

/// What operators need.
#[async_trait]
pub trait Operations: Send + Sync {
    /// A cheap round trip to the store; an error when it cannot serve now.
    async fn ping(&self) -> Result<(), StoreError>;

    /// The version of the schema that this store has; 0 for one without a schema.
    fn schema_version(&self) -> u32 {
        0
    }

    /// How many connections there are by what they do, for a store that has some: those that are `idle`, `in_use` and
    /// may be there at the most (`max`), and the calls that wait for one (`waiting`).
    fn connections(&self) -> Vec<(&'static str, usize)> {
        Vec::new()
    }

    /// Keeps what a driver says about itself, for as long as its row is there.
    async fn note_driver(&self, _driver: &str, _about: &DriverAbout) -> Result<(), StoreError> {
        Ok(())
    }

    /// The drivers with a row, by their names. It goes an hour after the lease.
    async fn drivers(&self) -> Result<Vec<DriverState>, StoreError> {
        Ok(Vec::new())
    }

    /// The drivers, and the runs that have not ended. It looks at all of these.
    async fn cluster(&self) -> Result<ClusterState, StoreError> {
        Ok(ClusterState::default())
    }

    /// Ids of runs after `after` (none: from the first), ascending, at most `limit`.
    async fn run_ids(&self, after: Option<RunId>, limit: usize) -> Result<Vec<RunId>, StoreError>;

    /// Everything that is stored of a run beside its events, read at one moment and not interpreted, so that rows
    /// which nobody could have written can be seen.
    async fn stored(&self, run: RunId) -> Result<Stored, StoreError>;

    /// Events with `seq > after_seq` as they are stored, in order, at most `limit` and
    /// [`READ_BYTES`](crate::READ_BYTES).
    async fn stored_events(
        &self,
        run: RunId,
        after_seq: u64,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError>;

    /// Chunks of the run's documents, by document and event, after `after`, at most `limit`.
    async fn document_chunks(
        &self,
        run: RunId,
        after: Option<(DocumentId, u64)>,
        limit: usize,
    ) -> Result<Vec<StoredChunk>, StoreError>;

    /// Replaces every derived row and column of a run by `whole`, as long as the head is still `head_seq`; false when
    /// it moved.
    async fn replace_projection(
        &self,
        run: RunId,
        head_seq: u64,
        whole: WholeProjection,
    ) -> Result<bool, StoreError>;
}

/// What a driver says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DriverAbout {
    /// Of its program.
    pub version: String,
    /// The replicas of other services, by the names of these, such as `executors`.
    pub peers: BTreeMap<String, Vec<PeerState>>,
}

/// A replica of a service, as a driver sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PeerState {
    /// Its address.
    pub address: String,
    /// Of its program; empty if it has not said it.
    pub version: String,
    /// It answers.
    pub answers: bool,
}

/// A driver and its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverState {
    /// Its name.
    pub id: String,
    /// Milliseconds until its lease ends, by the store's clock; negative if it has ended.
    pub ends_in_ms: i64,
    /// Runs that it owns and that have not ended.
    pub runs: u64,
    /// What it says about itself.
    pub about: DriverAbout,
}

/// The drivers of a cluster, and its runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterState {
    /// Those with a row, by their names. It goes an hour after the lease.
    pub drivers: Vec<DriverState>,
    /// Runs that have not ended.
    pub live: u64,
    /// Those of them that could be driven, and that nobody owns.
    pub waiting: u64,
    /// Milliseconds since the first one was created that no driver has ever owned.
    pub longest_wait_ms: u64,
}

/// What is stored of a run beside its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// True when everything but the run's row was moved to an archive.
    pub archived: bool,
    /// The head that the run row names.
    pub head_seq: u64,
    /// The epoch that the run row names.
    pub epoch: u64,
    /// Events in the log.
    pub events: u64,
    /// Seq of the last of them; 0 for none.
    pub last_seq: u64,
    /// The run's own row, then its nodes, plans and artifacts, each by id.
    pub rows: Vec<Row>,
    /// Its documents, by id.
    pub documents: Vec<DocumentRecord>,
    /// Its conversations, by id.
    pub sessions: Vec<SessionId>,
}

/// What the row of a document says beside its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentRecord {
    /// The document.
    pub id: DocumentId,
    /// What it is, as it is stored.
    pub type_key: String,
    /// The last event before its chunks.
    pub base_seq: u64,
    /// The first event at which its text is known.
    pub created_seq: u64,
    /// Its place.
    pub edge: Option<StoredEdge>,
}

/// Text that a document grew by with an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredChunk {
    /// The document.
    pub document_id: DocumentId,
    /// The event.
    pub seq: u64,
    /// Where the chunk begins, counted from the first byte that the document ever had.
    pub start_byte: u64,
    /// The text.
    pub body: String,
    /// True if it is the whole text of the document from here on.
    #[serde(default, skip_serializing_if = "is_false")]
    pub replaces: bool,
    /// When.
    pub created_at: Timestamp,
}

// Serde hands over a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// An event as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredEvent {
    /// Its place.
    pub seq: u64,
    /// Its id, derived from run, epoch and seq by its writer.
    pub id: EventId,
    /// Its node.
    pub node_id: NodeId,
    /// The parent of that node.
    pub parent_node_id: Option<NodeId>,
    /// Its time.
    pub timestamp: Timestamp,
    /// Its type, such as `tree.node_created`.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Its payload as JSON text.
    #[serde(with = "raw_json")]
    pub payload: String,
}

/// JSON text within other JSON, byte for byte.
mod raw_json {
    use serde::ser::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::value::RawValue;

    pub(super) fn serialize<S: Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<&RawValue>(text).map_err(S::Error::custom)?.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
        Box::<RawValue>::deserialize(from).map(|raw| raw.get().to_owned())
    }
}

/// Everything that can be derived from the whole log of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct WholeProjection {
    /// What was asked for.
    pub spec: RunSpec,
    /// The root of the tree.
    pub root_node_id: NodeId,
    /// Time of the first event that the run wrote itself.
    pub created_at: Timestamp,
    /// Time of the last event.
    pub updated_at: Timestamp,
    /// All rows; each node, plan and artifact once, and the run's own row. Of a fork, those that its own events touch.
    pub rows: Projection,
    /// What a fork does differently, in words.
    pub fork_edits: Vec<String>,
}
