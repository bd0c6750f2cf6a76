//! Office documents, as a library reads them, as Markdown.
//!
//! The library's own Markdown leaves cells that others span empty, escapes what need not be, and marks bold and italic
//! letters within words and sentences, where quotes would not be found.

use anydoc::model::{Block, CellSlot, Document, Inline, LinkTarget, List, MarkerKind, Table, checkbox_text};

use crate::table::{Cell, Row, cell_text, markdown, sheet};

/// The document as Markdown, its notes at the end. Tables of sheets are read as people draw them.
pub(crate) fn document(document: &Document, is_sheet: bool) -> String {
    let writer = Writer { document, is_sheet };
    let notes = document
        .notes
        .iter()
        .zip(1..)
        .map(|(note, number)| format!("Note {number}: {}", writer.blocks(&note.blocks)));
    let mut parts = vec![writer.blocks(&document.blocks)];
    parts.extend(notes.filter(|note| !note.ends_with(": ")));
    parts.join("\n\n")
}

struct Writer<'a> {
    document: &'a Document,
    is_sheet: bool,
}

impl Writer<'_> {
    fn blocks(&self, blocks: &[Block]) -> String {
        let parts = blocks.iter().map(|block| self.block(block)).filter(|part| !part.trim().is_empty());
        parts.collect::<Vec<_>>().join("\n\n")
    }

    fn block(&self, block: &Block) -> String {
        match block {
            Block::Heading { level, content, .. } => {
                let text = self.inlines(content).split_whitespace().collect::<Vec<_>>().join(" ");
                if text.is_empty() {
                    text
                } else {
                    format!("{} {text}", "#".repeat(usize::from(*level).clamp(1, 6)))
                }
            }
            Block::Paragraph(inlines) => {
                let text = self.inlines(inlines);
                text.lines().map(|line| escaped(line.trim())).collect::<Vec<_>>().join("\n").trim().to_owned()
            }
            Block::List(list) => self.list(list),
            Block::Table(table) => self.table(table),
            Block::BlockQuote(blocks) => prefixed(&self.blocks(blocks), "> ", "> "),
            Block::CodeBlock { lang, text } => {
                let lang = lang.as_deref().unwrap_or_default();
                format!("```{lang}\n{}\n```", text.replace("```", "'''").trim_end_matches('\n'))
            }
            Block::Rule => "---".to_owned(),
            Block::Math(tex) => format!("$$\n{}\n$$", tex.trim()),
        }
    }

    fn list(&self, list: &List) -> String {
        let items = list.items.iter().zip(list.start..).map(|(item, number)| {
            let marker = match &item.marker_label {
                Some(label) => format!("- {label} "),
                None if list.marker == MarkerKind::Decimal => format!("{number}. "),
                None if list.ordered() => format!("- {} ", list.marker.label(number)),
                None => "- ".to_owned(),
            };
            prefixed(&self.blocks(&item.blocks), &marker, &" ".repeat(marker.chars().count().min(4)))
        });
        items.collect::<Vec<_>>().join("\n")
    }

    fn table(&self, table: &Table) -> String {
        if table.is_single_cell()
            && let CellSlot::Origin(cell) = &table.grid[0][0]
        {
            return self.blocks(&cell.blocks);
        }
        let mut rows: Vec<Row> = Vec::with_capacity(table.grid.len());
        for (at, slots) in table.grid.iter().enumerate() {
            let mut row: Row = Vec::with_capacity(slots.len());
            for (column, slot) in slots.iter().enumerate() {
                row.push(match slot {
                    CellSlot::Origin(cell) => Cell::new(self.cell(&cell.blocks)),
                    CellSlot::Covered { origin_row, origin_col } => {
                        let origin = if *origin_row == at {
                            row.get(*origin_col)
                        } else {
                            rows[*origin_row].get(*origin_col)
                        };
                        let again = origin.map(|cell| cell.again(column - origin_col, at - origin_row));
                        again.unwrap_or_default()
                    }
                });
            }
            rows.push(row);
        }
        match table.header_rows {
            0 => sheet(&rows),
            _ if self.is_sheet => sheet(&rows),
            heads => markdown(&rows, heads),
        }
    }

    /// The text of a cell on one line. A table in it is its rows.
    fn cell(&self, blocks: &[Block]) -> String {
        let row = |slots: &Vec<CellSlot>| {
            let cells = slots.iter().filter_map(|slot| match slot {
                CellSlot::Origin(cell) => Some(self.cell(&cell.blocks)),
                CellSlot::Covered { .. } => None,
            });
            cells.filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join(" / ")
        };
        let lines = blocks.iter().flat_map(|block| match block {
            Block::Table(table) => table.grid.iter().map(row).collect(),
            block => vec![cell_text(&self.block(block))],
        });
        lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("<br>")
    }

    fn inlines(&self, inlines: &[Inline]) -> String {
        let mut text = String::new();
        for inline in inlines {
            match inline {
                Inline::Text { text: words, style } if style.strike && !words.trim().is_empty() => {
                    text.push_str(&format!("~~{}~~", words.trim()));
                    text.push_str(if words.ends_with(' ') { " " } else { "" });
                }
                Inline::Text { text: words, .. } => text.push_str(words),
                Inline::Link { content, target: LinkTarget::External(to) } => {
                    let words = self.inlines(content);
                    text.push_str(&if words.trim() == to { words } else { link(&words, to) });
                }
                Inline::Link { content, .. } => {
                    let words = self.inlines(content);
                    let is_note = words.trim().parse::<u32>().is_ok();
                    text.push_str(&if is_note { format!("[{}]", words.trim()) } else { words });
                }
                Inline::Image { alt, .. } if !alt.trim().is_empty() => {
                    text.push_str(&format!("[picture: {}]", alt.trim()));
                }
                Inline::Image { .. } | Inline::Anchor(_) => {}
                Inline::NoteRef(id) => {
                    let at = self.document.notes.iter().position(|note| note.id == *id);
                    text.push_str(&at.map(|at| format!(" [note {}]", at + 1)).unwrap_or_default());
                }
                Inline::LineBreak => text.push('\n'),
                Inline::Math(tex) => text.push_str(&format!("${}$", tex.trim())),
                Inline::Checkbox(is_checked) => text.push_str(checkbox_text(*is_checked)),
            }
        }
        text
    }
}

/// A link. Brackets in its address would end it.
fn link(words: &str, to: &str) -> String {
    if to.contains(['(', ')', ' ']) { format!("[{words}](<{to}>)") } else { format!("[{words}]({to})") }
}

/// `text` with `first` before its first line and `other` before the others.
fn prefixed(text: &str, first: &str, other: &str) -> String {
    let mut written = String::new();
    for (at, line) in text.lines().enumerate() {
        let before = if at == 0 { first } else { other };
        written.push_str(format!("{before}{line}").trim_end());
        written.push('\n');
    }
    written.trim_end().to_owned()
}

/// A line of text that would be a heading, a fence or a mark of ours, with a backslash before it.
pub(crate) fn escaped(line: &str) -> String {
    let is_heading = line.trim_start_matches('#').starts_with(' ') && line.starts_with('#');
    let is_syntax = is_heading || ["```", "~~~", "<!--"].iter().any(|mark| line.starts_with(mark));
    if is_syntax { format!("\\{line}") } else { line.to_owned() }
}
