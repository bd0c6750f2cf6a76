//! Finds a quote in a text although white space and typographic characters differ.

use std::ops::Range;

/// What a character counts as: nothing, white space, or itself. Models and word processors change these on their own.
fn plain(c: char) -> Option<char> {
    Some(match c {
        // Soft hyphen, zero-width characters, byte order mark.
        '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}' => return None,
        c if c.is_whitespace() => ' ',
        '\u{2018}'..='\u{201b}' | '\u{2032}' | '\u{2035}' | '\u{b4}' | '`' => '\'',
        '\u{201c}'..='\u{201f}' | '\u{2033}' | '\u{2036}' | '\u{ab}' | '\u{bb}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        c => c,
    })
}

/// The mark of a numbered footnote at the beginning of `text`, such as `[^12]`.
pub fn footnote_mark(text: &str) -> Option<&str> {
    /// More footnotes than that are no text of ours.
    const DIGITS: usize = 4;
    let number = text.strip_prefix("[^")?;
    let digits = number.bytes().take(DIGITS).take_while(u8::is_ascii_digit).count();
    let is_mark = digits > 0 && number.as_bytes().get(digits) == Some(&b']');
    is_mark.then(|| &text[..digits + "[^]".len()])
}

/// A text with one space for any white space and plain quotation marks, and where each of its bytes comes from. It is
/// made once and searched as often as needed.
#[derive(Clone, Debug, Default)]
pub struct PlainText {
    text: String,
    /// Where the character of the original begins that a byte of the text belongs to, and where that of the last byte ends.
    from: Vec<u32>,
    end: u32,
}

impl PlainText {
    /// The plain form of `text`, of which what is beyond four gigabytes is left out.
    pub fn of(text: &str) -> Self {
        let mut all = Self { text: String::with_capacity(text.len()), ..Self::default() };
        all.from.reserve(text.len());
        let mut mark_end = 0;
        for (at, c) in text.char_indices() {
            let Ok(begin) = u32::try_from(at) else { break };
            if c == '[' {
                // Whoever quotes a sentence leaves out its footnotes.
                mark_end = at + footnote_mark(&text[at..]).map_or(0, str::len);
            }
            if at < mark_end {
                continue;
            }
            match plain(c) {
                None => continue,
                // White space is as long as it is.
                Some(' ') if all.text.ends_with(' ') => {}
                Some('\u{2026}') => {
                    all.text.push_str("...");
                    all.from.extend([begin; 3]);
                }
                Some(c) => {
                    all.text.push(c);
                    all.from.extend(std::iter::repeat_n(begin, c.len_utf8()));
                }
            }
            all.end = begin.saturating_add(c.len_utf8() as u32);
        }
        all
    }

    /// Characters that are no white space.
    pub fn letters(&self) -> usize {
        self.text.chars().filter(|c| *c != ' ').count()
    }

    /// The first place where `quote` stands, in bytes of the original text. White space, quotation marks, hyphens, dashes,
    /// invisible characters and marks of numbered footnotes may differ; nothing else may. White space around the quote does not count. A quote does
    /// not begin or end within a word. None for an empty quote.
    pub fn find(&self, quote: &PlainText) -> Option<Range<usize>> {
        let quote = quote.text.trim_matches(' ');
        let (first, last) = (quote.chars().next()?, quote.chars().next_back()?);
        let is_whole = |at: &usize| {
            let (before, after) = (&self.text[..*at], &self.text[*at + quote.len()..]);
            let joined = |a: Option<char>, b: Option<char>| a.is_some_and(in_word) && b.is_some_and(in_word);
            !joined(before.chars().next_back(), Some(first)) && !joined(Some(last), after.chars().next())
        };
        let at = self.text.match_indices(quote).map(|(at, _)| at).find(is_whole)?;
        let end = at + quote.len();
        // Invisible characters behind it are no part of it.
        let last = self.from[end - 1] as usize;
        let end = match self.from.get(end) {
            Some(next) => *next as usize,
            None => self.end as usize,
        };
        Some(self.from[at] as usize..end.max(last))
    }
}

/// True for characters of which words consist that have white space around them. Other scripts do not divide words.
fn in_word(c: char) -> bool {
    c.is_lowercase() || c.is_uppercase() || c.is_numeric()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found<'a>(quote: &str, text: &'a str) -> Option<&'a str> {
        PlainText::of(text).find(&PlainText::of(quote)).map(|range| &text[range])
    }

    #[test]
    fn white_space_and_typography_may_differ_and_words_may_not() {
        let text = "It said: \u{201c}The tide\n   turns \u{2014} twice\u{a0}a day\u{201d}, and more\u{2026}";
        for quote in [
            "\"The tide turns - twice a day\"",
            "  \u{ab}The tide turns \u{2013} twice a day\u{bb} ",
            "\u{201c}The\ttide turns \u{2014} twice a\u{200b} day\u{201d}",
        ] {
            assert_eq!(
                found(quote, text),
                Some("\u{201c}The tide\n   turns \u{2014} twice\u{a0}a day\u{201d}"),
                "{quote}"
            );
        }
        assert_eq!(found("and more...", text), Some("and more\u{2026}"));
        for other in ["the tide turns", "The tide turned", "The tide turns twice", "The tides", "", " \n "] {
            assert_eq!(found(other, text), None, "{other}");
        }
    }

    #[test]
    fn a_quote_does_not_begin_or_end_within_a_word() {
        let text = "It is impossible to escape, but possible to hide. 潮は一日に二回変わる。";
        assert_eq!(found("possible to escape", text), None);
        assert_eq!(found("possible to hid", text), None);
        assert_eq!(found("possible to hide", text), Some("possible to hide"));
        assert_eq!(found("12 arches", "It has 112 arches."), None);
        // Nobody can tell where these words end.
        assert_eq!(found("一日に二回", text), Some("一日に二回"));
    }

    #[test]
    fn footnotes_within_a_quote_do_not_count() {
        let text = "It has 12 arches[^1], of which[^23] two are wide.[^4] See [^a] or [^] below.";
        assert_eq!(
            found("It has 12 arches, of which two are wide.", text),
            Some("It has 12 arches[^1], of which[^23] two are wide.[^4]")
        );
        assert_eq!(found("arches[^9], of which two", text), Some("arches[^1], of which[^23] two"));
        assert_eq!(found("See or below.", text), None);
        assert_eq!(found("See [^a] or [^] below.", text), Some("See [^a] or [^] below."));
    }

    proptest! {
        #[test]
        fn what_stands_in_a_text_is_found_there(text in "(\\PC{0,8} ){0,8}", a in 0usize..9, n in 1usize..9) {
            let words: Vec<&str> = text.split(' ').skip(a).take(n).collect();
            let quote = words.join(" ");
            let plain = PlainText::of(&quote);
            match found(&quote, &text) {
                Some(there) => {
                    let there = PlainText::of(there);
                    prop_assert_eq!(there.text.trim_matches(' '), plain.text.trim_matches(' '));
                }
                None => prop_assert!(plain.text.trim_matches(' ').is_empty()),
            }
        }

        #[test]
        fn any_two_texts_can_be_compared(quote in "[ -~‘’“”–…\u{ad}\n]{0,12}", text in "[ -~‘’“”–…\u{ad}\n]{0,60}(\\[\\^1\\])?[ -~]{0,9}") {
            if let Some(range) = PlainText::of(&text).find(&PlainText::of(&quote)) {
                prop_assert!(text.get(range).is_some());
            }
        }
    }
}
