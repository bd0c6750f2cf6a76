//! The form in which nodes pass passages on: as JSON for the parent, as a document for people.

use serde_json::{Map, Value, json};
use tree_agent_contract::limits;
use tree_agent_contract::role::{ArtifactDraft, DraftType};

use super::LABEL;
use super::rank::{Passage, Ranked};
use super::words::Term;

/// Label of the JSON artifact.
pub(super) const FINDINGS: &str = "findings";

/// The key of the steps that were not done.
pub(super) const NOT_DONE: &str = "notDone";

/// The JSON artifact of `passages`. The last ones are left out if it would exceed the limit of the contract. The steps
/// `not_done` are titles of steps below the node.
pub(super) fn artifact(passages: &[Ranked], terms: &[Term], not_done: &[String]) -> ArtifactDraft {
    let mut rows: Vec<Value> = passages.iter().map(row).collect();
    let payload = loop {
        let payload = Map::from_iter([
            ("model".to_owned(), json!("offline")),
            ("label".to_owned(), json!(LABEL)),
            ("terms".to_owned(), json!(terms.iter().map(|t| t.shown.as_str()).collect::<Vec<_>>())),
            (NOT_DONE.to_owned(), json!(not_done)),
            ("passages".to_owned(), Value::Array(rows.clone())),
        ]);
        let bytes = serde_json::to_string(&payload).map_or(usize::MAX, |text| text.len());
        if bytes <= limits::JSON_BYTES || rows.pop().is_none() {
            break payload;
        }
    };
    ArtifactDraft {
        r#type: DraftType::Json,
        label: FINDINGS.to_owned(),
        title: None,
        document_markdown: None,
        json_payload: Some(payload),
        is_primary: false,
        citations: Vec::new(),
    }
}

fn row(ranked: &Ranked) -> Value {
    let p = &ranked.passage;
    json!({
        "text": p.text,
        "path": p.path,
        "heading": p.heading,
        "position": p.position,
        "score": ranked.score,
        "documentId": p.document_id,
    })
}

/// The passages of a payload that [`artifact`] wrote, with their scores; none for any other payload.
pub(super) fn scored(payload: &Map<String, Value>) -> Vec<(Passage, u64)> {
    let rows = payload.get("passages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    rows.iter()
        .filter_map(|row| {
            let passage = Passage {
                text: row["text"].as_str()?.to_owned(),
                path: row["path"].as_str()?.to_owned(),
                heading: row["heading"].as_str().unwrap_or_default().to_owned(),
                position: row["position"].as_u64().unwrap_or_default(),
                document_id: row["documentId"].as_str().and_then(|id| id.parse().ok()),
            };
            Some((passage, row["score"].as_u64().unwrap_or_default()))
        })
        .collect()
}

/// The strings that [`artifact`] wrote under `key`: `terms` or [`NOT_DONE`].
pub(super) fn words<'a>(payload: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = &'a str> {
    payload.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}
