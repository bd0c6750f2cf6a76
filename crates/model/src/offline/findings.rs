//! The form in which nodes pass passages on: as JSON for the parent, as a document for people.

use serde_json::{Map, Value, json};
use tree_agent_contract::limits;
use tree_agent_contract::role::{ArtifactDraft, DraftType};

use super::LABEL;
use super::rank::{Passage, Ranked};
use super::words::Term;

/// Label of the JSON artifact.
pub(super) const FINDINGS: &str = "findings";

/// The key of the words that a node has searched for.
pub(super) const SEARCHED: &str = "searched";
/// The key of the steps that were not done.
pub(super) const NOT_DONE: &str = "notDone";

/// What a node knows of the words of its task.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Those that no document of the context contains.
    pub(super) absent: Vec<String>,
    /// For each of those that only search finds, a sentence.
    pub(super) unquoted: Vec<String>,
    /// Those that were searched for, by the node itself or by the steps below it.
    pub(super) searched: Vec<String>,
    /// Titles of steps below the node that were planned and not done.
    pub(super) not_done: Vec<String>,
}

/// The JSON artifact of `passages`. The last ones are left out if it would exceed the limit of the contract.
pub(super) fn artifact(passages: &[Ranked], terms: &[Term], known: &Known) -> ArtifactDraft {
    let mut rows: Vec<Value> = passages.iter().map(row).collect();
    let unquoted = within(&known.unquoted, limits::JSON_BYTES / 4);
    let absent = within(&known.absent, limits::JSON_BYTES / 8);
    let searched = within(&known.searched, limits::JSON_BYTES / 4);
    let payload = loop {
        let payload = Map::from_iter([
            ("model".to_owned(), json!("offline")),
            ("label".to_owned(), json!(LABEL)),
            ("terms".to_owned(), json!(terms.iter().map(|t| t.shown.as_str()).collect::<Vec<_>>())),
            ("absent".to_owned(), json!(absent)),
            ("unquoted".to_owned(), json!(unquoted)),
            (SEARCHED.to_owned(), json!(searched)),
            (NOT_DONE.to_owned(), json!(known.not_done)),
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

/// The first of `texts` that take at most `bytes` together.
fn within(texts: &[String], bytes: usize) -> &[String] {
    let mut room = bytes;
    let fits = |text: &&String| match room.checked_sub(text.len() + 4) {
        Some(left) => {
            room = left;
            true
        }
        None => false,
    };
    &texts[..texts.iter().take_while(fits).count()]
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

/// The strings that [`artifact`] wrote under `key`: `terms`, `absent`, `unquoted`, [`SEARCHED`] or [`NOT_DONE`].
pub(super) fn words<'a>(payload: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = &'a str> {
    payload.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_many_words_leaves_room_for_passages() {
        let sentences = |bytes: usize| (0..5_000).map(|i| format!("{i:0bytes$}")).collect::<Vec<_>>();
        let passage = |i: u64| Ranked {
            passage: Passage {
                text: "x".repeat(100),
                path: "a.md".to_owned(),
                heading: String::new(),
                position: i,
                document_id: None,
            },
            score: 1,
            terms: Default::default(),
        };
        let passages: Vec<Ranked> = (0..40).map(passage).collect();
        let (absent, unquoted, searched) = (sentences(60), sentences(600), sentences(60));
        let known = Known { absent, unquoted, searched, not_done: sentences(300)[..50].to_vec() };
        let payload = artifact(&passages, &[], &known).json_payload.unwrap();
        assert!(serde_json::to_string(&payload).unwrap().len() <= limits::JSON_BYTES);
        assert_eq!(scored(&payload).len(), 40);
        for key in ["absent", "unquoted", SEARCHED] {
            assert!((100..5_000).contains(&words(&payload, key).count()), "{key}");
        }
    }
}
