//! Cutting, measuring and counting text: the one place for it.
//!
//! Data is cut by bytes with [`prefix`] and [`suffix`], which never split a character. Text for people is cut with
//! [`truncate`] and [`truncate_columns`], which end in an ellipsis and never split what a reader sees as one character.

use std::borrow::Cow;

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};
use unicode_width::UnicodeWidthStr;

/// What stands at the end of a text that was cut.
pub const ELLIPSIS: char = '…';

/// The longest beginning of `text` that takes at most `max` bytes.
pub fn prefix(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// The longest end of `text` that takes at most `max` bytes.
pub fn suffix(text: &str, max: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(max))..]
}

/// `text` in at most `max` bytes. A text that is cut ends in an ellipsis, which counts; when not even that fits, the
/// result is empty.
pub fn truncate(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let Some(room) = max.checked_sub(ELLIPSIS.len_utf8()) else { return Cow::Borrowed("") };
    Cow::Owned(with_ellipsis(&text[..grapheme_boundary(text, text.floor_char_boundary(room))]))
}

/// `text` in at most `columns` of a terminal. A text that is cut ends in an ellipsis, which takes one column.
pub fn truncate_columns(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let Some(room) = columns.checked_sub(1) else { return Cow::Borrowed("") };
    let mut used = 0;
    let fits = text.grapheme_indices(true).take_while(|(_, grapheme)| {
        used += width(grapheme);
        used <= room
    });
    let end = fits.last().map_or(0, |(at, grapheme)| at + grapheme.len());
    Cow::Owned(with_ellipsis(&text[..end]))
}

/// Columns that `text` takes on a terminal: wide characters take two, combining marks none.
pub fn width(text: &str) -> usize {
    text.width()
}

/// `text` on one line: every run of white space becomes one space, and none stands at either end.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

/// A number and its noun: `1 node`, `2 nodes`.
pub fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// The last boundary between graphemes at or before `at`, which is a boundary between characters.
fn grapheme_boundary(text: &str, at: usize) -> usize {
    let mut cursor = GraphemeCursor::new(at, text.len(), true);
    // The whole text is at hand, so the cursor never asks for more of it.
    match cursor.is_boundary(text, 0) {
        Ok(false) => cursor.prev_boundary(text, 0).ok().flatten().unwrap_or(0),
        _ => at,
    }
}

fn with_ellipsis(beginning: &str) -> String {
    let mut text = beginning.trim_end().to_owned();
    text.push(ELLIPSIS);
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn data_is_cut_between_characters() {
        assert_eq!((prefix("aäö", 2), prefix("aäö", 3), prefix("aäö", 99)), ("a", "aä", "aäö"));
        assert_eq!((suffix("aäö", 3), suffix("aäö", 4), suffix("aäö", 99)), ("ö", "äö", "aäö"));
        assert_eq!((prefix("ä", 0), suffix("ä", 0)), ("", ""));
    }

    #[test]
    fn what_a_reader_sees_as_one_character_is_never_split() {
        let family = "👨‍👩‍👧";
        assert_eq!(truncate(&format!("a {family} b"), 15), "a…");
        assert_eq!(truncate_columns(&format!("{family}{family}{family}"), 5), format!("{family}{family}…"));
        // An e and a combining accent.
        assert_eq!(truncate("xe\u{301}yz", 6), "xe\u{301}yz");
        assert_eq!(truncate("xe\u{301}yz", 5), "x…");
    }

    #[test]
    fn columns_are_those_of_a_terminal() {
        assert_eq!(width("木の枝"), 6);
        assert_eq!(truncate_columns("木の枝", 6), "木の枝");
        assert_eq!(truncate_columns("木の枝", 5), "木の…");
        assert_eq!(truncate_columns("木の枝", 4), "木…");
        assert_eq!(truncate_columns("abc", 1), "…");
        assert_eq!(truncate_columns("abc", 0), "");
    }

    #[test]
    fn lines_and_counts() {
        assert_eq!(one_line(" a\r\n\tb  c "), "a b c");
        assert_eq!((count(0, "node"), count(1, "node"), count(2, "node")), counts());
    }

    fn counts() -> (String, String, String) {
        ("0 nodes".into(), "1 node".into(), "2 nodes".into())
    }

    proptest! {
        #[test]
        fn limits_hold_for_any_text(text in any::<String>(), max in 0_usize..40) {
            prop_assert!(prefix(&text, max).len() <= max);
            prop_assert!(suffix(&text, max).len() <= max);
            prop_assert!(truncate(&text, max).len() <= max);
            prop_assert!(width(&truncate_columns(&text, max)) <= max);
        }
    }
}
