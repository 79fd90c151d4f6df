//! Duration of an operation, as a number and as text.

use noetl_types::{Millis, Text, Timestamp};

/// Duration of an operation, or its duration so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExecutionDuration(Millis);

impl ExecutionDuration {
    /// Time from the start to the end, or to now if there is no end.
    pub(super) fn from_start_to_end(
        start: Timestamp,
        end: Option<Timestamp>,
        now: Timestamp,
    ) -> Self {
        Self(end.unwrap_or(now).duration_since(start))
    }

    pub(super) fn as_seconds(self) -> f64 {
        self.0.as_secs_f64()
    }

    /// Formats the duration for people.
    pub(super) fn to_human_text(self) -> Text {
        self.0.to_human().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_execution_lasts_until_now() {
        let at = |secs: i64| Timestamp::from_unix_ms(secs * 1000).unwrap();
        assert_eq!(
            ExecutionDuration::from_start_to_end(at(1), None, at(4)).as_seconds().to_string(),
            "3"
        );
        let ended = ExecutionDuration::from_start_to_end(at(1), Some(at(2)), at(4));
        assert_eq!(ended.to_human_text(), "1.0 s");
    }
}
