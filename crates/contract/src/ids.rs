//! Typed ids, all registered here so that a run id can never be passed where a node id is meant.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::FieldError;

/// Namespace of every name-based id in this project (a random UUID, fixed for ever).
const NAMESPACE: Uuid = Uuid::from_u128(0x6f0c_2f0e_4d5b_4b3e_9a51_7d1c_52f0_a9e4);

macro_rules! uuid_ids {
    ($($(#[$doc:meta])* $name:ident $label:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// What this id is called in error messages and field paths.
            pub const LABEL: &'static str = $label;

            /// A name-based id (UUID version 5): the same parts give the same id, which makes retries safe.
            pub fn derive(parts: &[&[u8]]) -> Self {
                let mut name = Vec::with_capacity(64);
                name.extend_from_slice($label.as_bytes());
                for part in parts {
                    name.extend_from_slice(&(part.len() as u32).to_be_bytes());
                    name.extend_from_slice(part);
                }
                Self(Uuid::new_v5(&NAMESPACE, &name))
            }

            /// The 16 bytes of the id.
            pub fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }

            /// Parses the hyphenated form; the error names `field`.
            pub fn parse_field(field: &str, text: &str) -> Result<Self, FieldError> {
                Uuid::try_parse(text).map(Self).map_err(|_| {
                    FieldError::new(field, format!("{text:?} is not a {} id; expected a UUID such as 0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b", $label))
                })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($label, ":{}"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = FieldError;
            fn from_str(text: &str) -> Result<Self, FieldError> {
                Self::parse_field($label, text)
            }
        }

        impl From<Uuid> for $name {
            fn from(id: Uuid) -> Self {
                Self(id)
            }
        }
    )*};
}

uuid_ids! {
    /// One run: one objective, one tree, one log. Chosen by the gateway (UUID version 7).
    RunId "run";
    /// One agent node. Derived from its parent and step, so that a repeated decision names the same node.
    NodeId "node";
    /// One version of a node's plan.
    PlanId "plan";
    /// One artifact (document or JSON) that a node returned.
    ArtifactId "artifact";
    /// One document.
    DocumentId "document";
    /// One project: a named set of documents.
    ProjectId "project";
    /// One event. Derived from run, epoch and seq: an append repeated after an ambiguous commit has the same ids.
    EventId "event";
}

impl NodeId {
    /// The root node of `run`.
    pub fn root(run: RunId) -> Self {
        Self::derive(&[run.as_bytes(), b"root"])
    }

    /// The child that `parent` delegates `step` of plan `version` to.
    pub fn child(parent: NodeId, version: u32, step: &StepId) -> Self {
        Self::derive(&[parent.as_bytes(), &version.to_be_bytes(), step.as_str().as_bytes()])
    }
}

impl PlanId {
    /// Version `version` (1, 2, …) of the plan of `node`.
    pub fn of(node: NodeId, version: u32) -> Self {
        Self::derive(&[node.as_bytes(), &version.to_be_bytes()])
    }
}

impl ArtifactId {
    /// The artifact that `node` returned under `label` in its result number `result` (0 for the first).
    pub fn of(node: NodeId, result: u32, label: &str) -> Self {
        Self::derive(&[node.as_bytes(), &result.to_be_bytes(), label.as_bytes()])
    }
}

impl DocumentId {
    /// What a citation names that names no document.
    pub const NONE: Self = Self(Uuid::nil());

    /// The scratchpad of `node`.
    pub fn scratchpad(node: NodeId) -> Self {
        Self::derive(&[node.as_bytes(), b"scratchpad"])
    }

    /// The document above all others of `run`.
    pub fn workspace(run: RunId) -> Self {
        Self::derive(&[run.as_bytes(), b"workspace"])
    }

    /// The plan of the homework that `node` does.
    pub fn plan(node: NodeId) -> Self {
        Self::derive(&[node.as_bytes(), b"plan"])
    }

    /// The scratchpad of a branch of the homework that `node` does.
    pub fn branch(node: NodeId, branch: &str) -> Self {
        Self::derive(&[node.as_bytes(), branch.as_bytes(), b"branch"])
    }

    /// The summary of one iteration of the homework that `node` does.
    pub fn iteration(node: NodeId, iteration: u32) -> Self {
        Self::derive(&[node.as_bytes(), &iteration.to_be_bytes(), b"iteration"])
    }

    /// The source document at `path` of `project`: importing it again replaces it.
    pub fn source(project: ProjectId, path: &str) -> Self {
        Self::derive(&[project.as_bytes(), path.as_bytes(), b"source"])
    }

    /// A document that `run` keeps at `path` in addition to those of its nodes, such as a long answer of a tool.
    pub fn of_run(run: RunId, path: &str) -> Self {
        Self::derive(&[run.as_bytes(), path.as_bytes(), b"run"])
    }

    /// The document behind a document artifact.
    pub fn of_artifact(artifact: ArtifactId) -> Self {
        Self::derive(&[artifact.as_bytes(), b"artifact"])
    }
}

impl EventId {
    /// Bits of an id that hold the seq; those above it hold the epoch.
    const SEQ_BITS: u32 = 40;
    /// Bits of an id that hold the epoch.
    const EPOCH_BITS: u32 = 22;

    /// The id of the event that the writer with `epoch` put at `seq`: a UUID of version 8 made of the last 60 bits of
    /// the run's id, 22 bits of the epoch and 40 of the seq. It is composed of its parts instead of a digest, because a
    /// SHA-1 for each event took a tenth of the driver's instructions.
    pub fn of(run: RunId, epoch: u64, seq: u64) -> Self {
        let run = run.0.as_u128() & ((1 << 60) - 1);
        let place = u128::from(epoch & ((1 << Self::EPOCH_BITS) - 1)) << Self::SEQ_BITS
            | u128::from(seq & ((1 << Self::SEQ_BITS) - 1));
        // 48 bits, the version, 12 bits, the variant, 62 bits.
        let bits = (run >> 12) << 80 | 0x8 << 76 | (run & 0xfff) << 64 | 0b10 << 62 | place;
        Self(Uuid::from_u128(bits))
    }

    /// The epoch of the writer.
    pub fn epoch(self) -> u64 {
        (self.0.as_u128() >> Self::SEQ_BITS) as u64 & ((1 << Self::EPOCH_BITS) - 1)
    }
}

/// A step of a plan, as named by the planner: unique within the node, and stable when the node replans.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepId(String);

impl StepId {
    /// Wraps a planner's step id. Emptiness and length are checked with the plan it belongs to.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// The id of a step that a person adds to a plan of `run`: the same for the same place of the same request, another
    /// one for every other request, and none that a planner would choose.
    pub fn added(run: RunId, request_id: &str, band: u32, step: u32) -> Self {
        let name = format!("step/{run}/{band}/{step}/{request_id}");
        let id = Uuid::new_v5(&NAMESPACE, name.as_bytes()).simple().to_string();
        Self(format!("new-{}", &id[..12]))
    }

    /// The id as the planner wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step:{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_ids_are_stable_and_apart() {
        let run = RunId(Uuid::from_u128(7));
        let root = NodeId::root(run);
        assert_eq!(root, NodeId::root(run));
        let a = NodeId::child(root, 1, &StepId::new("a"));
        assert_ne!(a, NodeId::child(root, 2, &StepId::new("a")));
        assert_ne!(a, NodeId::child(root, 1, &StepId::new("b")));
        assert_ne!(EventId::of(run, 1, 12), EventId::of(run, 11, 2));
    }

    #[test]
    fn an_added_step_is_named_after_its_run_its_request_and_its_place() {
        let (run, other) = (RunId(Uuid::from_u128(7)), RunId(Uuid::from_u128(8)));
        let added = StepId::added(run, "r", 1, 2);
        assert_eq!(added, StepId::added(run, "r", 1, 2));
        let others = [(run, "s", 1, 2), (run, "r", 2, 1), (other, "r", 1, 2)];
        assert!(others.into_iter().all(|(run, request, b, s)| StepId::added(run, request, b, s) != added));
        assert!(added.as_str().starts_with("new-") && added.as_str().len() == 16);
    }

    #[test]
    fn an_event_id_is_made_of_its_parts() {
        let run = RunId(Uuid::parse_str("0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b").unwrap());
        let id = EventId::of(run, 3, 258).0;
        assert_eq!(id.to_string(), "1c73f7f6-c1d2-8e4b-8000-030000000102");
        assert_eq!((id.get_version_num(), id.get_variant()), (8, uuid::Variant::RFC4122));
        assert_eq!(EventId(id).epoch(), 3);
        let most = EventId::of(run, u64::MAX, u64::MAX).0;
        assert_eq!(most.to_string(), "1c73f7f6-c1d2-8e4b-bfff-ffffffffffff");
    }

    #[test]
    fn a_malformed_id_names_its_field() {
        let err = NodeId::parse_field("node_id", "nope").unwrap_err();
        assert_eq!(err.field, "node_id");
        assert!(err.message.contains("\"nope\""), "{err}");
    }
}
