//! Spelling: words that look the same to a reader although a text writes them with other characters.
//!
//! A text is searched in the form of [`indexed`], a query in the form of [`queried`]. Both stores index the first, and
//! the offline model looks for words in it, so they agree on which words a document holds.

mod division;
mod escapes;
mod scripts;
mod signs;

use std::borrow::Cow;

use unicode_normalization::char::{canonical_combining_class, is_combining_mark};
use unicode_normalization::{UnicodeNormalization, is_nfkc_quick};

use crate::text::is_invisible;
use division::{DOUBLED, MARKS, divides, may_divide, removed, words};
use escapes::{Controls, decoded};
use scripts::{is_optional, is_stroke, runs_on};
use signs::{DIVIDERS, DIVIDERS_OR_DOT, grouped, is_sign, split, unsigned};

/// `text` with every character in its usual form (NFKC): accents composed, full-width letters and ligatures as plain
/// letters. Invisible characters are left out, such as soft hyphens, and so are marks that writers may leave out, such
/// as Arabic vowel signs. Characters with which some languages divide words become spaces.
pub fn comparable(text: &str) -> Cow<'_, str> {
    // Some take a place of their own: separators of lines, and the Braille pattern without dots.
    let odd = |c: char| is_invisible(c) && !c.is_whitespace() && c != BRAILLE_BLANK || is_stroke(c);
    let special = |c: char| odd(c) || is_optional(c) || c == DOTTED_I;
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let usual = is_nfkc_quick(text.chars()) == unicode_normalization::IsNormalized::Yes;
    if usual && !text.contains(special) {
        return Cow::Borrowed(text);
    }
    let visible = text.chars().filter_map(|c| match c {
        c if divides(c) => Some(' '),
        c => (!odd(c)).then_some(c),
    });
    // What is left out below divides no letter from its dot.
    let mut letter = ' ';
    let undotted = visible.nfkd().filter(|&c| match canonical_combining_class(c) {
        0 if is_optional(c) => true,
        0 => {
            letter = c;
            true
        }
        _ => !(matches!(letter, 'I' | 'i') && c == DOT_ABOVE),
    });
    let plain: String = undotted.nfc().collect();
    if !plain.contains(is_optional) {
        return Cow::Owned(plain);
    }
    // Only now: a mark that makes another letter, such as a hamza on an alef, has become one with it.
    Cow::Owned(plain.chars().filter(|c| !is_optional(*c)).nfc().collect())
}

/// `text` with its words in one piece, as a reader sees them: entities of HTML and escapes are the characters that they
/// name, and emphasis (`met**eor**`), links and characters without a width within a word do not divide it. A mark that
/// emphasises nothing stays, as in `2*3`.
pub fn joined(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| may_divide(c) || is_escape(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for (word, space) in words(text) {
        let word = decoded(word, Controls::Stay);
        let counts = MARKS.map(|mark| word.matches(mark).count());
        let paired = |c: char| MARKS.iter().zip(counts).any(|(mark, n)| *mark == c && n % 2 == 0);
        match word.contains(may_divide) {
            true => out.push_str(&removed(&word, paired)),
            false => out.push_str(&word),
        }
        out.push_str(space);
    }
    Cow::Owned(out)
}

/// `text` as it is searched: [`comparable`], and behind it the other readings of its words: in one piece, with their
/// escapes decoded, without the signs beside them, and in the parts that capital letters show. A word such as `foo*bar`
/// is therefore found by both of its parts and as a whole.
pub fn searchable(text: &str) -> Cow<'_, str> {
    let plain = comparable(text);
    let mut more = String::new();
    for (word, _) in words(text) {
        let is_special = |c: char| may_divide(c) || is_escape(c) || is_sign(c) || c.is_ascii_digit();
        // Most words have one reading only.
        if !word.contains(is_special) && !word.chars().skip(1).any(char::is_uppercase) {
            continue;
        }
        let known = comparable(word);
        let mut readings: Vec<String> = Vec::new();
        for reading in readings_of(word) {
            let reading = comparable(&reading).into_owned();
            if reading != known && reading.contains(char::is_alphanumeric) && !readings.contains(&reading) {
                more.push(if more.is_empty() { '\n' } else { ' ' });
                more.push_str(&reading);
                readings.push(reading);
            }
        }
    }
    match more.is_empty() {
        true => plain,
        false => Cow::Owned(plain.into_owned() + &more),
    }
}

/// How else `word` can be read.
fn readings_of(word: &str) -> impl Iterator<Item = String> {
    let plain = decoded(word, Controls::Divide);
    let whole = match plain.contains(may_divide) {
        true => removed(&plain, |c| MARKS.contains(&c) || c == DOUBLED),
        false => plain.clone().into_owned(),
    };
    let parts = [split(&plain), split(&whole)];
    let whole = grouped(&whole, DIVIDERS_OR_DOT).into_owned();
    std::iter::once(whole).chain(parts.into_iter().flatten())
}

/// A text as it is indexed: [`searchable`] in lower case, with the words of scripts without spaces in pieces.
pub fn indexed(text: &str) -> String {
    folded(&separated(&searchable(text)))
}

/// A query in the same form.
pub fn queried(text: &str) -> String {
    let text = joined(text);
    folded(&separated(&comparable(&unsigned(&grouped(&text, DIVIDERS)))))
}

/// `text` in lower case and without the marks that do not make another letter. The Turkish `ı` is an `i`, because
/// nobody can tell which of them a capital `I` is, and the Greek `ς` is a `σ`.
pub fn folded(text: &str) -> String {
    let mut out = text.to_lowercase();
    if !out.is_ascii() {
        out.retain(|c| !is_combining_mark(c) || c.is_alphanumeric());
        out = out.replace(DOTLESS_I, "i").replace('ς', "σ");
    }
    out
}

/// `text` with each character of a script that puts no spaces between words as a word of its own, without the marks on
/// it: Chinese, Japanese, Thai and others, and Korean, whose words take endings. Without a dictionary nobody can tell
/// where their words end. A search for a word then looks for its characters.
fn separated(text: &str) -> Cow<'_, str> {
    if !text.chars().any(runs_on) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() / 3 * 5);
    for c in text.chars() {
        match runs_on(c) {
            true if is_combining_mark(c) => {}
            true => out.extend([' ', c, ' ']),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// The capital of the Turkish i. Its small letter, as Unicode has it, is an i with a second dot, which nobody writes.
const DOTTED_I: char = '\u{130}';
const DOT_ABOVE: char = '\u{307}';
const DOTLESS_I: char = '\u{131}';

const BRAILLE_BLANK: char = '\u{2800}';

/// Whether `c` begins an escape.
const fn is_escape(c: char) -> bool {
    matches!(c, '%' | '\\')
}

#[cfg(test)]
mod tests;
