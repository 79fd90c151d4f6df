//! How long something took, for machines and for people.

use noetl_types::{Millis, Text, Timestamp};

/// How long something took, or has taken so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Elapsed(Millis);

impl Elapsed {
    /// From the beginning to the end, or to now while there is none.
    pub(super) fn between(start: Timestamp, end: Option<Timestamp>, now: Timestamp) -> Self {
        Self(end.unwrap_or(now).since(start))
    }

    pub(super) fn seconds(self) -> f64 {
        self.0.as_secs_f64()
    }

    /// The two largest units that say something, such as `1h 4m` or `12.3s`.
    pub(super) fn human(self) -> Text {
        let ms = self.0.as_ms();
        let secs = ms / 1000;
        let (days, hours, minutes) = (secs / 86_400, secs / 3600 % 24, secs / 60 % 60);
        let text = if days > 0 {
            format!("{days}d {hours}h")
        } else if hours > 0 {
            format!("{hours}h {minutes}m")
        } else if minutes > 0 {
            format!("{minutes}m {}s", secs % 60)
        } else if secs > 0 {
            format!("{secs}.{}s", ms % 1000 / 100)
        } else {
            format!("{ms}ms")
        };
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_the_two_largest_units() {
        for (ms, text) in [
            (0, "0ms"),
            (999, "999ms"),
            (1_000, "1.0s"),
            (12_345, "12.3s"),
            (61_000, "1m 1s"),
            (3_840_000, "1h 4m"),
            (180_000_000, "2d 2h"),
        ] {
            assert_eq!(Elapsed(Millis::from_ms(ms)).human(), text);
        }
    }

    #[test]
    fn what_has_not_ended_takes_until_now() {
        let at = |secs: i64| Timestamp::from_unix_ms(secs * 1000).unwrap();
        assert_eq!(
            Elapsed::between(at(1), None, at(4)).seconds().to_string(),
            "3"
        );
        let ended = Elapsed::between(at(1), Some(at(2)), at(4));
        assert_eq!(ended.human(), "1.0s");
    }
}
