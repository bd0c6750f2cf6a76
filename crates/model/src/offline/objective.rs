//! The parts of an objective: a list, several questions, or two things to compare.

use tree_agent_contract::spelling;
use unicode_segmentation::UnicodeSegmentation;

use super::names::names;
use super::words::{is_stop, key_terms};

/// An objective longer than this, in bytes, asks for one thing in each of its sentences.
const LONG_BYTES: usize = 240;

/// Words with which a question about one of two things begins.
const ASKING: &[&str] = &[
    "are", "can", "did", "do", "does", "has", "have", "how", "is", "was", "were", "what", "where", "which",
    "who", "whose",
];
/// The same for a question about both.
const ASKING_BOTH: &[&str] = &["are", "did", "do", "does", "had", "has", "have", "is", "was", "were"];
/// Words that compare.
const DEGREES: &[&str] = &[
    "better", "bigger", "biggest", "earlier", "earliest", "faster", "fewer", "first", "higher", "highest",
    "larger", "largest", "last", "later", "latest", "less", "longer", "longest", "lower", "newer", "newest",
    "older", "oldest", "shorter", "slower", "smaller", "smallest", "sooner", "taller", "tallest", "worse",
    "younger", "youngest",
];
/// Words before an `of` that leads to no other thing.
const MEASURES: &[&str] = &[
    "all", "amount", "because", "each", "instead", "kind", "list", "lot", "many", "most", "much", "number",
    "one", "out", "pair", "part", "some", "sort", "type",
];

/// The parts of an objective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parts {
    /// One thing.
    One,
    /// Several, which do not depend on each other.
    Several(Vec<String>),
    /// Two things and how they compare.
    Compare(Comparison),
}

/// Two things, and the words that say in which respect they are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) a: String,
    pub(super) b: String,
    /// Empty if it is all that there is to say about them.
    pub(super) about: String,
}

impl Comparison {
    /// What is asked about each of the two.
    pub(super) fn asked(&self) -> [String; 2] {
        [&self.a, &self.b].map(|thing| match self.about.as_str() {
            "" => thing.clone(),
            about => format!("{thing} ({about})"),
        })
    }
}

impl Parts {
    /// What each part asks. None if there is only one.
    pub(super) fn asked(self) -> Option<Vec<String>> {
        match self {
            Self::One => None,
            Self::Several(parts) => Some(parts),
            Self::Compare(comparison) => Some(comparison.asked().into()),
        }
    }
}

/// Splits `text` by its own structure.
pub(super) fn parts(text: &str) -> Parts {
    // The semicolon of an HTML entity divides nothing.
    let text = &*spelling::joined(text);
    if let Some(comparison) = compared(text) {
        return Parts::Compare(comparison);
    }
    let several = |parts: Vec<&str>| {
        let parts: Vec<String> = parts
            .into_iter()
            .map(str::trim)
            .filter(|p| !key_terms(p).is_empty())
            .map(str::to_owned)
            .collect();
        (parts.len() >= 2).then_some(Parts::Several(parts))
    };
    let items: Vec<&str> = text.lines().filter_map(list_item).collect();
    let questions: Vec<&str> =
        if text.matches('?').count() >= 2 { text.split_inclusive('?').collect() } else { vec![] };
    several(items)
        .or_else(|| several(questions))
        .or_else(|| several(text.split(';').collect()))
        .or_else(|| either(text).or_else(|| alike(text)).map(Parts::Compare))
        .or_else(|| if text.len() > LONG_BYTES { several(sentences(text)) } else { None })
        .unwrap_or(Parts::One)
}

/// The sentences of `text`. Sentences that ask for almost nothing stay with the previous one.
fn sentences(text: &str) -> Vec<&str> {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for (at, sentence) in text.split_sentence_bound_indices() {
        let end = at + sentence.len();
        match parts.last_mut() {
            Some((_, last)) if key_terms(sentence).len() < 2 => *last = end,
            _ => parts.push((at, end)),
        }
    }
    parts.into_iter().map(|(from, to)| &text[from..to]).collect()
}

/// The text of a line `1. text`, `2) text`, `- text` or `* text`.
fn list_item(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let after_mark = line.strip_prefix("- ").or_else(|| line.strip_prefix("* "));
    after_mark.or_else(|| {
        let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
        if rest.len() == line.len() {
            return None;
        }
        rest.strip_prefix(['.', ')'])?.strip_prefix(' ')
    })
}

/// The two things of `compare A and B`, `difference between A and B` and `A versus B`.
fn compared(text: &str) -> Option<Comparison> {
    let line = text.trim().trim_end_matches(['.', '?', '!']);
    // Byte positions must be valid in both texts, which is true only for ASCII folding.
    let lower = line.to_ascii_lowercase();
    let after = |opening: &str| lower.find(opening).map(|at| at + opening.len());
    let opened =
        after("compare ").or_else(|| after("difference between ")).or_else(|| after("differences between "));
    let (a, b) = match opened {
        Some(from) => [" with ", " versus ", " vs. ", " vs ", " and ", " to "].iter().find_map(|middle| {
            let at = from + lower[from..].find(middle)?;
            Some((&line[from..at], &line[at + middle.len()..]))
        })?,
        None => [" versus ", " vs. ", " vs "].iter().find_map(|middle| {
            let at = lower.find(middle)?;
            Some((&line[..at], &line[at + middle.len()..]))
        })?,
    };
    comparison(a, b, String::new())
}

/// None if one of the two things says nothing.
fn comparison(a: &str, b: &str, about: String) -> Option<Comparison> {
    let whole = |part: &str| (!key_terms(part).is_empty()).then(|| part.trim().to_owned());
    Some(Comparison { a: whole(a)?, b: whole(b)?, about })
}

/// The two things of `Which is older, A or B?`.
fn either(text: &str) -> Option<Comparison> {
    let line = text.trim().trim_end_matches(['.', '?', '!']);
    let (head, things) = line.split_once(": ").or_else(|| line.split_once(", "))?;
    let first = head.split_whitespace().next()?.to_lowercase();
    let (a, b) = things.split_once(" or ")?;
    let are_two = ![a, b].iter().any(|thing| thing.contains(", ") || thing.contains(" or "));
    if !ASKING.contains(&first.as_str()) || !are_two {
        return None;
    }
    comparison(a, b, respect(head, &[]))
}

/// The two things of `Were A and B born in the same town?`, which are names.
fn alike(text: &str) -> Option<Comparison> {
    let line = text.trim().trim_end_matches(['.', '?', '!']);
    let mut words = line.split_whitespace();
    let first = words.next()?.to_lowercase();
    if !ASKING_BOTH.contains(&first.as_str()) || !words.any(|word| matches!(word, "both" | "same")) {
        return None;
    }
    let named = names(line);
    let (a, b) = named.iter().find_map(|name| name.split_once(" and "))?;
    if b.contains(" and ") {
        return None;
    }
    comparison(a, b, respect(line, &[a, b]))
}

/// The words of `text` that say in which respect `things` are compared. A text seldom calls a thing older than another.
fn respect(text: &str, things: &[&str]) -> String {
    let things = key_terms(&things.join(" "));
    let words: Vec<String> = key_terms(text)
        .into_iter()
        .filter(|term| !things.contains(term))
        .map(|term| term.shown)
        .filter(|word| !DEGREES.contains(&word.to_lowercase().as_str()))
        .collect();
    words.join(" ")
}

/// The steps of `the colour of the lid of the box`, the innermost first: `the lid of the box`, `the colour of the lid`.
/// None if there are less than two.
pub(super) fn chain(text: &str) -> Option<Vec<String>> {
    let line = text.trim().trim_end_matches(['.', '?', '!']);
    let mut things: Vec<Vec<&str>> = vec![Vec::new()];
    let mut words = line.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let is_first = things.len() == 1;
        let last = things.last_mut()?;
        let noun = last.last().copied().unwrap_or_default();
        // `City of Elm` and `a kind of box` are one thing.
        let leads = word == "of" && noun.starts_with(char::is_lowercase) && !MEASURES.contains(&noun);
        match leads && words.peek().is_some() {
            true => things.push(Vec::new()),
            false if is_first && last.is_empty() && says_nothing(word) => {}
            false => last.push(word),
        }
    }
    if things.len() < 3 || things.iter().any(|thing| key_terms(&thing.join(" ")).is_empty()) {
        return None;
    }
    Some(
        things
            .windows(2)
            .rev()
            .map(|pair| format!("{} of {}", pair[0].join(" "), pair[1].join(" ")))
            .collect(),
    )
}

/// A word before the first thing that a question names.
fn says_nothing(word: &str) -> bool {
    !matches!(word, "a" | "an" | "the") && is_stop(&word.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_split_by_their_own_structure() {
        let several = |parts: &[&str]| Parts::Several(parts.iter().map(|p| (*p).to_owned()).collect());
        let compare = |a: &str, b: &str, about: &str| {
            Parts::Compare(Comparison { a: a.into(), b: b.into(), about: about.into() })
        };
        for (text, expected) in [
            ("How does a lease end?", Parts::One),
            ("What is a lease? Who renews it?", several(&["What is a lease?", "Who renews it?"])),
            ("Report on:\n1. the store\n2) the gateway\n", several(&["the store", "the gateway"])),
            ("store design; gateway design", several(&["store design", "gateway design"])),
            ("Where is &quot;zorblatty&quot; and where the office", Parts::One),
            ("Compare Postgres and SQLite.", compare("Postgres", "SQLite", "")),
            ("What is the difference between a lease and a lock?", compare("a lease", "a lock", "")),
            ("Redis vs polling", compare("Redis", "polling", "")),
            (
                "Which bridge is older, Elm Bridge or Oak Bridge?",
                compare("Elm Bridge", "Oak Bridge", "bridge"),
            ),
            ("Who was born first: Ada Berg or Tom Lund?", compare("Ada Berg", "Tom Lund", "born")),
            (
                "Were Ada Berg and Tom Lund born in the same town?",
                compare("Ada Berg", "Tom Lund", "born town"),
            ),
            ("Are the lid and the box both blue?", Parts::One),
            ("If it rains, is it cold or warm?", Parts::One),
            ("Which is it, red, green or blue?", Parts::One),
            ("compare and", Parts::One),
            ("", Parts::One),
        ] {
            assert_eq!(parts(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_thing_of_a_thing_of_a_thing_is_a_chain() {
        let steps = |text: &str| chain(text).unwrap_or_default();
        assert_eq!(
            steps("What is the colour of the lid of the box in the hall?"),
            ["the lid of the box in the hall", "the colour of the lid"]
        );
        assert_eq!(
            steps("Who was the wife of the mayor of the town of the mill?"),
            ["the town of the mill", "the mayor of the town", "the wife of the mayor"]
        );
        for text in
            ["the lid of the box", "the mayor of the City of Elm", "a number of parts of it", "of of of", ""]
        {
            assert_eq!(chain(text), None, "{text}");
        }
    }
}
