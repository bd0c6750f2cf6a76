//! The parts of an objective: a list, several questions, or two things to compare.

use tree_agent_contract::spelling;
use unicode_segmentation::UnicodeSegmentation;

use super::words::key_terms;

/// An objective longer than this, in bytes, asks for one thing in each of its sentences.
const LONG_BYTES: usize = 240;

/// The parts of an objective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parts {
    /// One thing.
    One,
    /// Several, which do not depend on each other.
    Several(Vec<String>),
    /// Two things and how they compare.
    Compare(String, String),
}

/// Splits `text` by its own structure.
pub(super) fn parts(text: &str) -> Parts {
    // The semicolon of an HTML entity divides nothing.
    let text = &*spelling::joined(text);
    if let Some((a, b)) = compared(text) {
        return Parts::Compare(a, b);
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
fn compared(text: &str) -> Option<(String, String)> {
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
    let whole = |part: &str| (!key_terms(part).is_empty()).then(|| part.trim().to_owned());
    Some((whole(a)?, whole(b)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_split_by_their_own_structure() {
        let several = |parts: &[&str]| Parts::Several(parts.iter().map(|p| (*p).to_owned()).collect());
        for (text, expected) in [
            ("How does a lease end?", Parts::One),
            ("What is a lease? Who renews it?", several(&["What is a lease?", "Who renews it?"])),
            ("Report on:\n1. the store\n2) the gateway\n", several(&["the store", "the gateway"])),
            ("store design; gateway design", several(&["store design", "gateway design"])),
            ("Where is &quot;zorblatty&quot; and where the office", Parts::One),
            ("Compare Postgres and SQLite.", Parts::Compare("Postgres".into(), "SQLite".into())),
            (
                "What is the difference between a lease and a lock?",
                Parts::Compare("a lease".into(), "a lock".into()),
            ),
            ("Redis vs polling", Parts::Compare("Redis".into(), "polling".into())),
            ("compare and", Parts::One),
            ("", Parts::One),
        ] {
            assert_eq!(parts(text), expected, "{text:?}");
        }
    }
}
