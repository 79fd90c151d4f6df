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
mod tests;
