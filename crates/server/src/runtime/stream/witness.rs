//! Messages that the broker is known to have had: where they are gone too early, somebody took them.

use noetl_types::Timestamp;

/// What was acknowledged, as far as it is needed to tell that the stream was emptied, even while more
/// goes into it.
#[derive(Debug, Default)]
pub(super) struct Witness {
    /// The last one before the last look, or the first one since.
    known: Option<Stored>,
    last: Option<Stored>,
}

/// A message that the broker said it had.
#[derive(Debug, Clone, Copy)]
struct Stored {
    sequence: u64,
    at: Timestamp,
}

impl Witness {
    /// The broker has stored a message under a number.
    pub(super) fn heard(&mut self, sequence: u64, at: Timestamp) {
        let stored = Stored { sequence, at };
        self.known.get_or_insert(stored);
        self.last = Some(stored);
    }

    /// Looks at a stream of which all before a number is gone: whether something is that was stored
    /// after a time. Whatever it loses later the next look finds.
    pub(super) fn misses(&mut self, first: u64, since: Timestamp) -> bool {
        let known = std::mem::replace(&mut self.known, self.last);
        known.is_some_and(|known| known.sequence < first && known.at > since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_unix_ms(seconds * 1_000).unwrap()
    }

    #[test]
    fn what_is_gone_too_early_is_missed() {
        let mut witness = Witness::default();
        assert!(!witness.misses(u64::MAX, at(0)), "nothing was sent yet");
        for sequence in 1..=9 {
            witness.heard(sequence, at(100));
        }
        assert!(!witness.misses(1, at(0)));
        // The stream is emptied, and goes on at once.
        for sequence in 10..=20 {
            witness.heard(sequence, at(105));
        }
        assert!(witness.misses(10, at(0)));
    }

    #[test]
    fn what_came_and_went_between_two_looks_is_missed() {
        let mut witness = Witness::default();
        assert!(!witness.misses(1, at(0)));
        witness.heard(1, at(100));
        witness.heard(2, at(101));
        assert!(witness.misses(2, at(0)));
        // It is told once.
        assert!(!witness.misses(2, at(0)));
    }

    #[test]
    fn what_is_old_may_be_gone() {
        let mut witness = Witness::default();
        witness.heard(7, at(100));
        assert!(!witness.misses(7, at(50)));
        assert!(!witness.misses(u64::MAX, at(100)));
        // One that is idle is looked at again and again.
        witness.heard(8, at(200));
        assert!(!witness.misses(8, at(100)));
        assert!(!witness.misses(8, at(150)));
        assert!(witness.misses(9, at(150)));
    }
}
