//! The text of HTML: what a reader sees between the tags.

use std::ops::Range;

use html5gum::{DefaultEmitter, Token, Tokenizer};

/// Tags within a line of text; every other tag ends the text before it.
const INLINE: &[&str] = &[
    "a", "abbr", "b", "bdi", "bdo", "cite", "code", "del", "dfn", "em", "font", "i", "ins", "kbd", "mark",
    "q", "s", "samp", "small", "span", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr",
];
/// Elements whose content nobody reads.
const HIDDEN: &[&str] = &["script", "style", "template"];

/// A text between two tags that are not inline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text {
    /// From its first to its last visible character, with the inline tags between them.
    pub(super) range: Range<usize>,
    /// The level when it is a heading.
    pub(super) heading: Option<u8>,
    /// Where the link begins in which its first character stands; else where that stands.
    pub(super) from: usize,
}

/// The texts of `html`, in order. Comments, scripts and styles are left out. Any text is accepted: a `<` that begins no
/// tag is a character like any other.
pub(super) fn texts(html: &str) -> Vec<Text> {
    let mut emitter = DefaultEmitter::new_with_span();
    // A script holds no tags but its own end.
    emitter.naively_switch_states(true);
    let mut reader = Reader::default();
    for Ok(token) in Tokenizer::new_with_emitter(html, emitter) {
        match token {
            Token::StartTag(tag) if reader.hidden.is_none() => {
                let leads = tag.attributes.contains_key(b"href".as_slice());
                reader.start(&tag.name, leads, tag.span.start);
            }
            Token::EndTag(tag) => reader.end(&tag.name),
            Token::String(text) if reader.hidden.is_none() => {
                reader.text(html, text.span.start..text.span.end)
            }
            Token::Comment(_) | Token::Doctype(_) if reader.hidden.is_none() => reader.flush(),
            _ => {}
        }
    }
    reader.flush();
    reader.texts
}

#[derive(Default)]
struct Reader {
    texts: Vec<Text>,
    /// The text that goes on, and where its link begins.
    open: Option<(Range<usize>, usize)>,
    /// The level of the heading that is open.
    heading: Option<u8>,
    /// Where the link begins that is open.
    link: Option<usize>,
    /// The element that is open and that nobody reads.
    hidden: Option<&'static str>,
}

impl Reader {
    /// A tag begins at `at`; it `leads` on if it has an address.
    fn start(&mut self, name: &[u8], leads: bool, at: usize) {
        if name == b"a" {
            self.link = leads.then_some(at);
        }
        if !is_inline(name) {
            self.flush();
            self.heading = heading(name);
            self.hidden = HIDDEN.iter().copied().find(|hidden| hidden.as_bytes() == name);
        }
    }

    fn end(&mut self, name: &[u8]) {
        match self.hidden {
            Some(hidden) if hidden.as_bytes() != name => {}
            Some(_) => self.hidden = None,
            None if name == b"a" => self.link = None,
            None if is_inline(name) => {}
            None => {
                self.flush();
                self.heading = None;
            }
        }
    }

    /// The text at `range` goes on with the one at hand.
    fn text(&mut self, html: &str, range: Range<usize>) {
        let text = html.get(range.clone()).unwrap_or_default();
        if text.trim().is_empty() {
            return;
        }
        let start = range.start + text.len() - text.trim_start().len();
        let end = range.start + text.trim_end().len();
        let (open, _) = self.open.get_or_insert((start..end, self.link.unwrap_or(start)));
        open.end = end;
    }

    /// Ends the text at hand.
    fn flush(&mut self) {
        let heading = self.heading;
        self.texts.extend(self.open.take().map(|(range, from)| Text { range, heading, from }));
        // So that no text is looked at twice.
        self.link = None;
    }
}

fn is_inline(name: &[u8]) -> bool {
    INLINE.iter().any(|inline| inline.as_bytes() == name)
}

/// The level of the heading that a tag begins.
fn heading(name: &[u8]) -> Option<u8> {
    match name {
        [b'h', level @ b'1'..=b'6'] => Some(level - b'0'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(html: &str) -> Vec<&str> {
        texts(html).into_iter().map(|text| &html[text.range]).collect()
    }

    #[test]
    fn texts_stand_between_block_tags() {
        assert_eq!(read("<p>a <b>b</b> c</p><td>d</td>"), ["a <b>b</b> c", "d"]);
        assert_eq!(read("<SCRIPT>x < y</Script>z<!-- no > --> w"), ["z", "w"]);
        assert_eq!(read("1 < 2 and <3> é<br/>ü"), ["1 < 2 and <3> é", "ü"]);
        assert_eq!(read("<p never closed"), [] as [&str; 0]);
        let headings: Vec<_> = texts("<h2>T</h2>x").into_iter().map(|t| t.heading).collect();
        assert_eq!(headings, [Some(2), None]);
    }

    #[test]
    fn tags_end_where_browsers_end_them() {
        assert_eq!(read("<p title='a > b'>c</p><img alt=\"d>e\">f"), ["c", "f"]);
        assert_eq!(read("<script>if (a) '<p>no</p>'</script><style>x</style>y"), ["y"]);
        assert_eq!(read("<template><p>no</p></template>z"), ["z"]);
        assert_eq!(
            read("caf&eacute; <b>\u{fc}</b>\r\n<br>\u{0}q<!-- - --!>r"),
            ["caf&eacute; <b>\u{fc}", "\u{0}q", "r"]
        );
        let levels: Vec<_> =
            texts("<h3 id='x > y'>T<!-- c -->U</h3>v<h7>w").into_iter().map(|t| t.heading).collect();
        assert_eq!(levels, [Some(3), Some(3), None, None]);
    }
}
