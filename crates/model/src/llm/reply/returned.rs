//! What both executors and aggregators return: artifacts, and a result that refers to them.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tree_agent_contract::role::{ArtifactDraft, CallContext, DraftType, ParentHintDraft, ResultDraft};
use tree_agent_contract::{Citation, HintType, ResultKind, SuccessAssessment, limits};

use super::{cut, line};
use crate::footnotes::Source;

/// Bytes of a label, with room for a number.
const LABEL: usize = limits::LABEL_BYTES - 8;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum ArtifactReply {
    Document(DocumentReply),
    Json(JsonReply),
}

#[derive(Debug, Deserialize, JsonSchema)]
enum DocumentTag {
    #[serde(rename = "document")]
    Document,
}

#[derive(Debug, Deserialize, JsonSchema)]
enum JsonTag {
    #[serde(rename = "json")]
    Json,
}

/// A document.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "the tag is a constant")]
pub(super) struct DocumentReply {
    r#type: DocumentTag,
    /// A short name of your own for what you write, such as answer.
    #[schemars(length(min = 1, max = 40))]
    label: String,
    #[schemars(length(min = 1, max = 120))]
    title: String,
    /// The text. It is asked for after the answer; a model that gives it at once is not asked.
    #[schemars(skip)]
    document_markdown: Option<String>,
    /// True for the one to read first.
    is_primary: Option<bool>,
}

/// Data.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "the tag is a constant")]
pub(super) struct JsonReply {
    r#type: JsonTag,
    /// A short name, unique in your answer.
    #[schemars(length(min = 1, max = 40))]
    label: String,
    #[schemars(length(min = 1, max = 200))]
    json_payload: Vec<Pair>,
    is_primary: Option<bool>,
    /// The sources of the values, if they come from documents.
    #[schemars(length(max = 24))]
    citations: Option<Vec<CitationReply>>,
}

/// Where a value comes from.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CitationReply {
    /// The key and the value, such as `depth: 12 m`.
    #[schemars(length(min = 1, max = 300))]
    claim: String,
    #[schemars(length(min = 1, max = 60))]
    document_id: String,
    /// The exact words of the document that say so.
    #[schemars(length(min = 1, max = 600))]
    quote: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Pair {
    #[schemars(length(min = 1, max = 60))]
    key: String,
    /// The value: text, or a number, list or object written as JSON.
    #[schemars(length(max = 65_536))]
    value: String,
}

/// What your parent is told.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResultReply {
    /// The answer itself in a few sentences.
    #[schemars(length(min = 1, max = 800))]
    pub(super) summary: String,
    pub(super) success_assessment: Assessment,
    /// Label of the artifact to read first.
    #[schemars(length(max = 40))]
    primary_artifact_label: Option<String>,
    parent_hint: Option<Hint>,
}

/// Your judgement by the success criteria.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Assessment {
    /// Whether they are met.
    met: bool,
    /// What is missing.
    #[schemars(length(max = 300))]
    notes: Option<String>,
}

/// What your parent should read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Hint {
    hint_type: Option<HintKind>,
    /// Labels of artifacts of this answer.
    #[schemars(length(max = 4), inner(length(max = 40)))]
    artifact_labels: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum HintKind {
    ReadDocuments,
    ReadJson,
}

/// Corrects common mistakes of models before the answer is checked against the schema.
pub(super) fn tidy(object: &mut Map<String, Value>) {
    let Some(Value::Array(artifacts)) = object.get_mut("artifacts") else {
        object.entry("artifacts").or_insert_with(|| json!([]));
        return;
    };
    for artifact in artifacts {
        if let Some(payload) = artifact.get_mut("jsonPayload")
            && let Value::Object(map) = payload
        {
            // Many models write a plain object instead of the list of pairs that the schema asks for.
            let pairs: Vec<Value> = map
                .iter()
                .map(|(key, value)| {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    json!({"key": key, "value": text})
                })
                .collect();
            *payload = Value::Array(pairs);
        }
    }
}

/// The title of the document that is needed unless only data is wanted.
pub(super) fn needed_document(call: &CallContext) -> Option<&str> {
    (call.deliverable != Some(ResultKind::Json)).then_some(call.title.as_str())
}

/// Converts artifacts and result to the contract. If a document was expected and the model wrote none, or none of its
/// text, `spare` makes one of the summary, so that there is something to read. Labels in references are not corrected;
/// the contract checks them.
pub(super) fn returned(
    artifacts: Vec<ArtifactReply>,
    result: ResultReply,
    call: &CallContext,
    spare: impl Fn(&str) -> String,
) -> (Vec<ArtifactDraft>, ResultDraft) {
    let mut drafts: Vec<ArtifactDraft> = Vec::with_capacity(artifacts.len() + 1);
    for artifact in artifacts {
        let mut draft = draft(artifact);
        // A reference to a label means the first artifact with it, so later ones get another label.
        let taken = |label: &str| drafts.iter().any(|d| d.label == label);
        if let Some(free) = (2..).map(|n| format!("{}-{n}", draft.label)).find(|l| !taken(l))
            && taken(&draft.label)
        {
            draft.label = free;
        }
        drafts.push(draft);
    }
    let summary = cut(&result.summary, limits::TEXT_BYTES);
    for draft in drafts.iter_mut().filter(|draft| draft.r#type == DraftType::Document) {
        draft.document_markdown.get_or_insert_with(|| cut(&spare(&summary), limits::DOCUMENT_BYTES));
    }
    let written = drafts.iter().any(|a| a.r#type == DraftType::Document);
    if drafts.is_empty() || !written && call.deliverable != Some(ResultKind::Json) {
        let taken = |label: &str| drafts.iter().any(|a| a.label == label);
        let label =
            ["result", "document", "the result as a document"].into_iter().find(|label| !taken(label));
        let label = label.unwrap_or("the document of the result");
        let text = cut(&spare(&summary), limits::DOCUMENT_BYTES);
        drafts.push(ArtifactDraft::document(label, line(&call.title, 200), text));
    }
    let has = |wanted| drafts.iter().any(|a| a.r#type == wanted);
    let kind = match (has(DraftType::Document), has(DraftType::Json)) {
        (true, true) => ResultKind::Hybrid,
        (true, false) => ResultKind::Document,
        (false, _) => ResultKind::Json,
    };
    let derived = if has(DraftType::Document) { HintType::ReadDocuments } else { HintType::ReadJson };
    let labels = || drafts.iter().map(|a| a.label.clone()).collect::<Vec<_>>();
    let (hint_type, artifact_labels) = match result.parent_hint {
        Some(hint) if !hint.artifact_labels.is_empty() => {
            let given = hint.hint_type.map(|kind| match kind {
                HintKind::ReadDocuments => HintType::ReadDocuments,
                HintKind::ReadJson => HintType::ReadJson,
            });
            (given.unwrap_or(derived), hint.artifact_labels)
        }
        _ => (derived, labels()),
    };
    let assessment = SuccessAssessment {
        met: result.success_assessment.met,
        notes: result.success_assessment.notes.map(|notes| cut(&notes, limits::TEXT_BYTES)),
    };
    let primary = result.primary_artifact_label.filter(|label| !label.trim().is_empty());
    let result = ResultDraft {
        kind,
        summary,
        success_assessment: Some(assessment),
        primary_artifact_label: primary,
        parent_hint: ParentHintDraft { hint_type, artifact_labels },
        key_findings: Vec::new(),
        gaps: Vec::new(),
    };
    (drafts, result)
}

impl CitationReply {
    /// The citation, which is checked later. Blank texts are said to be so: the contract does not take them.
    fn citation(self) -> Citation {
        let source = Source::of(&format!("{} \"{}\"", self.document_id, self.quote));
        let claim = if self.claim.trim().is_empty() { "(no claim)" } else { self.claim.trim() };
        Citation::unchecked(cut(claim, limits::CLAIM_BYTES), source.quote, source.document_id)
    }
}

fn draft(reply: ArtifactReply) -> ArtifactDraft {
    match reply {
        ArtifactReply::Document(document) => {
            let (label, title) = (cut(&document.label, LABEL), line(&document.title, limits::TITLE_BYTES));
            let text = document.document_markdown.filter(|text| !text.trim().is_empty());
            ArtifactDraft {
                document_markdown: text.map(|text| cut(&text, limits::DOCUMENT_BYTES)),
                is_primary: document.is_primary.unwrap_or(false),
                ..ArtifactDraft::document(&label, title, "")
            }
        }
        ArtifactReply::Json(data) => {
            let value = |text: &str| match serde_json::from_str(text) {
                // Numbers, truth values, lists and objects are read as JSON; anything else is text.
                Ok(value @ (Value::Number(_) | Value::Bool(_) | Value::Array(_) | Value::Object(_))) => value,
                _ => Value::String(text.to_owned()),
            };
            let payload = data.json_payload.iter().map(|pair| (pair.key.clone(), value(&pair.value)));
            ArtifactDraft {
                is_primary: data.is_primary.unwrap_or(false),
                citations: data.citations.into_iter().flatten().map(CitationReply::citation).collect(),
                ..ArtifactDraft::json(&cut(&data.label, LABEL), payload.collect())
            }
        }
    }
}
