//! Cutting a text that is too long for one piece.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

/// Divides `range` of `body` into parts of at most `max` bytes. A part ends at the last of `breaks` that is far enough,
/// else between lines if they are `lines` that mean something, else after a sentence or a word.
pub(crate) fn cut(
    body: &str,
    range: Range<usize>,
    breaks: &[usize],
    lines: bool,
    max: usize,
) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = range.start;
    while range.end - start > max {
        let end = body.floor_char_boundary(start + max);
        let least = body.ceil_char_boundary(start + max / 4).min(end);
        let at = end_of_part(body, start, least..end, breaks, lines);
        parts.push(start..at);
        start = at;
    }
    parts.push(start..range.end);
    parts
}

/// Where the part from `start` on ends: within `window`, and behind `start`.
fn end_of_part(body: &str, start: usize, window: Range<usize>, breaks: &[usize], lines: bool) -> usize {
    let (least, end) = (window.start, window.end);
    let text = &body[window];
    let known = breaks[..breaks.partition_point(|at| *at <= end)].last().copied().filter(|at| *at > least);
    let line = || Some(least + text.rfind('\n')? + 1).filter(|_| lines);
    let sentence = || {
        let bounds = body[start..end].split_sentence_bound_indices();
        bounds.map(|(at, _)| start + at).filter(|at| *at > least).last()
    };
    let word = || Some(least + text.rfind(char::is_whitespace)? + 1);
    let at = known.or_else(line).or_else(sentence).or_else(word).unwrap_or(end);
    body.ceil_char_boundary(at.max(start + 1))
}

/// `range` without white space at its ends.
pub(crate) fn trimmed(body: &str, range: Range<usize>) -> Range<usize> {
    let text = &body[range.clone()];
    let start = range.start + (text.len() - text.trim_start().len());
    start..start + text.trim().len()
}
