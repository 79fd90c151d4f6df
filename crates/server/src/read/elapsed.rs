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

    /// For people.
    pub(super) fn human(self) -> Text {
        self.0.human().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_not_ended_takes_until_now() {
        let at = |secs: i64| Timestamp::from_unix_ms(secs * 1000).unwrap();
        assert_eq!(
            Elapsed::between(at(1), None, at(4)).seconds().to_string(),
            "3"
        );
        let ended = Elapsed::between(at(1), Some(at(2)), at(4));
        assert_eq!(ended.human(), "1.0 s");
    }
}
