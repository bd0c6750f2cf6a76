//! Values of flags that have a form of their own.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::builder::PossibleValuesParser;
use tree_agent_contract::{RunId, Timestamp};
use tree_agent_event_gateway::STRATEGIES;

/// The fewest characters of an id that stand for it.
const PART_MIN: usize = 4;

/// A length of time such as `10m`, `1h 30m` or `90d`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text.trim())
        .map_err(|error| format!("{error}; expected a number and a unit, such as 90s, 10m, 1h30m or 7d"))
}

/// A label such as `team=search`.
pub(crate) fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// The strategies that a server of this version has.
pub(crate) fn strategies() -> PossibleValuesParser {
    PossibleValuesParser::new(STRATEGIES.iter().map(|strategy| strategy.as_str()))
}

/// A moment, told as a length of time before now or as a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// So long ago.
    Ago(Duration),
    /// Then.
    At(SystemTime),
}

/// A moment such as `2h`, `2026-11-23` or `2026-11-23T14:00:00Z`.
pub(crate) fn when(text: &str) -> Result<When, String> {
    let text = text.trim();
    if let Ok(ago) = humantime::parse_duration(text) {
        return Ok(When::Ago(ago));
    }
    let time = if text.contains(['T', ' ']) { text.to_owned() } else { format!("{text}T00:00:00Z") };
    humantime::parse_rfc3339_weak(&time).map(When::At).map_err(|_| {
        "expected a length of time such as 2h or 7d, or a time such as 2026-11-23T14:00:00Z".to_owned()
    })
}

impl When {
    /// The moment, seen from `now`.
    pub(crate) fn before(self, now: Timestamp) -> Timestamp {
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        match self {
            Self::Ago(ago) => Timestamp(now.micros().saturating_sub(micros(ago))),
            Self::At(time) => Timestamp(time.duration_since(UNIX_EPOCH).map(micros).unwrap_or_default()),
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ago(ago) => humantime::format_duration(*ago).fmt(f),
            Self::At(time) => humantime::format_rfc3339_seconds(*time).fmt(f),
        }
    }
}

/// How a user names a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunRef {
    /// The whole id.
    Id(RunId),
    /// The beginning or the end of an id.
    Part(String),
    /// The newest run is 1, the one before it is 2.
    Recent(usize),
}

impl FromStr for RunRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "is not a run id; expected a UUID, at least {PART_MIN} characters of its beginning or end, @latest, or \
                 @2 for the run before that"
            )
        };
        if let Some(recent) = text.strip_prefix('@') {
            return match (recent, recent.parse()) {
                ("latest", _) => Ok(Self::Recent(1)),
                (_, Ok(n @ 1..)) => Ok(Self::Recent(n)),
                _ => Err(wrong()),
            };
        }
        if let Ok(id) = text.parse() {
            return Ok(Self::Id(id));
        }
        let text = text.to_ascii_lowercase();
        let digits = text.chars().filter(char::is_ascii_hexdigit).count();
        if digits < PART_MIN || text.len() > 36 || !text.chars().all(|c| c.is_ascii_hexdigit() || c == '-') {
            return Err(wrong());
        }
        Ok(Self::Part(text))
    }
}

impl fmt::Display for RunRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Part(part) => f.write_str(part),
            Self::Recent(n) => write!(f, "@{n}"),
        }
    }
}

/// True when `id` begins or ends with `part`.
pub(crate) fn is_part_of(part: &str, id: RunId) -> bool {
    let id = id.to_string();
    id.starts_with(part) || id.ends_with(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_as_people_write_them() {
        assert_eq!(duration("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5_400)));
        assert_eq!(duration(" 90d "), Ok(Duration::from_secs(90 * 86_400)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        for wrong in ["", "d", "90", "-1d", "ä"] {
            assert!(duration(wrong).unwrap_err().contains("such as 90s"), "{wrong}");
        }
    }

    #[test]
    fn moments_are_lengths_of_time_or_times() {
        let now = Timestamp::from_millis(1_000_000_000);
        assert_eq!(when("2s").unwrap().before(now), Timestamp::from_millis(999_998_000));
        for (text, at) in [("1970-01-02", 86_400_000), ("1970-01-02T01:00:00Z", 90_000_000)] {
            assert_eq!(when(text).unwrap().before(now), Timestamp::from_millis(at), "{text}");
        }
        assert!(when("yesterday").unwrap_err().contains("2026-11-23T14:00:00Z"));
    }

    #[test]
    fn runs_have_short_names() {
        let id = "0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b";
        let run: RunId = id.parse().unwrap();
        assert_eq!(id.parse(), Ok(RunRef::Id(run)));
        assert_eq!("6C1D2E4B".parse(), Ok(RunRef::Part("6c1d2e4b".into())));
        assert_eq!("0190b6f1-8d".parse(), Ok(RunRef::Part("0190b6f1-8d".into())));
        assert_eq!("@latest".parse(), Ok(RunRef::Recent(1)));
        assert_eq!("@2".parse(), Ok(RunRef::Recent(2)));
        for wrong in ["", "abc", "nope", "@", "@0", "@x", "----", "0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b0"] {
            assert!(wrong.parse::<RunRef>().unwrap_err().contains("@latest"), "{wrong}");
        }
        assert!(is_part_of("0190", run) && is_part_of("2e4b", run) && !is_part_of("8d3e", run));
    }
}
