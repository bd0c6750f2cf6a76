//! Whether words that no passage holds stand in any document of the context: only a search over all of it can tell.

use std::collections::BTreeSet;

use serde_json::{Map, json};
use tree_agent_contract::role::RoleError;
use tree_agent_contract::spelling;
use tree_agent_tools::{QUERY_BYTES, SEARCH_DOCUMENTS};

use super::corpus::{CANDIDATES, Entry, cannot_search, entries, hits};
use super::words::{Term, key_terms, listed, with_endings};
use super::{count, failed, short};
use crate::io::RoleIo;

/// Documents that are named when a term was found by search only.
const NAMED: usize = 3;
/// The beginning of what is said of a word that search does not find.
const UNFOUND: &str = "Search found no document with the word";
/// The end of what is said if not all documents could be looked through.
const INCOMPLETE: &str = "not every document could be searched for other spellings of it.";

/// What a search over the whole context says of terms that no passage holds.
#[derive(Debug, Default)]
pub(super) struct Missing {
    /// Those that no document contains: of each term the first form of which that is true.
    pub(super) absent: Vec<String>,
    /// For each of the others, one sentence that names the documents that contain it.
    pub(super) unquoted: Vec<String>,
    /// Those that could not be searched for, as indices of terms.
    pub(super) unsearched: BTreeSet<usize>,
}

/// Looks for each of `candidates` in all documents of the context, read or not: a full-text search counts the documents
/// that match. A term without a match is called absent only if no document holds its letters in another spelling
/// either, nor those of its other forms: `e-mail` may stand for `emails`.
pub(super) async fn look_for(
    io: &RoleIo,
    terms: &[Term],
    candidates: impl IntoIterator<Item = usize>,
) -> Result<Missing, RoleError> {
    let mut missing = Missing::default();
    let mut unmatched: Vec<Unmatched> = Vec::new();
    let mut candidates = candidates.into_iter();
    'terms: while let Some(of) = candidates.next() {
        for form in terms[of].in_all_forms() {
            match matches(io, &form).await? {
                Some(Matches { total: Some(0), unmatched: words, .. }) => {
                    let spellings = [&form.shown].into_iter().chain(&words).map(|word| with_endings(word));
                    let spellings = spellings.collect();
                    unmatched.push(Unmatched { of, form, spellings });
                }
                Some(Matches { total: Some(total), found, .. }) => {
                    missing.unquoted.push(unquoted(&form, total, found));
                }
                Some(Matches { total: None, .. }) => drop(missing.unsearched.insert(of)),
                None => {
                    missing.unsearched.extend([of].into_iter().chain(&mut candidates));
                    break 'terms;
                }
            }
        }
    }
    // The terms of which a form may stand somewhere.
    let mut maybe = BTreeSet::new();
    let mut nowhere: Vec<Unmatched> = Vec::new();
    for group in groups(unmatched) {
        // Most often no document holds any of them, which one look shows.
        let several: Vec<&str> = group.iter().flat_map(|u| &u.spellings).map(String::as_str).collect();
        let is_nowhere = several.len() > 1
            && similar(io, &several.join(" ")).await?.is_some_and(|similar| similar.is_nowhere());
        for next in group {
            match if is_nowhere { Some(Similar::NOWHERE) } else { similar_to(io, &next.spellings).await? } {
                Some(similar) if similar.is_nowhere() => nowhere.push(next),
                Some(similar) => {
                    maybe.insert(next.of);
                    missing.unquoted.push(similar.said(&next.form));
                }
                None => drop(missing.unsearched.insert(next.of)),
            }
        }
    }
    let mut named = BTreeSet::new();
    nowhere.retain(|word| {
        let is_certain = !maybe.contains(&word.of) && !missing.unsearched.contains(&word.of);
        is_certain && named.insert(word.of)
    });
    missing.absent = nowhere.into_iter().map(|word| word.form.shown).collect();
    Ok(missing)
}

/// What has been said of words that no passage holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// No document contains them.
    pub(super) absent: Vec<String>,
    /// Sentences about others, as in [`Missing::unquoted`].
    pub(super) unquoted: Vec<String>,
}

/// Looks again for words that steps have not found, because documents may have been added since: while the run worked,
/// or before a fork that keeps the step. Returns what is true now. If a word cannot be looked for any more, what was
/// said of it stands.
pub(super) async fn look_again(io: &RoleIo, before: Said) -> Result<Said, RoleError> {
    let sentences = before.unquoted.iter().filter_map(|sentence| unfound(sentence));
    let words: BTreeSet<&str> = before.absent.iter().map(String::as_str).chain(sentences).collect();
    // Usually nothing has changed, and the run knows the answers.
    let terms: Vec<Term> = words.into_iter().flat_map(key_terms).collect();
    let now = look_for(io, &terms, 0..terms.len()).await?;
    // The term that a word was looked for as, if that could be done.
    let judged = |word: &str| {
        let asked = key_terms(word);
        let [asked] = asked.as_slice() else { return None };
        let of = terms.iter().position(|term| term.shown == asked.shown)?;
        (!now.unsearched.contains(&of)).then(|| &terms[of])
    };
    let mut after = before;
    after.absent.retain(|word| judged(word).is_none_or(|term| now.absent.contains(&term.shown)));
    after.unquoted.retain(|sentence| {
        now.unquoted.contains(sentence) || unfound(sentence).is_none_or(|word| judged(word).is_none())
    });
    // What was spelled in another way then may be missing now, because documents may also be removed.
    let said: BTreeSet<String> =
        after.absent.iter().flat_map(|word| key_terms(word)).map(|t| t.shown).collect();
    after.absent.extend(now.absent.into_iter().filter(|word| !said.contains(word)));
    for sentence in now.unquoted {
        if !after.unquoted.contains(&sentence) {
            after.unquoted.push(sentence);
        }
    }
    Ok(after)
}

/// A form of a term that search does not find.
struct Unmatched {
    /// The index of the term.
    of: usize,
    form: Term,
    /// What is looked for: the whole, and the words of it that search does not find.
    spellings: Vec<String>,
}

/// Divides `all` so that one look finds the words of each group.
fn groups(all: Vec<Unmatched>) -> Vec<Vec<Unmatched>> {
    let mut groups: Vec<Vec<Unmatched>> = Vec::new();
    // Words and bytes.
    let mut room = (0, 0);
    for next in all {
        let words: usize = next.spellings.iter().map(|spelling| spelling.split_whitespace().count()).sum();
        let bytes: usize = next.spellings.iter().map(|spelling| spelling.len() + 1).sum();
        match groups.last_mut() {
            Some(group) if words <= room.0 && bytes <= room.1 => {
                room = (room.0 - words, room.1 - bytes);
                group.push(next);
            }
            _ => {
                let left = |most: usize, used: usize| most.saturating_sub(used);
                room = (left(spelling::Similar::WORDS, words), left(QUERY_BYTES, bytes));
                groups.push(vec![next]);
            }
        }
    }
    groups
}

/// What search says of a term.
struct Matches {
    found: Vec<Entry>,
    /// How many documents hold all of its words, if that can be told.
    total: Option<u64>,
    /// Those of its words that no document holds, if there are several.
    unmatched: Vec<String>,
}

/// Searches for the documents that hold all words of a term. None if no search can be made any more.
async fn matches(io: &RoleIo, term: &Term) -> Result<Option<Matches>, RoleError> {
    let Some((found, mut total)) = hits(io, &term.shown, CANDIDATES).await? else { return Ok(None) };
    let (words, mut unmatched) = (term.words(), Vec::new());
    if words.len() < 2 {
        // If it cannot be told how many there are, these are some of them.
        let some = (!found.is_empty()).then_some(found.len() as u64);
        return Ok(Some(Matches { total: total.or(some), found, unmatched }));
    }
    // If no document holds all words, search counts those that hold any: more than hold the rarest of them.
    for word in words {
        let Some((_, of_word)) = hits(io, &word, 1).await? else { return Ok(None) };
        total = match (total, of_word) {
            (Some(0), _) => Some(0),
            (Some(all), Some(of_word)) if all > of_word => Some(0),
            (Some(all), Some(_)) => Some(all),
            _ => None,
        };
        if of_word == Some(0) {
            unmatched.push(word);
        }
    }
    Ok(Some(Matches { found, total, unmatched }))
}

/// Where the letters of a term stand.
struct Similar {
    found: Vec<Entry>,
    /// All documents were looked at.
    is_complete: bool,
}

impl Similar {
    const NOWHERE: Self = Self { found: Vec::new(), is_complete: true };

    fn is_nowhere(&self) -> bool {
        self.found.is_empty() && self.is_complete
    }

    /// What is known of a term that search does not find.
    fn said(&self, term: &Term) -> String {
        let unfound = format!("{UNFOUND} “{}”", term.shown);
        let named: Vec<String> = self.found.iter().take(NAMED).map(|entry| short(&entry.path, 200)).collect();
        match named.as_slice() {
            [] => format!("{unfound}, but {INCOMPLETE}"),
            some => format!("{unfound} as such. Similar spellings stand in {}.", listed(some)),
        }
    }
}

/// Where the letters of a term stand: of the first of `words`, which is the whole, or of the others, which are words of
/// it that search does not find. It stands nowhere if the whole and one of the others do not. None if that cannot be
/// told.
async fn similar_to(io: &RoleIo, words: &[String]) -> Result<Option<Similar>, RoleError> {
    let Some((whole, rest)) = words.split_first() else { return Ok(None) };
    let mut known = similar(io, whole).await?;
    if known.as_ref().is_some_and(Similar::is_nowhere) {
        for word in rest {
            known = similar(io, word).await?;
            if known.as_ref().is_none_or(Similar::is_nowhere) {
                break;
            }
        }
    }
    Ok(known)
}

/// Looks for the letters of `words`. None if that cannot be done.
async fn similar(io: &RoleIo, words: &str) -> Result<Option<Similar>, RoleError> {
    let args = Map::from_iter([
        ("query".to_owned(), json!(words)),
        ("limit".to_owned(), json!(NAMED)),
        ("similar".to_owned(), json!(true)),
    ]);
    let purpose = format!("to look for other spellings of {words}");
    match io.call_tool(SEARCH_DOCUMENTS, args, &purpose).await {
        Ok(found) => Ok(Some(Similar {
            found: entries(&found["hits"]),
            is_complete: found["complete"].as_bool().unwrap_or_default(),
        })),
        Err(error) if cannot_search(&error) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// The word that a sentence of [`Missing::unquoted`] is about.
pub(super) fn word_of(sentence: &str) -> Option<&str> {
    let (_, rest) = sentence.split_once('“')?;
    rest.split_once('”').map(|(word, _)| word)
}

/// The same, if the sentence says that documents contain the word.
pub(super) fn contained(sentence: &str) -> Option<&str> {
    word_of(sentence).filter(|_| !sentence.starts_with(UNFOUND))
}

/// The same, if the sentence says that search does not find the word as such.
fn unfound(sentence: &str) -> Option<&str> {
    word_of(sentence).filter(|_| sentence.starts_with(UNFOUND))
}

/// The same, if the sentence also names documents with similar spellings.
pub(super) fn similarly_spelled(sentence: &str) -> Option<&str> {
    unfound(sentence).filter(|_| !sentence.ends_with(INCOMPLETE))
}

/// Says that `total` documents contain a term of which no passage was quoted, and names the first of `found` by path.
fn unquoted(term: &Term, total: u64, mut found: Vec<Entry>) -> String {
    found.sort();
    let mut named: Vec<String> = found.iter().take(NAMED).map(|entry| short(&entry.path, 200)).collect();
    match total.saturating_sub(named.len() as u64) {
        0 => {}
        more => named.push(format!("{more} more")),
    }
    // A search for a compound looks for its parts.
    let contain = match (term.stems.len(), total) {
        (1, 1) => "contains the word",
        (1, _) => "contain the word",
        (_, 1) => "has the words of",
        _ => "have the words of",
    };
    let documents = count(usize::try_from(total).unwrap_or(usize::MAX), "document");
    format!("{documents} {contain} “{}”, but no passage of it was quoted: {}.", term.shown, listed(&named))
}
