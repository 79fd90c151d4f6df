//! Formats and parses times for people.

use clap::ValueEnum;
use noetl_server::{Clock as _, SystemClock};
use noetl_types::{Millis, Timestamp};

/// Format of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimeStyle {
    /// Relative to now
    Relative,
    /// RFC 3339
    Iso,
}

/// Parses a time given as RFC 3339 or as a duration before now.
pub(crate) fn parse_when(text: &str) -> Result<Timestamp, String> {
    if let Ok(age) = Millis::parse(text) {
        return Ok(SystemClock.now().saturating_sub(age));
    }
    Timestamp::parse(text).map_err(|_| "not a duration such as 2h or an RFC 3339 time".to_owned())
}

/// Formats a time relative to now.
pub(crate) fn relative_time(time: Timestamp, now: Timestamp) -> String {
    if time > now {
        format!("in {}", round_duration(time.duration_since(now)))
    } else {
        format!("{} ago", round_duration(now.duration_since(time)))
    }
}

/// Formats a duration in one unit.
fn round_duration(duration: Millis) -> String {
    let secs = duration.as_ms() / 1_000;
    match secs {
        0..120 => format!("{secs} s"),
        120..7_200 => format!("{} min", secs / 60),
        7_200..172_800 => format!("{} h", secs / 3_600),
        172_800.. => format!("{} d", secs / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ago_uses_one_unit() {
        let now = Timestamp::parse("2026-01-10T00:00:00Z").unwrap();
        let text_for = |text| relative_time(Timestamp::parse(text).unwrap(), now);
        assert_eq!(text_for("2026-01-09T23:59:59Z"), "1 s ago");
        assert_eq!(text_for("2026-01-09T23:57:01Z"), "2 min ago");
        assert_eq!(text_for("2026-01-09T20:00:00Z"), "4 h ago");
        assert_eq!(text_for("2026-01-01T00:00:00Z"), "9 d ago");
        assert_eq!(text_for("2026-01-10T00:05:00Z"), "in 5 min");
    }
}
