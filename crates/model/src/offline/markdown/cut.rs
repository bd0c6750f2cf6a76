//! Where a text without sentence ends is cut, and how a text is read for sentence ends. Both take linear time for every
//! input.

use std::ops::Range;

/// Characters after a full stop among which the next letter must stand; see [`stretches`].
const AHEAD: usize = 64;

/// Cuts `text` into ranges of at most `max` bytes that cover all of it. A cut stands, in order of preference, after a
/// line, a sentence, a word, a punctuation mark, or anything else that is not part of a word. Only a word that takes
/// half of `max` is cut itself.
pub(super) fn windows(text: &str, max: usize) -> Vec<Range<usize>> {
    let mut windows = Vec::new();
    let mut from = 0;
    while text.len() - from > max {
        let to = from + last_break(&text[from..text.floor_char_boundary(from + max)], max / 2);
        windows.push(from..to);
        from = to;
    }
    windows.push(from..text.len());
    windows
}

/// The best place for a cut in `text` after its first `least` bytes; its end if there is none.
fn last_break(text: &str, least: usize) -> usize {
    let least = text.floor_char_boundary(least);
    let late = &text[least..];
    let sentence =
        || late.rmatch_indices(['.', '!', '?', ';']).find(|(at, _)| late[at + 1..].starts_with(' '));
    let after = |(at, found): (usize, &str)| at + found.len();
    let place = late
        .rmatch_indices('\n')
        .next()
        .or_else(sentence)
        .or_else(|| late.rmatch_indices(char::is_whitespace).next())
        .or_else(|| late.rmatch_indices(|c: char| !is_word(c)).next())
        .or_else(|| late.rmatch_indices(|c: char| !c.is_alphanumeric()).next())
        .map(after);
    place.map_or(text.len(), |place| least + place)
}

/// Whether `c` may stand within a word or a compound, such as `tree-agent` and `node_status`.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '\'' | '’')
}

/// Cuts `text` into stretches in which sentence ends can be looked for in linear time, each with its place. After a
/// full stop Unicode's rules look ahead for the next letter, and the library does so again for every space, quotation
/// mark and bracket that follows: without a letter that is quadratic. So a stretch ends [`AHEAD`] characters after a
/// full stop, unless something that is sure to end the search comes first. No sentence ends where a stretch does.
pub(super) fn stretches(text: &str) -> Vec<(usize, &str)> {
    let mut stretches = Vec::new();
    let (mut from, mut since) = (0, None);
    for (at, c) in text.char_indices() {
        since = match (c, since) {
            ('.' | '\u{2024}' | '\u{fe52}' | '\u{ff0e}', _) => Some(0),
            (c, _) if c.is_ascii_alphabetic() || matches!(c, '!' | '?') => None,
            (_, Some(AHEAD)) => {
                stretches.push((from, &text[from..at]));
                from = at;
                None
            }
            (_, since) => since.map(|n: usize| n + 1),
        };
    }
    stretches.push((from, &text[from..]));
    stretches
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(text: &str, max: usize) -> Vec<&str> {
        windows(text, max).into_iter().map(|range| &text[range]).collect()
    }

    fn joined(text: &str) -> String {
        stretches(text).into_iter().map(|(_, stretch)| stretch).collect()
    }

    #[test]
    fn a_cut_stands_where_a_reader_expects_it() {
        assert_eq!(cut("aaaa bbbb\ncc dd ee ff", 16), ["aaaa bbbb\n", "cc dd ee ff"]);
        assert_eq!(cut("it ends here. not there it goes", 18), ["it ends here.", " not there it goes"]);
        assert_eq!(cut("one two three four five", 16), ["one two three ", "four five"]);
        assert_eq!(cut("name,item-0,item-1,item-2", 14), ["name,item-0,", "item-1,item-2"]);
        assert_eq!(cut("a_b_c_d_e_f", 4), ["a_b_", "c_d_", "e_f"]);
        assert_eq!(cut("ääääää", 4), ["ää", "ää", "ää"]);
        assert_eq!(cut("", 4), [""]);
    }

    #[test]
    fn a_stretch_ends_only_where_the_next_letter_is_far() {
        let prose = "One. Two (three). Four! 5.6 ".repeat(9);
        assert_eq!(stretches(&prose), [(0, prose.as_str())]);
        let far = format!("One.{}", " 1".repeat(200));
        assert_eq!(stretches(&far).len(), 2);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_no_window_is_too_long(text in "[a-zß界., \n'-]{0,400}", max in 4_usize..40) {
            let found = cut(&text, max);
            prop_assert_eq!(found.concat(), text.as_str());
            prop_assert!(found.iter().all(|window| window.len() <= max));
            prop_assert_eq!(joined(&text), text);
        }
    }
}
