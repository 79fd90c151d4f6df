//! Detects messages that disappeared from the broker before their expiry: the stream was purged.

use noetl_types::Timestamp;

/// Acknowledged messages, as far as they are needed to detect that the stream was purged, even
/// while new messages arrive.
#[derive(Debug, Default)]
pub(super) struct BrokerCheck {
    /// The last message before the last check, or the first one since.
    reference: Option<StoredMessage>,
    last: Option<StoredMessage>,
}

/// A message that the broker acknowledged.
#[derive(Debug, Clone, Copy)]
struct StoredMessage {
    sequence: u64,
    at: Timestamp,
}

impl BrokerCheck {
    /// Records that the broker stored a message.
    pub(super) fn record_stored(&mut self, sequence: u64, at: Timestamp) {
        let stored = StoredMessage { sequence, at };
        self.reference.get_or_insert(stored);
        self.last = Some(stored);
    }

    /// Checks a stream whose first message is `first`. Returns true if a message is gone that was
    /// stored after `since`. Later losses are found by the next check.
    pub(super) fn is_missing_message(&mut self, first: u64, since: Timestamp) -> bool {
        let reference = std::mem::replace(&mut self.reference, self.last);
        reference.is_some_and(|reference| reference.sequence < first && reference.at > since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time_at(seconds: i64) -> Timestamp {
        Timestamp::from_unix_ms(seconds * 1_000).unwrap()
    }

    #[test]
    fn detects_purged_stream() {
        let mut check = BrokerCheck::default();
        assert!(!check.is_missing_message(u64::MAX, time_at(0)), "nothing was sent yet");
        for sequence in 1..=9 {
            check.record_stored(sequence, time_at(100));
        }
        assert!(!check.is_missing_message(1, time_at(0)));
        // The stream is purged and continues at once.
        for sequence in 10..=20 {
            check.record_stored(sequence, time_at(105));
        }
        assert!(check.is_missing_message(10, time_at(0)));
    }

    #[test]
    fn detects_loss_between_two_checks() {
        let mut check = BrokerCheck::default();
        assert!(!check.is_missing_message(1, time_at(0)));
        check.record_stored(1, time_at(100));
        check.record_stored(2, time_at(101));
        assert!(check.is_missing_message(2, time_at(0)));
        // It is reported once.
        assert!(!check.is_missing_message(2, time_at(0)));
    }

    #[test]
    fn expired_messages_are_not_missing() {
        let mut check = BrokerCheck::default();
        check.record_stored(7, time_at(100));
        assert!(!check.is_missing_message(7, time_at(50)));
        assert!(!check.is_missing_message(u64::MAX, time_at(100)));
        // An idle stream is checked again and again.
        check.record_stored(8, time_at(200));
        assert!(!check.is_missing_message(8, time_at(100)));
        assert!(!check.is_missing_message(8, time_at(150)));
        assert!(check.is_missing_message(9, time_at(150)));
    }
}
