//! Where words go: the answer to stdout, everything else to stderr.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use serde::Serialize;

use crate::error::CliError;
use crate::screen::{print_above, window};
use crate::view::markdown::render;
use crate::view::paint::{Paint, Palette};
use crate::view::printable::{self, many_lines};
use crate::view::table::{Cell, Table};

/// The form of what is printed on stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text and tables for people
    #[value(alias = "human")]
    Table,
    /// One JSON value when the command is done: an array for a list
    Json,
    /// One JSON object a line, as they come
    Jsonl,
}

/// The program's two outputs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    format: Format,
    quiet: bool,
    raw: bool,
    stdout: Stream,
    stderr: Stream,
}

/// What is known of one output.
#[derive(Clone, Copy, Debug)]
struct Stream {
    terminal: bool,
    palette: Palette,
}

impl Stream {
    /// `text` as it may be written there: nothing has colours where we give it none.
    fn shown(self, text: &str) -> String {
        if self.palette.colour { printable::coloured(text) } else { many_lines(text) }
    }
}

impl Output {
    /// Looks at both outputs and the environment.
    pub(crate) fn detect(format: Format, quiet: bool, raw: bool) -> Self {
        let stdout = Stream { terminal: io::stdout().is_terminal(), palette: Palette::of(&io::stdout()) };
        let stderr = Stream { terminal: io::stderr().is_terminal(), palette: Palette::of(&io::stderr()) };
        Self { format, quiet, raw, stdout, stderr }
    }

    /// True for `-o json` and `-o jsonl`.
    pub(crate) fn is_json(&self) -> bool {
        self.format != Format::Table
    }

    /// True for `-o jsonl`.
    pub(crate) fn is_jsonl(&self) -> bool {
        self.format == Format::Jsonl
    }

    /// True for `--quiet`.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// True when a tree can be drawn on stderr: on a terminal that can move its cursor.
    pub(crate) fn can_draw(&self) -> bool {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        self.stderr.terminal && !dumb
    }

    /// True when stdout is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.stdout.terminal
    }

    /// The width of stdout; without limit unless it is a terminal.
    pub(crate) fn columns(&self) -> usize {
        if self.stdout.terminal { window().0 } else { usize::MAX }
    }

    /// The colours of stdout.
    pub(crate) fn palette(&self) -> Palette {
        self.stdout.palette
    }

    /// The colours of stderr.
    pub(crate) fn progress_palette(&self) -> Palette {
        self.stderr.palette
    }

    /// Prints one line for people on stdout.
    pub(crate) fn line(&self, text: impl AsRef<str>) -> Result<(), CliError> {
        let mut line = self.stdout.shown(text.as_ref());
        line.push('\n');
        Ok(io::stdout().lock().write_all(line.as_bytes())?)
    }

    /// Prints a part of a document on stdout, at once: without control characters on a terminal, byte for byte
    /// elsewhere.
    pub(crate) fn document(&self, text: &str) -> Result<(), CliError> {
        let mut out = io::stdout().lock();
        if self.stdout.terminal {
            out.write_all(many_lines(text).as_bytes())?;
        } else {
            out.write_all(text.as_bytes())?;
        }
        Ok(out.flush()?)
    }

    /// Prints a whole document on stdout; a terminal gets a line end after the last line.
    pub(crate) fn whole_document(&self, text: &str) -> Result<(), CliError> {
        if self.stdout.terminal && !text.ends_with('\n') {
            return self.document(&format!("{text}\n"));
        }
        self.document(text)
    }

    /// Prints the answer of a run on stdout, or its first `lines`, without control characters wherever it goes. It is
    /// put together from documents, titles and the words of users and models, and people read it; the bytes of a
    /// document come from [`document`](Self::document). A terminal gets Markdown laid out, unless `--raw`.
    pub(crate) fn answer(&self, text: &str, is_markdown: bool, lines: usize) -> Result<(), CliError> {
        let is_laid_out = self.stdout.terminal && is_markdown && !self.raw;
        let text = if is_laid_out { render(text, self.columns(), self.palette()) } else { many_lines(text) };
        let end = text.match_indices('\n').nth(lines.saturating_sub(1)).map_or(text.len(), |(at, _)| at + 1);
        let shown = &text[..end];
        let line_end = if self.stdout.terminal && !shown.ends_with('\n') { "\n" } else { "" };
        let mut out = io::stdout().lock();
        out.write_all(shown.as_bytes())?;
        out.write_all(line_end.as_bytes())?;
        Ok(out.flush()?)
    }

    /// Prints a script or a diagram for another program on stdout.
    pub(crate) fn script(&self, text: &str) -> Result<(), CliError> {
        let mut out = io::stdout().lock();
        out.write_all(many_lines(text.trim_end()).as_bytes())?;
        Ok(out.write_all(b"\n")?)
    }

    /// Prints one JSON value on stdout: on one line for `-o jsonl`, indented for `-o json`.
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<(), CliError> {
        let text = if self.is_jsonl() { json_line(value)? } else { json_indented(value)? };
        self.write_json(&text)
    }

    /// Prints what was done: `value` for programs, the line for people.
    pub(crate) fn done(&self, value: &impl Serialize, line: impl FnOnce() -> String) -> Result<(), CliError> {
        if self.is_json() { self.json(value) } else { self.line(line()) }
    }

    /// Prints one JSON value on one line of stdout, whatever the format.
    pub(crate) fn json_line(&self, value: &impl Serialize) -> Result<(), CliError> {
        self.write_json(&json_line(value)?)
    }

    /// A list that is printed item by item.
    pub(crate) fn list(&self) -> List<'_> {
        List { out: self, items: 0 }
    }

    fn write_json(&self, text: &str) -> Result<(), CliError> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        Ok(out.write_all(b"\n")?)
    }

    /// Says something about the work on stderr, unless `--quiet`.
    pub(crate) fn note(&self, text: impl AsRef<str>) {
        if !self.quiet {
            self.warn(text);
        }
    }

    /// Says something on stderr that the user must know. A stderr that is gone is nothing to fail for.
    pub(crate) fn warn(&self, text: impl AsRef<str>) {
        let mut line = self.stderr.shown(text.as_ref());
        line.push('\n');
        let _ = print_above(line.as_bytes());
    }
}

/// Says an error on stderr, with what to do about it. The text may come from a server: nothing in it steers the
/// terminal.
pub(crate) fn report(error: &CliError) {
    let palette = Palette::of(&io::stderr());
    let mut text = format!("{} {}\n", palette.paint(Paint::Bad, "error:"), many_lines(&error.to_string()));
    if let Some(hint) = error.hint() {
        text.push_str(&format!("  {} {}\n", palette.paint(Paint::Bold, "hint:"), many_lines(hint)));
    }
    let _ = print_above(text.as_bytes());
}

/// A list in the making: one JSON array for `-o json`, one object a line for `-o jsonl`, and lines for people.
#[must_use = "finish() ends the array"]
pub(crate) struct List<'a> {
    out: &'a Output,
    items: usize,
}

impl List<'_> {
    /// Prints the next item: `value` for programs, the line for people.
    pub(crate) fn push(
        &mut self,
        value: &impl Serialize,
        line: impl FnOnce() -> String,
    ) -> Result<(), CliError> {
        if self.out.is_json() { self.item(value) } else { self.out.line(line()) }
    }

    /// Prints the next item as JSON.
    pub(crate) fn item(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        self.items += 1;
        if self.out.is_jsonl() {
            return self.out.write_json(&json_line(value)?);
        }
        let indented = json_indented(value)?.replace('\n', "\n  ");
        let before = if self.items == 1 { "[\n  " } else { ",\n  " };
        Ok(io::stdout().lock().write_all(format!("{before}{indented}").as_bytes())?)
    }

    /// Ends the list.
    pub(crate) fn finish(self) -> Result<(), CliError> {
        match (self.out.format, self.items) {
            (Format::Table | Format::Jsonl, _) => Ok(()),
            (Format::Json, 0) => self.out.write_json("[]"),
            (Format::Json, _) => self.out.write_json("\n]"),
        }
    }
}

/// The rows of a listing: a table at the end for people, JSON as they come for programs.
pub(crate) enum Rows<'a> {
    /// For people.
    Table(&'a Output, Table),
    /// For `-o json` and `-o jsonl`.
    Json(List<'a>),
}

impl<'a> Rows<'a> {
    /// A listing without rows.
    pub(crate) fn new(out: &'a Output, headers: &'static [&'static str]) -> Self {
        if out.is_json() { Self::Json(out.list()) } else { Self::Table(out, Table::new(headers)) }
    }

    /// Adds a row.
    pub(crate) fn push<T: Serialize>(
        &mut self,
        item: &T,
        cells: impl FnOnce(&T) -> Vec<Cell>,
    ) -> Result<(), CliError> {
        match self {
            Self::Table(_, table) => table.push(cells(item)),
            Self::Json(list) => list.item(item)?,
        }
        Ok(())
    }

    /// Prints what is still to be printed, and returns the number of rows.
    pub(crate) fn finish(self) -> Result<usize, CliError> {
        match self {
            Self::Table(out, table) => {
                for line in table.render(out.palette(), out.columns()) {
                    out.line(line)?;
                }
                Ok(table.len())
            }
            Self::Json(list) => {
                let items = list.items;
                list.finish()?;
                Ok(items)
            }
        }
    }
}

fn json_line(value: &impl Serialize) -> Result<String, CliError> {
    serde_json::to_string(value).map(|text| printable::json(&text).into_owned()).map_err(not_json)
}

fn json_indented(value: &impl Serialize) -> Result<String, CliError> {
    serde_json::to_string_pretty(value).map(|text| printable::json(&text).into_owned()).map_err(not_json)
}

fn not_json(error: serde_json::Error) -> CliError {
    CliError::Other(format!("cannot print as JSON: {error}"))
}
