//! How a document is written.

use tree_agent_contract::code::{CONVERTED, MARKDOWN, TEXT_NAMES, is_code, is_in};
use tree_agent_contract::text::prefix;

/// Bytes at the beginning of a text that show what it is.
const LOOK_BYTES: usize = 16 * 1024;

/// A regular expression with a name.
macro_rules! pattern {
    ($name:ident, $pattern:literal) => {
        static $name: std::sync::LazyLock<regex::Regex> =
            std::sync::LazyLock::new(|| regex::Regex::new($pattern).expect("the pattern is valid"));
    };
}
pub(crate) use pattern;

// What only one format has.
pattern!(
    ASCIIDOC,
    r"(?m)^(\+\n\S|\[(\[|[[:alpha:]]).*\]$|\S.*::\n[ \t]+\S|(include|ifn?def)::|\n-{4,}\n\S)|[a-z]:[^\s:\[]+\[.*?\]"
);
pattern!(REST, r"(?m)^\s*\.\. (_|[\w-]+::)|:[a-z]+:`");
pattern!(MANUAL, r"^(\S+\(\w+\))\s.*\s(\S+\(\w+\))$");

/// How a document is written. It decides what is a heading, an item, a row or code in its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Markdown, also the text of files that were converted to it when they were imported.
    Markdown,
    /// AsciiDoc.
    AsciiDoc,
    /// reStructuredText.
    Rest,
    /// A manual page as `man` shows it.
    Manual,
    /// Text without marks.
    Plain,
    /// Source code, settings, data and logs: lines.
    Code,
}

impl Format {
    /// The format of the document at `path`. Its name decides. Texts whose names do not tell (`.txt`) are what the
    /// beginning of `body` looks like, but never Markdown: that depends on the path alone.
    pub fn of(path: &str, body: &str) -> Self {
        let name = file(path).rsplit('/').next().unwrap_or_default();
        // A name such as `Report of 1.2` has no ending.
        let ending = name.rsplit_once('.').filter(|(_, ending)| !ending.contains(' '));
        let ending = ending.map(|(_, ending)| ending.to_ascii_lowercase());
        match ending.as_deref() {
            _ if is_code(name) => Self::Code,
            Some("log" | "xml") => Self::Code,
            Some("adoc" | "asciidoc" | "asc") => Self::AsciiDoc,
            Some("rst" | "rest") => Self::Rest,
            None if !is_in(TEXT_NAMES, &name.to_ascii_uppercase()) => Self::Markdown,
            Some(ending) if is_in(MARKDOWN, ending) || CONVERTED.iter().any(|list| is_in(list, ending)) => {
                Self::Markdown
            }
            _ => look(body),
        }
    }
}

/// The path of the file that the document at `path` is a part of.
pub(crate) fn file(path: &str) -> &str {
    path.rsplit_once("/part-")
        .filter(|(_, number)| number.parse::<u32>().is_ok())
        .map_or(path, |(file, _)| file)
}

/// What a text looks like. At least two things that only one format has must be there.
fn look(body: &str) -> Format {
    let body = prefix(body, LOOK_BYTES);
    let (asciidoc, rest) = (ASCIIDOC.find_iter(body).count(), REST.find_iter(body).count());
    match body.trim_start().lines().next().unwrap_or_default() {
        first if manual_name(first.trim_end()).is_some() => Format::Manual,
        first if first.starts_with("= ") || first.starts_with("== ") || asciidoc >= 2 && asciidoc >= rest => {
            Format::AsciiDoc
        }
        _ if rest >= 2 => Format::Rest,
        _ => Format::Plain,
    }
}

/// The name of a manual page, if `line` is its first one: `LS(1)   User Commands   LS(1)`.
pub(crate) fn manual_name(line: &str) -> Option<&str> {
    let found = MANUAL.captures(line)?;
    (found[1] == found[2]).then(|| found.get(1).map(|name| name.as_str()))?
}
