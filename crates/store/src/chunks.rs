//! The text of a document that grows: the body that it was created with, then chunks, read from a position on.

use crate::ports::DocumentTail;
use tree_agent_contract::Timestamp;
use tree_agent_contract::limits::DOCUMENT_BYTES;
use tree_agent_contract::text::suffix;

/// Where the text of a document begins and ends, counted from the first byte that it ever had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// Where the present text begins: behind what was before the body when it was written whole, or where the text
    /// was last replaced.
    pub(crate) origin: u64,
    /// Where the last chunk ends, or the body if there is none.
    pub(crate) end: u64,
}

impl Span {
    /// Where reading begins for who wants the text from `wanted` on: only the end of a long document is shown.
    pub(crate) fn from(self, wanted: u64) -> u64 {
        wanted.max(self.shown())
    }

    fn shown(self) -> u64 {
        self.origin.max(self.end.saturating_sub(DOCUMENT_BYTES as u64))
    }

    /// At most `max` bytes from `wanted` on. `parts` are the pieces of text that reach behind [`Span::from`], with
    /// their places: all of them, or [`to_read`] bytes from there on.
    pub(crate) fn tail<'a>(
        self,
        wanted: u64,
        max: usize,
        written_at: Timestamp,
        parts: impl IntoIterator<Item = (u64, &'a [u8])>,
    ) -> DocumentTail {
        let (mut start, mut end) = (self.from(wanted), self.end);
        let mut bytes = Vec::new();
        for (at, part) in parts {
            let skip = usize::try_from(start.saturating_sub(at)).unwrap_or(usize::MAX).min(part.len());
            bytes.extend_from_slice(&part[skip..]);
            end = end.max(at + part.len() as u64);
        }
        // What is shown begins with a whole character. A position that the reader chose is left as it is.
        if wanted < start && self.shown() > self.origin {
            let rest = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
            bytes.drain(..rest);
            start += rest as u64;
        }
        if bytes.len() > max {
            let whole = |at: &usize| bytes[*at] & 0xc0 != 0x80;
            bytes.truncate((1..=max).rev().find(whole).unwrap_or(max));
        }
        DocumentTail { start, end, text_start: self.origin, written_at, bytes }
    }
}

/// What is shown of a text that was read whole.
pub(crate) fn cut(text: String) -> String {
    match suffix(&text, DOCUMENT_BYTES) {
        end if end.len() < text.len() => end.to_owned(),
        _ => text,
    }
}

/// Bytes to read for a tail of at most `max`: it may begin behind the rest of a character, and must show whether a
/// character ends where it is cut.
pub(crate) fn to_read(max: usize) -> i64 {
    i64::try_from(max.min(DOCUMENT_BYTES)).unwrap_or(i64::MAX) + 4
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = DOCUMENT_BYTES as u64;

    #[test]
    fn a_tail_begins_within_a_part_or_between_two() {
        let span = Span { origin: 2, end: 8 };
        let tail = |wanted, parts: &[(u64, &'static str)]| {
            let tail = span.tail(
                wanted,
                usize::MAX,
                Timestamp(0),
                parts.iter().map(|(at, text)| (*at, text.as_bytes())),
            );
            (tail.start, tail.end, String::from_utf8(tail.bytes).unwrap())
        };
        assert_eq!(tail(0, &[(2, "abc"), (5, "def")]), (2, 8, "abcdef".into()));
        assert_eq!(tail(3, &[(2, "abc"), (5, "def")]), (3, 8, "bcdef".into()));
        assert_eq!(tail(5, &[(5, "def")]), (5, 8, "def".into()));
        assert_eq!(tail(8, &[]), (8, 8, String::new()));
        assert_eq!(tail(99, &[(5, "def")]), (99, 8, String::new()));
    }

    #[test]
    fn a_tail_is_cut_between_characters() {
        let (span, text) = (Span { origin: 0, end: 7 }, "aüb€");
        let cut = |wanted, max| {
            let bytes = span.tail(wanted, max, Timestamp(0), [(0, text.as_bytes())]).bytes;
            String::from_utf8(bytes).unwrap()
        };
        assert_eq!([cut(0, 4), cut(0, 5), cut(0, 6), cut(0, 7)], ["aüb", "aüb", "aüb", "aüb€"]);
        assert_eq!([cut(1, 4), cut(3, 4), cut(4, 4), cut(7, 4)], ["üb", "b€", "€", ""]);
    }

    #[test]
    fn a_long_text_begins_with_a_whole_character() {
        let span = Span { origin: 0, end: MAX + 2 };
        let text = "ü".repeat(DOCUMENT_BYTES / 2 + 1);
        assert_eq!(span.tail(0, usize::MAX, Timestamp(0), [(0, text.as_bytes())]).start, 2);
        let odd = Span { origin: 0, end: MAX + 1 };
        let text = format!("ü{}", "x".repeat(DOCUMENT_BYTES - 1));
        let tail = odd.tail(0, usize::MAX, Timestamp(0), [(0, text.as_bytes())]);
        assert_eq!((tail.start, tail.end, tail.bytes.len()), (2, MAX + 1, DOCUMENT_BYTES - 1));
    }
}
