//! Points in time. The contract has no clock: callers pass the time in.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Microseconds since the Unix epoch, UTC. This is Postgres' own resolution, so nothing is lost on the way
/// through the log. JSON form: RFC 3339 with six fractional digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// From whole milliseconds since the Unix epoch.
    pub const fn from_millis(ms: i64) -> Self {
        Self(ms * 1_000)
    }

    /// Microseconds since the Unix epoch.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Milliseconds from `earlier` to `self`; 0 when `self` is not later.
    pub fn millis_since(self, earlier: Timestamp) -> u64 {
        (self.0.saturating_sub(earlier.0).max(0) / 1_000) as u64
    }

    /// `self` and `ms` milliseconds.
    pub fn plus_millis(self, ms: u64) -> Self {
        Self(self.0.saturating_add((ms as i64).saturating_mul(1_000)))
    }
}

/// The years 1 to 9999, which every format can show.
const SHOWN: std::ops::RangeInclusive<i64> = -62_135_596_800_000_000..=253_402_300_799_999_999;

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A time beyond the calendar is shown as its nearest end, because showing must never fail.
        let micros = self.0.clamp(*SHOWN.start(), *SHOWN.end());
        let at =
            OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1_000).map_err(|_| fmt::Error)?;
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z",
            at.year(),
            u8::from(at.month()),
            at.day(),
            at.hour(),
            at.minute(),
            at.second(),
            at.microsecond()
        )
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        let at = OffsetDateTime::parse(&text, &Rfc3339).map_err(serde::de::Error::custom)?;
        let micros = (at.unix_timestamp_nanos() / 1_000) as i64;
        if !SHOWN.contains(&micros) {
            let wrong = format!("{text:?} is out of the range of timestamps, which are the years 1 to 9999");
            return Err(serde::de::Error::custom(wrong));
        }
        Ok(Self(micros))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_outside_of_the_calendar_are_not_read() {
        let read = |text: &str| serde_json::from_str::<Timestamp>(&format!("{text:?}"));
        assert_eq!(read("9999-12-31T23:59:59.999999Z").unwrap().0, 253_402_300_799_999_999);
        assert_eq!(read("0001-01-01T00:00:00Z").unwrap().0, -62_135_596_800_000_000);
        for text in ["0000-12-31T23:59:59Z", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"] {
            assert!(read(text).unwrap_err().to_string().contains("1 to 9999"), "{text}");
        }
    }

    #[test]
    fn any_time_can_be_shown() {
        assert_eq!(Timestamp(i64::MAX).to_string(), "9999-12-31T23:59:59.999999Z");
        assert_eq!(Timestamp(i64::MIN).to_string(), "0001-01-01T00:00:00.000000Z");
    }

    #[test]
    fn json_is_rfc3339_and_round_trips() {
        let t = Timestamp(1_763_776_000_123_456);
        let json = serde_json::to_string(&t).unwrap();
        assert_eq!(json, "\"2025-11-22T01:46:40.123456Z\"");
        assert_eq!(serde_json::from_str::<Timestamp>(&json).unwrap(), t);
    }
}
