//! Which topics of a search are covered: researched, so that another branch that comes to the same topic is linked to
//! it instead of being researched again.
//!
//! A topic is covered by another if their titles say the same, or nearly so: three quarters of the words of both titles
//! together are in both, the same numbers and single letters are in both, and every further word of the topic's title
//! is in the summary of the other one. Cases, plurals, punctuation and common words do not count. A title of general
//! words alone, such as `Overview`, says nothing about its topic and is never covered.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// Topics of one word that are looked at, the first ones. It bounds the cost of a common word.
const LOOKED_AT: usize = 64;

/// Words that do not count.
const COMMON: &[&str] = &[
    "and", "are", "as", "at", "by", "for", "from", "how", "in", "is", "of", "on", "or", "the", "to", "vs",
    "what", "when", "why", "with",
];

/// Words that say nothing about a topic. In the form in which words are compared.
const GENERAL: &[&str] = &[
    "advanced",
    "background",
    "basic",
    "best",
    "case",
    "challenge",
    "comparison",
    "conclusion",
    "concept",
    "detail",
    "example",
    "faq",
    "feature",
    "future",
    "general",
    "history",
    "introduction",
    "key",
    "limit",
    "limitation",
    "main",
    "note",
    "other",
    "overview",
    "practice",
    "question",
    "reference",
    "risk",
    "summary",
    "tool",
    "topic",
    "trend",
    "usage",
    "use",
];

/// The researched topics of a search, by what their titles say.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Covered {
    /// The first topic of each title.
    by_title: BTreeMap<String, usize>,
    /// The topics of each word, in the order in which they were researched.
    by_word: BTreeMap<String, Vec<usize>>,
}

impl Covered {
    /// The topic at `at` was researched.
    pub(crate) fn insert(&mut self, at: usize, title: &str) {
        let words = words(title);
        self.by_title.entry(words.join(" ")).or_insert(at);
        for word in words.into_iter().collect::<BTreeSet<_>>() {
            self.by_word.entry(word).or_default().push(at);
        }
    }

    /// The topic at `at` is not researched any more. Another one with the same title is not found by it until it is
    /// researched again.
    pub(crate) fn remove(&mut self, at: usize, title: &str) {
        let words = words(title);
        if self.by_title.get(&words.join(" ")) == Some(&at) {
            self.by_title.remove(&words.join(" "));
        }
        for word in words {
            if let Some(topics) = self.by_word.get_mut(&word) {
                topics.retain(|other| *other != at);
            }
        }
    }

    /// A topic whose title says the same as `title`.
    pub(crate) fn same(&self, title: &str) -> Option<usize> {
        let words = words(title);
        if words.iter().all(|word| GENERAL.contains(&word.as_str())) {
            return None;
        }
        self.by_title.get(&words.join(" ")).copied()
    }

    /// A topic whose title says nearly the same as `title`, of those that `may` be it. `text` returns the title and the
    /// summary of a topic.
    pub(crate) fn similar<'a>(
        &self,
        title: &str,
        may: impl Fn(usize) -> bool,
        text: impl Fn(usize) -> (&'a str, &'a str),
    ) -> Option<usize> {
        let wanted: BTreeSet<String> = words(title).into_iter().collect();
        if wanted.len() < 3 {
            return None;
        }
        // A title that shares three quarters has at least one of any quarter of the words, so the rarest ones do.
        let mut rarest: Vec<&[usize]> =
            wanted.iter().map(|word| self.by_word.get(word).map_or(&[][..], Vec::as_slice)).collect();
        rarest.sort_by_key(|topics| topics.len());
        let enough = wanted.len() - (wanted.len() * 3).div_ceil(4) + 1;
        let found = rarest.iter().take(enough).flat_map(|topics| topics.iter().take(LOOKED_AT).copied());
        let found: BTreeSet<usize> = found.filter(|&at| may(at)).collect();
        found.into_iter().find(|&at| {
            let (title, summary) = text(at);
            is_similar(&wanted, title, summary)
        })
    }
}

fn is_similar(wanted: &BTreeSet<String>, title: &str, summary: &str) -> bool {
    let other: BTreeSet<String> = words(title).into_iter().collect();
    let shared = wanted.intersection(&other).count();
    let all = wanted.len() + other.len() - shared;
    let exact = |word: &&String| word.chars().count() == 1 || word.contains(|c: char| c.is_ascii_digit());
    if shared * 4 < all * 3 || wanted.symmetric_difference(&other).any(|word| exact(&word)) {
        return false;
    }
    let mut missing = wanted.difference(&other).peekable();
    if missing.peek().is_none() {
        return true;
    }
    let said: BTreeSet<String> = words(summary).into_iter().collect();
    missing.all(|word| said.contains(word))
}

/// The words of a text in the form in which they are compared.
pub(crate) fn words(text: &str) -> Vec<String> {
    let split = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let lower = split.map(str::to_lowercase).filter(|word| !COMMON.contains(&word.as_str()));
    lower.map(singular).collect()
}

/// Without the ending of an English plural.
fn singular(mut word: String) -> String {
    if word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") {
        word.pop();
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPICS: &[(&str, &str)] = &[
        ("Query planning", ""),
        ("Overview", ""),
        ("Cost of the Postgres query planner", "What statistics it reads."),
        ("Postgres 14 upgrade path", ""),
    ];

    fn covered() -> Covered {
        let mut covered = Covered::default();
        TOPICS.iter().enumerate().for_each(|(at, (title, _))| covered.insert(at, title));
        covered
    }

    fn similar(title: &str) -> Option<usize> {
        covered().similar(title, |_| true, |at| TOPICS[at])
    }

    #[test]
    fn titles_that_say_the_same_are_covered() {
        assert_eq!(covered().same("The query-planning"), Some(0));
        assert_eq!(covered().same("QUERY PLANNINGS"), Some(0));
        assert_eq!(covered().same("Query planners"), None);
    }

    #[test]
    fn a_general_title_says_nothing() {
        assert_eq!(covered().same("overview"), None);
        assert_eq!(covered().same("Key concepts"), None);
        assert_eq!(covered().same("!!!"), None);
    }

    #[test]
    fn nearly_the_same_title_is_covered_if_the_rest_is_in_the_summary() {
        assert_eq!(similar("Postgres query planner costs"), Some(2));
        assert_eq!(similar("Postgres query planner cost statistics"), Some(2));
        assert_eq!(similar("Postgres query planner cost hints"), None);
        assert_eq!(similar("Query planner"), None, "too short to be sure");
        assert_eq!(covered().similar("Postgres query planner costs", |at| at != 2, |at| TOPICS[at]), None);
    }

    #[test]
    fn numbers_must_be_the_same() {
        assert_eq!(similar("Upgrade path of Postgres 14"), Some(3));
        assert_eq!(similar("Postgres 15 upgrade path"), None);
        assert_eq!(similar("Postgres upgrade path"), None);
    }
}
