//! The executor: leaf work that returns artifacts and a result.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with_macros::skip_serializing_none;

use super::aggregator::ChildOutcome;
use super::{CallContext, ScratchpadDraft};
use crate::citation::Citation;
use crate::disagreement::Disagreement;
use crate::error::{Checks, Invalid};
use crate::homework::BranchTask;
use crate::limits;
use crate::result::{HintType, ResultKind, SuccessAssessment};
use crate::status::named_enum;

named_enum! {
    /// What kind of action an executor took.
    ActionKind {
        /// Thought about it.
        Analysis = "analysis",
        /// Called a tool.
        ToolCall = "tool_call",
        /// Wrote a document.
        Document = "document",
    }
}

named_enum! {
    /// What kind of artifact a role returns.
    DraftType {
        /// A document, with title and Markdown.
        Document = "document",
        /// A JSON object.
        Json = "json",
    }
}

/// One thing the executor did.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Action {
    /// What kind.
    pub kind: ActionKind,
    /// In words.
    pub note: String,
    /// The tool, for tool calls.
    pub tool_name: Option<String>,
    /// Its arguments.
    pub tool_args: Option<Map<String, Value>>,
}

/// An artifact as a role returns it, before it has an id.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactDraft {
    /// Document or JSON.
    pub r#type: DraftType,
    /// The role's name for it, unique within the answer.
    pub label: String,
    /// The document's title.
    pub title: Option<String>,
    /// The document's body.
    pub document_markdown: Option<String>,
    /// The JSON object.
    pub json_payload: Option<Map<String, Value>>,
    /// True for the one to read first.
    #[serde(default)]
    pub is_primary: bool,
    /// What supports its claims, checked by the role service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub citations: Vec<Citation>,
    /// Statements that cite nothing. The role service counts them in the answer of a model that is to cite.
    pub uncited: Option<u64>,
    /// Sources of it that disagree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disagreements: Vec<Disagreement>,
}

impl ArtifactDraft {
    /// A document that is read first.
    pub fn document(label: &str, title: impl Into<String>, markdown: impl Into<String>) -> Self {
        Self {
            r#type: DraftType::Document,
            label: label.to_owned(),
            title: Some(title.into()),
            document_markdown: Some(markdown.into()),
            json_payload: None,
            is_primary: true,
            citations: Vec::new(),
            disagreements: Vec::new(),
            uncited: None,
        }
    }

    /// A JSON object.
    pub fn json(label: &str, payload: Map<String, Value>) -> Self {
        Self {
            r#type: DraftType::Json,
            title: None,
            document_markdown: None,
            json_payload: Some(payload),
            is_primary: false,
            ..Self::document(label, "", "")
        }
    }
}

/// What the parent should read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentHintDraft {
    /// Documents or JSON.
    pub hint_type: HintType,
    /// Labels of artifacts in the same answer.
    pub artifact_labels: Vec<String>,
}

/// A result as a role returns it.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResultDraft {
    /// What it consists of.
    pub kind: ResultKind,
    /// In a few sentences.
    pub summary: String,
    /// The role's own judgement.
    pub success_assessment: Option<SuccessAssessment>,
    /// What was found, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key_findings: Vec<String>,
    /// What is missing, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
    /// Label of the artifact to read first.
    pub primary_artifact_label: Option<String>,
    /// What the parent should read.
    pub parent_hint: ParentHintDraft,
}

impl ResultDraft {
    /// A result about which there is nothing else to say. The artifact `label` is read first, also by the parent.
    pub fn new(kind: ResultKind, summary: impl Into<String>, label: &str) -> Self {
        let hint_type = match kind {
            ResultKind::Json => HintType::ReadJson,
            ResultKind::Document | ResultKind::Hybrid => HintType::ReadDocuments,
        };
        Self {
            kind,
            summary: summary.into(),
            success_assessment: None,
            key_findings: Vec::new(),
            gaps: Vec::new(),
            primary_artifact_label: Some(label.to_owned()),
            parent_hint: ParentHintDraft { hint_type, artifact_labels: vec![label.to_owned()] },
        }
    }
}

/// The answer of an executor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutorOutput {
    /// What it did.
    #[serde(default)]
    pub actions: Vec<Action>,
    /// What it made.
    #[serde(default)]
    pub artifacts: Vec<ArtifactDraft>,
    /// What it returns.
    pub result: ResultDraft,
    /// What goes to the scratchpad.
    pub scratchpad: ScratchpadDraft,
}

/// The input of an executor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecuteInput {
    /// The node and its run.
    pub call: CallContext,
    /// What the siblings of earlier bands returned.
    pub earlier: Vec<ChildOutcome>,
    /// What it is in homework, if it is a task of homework. Then `earlier` are the results of its branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Box<BranchTask>>,
}

impl ExecutorOutput {
    /// Checks every rule of the executor contract.
    pub fn validate(&self) -> Result<(), Invalid> {
        let mut c = Checks::default();
        self.scratchpad.check(&mut c);
        for (i, action) in self.actions.iter().enumerate() {
            c.at_most(format_args!("actions[{i}].note"), &action.note, limits::TEXT_BYTES);
        }
        check_returned(&self.artifacts, &self.result, &mut c);
        c.finish()
    }
}

/// The rules that executor and aggregator share: artifacts are complete, and labels that are named exist.
pub(super) fn check_returned(artifacts: &[ArtifactDraft], result: &ResultDraft, c: &mut Checks) {
    c.range("artifacts", artifacts.len() as u64, 0..=limits::ARTIFACTS as u64);
    let mut labels = BTreeSet::new();
    for (i, artifact) in artifacts.iter().enumerate() {
        let at = format_args!("artifacts[{i}]");
        c.text(format_args!("{at}.label"), &artifact.label, limits::LABEL_BYTES);
        c.require(labels.insert(artifact.label.as_str()), format_args!("{at}.label"), || {
            format!("{:?} is used twice; labels must be unique within an answer", artifact.label)
        });
        let citations = artifact.citations.len() as u64;
        c.range(format_args!("{at}.citations"), citations, 0..=limits::CITATIONS as u64);
        let pairs = artifact.disagreements.len() as u64;
        c.range(format_args!("{at}.disagreements"), pairs, 0..=limits::DISAGREEMENTS as u64);
        for (j, pair) in artifact.disagreements.iter().enumerate() {
            pair.check(format_args!("{at}.disagreements[{j}]"), c);
        }
        for (j, citation) in artifact.citations.iter().enumerate() {
            citation.check(format_args!("{at}.citations[{j}]"), c);
        }
        match artifact.r#type {
            DraftType::Document => {
                c.text(
                    format_args!("{at}.title"),
                    artifact.title.as_deref().unwrap_or_default(),
                    limits::TITLE_BYTES,
                );
                c.text(
                    format_args!("{at}.documentMarkdown"),
                    artifact.document_markdown.as_deref().unwrap_or_default(),
                    limits::DOCUMENT_BYTES,
                );
            }
            DraftType::Json => match &artifact.json_payload {
                None => c.require(false, format_args!("{at}.jsonPayload"), || {
                    "is required for type \"json\"".into()
                }),
                Some(payload) => {
                    let bytes = serde_json::to_string(payload).map(|s| s.len()).unwrap_or(usize::MAX);
                    c.require(bytes <= limits::JSON_BYTES, format_args!("{at}.jsonPayload"), || {
                        format!("is {bytes} bytes of JSON; at most {} are allowed", limits::JSON_BYTES)
                    });
                }
            },
        }
    }
    c.text("result.summary", &result.summary, limits::TEXT_BYTES);
    let named = result
        .parent_hint
        .artifact_labels
        .iter()
        .enumerate()
        .map(|(i, label)| (format!("result.parentHint.artifactLabels[{i}]"), label))
        .chain(
            result
                .primary_artifact_label
                .iter()
                .map(|label| ("result.primaryArtifactLabel".to_owned(), label)),
        );
    for (field, label) in named {
        c.require(labels.contains(label.as_str()), field, || {
            format!(
                "{label:?} is no artifact of this answer; artifacts are [{}]",
                labels.iter().copied().collect::<Vec<_>>().join(", ")
            )
        });
    }
    let has = |wanted: DraftType| artifacts.iter().any(|a| a.r#type == wanted);
    c.require(result.kind == ResultKind::Json || has(DraftType::Document), "result.kind", || {
        format!("is \"{}\" but the answer has no document artifact", result.kind)
    });
}
