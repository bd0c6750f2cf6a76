//! Words: which of them matter, and when two are the same.

use unicode_segmentation::UnicodeSegmentation;

/// Terms of one query at the most: what a sentence or two hold.
const TERMS: usize = 16;
/// Bytes of a term at the most: beyond that it is no word.
const TERM_BYTES: usize = 64;

/// Words that say nothing about a subject: function words, and the verbs with which people ask.
const STOP: &[&str] = &[
    "a",
    "about",
    "across",
    "after",
    "all",
    "also",
    "an",
    "and",
    "any",
    "are",
    "as",
    "at",
    "be",
    "been",
    "before",
    "being",
    "between",
    "both",
    "but",
    "by",
    "can",
    "compare",
    "could",
    "describe",
    "detail",
    "details",
    "did",
    "difference",
    "differences",
    "do",
    "does",
    "each",
    "every",
    "explain",
    "find",
    "for",
    "from",
    "get",
    "give",
    "had",
    "has",
    "have",
    "he",
    "how",
    "i",
    "if",
    "in",
    "into",
    "is",
    "it",
    "its",
    "just",
    "list",
    "may",
    "me",
    "more",
    "most",
    "my",
    "no",
    "not",
    "of",
    "on",
    "one",
    "only",
    "or",
    "other",
    "our",
    "out",
    "over",
    "please",
    "say",
    "says",
    "she",
    "should",
    "show",
    "so",
    "some",
    "such",
    "summarise",
    "summarize",
    "summary",
    "tell",
    "than",
    "that",
    "the",
    "their",
    "them",
    "then",
    "there",
    "these",
    "they",
    "this",
    "those",
    "through",
    "to",
    "under",
    "up",
    "us",
    "versus",
    "very",
    "vs",
    "was",
    "we",
    "were",
    "what",
    "when",
    "where",
    "which",
    "while",
    "who",
    "whom",
    "why",
    "will",
    "with",
    "work",
    "works",
    "would",
    "write",
    "you",
    "your",
];

/// A word that matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    /// What it is compared by.
    pub(super) stem: String,
    /// As its author wrote it.
    pub(super) shown: String,
}

/// The words of `text` that matter, in order, each once.
pub(super) fn key_terms(text: &str) -> Vec<Term> {
    let mut terms: Vec<Term> = Vec::new();
    for word in words(text) {
        let stem = stem(word);
        let lower = word.to_lowercase();
        let tiny = word.chars().count() < 2 && word.is_ascii();
        if tiny
            || word.len() > TERM_BYTES
            || STOP.contains(&lower.as_str())
            || terms.iter().any(|t| t.stem == stem)
        {
            continue;
        }
        terms.push(Term { stem, shown: word.to_owned() });
        if terms.len() == TERMS {
            break;
        }
    }
    terms
}

/// The stems of every word of `text`, in order.
pub(super) fn stems(text: &str) -> impl Iterator<Item = String> {
    words(text).map(stem)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    // `run_created` and `tree.node` are one word to Unicode, and several to whoever searches.
    text.unicode_words().flat_map(|w| w.split(|c: char| !c.is_alphanumeric())).filter(|w| !w.is_empty())
}

/// Folds letter case and the common English endings: `lease`, `leases` and `leasing` are the same word.
fn stem(word: &str) -> String {
    let mut s = word.to_lowercase();
    if !s.is_ascii() || s.len() <= 3 {
        return s;
    }
    if s.ends_with("ies") && s.len() > 4 {
        s.truncate(s.len() - 3);
        s.push('y');
    } else if s.ends_with('s') && !s.ends_with("ss") && !s.ends_with("us") && !s.ends_with("is") {
        s.truncate(s.len() - 1);
    }
    for ending in ["ing", "ed"] {
        if s.ends_with(ending) && s.len() - ending.len() >= 3 {
            s.truncate(s.len() - ending.len());
            let b = s.as_bytes();
            if b.len() > 3
                && b[b.len() - 1] == b[b.len() - 2]
                && !matches!(b[b.len() - 1], b'l' | b's' | b'e')
            {
                s.pop();
            }
            break;
        }
    }
    if s.len() > 3 && s.ends_with('e') {
        s.pop();
    }
    s
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn listed<S: AsRef<str>>(items: &[S]) -> String {
    match items {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [rest @ .., last] => {
            let rest: Vec<&str> = rest.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", rest.join(", "), last.as_ref())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_fold() {
        for group in [
            &["lease", "leases", "Leasing", "leased"][..],
            &["plan", "plans", "planning", "planned"],
            &["policy", "policies"],
            &["event", "events"],
        ] {
            let first = stem(group[0]);
            assert!(group.iter().all(|w| stem(w) == first), "{group:?} -> {first}");
        }
        assert_eq!(stem("status"), "status");
        assert_eq!(stem("Überläufe"), "überläufe");
    }

    #[test]
    fn only_words_that_matter_are_terms() {
        let shown: Vec<String> = key_terms("How does the driver keep its lease, and what are leases for?")
            .into_iter()
            .map(|t| t.shown)
            .collect();
        assert_eq!(shown, ["driver", "keep", "lease"]);
        assert_eq!(listed(&["a", "b", "c"]), "a, b and c");
    }
}
