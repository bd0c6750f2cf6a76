//! Cutting a text that is too long for one piece.

use std::ops::Range;

use tree_agent_contract::text::suffix;

use crate::format::pattern;

/// How deep the places are told apart at which a text can be cut.
const DEPTHS: usize = 4;
/// A part at the end that is shorter joins the one before.
pub(crate) const SHORT_BYTES: usize = 200;

pattern!(BLANK, r"\n\n");
pattern!(LINE, r"\n");
pattern!(LINES, r"\n\s*");
pattern!(CLAUSE, r"[,;:]\s+");
pattern!(WORD, r"\s+");
// As many characters as always fit.
pattern!(CHARACTERS, r"(?s).{250}");
pattern!(SENTENCE, r#"[.!?…।؟۔]["'”’»)\]*_`]*\s+|[。！？]["'”’」]*\s*"#);
// What begins so goes on with a sentence.
pattern!(GOES_ON, r#"^["'“‘«(\[*_`]*[\p{Ll},;+±−-]"#);
// Words before a full stop that does not end a sentence: abbreviations, initials, and the number of an item.
pattern!(
    ABBREVIATION,
    r#"(?ix)(?:^|[\s("“'\[*_])(?:approx|c[af]|ch|corp|dept|[dms]r|e\.g|eds?|eq|esp|est|figs?|i\.e|incl|jr|lt|max|min
    |mrs|ms|nr|pp|prof|resp|s[et]c|sgt|st|viz|vol|vs|(?-i:\p{Lu}))$|^\s*\d+$|\n[\ \t]*\d+$"#
);
// Words before a full stop and a number that do not end a sentence.
pattern!(COUNTED, r"(?i)\b(?:art|nos?|p|pt|jan|feb|mar|apr|ju[nl]|aug|sept?|oct|nov|dec)$");

/// Divides `range` of `body` into parts of at most `max` bytes and at the end [`SHORT_BYTES`] more. A part ends at one
/// of `breaks`, which have depths; where nothing that a break encloses is short enough, between lines if they are
/// `lines` that mean something, else after a sentence, a clause or a word.
pub(crate) fn cut(
    body: &str,
    range: Range<usize>,
    breaks: &[(usize, usize)],
    lines: bool,
    max: usize,
) -> Vec<Range<usize>> {
    let (start, end) = (range.start, range.end);
    let mut parts = vec![Range { start, end: start }];
    push(&mut parts, range, 0, max, &|range, level| starts(body, range, breaks, lines, level));
    if let [.., before, last] = &mut parts[..]
        && last.len() < SHORT_BYTES
    {
        before.end = end;
        parts.pop();
    }
    parts
}

/// Adds what follows to the last part, or as another one. What is too long alone is divided first.
fn push(
    parts: &mut Vec<Range<usize>>,
    range: Range<usize>,
    level: usize,
    max: usize,
    starts: &dyn Fn(Range<usize>, usize) -> Vec<usize>,
) {
    let (first, end) = parts.last().map_or((range.start, range.start), |last| (last.start, last.end));
    if range.end - first <= max {
        parts.pop();
        parts.push(first..range.end);
    } else if range.len() <= max && first < end {
        parts.push(range);
    } else {
        let mut start = range.start;
        for at in starts(range.clone(), level).into_iter().chain([range.end]) {
            push(parts, start..at, level + 1, max, starts);
            start = at;
        }
    }
}

/// Where parts of `range` may begin at a level, in order.
fn starts(
    body: &str,
    range: Range<usize>,
    breaks: &[(usize, usize)],
    lines: bool,
    level: usize,
) -> Vec<usize> {
    let text = &body[range.clone()];
    let pattern = match level.checked_sub(DEPTHS) {
        None => {
            let known = &breaks[breaks.partition_point(|(at, _)| *at <= range.start)..];
            let known = known.iter().take_while(|(at, _)| *at < range.end);
            return known
                .filter(|(_, depth)| *depth.min(&(DEPTHS - 1)) == level)
                .map(|(at, _)| *at)
                .collect();
        }
        Some(0 | 1) if !lines => return Vec::new(),
        Some(2) => return sentences(text).map(|at| range.start + at).collect(),
        Some(level) => [&BLANK, &LINE, &LINE, &LINES, &CLAUSE, &WORD, &CHARACTERS][level.min(6)],
    };
    // In the middle of what seems to be a sentence, a line that begins with a small letter goes on with the one above.
    let goes_on = |at: usize| level == DEPTHS + 3 && text[at..].starts_with(char::is_lowercase);
    let ends = pattern.find_iter(text).map(|found| found.end()).filter(|at| !goes_on(*at));
    ends.map(|at| range.start + at).collect()
}

/// Where the sentences of `text` begin, except the first. Ends of lines are spaces.
pub(crate) fn sentences(text: &str) -> impl Iterator<Item = usize> {
    let is_end = |found: &regex::Match<'_>| {
        let (before, next) = (suffix(&text[..found.start()], 16), &text[found.end()..]);
        let counts = || next.starts_with(|c: char| c.is_ascii_digit()) && COUNTED.is_match(before);
        let is_part = || found.as_str().starts_with('.') && (ABBREVIATION.is_match(before) || counts());
        !next.is_empty() && !GOES_ON.is_match(next) && !is_part()
    };
    SENTENCE.find_iter(text).filter(is_end).map(|found| found.end())
}

/// `range` without white space at its ends.
pub(crate) fn trimmed(body: &str, range: Range<usize>) -> Range<usize> {
    let text = &body[range.clone()];
    let start = range.start + (text.len() - text.trim_start().len());
    start..start + text.trim().len()
}
