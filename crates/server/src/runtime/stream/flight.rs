//! What is on its way to the broker, in the order of the feed.
//!
//! The broker answers in any order. Only what has nothing before it that is still open is done with:
//! so far, and no further, the cursor may move.

use std::collections::VecDeque;

use noetl_store::FeedMessage;
use noetl_types::FeedPosition;
use tokio::time::Instant;

/// Events that are on their way together.
const MANY: usize = 2_000;

/// Bytes of events that are on their way together, but for the last one.
const MANY_BYTES: usize = 4 * 1024 * 1024;

/// Events between the cursor and whatever is to be sent.
#[derive(Debug)]
pub(super) struct Flight {
    /// The number of the first one that is not done with.
    first: u64,
    flying: VecDeque<Flying>,
    /// Bytes of those that are open.
    bytes: usize,
    /// When the last first one was done with.
    moved_at: Option<Instant>,
    passed: Passed,
}

/// An event on its way.
#[derive(Debug)]
pub(super) struct Flying {
    pub(super) message: FeedMessage,
    /// Whether only a reference to it is sent, since it is too large.
    pub(super) by_reference: bool,
    /// Where the cursor may move once it is done with: its place, or behind those after it that are
    /// not sent.
    until: FeedPosition,
    sent_at: Instant,
    is_open: bool,
}

/// What is done with and not yet behind the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Passed {
    /// The last of it.
    pub(super) to: FeedPosition,
    /// How many events that are.
    pub(super) events: usize,
    /// How many bytes these have.
    pub(super) bytes: usize,
}

impl Flight {
    pub(super) fn new() -> Self {
        Self {
            first: 0,
            flying: VecDeque::new(),
            bytes: 0,
            moved_at: None,
            passed: Passed::default(),
        }
    }

    /// Whether one more may be sent.
    pub(super) fn has_room(&self) -> bool {
        self.flying.len() < MANY && self.bytes < MANY_BYTES
    }

    /// Whether everything is done with.
    pub(super) fn is_empty(&self) -> bool {
        self.flying.is_empty()
    }

    /// Adds the next event of the feed, and gives it a number.
    pub(super) fn add(&mut self, message: FeedMessage, by_reference: bool, now: Instant) -> u64 {
        let number = self.first + self.flying.len() as u64;
        self.bytes += message.body.bytes.len();
        self.flying.push_back(Flying {
            until: message.feed,
            message,
            by_reference,
            sent_at: now,
            is_open: true,
        });
        number
    }

    /// Passes by an event of the feed that is not sent.
    pub(super) fn skip(&mut self, place: FeedPosition) {
        if let Some(last) = self.flying.back_mut() {
            last.until = place;
            return;
        }
        self.passed.to = place;
        self.passed.events += 1;
    }

    /// An event that is open.
    pub(super) fn get(&self, number: u64) -> Option<&Flying> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.flying.get(place).filter(|it| it.is_open)
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Flying> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.flying.get_mut(place).filter(|it| it.is_open)
    }

    /// Has an event sent once more, as a reference; whether it was not sent as one before.
    pub(super) fn refer(&mut self, number: u64, now: Instant) -> bool {
        let Some(flying) = self.get_mut(number) else {
            return false;
        };
        flying.sent_at = now;
        !std::mem::replace(&mut flying.by_reference, true)
    }

    /// An event is done with. Its bytes are let go, even where it has to wait for those before it.
    pub(super) fn close(&mut self, number: u64, now: Instant) {
        let Some(flying) = self.get_mut(number) else {
            return;
        };
        flying.is_open = false;
        let bytes = std::mem::take(&mut flying.message.body.bytes).len();
        self.bytes -= bytes;
        self.passed.bytes += bytes;
        while let Some(flying) = self.flying.pop_front_if(|it| !it.is_open) {
            self.first += 1;
            self.moved_at = Some(now);
            self.passed.to = flying.until;
            self.passed.events += 1;
        }
    }

    /// Since when nothing was heard of the first one that is open: since it was sent, or since it is
    /// the first. However long all of them take, a broker that goes through them one by one is heard.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        let first = self.flying.front()?;
        Some(
            self.moved_at
                .map_or(first.sent_at, |moved_at| moved_at.max(first.sent_at)),
        )
    }

    /// What the cursor may move over.
    pub(super) fn passed(&self) -> Option<Passed> {
        (self.passed.events > 0).then_some(self.passed)
    }

    /// The cursor has moved over what was passed.
    pub(super) fn moved(&mut self) {
        self.passed = Passed::default();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use noetl_store::EventBody;
    use noetl_types::{EventId, EventType, ExecutionId, Seq, Text, Timestamp};

    use super::*;

    fn place(position: i64) -> FeedPosition {
        FeedPosition { tx: 3, position }
    }

    fn message(position: i64, bytes: usize) -> FeedMessage {
        FeedMessage {
            feed: place(position),
            ingest_time: Timestamp::UNIX_EPOCH,
            subject: Text::from("s"),
            body: EventBody {
                execution_id: ExecutionId::new(1).unwrap(),
                event_id: EventId::new(position).unwrap(),
                seq: Seq::new(position).unwrap(),
                event_type: EventType::StepEnter.into(),
                bytes: vec![b'x'; bytes].into(),
            },
        }
    }

    fn passed(flight: &Flight) -> Option<(FeedPosition, usize)> {
        flight.passed().map(|passed| (passed.to, passed.events))
    }

    #[test]
    fn the_cursor_passes_nothing_that_is_open() {
        let (mut flight, now) = (Flight::new(), Instant::now());
        let numbers: Vec<_> = (1..=5)
            .map(|at| flight.add(message(at, 10), false, now))
            .collect();
        // The broker answers in any order, and twice.
        for late in [3, 1, 3] {
            flight.close(numbers[late], now);
            assert_eq!(passed(&flight), None);
        }
        flight.close(numbers[0], now);
        assert_eq!(passed(&flight), Some((place(2), 2)));
        flight.moved();
        assert_eq!(passed(&flight), None);
        flight.close(numbers[2], now);
        assert_eq!(passed(&flight), Some((place(4), 2)));
        assert!(flight.get(numbers[0]).is_none() && flight.get(numbers[4]).is_some());
        flight.close(numbers[4], now);
        assert_eq!(passed(&flight), Some((place(5), 3)));
        assert!(flight.is_empty() && flight.waits_since().is_none());
        // What nobody sent is nobody's.
        flight.close(numbers[4] + 1, now);
        assert_eq!(passed(&flight), Some((place(5), 3)));
    }

    /// Every order of answers: what is passed is what has nothing open before it.
    #[test]
    fn in_every_order_of_answers() {
        let orders = |left: &[usize]| left.to_vec();
        let mut open = vec![(orders(&[0, 1, 2, 3, 4]), Vec::new())];
        while let Some((left, gone)) = open.pop() {
            if left.is_empty() {
                let (mut flight, now) = (Flight::new(), Instant::now());
                let numbers: Vec<_> = (1..=5)
                    .map(|at| flight.add(message(at, 1), false, now))
                    .collect();
                for (count, closed) in gone.iter().enumerate() {
                    flight.close(numbers[*closed], now);
                    let closed = &gone[..=count];
                    let prefix = (0..5).take_while(|it| closed.contains(it)).count();
                    let events = flight.passed().map_or(0, |passed| passed.events);
                    assert_eq!(events, prefix, "{gone:?}");
                }
            }
            for next in &left {
                let rest = left.iter().copied().filter(|it| it != next).collect();
                open.push((rest, [&*gone, &[*next]].concat()));
            }
        }
    }

    #[test]
    fn what_is_on_its_way_is_bounded_in_number_and_bytes() {
        let (mut flight, now) = (Flight::new(), Instant::now());
        let first = flight.add(message(1, MANY_BYTES - 1), false, now);
        assert!(flight.has_room());
        let second = flight.add(message(2, 1), false, now);
        assert!(!flight.has_room());
        // Its bytes are gone, though it waits for the one before it.
        flight.close(second, now);
        assert!(flight.has_room());
        flight.close(first, now);
        let mut last = 2;
        while flight.has_room() {
            last += 1;
            flight.add(message(last, 1), false, now);
        }
        assert_eq!(usize::try_from(last - 2), Ok(MANY));
    }

    /// A broker may take longer for all of them together than for any one.
    #[test]
    fn a_broker_that_is_slow_is_not_silent() {
        let (mut flight, sent) = (Flight::new(), Instant::now());
        let numbers: Vec<_> = (1..=3)
            .map(|at| flight.add(message(at, 1), false, sent))
            .collect();
        assert_eq!(flight.waits_since(), Some(sent));
        let [first, second] = [4, 8].map(|seconds| sent + Duration::from_secs(seconds));
        flight.close(numbers[0], first);
        assert_eq!(flight.waits_since(), Some(first));
        // Of one that was overtaken nothing was heard, whatever is heard of others.
        flight.close(numbers[2], second);
        assert_eq!(flight.waits_since(), Some(first));
        let resent = first + Duration::from_secs(1);
        assert!(flight.refer(numbers[1], resent));
        assert_eq!(flight.waits_since(), Some(resent));
        // What is sent later waits since then, and not since something was last heard.
        flight.close(numbers[1], second);
        assert_eq!(flight.waits_since(), None);
        let later = second + Duration::from_mins(1);
        flight.add(message(4, 1), false, later);
        assert_eq!(flight.waits_since(), Some(later));
    }

    #[test]
    fn what_is_not_sent_is_passed_with_what_is_before_it() {
        let (mut flight, now) = (Flight::new(), Instant::now());
        flight.skip(place(1));
        assert_eq!(passed(&flight), Some((place(1), 1)));
        flight.moved();
        let number = flight.add(message(2, 1), false, now);
        flight.skip(place(3));
        flight.skip(place(4));
        assert_eq!(passed(&flight), None);
        flight.close(number, now);
        assert_eq!(passed(&flight), Some((place(4), 1)));
    }

    #[test]
    fn a_message_is_sent_as_a_reference_once() {
        let (mut flight, now) = (Flight::new(), Instant::now());
        let number = flight.add(message(1, 9), false, now);
        assert!(flight.refer(number, now));
        assert!(flight.get(number).unwrap().by_reference);
        assert!(!flight.refer(number, now));
        flight.close(number, now);
        assert!(!flight.refer(number, now));
    }
}
