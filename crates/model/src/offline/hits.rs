//! Passages that a search finds.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, json};
use tree_agent_contract::role::RoleError;
use tree_agent_contract::{DocumentId, text};
use tree_agent_retrieval::{Format, terms};
use tree_agent_tools::{QUERY_BYTES, SEARCH_DOCUMENTS, ToolError};

use super::expects::Held;
use super::question;
use crate::io::{RoleIo, failed};

/// Hits of a search in which all sources matter.
pub(super) const MANY_HITS: usize = 100;

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
    pub(super) fn is_at(&self, other: &Self) -> bool {
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

    pub(super) fn as_held(&self) -> Held {
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
    pub(super) passages: u64,
    pub(super) embedded: Option<u64>,
    /// The order is by meaning, too.
    pub(super) vectors: bool,
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
    pub(super) fn holds(&self, term: &str) -> Option<bool> {
        self.words.iter().find(|counted| counted.word == term).map(|counted| counted.passages > 0)
    }

    /// The terms of `question` that say what it is about, each with the number of passages that hold it.
    pub(super) fn counts(&self, question: &str) -> BTreeMap<String, u64> {
        let asked = terms(question);
        let telling = self.words.iter().filter(|w| asked.contains(&w.word) && !question::is_doing(&w.word));
        telling.map(|word| (word.word.clone(), word.passages)).collect()
    }
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

/// Gives each hit its place.
pub(super) fn number(hits: &mut [Hit]) {
    (1..).zip(hits).for_each(|(rank, hit)| hit.rank = rank);
}

/// Each hit once.
pub(super) fn distinct(hits: impl Iterator<Item = Hit>) -> Vec<Hit> {
    let mut taken = BTreeSet::new();
    hits.filter(|hit| taken.insert((hit.document_id, hit.offset))).collect()
}
