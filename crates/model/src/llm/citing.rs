//! Citations of an answer: read from its documents, checked, repaired once, and marked if they still do not hold.

use std::collections::BTreeMap;

use genai::chat::ChatMessage;
use tree_agent_contract::citation::footnote_mark;
use tree_agent_contract::role::{ArtifactDraft, RoleError};
use tree_agent_contract::text::one_line;
use tree_agent_contract::{Citation, DocumentId, Verdict, limits};
use tree_agent_retrieval::Quote;

use super::ask::{Call, Target};
use super::delivery::{Conversation, size_of};
use super::prompt::{CitationsPrompt, FailedCitation};
use super::stream::ScratchpadWriter;
use crate::cite;
use crate::footnotes::{self, Cited, Source};

/// Citations that one request asks to be repaired.
const REPAIRED: usize = 24;

/// Where a citation of an answer stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// A footnote of the artifact at this index.
    Note(usize, String),
    /// The citation at the second index of data at the first.
    Data(usize, usize),
}

/// Reads the citations of documents from their footnotes.
fn read(artifacts: &mut [ArtifactDraft]) -> Vec<Vec<String>> {
    let numbers = artifacts.iter_mut().map(|artifact| {
        let Some(markdown) = &mut artifact.document_markdown else { return Vec::new() };
        *markdown = footnotes::without_idle(markdown);
        let (numbers, citations) = footnotes::citations(markdown)
            .into_iter()
            .map(|Cited { number, citation, .. }| (number, citation))
            .unzip();
        artifact.citations = citations;
        numbers
    });
    numbers.collect()
}

/// The places of which no citation holds, each with one of its citations. A footnote of which one holds names a good
/// source, whatever else it is put behind. `numbers`: the footnotes of the citations of each artifact.
fn failed<'a>(artifacts: &'a [ArtifactDraft], numbers: &[Vec<String>]) -> BTreeMap<Place, &'a Citation> {
    let mut all: BTreeMap<Place, &Citation> = BTreeMap::new();
    for (i, artifact) in artifacts.iter().enumerate() {
        for (k, citation) in artifact.citations.iter().enumerate() {
            let place = match numbers.get(i).and_then(|numbers| numbers.get(k)) {
                Some(number) => Place::Note(i, number.clone()),
                None => Place::Data(i, k),
            };
            let shown = all.entry(place).or_insert(citation);
            // What holds says most of a place, and then what its source is to blame for.
            let says = |c: &Citation| (c.is_verified(), !is_fault_of_claim(c));
            if says(citation) > says(shown) {
                *shown = citation;
            }
        }
    }
    all.retain(|_, citation| !citation.is_verified());
    all
}

/// True if no other source could make it hold.
fn is_fault_of_claim(citation: &Citation) -> bool {
    match citation.verdict {
        Verdict::NoClaim => true,
        Verdict::TooShort => Quote::of(&citation.claim).letters() < limits::QUOTE_CHARS,
        _ => false,
    }
}

/// Those of `failed` that another source may mend.
fn mendable<'a>(artifacts: &'a [ArtifactDraft], numbers: &[Vec<String>]) -> BTreeMap<Place, &'a Citation> {
    let mut all = failed(artifacts, numbers);
    all.retain(|_, citation| !is_fault_of_claim(citation));
    all
}

impl Call<'_> {
    /// Reads and checks the citations of `artifacts`. What does not hold goes back to the model once; what does not
    /// hold then is marked in the text.
    pub(super) async fn cite(
        &self,
        target: &Target,
        conversation: &Conversation<'_>,
        artifacts: &mut [ArtifactDraft],
    ) -> Result<(), RoleError> {
        let mut numbers = read(artifacts);
        cite::check(artifacts, self.io).await?;
        if !mendable(artifacts, &numbers).is_empty()
            && self.io.may_ask()
            && self.repair_citations(target, conversation, artifacts, &numbers).await?
        {
            numbers = read(artifacts);
            cite::check(artifacts, self.io).await?;
        }
        let mut verdicts: BTreeMap<usize, BTreeMap<String, &'static str>> = BTreeMap::new();
        for (place, citation) in failed(artifacts, &numbers) {
            if let Place::Note(i, number) = place {
                verdicts.entry(i).or_default().insert(number, citation.reason());
            }
        }
        for (i, verdicts) in verdicts {
            if let Some(markdown) = &mut artifacts[i].document_markdown {
                *markdown = footnotes::with_verdicts(markdown, &verdicts, self.io.language());
            }
        }
        Ok(())
    }

    /// Asks the model for other sources of what does not hold. False if nothing has changed: an answer is not lost
    /// because of its citations.
    async fn repair_citations(
        &self,
        target: &Target,
        conversation: &Conversation<'_>,
        artifacts: &mut [ArtifactDraft],
        numbers: &[Vec<String>],
    ) -> Result<bool, RoleError> {
        let failed = mendable(artifacts, numbers);
        let places: Vec<Place> = failed.keys().take(REPAIRED).cloned().collect();
        let shown: Vec<FailedCitation> = failed
            .values()
            .take(REPAIRED)
            .enumerate()
            .map(|(n, citation)| FailedCitation {
                number: n + 1,
                claim: one_line(&citation.claim),
                document_id: match citation.document_id {
                    DocumentId::NONE => "none".to_owned(),
                    id => id.to_string(),
                },
                quote: one_line(&citation.quote),
                why: citation.reason(),
            })
            .collect();
        let demand = CitationsPrompt { failed: &shown }.render()?;
        let mut messages = conversation.messages.clone();
        messages.push(ChatMessage::assistant(conversation.answer.to_owned()));
        messages.push(ChatMessage::user(demand));
        let asked = size_of(&conversation.prompt.system, &messages);
        let mut writer = ScratchpadWriter::of_text(self.io);
        writer.silence();
        let turn = match self.text(target, conversation, messages, &mut writer).await {
            Ok(turn) => turn,
            Err(failure) => {
                tracing::info!(model = %target.name, "citations were not repaired: {}", failure.message);
                return Ok(false);
            }
        };
        self.record(target, &turn, " (citations)", Vec::new(), || asked).await;
        let mut notes: BTreeMap<usize, BTreeMap<String, Source>> = BTreeMap::new();
        let mut is_changed = false;
        for line in turn.text.lines().map(str::trim) {
            let Some(mark) = footnote_mark(line) else { continue };
            let number: Option<usize> = mark[2..mark.len() - 1].parse().ok();
            let place = number.and_then(|n| n.checked_sub(1)).and_then(|at| places.get(at));
            let (Some(place), Some(text)) = (place, line[mark.len()..].strip_prefix(':')) else { continue };
            // "none" keeps what is there, to be marked.
            if text.trim().trim_matches(['.', '"', '*']).eq_ignore_ascii_case("none") {
                continue;
            }
            let source = Source::of(text);
            is_changed = true;
            match place {
                Place::Note(i, number) => {
                    notes.entry(*i).or_default().insert(number.clone(), source);
                }
                Place::Data(i, k) => {
                    let citation = &mut artifacts[*i].citations[*k];
                    (citation.document_id, citation.quote) = (source.document_id, source.quote);
                }
            }
        }
        for (i, sources) in notes {
            if let Some(markdown) = &mut artifacts[i].document_markdown {
                *markdown = footnotes::with_sources(markdown, &sources);
            }
        }
        Ok(is_changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_footnote_fails_if_none_of_its_citations_holds_and_only_its_source_is_mended() {
        let of = |claim: &str, verdict| Citation {
            verdict,
            ..Citation::unchecked(claim.into(), "a quote".into(), DocumentId::derive(&[b"source"]))
        };
        let all = [
            // One holds, before or behind others.
            ("1", of("Yes.", Verdict::TooShort)),
            ("1", of("It has 12 arches.", Verdict::Verified)),
            ("1", of("It is elsewhere.", Verdict::NoClaim)),
            // The claim alone is to blame.
            ("2", of("Yes.", Verdict::TooShort)),
            ("3", of("It is elsewhere.", Verdict::NoClaim)),
            // The source is to blame, too.
            ("4", of("No.", Verdict::TooShort)),
            ("4", of("It has a tower.", Verdict::NotFound)),
            // The quote is too short.
            ("5", of("It has a tower.", Verdict::TooShort)),
        ];
        let (numbers, citations): (Vec<String>, Vec<Citation>) =
            all.into_iter().map(|(number, citation)| (number.to_owned(), citation)).unzip();
        let drafts = [ArtifactDraft { citations, ..ArtifactDraft::document("findings", "", "") }];
        let shown = |all: BTreeMap<Place, &Citation>| -> Vec<(Place, String)> {
            all.into_iter().map(|(place, citation)| (place, citation.claim.clone())).collect()
        };
        let place = |number: &str, claim: &str| (Place::Note(0, number.to_owned()), claim.to_owned());
        let of_source = [place("4", "It has a tower."), place("5", "It has a tower.")];
        assert_eq!(shown(mendable(&drafts, std::slice::from_ref(&numbers))), of_source);
        let of_claim = [place("2", "Yes."), place("3", "It is elsewhere.")];
        assert_eq!(shown(failed(&drafts, &[numbers])), [of_claim, of_source].concat());
    }
}
