//! Where a word could also be read as several: signs that stand close to a word, and capital letters within it. And
//! where several numbers are one.

use std::borrow::Cow;

use unicode_normalization::char::is_combining_mark;

/// Signs that Unicode takes for letters or digits. Their usual form would join the word beside them: `Atlas™` would
/// become `AtlasTM`. Signs of different kinds are not one word either.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// Letters, digits and everything else.
    None,
    /// Letters above or below the line: `ª`, `ⁿ`.
    Raised,
    /// Digits above or below the line: `²`, `₂`.
    RaisedDigit,
    /// `™`, `№`, `℃`.
    Letterlike,
    /// `½`, `Ⅳ`.
    Number,
    /// `①`, `Ⓐ`, `🄰`.
    Enclosed,
    /// `㎏`, `㏑`.
    Squared,
    /// `𝒜`. Whole words are written with these.
    Styled,
}

const fn sign(c: char) -> Sign {
    match c {
        '\0'..='\u{a9}' => Sign::None,
        '²' | '³' | '¹' | '\u{2070}' | '\u{2074}'..='\u{2079}' | '\u{2080}'..='\u{2089}' => {
            Sign::RaisedDigit
        }
        'ª'
        | 'º'
        | '\u{2b0}'..='\u{2b8}'
        | '\u{2e0}'..='\u{2e4}'
        | '\u{1d2c}'..='\u{1d6a}'
        | '\u{1d78}'
        | '\u{1d9b}'..='\u{1dbf}'
        | '\u{2071}'..='\u{209f}'
        | '\u{2c7c}'
        | '\u{2c7d}'
        | '\u{a69c}'
        | '\u{a69d}'
        | '\u{a770}'
        | '\u{a7f2}'..='\u{a7f4}'
        | '\u{a7f8}'
        | '\u{a7f9}'
        | '\u{ab5c}'..='\u{ab5f}'
        | '\u{10780}'..='\u{107bf}' => Sign::Raised,
        // Kelvin and ångström are plain letters to Unicode.
        '\u{2100}'..='\u{2129}' | '\u{212c}'..='\u{214f}' => Sign::Letterlike,
        '\u{bc}'..='\u{be}' | '\u{2150}'..='\u{218f}' => Sign::Number,
        '\u{2460}'..='\u{24ff}' | '\u{3200}'..='\u{32ff}' | '\u{1f100}'..='\u{1f2ff}' => Sign::Enclosed,
        '\u{3300}'..='\u{33ff}' => Sign::Squared,
        '\u{1d400}'..='\u{1d7ff}' | '\u{1ee00}'..='\u{1eeff}' => Sign::Styled,
        _ => Sign::None,
    }
}

/// True for a sign that Unicode takes for letters or digits.
pub(super) fn is_sign(c: char) -> bool {
    sign(c) != Sign::None
}

/// `word` with its signs and the parts of a `camelCaseName` apart from each other. None if it has nothing of the kind.
pub(super) fn split(word: &str) -> Option<String> {
    let mut chars = word.chars().peekable();
    let mut before = chars.next()?;
    let mut out = String::new();
    let mut divided = false;
    out.push(before);
    while let Some(c) = chars.next() {
        let lower_follows = chars.peek().is_some_and(|next| next.is_lowercase());
        // `camelCase`, `HTTPServer`, but not `PDFs`, whose last letter is an ending.
        let hump = c.is_uppercase() && (before.is_lowercase() || before.is_uppercase() && lower_follows);
        if sign(c) != sign(before) || hump {
            out.push(' ');
            divided = true;
        }
        out.push(c);
        before = c;
    }
    divided.then_some(out)
}

/// `word` of a query without the signs beside its letters, except digits: `Atlas™` is `Atlas`, and `H₂O` stays.
pub(super) fn unsigned(word: &str) -> Cow<'_, str> {
    let beside = |c: char| !matches!(sign(c), Sign::None | Sign::RaisedDigit | Sign::Styled);
    // Some accents are alphabetic to Unicode, but they are no letters beside which a sign stands.
    let plain = |c: char| sign(c) == Sign::None && c.is_alphanumeric() && !is_combining_mark(c);
    if !word.contains(beside) {
        return Cow::Borrowed(word);
    }
    let words = word.split_inclusive(char::is_whitespace).map(|word| match word.contains(plain) {
        true => Cow::Owned(word.replace(beside, " ")),
        false => Cow::Borrowed(word),
    });
    Cow::Owned(words.collect())
}

/// What may divide groups of digits. A dot may also divide the parts of a version or of an address.
pub(super) const DIVIDERS: &[char] = &[',', '\'', '’', '_', '\u{a0}', '\u{2009}', '\u{202f}'];
/// The same with the dot.
pub(super) const DIVIDERS_OR_DOT: &[char] = &['.', ',', '\'', '’', '_', '\u{a0}', '\u{2009}', '\u{202f}'];

/// True for a white space between digits that does not divide the number.
pub(super) fn within_number(before: Option<char>, c: char, next: Option<char>) -> bool {
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    matches!(c, '\u{a0}' | '\u{2009}' | '\u{202f}') && digit(before) && digit(next)
}

/// `text` with numbers in one piece whose groups of three digits `dividers` divide: `10,000` is `10000`.
pub(super) fn grouped<'a>(text: &'a str, dividers: &[char]) -> Cow<'a, str> {
    let mut out: Option<String> = None;
    let (mut at, mut copied) = (0, 0);
    let bytes = text.as_bytes();
    while at < bytes.len() {
        let digits = digits_at(bytes, at);
        if digits == 0 {
            at += 1;
            continue;
        }
        let mut end = at + digits;
        let mut number = String::new();
        let divider = text[end..].chars().next().filter(|c| dividers.contains(c));
        while let Some(divider) = divider.filter(|_| digits <= 3)
            && text[end..].starts_with(divider)
            && digits_at(bytes, end + divider.len_utf8()) == 3
        {
            let from = end + divider.len_utf8();
            end = from + 3;
            number.push_str(&text[from..end]);
        }
        if !number.is_empty() {
            let out = out.get_or_insert_default();
            out.push_str(&text[copied..at + digits]);
            out.push_str(&number);
            copied = end;
        }
        at = end;
    }
    match out {
        Some(out) => Cow::Owned(out + &text[copied..]),
        None => Cow::Borrowed(text),
    }
}

/// How many digits stand at `at`.
fn digits_at(bytes: &[u8], at: usize) -> usize {
    bytes[at.min(bytes.len())..].iter().take_while(|b| b.is_ascii_digit()).count()
}
