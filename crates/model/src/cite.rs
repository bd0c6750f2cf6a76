//! Checks the citations of an answer before it leaves the role service.

mod compare;
pub(crate) mod disagree;
mod find;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tree_agent_contract::language::Sentence;
use tree_agent_contract::role::{ArtifactDraft, RoleError};
use tree_agent_contract::text::prefix;
use tree_agent_contract::{
    Citation, CitationCounts, Document, DocumentId, SuccessAssessment, Verdict, limits,
};
use tree_agent_retrieval::{Quote, Visible};

use crate::claims::Claims;
use crate::io::{RoleIo, failed};

/// How the texts of a payload are written: as they stand.
const PAYLOAD: &str = "payload.txt";

/// Gives every citation its verdict and its passage, whatever the model says of them. Each source is read once, and no
/// longer held than it is needed. The answer has passed the rules of the contract, which limit all of this.
///
/// # Errors
/// If a source cannot be read now. One that the run may not see does not exist for it.
pub(crate) async fn check(artifacts: &mut [ArtifactDraft], io: &RoleIo) -> Result<(), RoleError> {
    let mut by_source: BTreeMap<DocumentId, Vec<&mut Citation>> = BTreeMap::new();
    for artifact in artifacts.iter_mut().filter(|artifact| !artifact.citations.is_empty()) {
        let payload = artifact.json_payload.as_ref().map(|payload| texts(&Value::Object(payload.clone())));
        let text = match (&artifact.document_markdown, &payload) {
            (Some(markdown), _) => Visible::of("", markdown),
            (None, payload) => Visible::of(PAYLOAD, payload.as_deref().unwrap_or_default()),
        };
        for citation in &mut artifact.citations {
            let claim = Quote::of(&citation.claim);
            citation.passage = None;
            citation.verdict = match text.find(&claim) {
                _ if claim.letters() < limits::QUOTE_CHARS => Verdict::TooShort,
                None => Verdict::NoClaim,
                Some(_) => {
                    by_source.entry(citation.document_id).or_default().push(citation);
                    continue;
                }
            };
            // Heartbeats and the deadline of the call have their turn.
            tokio::task::yield_now().await;
        }
    }
    for (id, citations) in by_source {
        let source = read(io, id).await?;
        let visible = source.as_ref().map(|source| Visible::of(&source.path, &source.body));
        for citation in citations {
            if let Some(source) = &source {
                (citation.source_title, citation.source_path) = (source.title.clone(), source.path.clone());
            }
            (citation.verdict, citation.passage) = match &visible {
                Some(visible) => visible.judge(&citation.quote),
                None => (Verdict::NoSource, None),
            };
            tokio::task::yield_now().await;
        }
    }
    disagree::settle(artifacts, io).await
}

/// Writes what else is known of them into documents: sources that disagree. `count` comes before, because this is no
/// statement of theirs.
pub(crate) fn tell(artifacts: &mut [ArtifactDraft], language: &str) {
    artifacts.iter_mut().for_each(|artifact| disagree::tell(artifact, language));
}

/// Looks for the sources of statements that have none, and compares all statements with their quotes. `check` comes
/// before.
///
/// # Errors
/// If a source cannot be read now.
pub(crate) async fn support(artifacts: &mut [ArtifactDraft], io: &RoleIo) -> Result<(), RoleError> {
    for artifact in artifacts.iter_mut() {
        compare::compare(artifact, io.language()).await;
        find::find(artifact, io).await;
        compare::compare(artifact, io.language()).await;
    }
    disagree::settle(artifacts, io).await
}

/// Counts the statements of documents, also those that cite nothing; returns those of the one to read first. `check`
/// comes before.
pub(crate) fn count(artifacts: &mut [ArtifactDraft]) -> CitationCounts {
    for artifact in artifacts.iter_mut() {
        if let Some(markdown) = &artifact.document_markdown {
            let cited: BTreeSet<&str> = artifact.citations.iter().map(|one| one.claim.as_str()).collect();
            artifact.uncited = Some(Claims::of(markdown).claims.len().saturating_sub(cited.len()) as u64);
        }
    }
    let first = artifacts.iter().find(|one| one.is_primary).or(artifacts.first());
    first.map(|one| CitationCounts::of(&one.citations, one.uncited.unwrap_or(0))).unwrap_or_default()
}

/// An answer that cites nothing, or quotes what nobody has said, does not meet its criteria without saying so in its
/// `language`. Numbers would be others once the answer is verified.
pub(crate) fn qualify(assessment: &mut SuccessAssessment, counts: &CitationCounts, language: &str) {
    let said = match counts {
        CitationCounts { total: 0, .. } => Sentence::NothingCited,
        CitationCounts { not_found: 0, .. } => Sentence::QuotesDiffer,
        _ => Sentence::QuotesMissing,
    };
    if assessment.met && (counts.total == 0 || counts.not_found + counts.contradicted > 0) {
        let said = said.of(language, &[]);
        let notes = assessment.notes.take().filter(|notes| !notes.is_empty());
        let notes = notes.map_or_else(|| said.clone(), |notes| format!("{said}. {notes}"));
        assessment.notes = Some(prefix(&notes, limits::TEXT_BYTES).to_owned());
    }
}

async fn read(io: &RoleIo, id: DocumentId) -> Result<Option<Document>, RoleError> {
    match io.tools().source(id).await {
        Ok(document) => Ok(Some(document)),
        Err(error) if error.retryable() => Err(failed(error)),
        Err(_) => Ok(None),
    }
}

/// All texts in a payload, one below the other, with their keys.
fn texts(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text}\n"),
        Value::Array(values) => values.iter().map(texts).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| format!("{key}: {}", texts(value))).collect(),
        other => format!("{other}\n"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tree_agent_contract::{RunContext, RunId, Scope};
    use tree_agent_tools::{Caller, MemoryDocuments, ToolRegistry};

    use super::*;

    const SOURCE: &str = "The bridge of Avon has 12 arches. It was not built in 1790, but in 1791.\n\n\
                          | arch | width |\n| --- | --- |\n| first | 30 m |\n";

    fn draft(text: &str, citations: Vec<Citation>) -> ArtifactDraft {
        ArtifactDraft { citations, ..ArtifactDraft::document("findings", "Findings", text) }
    }

    #[test]
    fn an_answer_that_cites_nothing_is_not_met_without_a_note() {
        let id = DocumentId::derive(&[b"source"]);
        let holds = Citation {
            verdict: Verdict::Verified,
            ..Citation::unchecked("It stands in Avon.".into(), "q".into(), id)
        };
        let text = "# Avon\n\nIt stands in Avon.[^1] It is old and wide.\n\n[^1]: x\n";
        let judged = |citations: Vec<Citation>, met: bool| {
            let mut drafts = [draft(text, citations)];
            let counts = count(&mut drafts);
            let mut assessment = SuccessAssessment { met, notes: Some("as asked".into()) };
            qualify(&mut assessment, &counts, "en");
            (drafts[0].uncited.unwrap_or(0), assessment.notes.unwrap_or_default())
        };
        assert_eq!(judged(vec![holds.clone()], true), (1, "as asked".to_owned()));
        let (uncited, notes) = judged(Vec::new(), true);
        assert!(uncited == 2 && notes.starts_with("Nothing is cited. ") && notes.ends_with(". as asked"));
        assert_eq!(judged(Vec::new(), false).1, "as asked");
        let fails = Citation { verdict: Verdict::NotFound, ..holds };
        assert!(judged(vec![fails], true).1.starts_with("Some quotes were not found in their sources. "));
    }

    #[tokio::test]
    async fn a_hundred_false_citations_are_all_found_and_no_true_one_is_doubted() {
        let documents = MemoryDocuments::default();
        let project = documents.add_project("bridges");
        let source = documents.add_source(project, "avon.md", SOURCE);
        let elsewhere = documents.add_source(project, "exe.md", "The bridge of Exe has 3 arches.");
        let hidden_project = documents.add_project("secret");
        let hidden = documents.add_source(hidden_project, "avon.md", SOURCE);
        let context = RunContext { scope: Scope::Project, project_ids: vec![project] };
        let tools = ToolRegistry::new(Arc::new(documents));
        let (io, _updates) =
            RoleIo::new(tools.tool_set(Caller::new(RunId(uuid::Uuid::from_u128(1)), context)), "execute");
        let words: Vec<&str> = SOURCE.lines().next().unwrap().split(' ').collect();
        let whole = words.join(" ");
        let mut planted = Vec::new();
        // Every word dropped, changed or doubled.
        for at in 1..words.len() - 1 {
            let (before, after) = (words[..at].join(" "), words[at + 1..].join(" "));
            planted.push((source, format!("{before} {after}")));
            planted.push((source, format!("{before} {}x {after}", words[at])));
            planted.push((source, format!("{before} {0} {0} {after}", words[at])));
            planted.push((elsewhere, words[..=at].join(" ") + " Avon"));
            planted.push((source, format!("{before} {after} {}", words[at])));
            planted.push((hidden, whole.clone()));
            planted.push((DocumentId::derive(&[&[at as u8]]), whole.clone()));
        }
        planted.extend(
            ["12", "It was", "a b c d", "\u{ad}\u{200b}", "..."].map(|text| (source, text.to_owned())),
        );
        assert!(planted.len() >= 100, "{}", planted.len());
        let claim = "It has twelve arches.";
        let text = format!("# Findings\n\n{claim}\n");
        let of = |(id, quote): &(DocumentId, String)| Citation::unchecked(claim.into(), quote.clone(), *id);
        for chunk in planted.chunks(20) {
            let mut drafts = [draft(&text, chunk.iter().map(of).collect())];
            check(&mut drafts, &io).await.unwrap();
            for citation in &drafts[0].citations {
                assert!(!citation.is_verified() && citation.passage.is_none(), "{citation:?}");
            }
        }
        let quotes = [
            whole.clone(),
            "It was not\nbuilt in 1790, but in 1791.".into(),
            "  has\u{a0}12 arches. ".into(),
            "| first | 30 m |".into(),
        ];
        let mut drafts = [
            draft(&text, quotes.map(|quote| of(&(source, quote))).into()),
            draft("Something else.", vec![of(&(source, whole))]),
        ];
        check(&mut drafts, &io).await.unwrap();
        for citation in &drafts[0].citations {
            assert!(citation.is_verified(), "{citation:?}");
            let passage = citation.passage.as_ref().unwrap();
            let (begin, end) = (passage.offset as usize, (passage.offset + passage.bytes) as usize);
            let passage = Visible::of("", &SOURCE[begin..end]);
            let quote = citation.quote.trim_matches(['|', ' ']);
            assert!(passage.find(&Quote::of(quote)).is_some(), "{quote}");
        }
        assert_eq!(drafts[1].citations[0].verdict, Verdict::NoClaim);
        let too_short = Visible::of("", SOURCE).judge("12 arch");
        assert_eq!(too_short, (Verdict::TooShort, None));
    }
}
