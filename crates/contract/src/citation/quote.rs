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

/// A text with one space for any white space and plain quotation marks, and where each of its bytes comes from.
struct Plain {
    text: String,
    /// The character of the original that a byte of the text belongs to: where it begins and ends.
    from: Vec<(usize, usize)>,
}

fn plain_text(text: &str) -> Plain {
    let mut plain_text =
        Plain { text: String::with_capacity(text.len()), from: Vec::with_capacity(text.len()) };
    for (at, c) in text.char_indices() {
        let span = (at, at + c.len_utf8());
        match plain(c) {
            None => {}
            // White space is as long as it is.
            Some(' ') if plain_text.text.ends_with(' ') => {
                if let Some(last) = plain_text.from.last_mut() {
                    last.1 = span.1;
                }
            }
            Some('\u{2026}') => {
                plain_text.text.push_str("...");
                plain_text.from.extend([span; 3]);
            }
            Some(c) => {
                plain_text.text.push(c);
                plain_text.from.extend(std::iter::repeat_n(span, c.len_utf8()));
            }
        }
    }
    plain_text
}

/// The first place in `text` where `quote` stands, in bytes. White space, quotation marks, hyphens, dashes and invisible
/// characters may differ; nothing else may. White space around the quote does not count. None for an empty quote.
pub fn locate(quote: &str, text: &str) -> Option<Range<usize>> {
    let (quote, text) = (plain_text(quote), plain_text(text));
    let quote = quote.text.trim_matches(' ');
    let at = text.text.find(quote).filter(|_| !quote.is_empty())?;
    Some(text.from[at].0..text.from[at + quote.len() - 1].1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found<'a>(quote: &str, text: &'a str) -> Option<&'a str> {
        locate(quote, text).map(|range| &text[range])
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

    proptest! {
        #[test]
        fn what_stands_in_a_text_is_found_there(text in "\\PC{0,60}", a in 0usize..60, n in 1usize..60) {
            let quote: String = text.chars().skip(a).take(n).collect();
            let plain = plain_text(&quote);
            match found(&quote, &text) {
                Some(there) => {
                    let there = plain_text(there);
                    prop_assert_eq!(there.text.trim(), plain.text.trim());
                }
                None => prop_assert!(plain.text.trim_matches(' ').is_empty()),
            }
        }

        #[test]
        fn any_two_texts_can_be_compared(quote in "[ -~‘’“”–…\u{ad}\n]{0,12}", text in "[ -~‘’“”–…\u{ad}\n]{0,60}") {
            if let Some(range) = locate(&quote, &text) {
                prop_assert!(text.get(range).is_some());
            }
        }
    }
}
