//! Two texts, compared line by line.

use std::collections::HashSet;
use std::ops::Range;

use similar::{Algorithm, ChangeTag, DiffOp, DiffTag, capture_diff_slices, group_diff_ops};
use tree_agent_contract::diff::{LineComparison, TextDiff, TextHunk, TextLine};
use tree_agent_contract::limits;

/// Lines of both texts around each difference.
const AROUND: usize = 3;

/// Compares two texts line by line. Of long texts only the beginning is compared, so that the cost is bounded.
pub fn text_diff(a: &str, b: &str) -> TextDiff {
    if a == b {
        return TextDiff::default();
    }
    let ((a, a_cut), (b, b_cut)) = (beginning(a), beginning(b));
    let ops = ops(&a, &b);
    let mut diff = TextDiff { truncated: a_cut || b_cut, ..TextDiff::default() };
    for group in group_diff_ops(ops, AROUND) {
        let hunk = hunk(&group, &a, &b);
        let count = |wanted| hunk.lines.iter().filter(|line| line.comparison == wanted).count() as u64;
        diff.added += count(LineComparison::Added);
        diff.removed += count(LineComparison::Removed);
        diff.hunks.push(hunk);
    }
    diff
}

/// The lines that are compared, and whether there are more.
fn beginning(text: &str) -> (Vec<&str>, bool) {
    let end = text.floor_char_boundary(limits::DIFF_BYTES);
    let mut lines = text[..end].lines();
    let kept = lines.by_ref().take(limits::DIFF_LINES).collect();
    (kept, end < text.len() || lines.next().is_some())
}

/// What turns `a` into `b`. Lines that only one of the texts has match nothing, so the search for common lines, whose
/// cost may grow with the square of what differs, goes without them.
fn ops(a: &[&str], b: &[&str]) -> Vec<DiffOp> {
    let shared = |of: &[&str], other: &[&str]| -> Vec<usize> {
        let other: HashSet<&str> = other.iter().copied().collect();
        (0..of.len()).filter(|at| other.contains(of[*at])).collect()
    };
    let (in_a, in_b) = (shared(a, b), shared(b, a));
    fn lines<'a>(text: &[&'a str], at: &[usize]) -> Vec<&'a str> {
        at.iter().map(|at| text[*at]).collect()
    }
    let common = capture_diff_slices(Algorithm::Myers, &lines(a, &in_a), &lines(b, &in_b));
    let common = common.iter().filter(|op| op.tag() == DiffTag::Equal);
    let pairs = common.flat_map(|op| op.old_range().zip(op.new_range())).map(|(i, j)| (in_a[i], in_b[j]));
    let mut ops = Vec::new();
    let (mut old, mut new) = (0, 0);
    for (i, j) in pairs.chain([(a.len(), b.len())]) {
        ops.extend(replaced(old..i, new..j));
        match ops.last_mut() {
            _ if i == a.len() => {}
            Some(DiffOp::Equal { len, .. }) => *len += 1,
            _ => ops.push(DiffOp::Equal { old_index: i, new_index: j, len: 1 }),
        }
        (old, new) = (i + 1, j + 1);
    }
    ops
}

fn replaced(old: Range<usize>, new: Range<usize>) -> Option<DiffOp> {
    let (old_index, old_len, new_index, new_len) = (old.start, old.len(), new.start, new.len());
    match (old_len, new_len) {
        (0, 0) => None,
        (_, 0) => Some(DiffOp::Delete { old_index, old_len, new_index }),
        (0, _) => Some(DiffOp::Insert { old_index, new_index, new_len }),
        _ => Some(DiffOp::Replace { old_index, old_len, new_index, new_len }),
    }
}

fn hunk(ops: &[DiffOp], a: &[&str], b: &[&str]) -> TextHunk {
    let ranges = |of: fn(&DiffOp) -> Range<usize>| {
        let first = ops.first().map_or(0, |op| of(op).start);
        let last = ops.last().map_or(0, |op| of(op).end);
        // As in unified diffs, a hunk without a line names the line before it.
        (if first == last { first } else { first + 1 }) as u32
    };
    let (a_line, b_line) = (ranges(DiffOp::old_range), ranges(DiffOp::new_range));
    let changes = ops.iter().flat_map(|op| op.iter_changes(a, b));
    let lines = changes.map(|change| TextLine {
        comparison: match change.tag() {
            ChangeTag::Equal => LineComparison::Same,
            ChangeTag::Delete => LineComparison::Removed,
            ChangeTag::Insert => LineComparison::Added,
        },
        text: change.value().to_owned(),
    });
    TextHunk { a_line, b_line, lines: lines.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(diff: &TextDiff) -> String {
        let mark = |line: &TextLine| match line.comparison {
            LineComparison::Same => ' ',
            LineComparison::Removed => '-',
            LineComparison::Added => '+',
        };
        let hunk = |hunk: &TextHunk| {
            let lines: String = hunk.lines.iter().map(|l| format!("{}{}\n", mark(l), l.text)).collect();
            format!("@ {} {}\n{lines}", hunk.a_line, hunk.b_line)
        };
        diff.hunks.iter().map(hunk).collect()
    }

    #[test]
    fn differences_stand_with_the_lines_around_them() {
        let a = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14";
        let b = "1\n2\n3\n4\n5 changed\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n";
        let diff = text_diff(a, b);
        assert_eq!(
            written(&diff),
            "@ 2 2\n 2\n 3\n 4\n-5\n+5 changed\n 6\n 7\n 8\n@ 12 12\n 12\n 13\n 14\n+15\n"
        );
        assert_eq!((diff.added, diff.removed, diff.truncated), (2, 1, false));
    }

    #[test]
    fn equal_texts_have_no_difference_and_an_empty_one_has_no_lines() {
        assert_eq!(text_diff("a\nb", "a\nb"), TextDiff::default());
        assert_eq!(text_diff("a\nb", "a\nb\n"), TextDiff::default(), "the last line end does not count");
        assert_eq!(written(&text_diff("", "a\nb")), "@ 0 1\n+a\n+b\n");
        assert_eq!(written(&text_diff("a\nb", "")), "@ 1 0\n-a\n-b\n");
    }

    #[test]
    fn of_long_texts_the_beginning_is_compared() {
        let long: String = (0..limits::DIFF_LINES).map(|i| format!("{i}\n")).collect();
        let diff = text_diff(&long, &format!("{long}more\n"));
        assert!(diff.truncated && diff.hunks.is_empty());
        let diff = text_diff(&"ä".repeat(limits::DIFF_BYTES), "ä");
        assert!(diff.truncated);
        assert_eq!((diff.added, diff.removed), (1, 1));
        assert_eq!(text_diff(&long.repeat(3), &long.repeat(3)), TextDiff::default(), "equal is equal");
    }

    #[test]
    fn lines_that_have_moved_and_lines_of_one_text_only_are_told_apart() {
        let a = "same\nmoved\nonly in a\nend\nlast";
        let b = "only in b\nsame\nend\nlast\nmoved";
        assert_eq!(
            written(&text_diff(a, b)),
            "@ 1 1\n+only in b\n same\n-moved\n-only in a\n end\n last\n+moved\n"
        );
    }

    /// The hunks say how to make the second text of the first.
    #[test]
    fn the_second_text_follows_from_the_first_and_the_hunks() {
        let text = |seed: usize, lines: usize| -> String {
            (0..lines).map(|i| format!("{}\n", (i * (seed + 3) + seed * seed) % (7 + seed))).collect()
        };
        for seed in 0..60 {
            let (a, b) = (text(seed, seed * 2 % 50), text(seed / 2, seed % 41));
            let diff = text_diff(&a, &b);
            let old: Vec<&str> = a.lines().collect();
            let (mut made, mut at) = (Vec::new(), 0);
            for hunk in &diff.hunks {
                let of_a = hunk.lines.iter().any(|line| line.comparison != LineComparison::Added);
                let begin = hunk.a_line as usize - usize::from(of_a);
                made.extend(old[at..begin].iter().map(|line| (*line).to_owned()));
                at = begin;
                let of_b = hunk.lines.iter().any(|line| line.comparison != LineComparison::Removed);
                assert_eq!(made.len() + usize::from(of_b), hunk.b_line as usize);
                for line in &hunk.lines {
                    if line.comparison != LineComparison::Added {
                        assert_eq!(old[at], line.text);
                        at += 1;
                    }
                    if line.comparison != LineComparison::Removed {
                        made.push(line.text.clone());
                    }
                }
            }
            made.extend(old[at..].iter().map(|line| (*line).to_owned()));
            assert_eq!(made, b.lines().collect::<Vec<_>>(), "{seed}");
            let back = text_diff(&b, &a);
            assert_eq!((diff.added, diff.removed), (back.removed, back.added), "{seed}");
        }
    }

    #[test]
    fn texts_without_a_common_line_are_compared_whole() {
        let lines = |c: char| (0..limits::DIFF_LINES).map(|i| format!("{c}{i}\n")).collect::<String>();
        let diff = text_diff(&lines('a'), &lines('b'));
        let all = limits::DIFF_LINES as u64;
        assert_eq!((diff.added, diff.removed, diff.truncated), (all, all, false));
    }
}
