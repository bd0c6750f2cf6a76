//! The passages that speak of a question, best first, and whether they answer it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, json};
use tree_agent_contract::language::Sentence;
use tree_agent_contract::role::{CallContext, RoleError};
use tree_agent_contract::{DocumentId, text};
use tree_agent_retrieval::{Format, terms};
use tree_agent_tools::{QUERY_BYTES, SEARCH_DOCUMENTS, ToolError};

use super::expects::{self, Held};
use super::{question, vintage};
use crate::io::{RoleIo, failed};

/// Passages that one answer quotes.
const PASSAGES: usize = 8;
/// Passages that a reader reads first.
const FIRST: usize = 3;
/// Hits of a search from which they are chosen.
const HITS: usize = 20;
/// Hits of a search in which all sources matter.
pub(super) const MANY_HITS: usize = 100;
/// The nearest passages that are shown if nothing was found.
pub(super) const NEAREST: usize = 3;
/// Seconds that the first search of a run waits until all passages can be found by meaning.
const WAIT: u8 = 30;
/// A passage of this similarity speaks of the question, whatever its words.
const SIMILAR: f64 = 0.5;

/// A passage that a search found.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Hit {
    pub(super) document_id: DocumentId,
    pub(super) path: String,
    pub(super) title: String,
    #[serde(default)]
    pub(super) headings: Vec<String>,
    pub(super) offset: usize,
    #[serde(rename = "passage")]
    pub(super) text: String,
    /// The head of the table whose rows it holds, if it does not hold it.
    #[serde(default)]
    pub(super) head: String,
    pub(super) similarity: Option<f64>,
    /// Its place, from 1.
    #[serde(skip)]
    pub(super) rank: u32,
    /// What a reader must know of its document.
    #[serde(skip)]
    pub(super) note: String,
}

impl Hit {
    /// Whether both are the same passage.
    fn is_at(&self, other: &Self) -> bool {
        (self.document_id, self.offset) == (other.document_id, other.offset)
    }

    /// Front matter and a bare heading answer nothing by themselves.
    fn says_something(&self) -> bool {
        let is_heading = self.text.starts_with('#') && !self.text.contains('\n');
        !is_heading && !self.text.starts_with("---\n")
    }

    /// Where it stands, for people.
    pub(super) fn source(&self) -> String {
        source(&self.path, &self.place())
    }

    /// The headings above it, and its note.
    pub(super) fn place(&self) -> String {
        let note = Some(self.note.as_str()).filter(|note| !note.is_empty());
        self.headings.iter().map(String::as_str).chain(note).collect::<Vec<_>>().join(" › ")
    }

    fn as_held(&self) -> Held {
        Held {
            place: format!("{} {} {}", self.path, self.title, self.place()),
            text: format!("{}\n{}", self.head, self.text),
            is_code: Format::of(&self.path, "") == Format::Code,
        }
    }

    /// The words of it and of its place.
    fn terms(&self) -> Vec<String> {
        terms(&format!("{} {} {} {}", self.path, self.title, self.headings.join(" "), self.text))
    }

    /// Those of `terms` that it holds.
    pub(super) fn held<'a>(&self, terms: impl IntoIterator<Item = &'a String>) -> BTreeSet<&'a String> {
        let own = self.terms();
        terms.into_iter().filter(|term| holds(&own, term)).collect()
    }
}

/// A path and the headings below it.
pub(super) fn source(path: &str, headings: &str) -> String {
    if headings.is_empty() { path.to_owned() } else { format!("{path} › {headings}") }
}

/// Whether `own` holds `term`, which may stand there as two words.
fn holds(own: &[String], term: &String) -> bool {
    own.contains(term) || own.windows(2).any(|pair| pair.concat().starts_with(term.as_str()))
}

/// How many words a reader reads. Long words, such as addresses, count as several, and so does a text without spaces.
pub(super) fn words(text: &str) -> usize {
    text.split_whitespace().count().max(text.len() / 12)
}

/// What a search answers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Found {
    /// Best first.
    pub(super) hits: Vec<Hit>,
    /// How many passages of the context hold each word of the query.
    words: Vec<WordCount>,
    /// The passages that were searched, and those of them that can be found by meaning.
    passages: u64,
    embedded: Option<u64>,
    /// The order is by meaning, too.
    vectors: bool,
    /// Why there was no search, as a sentence.
    #[serde(skip)]
    pub(super) unable: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct WordCount {
    word: String,
    passages: u64,
}

impl Found {
    /// Whether a passage of the context holds `term` of the query; none if nobody has counted it.
    fn holds(&self, term: &str) -> Option<bool> {
        self.words.iter().find(|counted| counted.word == term).map(|counted| counted.passages > 0)
    }

    /// The terms of `question` that say what it is about, each with the number of passages that hold it.
    fn counts(&self, question: &str) -> BTreeMap<String, u64> {
        let asked = terms(question);
        let telling = self.words.iter().filter(|w| asked.contains(&w.word) && !question::is_doing(&w.word));
        telling.map(|word| (word.word.clone(), word.passages)).collect()
    }
}

/// How long the first search of a node waits. A run goes by meaning only if all passages can be found so, and its root
/// decides: then the same documents give the same answer.
pub(super) fn wait(call: &CallContext) -> u8 {
    if call.depth == 0 { WAIT } else { 0 }
}

/// Searches for `query`, if it can be done, and waits at most so many seconds for vectors.
pub(super) async fn search(
    io: &RoleIo,
    query: &str,
    path: &str,
    limit: usize,
    wait: u8,
) -> Result<Found, RoleError> {
    let query = text::prefix(query, QUERY_BYTES);
    let mut args = Map::from_iter([
        ("query".to_owned(), json!(query)),
        ("limit".to_owned(), json!(limit)),
        ("whole_within".to_owned(), json!(wait)),
    ]);
    if !path.is_empty() {
        args.insert("path_prefix".to_owned(), json!(path));
    }
    let mut found = Found::default();
    if terms(query).is_empty() {
        found.unable = Some("The task holds no word to look for.".to_owned());
        return Ok(found);
    }
    match io.call_tool(SEARCH_DOCUMENTS, args, "to find what speaks of the question").await {
        Ok(answer) => {
            found = serde_json::from_value(answer).map_err(|e| failed(ToolError::Source(e.to_string())))?
        }
        Err(error) => found.unable = Some(unable(&error, SEARCH_DOCUMENTS)?),
    }
    found.hits.retain(|hit| hit.says_something() && (path.is_empty() || hit.path == path));
    number(&mut found.hits);
    Ok(found)
}

/// Why a tool cannot be used any more, as a sentence.
///
/// # Errors
/// If it could be used again.
pub(super) fn unable(error: &ToolError, tool: &str) -> Result<String, RoleError> {
    match error {
        ToolError::Budget(_) => Ok(format!("The tool calls are used up, so {tool} could not be called.")),
        ToolError::UnknownTool { .. } | ToolError::Denied { .. } => {
            Ok(format!("A project of the context does not offer {tool}, which this model needs."))
        }
        _ => Err(failed(ToolError::clone(error))),
    }
}

fn number(hits: &mut [Hit]) {
    (1..).zip(hits).for_each(|(rank, hit)| hit.rank = rank);
}

/// What is quoted as the answer to a question.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// What is quoted, best first.
    pub(super) quoted: Vec<Hit>,
    /// What follows, best first.
    pub(super) further: Vec<Hit>,
    /// What was not found, as a phrase; then the passages are only the nearest ones.
    pub(super) missing: Option<String>,
    /// Clauses of the question that nothing answers, as sentences, if something answers others.
    pub(super) gaps: Vec<String>,
    /// The terms of the question that some passage holds.
    pub(super) known: BTreeSet<String>,
    /// Why meaning did not count, as a sentence, if it could.
    pub(super) by_words: Option<String>,
}

/// The passages that answer `question`, which is searched for as a whole, in so many `words`. `limit` is the number of
/// hits. See [`wait`].
pub(super) async fn gather(
    io: &RoleIo,
    question: &str,
    limit: Option<usize>,
    wait: u8,
    words: usize,
) -> Result<Evidence, RoleError> {
    let (limit, language) = (limit.unwrap_or(HITS), io.language());
    let question = &question::without_preamble(question);
    let mut found = search(io, &question::subject(question), "", limit, wait).await?;
    if let Some(unable) = found.unable {
        let missing = Some(unable.trim_end_matches('.').to_owned());
        return Ok(Evidence { missing, ..Evidence::default() });
    }
    let counts = found.counts(question);
    let known: BTreeSet<String> = counts.into_iter().filter(|(_, n)| *n > 0).map(|(term, _)| term).collect();
    let by_words = found.embedded.filter(|_| !found.vectors).map(|embedded| {
        Sentence::ByWords.of(language, &[&embedded.to_string(), &found.passages.to_string()])
    });
    let is_near = |hit: &Hit| hit.similarity.is_some_and(|similarity| similarity >= SIMILAR);
    let mut missing =
        (known.is_empty() && !found.hits.iter().any(is_near)).then(|| unanswered(question, language));
    let mut hits = std::mem::take(&mut found.hits);
    // The order of the whole question is the best one. The best hits of its parts follow the second, if they stand
    // further down.
    let parts = question::parts(question);
    let mut place = FIRST - 1;
    for part in parts.iter().filter(|_| parts.len() > 1) {
        let own = search(io, &question::subject(part), "", limit, 0).await?.hits;
        let Some(best) = own.into_iter().next() else { continue };
        if !hits.iter().take(FIRST + 1).any(|hit| hit.is_at(&best)) {
            hits.retain(|hit| !hit.is_at(&best));
            hits.insert(hits.len().min(place), best);
            place += 1;
        }
    }
    hits = vintage::newest_first(io, question, hits).await?;
    number(&mut hits);
    let (mut quoted, mut further) = best(hits, words);
    let held: Vec<Held> = quoted.iter().map(Hit::as_held).collect();
    let clauses = question::clauses(question);
    let lacks = |clause| expects::missing(clause, language, &held, |term| found.holds(term) != Some(false));
    let lacking: Vec<(&String, String)> =
        clauses.iter().filter_map(|clause| Some((clause, lacks(clause)?))).collect();
    let mut gaps = Vec::new();
    if lacking.len() == clauses.len() {
        missing = missing.or_else(|| lacking.into_iter().next().map(|(_, why)| why));
    } else {
        let gap = |(clause, why): (&String, String)| format!("“{}”: {why}.", super::short(clause, 300));
        gaps.extend(lacking.into_iter().map(gap));
    }
    if missing.is_some() && quoted.len() > NEAREST {
        let mut rest = quoted.split_off(NEAREST);
        rest.append(&mut further);
        further = rest;
    }
    Ok(Evidence { quoted, further, missing, gaps, known, by_words })
}

/// That nothing answers `question`, as a phrase.
pub(super) fn unanswered(question: &str, language: &str) -> String {
    Sentence::Unanswered.of(language, &[&super::headline(question)])
}

/// The first of `hits` that one answer of so many `words` has room for, and the others.
pub(super) fn best(mut hits: Vec<Hit>, most: usize) -> (Vec<Hit>, Vec<Hit>) {
    let mut used = 0;
    let fits = hits.iter().take(PASSAGES).take_while(|hit| {
        let is_first = used == 0;
        used += words(&hit.text);
        is_first || used <= most
    });
    let further = hits.split_off(fits.count());
    (hits, further)
}

/// Each hit once.
pub(super) fn distinct(hits: impl Iterator<Item = Hit>) -> Vec<Hit> {
    let mut taken = BTreeSet::new();
    hits.filter(|hit| taken.insert((hit.document_id, hit.offset))).collect()
}
