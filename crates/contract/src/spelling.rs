//! Spelling: words that look the same to a reader although a text writes them with other characters.
//!
//! A text is searched in the form of [`indexed`], a query in the form of [`queried`]. Both stores index the first, and the
//! offline model looks for words in it, so they agree on which words a document holds.

mod division;
mod scripts;

use std::borrow::Cow;

use unicode_normalization::char::{canonical_combining_class, is_combining_mark};
use unicode_normalization::{UnicodeNormalization, is_nfkc_quick};

use crate::text::is_invisible;
use division::{MARKS, divides, may_divide, removed};
use scripts::{is_optional, is_stroke, runs_on};

/// The version of [`indexed`]. A store indexes its documents again when it has indexed them with another one.
pub const VERSION: i32 = 2;

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
        _ => (letter, c) != ('I', DOT_ABOVE),
    });
    let plain: String = undotted.nfc().collect();
    if !plain.contains(is_optional) {
        return Cow::Owned(plain);
    }
    // Only now: a mark that makes another letter, such as a hamza on an alef, has become one with it.
    Cow::Owned(plain.chars().filter(|c| !is_optional(*c)).nfc().collect())
}

/// `text` with its words in one piece, as a reader sees them: entities of HTML are the characters that they name, and
/// emphasis (`met**eor**`), links and characters without a width within a word do not divide it. A mark that emphasises
/// nothing stays, as in `2*3`.
pub fn joined(text: &str) -> Cow<'_, str> {
    per_word(text, |word| {
        let counts = MARKS.map(|mark| word.matches(mark).count());
        let paired = |c: char| MARKS.iter().zip(counts).any(|(mark, n)| *mark == c && n % 2 == 0);
        removed(word, paired)
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
        let whole = removed(word, |c| MARKS.contains(&c));
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

/// The capital of the Turkish i. Its small letter, as Unicode has it, is an i with a second dot, which nobody writes.
const DOTTED_I: char = '\u{130}';
const DOT_ABOVE: char = '\u{307}';

const BRAILLE_BLANK: char = '\u{2800}';

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
            ("ꦧꦱꦗꦮ", "ꦗꦮ"),
            ("ᬩᬲᬩᬮᬶ", "ᬩᬮᬶ"),
            ("ꪼꪕꪒꪾ", "ꪒꪾ"),
            ("ᨣᩴᩤᨾᩮᩬᩥᨦ", "ᨾᩮᩬᩥᨦ"),
            ("ㄅㄆㄇㄈ", "ㄇㄈ"),
            ("ꀀꀁꀂ", "ꀁꀂ"),
            ("ꨌꩌꩃ", "ꩌꩃ"),
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
            ("a [lin](x)kedix", "linkedix"),
            ("[lin][x]ked[ix](y)", "linkedix"),
            ("see mete[or](x), then", "meteor"),
            ("mete[**or** falls](x)", "meteor"),
            ("[it is a mete](x)or", "meteor"),
            ("كِتَابٌ", "كتاب"),
            ("كتـــاب", "كتاب"),
            ("\u{0627}\u{064e}\u{0654}ب", "أب"),
            ("שָׁלוֹם", "שלום"),
            ("\u{fb2a}לום", "שלום"),
            ("ܫܠܳܡܳܐ", "ܫܠܡܐ"),
            ("to İstanbul", "istanbul"),
            ("I\u{307}zmir", "izmir"),
            ("I\u{640}\u{307}zmir", "izmir"),
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
            ("a[i] and [word](x), b", "a[i] and [word](x), b"),
            ("a [lin](x)kedix", "a [linkedix"),
            ("Is `lease` a *word*?", "Is lease a word?"),
        ] {
            assert_eq!(joined(query), read);
        }
    }

    #[test]
    fn marks_that_carry_the_letter_stay() {
        for text in ["हिन्दी", "தமிழ்", "ދިވެހި", "Z\u{32a}algo", "vi\u{1ec7}t"] {
            assert_eq!(comparable(text).nfkc().collect::<String>(), text.nfkc().collect::<String>());
        }
        assert_ne!(comparable("أب"), comparable("اب"), "a hamza on an alef is another letter");
    }

    /// Links cost the length of the text, whatever it is.
    #[test]
    fn what_looks_like_links_is_read_in_linear_time() {
        for part in ["](", "][", "[", "a](b)", "a[", "a](b", "x]("] {
            let text = part.repeat(300_000);
            assert!(searchable(&text).len() <= text.len() * 2 + 1);
        }
    }

    proptest! {
        #[test]
        fn any_text_has_a_searchable_form(text in any::<String>()) {
            has_a_searchable_form(&text)?;
        }

        #[test]
        fn marks_in_any_order_have_a_searchable_form(
            text in "[aIאש\u{5b0}-\u{5c7}ا-ي\u{640}\u{64b}-\u{655}\u{301}\u{307}\u{323}\u{130}\u{fe70}-\u{fe7f}\u{fdfa}]{0,12}",
        ) {
            has_a_searchable_form(&text)?;
        }
    }

    fn has_a_searchable_form(text: &str) -> Result<(), TestCaseError> {
        let plain = comparable(text).into_owned();
        prop_assert!(searchable(text).starts_with(&plain));
        prop_assert_eq!(comparable(&plain).into_owned(), plain.clone());
        Ok(())
    }
}
