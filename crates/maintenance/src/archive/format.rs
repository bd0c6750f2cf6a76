//! The lines of an archive.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tree_agent_contract::ids::EventId;
use tree_agent_contract::session::Session;
use tree_agent_contract::{NodeId, RunId, RunStatus, Timestamp};
use tree_agent_store::{RunRecord, Segment, StoredChunk, StoredDocument, StoredEvent};

/// What `format` must say.
pub(super) const FORMAT: &str = "tree-agent-run";
/// The newest version of the format; older ones are read for ever.
pub(super) const VERSION: u32 = 5;
/// The version of archives of runs that are no forks.
const WITHOUT_FORKS: u32 = 4;

/// One line.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Line {
    Run(Head),
    Event(EventLine),
    Document(Box<StoredDocument>),
    Chunk(Box<StoredChunk>),
    Session(Box<Session>),
    End(End),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Head {
    pub(super) format: String,
    pub(super) version: u32,
    pub(super) run_id: RunId,
    pub(super) request_id: String,
    pub(super) epoch: u64,
    pub(super) head_seq: u64,
    pub(super) status: RunStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) deleted_at: Option<Timestamp>,
    /// Who wrote the parts of its log before its own first event.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) segments: Vec<Segment>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventLine {
    seq: u64,
    id: EventId,
    node_id: NodeId,
    parent_node_id: Option<NodeId>,
    timestamp: Timestamp,
    r#type: String,
    /// As it is stored, byte for byte.
    payload: Box<RawValue>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct End {
    pub(super) events: u64,
    pub(super) documents: u64,
    #[serde(default)]
    pub(super) chunks: u64,
    #[serde(default)]
    pub(super) sessions: u64,
    pub(super) sha256: String,
}

impl Head {
    pub(super) fn of(record: &RunRecord) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: if record.segments.is_empty() { WITHOUT_FORKS } else { VERSION },
            run_id: record.run_id,
            request_id: record.request_id.clone(),
            epoch: record.epoch,
            head_seq: record.head_seq,
            status: record.status,
            deleted_at: record.deleted_at,
            // All of it is stored under the run itself when it comes back.
            segments: record.segments.iter().map(|part| Segment { run: record.run_id, ..*part }).collect(),
        }
    }

    pub(super) fn record(self) -> RunRecord {
        RunRecord {
            run_id: self.run_id,
            request_id: self.request_id,
            epoch: self.epoch,
            head_seq: self.head_seq,
            status: self.status,
            archive_sha256: None,
            deleted_at: self.deleted_at,
            segments: self.segments,
        }
    }
}

impl EventLine {
    pub(super) fn of(event: StoredEvent) -> Result<Self, serde_json::Error> {
        Ok(Self {
            seq: event.seq,
            id: event.id,
            node_id: event.node_id,
            parent_node_id: event.parent_node_id,
            timestamp: event.timestamp,
            r#type: event.event_type,
            payload: RawValue::from_string(event.payload)?,
        })
    }

    pub(super) fn stored(self) -> StoredEvent {
        StoredEvent {
            seq: self.seq,
            id: self.id,
            node_id: self.node_id,
            parent_node_id: self.parent_node_id,
            timestamp: self.timestamp,
            event_type: self.r#type,
            payload: self.payload.get().to_owned(),
        }
    }
}
