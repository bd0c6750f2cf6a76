//! What may stand within a word that a reader sees in one piece: marks of Markdown, links, tags and entities of HTML,
//! and characters without a width.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::signs::within_number;

const ZERO_WIDTH_SPACE: char = '\u{200b}';
const ZERO_WIDTH_NON_JOINER: char = '\u{200c}';
const ZERO_WIDTH_JOINER: char = '\u{200d}';

/// Marks of emphasis, of code and of deletion in Markdown. The underscore is none: within a word it is a letter.
pub(super) const MARKS: [char; 3] = ['*', '`', '~'];

/// Stands for the marks of two characters.
pub(super) const DOUBLED: char = '=';

/// Characters without a width that divide words in some languages.
pub(super) const fn divides(c: char) -> bool {
    matches!(c, ZERO_WIDTH_SPACE | ZERO_WIDTH_NON_JOINER | ZERO_WIDTH_JOINER)
}

/// Characters that may stand within what a reader sees as one word.
pub(super) fn may_divide(c: char) -> bool {
    divides(c) || MARKS.contains(&c) || matches!(c, '&' | '<' | '[' | ']' | '=' | '|' | '+')
}

/// Maximum bytes of a tag, or of the target of a link, with white space in it.
const WITH_SPACE: usize = 256;

/// The parts of `text`, each a word and the white space behind it. White space within a tag, a link or a number divides
/// no word.
pub(super) fn words(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
        let (word, rest) = rest.split_at(word_end(rest));
        let space = rest.len() - rest.trim_start().len();
        at += word.len() + space;
        Some((word, &rest[..space]))
    })
}

/// Where the word at the start of `text` ends.
fn word_end(text: &str) -> usize {
    let (mut at, mut before) = (0, None);
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let skipped = match c {
            '<' => tag(rest),
            ']' if rest[1..].starts_with('(') => closed(&rest[1..], '(', ')').map(|length| length + 1),
            ']' if rest[1..].starts_with('[') => closed(&rest[1..], '[', ']').map(|length| length + 1),
            _ => None,
        };
        let next = || text[at + c.len_utf8()..].chars().next();
        if skipped.is_none() && c.is_whitespace() && !within_number(before, c, next()) {
            return at;
        }
        at += skipped.unwrap_or(c.len_utf8());
        before = Some(c);
    }
    at
}

/// The length of what `open` at the start of `text` and its `close` enclose, on one line.
fn closed(text: &str, open: char, close: char) -> Option<usize> {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(c) = text[at..].chars().next().filter(|c| at < WITH_SPACE && *c != '\n') {
        if let Some(title) = title(text, at).filter(|_| open == '(') {
            at += title;
            continue;
        }
        depth += usize::from(c == open);
        depth -= usize::from(c == close);
        at += c.len_utf8();
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// The length of the title of a link at `at` in `text`, with its quotes, behind white space.
fn title(text: &str, at: usize) -> Option<usize> {
    let behind_space = text[..at].ends_with(|c: char| c.is_ascii_whitespace());
    quoted(&text[at..]).filter(|length| behind_space && !text[at..at + length].contains('\n'))
}

/// The length of what stands in quotes at the start of `text`, with the quotes.
fn quoted(text: &str) -> Option<usize> {
    let quote = text.bytes().next().filter(|b| matches!(b, b'"' | b'\''))?;
    let end = text.bytes().take(WITH_SPACE).skip(1).position(|b| b == quote)?;
    Some(end + 2)
}

/// `word` without the marks that `drops` chooses, without tags of HTML, what makes a part of it a link, marks of
/// footnotes and characters without a width, and with its entities decoded.
pub(super) fn removed(word: &str, drops: impl Fn(char) -> bool) -> String {
    let mut links = Links::of(word);
    let mut out = String::with_capacity(word.len());
    let mut at = 0;
    while let Some(c) = word[at..].chars().next() {
        let within = out.ends_with(char::is_alphanumeric);
        let rest = &word[at..];
        let skipped =
            tag(rest).or_else(|| footnote(rest).filter(|_| within)).or_else(|| doubled(rest, &drops));
        match skipped.or_else(|| links.syntax(at).filter(|_| within)) {
            Some(length) => at += length,
            None => {
                if !divides(c) && !drops(c) {
                    out.push(c);
                }
                at += c.len_utf8();
            }
        }
    }
    match html_escape::decode_html_entities(&out) {
        Cow::Owned(decoded) => decoded.chars().filter(|c| !divides(*c)).collect(),
        Cow::Borrowed(_) => out,
    }
}

/// The length of a tag at the start of `text`, such as `<b>`, `</sub>`, `<wbr />` or `<b class="x">`, or of a comment.
fn tag(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('<')?;
    if let Some(comment) = inner.strip_prefix("!--") {
        let end =
            comment.bytes().take(WITH_SPACE).collect::<Vec<u8>>().windows(3).position(|w| w == b"-->")?;
        return Some(end + "<!---->".len());
    }
    let end = tag_end(inner)?;
    let name = inner[..end].strip_prefix('/').unwrap_or(&inner[..end]);
    let name = name.strip_suffix('/').unwrap_or(name).trim_end();
    let letters = name.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'-').count();
    let (name, attributes) = name.split_at(letters);
    // No name of an element that stands within words is longer. `a<b and c>d` has no tag.
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic()) && letters < 16;
    let is_tag =
        attributes.is_empty() || attributes.starts_with(char::is_whitespace) && attributes.contains('=');
    (plain && is_tag).then_some(end + 2)
}

/// Where the `>` of the tag is that `inner` is behind its `<`. One in the quotes of an attribute ends no tag.
fn tag_end(inner: &str) -> Option<usize> {
    let bytes = inner.as_bytes();
    let (mut at, mut is_value) = (0, false);
    while at < WITH_SPACE.min(bytes.len()) {
        match bytes[at] {
            b'>' => return Some(at),
            b'<' => return None,
            b'"' | b'\'' if is_value => {
                // A quote that nothing closes is a character of the value.
                at += quoted(&inner[at..]).unwrap_or(1);
                is_value = false;
                continue;
            }
            b => is_value = b == b'=' || is_value && b.is_ascii_whitespace(),
        }
        at += 1;
    }
    None
}

/// The length of the mark of a footnote at the start of `text`: `[^1]`.
fn footnote(text: &str) -> Option<usize> {
    let name = text.strip_prefix("[^")?;
    let end = name.bytes().take(64).take_while(|b| !b.is_ascii_whitespace()).position(|b| b == b']')?;
    (end > 0).then_some(end + "[^]".len())
}

/// The length of a mark of two characters at the start of `text`, which highlights, inserts or hides: `==`, `++`, `||`.
fn doubled(text: &str, drops: impl Fn(char) -> bool) -> Option<usize> {
    let is_mark = ["==", "++", "||"].iter().any(|mark| text.starts_with(mark));
    (is_mark && drops(DOUBLED)).then_some(2)
}

/// The links of Markdown in a word: `a [lin](target)kedix`, `mete[or][reference]`. Whatever the word is, all of it is
/// looked at a few times only.
struct Links<'a> {
    word: &'a str,
    /// Where the last text of a link ends, if one does.
    last_end: Option<usize>,
    /// Whether a text that begins in the word can end in a later one.
    is_open: bool,
    /// The next `)` and the next `]` that were found.
    closing: [usize; 2],
    /// Where the `(` of a link stands, and the `)` that belongs to it, if it has one.
    pairs: BTreeMap<usize, usize>,
}

impl<'a> Links<'a> {
    fn of(word: &'a str) -> Self {
        let last_end = word.rfind("](").max(word.rfind("]["));
        let is_open = word.rfind('[') > word.rfind(']');
        let (mut open, mut pairs) = (Vec::new(), BTreeMap::new());
        if last_end.is_some() {
            let mut at = 0;
            while let Some(&b) = word.as_bytes().get(at) {
                match b {
                    b'(' => open.push(at),
                    b')' => open.pop().map(|from| pairs.insert(from, at)).map_or((), drop),
                    b'"' | b'\'' if !open.is_empty() => {
                        at += title(word, at).unwrap_or(1);
                        continue;
                    }
                    _ => {}
                }
                at += 1;
            }
        }
        Self { word, last_end, is_open, closing: [0; 2], pairs }
    }

    /// The length of what makes a link at `at`, when the word goes on behind it.
    fn syntax(&mut self, at: usize) -> Option<usize> {
        let bytes = self.word.as_bytes();
        match (bytes[at], bytes.get(at + 1)?) {
            (b'[', _) => (self.is_open || self.last_end > Some(at)).then_some(1),
            (b']', b'(') => self.target(at, 0, ')'),
            (b']', b'[') => self.target(at, 1, ']'),
            _ => None,
        }
    }

    /// The length of `](…)` or `][…]` at `at`.
    fn target(&mut self, at: usize, kind: usize, closing: char) -> Option<usize> {
        let from = at + 2;
        if self.closing[kind] < from {
            self.closing[kind] = self.word[from..].find(closing).map_or(usize::MAX, |end| from + end);
        }
        let paired = self.pairs.get(&(at + 1)).filter(|_| closing == ')').copied();
        let end = paired.unwrap_or(self.closing[kind]).checked_add(1)?;
        let next = self.word[end..].chars().next()?;
        (next.is_alphanumeric() || next == '[' || MARKS.contains(&next)).then(|| end - at)
    }
}
