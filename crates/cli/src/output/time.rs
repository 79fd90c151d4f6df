//! Times for people.

use clap::ValueEnum;
use noetl_server::{Clock as _, SystemClock};
use noetl_types::{Millis, Timestamp};

/// How times are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimeStyle {
    /// By their distance from now.
    Relative,
    /// As RFC 3339.
    Iso,
}

/// A time as people name it on the command line: itself, or how long ago it was.
pub(crate) fn read_when(text: &str) -> Result<Timestamp, String> {
    if let Ok(age) = Millis::parse(text) {
        return Ok(SystemClock.now().saturating_sub(age));
    }
    Timestamp::parse(text)
        .map_err(|_| "it is neither a duration such as 2h nor a time as of RFC 3339".to_owned())
}

/// A time by its distance from now.
pub(crate) fn ago(time: Timestamp, now: Timestamp) -> String {
    if time > now {
        format!("in {}", about(time.since(now)))
    } else {
        format!("{} ago", about(now.since(time)))
    }
}

/// A duration in one unit.
fn about(duration: Millis) -> String {
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
    fn one_unit_is_enough() {
        let now = Timestamp::parse("2026-01-10T00:00:00Z").unwrap();
        let told = |text| ago(Timestamp::parse(text).unwrap(), now);
        assert_eq!(told("2026-01-09T23:59:59Z"), "1 s ago");
        assert_eq!(told("2026-01-09T23:57:01Z"), "2 min ago");
        assert_eq!(told("2026-01-09T20:00:00Z"), "4 h ago");
        assert_eq!(told("2026-01-01T00:00:00Z"), "9 d ago");
        assert_eq!(told("2026-01-10T00:05:00Z"), "in 5 min");
    }
}
