//! Text handling that both adapters share, so that they store and find the same.

use std::borrow::Cow;

use tree_agent_contract::spelling;
use tree_agent_contract::text::prefix;

use crate::error::StoreError;

/// `text` as every store keeps it: without NUL characters, which Postgres cannot hold. U+FFFD stands for each.
pub fn clean(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{FFFD}")) } else { Cow::Borrowed(text) }
}

/// JSON text without escaped NUL characters.
pub(crate) fn clean_json(json: String) -> String {
    const NUL: &str = "\\u0000";
    if !json.contains(NUL) {
        return json;
    }
    let mut out = String::with_capacity(json.len());
    let mut rest = json.as_str();
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix(NUL) {
            out.push('\u{FFFD}');
            rest = after;
        } else {
            // A backslash and the (ASCII) character that it escapes belong together: `\\u0000` is no NUL.
            let end = rest.len().min(2);
            out.push_str(&rest[..end]);
            rest = &rest[end..];
        }
    }
    out.push_str(rest);
    out
}

/// `text` in lower case, the same way for every database.
pub(crate) fn fold(text: &str) -> String {
    clean(text).to_lowercase()
}

/// Maximum of words of a query; more say nothing new.
const QUERY_WORDS: usize = 32;

/// Words that say nothing about a document.
const STOP_WORDS: &[&str] = &[
    "a", "about", "all", "an", "and", "any", "are", "as", "at", "be", "but", "by", "can", "do", "does",
    "for", "from", "has", "have", "how", "i", "if", "in", "into", "is", "it", "its", "me", "my", "no", "not",
    "of", "on", "or", "our", "s", "so", "t", "that", "the", "their", "them", "then", "there", "these",
    "they", "this", "to", "was", "we", "what", "when", "where", "which", "who", "why", "will", "with", "you",
    "your",
];

/// `text` as it is given to a full-text index: words that look the same are the same. Only letters and digits are left,
/// because the databases differ in what they take for parts of words, tags, numbers and host names.
pub(crate) fn index_text(text: &str) -> String {
    spelling::indexed(text).chars().map(|c| if c.is_alphanumeric() { c } else { ' ' }).collect()
}

/// The distinct words of a query, as [`index_text`] writes them, in lower case: letters and digits only, so that they
/// can be quoted for either database. Stop words are left out unless there is nothing else.
pub(crate) fn query_words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in spelling::queried(text).split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
    {
        if !words.iter().any(|known| known == word) {
            words.push(word.to_owned());
        }
    }
    if words.iter().any(|word| !STOP_WORDS.contains(&word.as_str())) {
        words.retain(|word| !STOP_WORDS.contains(&word.as_str()));
    }
    words.truncate(QUERY_WORDS);
    words
}

/// Bytes of a snippet, about.
const SNIPPET_BYTES: usize = 300;

/// How much of one body is written in the usual way to find the part for its snippet.
const RESPELLED_BYTES: usize = 128 * 1024;

/// How much of all bodies of a search is looked at for its snippets.
const SEARCH_BYTES: usize = 4 * 1024 * 1024;

/// How much of them is written in the usual way. There are texts that grow to eleven times their length by it.
const SEARCH_RESPELLED_BYTES: usize = 512 * 1024;

/// Makes the snippets of one search. What it may cost is shared by all hits, and the first hits are served first.
pub(crate) struct Snippets<'a> {
    words: &'a [String],
    /// Bytes that may still be looked at.
    bytes: usize,
    /// Bytes that may still be written in the usual way.
    respelled: usize,
}

impl<'a> Snippets<'a> {
    /// For hits of `words`, from the best on.
    pub(crate) const fn new(words: &'a [String]) -> Self {
        Self { words, bytes: SEARCH_BYTES, respelled: SEARCH_RESPELLED_BYTES }
    }

    /// The part of `body` that holds the most of the words, as one line of plain text, and where it begins; its
    /// beginning when it holds none or nothing is left to look for them. When the body spells them in another way, the
    /// part shows how they are usually written, and stands nowhere in the body.
    pub(crate) fn of(&mut self, body: &str) -> (String, Option<u64>) {
        let seen = prefix(body, self.bytes);
        self.bytes -= seen.len();
        let found = matches(seen, self.words);
        let part = prefix(seen, RESPELLED_BYTES.min(self.respelled));
        if found.is_empty()
            && let Cow::Owned(plain) = spelling::searchable(part)
        {
            self.respelled = self.respelled.saturating_sub(plain.len().max(part.len()));
            let found = matches(&plain, self.words);
            if !found.is_empty() {
                return (window(&plain, &found).0, None);
            }
        }
        let (snippet, start) = window(body, &found);
        (snippet, Some(start as u64))
    }
}

/// The part of `body` around the best of `matches`, and where it begins.
fn window(body: &str, matches: &[(usize, usize)]) -> (String, usize) {
    // The window that begins a little before a match and holds the most distinct words; the first one of these.
    let best = matches
        .iter()
        .enumerate()
        .map(|(i, (at, _))| {
            let inside = matches[i..].iter().take_while(|(other, _)| other - at < SNIPPET_BYTES * 3 / 4);
            let mut found: Vec<usize> = inside.map(|(_, word)| *word).collect();
            found.sort_unstable();
            found.dedup();
            (found.len(), std::cmp::Reverse(*at))
        })
        .max();
    let match_at = best.map_or(0, |(_, at)| at.0);
    let start = word_boundary(body, match_at.saturating_sub(SNIPPET_BYTES / 5), match_at);
    let end = end_boundary(body, start + SNIPPET_BYTES);
    let mut out = String::with_capacity(end - start + 8);
    if start > 0 {
        out.push('…');
    }
    for (i, word) in body[start..end].split_whitespace().enumerate() {
        if i > 0 {
            out.push(' ');
        }
        out.push_str(word);
    }
    if end < body.len() {
        out.push('…');
    }
    (out, start)
}

/// Where words of the query begin in `body`, and which ones. Endings are folded roughly: the beginning of a word
/// decides.
fn matches(body: &str, words: &[String]) -> Vec<(usize, usize)> {
    const ENOUGH: usize = 200;
    let stems: Vec<String> = words
        .iter()
        .map(|word| {
            let letters = word.chars().count();
            word.chars().take(if letters <= 3 { letters } else { (letters * 3 / 4).max(3) }).collect()
        })
        .collect();
    let mut found = Vec::new();
    let mut at = 0;
    for token in body.split(|c: char| !c.is_alphanumeric()) {
        let lower = spelling::folded(token);
        let hit = stems.iter().zip(words).position(|(stem, word)| {
            lower.starts_with(stem.as_str()) && (word.chars().count() > 3 || lower.len() <= word.len() + 2)
        });
        if let Some(word) = hit.filter(|_| !token.is_empty()) {
            found.push((at, word));
            if found.len() == ENOUGH {
                break;
            }
        }
        at += token.len();
        at += body[at..].chars().next().map_or(0, char::len_utf8);
    }
    found
}

/// The beginning of the first word at or after `from`, but not after `limit`.
fn word_boundary(body: &str, from: usize, limit: usize) -> usize {
    let from = body.ceil_char_boundary(from);
    if from == 0 {
        return 0;
    }
    match body[from..limit].find(char::is_whitespace) {
        Some(space) => limit - body[from + space..limit].trim_start().len(),
        None => from.min(limit),
    }
}

/// The end of the last whole word before `to`, or `to` itself, at a character.
fn end_boundary(body: &str, to: usize) -> usize {
    if to >= body.len() {
        return body.len();
    }
    let to = body.floor_char_boundary(to);
    let from = to.saturating_sub(SNIPPET_BYTES / 4);
    body.get(from..to).and_then(|end| end.rfind(char::is_whitespace)).map_or(to, |space| from + space)
}

/// The JSON text of `value`, without NUL characters.
pub(crate) fn json_text(value: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map(clean_json)
        .map_err(|e| StoreError::broken("a value has no JSON form", e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snippet(body: &str, words: &[String]) -> String {
        Snippets::new(words).of(body).0
    }

    #[test]
    fn nul_is_replaced_and_nothing_else() {
        for text in ["", "plain", "a\0b\0", "\\u0000", "\\\0", "\"\u{1}\n"] {
            let json = serde_json::to_string(text).unwrap();
            let cleaned: String = serde_json::from_str(&clean_json(json)).unwrap();
            assert_eq!(cleaned, clean(text), "{text:?}");
        }
    }

    #[test]
    fn queries_become_words() {
        assert_eq!(
            query_words("The \"Cache's\" & cache-INVALIDATION | (x) :*"),
            ["cache", "invalidation", "x"]
        );
        assert_eq!(query_words("to be or not to be"), ["to", "be", "or", "not"]);
        assert_eq!(query_words("'' -- !!! <-> \u{0}"), Vec::<String>::new());
        assert_eq!(query_words("İstanbul ÄRGER 数据"), ["istanbul", "ärger", "数", "据"]);
        assert!(query_words(&(0..99).map(|n| format!("w{n} ")).collect::<String>()).len() == QUERY_WORDS);
    }

    #[test]
    fn a_query_is_spelled_as_the_index_is() {
        for query in ["cafe\u{301}", "ｃａｆé", "caf&eacute;", "ca\u{ad}fé", "**ca**fé"] {
            assert_eq!(query_words(query), ["café"], "{query:?}");
            let body = format!("{} and {query}", "word ".repeat(200));
            let snippet = snippet(&body, &query_words("café"));
            assert!(spelling::searchable(&snippet).contains("café"), "{query:?}: {snippet}");
        }
    }

    /// U+FDFA is eighteen characters in the usual spelling.
    #[test]
    fn the_snippets_of_a_search_share_what_they_may_cost() {
        let words = query_words("صلى");
        let body = "\u{fdfa}".repeat(100_000);
        let mut snippets = Snippets::new(&words);
        let shown: Vec<String> = (0..100).map(|_| snippets.of(&body).0).collect();
        assert!(shown[0].starts_with("صلى"), "{}", shown[0]);
        assert!(shown[1..].iter().all(|snippet| snippet.starts_with('\u{fdfa}')), "only a part is respelled");
        assert!(snippets.bytes < 3 && snippets.respelled == 0);

        // What needs no other spelling is looked at as far as the bytes reach.
        let words = query_words("meteor");
        let body = format!("{} meteor", "word ".repeat(200_000));
        let mut snippets = Snippets::new(&words);
        let shown: Vec<String> = (0..100).map(|_| snippets.of(&body).0).collect();
        assert_eq!(shown.iter().filter(|snippet| snippet.contains("meteor")).count(), 4);
        assert!(shown[99].starts_with("word word") && snippets.bytes < 3);
        assert_eq!(snippets.respelled, SEARCH_RESPELLED_BYTES);
    }

    #[test]
    fn a_snippet_says_where_it_begins() {
        let words = query_words("meteor");
        let body = format!("{}\n\nThe  meteor\nfell. {}", "é ".repeat(900), "ü ".repeat(900));
        let (snippet, offset) = Snippets::new(&words).of(&body);
        let there: Vec<&str> = body[offset.unwrap() as usize..].split_whitespace().collect();
        assert!(there.join(" ").starts_with(snippet.trim_matches('…')), "{snippet}");
        assert!(!body[offset.unwrap() as usize..].starts_with(char::is_whitespace));
        assert_eq!(Snippets::new(&words).of("A meteor.").1, Some(0));
        // What is shown in another spelling stands nowhere.
        assert_eq!(Snippets::new(&query_words("صلى")).of("\u{fdfa}").1, None);
    }

    #[test]
    fn a_snippet_shows_where_the_words_are_together() {
        let words = query_words("cache invalidation");
        let body =
            format!("caches\n{} about invalidating\n\na *cache* now. {}", "é ".repeat(900), "ü ".repeat(900));
        let text = snippet(&body, &words);
        assert!(text.starts_with('…') && text.ends_with('…'), "{text}");
        assert!(text.contains("about invalidating a *cache* now."), "{text}");
        assert!(text.len() < SNIPPET_BYTES + 10);
        assert_eq!(snippet("short text", &words), "short text");
        assert_eq!(snippet("", &words), "");
        assert!(snippet(&"x".repeat(5_000), &words).len() <= SNIPPET_BYTES + 3);
    }
}
