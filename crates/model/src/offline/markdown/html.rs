//! The text of HTML: what a reader sees between the tags.

use std::ops::Range;

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
    let mut texts = Vec::new();
    let mut heading = None;
    let mut open: Option<Range<usize>> = None;
    let (mut link, mut from) = (None, 0);
    let mut at = 0;
    while at < html.len() {
        let rest = &html[at..];
        let Some(tag) = Tag::at_start_of(rest) else {
            let c = rest.chars().next().map_or(1, char::len_utf8);
            if !rest[..c].trim().is_empty() {
                if open.is_none() {
                    from = link.unwrap_or(at);
                }
                open = Some(open.map_or(at, |text| text.start)..at + c);
            }
            at += c;
            continue;
        };
        if tag.name == "a" {
            let leads = !tag.closes && find_ignoring_case(&rest[..tag.len], "href").is_some();
            link = leads.then_some(at);
        }
        at += tag.len;
        if INLINE.contains(&tag.name.as_str()) {
            continue;
        }
        texts.extend(open.take().map(|range| Text { range, heading, from }));
        // So that no text is looked at twice.
        link = None;
        heading = tag.heading().filter(|_| !tag.closes);
        if HIDDEN.contains(&tag.name.as_str()) && !tag.closes {
            let end = format!("</{}", tag.name);
            at += find_ignoring_case(&html[at..], &end).unwrap_or(html.len() - at);
        }
    }
    texts.extend(open.map(|range| Text { range, heading, from }));
    texts
}

/// A tag, a comment or a declaration; the latter two have no name.
struct Tag {
    name: String,
    closes: bool,
    /// Bytes from `<` to `>`, or to the end of the text.
    len: usize,
}

impl Tag {
    fn at_start_of(text: &str) -> Option<Self> {
        let after = text.strip_prefix('<')?;
        let until = |end: &str| text.find(end).map_or(text.len(), |at| at + end.len());
        let unnamed = |len| Some(Self { name: String::new(), closes: false, len });
        if after.starts_with("!--") {
            return unnamed(until("-->"));
        }
        if after.starts_with(['!', '?']) {
            return unnamed(until(">"));
        }
        let closes = after.starts_with('/');
        let named = after.strip_prefix('/').unwrap_or(after);
        let name: String = named.chars().take_while(char::is_ascii_alphanumeric).collect();
        name.starts_with(|c: char| c.is_ascii_alphabetic()).then(|| Self {
            name: name.to_ascii_lowercase(),
            closes,
            len: until(">"),
        })
    }

    /// The level of a heading tag.
    fn heading(&self) -> Option<u8> {
        let level = self.name.strip_prefix('h')?.parse().ok()?;
        (1..=6).contains(&level).then_some(level)
    }
}

/// Where `needle`, which is in lower case, stands first.
fn find_ignoring_case(text: &str, needle: &str) -> Option<usize> {
    let (text, needle) = (text.as_bytes(), needle.as_bytes());
    text.windows(needle.len()).position(|window| window.eq_ignore_ascii_case(needle))
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
}
