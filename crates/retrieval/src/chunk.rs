//! Dividing a document into pieces.

use std::ops::Range;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use tree_agent_contract::code::is_code;
use tree_agent_contract::text::{one_line, prefix};
use unicode_segmentation::UnicodeSegmentation;

use crate::cut::{cut, trimmed};

/// A piece that is shorter joins the next one below the same heading.
const SHORT_BYTES: usize = 200;
/// A block that is longer is cut.
const LONG_BYTES: usize = 1_200;
/// The bytes of a piece at the most.
pub const PIECE_BYTES: usize = LONG_BYTES + SHORT_BYTES;
/// The bytes of a heading at the most.
const HEADING_BYTES: usize = 200;

/// A part of a document that can be read alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it stands in the body.
    pub range: Range<usize>,
    /// The headings above it, the outermost first, as plain text. A piece of a list, a table or code that was cut has
    /// the sentence that leads to it as the last one.
    pub headings: Vec<String>,
    /// What most of it is.
    pub kind: Kind,
}

/// What a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Prose, also front matter.
    Text,
    /// Items of a list.
    List,
    /// Rows of a table.
    Table,
    /// Code, also a whole file of it.
    Code,
    /// A quotation.
    Quote,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Text, Self::List, Self::Table, Self::Code, Self::Quote];

    /// The kind that is stored as `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Its name in a store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::List => "list",
            Self::Table => "table",
            Self::Code => "code",
            Self::Quote => "quote",
        }
    }
}

/// How a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Markdown,
    Plain,
    Code,
}

impl Format {
    /// By the ending of `path`. Texts of other documents were converted to Markdown when they were imported.
    pub fn of(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or_default();
        let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
        match ending.as_deref().unwrap_or_default() {
            "txt" | "text" | "log" => Self::Plain,
            "xml" => Self::Code,
            _ if is_code(name) => Self::Code,
            _ => Self::Markdown,
        }
    }
}

/// Divides `body` into pieces of at most [`PIECE_BYTES`], in their order and without overlap: paragraphs below their
/// headings, short ones together, long ones cut. A list, a table or code stays with the sentence that leads to it.
/// What no reader sees is in no piece, such as a comment or the addresses of links that stand apart.
pub fn chunk(path: &str, body: &str) -> Vec<Piece> {
    let mut pieces = Pieces { body, pieces: Vec::new(), headings: Vec::new(), unit: None, bare: None };
    match Format::of(path) {
        Format::Markdown => markdown(&mut pieces),
        Format::Plain => paragraphs(&mut pieces, Kind::Text),
        Format::Code => paragraphs(&mut pieces, Kind::Code),
    }
    pieces.flush();
    pieces.keep_bare();
    pieces.pieces
}

/// A block of a document: a paragraph, a list, code.
struct Block {
    range: Range<usize>,
    kind: Kind,
    /// Where it can be cut best, in order.
    breaks: Vec<usize>,
}

/// Blocks that become one piece, or several if they are too long.
struct Unit {
    block: Block,
    /// The longest block of it, which says what it is.
    longest: usize,
    /// The sentence that leads to its last block.
    lead: Option<Range<usize>>,
}

struct Pieces<'a> {
    body: &'a str,
    pieces: Vec<Piece>,
    headings: Vec<(HeadingLevel, String)>,
    unit: Option<Unit>,
    /// The last heading, as long as nothing is below it.
    bare: Option<Range<usize>>,
}

impl Pieces<'_> {
    fn add(&mut self, block: Block) {
        let range = trimmed(self.body, block.range);
        if range.is_empty() {
            return;
        }
        self.bare = None;
        let block = Block { range, ..block };
        let Some(unit) = &mut self.unit else {
            self.unit = Some(Unit { longest: block.range.len(), block, lead: None });
            return;
        };
        let before = unit.block.range.clone();
        let leads = self.body[before.clone()].ends_with(':') && block.kind.is_led();
        let lead = leads.then(|| unit.block.breaks.last().copied().unwrap_or(before.start)..before.end);
        let joined = block.range.end - before.start;
        let is_short = before.len() < SHORT_BYTES;
        let joins = match block.kind {
            Kind::Code if unit.block.kind == Kind::Code => {
                is_short || joined <= LONG_BYTES && continues(self.body, &block)
            }
            _ => is_short || leads && joined <= LONG_BYTES,
        };
        if !joins {
            self.flush();
            self.unit = Some(Unit { longest: block.range.len(), block, lead });
            return;
        }
        let len = block.range.len();
        if len > unit.longest || leads {
            unit.block.kind = block.kind;
            unit.longest = len;
        }
        unit.lead = lead.or(unit.lead.take());
        unit.block.range.end = block.range.end;
        unit.block.breaks.push(block.range.start);
        unit.block.breaks.extend(block.breaks);
    }

    fn flush(&mut self) {
        let Some(Unit { block, lead, .. }) = self.unit.take() else { return };
        let headings: Vec<String> = self.headings.iter().map(|(_, text)| text.clone()).collect();
        let lines = block.kind != Kind::Text && block.kind != Kind::Quote;
        let max = match block.range.len() {
            ..=PIECE_BYTES => PIECE_BYTES,
            _ => LONG_BYTES,
        };
        for range in cut(self.body, block.range, &block.breaks, lines, max) {
            let range = trimmed(self.body, range);
            if range.is_empty() {
                continue;
            }
            let mut headings = headings.clone();
            if let Some(lead) = lead.clone().filter(|lead| range.start >= lead.end) {
                headings.push(heading(last_sentence(&self.body[lead])));
            }
            self.pieces.push(Piece { range, headings, kind: block.kind });
        }
    }

    /// A heading opens a section.
    fn head(&mut self, level: HeadingLevel, text: &str, range: Range<usize>) {
        self.flush();
        if self.headings.last().is_some_and(|(above, _)| *above >= level) {
            self.keep_bare();
        }
        self.bare = Some(range);
        self.headings.retain(|(above, _)| *above < level);
        self.headings.push((level, heading(text)));
    }

    /// Makes a piece of a heading with nothing below it.
    fn keep_bare(&mut self) {
        if let Some(range) = self.bare.take() {
            let block = Block { range: trimmed(self.body, range), kind: Kind::Text, breaks: Vec::new() };
            self.unit = Some(Unit { longest: 0, block, lead: None });
            self.flush();
        }
    }
}

impl Kind {
    /// Whether a sentence before it may lead to it.
    const fn is_led(self) -> bool {
        matches!(self, Self::List | Self::Table | Self::Code | Self::Quote)
    }
}

/// Whether code goes on after a blank line: it is indented, or closes what was opened.
fn continues(body: &str, block: &Block) -> bool {
    let start = body[..block.range.start].rfind('\n').map_or(0, |at| at + 1);
    body[start..].starts_with([' ', '\t', '}', ')', ']'])
}

fn last_sentence(text: &str) -> &str {
    text.unicode_sentences().last().unwrap_or(text)
}

fn heading(text: &str) -> String {
    let line = one_line(text);
    prefix(&line, HEADING_BYTES).to_owned()
}

/// The blocks of Markdown, which may hold HTML.
fn markdown(pieces: &mut Pieces<'_>) {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS
        | Options::ENABLE_HEADING_ATTRIBUTES;
    let mut depth = 0;
    let mut block: Option<Block> = None;
    let mut title: Option<String> = None;
    for (event, range) in Parser::new_ext(pieces.body, options).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                match (&mut block, depth) {
                    (_, 0) if matches!(tag, Tag::Heading { .. }) => title = Some(String::new()),
                    // A comment is not text; it may say that a page ends.
                    (_, 0) if is_comment(&pieces.body[range.clone()]) => pieces.flush(),
                    (_, 0) => block = Some(Block { range, kind: kind_of(&tag), breaks: Vec::new() }),
                    (Some(block), _) if is_break(&tag) => block.breaks.push(range.start),
                    _ => {}
                }
                depth += 1;
            }
            Event::End(tag) => {
                depth -= 1;
                if depth > 0 {
                    continue;
                }
                let apart = matches!(tag, TagEnd::MetadataBlock(_));
                if let (TagEnd::Heading(level), Some(text)) = (tag, title.take()) {
                    pieces.head(level, &text, range);
                }
                if let Some(block) = block.take() {
                    pieces.add(block);
                }
                if apart {
                    pieces.flush();
                }
            }
            Event::Text(text) | Event::Code(text) => {
                if let Some(title) = &mut title {
                    title.push_str(&text);
                }
            }
            Event::SoftBreak | Event::HardBreak => {
                if let Some(title) = &mut title {
                    title.push(' ');
                }
            }
            _ => {}
        }
    }
}

fn is_comment(block: &str) -> bool {
    block.starts_with("<!--") && block.trim_end().ends_with("-->")
}

const fn kind_of(tag: &Tag<'_>) -> Kind {
    match tag {
        Tag::List(_) => Kind::List,
        Tag::Table(_) => Kind::Table,
        Tag::CodeBlock(_) => Kind::Code,
        Tag::BlockQuote(_) => Kind::Quote,
        _ => Kind::Text,
    }
}

const fn is_break(tag: &Tag<'_>) -> bool {
    matches!(
        tag,
        Tag::Item | Tag::Paragraph | Tag::TableRow | Tag::CodeBlock(_) | Tag::List(_) | Tag::Table(_)
    )
}

/// The parts of a text between blank lines.
fn paragraphs(pieces: &mut Pieces<'_>, kind: Kind) {
    let (mut start, mut at) = (0, 0);
    for line in pieces.body.split_inclusive('\n') {
        if line.trim().is_empty() {
            pieces.add(Block { range: start..at, kind, breaks: Vec::new() });
            start = at + line.len();
        }
        at += line.len();
    }
    pieces.add(Block { range: start..at, kind, breaks: Vec::new() });
}
