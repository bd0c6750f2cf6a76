//! The text that a reader of Markdown sees.

use std::ops::Range;

use html5gum::emitters::default::DefaultEmitter;
use html5gum::{Token, Tokenizer};
use pulldown_cmark::{BrokenLink, CowStr, Event, Options, Parser, Tag, TagEnd};

/// A line of a paragraph ends.
pub(crate) const LINE: char = '\n';
/// A paragraph or another block begins.
pub(crate) const BLOCK: char = '\u{1}';
/// An item of a list begins.
pub(crate) const ITEM: char = '\u{2}';
/// A cell of a table begins.
pub(crate) const CELL: char = '\u{3}';
/// A row of a table begins.
pub(crate) const ROW: char = '\u{4}';
/// A table begins or ends.
pub(crate) const TABLE: char = '\u{5}';
/// A heading begins.
pub(crate) const SECTION: char = '\u{6}';

/// What a reader sees, in the order of the text.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part<'t> {
    Text(&'t str, Style),
    /// One of the characters above.
    Divider(char),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    /// Nothing in it is a mark.
    Code,
    Raised,
    Lowered,
}

/// Shows each part of `markdown`, which may hold HTML, and the bytes that it comes from. Marks and addresses of links,
/// comments and scripts are no part. A tag that HTML does not know is text.
/// Links may be defined outside of it if they are `linked`.
pub(crate) fn read(markdown: &str, linked: bool, show: impl FnMut(Part<'_>, Range<usize>)) {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_HEADING_ATTRIBUTES
        | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
    let mut reader = Reader { markdown, show, style: Style::Plain, is_hidden: false, quotations: 0 };
    let mut code = 0_usize;
    // A number in brackets is more likely a note.
    let link = |link: BrokenLink<'_>| {
        let is_note = link.reference.chars().all(char::is_numeric);
        (linked && !is_note).then_some((CowStr::Borrowed(""), CowStr::Borrowed("")))
    };
    let parser = Parser::new_with_broken_link_callback(markdown, options, Some(link));
    for (event, range) in parser.into_offset_iter() {
        match event {
            Event::Text(text) if code > 0 => reader.text(&text, range, Style::Code),
            Event::Text(text) => reader.text(&text, range, reader.style),
            Event::Code(text) => reader.code(&text, range),
            Event::InlineHtml(_) => reader.html(range),
            Event::SoftBreak | Event::HardBreak => reader.divide(LINE, range),
            Event::Rule => reader.divide(BLOCK, range),
            Event::Start(tag) => match tag {
                Tag::Heading { .. } => reader.divide(SECTION, range),
                Tag::Table(_) => reader.divide(TABLE, range),
                Tag::TableRow => reader.divide(ROW, range),
                Tag::TableCell => reader.divide(CELL, range),
                Tag::Item => reader.divide(ITEM, range),
                Tag::Emphasis => reader.mark(range.start..range.start + 1),
                Tag::Strong => reader.mark(range.start..range.start + 2),
                Tag::Link { .. } | Tag::Image { .. } | Tag::Strikethrough | Tag::TableHead => {}
                Tag::HtmlBlock => {
                    reader.divide(BLOCK, range.clone());
                    reader.html(range);
                    (reader.style, reader.is_hidden) = (Style::Plain, false);
                }
                _ => {
                    reader.quotations += usize::from(matches!(tag, Tag::BlockQuote(_)));
                    code += usize::from(matches!(tag, Tag::CodeBlock(_) | Tag::MetadataBlock(_)));
                    reader.divide(BLOCK, range);
                }
            },
            Event::End(tag) => match tag {
                TagEnd::Table => reader.divide(TABLE, range.end..range.end),
                TagEnd::Emphasis => reader.mark(range.end - 1..range.end),
                TagEnd::Strong => reader.mark(range.end - 2..range.end),
                TagEnd::BlockQuote(_) => reader.quotations -= 1,
                TagEnd::CodeBlock | TagEnd::MetadataBlock(_) => code -= 1,
                TagEnd::Paragraph | TagEnd::Heading(_) | TagEnd::Item | TagEnd::TableCell => {
                    (reader.style, reader.is_hidden) = (Style::Plain, false);
                }
                _ => {}
            },
            _ => {}
        }
    }
}

struct Reader<'a, F> {
    markdown: &'a str,
    show: F,
    style: Style,
    is_hidden: bool,
    /// How many quotations are open. Their marks stand in HTML, too.
    quotations: usize,
}

impl<F: FnMut(Part<'_>, Range<usize>)> Reader<'_, F> {
    fn text(&mut self, text: &str, range: Range<usize>, style: Style) {
        if !self.is_hidden {
            (self.show)(Part::Text(text, style), range);
        }
    }

    fn divide(&mut self, by: char, range: Range<usize>) {
        (self.show)(Part::Divider(by), range);
    }

    /// A mark of emphasis between two digits is more likely a sign of multiplication.
    fn mark(&mut self, range: Range<usize>) {
        let (before, after) = (&self.markdown[..range.start], &self.markdown[range.end..]);
        if before.ends_with(char::is_numeric) && after.starts_with(char::is_numeric) {
            self.text(&self.markdown[range.clone()], range, Style::Plain);
        }
    }

    /// Code within a line, without the marks around it.
    fn code(&mut self, text: &str, range: Range<usize>) {
        let range = match self.markdown[range.clone()].find(text) {
            Some(at) => range.start + at..range.start + at + text.len(),
            None => range,
        };
        self.text(text, range, Style::Code);
    }

    fn html(&mut self, range: Range<usize>) {
        let emitter = DefaultEmitter::<usize>::new_with_span();
        for Ok(token) in Tokenizer::new_with_emitter(&self.markdown[range.clone()], emitter) {
            let place = |span: html5gum::Span<usize>| range.start + span.start..range.start + span.end;
            match token {
                Token::String(text) => self.characters(place(text.span)),
                Token::StartTag(tag) => self.tag(&String::from_utf8_lossy(&tag.name), true, place(tag.span)),
                Token::EndTag(tag) => self.tag(&String::from_utf8_lossy(&tag.name), false, place(tag.span)),
                _ => {}
            }
        }
    }

    /// Text of HTML, in which entities stand for characters.
    fn characters(&mut self, range: Range<usize>) {
        /// Entities have shorter names.
        const NAME: usize = 40;
        let mut at = range.start;
        while at < range.end {
            let rest = &self.markdown[at..range.end];
            if !rest.starts_with('&') {
                let end = rest.find('&').unwrap_or(rest.len());
                for line in rest[..end].split_inclusive('\n') {
                    let begins = self.quotations > 0 && self.markdown[..at].ends_with('\n');
                    let text = if begins { line.trim_start_matches(['>', ' ']) } else { line };
                    self.text(text, at + line.len() - text.len()..at + line.len(), self.style);
                    at += line.len();
                }
                continue;
            }
            let end = 1 + rest.bytes().take(NAME).position(|b| b == b';').unwrap_or_default();
            let mut decoded = String::new();
            for Ok(token) in Tokenizer::new(&rest[..end]) {
                if let Token::String(text) = token {
                    decoded.push_str(&String::from_utf8_lossy(&text));
                }
            }
            self.text(&decoded, at..at + end, self.style);
            at += end;
        }
    }

    fn tag(&mut self, name: &str, opens: bool, range: Range<usize>) {
        /// What is raised behind a number and does not change it.
        const ORDINALS: [&str; 6] = ["st<", "nd<", "rd<", "th<", "er<", "TM<"];
        let rest = &self.markdown[range.end..];
        match name {
            "sup" if opens && !ORDINALS.iter().any(|end| rest.starts_with(end)) => self.style = Style::Raised,
            "sub" if opens => self.style = Style::Lowered,
            "sup" | "sub" => self.style = Style::Plain,
            "script" | "style" => self.is_hidden = opens,
            "br" => self.divide(LINE, range),
            "td" | "th" if opens => self.divide(CELL, range),
            "tr" if opens => self.divide(ROW, range),
            "table" => self.divide(TABLE, range),
            "li" if opens => self.divide(ITEM, range),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" if opens => self.divide(SECTION, range),
            _ if INLINE.contains(&name) => {}
            _ if BLOCKS.contains(&name) => self.divide(BLOCK, range),
            _ => self.text(&self.markdown[range.clone()], range, Style::Code),
        }
    }
}

/// Tags of HTML that divide no text.
#[rustfmt::skip]
const INLINE: &[&str] = &[
    "a", "abbr", "b", "big", "cite", "code", "del", "dfn", "em", "font", "i", "img", "input", "ins", "kbd", "label", "li",
    "mark", "q", "s", "samp", "small", "span", "strike", "strong", "td", "th", "tr", "tt", "u", "var", "wbr",
];

/// Tags that do.
#[rustfmt::skip]
const BLOCKS: &[&str] = &[
    "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "div", "dl", "dt",
    "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hr", "html", "main",
    "nav", "ol", "p", "pre", "section", "summary", "tbody", "tfoot", "thead", "title", "ul",
];
