//! The citations of a document of this model: each quotation with the words of its source.
//!
//! A claim is a quotation as the document shows it. Its quote is the same text in the source, which is a document of
//! the context for what an executor quotes, and the artifact of a child for what an aggregator takes from it. The role
//! service checks them all; what would not hold is not cited in the first place.

use std::collections::BTreeMap;

use tree_agent_contract::citation::PlainText;
use tree_agent_contract::role::ChildOutcome;
use tree_agent_contract::{Citation, DocumentId, limits};

use super::corpus::Doc;
use super::rank::Passage;
use crate::cite::unchecked;

/// The citations of `passages`, which stand in `docs`.
pub(super) fn of_sources<'a>(passages: impl Iterator<Item = &'a Passage>, docs: &[Doc]) -> Vec<Citation> {
    let mut plain: BTreeMap<DocumentId, PlainText> = BTreeMap::new();
    let cited = passages.filter_map(|passage| {
        let doc = docs.iter().find(|doc| Some(doc.id()) == passage.document_id)?;
        let plain = plain.entry(doc.id()).or_insert_with(|| PlainText::of(doc.body()));
        let quote = whole_words(&passage.text, plain)?;
        citation(passage.shown(), quote.to_owned(), doc.id())
    });
    cited.take(limits::CITATIONS).collect()
}

/// The citations of passages that stand as quotations in artifacts of other nodes of the run.
pub(super) fn of_artifacts<'a>(passages: impl Iterator<Item = (&'a Passage, DocumentId)>) -> Vec<Citation> {
    let cited = passages.filter_map(|(passage, id)| citation(passage.shown(), passage.shown(), id));
    cited.take(limits::CITATIONS).collect()
}

/// The document of a child that holds its quotations.
pub(super) fn artifact_of(child: &ChildOutcome) -> Option<DocumentId> {
    let result = child.result.as_ref()?;
    let primary = result.primary_artifact_id.map(DocumentId::of_artifact);
    primary.filter(|id| result.document_ids.contains(id)).or_else(|| result.document_ids.first().copied())
}

/// None if the claim or the quote breaks a limit of citations.
fn citation(claim: String, quote: String, id: DocumentId) -> Option<Citation> {
    let fits = claim.len() <= limits::CLAIM_BYTES && quote.len() <= limits::QUOTE_BYTES;
    let tells = |text: &str| PlainText::of(text).letters() >= limits::QUOTE_CHARS;
    (fits && tells(&claim) && tells(&quote)).then(|| unchecked(claim, quote, id))
}

/// `text` without the part of a word at either end: a passage of a very long line may begin or end within one. None if
/// nothing of it stands in `source` then.
fn whole_words<'a>(text: &'a str, source: &PlainText) -> Option<&'a str> {
    let after_first = |text: &'a str| text.split_once(char::is_whitespace).map(|(_, rest)| rest.trim());
    let before_last = |text: &'a str| text.rsplit_once(char::is_whitespace).map(|(rest, _)| rest.trim());
    let shorter = [after_first(text), before_last(text), after_first(text).and_then(before_last)];
    std::iter::once(Some(text))
        .chain(shorter)
        .flatten()
        .find(|quote| source.find(&PlainText::of(quote)).is_some())
}
