//! Messages in flight to the broker, in the order of the feed.
//!
//! The broker acknowledges in any order. The cursor may move only over the acknowledged prefix.

use std::collections::VecDeque;

use noetl_store::FeedMessage;
use noetl_types::{FeedPosition, Timestamp};
use tokio::time::Instant;

/// Maximum events in flight.
const MAX_IN_FLIGHT_EVENTS: usize = 2_000;

/// Maximum bytes of events in flight. The last event may exceed it.
const MAX_IN_FLIGHT_BYTES: usize = 4 * 1024 * 1024;

/// Window of events between the cursor and the next event to send.
#[derive(Debug)]
pub(crate) struct InFlightWindow {
    /// Number of the first event that is not acknowledged.
    first: u64,
    in_flight: VecDeque<InFlightEvent>,
    /// Bytes of the unacknowledged events.
    bytes: usize,
    /// Time when the start of the window last moved.
    moved_at: Option<Instant>,
    acked_prefix: AckedPrefix,
}

/// An event in flight.
#[derive(Debug)]
pub(crate) struct InFlightEvent {
    pub(crate) message: FeedMessage,
    /// True if only a reference is sent, since the event is too large.
    pub(crate) by_reference: bool,
    /// Position to which the cursor may move once the event is acknowledged: its own, or that of
    /// the skipped events after it.
    cursor_target: FeedPosition,
    sent_at: Instant,
    is_open: bool,
}

/// Acknowledged prefix that the cursor has not passed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct AckedPrefix {
    /// Position of its last event.
    pub(crate) to: FeedPosition,
    /// Number of events.
    pub(crate) events: usize,
    /// Bytes of these events.
    pub(crate) bytes: usize,
}

impl InFlightWindow {
    pub(crate) fn new() -> Self {
        Self {
            first: 0,
            in_flight: VecDeque::new(),
            bytes: 0,
            moved_at: None,
            acked_prefix: AckedPrefix::default(),
        }
    }

    /// True if another event may be sent.
    pub(crate) fn has_room(&self) -> bool {
        self.in_flight.len() < MAX_IN_FLIGHT_EVENTS && self.bytes < MAX_IN_FLIGHT_BYTES
    }

    /// True if no event is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Adds the next event of the feed. Returns its number.
    pub(crate) fn add_event(
        &mut self,
        message: FeedMessage,
        by_reference: bool,
        now: Instant,
    ) -> u64 {
        let number = self.first + self.in_flight.len() as u64;
        self.bytes += message.body.bytes.len();
        self.in_flight.push_back(InFlightEvent {
            cursor_target: message.feed,
            message,
            by_reference,
            sent_at: now,
            is_open: true,
        });
        number
    }

    /// Skips an event of the feed that is not sent.
    pub(crate) fn skip_event(&mut self, position: FeedPosition) {
        if let Some(last) = self.in_flight.back_mut() {
            last.cursor_target = position;
            return;
        }
        self.acked_prefix.to = position;
        self.acked_prefix.events += 1;
    }

    /// Returns an unacknowledged event.
    pub(crate) fn get(&self, number: u64) -> Option<&InFlightEvent> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.in_flight.get(index).filter(|event| event.is_open)
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut InFlightEvent> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.in_flight.get_mut(index).filter(|event| event.is_open)
    }

    /// Marks an event to be sent again as a reference. Returns true if it was not one before.
    pub(crate) fn resend_as_reference(&mut self, number: u64, now: Instant) -> bool {
        let Some(event) = self.get_mut(number) else {
            return false;
        };
        event.sent_at = now;
        !std::mem::replace(&mut event.by_reference, true)
    }

    /// Acknowledges an event. Its bytes are freed, even if it must wait for those before it.
    pub(crate) fn acknowledge(&mut self, number: u64, now: Instant) {
        let Some(event) = self.get_mut(number) else {
            return;
        };
        event.is_open = false;
        let bytes = std::mem::take(&mut event.message.body.bytes).len();
        self.bytes -= bytes;
        self.acked_prefix.bytes += bytes;
        while let Some(event) = self.in_flight.pop_front_if(|event| !event.is_open) {
            self.first += 1;
            self.moved_at = Some(now);
            self.acked_prefix.to = event.cursor_target;
            self.acked_prefix.events += 1;
        }
    }

    /// Time since which the first unacknowledged event has waited: since it was sent, or since it
    /// became the first. A slow broker that acknowledges one by one does not time out.
    pub(crate) fn waiting_since(&self) -> Option<Instant> {
        let first = self.in_flight.front()?;
        Some(self.moved_at.map_or(first.sent_at, |moved_at| moved_at.max(first.sent_at)))
    }

    /// Acknowledged prefix that the cursor may move over.
    pub(crate) fn acked_prefix(&self) -> Option<AckedPrefix> {
        (self.acked_prefix.events > 0).then_some(self.acked_prefix)
    }

    /// Resets the prefix after the cursor has moved over it.
    pub(crate) fn reset_acked_prefix(&mut self) {
        self.acked_prefix = AckedPrefix::default();
    }
}

/// Acknowledged messages, as far as they are needed to detect that the stream was purged, even
/// while new messages arrive.
#[derive(Debug, Default)]
pub(crate) struct BrokerCheck {
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
    pub(crate) fn record_stored(&mut self, sequence: u64, at: Timestamp) {
        let stored = StoredMessage { sequence, at };
        self.reference.get_or_insert(stored);
        self.last = Some(stored);
    }

    /// Checks a stream whose first message is `first`. Returns true if a message is gone that was
    /// stored after `since`. Later losses are found by the next check.
    pub(crate) fn is_missing_message(&mut self, first: u64, since: Timestamp) -> bool {
        let reference = std::mem::replace(&mut self.reference, self.last);
        reference.is_some_and(|reference| reference.sequence < first && reference.at > since)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use noetl_store::EventBody;
    use noetl_types::{EventId, EventType, ExecutionId, Seq, Text, Timestamp};

    use super::*;

    fn feed_position(position: i64) -> FeedPosition {
        FeedPosition { tx: 3, position }
    }

    fn feed_message(position: i64, bytes: usize) -> FeedMessage {
        FeedMessage {
            feed: feed_position(position),
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

    fn acked_position_and_count(window: &InFlightWindow) -> Option<(FeedPosition, usize)> {
        window.acked_prefix().map(|prefix| (prefix.to, prefix.events))
    }

    #[test]
    fn cursor_does_not_pass_unacked_events() {
        let (mut window, now) = (InFlightWindow::new(), Instant::now());
        let numbers: Vec<_> = (1..=5)
            .map(|position| window.add_event(feed_message(position, 10), false, now))
            .collect();
        // The broker acknowledges in any order, and repeatedly.
        for late in [3, 1, 3] {
            window.acknowledge(numbers[late], now);
            assert_eq!(acked_position_and_count(&window), None);
        }
        window.acknowledge(numbers[0], now);
        assert_eq!(acked_position_and_count(&window), Some((feed_position(2), 2)));
        window.reset_acked_prefix();
        assert_eq!(acked_position_and_count(&window), None);
        window.acknowledge(numbers[2], now);
        assert_eq!(acked_position_and_count(&window), Some((feed_position(4), 2)));
        assert!(window.get(numbers[0]).is_none() && window.get(numbers[4]).is_some());
        window.acknowledge(numbers[4], now);
        assert_eq!(acked_position_and_count(&window), Some((feed_position(5), 3)));
        assert!(window.is_empty() && window.waiting_since().is_none());
        // A number that was never sent is ignored.
        window.acknowledge(numbers[4] + 1, now);
        assert_eq!(acked_position_and_count(&window), Some((feed_position(5), 3)));
    }

    /// For every order of acknowledgements, the prefix has no unacknowledged event before it.
    #[test]
    fn acked_prefix_is_correct_for_every_order() {
        let mut open = vec![(vec![0_usize, 1, 2, 3, 4], Vec::new())];
        while let Some((unacked, acked)) = open.pop() {
            if unacked.is_empty() {
                let (mut window, now) = (InFlightWindow::new(), Instant::now());
                let numbers: Vec<_> = (1..=5)
                    .map(|position| window.add_event(feed_message(position, 1), false, now))
                    .collect();
                for (count, next) in acked.iter().enumerate() {
                    window.acknowledge(numbers[*next], now);
                    let acked_so_far = &acked[..=count];
                    let prefix = (0..5).take_while(|index| acked_so_far.contains(index)).count();
                    let events = window.acked_prefix().map_or(0, |acked| acked.events);
                    assert_eq!(events, prefix, "{acked:?}");
                }
            }
            for next in &unacked {
                let rest = unacked.iter().copied().filter(|index| index != next).collect();
                open.push((rest, [&*acked, &[*next]].concat()));
            }
        }
    }

    #[test]
    fn window_is_bounded_in_events_and_bytes() {
        let (mut window, now) = (InFlightWindow::new(), Instant::now());
        let first = window.add_event(feed_message(1, MAX_IN_FLIGHT_BYTES - 1), false, now);
        assert!(window.has_room());
        let second = window.add_event(feed_message(2, 1), false, now);
        assert!(!window.has_room());
        // Its bytes are freed, although it waits for the event before it.
        window.acknowledge(second, now);
        assert!(window.has_room());
        window.acknowledge(first, now);
        let mut last = 2;
        while window.has_room() {
            last += 1;
            window.add_event(feed_message(last, 1), false, now);
        }
        assert_eq!(usize::try_from(last - 2), Ok(MAX_IN_FLIGHT_EVENTS));
    }

    /// A broker may take longer for all events together than the timeout of one.
    #[test]
    fn slow_broker_does_not_time_out() {
        let (mut window, sent) = (InFlightWindow::new(), Instant::now());
        let numbers: Vec<_> = (1..=3)
            .map(|position| window.add_event(feed_message(position, 1), false, sent))
            .collect();
        assert_eq!(window.waiting_since(), Some(sent));
        let [first, second] = [4, 8].map(|seconds| sent + Duration::from_secs(seconds));
        window.acknowledge(numbers[0], first);
        assert_eq!(window.waiting_since(), Some(first));
        // Acknowledgements of later events do not count for the first one.
        window.acknowledge(numbers[2], second);
        assert_eq!(window.waiting_since(), Some(first));
        let resent = first + Duration::from_secs(1);
        assert!(window.resend_as_reference(numbers[1], resent));
        assert_eq!(window.waiting_since(), Some(resent));
        // An event that is sent later waits since then, not since the last acknowledgement.
        window.acknowledge(numbers[1], second);
        assert_eq!(window.waiting_since(), None);
        let later = second + Duration::from_mins(1);
        window.add_event(feed_message(4, 1), false, later);
        assert_eq!(window.waiting_since(), Some(later));
    }

    #[test]
    fn skipped_events_are_passed_with_earlier_ones() {
        let (mut window, now) = (InFlightWindow::new(), Instant::now());
        window.skip_event(feed_position(1));
        assert_eq!(acked_position_and_count(&window), Some((feed_position(1), 1)));
        window.reset_acked_prefix();
        let number = window.add_event(feed_message(2, 1), false, now);
        window.skip_event(feed_position(3));
        window.skip_event(feed_position(4));
        assert_eq!(acked_position_and_count(&window), None);
        window.acknowledge(number, now);
        assert_eq!(acked_position_and_count(&window), Some((feed_position(4), 1)));
    }

    #[test]
    fn resends_as_reference_once() {
        let (mut window, now) = (InFlightWindow::new(), Instant::now());
        let number = window.add_event(feed_message(1, 9), false, now);
        assert!(window.resend_as_reference(number, now));
        assert!(window.get(number).unwrap().by_reference);
        assert!(!window.resend_as_reference(number, now));
        window.acknowledge(number, now);
        assert!(!window.resend_as_reference(number, now));
    }

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
