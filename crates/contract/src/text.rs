//! Cutting, measuring and counting text: the one place for it.
//!
//! Data is cut by bytes with [`prefix`] and [`suffix`], which never split a character. Text for people is cut with
//! [`truncate`] and [`truncate_columns`], which end in an ellipsis and never split what a reader sees as one character.
//!
//! [`check_name`] is the one rule for names that people give to things, such as runs and projects.

use std::borrow::Cow;

use crate::limits::TITLE_BYTES;
use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};
use unicode_width::UnicodeWidthStr;

/// What stands at the head of each page of a converted file.
pub const HEAD: &str = "Head of pages";
/// What stands at the foot of each page.
pub const FOOT: &str = "Foot of pages";
/// What people have written about a file, in it.
pub const COMMENTS: &str = "Comments in the file";
/// What a speaker has noted below slides.
pub const NOTES: &str = "Notes of slides";
/// Text in drawings.
pub const DRAWINGS: &str = "Text of drawings";
/// Text in diagrams.
pub const DIAGRAMS: &str = "Text of diagrams";
/// Text in charts.
pub const CHARTS: &str = "Text of charts";
/// Paragraphs that the reader of a file found beside those in their order.
pub const FURTHER: &str = "Further text";
/// How the names of places begin that converted files mark: `<!-- Page 4 -->`.
const PLACES: [&str; 11] =
    ["Page ", "Sheet ", "Attachment ", HEAD, FOOT, COMMENTS, NOTES, DRAWINGS, DIAGRAMS, CHARTS, FURTHER];

/// What stands at the end of a text that was cut.
pub const ELLIPSIS: char = '…';

/// The page or the sheet in which byte `at` of a converted document stands, such as "Page 4". A line that is a comment
/// marks where it begins: `<!-- Page 4 -->`.
pub fn place(text: &str, at: usize) -> Option<&str> {
    let marks =
        text.get(..at)?.rsplit('\n').filter_map(|line| line.strip_prefix("<!-- ")?.strip_suffix(" -->"));
    let is_place = |place: &&str| {
        place.len() <= TITLE_BYTES && PLACES.iter().any(|beginning| place.starts_with(beginning))
    };
    marks.into_iter().find(is_place)
}

/// A name as it is kept and looked for: `é` is one letter (NFC), though file systems and keyboards may give two.
pub fn nfc(text: &str) -> String {
    text.nfc().collect()
}

/// The other form of a name, which file systems of Apple keep: `é` is two letters (NFD).
pub fn nfd(text: &str) -> String {
    text.nfd().collect()
}

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

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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

/// `text` with what stands in braces replaced by `values`, each in turn. What a value contains is not replaced again.
pub(crate) fn fill_places(text: &str, values: &[&str]) -> String {
    let mut pieces = text.split('{');
    let mut filled = pieces.next().unwrap_or_default().to_owned();
    for (piece, value) in pieces.zip(values) {
        filled.push_str(value);
        filled.push_str(piece.split_once('}').map_or(piece, |(_, rest)| rest));
    }
    filled
}

/// A number and its noun: `1 node`, `2 nodes`.
pub fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// Checks a name that people give to something: at least one visible character, and none that steers a terminal or
/// reorders what is shown. The error says what is wrong and what to do.
///
/// # Errors
/// When `name` breaks the rule.
pub fn check_name(name: &str) -> Result<(), String> {
    if let Some(c) = name.chars().find(|c| steers_terminal(*c)) {
        return Err(format!(
            "has the character U+{:04X}, which cannot be seen; leave out control and bidirectional characters",
            u32::from(c)
        ));
    }
    match is_blank(name) {
        true => Err("must have at least one visible character".to_owned()),
        false => Ok(()),
    }
}

/// True if nothing of `text` can be seen.
pub fn is_blank(text: &str) -> bool {
    !text.chars().any(|c| !c.is_control() && !c.is_whitespace() && !is_invisible(c))
}

/// True for characters that are not controls and yet have no appearance of their own: Unicode's
/// `Default_Ignorable_Code_Point`, the line and paragraph separators, the marks of annotations, the format controls of
/// hieroglyphs and the Braille pattern without dots.
pub const fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// True for characters that steer a terminal or reorder what is shown: the C0 and C1 controls, the bidirectional
/// marks, embeddings, overrides and isolates, the separators that some terminals take as line ends, and invisible
/// characters that carry text or annotations.
pub const fn steers_terminal(c: char) -> bool {
    matches!(c,
        '\0'..='\x1f' | '\x7f'..='\u{9f}'
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}'
        | '\u{2028}' | '\u{2029}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// `text` with the escapes of JSON (`\u202e`) for the characters that `is_escaped` chooses.
pub fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_escaped(c) {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
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
    fn a_mark_names_the_place_behind_it() {
        let text = "before\n<!-- Page 1 -->\none\n<!-- a note -->\n<!-- Page 2 -->\ntwo";
        for (word, place) in
            [("before", None), ("one", Some("Page 1")), ("note", Some("Page 1")), ("two", Some("Page 2"))]
        {
            let at = text.find(word).unwrap();
            assert_eq!(super::place(text, at), place, "{word}");
            let passage = crate::citation::Passage::of(text, at..at + word.len());
            assert_eq!(passage.place, place.unwrap_or_default());
        }
    }

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
    fn names_are_what_readers_see() {
        for good in [
            "Why is the sky blue?",
            "Größe 木の枝 نص עברית",
            // Persian with a non-joiner, a family, a flag on fire, a keycap and a chosen form of an ideograph.
            "می\u{200c}خواهم",
            "👨\u{200d}👩\u{200d}👧",
            "❤\u{fe0f}\u{200d}🔥",
            "1\u{fe0f}\u{20e3}",
            "葛\u{e0100}",
            // Visible, though of the category Cf: the Arabic sign before a number.
            "\u{600}12",
        ] {
            assert_eq!(check_name(good), Ok(()), "{good:?}");
        }
        for bad in [
            "a\x1b[2J",
            "a\nb",
            "a\u{9b}31m",
            "\u{7f}",
            "a\u{202e}b",
            "\u{2066}a",
            "a\u{200e}",
            "a\u{61c}",
            "a\u{2028}b",
            "a\u{e0041}",
        ] {
            let error = check_name(bad).unwrap_err();
            assert!(error.contains("U+") && error.contains("leave out"), "{bad:?}: {error}");
        }
        for empty in ["", " ", "\u{a0}\u{3000}", "\u{200b}\u{2800}"] {
            assert_eq!(
                check_name(empty),
                Err("must have at least one visible character".to_owned()),
                "{empty:?}"
            );
        }
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
