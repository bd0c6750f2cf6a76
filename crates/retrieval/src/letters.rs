//! Characters as a quote and its source are compared: their forms may differ, what they say may not.

use tree_agent_contract::text::is_invisible;
use unicode_normalization::char::{decompose_compatible, is_combining_mark};

/// The raised form of `c`, if it has one.
pub(crate) fn raised(c: char) -> Option<char> {
    let at = "0123456789+-=()ni".find(c)?;
    "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱ".chars().nth(at)
}

/// The digit that `c` is a lowered form of.
pub(crate) fn lowered(c: char) -> Option<char> {
    matches!(c, '₀'..='₉').then(|| char::from_digit(c as u32 - '₀' as u32, 10)).flatten()
}

/// What a character counts as: nothing, white space, or itself. Models and word processors change these on their own.
/// Of white space, lines and what keeps the digits of a number together stay apart, and so do hyphens and dashes.
pub(crate) fn plain(c: char) -> Option<char> {
    Some(match c {
        '\n' | '\r' => '\n',
        '\u{a0}' | '\u{2009}' | '\u{202f}' => '\u{a0}',
        // Before what is invisible: separators of lines and paragraphs divide words.
        c if c.is_whitespace() => ' ',
        c if is_invisible(c) => return None,
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        '\u{2018}'..='\u{201b}' | '\u{2032}' | '\u{2035}' | '\u{b4}' | '`' => '\'',
        '\u{201c}'..='\u{201f}' | '\u{2033}' | '\u{2036}' | '\u{ab}' | '\u{bb}' => '"',
        '\u{2010}' | '\u{2011}' => '-',
        '\u{2012}'..='\u{2015}' | '\u{2212}' => '–',
        c => c,
    })
}

/// What a character consists of: `ﬁ` is an f and an i, `ü` a u with two dots, a wide letter a letter. NFKD finds the
/// same texts equal as NFKC. Raised and lowered numbers, fractions and numbers in circles stay: a part of them is
/// another number.
pub(crate) fn pieces(c: char, mut piece: impl FnMut(char)) {
    let is_number = matches!(c,
        '\u{b2}' | '\u{b3}' | '\u{b9}' | '\u{bc}'..='\u{be}' | '\u{2070}'..='\u{209f}' | '\u{2150}'..='\u{218b}'
        | '\u{2460}'..='\u{24ff}' | '\u{3200}'..='\u{33ff}' | '\u{1f100}'..='\u{1f1ff}');
    match plain(c) {
        Some(same) if same == c && !c.is_ascii() && c != '\u{a0}' && !is_number => {
            decompose_compatible(c, |c| {
                plain(c).into_iter().for_each(&mut piece);
            })
        }
        other => other.into_iter().for_each(piece),
    }
}

/// True for what words and numbers consist of. All else stands between them.
pub(crate) fn is_letter(c: char) -> bool {
    c.is_alphanumeric() || is_combining_mark(c)
}

/// Whether `gap`, which stands between two letters, and all of it, makes one word or number of them: nothing, the
/// apostrophe of `can't`, the point of `12.50`, the hyphen of `non-toxic`, the slash of `1/5`, and white space that
/// keeps the digits of a number together. A dash between words divides them.
pub(crate) fn joins(last: char, gap: &str, next: char) -> bool {
    match gap {
        // The mark of a syllable belongs to it.
        "" => in_word(last) && in_word(next) || matches!(next, '\u{3099}' | '\u{309a}'),
        "'" | "." | "," | "-" | "_" => in_word(last) && in_word(next),
        "/" | "\u{2044}" | "\u{2215}" | "\u{a0}" | ":" | "^" | "×" | "·" | "*" | "–" => {
            last.is_numeric() && next.is_numeric()
        }
        _ => is_divided(last, gap, next),
    }
}

/// Whether `gap` is the hyphen of a word that goes on in the next line, or on the next page.
pub(crate) fn is_divided(last: char, gap: &str, next: char) -> bool {
    let line = gap.strip_prefix('-').is_some_and(|line| !line.is_empty() && line.chars().all(is_line));
    line && last.is_lowercase() && next.is_lowercase()
}

fn is_line(c: char) -> bool {
    matches!(c, '\n' | crate::visible::BLOCK)
}

/// Whether `quote` begins with a number, or an amount of money, whose sign, or point, stands before it: `-5`, `.5`,
/// `≥5`, `-$5`.
pub(crate) fn is_signed(before: &str, quote: &str) -> bool {
    let number = quote.strip_prefix(is_currency);
    if !number.unwrap_or(quote).starts_with(char::is_numeric) {
        return false;
    }
    let is_sign = |c| matches!(c, '-' | '–' | '+');
    let relation = before.trim_end_matches([' ', '\u{a0}']);
    let is_relation =
        |c| matches!(c, '<' | '>' | '≤' | '≥' | '⩽' | '⩾' | '≲' | '≳' | '≠' | '~' | '∼' | '≈' | '±' | '∓');
    if relation.ends_with(is_relation) || ["<=", ">=", "!="].iter().any(|sign| relation.ends_with(sign)) {
        return true;
    }
    let mut before = before.chars().rev();
    match before.next() {
        Some(c) if is_sign(c) => true,
        // Three of them are an ellipsis.
        Some('.') => number.is_none() && before.next() != Some('.'),
        Some(c) if is_currency(c) => before.next().is_some_and(|c| is_sign(c) || is_relation(c)),
        _ => false,
    }
}

/// Unicode's currency symbols (`Sc`).
pub(crate) const fn is_currency(c: char) -> bool {
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
        false => is_letter(c),
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
