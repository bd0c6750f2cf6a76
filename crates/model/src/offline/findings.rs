//! Passages as nodes hand them on: as JSON for the parent, as a document for people.

use serde_json::{Map, Value, json};
use tree_agent_contract::limits;
use tree_agent_contract::role::{ArtifactDraft, DraftType};

use super::LABEL;
use super::rank::{Passage, Ranked};
use super::words::Term;

/// Label of the JSON artifact.
pub(super) const FINDINGS: &str = "findings";

/// The JSON artifact of `passages`; the last ones are left out where it would exceed the limit of the contract.
pub(super) fn artifact(passages: &[Ranked], terms: &[Term]) -> ArtifactDraft {
    let mut rows: Vec<Value> = passages.iter().map(row).collect();
    let payload = loop {
        let payload = Map::from_iter([
            ("model".to_owned(), json!("offline")),
            ("label".to_owned(), json!(LABEL)),
            ("terms".to_owned(), json!(terms.iter().map(|t| t.shown.as_str()).collect::<Vec<_>>())),
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

/// The passages of a payload that [`artifact`] wrote; none of any other.
pub(super) fn passages(payload: &Map<String, Value>) -> Vec<Passage> {
    let rows = payload.get("passages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    rows.iter()
        .filter_map(|row| {
            Some(Passage {
                text: row["text"].as_str()?.to_owned(),
                path: row["path"].as_str()?.to_owned(),
                heading: row["heading"].as_str().unwrap_or_default().to_owned(),
                position: row["position"].as_u64().unwrap_or_default(),
                document_id: row["documentId"].as_str().and_then(|id| id.parse().ok()),
            })
        })
        .collect()
}

/// The passages as a document: under each source its quotations, line for line.
pub(super) fn quotations(passages: &[Ranked]) -> String {
    let mut sources: Vec<(String, Vec<&Passage>)> = Vec::new();
    for ranked in passages {
        let source = ranked.passage.source();
        match sources.iter_mut().find(|(s, _)| *s == source) {
            Some((_, quoted)) => quoted.push(&ranked.passage),
            None => sources.push((source, vec![&ranked.passage])),
        }
    }
    let mut text = String::new();
    for (source, quoted) in sources {
        text.push_str(&format!("## {source}\n\n"));
        for passage in quoted {
            for line in passage.text.split('\n') {
                text.push_str(&format!("> {line}\n"));
            }
            text.push('\n');
        }
    }
    text
}

/// The passages of a document that [`quotations`] wrote.
pub(super) fn passages_of_document(body: &str) -> Vec<Passage> {
    let mut passages: Vec<Passage> = Vec::new();
    let (mut source, mut open) = (None, false);
    for line in body.split('\n') {
        if let Some(heading) = line.strip_prefix("## ") {
            source = Some(heading.split_once(" › ").unwrap_or((heading, "")));
        }
        let quoted = line.strip_prefix("> ").zip(source);
        match (quoted, open, passages.last_mut()) {
            (Some((text, _)), true, Some(last)) => last.text.push_str(&format!("\n{text}")),
            (Some((text, (path, heading))), ..) => passages.push(Passage {
                text: text.to_owned(),
                path: path.to_owned(),
                heading: heading.to_owned(),
                position: passages.len() as u64,
                document_id: None,
            }),
            (None, ..) => {}
        }
        open = quoted.is_some();
    }
    passages
}
