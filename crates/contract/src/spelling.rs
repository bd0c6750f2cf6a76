//! Spelling: words that look the same to a reader although a text writes them with other characters.
//!
//! A text is searched in the form of [`indexed`], a query in the form of [`queried`]. Both stores index the first, and the
//! offline model looks for words in it, so they agree on which words a document holds.

use std::borrow::Cow;

use unicode_normalization::char::is_combining_mark;
use unicode_normalization::{UnicodeNormalization, is_nfkc_quick};

use crate::text::is_invisible;

/// The version of [`indexed`]. A store indexes its documents again when it has indexed them with another one.
pub const VERSION: i32 = 1;

const ZERO_WIDTH_SPACE: char = '\u{200b}';
const ZERO_WIDTH_NON_JOINER: char = '\u{200c}';
const ZERO_WIDTH_JOINER: char = '\u{200d}';

/// Marks of emphasis, of code and of deletion in Markdown. The underscore is none: within a word it is a letter.
const MARKS: [char; 3] = ['*', '`', '~'];

/// `text` with every character in its usual form (NFKC): accents composed, full-width letters and ligatures as plain
/// letters. Invisible characters are left out, such as soft hyphens. Those with which some languages divide words become
/// spaces.
pub fn comparable(text: &str) -> Cow<'_, str> {
    // Some take a place of their own: separators of lines, and the Braille pattern without dots.
    let odd = |c: char| is_invisible(c) && !c.is_whitespace() && c != BRAILLE_BLANK;
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let usual = is_nfkc_quick(text.chars()) == unicode_normalization::IsNormalized::Yes;
    if usual && !text.contains(odd) {
        return Cow::Borrowed(text);
    }
    let visible = text.chars().filter_map(|c| match c {
        c if divides(c) => Some(' '),
        c => (!odd(c)).then_some(c),
    });
    Cow::Owned(visible.nfkc().collect())
}

/// `text` with its words in one piece, as a reader sees them: entities of HTML are the characters that they name, and
/// emphasis within a word (`met**eor**`) and characters without a width do not divide it. A mark that emphasises nothing
/// stays, as in `2*3`.
pub fn joined(text: &str) -> Cow<'_, str> {
    per_word(text, |word| {
        let counts = MARKS.map(|mark| word.matches(mark).count());
        let paired = |c: char| MARKS.iter().zip(counts).any(|(mark, n)| *mark == c && n % 2 == 0);
        without_divisions(word, paired)
    })
}

/// `text` as it is searched: [`comparable`], and behind it all words that can also be read in one piece. A word such as
/// `foo*bar` is therefore found by both of its parts and as a whole.
pub fn searchable(text: &str) -> Cow<'_, str> {
    let plain = comparable(text);
    if !text.contains(may_divide) {
        return plain;
    }
    let mut more = String::new();
    for word in text.split_whitespace().filter(|word| word.contains(may_divide)) {
        let whole = without_divisions(word, |c| MARKS.contains(&c));
        let whole = comparable(&whole);
        if whole != comparable(word) && whole.contains(char::is_alphanumeric) {
            more.push(if more.is_empty() { '\n' } else { ' ' });
            more.push_str(&whole);
        }
    }
    match more.is_empty() {
        true => plain,
        false => Cow::Owned(plain.into_owned() + &more),
    }
}

/// A text as it is indexed: [`searchable`], with the words of scripts without spaces in pieces.
pub fn indexed(text: &str) -> String {
    separated(&searchable(text)).into_owned()
}

/// A query in the same form.
pub fn queried(text: &str) -> String {
    separated(&comparable(&joined(text))).into_owned()
}

/// `text` with each character of a script that puts no spaces between words as a word of its own, without the marks on it:
/// Chinese, Japanese, Thai and others, and Korean, whose words take endings. Without a dictionary nobody can tell where
/// their words end. A search for a word then looks for its characters.
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

/// Whether `c` belongs to such a script: Thai and Lao, Myanmar, Hangul, Khmer, the scripts of the Tai, kana, Han.
const fn runs_on(c: char) -> bool {
    matches!(
        c,
        '\u{0e00}'..='\u{0eff}'
            | '\u{1000}'..='\u{109f}'
            | '\u{1100}'..='\u{11ff}'
            | '\u{1780}'..='\u{17ff}'
            | '\u{1950}'..='\u{19df}'
            | '\u{1a20}'..='\u{1aaf}'
            | '\u{3005}'..='\u{3007}'
            | '\u{3040}'..='\u{30ff}'
            | '\u{3130}'..='\u{318f}'
            | '\u{31f0}'..='\u{31ff}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}'
            | '\u{a960}'..='\u{a97f}'
            | '\u{a9e0}'..='\u{a9ff}'
            | '\u{aa60}'..='\u{aa7f}'
            | '\u{ac00}'..='\u{d7ff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{20000}'..='\u{3ffff}'
    )
}

const BRAILLE_BLANK: char = '\u{2800}';

/// Characters without a width that divide words in some languages.
const fn divides(c: char) -> bool {
    matches!(c, ZERO_WIDTH_SPACE | ZERO_WIDTH_NON_JOINER | ZERO_WIDTH_JOINER)
}

/// Characters that may stand within what a reader sees as one word.
fn may_divide(c: char) -> bool {
    divides(c) || MARKS.contains(&c) || matches!(c, '&' | '<')
}

/// `text` with each word, which is what stands between white space, as `change` makes it.
fn per_word(text: &str, change: impl Fn(&str) -> String) -> Cow<'_, str> {
    if !text.contains(may_divide) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for part in text.split_inclusive(char::is_whitespace) {
        let word = part.trim_end_matches(char::is_whitespace);
        match word.contains(may_divide) {
            true => out.push_str(&change(word)),
            false => out.push_str(word),
        }
        out.push_str(&part[word.len()..]);
    }
    Cow::Owned(out)
}

/// `word` without the marks that `drops` chooses, without simple tags of HTML and characters without a width, and with its
/// entities decoded.
fn without_divisions(word: &str, drops: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(c) = rest.chars().next() {
        match tag(rest) {
            Some(length) => rest = &rest[length..],
            None => {
                if !divides(c) && !drops(c) {
                    out.push(c);
                }
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    match html_escape::decode_html_entities(&out) {
        Cow::Owned(decoded) => decoded.chars().filter(|c| !divides(*c)).collect(),
        Cow::Borrowed(_) => out,
    }
}

/// The length of a tag without attributes, such as `<b>` or `</sub>`, at the start of `text`.
fn tag(text: &str) -> Option<usize> {
    let name = text.strip_prefix('<')?;
    let name = name.strip_prefix('/').unwrap_or(name);
    // No name of an element that stands within words is longer.
    let end = name.bytes().take(8).position(|b| b == b'>')?;
    let plain = end > 0 && name.as_bytes()[..end].iter().all(u8::is_ascii_alphanumeric);
    plain.then(|| text.len() - name.len() + end + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The words of `text` in the form in which texts are searched.
    fn words(text: &str) -> Vec<String> {
        let text = searchable(text);
        text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).map(str::to_lowercase).collect()
    }

    #[test]
    fn a_script_without_spaces_is_searched_by_its_characters() {
        let words = |text: &str| {
            let text = separated(text);
            let words = text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty());
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(words("我們研究X1。"), ["我", "們", "研", "究", "X1"]);
        assert_eq!(words("ลาว"), ["ล", "า", "ว"]);
        for (text, word) in [
            ("東京タワーに登る", "タワー"),
            ("ข้อมูลภาษาไทย", "ภาษา"),
            ("서울에서 만나요", "서울"),
            ("ພາສາລາວ", "ລາວ"),
        ] {
            let held = words(text);
            assert!(words(word).iter().all(|c| held.contains(c)), "{word} in {text}: {held:?}");
        }
        assert!(matches!(separated("plain, café"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_word_is_found_however_it_is_written() {
        for (written, word) in [
            ("cafe\u{301}", "café"),
            ("ｍｅｔｅｏｒ", "meteor"),
            ("of\u{fb01}ce", "office"),
            ("me\u{ad}te\u{ad}or", "meteor"),
            ("mete\u{200b}or", "meteor"),
            ("mete\u{2060}or", "meteor"),
            ("\u{feff}meteor", "meteor"),
            ("met**eor** falls", "meteor"),
            ("**met**eor", "meteor"),
            ("*met*eor", "meteor"),
            ("met<b>eor</b>", "meteor"),
            ("H<sub>2</sub>O", "h2o"),
            ("caf&eacute;", "café"),
            ("caf&#233;", "café"),
            ("caf&#xE9;", "café"),
            ("me&shy;teor", "meteor"),
            ("**caf&eacute;**", "café"),
            ("می\u{200c}خواهم", "میخواهم"),
        ] {
            assert!(words(written).contains(&word.to_owned()), "{written:?}: {:?}", words(written));
        }
    }

    #[test]
    fn what_was_found_before_is_still_found() {
        for (text, word) in [
            ("foo*bar", "bar"),
            ("a`b`", "b"),
            ("the entity &eacute; is", "eacute"),
            ("می\u{200c}خواهم", "خواهم"),
            ("ខ្មែរ\u{200b}ភាសា", "ភាសា"),
            ("a<b>c", "c"),
            ("x & y", "y"),
        ] {
            let last: String = word.chars().filter(|c| c.is_alphanumeric()).collect();
            let found = words(text).contains(&last) || searchable(text).contains(word);
            assert!(found, "{text:?}: {:?}", words(text));
        }
        for same in
            ["plain text, nothing else", "Größe 木の枝", "snake_case and tree-agent", "2 * 3 < 7 & more"]
        {
            assert_eq!(searchable(same), same);
            assert_eq!(comparable(same), same);
        }
    }

    #[test]
    fn a_query_is_one_word_where_a_reader_sees_one() {
        for (query, read) in [
            ("met**eor** shower", "meteor shower"),
            ("caf&eacute;", "café"),
            ("foo\u{200b}bar", "foobar"),
            ("2*3", "2*3"),
            ("a  b\n", "a  b\n"),
            ("Is `lease` a *word*?", "Is lease a word?"),
        ] {
            assert_eq!(joined(query), read);
        }
    }

    proptest! {
        #[test]
        fn any_text_has_a_searchable_form(text in any::<String>()) {
            let plain = comparable(&text).into_owned();
            prop_assert!(searchable(&text).starts_with(&plain));
            prop_assert_eq!(comparable(&plain).into_owned(), plain.clone());
        }
    }
}
