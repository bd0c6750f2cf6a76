//! YAML frontmatter of Markdown documents, checked against a JSON Schema.
//!
//! ```text
//! ---
//! title: Tide tables
//! tags: [harbour, time]
//! ---
//!
//! # Tide tables
//! ```
//!
//! [`parse`] splits a document and reads its frontmatter, and [`Schema`] checks the fields. Documents and schemas
//! come from models and users: nothing in them costs more than their size. Errors say what is wrong and where, so
//! that whoever wrote the document can correct it.

mod expansion;
mod schema;

use std::fmt::Write;

use serde_json::{Map, Value};
use serde_saphyr::options::{DuplicateKeyPolicy, MergeKeyPolicy, NonFiniteFloatPolicy};
use tree_agent_contract::text::{one_line, truncate};

pub use schema::Schema;

/// Bytes of a frontmatter.
pub const FRONTMATTER_BYTES: usize = 64 * 1024;
/// Bytes of one error.
const ERROR_BYTES: usize = 300;
/// The line before and after a frontmatter.
const FENCE: &str = "---";

/// A document in its two parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Document<'a> {
    /// What the frontmatter says.
    pub fields: Map<String, Value>,
    /// The Markdown below it.
    pub body: &'a str,
}

/// Splits `document` and reads its frontmatter.
///
/// # Errors
/// If there is none, or it is not YAML, or not a mapping.
pub fn parse(document: &str) -> Result<Document<'_>, String> {
    let (yaml, body) = split(document)?;
    if yaml.len() > FRONTMATTER_BYTES {
        return Err(format!(
            "the frontmatter is {} bytes long; at most {FRONTMATTER_BYTES} are allowed",
            yaml.len()
        ));
    }
    // Deep nesting and references that multiply would cost more than the text is long.
    let bounds = serde_saphyr::budget! {
        max_depth: 32,
        max_nodes: 10_000,
        max_aliases: 0,
        max_anchors: 0,
        max_documents: 1,
    };
    let options = serde_saphyr::options! {
        budget: bounds,
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        strict_booleans: true,
        with_snippet: false,
    };
    let value = match yaml.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        true => Value::Object(Map::new()),
        false => serde_saphyr::from_str_with_options(yaml, options).map_err(|error| yaml_error(&error))?,
    };
    match value {
        Value::Object(fields) => Ok(Document { fields, body }),
        _ => {
            Err("the frontmatter must be a mapping of names to values, such as `title: Tide tables`"
                .to_owned())
        }
    }
}

/// `document` with quotes around the plain values of its frontmatter that hold a colon and a space, such as `summary:
/// Depth: 12 metres`, which people and models forget; none if there is no such value.
pub fn quoted(document: &str) -> Option<String> {
    let (fields, body) = split(document).ok()?;
    let mut text = format!("{FENCE}\n");
    let mut is_other = false;
    for line in fields.lines() {
        let is_key = |key: &str| key.starts_with(char::is_alphanumeric) && !key.contains(['"', '\'', '#']);
        match line.split_once(": ").map(|(key, value)| (key, value.trim())) {
            Some((key, value))
                if is_key(key)
                    && value.contains(": ")
                    && !value.starts_with(['"', '\'', '[', '{', '|', '>', '&', '*', '!']) =>
            {
                is_other = true;
                let _ = writeln!(text, "{key}: {}", yaml(&value.into()));
            }
            _ => {
                let _ = writeln!(text, "{line}");
            }
        }
    }
    is_other.then(|| format!("{text}{FENCE}\n{body}"))
}

/// The Markdown of `document` below its frontmatter; all of it if it has none. The frontmatter is not read.
pub fn body(document: &str) -> &str {
    split(document).map_or(document, |(_, body)| body)
}

/// The YAML and the body of `document`.
fn split(document: &str) -> Result<(&str, &str), String> {
    let document = document.strip_prefix('\u{feff}').unwrap_or(document);
    let mut lines = document.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    if first.trim_end() != FENCE {
        return Err(format!(
            "the document must begin with its frontmatter: a line {FENCE}, YAML, and another line {FENCE}"
        ));
    }
    let mut end = first.len();
    for line in lines {
        if matches!(line.trim_end(), FENCE | "...") {
            return Ok((&document[first.len()..end], &document[end + line.len()..]));
        }
        end += line.len();
    }
    Err(format!("the frontmatter has no end: write a line {FENCE} after it"))
}

fn yaml_error(error: &serde_saphyr::Error) -> String {
    // The frontmatter begins in the second line of the document.
    let place = error.location().map(|at| format!(" in line {}, column {}", at.line() + 1, at.column()));
    let error = error.without_snippet().to_string();
    format!("the YAML of the frontmatter cannot be read{}: {}", place.unwrap_or_default(), short(&error))
}

/// `text` on one line, cut to the length of an error.
pub(crate) fn short(text: &str) -> String {
    truncate(&one_line(text), ERROR_BYTES).into_owned()
}

/// The document with the frontmatter `fields`, in their order, above `body`.
pub fn write<'a>(fields: impl IntoIterator<Item = (&'a str, Value)>, body: &str) -> String {
    let mut text = format!("{FENCE}\n");
    for (name, value) in fields {
        // JSON is YAML too. A key that is no plain word is quoted like any other text.
        let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        let key = if is_plain { name.to_owned() } else { Value::from(name).to_string() };
        let _ = writeln!(text, "{key}: {}", yaml(&value));
    }
    text.push_str(FENCE);
    text.push_str("\n\n");
    text.push_str(body.trim_start_matches('\n'));
    text
}

/// `value` as JSON that is also YAML.
pub fn yaml(value: &Value) -> String {
    // JSON leaves these as they are; YAML does not allow them, or takes them for line breaks.
    let escape = |c: char| {
        matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
    };
    let json = value.to_string();
    if !json.contains(escape) {
        return json;
    }
    json.chars().map(|c| if escape(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() }).collect()
}

#[cfg(test)]
mod tests;
