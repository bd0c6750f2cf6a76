//! Payloads about which there is little to say.

use super::{NodeCreated, NodeStatusChanged, RunCreated, RunStatusChanged, SCHEMA_VERSION};
use crate::ids::NodeId;
use crate::run::RunSpec;
use crate::status::{NodeStatus, Role, RunStatus};

impl RunCreated {
    /// The first event of a log of this schema version, with behaviour version 1.
    pub fn new(spec: RunSpec, root_node_id: NodeId) -> Self {
        Self { spec, root_node_id, schema_version: SCHEMA_VERSION, behaviour_version: 1 }
    }
}

impl NodeCreated {
    /// A root called `title`.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }
}

impl RunStatusChanged {
    /// Why the run failed, or ended as partial.
    pub fn error(&self) -> Option<String> {
        self.reason.clone().filter(|_| self.status == RunStatus::Failed || self.partial)
    }
}

impl NodeStatusChanged {
    /// A status about which there is nothing else to say.
    pub const fn new(status: NodeStatus, role: Role) -> Self {
        Self { status, role, message: None, progress: None, attempt: None, call: None, why: None }
    }
}
