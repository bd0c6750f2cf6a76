//! Citations of an answer: read from its documents, checked, repaired once, and marked if they still do not hold.

use std::collections::BTreeMap;

use genai::chat::ChatMessage;
use tree_agent_contract::citation::footnote_mark;
use tree_agent_contract::role::{ArtifactDraft, RoleError};
use tree_agent_contract::text::one_line;
use tree_agent_contract::{Citation, Verdict, limits};

use super::ask::{Call, Target};
use super::delivery::{Conversation, size_of};
use super::footnotes::{self, Cited, Source, told};
use super::prompt::{CitationsPrompt, FailedCitation};
use super::stream::ScratchpadWriter;
use crate::cite;

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
        let Some(markdown) = &artifact.document_markdown else { return Vec::new() };
        let (numbers, citations) = footnotes::citations(markdown)
            .into_iter()
            .map(|Cited { number, citation }| (number, citation))
            .unzip();
        artifact.citations = citations;
        numbers
    });
    numbers.collect()
}

/// The citations that do not hold, each place once. `numbers`: the footnotes of the citations of each artifact.
fn failed<'a>(artifacts: &'a [ArtifactDraft], numbers: &[Vec<String>]) -> BTreeMap<Place, &'a Citation> {
    let mut all = BTreeMap::new();
    for (i, artifact) in artifacts.iter().enumerate() {
        for (k, citation) in artifact.citations.iter().enumerate().filter(|(_, c)| !c.is_verified()) {
            let place = match numbers.get(i).and_then(|numbers| numbers.get(k)) {
                Some(number) => Place::Note(i, number.clone()),
                None => Place::Data(i, k),
            };
            all.entry(place).or_insert(citation);
        }
    }
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
        if !failed(artifacts, &numbers).is_empty()
            && self.io.may_ask()
            && self.repair_citations(target, conversation, artifacts, &numbers).await?
        {
            numbers = read(artifacts);
            cite::check(artifacts, self.io).await?;
        }
        let mut verdicts: BTreeMap<usize, BTreeMap<String, Verdict>> = BTreeMap::new();
        for (place, citation) in failed(artifacts, &numbers) {
            if let Place::Note(i, number) = place {
                verdicts.entry(i).or_default().insert(number, citation.verdict);
            }
        }
        for (i, verdicts) in verdicts {
            if let Some(markdown) = &mut artifacts[i].document_markdown {
                *markdown = footnotes::with_verdicts(markdown, &verdicts);
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
        let failed = failed(artifacts, numbers);
        let places: Vec<Place> = failed.keys().take(REPAIRED).cloned().collect();
        let shown: Vec<FailedCitation> = failed
            .values()
            .take(REPAIRED)
            .enumerate()
            .map(|(n, citation)| FailedCitation {
                number: n + 1,
                claim: one_line(&citation.claim),
                document_id: citation.document_id.to_string(),
                quote: one_line(&citation.quote),
                why: told(citation.verdict),
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
        for artifact in artifacts.iter_mut() {
            artifact.citations.truncate(limits::CITATIONS);
        }
        Ok(is_changed)
    }
}
