//! The JSON form of an event.

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::{Event, EventBody};
use crate::ids::{NodeId, RunId};
use crate::time::Timestamp;

/// A payload as it is stored and printed: the body's keys and `nodeId`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Payload<'a> {
    node_id: NodeId,
    #[serde(flatten)]
    body: &'a EventBody,
}

impl Event {
    /// The payload as JSON text, `nodeId` included: what the `payload` column holds.
    pub fn payload_json(&self) -> String {
        serde_json::to_string(&Payload { node_id: self.node_id, body: &self.body })
            .unwrap_or_else(|e| unreachable!("an event body always has a JSON form: {e}"))
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut s = serializer.serialize_struct("Event", 7)?;
        s.serialize_field("runId", &self.run_id)?;
        s.serialize_field("seq", &self.seq)?;
        s.serialize_field("nodeId", &self.node_id)?;
        s.serialize_field("parentNodeId", &self.parent_node_id)?;
        s.serialize_field("timestamp", &self.timestamp)?;
        s.serialize_field("type", self.body.event_type())?;
        s.serialize_field("payload", &Payload { node_id: self.node_id, body: &self.body })?;
        s.end()
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Raw {
            run_id: RunId,
            seq: u64,
            node_id: NodeId,
            parent_node_id: Option<NodeId>,
            timestamp: Timestamp,
            r#type: String,
            payload: Value,
        }
        let raw = Raw::deserialize(deserializer)?;
        let payload = serde_json::to_vec(&raw.payload).map_err(serde::de::Error::custom)?;
        let body = EventBody::from_json(&raw.r#type, &payload).map_err(serde::de::Error::custom)?;
        Ok(Self {
            run_id: raw.run_id,
            seq: raw.seq,
            node_id: raw.node_id,
            parent_node_id: raw.parent_node_id,
            timestamp: raw.timestamp,
            body,
        })
    }
}
