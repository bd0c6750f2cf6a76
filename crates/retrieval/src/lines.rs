//! The blocks of texts that are written line by line: AsciiDoc, reStructuredText, manual pages and plain text.

use std::ops::Range;

use crate::chunk::{Block, Kind, Pieces};
use crate::format::{Format, manual_name, pattern};

pattern!(BULLET, r"^\s*([-*+•]|\*{2,5}|\.{1,5}|\d+[.)])\s");
pattern!(TITLE, r"^ ?(\S+ )*\S*[^\s:]$");
// AsciiDoc.
pattern!(MARKED, r"^(={1,6}) +(.*\S)$");
pattern!(FENCE, r"^(--|[-.+/=*_]{4,}|\|===|```.*)$");
pattern!(UNSEEN, r"^(\+|//.*|\[.*\]|:[\w-]+!?:.*|(ifn?def|ifeval|endif|include)::.*)$");
pattern!(LABEL, r"^\s*(\S.*?)(::|;;)(\s|$)");
// reStructuredText.
pattern!(CODE, r"^\s*\.\. (code|code-block|sourcecode|parsed-literal|math)::");
pattern!(COMMENT, r"^\s*\.\. [^\[\s]([^:]|:[^:])*:?$");
// Manual pages and plain text.
pattern!(SECTION, r"^[^\p{Ll}\s][^\p{Ll}]*\p{Lu}[^\p{Ll}]*$");
pattern!(BELOW, r"^ {3}\S.*[^.]$");
pattern!(NUMBERED, r"^(\d+(\.\d+)*)\.?\s+\p{Lu}.{0,90}[^\s.,;:!?]$");

/// Adds the blocks of a text.
pub(crate) fn read(pieces: &mut Pieces<'_>, format: Format) {
    let mut at = 0;
    let lines = pieces.body.split_inclusive('\n').map(|line| {
        at += line.len();
        (at - line.len(), line.trim_end())
    });
    Reader { format, lines: lines.collect(), list: None, marks: Vec::new() }.read(pieces);
}

struct Reader<'a> {
    format: Format,
    /// Where each line begins, and its text without white space at its end.
    lines: Vec<(usize, &'a str)>,
    /// A list that goes on, and how far it is indented.
    list: Option<(Block, usize)>,
    /// The marks of headings in the order in which they came, which is that of their levels.
    marks: Vec<(char, usize)>,
}

impl<'a> Reader<'a> {
    fn line(&self, i: usize) -> &'a str {
        self.lines.get(i).map_or("", |line| line.1)
    }

    fn range(&self, lines: Range<usize>) -> Range<usize> {
        let (last, text) = self.lines[lines.end - 1];
        self.lines[lines.start].0..last + text.len()
    }

    fn read(&mut self, pieces: &mut Pieces<'_>) {
        // A heading stands alone. What is attached belongs to the item above.
        let (mut i, mut is_alone, mut is_attached, mut literal) = (0, true, false, None);
        while i < self.lines.len() {
            let (line, start) = (self.line(i), i);
            if let Some((level, text, used)) = is_alone.then(|| self.heading(i)).flatten() {
                self.close(pieces);
                i += used;
                pieces.head(level, text, self.range(start..i));
            } else if let Some((kind, lines)) = self.enclosed(i, literal) {
                // The mark at the end of AsciiDoc is behind the lines.
                i = lines.end + usize::from(self.format == Format::AsciiDoc && kind != Some(Kind::Text));
                if let Some(kind) = kind.filter(|kind| *kind != Kind::Text && !lines.is_empty()) {
                    self.block(pieces, kind, lines, is_attached);
                }
                (is_alone, is_attached, literal) = (true, false, None);
            } else if self.is_unseen(line) {
                is_attached = line == "+" || is_attached && line.starts_with('[');
                is_alone = true;
                i += 1;
            } else {
                while i == start || i < self.lines.len() && !self.is_unseen(self.line(i)) && !self.is_fence(i)
                {
                    i += 1;
                }
                literal = self.line(i - 1).ends_with("::").then(|| indent(line));
                self.block(pieces, Kind::Text, start..i, is_attached);
                (is_alone, is_attached) = (false, false);
            }
        }
        self.close(pieces);
    }

    /// Ends the list that goes on.
    fn close(&mut self, pieces: &mut Pieces<'_>) {
        if let Some((list, _)) = self.list.take() {
            pieces.add(list);
        }
    }

    /// Adds a paragraph or what is enclosed: to the list above if it belongs there.
    fn block(&mut self, pieces: &mut Pieces<'_>, kind: Kind, lines: Range<usize>, is_attached: bool) {
        let (first, range) = (indent(self.line(lines.start)), self.range(lines.clone()));
        if let Some((mut list, list_indent)) = self.list.take_if(|(_, indent)| is_attached || first > *indent)
        {
            // Marks around it belong to it.
            let marks = usize::from(kind != Kind::Text && self.format == Format::AsciiDoc);
            let range = self.range(lines.start - marks..(lines.end + marks).min(self.lines.len()));
            // What follows a label stays with it: between them are its marks.
            if list.labels.last().is_none_or(|label| label.end + "::".len() < list.range.end) {
                list.breaks.push((range.start, 1));
            }
            let items = lines.filter(|&i| indent(self.line(i)) == first && self.item(i).is_some());
            list.breaks.extend(items.map(|i| (self.lines[i].0, 2)));
            list.range.end = range.end;
            self.list = Some((list, list_indent));
            return;
        }
        let is_item = kind == Kind::Text && self.item(lines.start).is_some();
        if !is_item || self.list.as_ref().is_some_and(|(_, indent)| *indent != first) {
            self.close(pieces);
        }
        if !is_item {
            let is_literal = kind == Kind::Text && first > 0 && self.format == Format::AsciiDoc;
            let kind = if is_literal { Kind::Code } else { kind };
            let rows = lines.clone().filter(|&i| kind == Kind::Table && self.line(i).starts_with('|'));
            let breaks = rows.map(|i| (self.lines[i].0, 0)).collect();
            let has_head = kind == Kind::Table && self.line(lines.start + 1).is_empty();
            let head = has_head.then(|| self.range(lines.start..lines.start + 1));
            return pieces.add(Block { range, kind, breaks, head, ..Block::default() });
        }
        let mut list = self.list.take().map_or_else(Block::default, |(list, _)| list);
        if list.breaks.is_empty() {
            (list.range, list.kind) = (range.clone(), Kind::List);
        }
        list.range.end = range.end;
        let mut is_below_label = false;
        for i in lines {
            let (at, is_inner) = (self.lines[i].0, indent(self.line(i)) > first);
            let item = self.item(i).filter(|label| label.is_empty() || !is_inner);
            // Several labels in a row are those of one item.
            if let Some(label) = item.as_ref().filter(|_| !is_below_label) {
                list.breaks
                    .push((at, usize::from(label.is_empty() && (is_inner || !list.labels.is_empty()))));
            }
            let label = item.filter(|label| !label.is_empty());
            is_below_label = label.is_some();
            list.labels.extend(label);
        }
        self.list = Some((list, first));
    }

    /// The label of the item that begins in line `i`, if one does. It is empty if the item has none.
    fn item(&self, i: usize) -> Option<Range<usize>> {
        let (at, line) = self.lines[i];
        let text = at + line.len() - line.trim_start().len();
        match self.format {
            Format::AsciiDoc if let Some(label) = LABEL.captures(line) => Some(text..text + label[1].len()),
            _ if BULLET.is_match(line) && !line.trim_start().starts_with(".. ") => Some(at..at),
            Format::AsciiDoc => None,
            _ => {
                let is_label =
                    line.trim_start().starts_with(".. ") || indent(self.line(i + 1)) > indent(line);
                is_label.then(|| text..text + line.trim_start().split("  ").next().map_or(0, str::len))
            }
        }
    }

    /// A heading that begins in line `i`: its level, its text, and how many lines it takes.
    fn heading(&mut self, i: usize) -> Option<(usize, &'a str, usize)> {
        let (line, next) = (self.line(i), self.line(i + 1));
        match self.format {
            Format::Manual if manual_name(line).is_some() => Some((0, manual_name(line)?, 1)),
            Format::Manual if SECTION.is_match(line) => Some((1, line, 1)),
            Format::Manual => (BELOW.is_match(line) && indent(next) > 3).then(|| (2, line.trim(), 1)),
            Format::AsciiDoc if let Some(found) = MARKED.captures(line) => {
                Some((found[1].len() - 1, found.get(2)?.as_str(), 1))
            }
            // Either its number has parts, or what follows is indented.
            Format::Plain if next.is_empty() && NUMBERED.is_match(line) => {
                let dots = line.split(' ').next()?.trim_end_matches('.').matches('.').count();
                (dots > 0 || indent(self.line(i + 2)) > 0).then_some((dots, line, 1))
            }
            _ => {
                let has_above =
                    self.format != Format::AsciiDoc && self.rule(i).is_some() && self.line(i + 2) == line;
                let above = usize::from(has_above);
                let (text, mark) = (self.line(i + above), self.rule(i + above + 1)?);
                let (long, len) = (self.line(i + above + 1).len(), text.chars().count());
                let fits = if self.format == Format::Rest {
                    long >= len
                } else {
                    has_above || long.abs_diff(len) <= 1
                };
                let is_text = TITLE.is_match(text) && text.contains(char::is_alphanumeric);
                if !fits || !is_text || !has_above && text.starts_with(' ') {
                    return None;
                }
                let known = self.marks.iter().position(|known| *known == (mark, above));
                if known.is_none() {
                    self.marks.push((mark, above));
                }
                Some((known.unwrap_or(self.marks.len() - 1), text.trim(), above + 2))
            }
        }
    }

    /// The character of which line `i` consists, if it is a mark.
    fn rule(&self, i: usize) -> Option<char> {
        let line = self.line(i);
        let mark = line.chars().next().filter(char::is_ascii_punctuation)?;
        (line.len() > 1 && line.chars().all(|c| c == mark)).then_some(mark)
    }

    /// Whether line `i` begins or ends a part of AsciiDoc with marks around it.
    fn is_fence(&self, i: usize) -> bool {
        self.format == Format::AsciiDoc && FENCE.is_match(self.line(i))
    }

    /// Lines with marks around them that begin in line `i`: a comment, or code or a table; text if only the mark is
    /// passed over. `literal` is how far the paragraph above is indented, if its end says that code follows.
    fn enclosed(&self, i: usize, literal: Option<usize>) -> Option<(Option<Kind>, Range<usize>)> {
        let line = self.line(i);
        let indented = |from: usize, than: usize| {
            let end =
                self.lines[from..].iter().position(|(_, line)| !line.is_empty() && indent(line) <= than);
            from..end.map_or(self.lines.len(), |length| from + length)
        };
        match self.format {
            Format::AsciiDoc if self.is_fence(i) => {
                let end = if line.starts_with("```") { "```" } else { line };
                let length = self.lines[i + 1..].iter().position(|line| line.1 == end);
                match (line.as_bytes()[0], length) {
                    (b'|', Some(length)) => Some((Some(Kind::Table), i + 1..i + 1 + length)),
                    (b'/', Some(length)) => Some((None, i + 1..i + 1 + length)),
                    (b'-' | b'.' | b'+' | b'`', Some(length)) if line != "--" => {
                        Some((Some(Kind::Code), i + 1..i + 1 + length))
                    }
                    _ => Some((Some(Kind::Text), i..i + 1)),
                }
            }
            Format::Rest if CODE.is_match(line) => Some((Some(Kind::Code), indented(i + 1, indent(line)))),
            Format::Rest if COMMENT.is_match(line) => Some((None, indented(i + 1, indent(line)))),
            Format::Rest if !line.is_empty() && literal.is_some_and(|above| indent(line) > above) => {
                Some((Some(Kind::Code), indented(i, literal?)))
            }
            _ => None,
        }
    }

    /// Whether a line has no text of its own.
    fn is_unseen(&self, line: &str) -> bool {
        line.is_empty() || self.format == Format::AsciiDoc && UNSEEN.is_match(line)
    }
}

/// How far a line is indented. A tab counts as eight.
fn indent(line: &str) -> usize {
    line.chars().take_while(|c| c.is_whitespace()).map(|c| if c == '\t' { 8 } else { 1 }).sum()
}
