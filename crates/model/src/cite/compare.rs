//! Whether the quotes of a statement say what it says.

use std::cell::LazyCell;
use std::collections::BTreeMap;

use tree_agent_contract::language::Sentence;
use tree_agent_contract::role::ArtifactDraft;
use tree_agent_contract::text::truncate;
use tree_agent_contract::{Citation, Support, Verdict, limits};
use tree_agent_retrieval::{Said, Support as Found, sentences, support};

use crate::footnotes;

/// Compares each statement of an artifact with all its quotes that were found, and says in the text what else they say,
/// in its `language`.
pub(super) async fn compare(artifact: &mut ArtifactDraft, language: &str) {
    let mut by_claim: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, citation) in artifact.citations.iter_mut().enumerate() {
        (citation.support, citation.doubt) = Default::default();
        if citation.is_found() {
            citation.verdict = Verdict::Verified;
            by_claim.entry(citation.claim.clone()).or_default().push(at);
        }
    }
    let written_in = LazyCell::new(|| artifact.document_markdown.as_deref().and_then(language_of));
    for (claim, places) in by_claim {
        let own: Vec<&Citation> = places.iter().map(|at| &artifact.citations[*at]).collect();
        let quotes: Vec<&str> = own.iter().map(|citation| citation.quote.as_str()).collect();
        let said = Said::of(&claim);
        let of = |own: &[&Citation]| {
            let quoted: Vec<Said> = own.iter().flat_map(|citation| sentences(&citation.quote)).collect();
            support(&said, &quoted.iter().collect::<Vec<_>>(), &context_of(own))
        };
        match of(&own) {
            Found::Contradicted { quote, statement } => {
                // The one that says so alone; else nobody knows which.
                let alone = own.iter().position(|one| matches!(of(&[*one]), Found::Contradicted { .. }));
                let doubted = &mut artifact.citations[places[alone.unwrap_or(0)]];
                let doubt = Sentence::SaysOther.of(language, &[&quote, &statement]);
                (doubted.verdict, doubted.doubt) =
                    (Verdict::Doubted, truncate(&doubt, limits::TITLE_BYTES).into_owned());
            }
            found => {
                let is_foreign = || {
                    let quoted = language_of(&quotes.join("\n"));
                    quoted.is_some() && written_in.is_some() && quoted != *written_in
                };
                let support = match found {
                    Found::Supported => Support::Supported,
                    _ if is_foreign() => Support::Language,
                    Found::Computed => Support::Computed,
                    _ => Support::Open,
                };
                places.iter().for_each(|at| artifact.citations[*at].support = Some(support));
            }
        }
        // Heartbeats and the deadline of the call have their turn.
        tokio::task::yield_now().await;
    }
    tell_doubts(artifact, language);
}

/// Writes doubts into the footnotes that they are about.
fn tell_doubts(artifact: &mut ArtifactDraft, language: &str) {
    let doubted: Vec<&Citation> =
        artifact.citations.iter().filter(|one| one.verdict == Verdict::Doubted).collect();
    let Some(markdown) = artifact.document_markdown.as_ref().filter(|_| !doubted.is_empty()) else { return };
    let mut doubts = BTreeMap::new();
    for note in footnotes::citations(markdown) {
        let is_it = |one: &&&Citation| {
            (&one.claim, &one.quote, one.document_id)
                == (&note.citation.claim, &note.citation.quote, note.citation.document_id)
        };
        doubts.extend(doubted.iter().find(is_it).map(|one| (note.number.clone(), one.doubt.clone())));
    }
    artifact.document_markdown = Some(footnotes::with_doubts(markdown, &doubts, language));
}

/// What the quotes are about, whatever they say.
fn context_of(citations: &[&Citation]) -> Said {
    let headings = citations.iter().filter_map(|one| one.passage.as_ref()).map(|passage| &passage.heading);
    let titles = citations.iter().map(|one| &one.source_title);
    Said::of(&headings.chain(titles).map(String::as_str).collect::<Vec<_>>().join("\n"))
}

/// The language of a text, if it is plain.
fn language_of(text: &str) -> Option<whatlang::Lang> {
    whatlang::detect(text).filter(whatlang::Info::is_reliable).map(|found| found.lang())
}
