//! What may stand within a word that a reader sees in one piece: marks of Markdown, links, tags and entities of HTML,
//! and characters without a width.

use std::borrow::Cow;

const ZERO_WIDTH_SPACE: char = '\u{200b}';
const ZERO_WIDTH_NON_JOINER: char = '\u{200c}';
const ZERO_WIDTH_JOINER: char = '\u{200d}';

/// Marks of emphasis, of code and of deletion in Markdown. The underscore is none: within a word it is a letter.
pub(super) const MARKS: [char; 3] = ['*', '`', '~'];

/// Characters without a width that divide words in some languages.
pub(super) const fn divides(c: char) -> bool {
    matches!(c, ZERO_WIDTH_SPACE | ZERO_WIDTH_NON_JOINER | ZERO_WIDTH_JOINER)
}

/// Characters that may stand within what a reader sees as one word.
pub(super) fn may_divide(c: char) -> bool {
    divides(c) || MARKS.contains(&c) || matches!(c, '&' | '<' | '[' | ']')
}

/// `word` without the marks that `drops` chooses, without simple tags of HTML, what makes a part of it a link, and
/// characters without a width, and with its entities decoded.
pub(super) fn removed(word: &str, drops: impl Fn(char) -> bool) -> String {
    let mut links = Links::of(word);
    let mut out = String::with_capacity(word.len());
    let mut at = 0;
    while let Some(c) = word[at..].chars().next() {
        let within = out.ends_with(char::is_alphanumeric);
        match tag(&word[at..]).or_else(|| links.syntax(at).filter(|_| within)) {
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

/// The length of a tag without attributes, such as `<b>` or `</sub>`, at the start of `text`.
fn tag(text: &str) -> Option<usize> {
    let name = text.strip_prefix('<')?;
    let name = name.strip_prefix('/').unwrap_or(name);
    // No name of an element that stands within words is longer.
    let end = name.bytes().take(8).position(|b| b == b'>')?;
    let plain = end > 0 && name.as_bytes()[..end].iter().all(u8::is_ascii_alphanumeric);
    plain.then(|| text.len() - name.len() + end + 1)
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
}

impl<'a> Links<'a> {
    fn of(word: &'a str) -> Self {
        let last_end = word.rfind("](").max(word.rfind("]["));
        let is_open = word.rfind('[') > word.rfind(']');
        Self { word, last_end, is_open, closing: [0; 2] }
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
        let end = self.closing[kind].checked_add(1)?;
        let next = self.word[end..].chars().next()?;
        (next.is_alphanumeric() || next == '[' || MARKS.contains(&next)).then(|| end - at)
    }
}
