//! Text from elsewhere, made safe for a terminal.
//!
//! Titles, errors and documents come from users, language models and servers. Such text can hold escape sequences,
//! which move the cursor or hide what follows, and bidirectional controls, which show it in another order. Nothing of
//! either reaches a terminal.

use std::borrow::Cow;

use tree_agent_contract::text::{escaped, steers_terminal};

use super::paint::Paint;

/// `text` on one line: each run of unsafe characters and white space becomes one space.
pub(crate) fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let c = if steers_terminal(c) || c.is_whitespace() { ' ' } else { c };
        if !(c == ' ' && (out.is_empty() || out.ends_with(' '))) {
            out.push(c);
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// `text` with its lines: unsafe characters are left out, except for line ends and tabs.
pub(crate) fn many_lines(text: &str) -> String {
    text.chars().filter(|&c| !steers_terminal(c) || matches!(c, '\n' | '\t')).collect()
}

/// `text` with its lines and with the colours that this program gives it; other unsafe characters are left out. This is
/// the last guard before the terminal, for text that was not made safe where it came in.
pub(crate) fn coloured(text: &str) -> String {
    if !text.chars().any(|c| steers_terminal(c) && !matches!(c, '\n' | '\t')) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        out.push_str(&many_lines(&rest[..at]));
        rest = &rest[at..];
        let end = colour_end(rest).unwrap_or(0);
        out.push_str(&rest[..end]);
        rest = &rest[end.max(1)..];
    }
    out.push_str(&many_lines(rest));
    out
}

/// Where the sequence of [`Paint`] that `text` begins with ends, if it begins with one. Others may hide what follows.
fn colour_end(text: &str) -> Option<usize> {
    Paint::sequences().find(|sequence| text.starts_with(sequence.as_str())).map(|sequence| sequence.len())
}

/// JSON text in which unsafe characters are written as `\u` escapes. It stands for the same value: JSON has such
/// characters only within strings.
pub(crate) fn json(text: &str) -> Cow<'_, str> {
    escaped(text, |c| steers_terminal(c) && c != '\n')
}

#[cfg(test)]
mod tests {
    use super::super::paint::Palette;
    use super::*;

    /// An escape sequence, a C1 control sequence introducer, an override, an isolate, a mark and a tag character.
    const HOSTILE: &str = "a\x1b[2J\u{9b}31mb\u{202e}c\u{2066}d\u{200f}e\u{e0041}f\x07\x7f";

    #[test]
    fn text_from_elsewhere_cannot_steer_the_terminal() {
        assert_eq!(one_line(HOSTILE), "a [2J 31mb c d e f");
        assert_eq!(one_line("  a\r\n\tb  c "), "a b c");
        assert_eq!(many_lines("a\x1b[2J\nb\tc\x07"), "a[2J\nb\tc");
        assert_eq!(many_lines(HOSTILE), "a[2J31mbcdef");
    }

    #[test]
    fn of_all_sequences_only_colours_pass_the_last_guard() {
        assert_eq!(coloured("\x1b[31mred\x1b[0m\n"), "\x1b[31mred\x1b[0m\n");
        let ours = Palette { colour: true }.paint(Paint::Dim, "dim");
        assert_eq!(coloured(&ours), ours);
        assert_eq!(coloured("\x1b[8mhidden \x1b[1;31mred\x1b[m"), "[8mhidden [1;31mred[m");
        assert_eq!(coloured("\x1b[2J\x1b]0;title\x07\x1b[31"), "[2J]0;title[31");
        assert_eq!(coloured("plain ünïcode"), "plain ünïcode");
        assert_eq!(coloured("x\u{9b}31m\u{202e}"), "x31m");
    }

    #[test]
    fn json_keeps_its_value() {
        let value = serde_json::json!({ "text": HOSTILE });
        let text = value.to_string();
        let text = json(&text);
        assert!(!text.chars().any(steers_terminal), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
