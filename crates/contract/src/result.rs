//! The result envelope: how a node tells its parent exactly what to read.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with_macros::skip_serializing_none;

use crate::ids::{ArtifactId, DocumentId};
use crate::status::named_enum;

named_enum! {
    /// What a result consists of.
    ResultKind {
        /// JSON only.
        Json = "json",
        /// Documents only.
        Document = "document",
        /// Both.
        Hybrid = "hybrid",
    }
}

named_enum! {
    /// What an artifact is.
    ArtifactType {
        /// A document in `onto_documents`.
        Document = "document",
        /// A JSON payload.
        Json = "json",
        /// A short text.
        Summary = "summary",
        /// Anything else.
        Other = "other",
    }
}

named_enum! {
    /// What a parent should read next.
    HintType {
        /// The documents named in the hint.
        ReadDocuments = "read_documents",
        /// The JSON artifacts named in the hint.
        ReadJson = "read_json",
    }
}

/// Whether the success criteria were met, in the role's own judgement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SuccessAssessment {
    /// Met or not.
    pub met: bool,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
}

/// What a node returns. Parents never guess: they read what this names.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TreeAgentResult {
    /// JSON, documents or both.
    pub kind: ResultKind,
    /// The result in a few sentences.
    pub summary: String,
    /// The role's own judgement.
    pub success_assessment: Option<SuccessAssessment>,
    /// What an aggregation found, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key_findings: Vec<String>,
    /// What an aggregation missed, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
    /// The artifact to read first.
    pub primary_artifact_id: Option<ArtifactId>,
    /// Every artifact of the node.
    #[serde(default)]
    pub artifact_ids: Vec<ArtifactId>,
    /// Every document among them.
    #[serde(default)]
    pub document_ids: Vec<DocumentId>,
    /// The payload of the primary JSON artifact, or of the first one.
    pub json_payload: Option<Map<String, Value>>,
    /// The node's scratchpad.
    pub scratchpad_doc_id: Option<DocumentId>,
    /// The end of the node's scratchpad.
    pub scratchpad_tail: Option<String>,
}

impl TreeAgentResult {
    /// True for an answer whose quotes are only the passages nearest to what was not found: its payload names what is
    /// `missing`. How many of them stand in their sources says nothing about it.
    pub fn is_not_found(&self) -> bool {
        let payload = self.json_payload.as_ref();
        let missing = payload.filter(|p| p.get("model").is_some_and(|model| model == "offline"));
        missing.and_then(|p| p.get("missing")).is_some_and(Value::is_string)
            && self.success_assessment.as_ref().is_some_and(|assessment| !assessment.met)
    }
}
