//! Finds the sources of statements after a model has written them: a model that has to copy a quote often fails, and we
//! need not. What the call has seen comes first, then a search in the context of the run. No model is asked.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use futures::{StreamExt, stream};
use serde_json::{Map, Value, json};
use tree_agent_contract::role::ArtifactDraft;
use tree_agent_contract::text::{one_line, prefix};
use tree_agent_contract::{Citation, Document, DocumentId, DocumentKind, Origin, Support, Verdict, limits};
use tree_agent_retrieval::{Format, Kind, Said, Support as Found, Visible, chunk, support};
use tree_agent_tools::{QUERY_BYTES, SEARCH_DOCUMENTS};
use unicode_segmentation::UnicodeSegmentation;

use super::disagree::{self, Quoted};
use crate::claims::{Claim, Claims, without_marks};
use crate::footnotes::{self, Source};
use crate::io::RoleIo;

/// Documents that a call has seen and that are looked through.
const SEEN: usize = 32;
/// Bytes of them in all.
const SEEN_BYTES: usize = 1024 * 1024;
/// Searches for the statements of one document.
const SEARCHES: usize = 128;
/// Searches at the same time.
const AT_ONCE: usize = 4;
/// Hits of a search.
const HITS: usize = 4;
/// Documents that a search may add.
const FOUND: usize = 16;
/// Sentences that are compared with a statement.
const COMPARED: usize = 8;
/// Sentences that carry one statement together.
const TOGETHER: usize = 3;
/// Of 100 words of a statement, as many stand in a sentence that is compared with it.
const NEAR: usize = 30;
/// Letters of the shortest sentence that is quoted.
const LETTERS: usize = 12;

/// A sentence of a document.
struct Sentence {
    document: usize,
    range: Range<usize>,
    said: Said,
    /// What it is about: an index into `Library::contexts`.
    context: usize,
    /// What it cites, if a role has written it.
    cites: Option<(DocumentId, String)>,
}

/// The sentences in which sources are looked for.
#[derive(Default)]
struct Library {
    documents: Vec<Document>,
    sentences: Vec<Sentence>,
    contexts: Vec<Said>,
    by_word: HashMap<String, Vec<usize>>,
}

/// Looks for the sources of statements of `artifact` that have none which supports them, and adds them to it, and for
/// sources that disagree. What cannot be looked up stays without.
pub(super) async fn find(artifact: &mut ArtifactDraft, io: &RoleIo) {
    let Some(markdown) = artifact.document_markdown.clone() else { return };
    let claims = Claims::of(&markdown).claims;
    let mut open: Vec<(usize, String, usize)> = Vec::new();
    for (at, claim) in claims.iter().enumerate() {
        let text = footnotes::whole_words(&claim.text, limits::CLAIM_BYTES);
        let own: Vec<&Citation> = artifact.citations.iter().filter(|one| one.claim == text).collect();
        let holds = |one: &&Citation| {
            one.verdict == Verdict::Doubted || one.is_verified() && one.support == Some(Support::Supported)
        };
        let is_known = open.iter().any(|(_, known, _)| known == text);
        if !text.is_empty() && !is_known && !own.iter().any(holds) {
            open.push((at, text.to_owned(), claim.end));
        }
    }
    if claims.is_empty() {
        return;
    }
    let mut library = Library::default();
    for id in io.seen().into_iter().take(SEEN) {
        library.read(id, io, None).await;
    }
    let mut found: BTreeMap<usize, (String, usize, Vec<usize>)> = BTreeMap::new();
    for round in 0..2 {
        if round == 1 && !open.is_empty() {
            library.search(&open, io).await;
        }
        let mut rest = Vec::new();
        for (at, text, end) in std::mem::take(&mut open) {
            match library.carries(&text) {
                Some(carried) => drop(found.insert(at, (text, end, carried))),
                None => rest.push((at, text, end)),
            }
            // Heartbeats and the deadline of the call have their turn.
            tokio::task::yield_now().await;
        }
        open = rest;
    }
    artifact.disagreements = disagree::among(library.quoted(&claims));
    library.cite(artifact, &markdown, found, io.language());
}

impl Library {
    /// Adds a document: all of it, or only these passages.
    async fn read(&mut self, id: DocumentId, io: &RoleIo, passages: Option<&[Range<usize>]>) {
        if self.documents.iter().any(|known| known.id == id) {
            return;
        }
        let document = match io.tools().source(id).await {
            Ok(document) => document,
            Err(error) => {
                tracing::debug!(%id, "no source is looked for in a document: {error}");
                return;
            }
        };
        let size: usize = self.documents.iter().map(|known| known.body.len()).sum();
        if matches!(document.kind, DocumentKind::Source | DocumentKind::Artifact)
            && (passages.is_some() || size + document.body.len() <= SEEN_BYTES)
        {
            self.add(document, passages);
        }
    }

    fn add(&mut self, document: Document, passages: Option<&[Range<usize>]>) {
        let at = self.documents.len();
        // What another role has written carries a statement only where a citation of its own holds.
        let is_artifact =
            document.kind == DocumentKind::Artifact && !document.path.starts_with("tool-output/");
        let mut cited: HashMap<String, (DocumentId, String)> = HashMap::new();
        if is_artifact {
            for note in footnotes::citations(&document.body).into_iter().filter(|note| note.holds) {
                let Citation { claim, quote, document_id, .. } = note.citation;
                cited.entry(claim).or_insert((document_id, quote));
            }
        }
        let holds =
            |claim: &Claim| cited.contains_key(footnotes::whole_words(&claim.text, limits::CLAIM_BYTES));
        let pieces = chunk(&document.path, &document.body);
        let is_markdown = Format::of(&document.path, "") == Format::Markdown;
        let mut ranges: Vec<Range<usize>> = match is_markdown {
            true => {
                let claims = Claims::of(&document.body).claims.into_iter();
                claims.filter(|claim| !is_artifact || holds(claim)).map(|claim| claim.range).collect()
            }
            false => Vec::new(),
        };
        for piece in pieces.iter().filter(|piece| !is_artifact && (!is_markdown || piece.kind == Kind::Code))
        {
            let parts = parts(&document.body[piece.range.clone()], piece.kind).into_iter();
            ranges.extend(parts.map(|part| piece.range.start + part.start..piece.range.start + part.end));
        }
        let mut last: Option<(usize, Range<usize>)> = None;
        ranges.sort_by_key(|range| range.start);
        for range in ranges {
            let of = pieces.partition_point(|piece| piece.range.end <= range.start);
            let Some(piece) = pieces.get(of).filter(|piece| piece.range.start < range.end) else { continue };
            let is_wanted = |passages: &[Range<usize>]| {
                passages.iter().any(|one| one.start < piece.range.end && piece.range.start < one.end)
            };
            if passages.is_some_and(|passages| !is_wanted(passages)) {
                continue;
            }
            let before = last.replace((of, range.clone()));
            if before.as_ref().is_none_or(|(before, _)| *before != of) {
                let head = document.body.get(piece.head.clone()).unwrap_or_default();
                let about = [piece.headings.join("\n"), document.title.clone(), head.to_owned()];
                self.contexts.push(Said::of(&about.join("\n")));
            }
            // What begins with `It` is read with the sentence before it.
            let own = document.body.get(range.clone()).unwrap_or_default();
            let range = match before {
                Some((before, first)) if before == of && is_pronoun(own) && !is_artifact => {
                    first.start..range.end
                }
                _ => range,
            };
            let text = document.body.get(range.clone()).unwrap_or_default();
            if text.chars().filter(|c| c.is_alphanumeric()).count() < LETTERS {
                continue;
            }
            let said = Said::of(&one_line(text));
            for word in said.words() {
                self.by_word.entry(word.clone()).or_default().push(self.sentences.len());
            }
            let context = self.contexts.len() - 1;
            let cites = cited.get(&one_line(&without_marks(text))).cloned();
            self.sentences.push(Sentence { document: at, range, said, context, cites });
        }
        self.documents.push(document);
    }

    /// Searches the context of the run for statements.
    async fn search(&mut self, open: &[(usize, String, usize)], io: &RoleIo) {
        let ask = |(_, text, _): &(usize, String, usize)| {
            let query = prefix(text, QUERY_BYTES).to_owned();
            async move {
                let args = json!({ "query": query, "limit": HITS });
                let args: Map<String, Value> = args.as_object().cloned().unwrap_or_default();
                io.tools().call(SEARCH_DOCUMENTS, &args).await.map(|output| output.value)
            }
        };
        let mut answers = stream::iter(open.iter().take(SEARCHES).map(ask)).buffered(AT_ONCE);
        let mut passages: Vec<(DocumentId, Vec<Range<usize>>)> = Vec::new();
        while let Some(answer) = answers.next().await {
            let answer = match answer {
                Ok(answer) => answer,
                Err(error) => {
                    tracing::debug!("the context is not searched for sources: {error}");
                    break;
                }
            };
            for hit in answer["hits"].as_array().into_iter().flatten() {
                let id = hit["documentId"].as_str().and_then(|id| id.parse::<DocumentId>().ok());
                let (Some(id), Some(text)) = (id, hit["passage"].as_str()) else { continue };
                let begin = hit["offset"].as_u64().unwrap_or_default() as usize;
                let passage = begin..begin + text.len();
                let known = passages.iter().position(|(known, _)| *known == id);
                match known {
                    Some(at) => passages[at].1.push(passage),
                    None if passages.len() < FOUND => passages.push((id, vec![passage])),
                    None => {}
                }
            }
        }
        for (id, passages) in passages {
            self.read(id, io, Some(&passages)).await;
        }
    }

    /// The sentences that say most of a statement, best first.
    fn near(&self, said: &Said) -> Vec<usize> {
        let mut shared: HashMap<usize, usize> = HashMap::new();
        for word in said.words() {
            for at in self.by_word.get(word).into_iter().flatten() {
                *shared.entry(*at).or_default() += 1;
            }
        }
        let mut near: Vec<(usize, usize)> =
            shared.into_iter().filter(|(_, n)| 100 * n >= NEAR * said.words().len()).collect();
        near.sort_by_key(|(at, n)| (std::cmp::Reverse(*n), *at));
        near.into_iter().take(COMPARED).map(|(at, _)| at).collect()
    }

    /// The sentences of sources that are near statements.
    fn quoted(&self, claims: &[Claim]) -> impl Iterator<Item = Quoted> {
        let near = claims.iter().flat_map(|claim| self.near(&Said::of(&claim.text)));
        let mut near: Vec<usize> = near.collect();
        let mut seen = BTreeSet::new();
        near.retain(|at| seen.insert(*at));
        near.into_iter().map(|at| {
            let Sentence { document, range, said, context, cites } = &self.sentences[at];
            let document = &self.documents[*document];
            let context = self.contexts[*context].clone();
            match cites {
                Some((document_id, quote)) => {
                    Quoted { document_id: *document_id, said: Said::of(quote), quote: quote.clone(), context }
                }
                None => Quoted {
                    document_id: document.id,
                    quote: one_line(&without_marks(&document.body[range.clone()])),
                    said: said.clone(),
                    context,
                },
            }
        })
    }

    /// The sentences that carry a statement: one, or up to three. What says something else carries it as well, if
    /// nothing supports it.
    fn carries(&self, text: &str) -> Option<Vec<usize>> {
        let said = Said::of(text);
        let near = self.near(&said);
        let of = |sentences: &[usize]| {
            let quotes: Vec<&Said> = sentences.iter().map(|at| &self.sentences[*at].said).collect();
            support(&said, &quotes, &self.contexts[self.sentences[sentences[0]].context])
        };
        let mut other = None;
        for at in &near {
            match of(&[*at]) {
                Found::Supported => return Some(vec![*at]),
                Found::Contradicted { .. } => other = other.or(Some(vec![*at])),
                Found::Computed | Found::Open => {}
            }
        }
        let mut together = near.first().map(|at| vec![*at])?;
        for _ in 1..TOGETHER {
            let has = |at: usize, word: &str| self.sentences[at].said.has(word);
            let is_lacking = |word: &&String| !together.iter().any(|at| has(*at, word));
            let lacking: Vec<&String> = said.words().iter().filter(is_lacking).collect();
            let more = |at: &usize| lacking.iter().filter(|word| has(*at, word)).count();
            let Some(next) = near.iter().filter(|at| !together.contains(at)).max_by_key(|at| more(at)) else {
                break;
            };
            together.push(*next);
            if of(&together) == Found::Supported {
                return Some(together);
            }
        }
        other
    }

    /// Adds the citations, with a mark and a footnote for each.
    fn cite(
        &self,
        artifact: &mut ArtifactDraft,
        markdown: &str,
        found: BTreeMap<usize, (String, usize, Vec<usize>)>,
        language: &str,
    ) {
        let mut visible: HashMap<usize, Visible<'_>> = HashMap::new();
        let (mut citations, mut added) = (Vec::new(), Vec::new());
        for (claim, end, sentences) in found.into_values() {
            let own: Vec<Citation> = sentences
                .iter()
                .filter_map(|at| {
                    let Sentence { document: at, range, .. } = &self.sentences[*at];
                    let document = &self.documents[*at];
                    let source =
                        visible.entry(*at).or_insert_with(|| Visible::of(&document.path, &document.body));
                    let text = one_line(&without_marks(&document.body[range.clone()]));
                    let quote = footnotes::whole_words(&text, limits::QUOTE_BYTES).to_owned();
                    let (verdict, passage) = source.judge(&quote);
                    let (source_title, source_path) = (document.title.clone(), document.path.clone());
                    (verdict == Verdict::Verified).then(|| Citation {
                        verdict,
                        passage,
                        origin: Some(Origin::Found),
                        source_title,
                        source_path,
                        ..Citation::unchecked(claim.clone(), quote, document.id)
                    })
                })
                .collect();
            let is_whole = own.len() == sentences.len();
            if is_whole && artifact.citations.len() + citations.len() + own.len() <= limits::CITATIONS {
                added.extend(own.iter().map(|one| (end, Source::new(one.document_id, &one.quote))));
                citations.extend(own);
            }
        }
        if citations.is_empty() {
            return;
        }
        added.sort_by_key(|(end, _)| *end);
        if let Some(text) = footnotes::with_more(markdown, &added, language) {
            artifact.document_markdown = Some(text);
            artifact.citations.extend(citations);
        }
    }
}

/// True if a sentence begins with a word that stands for something before it.
fn is_pronoun(sentence: &str) -> bool {
    let first = sentence.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    ["It", "Its", "They", "Their", "He", "His", "She", "Her", "This", "These", "Es", "Er"].contains(&first)
}

/// The parts of a piece that can be quoted: its sentences, or its lines.
fn parts(text: &str, kind: Kind) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = 0;
    match kind {
        Kind::Text | Kind::Quote => {
            for paragraph in text.split_inclusive("\n\n") {
                // A line break within a paragraph ends no sentence.
                let joined = paragraph.replace('\n', " ");
                let bounds = joined.split_sentence_bound_indices();
                parts.extend(bounds.map(|(at, sentence)| start + at..start + at + sentence.len()));
                start += paragraph.len();
            }
        }
        Kind::List | Kind::Table | Kind::Code => {
            for line in text.split_inclusive('\n') {
                parts.push(start..start + line.len());
                start += line.len();
            }
        }
    }
    let trimmed = parts.into_iter().filter_map(|range| {
        let part = text.get(range.clone())?;
        let begin = range.start + part.len() - part.trim_start().len();
        Some(begin..begin + part.trim().len())
    });
    trimmed.collect()
}

#[cfg(test)]
mod tests;
