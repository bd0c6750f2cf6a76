//! Where words go: results to stdout, everything else to stderr.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use serde::Serialize;

use crate::error::CliError;
use crate::view::paint::Palette;

/// The form of what is printed on stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Human,
    /// One JSON object a line, and nothing else.
    Jsonl,
}

/// The program's two outputs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    format: Format,
    terminal: bool,
    palette: Palette,
}

impl Output {
    /// Looks at stdout and the environment: colour only on a terminal, and not when `NO_COLOR` is set.
    pub(crate) fn detect(format: Format) -> Self {
        let terminal = io::stdout().is_terminal();
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|v| v == "dumb");
        let palette = Palette { colour: terminal && !no_color && !dumb };
        Self { format, terminal: terminal && !dumb, palette }
    }

    /// True for `-o jsonl`.
    pub(crate) fn is_jsonl(&self) -> bool {
        self.format == Format::Jsonl
    }

    /// True when a tree can be drawn: human output on a terminal that can move its cursor.
    pub(crate) fn can_draw(&self) -> bool {
        self.terminal && self.format == Format::Human
    }

    /// True when stdout is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// The colours of stdout.
    pub(crate) fn palette(&self) -> Palette {
        self.palette
    }

    /// Prints one line for people on stdout.
    pub(crate) fn line(&self, text: impl AsRef<str>) -> Result<(), CliError> {
        let mut line = text.as_ref().to_owned();
        line.push('\n');
        Ok(io::stdout().lock().write_all(line.as_bytes())?)
    }

    /// Prints text for people on stdout as it is, at once.
    pub(crate) fn text(&self, text: impl AsRef<str>) -> Result<(), CliError> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_ref().as_bytes())?;
        Ok(out.flush()?)
    }

    /// Prints one JSON object as a line on stdout.
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<(), CliError> {
        let text = serde_json::to_string(value)
            .map_err(|e| CliError::Other(format!("cannot print as JSON: {e}")))?;
        self.line(text)
    }

    /// Says something about the work on stderr. A stderr that is gone is nothing to fail for.
    pub(crate) fn note(&self, text: impl AsRef<str>) {
        let _ = writeln!(io::stderr().lock(), "{}", text.as_ref());
    }
}
