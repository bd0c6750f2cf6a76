//! Colours, widths, and making foreign text safe to show.

pub(crate) use tree_agent_contract::text::{count, width};

/// A meaning that has a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    /// No colour.
    Plain,
    /// What stands back.
    Dim,
    /// What stands out.
    Bold,
    /// What went well.
    Good,
    /// What went wrong.
    Bad,
    /// What needs a look.
    Warn,
    /// What is at work.
    Busy,
    /// What plans.
    Plan,
}

/// Whether colours are written at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Palette {
    /// False: plain text only.
    pub(crate) colour: bool,
}

impl Palette {
    /// `text` in the colour of `paint`.
    pub(crate) fn paint(self, paint: Paint, text: &str) -> String {
        let code = match paint {
            _ if !self.colour || text.is_empty() => return text.to_owned(),
            Paint::Plain => return text.to_owned(),
            Paint::Dim => "2",
            Paint::Bold => "1",
            Paint::Good => "32",
            Paint::Bad => "31",
            Paint::Warn => "33",
            Paint::Busy => "36",
            Paint::Plan => "35",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Foreign text on one line: control characters (which could steer the terminal) and runs of white space become
/// one space.
pub(crate) fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let c = if c.is_control() || c.is_whitespace() { ' ' } else { c };
        if !(c == ' ' && (out.is_empty() || out.ends_with(' '))) {
            out.push(c);
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// Foreign text of many lines for a terminal: control characters other than line ends and tabs are left out.
pub(crate) fn many_lines(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// `text`, cut to at most `columns` with an ellipsis at the end when it does not fit.
pub(crate) fn fit(text: &str, columns: usize) -> String {
    tree_agent_contract::text::truncate_columns(text, columns).into_owned()
}

/// A length of time for people: `0.4s`, `12s`, `2m05s`, `1h02m`.
pub(crate) fn duration(ms: u64) -> String {
    let s = ms / 1_000;
    match s {
        0..10 => format!("{s}.{}s", ms % 1_000 / 100),
        10..60 => format!("{s}s"),
        60..3_600 => format!("{}m{:02}s", s / 60, s % 60),
        _ => format!("{}h{:02}m", s / 3_600, s % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_steer_the_terminal() {
        assert_eq!(one_line("a\x1b[2J\r\n\tb  c "), "a [2J b c");
        assert_eq!(many_lines("a\x1b[2J\nb\tc\x07"), "a[2J\nb\tc");
    }

    #[test]
    fn durations_are_short() {
        assert_eq!(
            [420, 12_000, 125_000, 3_725_000].map(duration),
            ["0.4s", "12s", "2m05s", "1h02m"].map(String::from)
        );
    }
}
