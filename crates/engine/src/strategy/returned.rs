//! What the nodes of a search return.

use serde_json::{Map, json};
use tree_agent_contract::language::Sentence;
use tree_agent_contract::role::{ArtifactDraft, ResultDraft};
use tree_agent_contract::search::{ChildEntry, SearchCounts};
use tree_agent_contract::text::count;
use tree_agent_contract::{ResultKind, limits};

/// The label of a topic's document.
const DOCUMENT: &str = "document";
/// The label of the topics that a topic found when the run was out of budget.
const CHILDREN: &str = "children";
/// The label of the counts of a search.
const SEARCH: &str = "search";

/// Bytes of the links of an overview.
const LINKS_BYTES: usize = 64 * 1024;

type Returned = (Vec<ArtifactDraft>, ResultDraft);

/// The result of a researched topic. `unlisted` are topics that it found but that are no nodes.
pub(super) fn document(
    title: String,
    markdown: String,
    summary: String,
    unlisted: &[ChildEntry],
) -> Returned {
    let mut artifacts = vec![ArtifactDraft::document(DOCUMENT, title, markdown)];
    if !unlisted.is_empty() {
        let children = serde_json::to_value(unlisted).unwrap_or_default();
        artifacts.push(ArtifactDraft::json(CHILDREN, Map::from_iter([(CHILDREN.to_owned(), children)])));
    }
    let kind = if unlisted.is_empty() { ResultKind::Document } else { ResultKind::Hybrid };
    (artifacts, ResultDraft::new(kind, summary, DOCUMENT))
}

/// The result of the root: the counts alone.
pub(super) fn counts(counts: SearchCounts) -> Returned {
    let result = ResultDraft::new(ResultKind::Json, counts.sentence(), SEARCH);
    (vec![counts_artifact(counts, SEARCH)], result)
}

/// The result of the root: the counts, and what an aggregator wrote.
pub(super) fn with_counts(
    counts: SearchCounts,
    mut artifacts: Vec<ArtifactDraft>,
    mut result: ResultDraft,
) -> Returned {
    let is_taken = artifacts.iter().any(|artifact| artifact.label == SEARCH);
    artifacts.insert(0, counts_artifact(counts, if is_taken { "search-counts" } else { SEARCH }));
    if result.primary_artifact_label.is_none() {
        result.primary_artifact_label = artifacts.get(1).map(|artifact| artifact.label.clone());
    }
    result.kind = ResultKind::Hybrid;
    (artifacts, result)
}

/// Adds links to `documents`, with their titles, and the counts of the search to the first document among `artifacts`.
/// What a role writes cannot be relied on for that.
pub(super) fn add_links(
    artifacts: &mut [ArtifactDraft],
    counts: SearchCounts,
    documents: impl ExactSizeIterator<Item = (String, String)>,
    language: &str,
) {
    let Some(overview) = artifacts.iter_mut().find_map(|artifact| artifact.document_markdown.as_mut()) else {
        return;
    };
    let mut list = format!("\n\n## {}\n\n", Sentence::Documents.of(language, &[]));
    let total = documents.len();
    for (n, (title, path)) in documents.enumerate() {
        let line = format!("- [{}]({path})\n", title.replace('[', "\\[").replace(']', "\\]"));
        if list.len() + line.len() > LINKS_BYTES {
            list.push_str(&format!("- and {}\n", count(total - n, "more document")));
            break;
        }
        list.push_str(&line);
    }
    list.push_str(&format!("\n*{}.*\n", counts.sentence()));
    if overview.trim_end().len() + list.len() <= limits::DOCUMENT_BYTES {
        overview.truncate(overview.trim_end().len());
        overview.push_str(&list);
    }
}

fn counts_artifact(counts: SearchCounts, label: &str) -> ArtifactDraft {
    let SearchCounts { expanded, leaves, skipped } = counts;
    let payload = json!({"expanded": expanded, "leaves": leaves, "skipped": skipped});
    ArtifactDraft::json(label, payload.as_object().cloned().unwrap_or_default())
}
