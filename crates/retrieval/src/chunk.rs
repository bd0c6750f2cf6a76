//! Dividing a document into pieces.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use tree_agent_contract::limits::TITLE_BYTES;
use tree_agent_contract::text::{one_line, prefix};

use crate::cut::{SHORT_BYTES, cut, sentences, trimmed};
use crate::format::{Format, file};
use crate::{code, json, lines};

/// A block that is longer is cut.
pub(crate) const LONG_BYTES: usize = 1_200;
/// The bytes of a piece at the most.
pub const PIECE_BYTES: usize = LONG_BYTES + SHORT_BYTES;
/// Pieces of one document: each is stored and searched.
pub const PIECES: usize = 4_096;
/// The bytes of a heading at the most.
pub(crate) const HEADING_BYTES: usize = 200;
/// The bytes of the head of a table at the most.
const HEAD_BYTES: usize = 1_024;
/// The beginning of a document in which its title is looked for.
const TITLE_WITHIN: usize = 64 * 1024;

/// A part of a document that can be read alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it stands in the body.
    pub range: Range<usize>,
    /// The headings above it, the outermost first, as plain text. The last one is what it belongs to, if that stands
    /// in another piece: the sentence that leads to a list, a table or code, or the label of an item. Of a file of
    /// code it is the names that the piece defines, of JSON its path.
    pub headings: Vec<String>,
    /// The head of the table whose rows it holds, if that stands in another piece; else empty.
    pub head: Range<usize>,
    /// What most of it is.
    pub kind: Kind,
}

/// What a piece is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Prose, also front matter.
    #[default]
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

/// Divides `body` into at most about [`PIECES`] of at most [`PIECE_BYTES`], in their order and without overlap:
/// paragraphs below their headings, short ones together, long ones cut. A list, a table or code stays with the sentence
/// that leads to it. What no reader sees is in no piece, such as a comment or the addresses of links that stand apart.
pub fn chunk(path: &str, body: &str) -> Vec<Piece> {
    let mut pieces = Pieces::new(body);
    let format = pieces.read(path);
    pieces.flush();
    pieces.keep_bare();
    if format == Format::Code {
        code::name(body, &mut pieces.pieces);
    }
    together(pieces.pieces, body.len())
}

/// As many pieces as a document may have: short neighbours become one, below the headings of the first.
fn together(pieces: Vec<Piece>, bytes: usize) -> Vec<Piece> {
    if pieces.len() <= PIECES {
        return pieces;
    }
    // Two neighbours are longer than this when they stay apart.
    let least = 2 * bytes.div_ceil(PIECES);
    let mut fewer: Vec<Piece> = Vec::with_capacity(PIECES);
    for piece in pieces {
        match fewer.last_mut().filter(|last| piece.range.end - last.range.start <= least) {
            Some(last) => {
                last.range.end = piece.range.end;
                last.kind = if last.kind == piece.kind { last.kind } else { Kind::Text };
            }
            None => fewer.push(piece),
        }
    }
    fewer
}

/// The title of a document that was given none: its first heading, else the name of its file. Only at its beginning a
/// line of plain text may be its title.
pub fn default_title(path: &str, body: &str) -> String {
    let body = prefix(body, TITLE_WITHIN);
    let mut pieces = Pieces::new(body);
    let is_plain = pieces.read(path) == Format::Plain;
    let is_first = |title: &String| {
        !is_plain || body.trim_start_matches(|c: char| !c.is_alphanumeric()).starts_with(title)
    };
    let title = pieces.title.filter(is_first);
    let title = title.unwrap_or_else(|| path.rsplit('/').next().unwrap_or_default().to_owned());
    prefix(&title, TITLE_BYTES).to_owned()
}

/// A block of a document: a paragraph, a list, code.
#[derive(Default)]
pub(crate) struct Block {
    pub(crate) range: Range<usize>,
    pub(crate) kind: Kind,
    /// Where it can be cut best, in order, and how deep that is within the block.
    pub(crate) breaks: Vec<(usize, usize)>,
    /// The labels of its items.
    pub(crate) labels: Vec<Range<usize>>,
    /// The head of a table.
    pub(crate) head: Option<Range<usize>>,
}

/// Blocks that become one piece, or several if they are too long.
struct Unit {
    block: Block,
    /// The longest block of it, which says what it is.
    longest: usize,
    /// The sentence that leads to its last block.
    lead: Option<Range<usize>>,
}

pub(crate) struct Pieces<'a> {
    pub(crate) body: &'a str,
    pub(crate) pieces: Vec<Piece>,
    /// The first heading.
    title: Option<String>,
    headings: Vec<(usize, String)>,
    unit: Option<Unit>,
    /// The last heading, as long as nothing is below it.
    bare: Option<Range<usize>>,
}

impl<'a> Pieces<'a> {
    fn new(body: &'a str) -> Self {
        Self { body, pieces: Vec::new(), title: None, headings: Vec::new(), unit: None, bare: None }
    }

    /// Reads the body of the document at `path`.
    fn read(&mut self, path: &str) -> Format {
        let format = Format::of(path, self.body);
        match format {
            Format::Markdown => markdown(self),
            Format::Code if file(path).ends_with(".json") => json::read(self),
            Format::Code => paragraphs(self, 0),
            _ => lines::read(self, format),
        }
        format
    }

    pub(crate) fn add(&mut self, block: Block) {
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
        let leads = self.body[before.clone()].ends_with(':') && block.kind != Kind::Text;
        let lead = leads.then(|| unit.block.breaks.last().map_or(before.start, |last| last.0)..before.end);
        let joined = block.range.end - before.start;
        let is_short = before.len() < SHORT_BYTES;
        let joins = match block.kind {
            Kind::Code if unit.block.kind == Kind::Code => {
                is_short || joined <= LONG_BYTES && continues(self.body, block.range.start)
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
        unit.block.breaks.push((block.range.start, 0));
        unit.block.breaks.extend(block.breaks);
        // What came before is too short to be cut.
        (unit.block.labels, unit.block.head) = (block.labels, block.head);
    }

    fn flush(&mut self) {
        let Some(Unit { block, lead, .. }) = self.unit.take() else { return };
        let above: Vec<String> = self.headings.iter().map(|(_, text)| text.clone()).collect();
        let lines = matches!(block.kind, Kind::Code | Kind::Table);
        let max = match block.range.len() {
            ..=PIECE_BYTES => PIECE_BYTES,
            _ => LONG_BYTES,
        };
        let lead = lead.map(|lead| (lead.end, heading(last_sentence(&self.body[lead]))));
        for range in cut(self.body, block.range, &block.breaks, lines, max) {
            let range = trimmed(self.body, range);
            if range.is_empty() {
                continue;
            }
            let start = range.start;
            let mut headings = above.clone();
            if let Some((end, lead)) = &lead
                && start >= *end
            {
                headings.push(lead.clone());
            }
            let label = block.labels[..block.labels.partition_point(|label| label.start <= start)].last();
            if let Some(label) = label.filter(|label| label.end <= start) {
                headings.push(heading(&self.body[label.clone()]));
            }
            let head = block.head.clone().filter(|head| head.end <= start).unwrap_or_default();
            let head = match &self.body[head.clone()] {
                text if text.len() <= HEAD_BYTES => head,
                text => head.start..head.start + prefix(text, HEAD_BYTES).rfind('|').unwrap_or(0),
            };
            self.pieces.push(Piece { range, headings, head, kind: block.kind });
        }
    }

    /// A heading opens a section.
    pub(crate) fn head(&mut self, level: usize, text: &str, range: Range<usize>) {
        if self.title.is_none() && !text.trim().is_empty() {
            self.title = Some(one_line(text));
        }
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
            let block = Block { range: trimmed(self.body, range), ..Block::default() };
            self.unit = Some(Unit { longest: 0, block, lead: None });
            self.flush();
        }
    }
}

/// Whether code goes on after a blank line: it is indented, or closes what was opened.
pub(crate) fn continues(body: &str, at: usize) -> bool {
    body[..at].ends_with([' ', '\t']) || body[at..].starts_with(['}', ')', ']'])
}

fn last_sentence(text: &str) -> &str {
    &text[sentences(text).last().unwrap_or(0)..]
}

pub(crate) fn heading(text: &str) -> String {
    let line = one_line(text);
    prefix(&line, HEADING_BYTES).to_owned()
}

/// The blocks of Markdown, which may hold HTML.
fn markdown(pieces: &mut Pieces<'_>) {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS
        | Options::ENABLE_HEADING_ATTRIBUTES;
    let mut depth: usize = 0;
    let mut block: Option<Block> = None;
    let mut title: Option<String> = None;
    for (event, range) in Parser::new_ext(pieces.body, options).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                match (&mut block, depth) {
                    (_, 0) if matches!(tag, Tag::Heading { .. }) => title = Some(String::new()),
                    // A comment is not text; it may say that a page ends.
                    (_, 0) if is_comment(&pieces.body[range.clone()]) => pieces.flush(),
                    (_, 0) => block = Some(Block { range, kind: kind_of(&tag), ..Block::default() }),
                    (Some(block), _) if is_break(&tag) => {
                        // The rule below the head belongs to it.
                        if tag == Tag::TableRow && block.head.is_none() {
                            block.head = Some(block.range.start..range.start);
                        }
                        block.breaks.push((range.start, depth - 1));
                    }
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
                    pieces.head(level as usize, &text, range);
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

/// The parts of code between blank lines, from byte `start` on.
pub(crate) fn paragraphs(pieces: &mut Pieces<'_>, mut start: usize) {
    let (body, mut at) = (pieces.body, start);
    let mut add = |range| pieces.add(Block { range, kind: Kind::Code, ..Block::default() });
    for line in body[start..].split_inclusive('\n') {
        if line.trim().is_empty() {
            add(start..at);
            start = at + line.len();
        }
        at += line.len();
    }
    add(start..at);
}
