//! Folds events that arrive in any order.

use std::collections::BTreeMap;

use noetl_types::EventId;
use noetl_types::record::{EventRecord, Seq};

use super::state::{ReplayError, ReplayState};

/// Maximum number of events that wait for an earlier one.
const MAX_WAITING_EVENTS: usize = 100_000;

/// A fold that reorders events by seq.
///
/// An event that arrives early is held back. A repeated event is ignored.
#[derive(Debug, Clone)]
pub struct OrderedFold {
    state: ReplayState,
    /// Ids of the folded events, in order. Eight bytes each distinguish a repetition from a
    /// conflict.
    folded: Vec<EventId>,
    waiting: BTreeMap<Seq, EventRecord>,
    /// Seq of the last event to fold.
    end: Option<Seq>,
}

impl OrderedFold {
    /// Starts from the fold of no events.
    pub fn new(empty: ReplayState) -> Self {
        Self { state: empty, folded: Vec::new(), waiting: BTreeMap::new(), end: None }
    }

    /// Ignores all events after a seq that was already received.
    pub fn end_at(&mut self, seq: Seq) {
        self.waiting.retain(|waiting, _| *waiting <= seq);
        self.end = Some(seq);
    }

    /// Adds an event.
    pub fn push(&mut self, record: EventRecord) -> Result<(), ReplayError> {
        let seq = record.seq;
        if self.end.is_some_and(|end| seq > end) {
            return Ok(());
        }
        if seq > self.state.version().next_seq() {
            return self.hold_back(record);
        }
        if let Some(first) = self.event_at(seq) {
            return check_same_event(seq, first, record.event.event_id);
        }
        self.fold_next(&record)?;
        while let Some(next) = self.waiting.remove(&self.state.version().next_seq()) {
            self.fold_next(&next)?;
        }
        Ok(())
    }

    fn hold_back(&mut self, record: EventRecord) -> Result<(), ReplayError> {
        if let Some(other) = self.waiting.get(&record.seq) {
            return check_same_event(record.seq, other.event.event_id, record.event.event_id);
        }
        if self.waiting.len() >= MAX_WAITING_EVENTS {
            return Err(self.gap_error(&record));
        }
        self.waiting.insert(record.seq, record);
        Ok(())
    }

    fn fold_next(&mut self, record: &EventRecord) -> Result<(), ReplayError> {
        self.state.apply(record)?;
        self.folded.push(record.event.event_id);
        Ok(())
    }

    fn event_at(&self, seq: Seq) -> Option<EventId> {
        let index = usize::try_from(seq.get() - 1).ok()?;
        self.folded.get(index).copied()
    }

    fn gap_error(&self, record: &EventRecord) -> ReplayError {
        ReplayError::Gap {
            event_id: record.event.event_id,
            found: record.seq,
            expected: self.state.version().next_seq(),
        }
    }

    /// Current state of the fold.
    pub fn state(&self) -> &ReplayState {
        &self.state
    }

    /// Returns the fold of all events if none is missing.
    pub fn finish(self) -> Result<ReplayState, ReplayError> {
        match self.waiting.values().next() {
            Some(record) => Err(self.gap_error(record)),
            None => Ok(self.state),
        }
    }
}

fn check_same_event(seq: Seq, first: EventId, second: EventId) -> Result<(), ReplayError> {
    if first == second {
        return Ok(());
    }
    Err(ReplayError::DuplicateSeq { seq, first, second })
}
