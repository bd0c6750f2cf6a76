//! Events of types that this version does not know.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::EventBody;

/// An event of a type that this version does not know: a newer version wrote it. Readers keep it and pass it on.
/// Drivers do not go on with its run, because they cannot know what follows from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Opaque {
    /// The type, such as `tree.node_created`.
    pub event_type: String,
    /// The payload without `nodeId`; empty if it came in a form that this version cannot read.
    pub payload: Map<String, Value>,
}

impl Opaque {
    /// The event of type `event_type`. A `nodeId` in the payload is left out: it is in the envelope.
    pub fn new(event_type: impl Into<String>, mut payload: Map<String, Value>) -> Self {
        payload.retain(|key, _| key != "nodeId");
        Self { event_type: event_type.into(), payload }
    }
}

impl Serialize for Opaque {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.payload.serialize(serializer)
    }
}

impl From<Opaque> for EventBody {
    fn from(event: Opaque) -> Self {
        EventBody::Opaque(event)
    }
}
