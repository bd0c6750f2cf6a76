//! Colours and widths.

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use tree_agent_contract::Timestamp;
pub(crate) use tree_agent_contract::text::{count, width};

/// What a text means, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    /// No colour.
    Plain,
    /// Less important than the text around it.
    Dim,
    /// More important than the text around it.
    Bold,
    /// Success.
    Good,
    /// Failure.
    Bad,
    /// Needs attention.
    Warn,
    /// In progress.
    Busy,
    /// Planning.
    Plan,
}

/// Whether colours are written at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Palette {
    /// False: plain text only.
    pub(crate) colour: bool,
}

impl Palette {
    /// The palette of a stream: colours on a terminal, unless `NO_COLOR`, `CLICOLOR`, `TERM` or --color say otherwise.
    pub(crate) fn of<S: anstream::stream::RawStream>(stream: &S) -> Self {
        Self { colour: AutoStream::choice(stream) != ColorChoice::Never }
    }

    /// `text` in the colour of `paint`.
    pub(crate) fn paint(self, paint: Paint, text: &str) -> String {
        if !self.colour || text.is_empty() {
            return text.to_owned();
        }
        let style = paint.style();
        format!("{style}{text}{style:#}")
    }
}

impl Paint {
    const ALL: [Self; 8] =
        [Self::Plain, Self::Dim, Self::Bold, Self::Good, Self::Bad, Self::Warn, Self::Busy, Self::Plan];

    /// The sequences that begin and end a colour.
    pub(crate) fn sequences() -> impl Iterator<Item = String> {
        let of = |paint: Self| [format!("{}", paint.style()), format!("{:#}", paint.style())];
        Self::ALL.into_iter().flat_map(of).filter(|sequence| !sequence.is_empty())
    }

    const fn style(self) -> Style {
        match self {
            Paint::Plain => Style::new(),
            Paint::Dim => Style::new().dimmed(),
            Paint::Bold => Style::new().bold(),
            Paint::Good => AnsiColor::Green.on_default(),
            Paint::Bad => AnsiColor::Red.on_default(),
            Paint::Warn => AnsiColor::Yellow.on_default(),
            Paint::Busy => AnsiColor::Cyan.on_default(),
            Paint::Plan => AnsiColor::Magenta.on_default(),
        }
    }
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

/// How long ago `then` was: `just now`, `5m ago`, `3h ago`, `12d ago`.
pub(crate) fn ago(then: Timestamp, now: Timestamp) -> String {
    match now.millis_since(then) / 60_000 {
        0 => "just now".to_owned(),
        minutes @ 1..60 => format!("{minutes}m ago"),
        minutes @ 60..1_440 => format!("{}h ago", minutes / 60),
        minutes => format!("{}d ago", minutes / 1_440),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_past_is_told_in_its_largest_unit() {
        let now = Timestamp::from_millis(100 * 86_400_000);
        let minutes = |n: i64| ago(Timestamp::from_millis(100 * 86_400_000 - n * 60_000), now);
        assert_eq!([0, 5, 90, 3_000].map(minutes), ["just now", "5m ago", "1h ago", "2d ago"]);
        assert_eq!(ago(Timestamp::from_millis(200 * 86_400_000), now), "just now", "clocks may differ");
    }

    #[test]
    fn durations_are_short() {
        assert_eq!(
            [420, 12_000, 125_000, 3_725_000].map(duration),
            ["0.4s", "12s", "2m05s", "1h02m"].map(String::from)
        );
    }
}
