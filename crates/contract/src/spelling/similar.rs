//! A looser look for words than an index allows: for their letters, whatever stands between or beside them.
//!
//! It finds words in spellings that no rule of this module knows. What it finds need not be the word, so it can only
//! cast doubt on the absence of a word.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_script::{Script, UnicodeScript};

use super::division::{MARKS, removed};
use super::escapes::{Controls, decoded};
use super::signs::{is_sign, is_styled, unsigned};
use super::{joined, runs_on};
use crate::text::is_invisible;

/// Letters of a word that are looked for within other words, too. Shorter ones stand in too many.
const WITHIN_WORDS: usize = 6;
/// Letters of a word that are looked for across white space, too.
const ACROSS_WORDS: usize = 8;
/// What a word may end in that is not asked for.
const ENDINGS: [&str; 10] = ["s", "e", "es", "d", "ed", "ing", "ings", "ly", "ion", "ions"];

/// The letters of the words of a query.
#[derive(Clone, Debug)]
pub struct Similar {
    needles: Vec<Needle>,
    is_complete: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Needle {
    letters: String,
    /// How many letters the word has.
    count: usize,
}

impl Similar {
    /// Words of a query that are looked for.
    pub const WORDS: usize = 32;

    /// For the first [`WORDS`](Self::WORDS) words of `query`: what stands between white space, each for itself.
    pub fn to(query: &str) -> Self {
        let mut needles: Vec<Needle> = Vec::new();
        let mut is_complete = true;
        for word in unsigned(&joined(query)).split_whitespace() {
            let letters = Letters::of(word).text.replace(' ', "");
            let count = letters.chars().count();
            // A plural is found by its singular.
            let letters = match letters.strip_suffix('s') {
                Some(one) if count > WITHIN_WORDS => one.to_owned(),
                _ => letters,
            };
            let needle = Needle { letters, count };
            if count > 0 && !needles.contains(&needle) {
                match needles.len() < Self::WORDS {
                    true => needles.push(needle),
                    false => is_complete = false,
                }
            }
        }
        Self { needles, is_complete }
    }

    /// Whether all words of the query are looked for.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// True if there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.needles.is_empty()
    }

    /// The part of `text` in which the letters of any of the words stand in a row: a paragraph. None if they stand
    /// nowhere.
    pub fn find_in<'a>(&self, text: &'a str) -> Option<&'a str> {
        text.split("\n\n").find(|part| self.is_in(part))
    }

    fn is_in(&self, part: &str) -> bool {
        let decoded = decoded_all(part);
        let marked = |text: &str| text.contains(['<', '[', '&', '{', '\\']);
        self.occurs_in(part)
            || decoded != part && self.occurs_in(&decoded)
            || marked(&decoded) && self.occurs_in(&without_markup(&decoded))
            // An accent of LaTeX looks like an escape.
            || part.contains('\\') && self.occurs_in(&without_markup(part))
    }

    fn occurs_in(&self, text: &str) -> bool {
        let letters = Letters::of(text);
        let found = |needle: &Needle| {
            let mut places = letters.text.match_indices(needle.letters.as_str());
            let within = needle.count >= WITHIN_WORDS;
            places.any(|(at, found)| within || letters.edges[at] && letters.ends_word(at + found.len()))
        };
        if self.needles.iter().any(found) {
            return true;
        }
        let mut long = self.needles.iter().filter(|needle| needle.count >= ACROSS_WORDS).peekable();
        if long.peek().is_none() {
            return false;
        }
        let tight = letters.text.replace(' ', "");
        long.any(|needle| tight.contains(&needle.letters))
    }
}

/// `text` with its escapes decoded, those of mail, and the entities of HTML, and without the sequences that colour a
/// terminal.
fn decoded_all(text: &str) -> String {
    let text = match text.contains('=') {
        true => decoded(&unquoted(text), Controls::Divide).into_owned(),
        false => decoded(text, Controls::Divide).into_owned(),
    };
    let text = html_escape::decode_html_entities(&text);
    match text.contains(['\u{1b}', '\\', '^']) {
        true => without_colours(&text),
        false => text.into_owned(),
    }
}

/// `text` with the escapes of mail (`=C3=B6`) as those of addresses.
fn unquoted(text: &str) -> String {
    let is_escape = |rest: &str| {
        let digits = rest.as_bytes().get(1..3);
        digits.is_some_and(|digits| digits.iter().all(|b| matches!(b, b'0'..=b'9' | b'A'..=b'F')))
    };
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        out.push(if c == '=' && is_escape(&text[at..]) { '%' } else { c });
    }
    out
}

/// `text` without terminal sequences such as `ESC [ 1 m`. Source code writes the first character also as
/// `\e` or `\E`, and pagers show it as `^[`.
fn without_colours(text: &str) -> String {
    const BEGINNINGS: [&str; 4] = ["\u{1b}[", "\\e[", "\\E[", "^[["];
    let mut rest = vec![text];
    for beginning in BEGINNINGS {
        rest = rest.into_iter().flat_map(|part| part.split(beginning)).collect();
    }
    let mut parts = rest.into_iter();
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let numbers = part.bytes().take_while(|b| matches!(b, b'0'..=b'9' | b';' | b'?')).count();
        let is_whole = part.as_bytes().get(numbers).is_some_and(u8::is_ascii_alphabetic);
        out.push_str(&part[numbers + usize::from(is_whole)..]);
    }
    out
}

/// `text` without tags, whatever stands in them, targets of links, what stands in brackets or two braces, marks, and
/// the commands of LaTeX for accents (`\v{r}`).
fn without_markup(text: &str) -> String {
    /// Longer ones are no markup.
    const ENOUGH: usize = 2_000;
    let plain = removed(text, |c| MARKS.contains(&c));
    let mut out = String::with_capacity(plain.len());
    let mut rest = plain.as_str();
    // For each kind of mark, how far its end has been looked for in vain.
    let mut searched = [0_usize; 4];
    while let Some(c) = rest.chars().next() {
        let close = match c {
            '<' => Some((0, ">")),
            '(' if out.ends_with(']') => Some((1, ")")),
            '[' if rest.starts_with("[^") || rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                Some((2, "]"))
            }
            '{' if rest.starts_with("{{") => Some((3, "}}")),
            _ => None,
        };
        let end = close.and_then(|(kind, close)| {
            let at = plain.len() - rest.len();
            // The first part of an end may have been the last that was seen.
            let seen = (searched[kind] + 1).saturating_sub(close.len()).saturating_sub(at);
            let (from, to) = (rest.floor_char_boundary(seen), rest.floor_char_boundary(ENOUGH));
            let end = rest[from..to].find(close).map(|found| from + found + close.len());
            if end.is_none() {
                searched[kind] = at + to;
            }
            end
        });
        let command = rest.as_bytes();
        match end {
            Some(end) => rest = &rest[end..],
            None if c == '\\'
                && command.get(1).is_some_and(u8::is_ascii_alphabetic)
                && command.get(2) == Some(&b'{') =>
            {
                rest = &rest[3..];
            }
            None => {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    out
}

/// The letters and digits of a text in their simplest form, with one space for white space and nothing for everything
/// else.
struct Letters {
    text: String,
    /// For each byte of it, and its end, whether a word may begin or end there.
    edges: Vec<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Upper,
    Lower,
    Digit,
    Sign,
    /// A letter with which whole words are written: `𝒜`.
    Styled,
    /// A letter of a script without capitals: nobody can tell where its words end.
    Caseless,
}

impl Letters {
    fn of(text: &str) -> Self {
        let mut letters =
            Self { text: String::with_capacity(text.len()), edges: Vec::with_capacity(text.len() + 1) };
        // The kind of the letter before, and its script.
        let (mut before, mut hyphen, mut capitals): (Option<(Kind, Script)>, _, _) = (None, false, 0);
        // How many of the next characters may each begin a word.
        let mut loose = 0_usize;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let is_loose = loose > 0;
            loose = loose.saturating_sub(1);
            if c.is_whitespace() {
                // A hyphen at the end of a line divides a word.
                if !hyphen && !letters.text.ends_with(' ') {
                    letters.push(' ', true);
                }
                before = None;
            } else if is_combining_mark(c) || is_invisible(c) {
            } else if let Some(kind) = kind(c) {
                let script = if c.is_ascii() { Script::Latin } else { c.script() };
                // `camelCase` and `HTTPServer`.
                let hump = before == Some((Kind::Upper, script)) && kind == Kind::Lower;
                if hump && let Some(last) = letters.text.char_indices().next_back() {
                    letters.edges[last.0] = true;
                }
                // A word may take an ending of another language: `Linuxом`.
                let same = before == Some((kind, script)) && kind != Kind::Caseless || hump;
                // Behind several capitals a word may also end: `IPv6`, `PDFs`.
                let length = letters.text.len();
                letters.spell(c, !same || hump && capitals > 1 || is_loose);
                // A sign may spell nothing. Then the next letter begins a word.
                before = (letters.text.len() > length).then_some((kind, script));
                hyphen = false;
                capitals = if kind == Kind::Upper { capitals + 1 } else { 0 };
            } else {
                before = None;
                if let Some(length) = placeholder(c, chars.clone()) {
                    loose = length + 1;
                }
            }
            // What stands at the beginning of the next line, such as the mark of a comment, is no part of the word.
            let mut ends_line = || matches!(chars.peek(), Some('\n' | '\r'));
            hyphen |= matches!(c, '-' | '\u{ad}' | '¬' | '\u{2010}'..='\u{2013}')
                || matches!(c, '\\' | '`' | '=') && ends_line();
        }
        letters.edges.push(true);
        letters
    }

    /// Whether a word may end at `end`, where a letter has ended, or behind an ending of it there. The letter may be
    /// doubled: `planned`.
    fn ends_word(&self, end: usize) -> bool {
        let behind = &self.text[end..];
        let last = self.text[..end].chars().next_back();
        let doubled = last.filter(|last| behind.starts_with(*last)).map_or(0, char::len_utf8);
        let ends = |from: usize| {
            let rest = &behind[from..];
            ENDINGS.iter().any(|ending| rest.starts_with(ending) && self.edges[end + from + ending.len()])
        };
        self.edges[end] || ends(0) || doubled > 0 && (self.edges[end + doubled] || ends(doubled))
    }

    fn push(&mut self, c: char, edge: bool) {
        self.edges.push(edge);
        self.edges.extend(std::iter::repeat_n(false, c.len_utf8() - 1));
        self.text.push(c);
    }

    /// The letters of `c` without accents, in lower case.
    fn spell(&mut self, c: char, mut edge: bool) {
        if c.is_ascii() {
            return self.push(c.to_ascii_lowercase(), edge);
        }
        for plain in std::iter::once(c).nfkd().filter(|c| !is_combining_mark(*c)) {
            for lower in plain.to_lowercase().filter(|c| c.is_alphanumeric()) {
                let spelled: &[char] = match lower {
                    'ı' => &['i'],
                    'ς' => &['σ'],
                    'ß' => &['s', 's'],
                    'ø' => &['o'],
                    'ł' => &['l'],
                    'đ' => &['d'],
                    'æ' => &['a', 'e'],
                    'œ' => &['o', 'e'],
                    _ => &[lower],
                };
                for c in spelled {
                    self.push(*c, edge);
                    edge = false;
                }
            }
        }
    }
}

/// How many characters behind `mark` are a placeholder of a format (`%-5.1f`, `%lu`, `%(name)s`), a class of a pattern
/// (`\d`) or an escape of roff (`\fB`). A word may begin right behind them.
fn placeholder(mark: char, behind: impl Iterator<Item = char>) -> Option<usize> {
    /// Longer ones are no placeholders.
    const ENOUGH: usize = 40;
    let mut behind = behind.take(ENOUGH).enumerate().peekable();
    match mark {
        // A font or a sign of roff: `\fBword`, `\(lqword`, `\*(lqword`.
        '\\' => {
            let is_named = behind.next_if(|(_, c)| matches!(c, 'f' | '*')).is_some();
            if behind.next_if(|(_, c)| *c == '(').is_some() {
                behind.next();
            } else if is_named && behind.peek().is_none_or(|(_, c)| !c.is_ascii_alphabetic()) {
                return Some(1);
            }
        }
        '%' => {
            if behind.next_if(|(_, c)| *c == '(').is_some() {
                behind.find(|(_, c)| *c == ')')?;
            }
            // The argument, flags, width and precision, then what says how wide the value is: `%1$,.2f`, `%I64d`.
            while behind.next_if(|(_, c)| c.is_ascii_digit() || "-+#.*$,'_ ".contains(*c)).is_some() {}
            while behind.next_if(|(_, c)| c.is_ascii_digit() || "hljztqLI".contains(*c)).is_some() {}
        }
        _ => return None,
    }
    behind.next().filter(|(_, c)| c.is_ascii_alphabetic()).map(|(at, _)| at + 1)
}

/// What kind of letter `c` is; None for what is no letter.
fn kind(c: char) -> Option<Kind> {
    match c {
        // Apostrophes that Unicode takes for letters.
        '\u{2b9}'..='\u{2c1}' | '\u{2c8}' | '\u{a78b}' | '\u{a78c}' => None,
        c if is_styled(c) => Some(Kind::Styled),
        c if is_sign(c) => Some(Kind::Sign),
        c if !c.is_alphanumeric() => None,
        c if c.is_numeric() => Some(Kind::Digit),
        c if c.is_uppercase() => Some(Kind::Upper),
        c if c.is_lowercase() && !runs_on(c) => Some(Kind::Lower),
        _ => Some(Kind::Caseless),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stands(word: &str, text: &str) -> bool {
        Similar::to(word).find_in(text).is_some()
    }

    #[test]
    fn the_letters_of_a_word_are_found_in_spellings_that_no_rule_knows() {
        for (text, word) in [
            ("The Zir-\nvane works.", "zirvane"),
            ("42Zirvane", "zirvane"),
            ("Z.i.r.v.a.n.e", "zirvane"),
            ("Z i r v a n e s", "zirvanes"),
            (r"\textbf{Zir}vane", "zirvane"),
            ("a [Zir](x 'y' z)(v)vane", "zirvane"),
            ("Zir<span class=\"x\" title='y'>vane</span>", "zirvane"),
            ("Zir[1]vane, Zir<!-- x > y -->vane", "zirvane"),
            ("Zir{{x}}vane Zir\u{2060}va\u{332}ne", "zirvane"),
            ("ZirväNé", "zirvane"),
            ("superzirvanehaus", "zirvane"),
            ("Smo\u{308}rvak", "smörvak"),
            ("SMORVAK", "smörvak"),
            ("Stra\u{df}e", "strasse"),
            (r"sm\u00f6rvak", "smörvak"),
            ("الكتاب", "كتاب"),
            ("𞤀𞤣𞤤𞤢𞤥", "𞤢𞤣𞤤𞤢𞤥"),
            ("the kelp2 of", "kelp"),
            ("the №kelp™ of", "kelp"),
            ("\u{1eef0}\u{1d4c5}", "\u{1eef0}\u{1d4c5}"),
            ("redKelpBed", "kelp"),
            ("KELPBed", "kelp"),
            ("k=e=l=p", "kelp"),
            ("10 000 000 of", "10000000"),
            ("10,000 of", "10.000"),
            ("data-base", "database"),
            ("U.S.A.", "usa"),
            ("O'Reilly", "oreilly"),
            ("C++", "C++"),
            ("> The Zir-\n> vane works.", "zirvane"),
            (" * The ke-\n * lp", "kelp"),
            ("Zir\u{ad}\r\nvane", "zirvane"),
            ("Zir&shy;\nvane", "zirvane"),
            ("Zir\\\nvane", "zirvane"),
            ("Zir=\nvane", "zirvane"),
            ("O\u{2bc}Reilly", "O'Reilly"),
            ("Hawai'i", "hawai\u{2bb}i"),
            ("\u{1b}[32mkelp\u{1b}[0m", "kelp"),
            (r"printf \033[1mkelp\033[0m", "kelp"),
            (r"\e[1;31mkelp\e[0m", "kelp"),
            (r"\E[0;31mbeck\E[0m failed", "beck"),
            ("^[[1;31mcove^[[0m failed", "cove"),
            (r"See \fBweir\fR(8), \fBflint\fP and \(lqdusk\(rq", "weir"),
            (r"See \fBweir\fR(8), \fBflint\fP and \(lqdusk\(rq", "flint"),
            (r"See \fBweir\fR(8), \fBflint\fP and \(lqdusk\(rq", "dusk"),
            (r"See \*(lqmoss\*(rq and \f(BIreed\fP", "moss"),
            (r"See \*(lqmoss\*(rq and \f(BIreed\fP", "reed"),
            (r"\\fIflint\\fR", "flint"),
            ("Zir{{shy}}vane", "zirvane"),
            (r"Erd\H{o}s", "erdős"),
            (r"Ho\v{r}ava", "hořava"),
            ("Sm=C3=B6rvak", "smörvak"),
            ("Мы работаем с Linuxом", "linux"),
            ("Το Linuxο", "linux"),
            ("ёVimё", "vim"),
            ("ЯVim", "vim"),
            ("an ebike and a crêpe", "ebike"),
            ("ebikes and crêpes", "crepe"),
            ("the val-\nves", "valv"),
            ("the val-\nve", "valv"),
            ("par-\nties", "partie"),
            ("re-used", "reus"),
            ("it was plan-\nned", "plan"),
            ("the cell7", "cel"),
            ("the bus-\nes", "bus"),
            ("7images", "imag"),
            ("IPv6 and PDFs", "ip"),
            ("IPv6 and PDFs", "pdf"),
            (r#"printf("%dknots %5.1fbar %smiles\n")"#, "knots"),
            (r#"printf("%dknots %5.1fbar %smiles\n")"#, "bar"),
            (r#"printf("%dknots %5.1fbar %smiles\n")"#, "miles"),
            ("%luknots", "knots"),
            ("%1$dknots, %1$.2fknots", "knots"),
            ("%,dknots", "knots"),
            ("% dknots", "knots"),
            ("%'dknots", "knots"),
            ("%I64dknots", "knots"),
            ("%_dnoon", "noon"),
            ("%1$sport", "port"),
            ("%(speed)sknots", "knots"),
            ("100%cable", "cable"),
            ("100%lake", "lake"),
            (r"^\dknots$", "knots"),
        ] {
            assert!(stands(word, text), "{word} in {text}");
        }
    }

    #[test]
    fn a_short_word_is_not_found_within_another_one() {
        for (text, word) in [
            ("happier report relationship", "pier"),
            ("happier report relationship", "port"),
            ("happier report relationship", "ship"),
            ("on the other hand", "hero"),
            ("the planet", "plan"),
            ("a seabed", "sea"),
            ("the valvels", "valv"),
            ("the cranes hold in storms", "zeppelin"),
            ("one\n\ntwo", "onetwo"),
            ("90 % sportive", "port"),
            ("%sxsport", "port"),
            ("Pier Helper", "ier"),
            ("", "kelp"),
            ("kelp", ""),
        ] {
            assert!(!stands(word, text), "{word} in {text}");
        }
        assert!(Similar::to(" ++ <> ").is_empty());
        let words = |n: usize| (0..n).map(|i| format!("word{i} ")).collect::<String>();
        assert!(Similar::to(&words(Similar::WORDS)).is_complete());
        assert!(!Similar::to(&words(Similar::WORDS + 1)).is_complete());
        assert_eq!(Similar::to("zirvane kelp").find_in("a\n\nthe K.e.l.p\nb\n\nc"), Some("the K.e.l.p\nb"));
    }

    #[test]
    fn a_mark_without_an_end_does_not_hide_that_of_a_later_one() {
        for (open, close) in [("<", ">"), ("[^", "]"), ("[1", "]"), ("{{", "}}")] {
            // The first mark is too far from the end; the second one may be near enough.
            for length in 1_980..2_010 {
                let (far, within) = ("é".repeat(50), "x".repeat(length));
                let text = format!("{open}{far} Zir{open}{within}{close}vane");
                let mark = open.len() + length + close.len();
                assert_eq!(without_markup(&text).ends_with("Zirvane"), mark <= 2_000, "{open} {length}");
            }
        }
    }

    #[test]
    fn every_text_is_looked_through_in_linear_time() {
        for part in [
            "<",
            "<a ",
            "](",
            "[^",
            "[1",
            "{{",
            "\u{1b}[1",
            "=41",
            "-\n",
            "\\v{",
            "%41",
            "%(",
            "%l",
            "\\u",
            "&#",
            "a b",
            "zirvan",
            "é\u{301}",
            "\u{fdfa}",
        ] {
            assert!(!stands("zirvanequark kelp", &part.repeat(30_000)), "{part}");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_word_is_found_in_itself(text in proptest::arbitrary::any::<String>()) {
            for word in text.split_whitespace().filter(|word| !Similar::to(word).is_empty()) {
                let whole = format!("a {word} b");
                proptest::prop_assert!(stands(word, word) && stands(word, &whole), "{word:?}");
            }
        }
    }
}
