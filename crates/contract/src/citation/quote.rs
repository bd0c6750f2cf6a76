//! Finds a quote in a text although white space and typographic characters differ.

use std::ops::Range;

use unicode_normalization::char::{decompose_compatible, is_combining_mark};

use crate::text::is_invisible;

/// What a character counts as: nothing, white space, or itself. Models and word processors change these on their own.
fn plain(c: char) -> Option<char> {
    Some(match c {
        // Before what is invisible: separators of lines and paragraphs divide words.
        c if c.is_whitespace() => ' ',
        c if is_invisible(c) => return None,
        '\u{2018}'..='\u{201b}' | '\u{2032}' | '\u{2035}' | '\u{b4}' | '`' => '\'',
        '\u{201c}'..='\u{201f}' | '\u{2033}' | '\u{2036}' | '\u{ab}' | '\u{bb}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        c => c,
    })
}

/// What a character consists of: `ﬁ` is an f and an i, `ü` a u with two dots, a wide letter a letter. NFKD finds the
/// same texts equal as NFKC. Raised and lowered numbers, fractions and numbers in circles stay: a part of them is
/// another number.
fn pieces(c: char, mut piece: impl FnMut(char)) {
    let is_number = matches!(c,
        '\u{b2}' | '\u{b3}' | '\u{b9}' | '\u{bc}'..='\u{be}' | '\u{2070}'..='\u{209f}' | '\u{2150}'..='\u{218b}'
        | '\u{2460}'..='\u{24ff}' | '\u{3200}'..='\u{33ff}' | '\u{1f100}'..='\u{1f1ff}');
    match plain(c) {
        Some(same) if same == c && !c.is_ascii() && !is_number => decompose_compatible(c, |c| {
            plain(c).into_iter().for_each(&mut piece);
        }),
        other => other.into_iter().for_each(piece),
    }
}

/// The length of the Markdown at `at` that only marks what it surrounds, and whether it does: emphasis and code at the
/// edge of a word, the address of a link, the beginning of a heading or of a quoted line, a backslash before a mark.
fn markdown(text: &str, at: usize) -> Option<(usize, bool)> {
    /// The text of a link, and its address, are not longer.
    const LINK: usize = 1_024;
    let (before, rest) = text.split_at(at);
    let first =
        rest.chars().next().filter(|c| matches!(c, '*' | '_' | '`' | '~' | '\\' | '#' | '>' | '[' | ']'))?;
    let last = before.chars().next_back();
    let begins_line = matches!(last, None | Some('\n' | '\r'));
    let run = rest.len() - rest.trim_start_matches(first).len();
    let next = rest[run..].chars().next();
    let address = |text: &str| {
        let end =
            text.strip_prefix("](")?.bytes().take(LINK).position(|b| b == b')' || b.is_ascii_whitespace())?;
        (text.as_bytes()[end + 2] == b')').then_some(end + 3)
    };
    match first {
        '*' | '_' | '`' | '~' => {
            let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
            let is_free = |c: Option<char>| c.is_none_or(char::is_whitespace);
            let stays = is_word(last) && is_word(next) || is_free(last) && is_free(next);
            Some((run, !stays && (first != '~' || run == 2)))
        }
        '\\' => next.filter(|c| run == 1 && c.is_ascii_punctuation()).map(|_| (1, true)),
        '#' if begins_line && run <= 6 && next == Some(' ') => Some((run, true)),
        '>' if begins_line => Some((run, true)),
        '[' => {
            let end = rest.bytes().take(LINK).position(|b| b == b']')?;
            address(&rest[end..]).map(|_| (1, true))
        }
        ']' => address(rest).map(|length| (length, true)),
        _ => None,
    }
}

/// The mark of a numbered footnote at the beginning of `text`, such as `[^12]`.
pub fn footnote_mark(text: &str) -> Option<&str> {
    /// Digits of the number of a footnote. Our documents have no higher ones.
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
    /// Where the character of the original begins that a byte of the text belongs to, and where that of the last byte
    /// ends.
    from: Vec<u32>,
    end: u32,
    /// Where characters of the text stand that make one word or number of what is before and behind them, in order.
    joints: Vec<u32>,
}

impl PlainText {
    /// The plain form of `text`, of which what is beyond four gigabytes is left out.
    pub fn of(text: &str) -> Self {
        let mut all = Self { text: String::with_capacity(text.len()), ..Self::default() };
        all.from.reserve(text.len());
        let (mut mark_end, mut as_it_is, mut is_divided) = (0, 0, false);
        for (at, c) in text.char_indices() {
            let Ok(begin) = u32::try_from(at) else { break };
            if c == '[' && at >= mark_end {
                // Whoever quotes a sentence leaves out its footnotes.
                mark_end = at + footnote_mark(&text[at..]).map_or(0, str::len);
            }
            if at >= as_it_is
                && at >= mark_end
                && let Some((length, is_mark)) = markdown(text, at)
            {
                mark_end = if is_mark { at + length } else { mark_end };
                // What a backslash stands before is no mark.
                as_it_is = if c == '\\' { at + 2 } else { at + length };
            }
            if at < mark_end {
                continue;
            }
            // A word that a soft hyphen divides goes on behind the end of the line.
            is_divided = c == '\u{ad}' || is_divided && c.is_whitespace();
            if is_divided {
                continue;
            }
            if joins(&all.text, c, &text[at + c.len_utf8()..]) {
                all.joints.extend(u32::try_from(all.text.len()));
            }
            pieces(c, |piece| {
                // White space is as long as it is.
                if piece != ' ' || !all.text.ends_with(' ') {
                    all.text.push(piece);
                    all.from.extend(std::iter::repeat_n(begin, piece.len_utf8()));
                }
                all.end = begin.saturating_add(c.len_utf8() as u32);
            });
        }
        all
    }

    /// Characters that are no white space.
    pub fn letters(&self) -> usize {
        self.text.chars().filter(|c| *c != ' ').count()
    }

    /// The first place where `quote` stands, in bytes of the original text. White space, quotation marks, hyphens,
    /// dashes, invisible characters, the forms of a character, marks of Markdown and of numbered footnotes may differ;
    /// nothing else may. White space around the quote does not count. A quote does not begin or end within a word or a
    /// number. None for an empty quote. Takes time in proportion to the two texts.
    pub fn find(&self, quote: &PlainText) -> Option<Range<usize>> {
        let quote = quote.text.trim_matches(' ');
        if quote.is_empty() {
            return None;
        }
        let is_whole = |at: &usize| {
            let end = *at + quote.len();
            !self.is_inside(*at) && !is_signed(&self.text[..*at], quote) && !self.is_inside(end)
        };
        // Most quotes stand in their source once, or not at all.
        let first = self.text.find(quote)?;
        let at = match is_whole(&first) {
            true => first,
            false => places(&self.text[first..], quote).map(|at| first + at).find(is_whole)?,
        };
        let end = at + quote.len();
        // Invisible characters behind it are no part of it.
        let last = self.from[end - 1] as usize;
        let end = match self.from.get(end) {
            Some(next) => *next as usize,
            None => self.end as usize,
        };
        Some(self.from[at] as usize..end.max(last))
    }

    /// Whether a place of the text is inside a word or a number.
    fn is_inside(&self, at: usize) -> bool {
        let is_joint = |at: usize| u32::try_from(at).is_ok_and(|at| self.joints.binary_search(&at).is_ok());
        let (before, after) = self.text.split_at(at);
        // A part of a character is no word.
        if at > 0 && self.from.get(at) == Some(&self.from[at - 1]) && !after.starts_with('.') {
            return true;
        }
        let last = before.char_indices().next_back().is_some_and(|(last, _)| is_joint(last));
        last || is_joint(at) || within_word(before, after)
    }
}

/// Whether `c` makes one word or number of what stands before and behind it: the hyphen of `non-toxic`, the slash of
/// `1/5`, and white space that keeps the digits of a number together. A dash between words divides them.
fn joins(before: &str, c: char, behind: &str) -> bool {
    let is_part: fn(char) -> bool = match c {
        '-' | '\u{2010}' | '\u{2011}' => in_word,
        '/' | '\u{2044}' | '\u{2215}' | '\u{a0}' | '\u{2009}' | '\u{202f}' => char::is_numeric,
        _ => return false,
    };
    let next = || behind.trim_start_matches(['*', '_', '`', '[', '\\']).chars().find_map(plain);
    before.chars().next_back().is_some_and(is_part) && next().is_some_and(is_part)
}

/// All places of `quote`, which is not empty, in `text`, also those that overlap (Knuth, Morris and Pratt). To search
/// again from each place would take the product of the two lengths where characters repeat.
fn places<'a>(text: &'a str, quote: &'a str) -> impl Iterator<Item = usize> + 'a {
    let (text, quote) = (text.as_bytes(), quote.as_bytes());
    // For each beginning of the quote, the length of the longest shorter one that it ends with.
    let mut shorter = vec![0_usize; quote.len()];
    let follow = move |shorter: &[usize], mut length: usize, byte: u8| {
        while length > 0 && quote.get(length) != Some(&byte) {
            length = shorter[length - 1];
        }
        length + usize::from(quote[length] == byte)
    };
    for at in 1..quote.len() {
        shorter[at] = follow(&shorter, shorter[at - 1], quote[at]);
    }
    let mut length = 0;
    text.iter().enumerate().filter_map(move |(at, byte)| {
        length = follow(&shorter, length, *byte);
        (length == quote.len()).then(|| at + 1 - length)
    })
}

/// Whether a place between two texts is inside a word or a number: `can|'t`, `12.|50`.
fn within_word(before: &str, after: &str) -> bool {
    let (mut before, mut after) = (before.chars().rev(), after.chars());
    let (Some(last), Some(next)) = (before.next(), after.next()) else { return false };
    let joins = |c: char| matches!(c, '\'' | '.' | ',');
    match (in_word(last), in_word(next)) {
        (true, true) => true,
        (true, false) => joins(next) && after.next().is_some_and(in_word),
        // The mark of a syllable belongs to it.
        (false, _) if matches!(next, '\u{3099}' | '\u{309a}') => true,
        (false, true) => joins(last) && before.next().is_some_and(in_word),
        (false, false) => false,
    }
}

/// Whether `quote` begins with a number, or an amount of money, whose sign, or point, stands before it: `-5`, `.5`,
/// `-$5`.
fn is_signed(before: &str, quote: &str) -> bool {
    let number = quote.strip_prefix(is_currency);
    if !number.unwrap_or(quote).starts_with(char::is_numeric) {
        return false;
    }
    let mut before = before.chars().rev();
    match before.next() {
        Some('-') => true,
        // Three of them are an ellipsis.
        Some('.') => number.is_none() && before.next() != Some('.'),
        Some(c) if is_currency(c) => before.next() == Some('-'),
        _ => false,
    }
}

/// Unicode's currency symbols (`Sc`).
const fn is_currency(c: char) -> bool {
    matches!(c,
        '$' | '\u{a2}'..='\u{a5}' | '\u{58f}' | '\u{60b}' | '\u{7fe}' | '\u{7ff}' | '\u{9f2}' | '\u{9f3}'
        | '\u{9fb}' | '\u{af1}' | '\u{bf9}' | '\u{e3f}' | '\u{17db}' | '\u{20a0}'..='\u{20c0}' | '\u{a838}'
        | '\u{fdfc}' | '\u{fe69}' | '\u{ff04}' | '\u{ffe0}' | '\u{ffe1}' | '\u{ffe5}' | '\u{ffe6}'
        | '\u{11fdd}'..='\u{11fe0}' | '\u{1e2ff}' | '\u{1ecb0}')
}

/// True for characters of which words consist that have white space around them, and numbers.
fn in_word(c: char) -> bool {
    match is_undivided(c) {
        true => c.is_numeric() && !is_han(c),
        false => c.is_alphanumeric() || is_combining_mark(c),
    }
}

/// True for the scripts that put nothing between words: nobody can tell from the characters where their words end.
const fn is_undivided(c: char) -> bool {
    is_han(c)
        || matches!(c,
            // Hiragana and katakana.
            '\u{3031}'..='\u{3035}' | '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{ff66}'..='\u{ff9f}'
            | '\u{1aff0}'..='\u{1b16f}'
            // Thai and Lao.
            | '\u{e00}'..='\u{eff}'
            // Myanmar and Khmer.
            | '\u{1000}'..='\u{109f}' | '\u{a9e0}'..='\u{a9ff}' | '\u{aa60}'..='\u{aa7f}'
            | '\u{1780}'..='\u{17ff}')
}

const fn is_han(c: char) -> bool {
    matches!(c,
        '\u{2e80}'..='\u{2fdf}' | '\u{3005}'..='\u{3007}' | '\u{3021}'..='\u{3029}' | '\u{3038}'..='\u{303b}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
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
    fn nothing_that_changes_what_a_quote_says_is_left_out() {
        for (quote, text) in [
            ("the bridge can", "the bridge can't be crossed"),
            ("the bridge can", "the bridge can\u{2019}t be crossed"),
            ("'t be crossed", "the bridge can't be crossed"),
            ("a population of 1", "a population of 1,500,000"),
            ("500,000 people", "1,500,000 people"),
            ("the toll costs 12", "the toll costs 12.50"),
            ("the toll costs 12.", "the toll costs 12.50"),
            (".50 at night", "12.50 at night"),
            ("5 degrees in winter", "-5 degrees in winter"),
            ("5 degrees in winter", "it has \u{2212}5 degrees in winter"),
            ("5 inches", "some .5 inches"),
            ("가능하다고 말했다", "불가능하다고 말했다"),
            ("संभव है कि", "असंभव है कि"),
            ("cien an", "cien an\u{303}os"),
            ("legal in all states", "il\u{2063}legal in all states"),
            ("๕ ตัว", "๑๕ ตัว"),
            ("500 000 people", "1\u{202f}500\u{202f}000 people"),
            ("500 000 people", "1\u{a0}500\u{a0}000 people"),
            ("a town of 1 500", "a town of 1\u{2009}500\u{2009}000 people"),
            ("toxic to fish", "non-toxic to fish"),
            ("toxic to fish", "non\u{2011}toxic to fish"),
            ("-toxic to fish", "non-toxic to fish"),
            ("it is non-", "it is non-toxic"),
            ("it is sugar", "it is sugar-free"),
            ("it is sugar", "it is sugar-\u{ad}free"),
            ("$500 of profit", "-$500 of profit"),
            ("500 of profit", "-$500 of profit"),
            ("€500 of profit", "\u{2212}€500 of profit"),
            ("5 euros in winter", "1/5 euros in winter"),
            ("5 euros in winter", "1\u{2044}5 euros in winter"),
            ("it costs 1", "it costs 1/5 euros"),
        ] {
            assert_eq!(found(quote, text), None, "{quote}");
        }
        for (quote, text) in [
            ("10 10 10 10", "110 10 10 10 10"),
            ("has 12", "The bridge has 12."),
            ("has 12", "The bridge has 12. It is old."),
            ("has 12.", "The bridge has 12."),
            ("has 12", "'The bridge has 12', he said"),
            ("5 degrees", "some ...5 degrees"),
            ("a day", "one\u{2028}a day"),
            ("人口は12", "この人口は12万人"),
            ("万人", "この人口は12万人"),
            ("二", "二〇二六年"),
            ("カタ", "ヒラカタカナー"),
            ("ปลา", "กินปลาทู"),
            ("ြန်မာ", "မြန်မာစာ"),
            ("non-toxic to fish", "It is non-toxic to fish."),
            ("1/5 euros in winter", "costs 1/5 euros in winter"),
            ("-$500 of profit", "made -$500 of profit"),
            ("$500 of profit", "made $500 of profit"),
            ("500 of profit", "made $500 of profit"),
            ("$500 of profit", "made...$500 of profit"),
            ("000 people", "some 500 000 people"),
            ("has 12 arches", "it has 12 arches\u{2014}two are wide"),
            ("two are wide", "it has 12 arches--two are wide"),
            ("or rivers", "seas and/or rivers"),
            ("500 people", "about\u{a0}500 people"),
        ] {
            assert_eq!(found(quote, text), Some(quote), "{quote}");
        }
    }

    #[test]
    fn white_space_within_numbers_may_differ() {
        let text = "It has 1\u{202f}500\u{202f}000 people.";
        for quote in ["1 500 000 people", "1\u{a0}500\u{2009}000 people"] {
            assert_eq!(found(quote, text), Some("1\u{202f}500\u{202f}000 people"), "{quote}");
        }
        assert_eq!(found("it is non-toxic", "it is non\u{2011}toxic"), Some("it is non\u{2011}toxic"));
    }

    #[test]
    fn forms_of_characters_and_marks_of_markdown_may_differ() {
        for (quote, text) in [
            ("the first office is full", "the \u{fb01}rst o\u{fb03}ce is full"),
            ("the \u{fb01}rst office", "the first office"),
            ("Zu\u{308}rich is large", "Zürich is large"),
            ("ｔｈｅ ｔｉｄｅ", "the tide"),
            ("プール が 広い", "ﾌﾟｰﾙ が 広い"),
            ("the north har\u{ad}bour", "the north harbour"),
            ("the north harbour", "the north har\u{ad}\n  bour"),
            ("The north harbour has two locks", "The **north** harbour __has__ *two* locks"),
            ("The *north* harbour", "The north harbour"),
            ("run cargo build now", "run `cargo build` now"),
            ("see the harbour of Avon.", "see [the harbour](https://a.example/b) of Avon."),
            ("Locks It has two", "## Locks\n\nIt has two"),
            ("two locks and a tower", "> two locks\n> and a tower"),
            ("5 * 3 and a_b", "5 \\* 3 and a\\_b"),
        ] {
            assert_eq!(found(quote, text), Some(text.trim_start_matches(['#', '>', ' '])), "{quote}");
        }
        for (quote, text) in [
            ("the area is 102 m", "the area is 10² m"),
            ("it takes 11 h", "it takes 1½ h"),
            ("it takes 1 h", "it takes 1½ h"),
            ("23 apples", "2*3 apples"),
            ("snakecase names", "snake_case names"),
            ("toxic to fish", "non-**toxic** to fish"),
            ("5 degrees", "-**5** degrees"),
            ("it is カ", "it is ガ"),
            ("cien an", "cien años"),
            ("the o", "the \u{fb03}"),
        ] {
            assert_eq!(found(quote, text), None, "{quote}");
        }
    }

    #[test]
    fn a_quote_that_repeats_itself_is_looked_for_in_linear_time() {
        let begun = std::time::Instant::now();
        let text = "a".repeat(1024 * 1024);
        assert_eq!(found(&text[..4096], &text), None, "no place is whole");
        let text = "10 ".repeat(350_000);
        assert_eq!(found(&format!("0 {}", &text[..3999]), &text), None, "no place is whole");
        // The product of the lengths takes minutes.
        assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{:?}", begun.elapsed());
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
        fn every_place_is_found(text in "[ab]{0,40}", quote in "[ab]{1,4}") {
            let all: Vec<usize> = (0..text.len()).filter(|at| text[*at..].starts_with(&quote)).collect();
            prop_assert_eq!(places(&text, &quote).collect::<Vec<_>>(), all);
        }

        #[test]
        fn any_two_texts_can_be_compared(
            quote in "[ -~‘’“”–…\u{ad}\n]{0,12}",
            text in "[ -~‘’“”–…\u{ad}\n]{0,60}(\\[\\^1\\])?[ -~]{0,9}",
        ) {
            if let Some(range) = PlainText::of(&text).find(&PlainText::of(&quote)) {
                prop_assert!(text.get(range).is_some());
            }
        }
    }
}
