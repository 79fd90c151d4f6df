//! Events that come in any order, folded in theirs.

use std::collections::BTreeMap;

use noetl_types::EventId;
use noetl_types::record::{EventRecord, Seq};

use super::state::{ReplayError, ReplayState};

/// Events that may wait for an earlier one.
const MAX_WAITING: usize = 100_000;

/// A fold that puts events into their order first.
///
/// An event that comes before its turn waits. The same event again counts once.
#[derive(Debug, Clone)]
pub struct InOrder {
    state: ReplayState,
    /// The events of the state, in order: 8 bytes each tell a repetition from a contradiction.
    folded: Vec<EventId>,
    waiting: BTreeMap<Seq, EventRecord>,
    /// The last event that is wanted.
    end: Option<Seq>,
}

impl InOrder {
    /// Goes on from the fold of no events.
    pub fn new(empty: ReplayState) -> Self {
        Self {
            state: empty,
            folded: Vec::new(),
            waiting: BTreeMap::new(),
            end: None,
        }
    }

    /// Wants nothing behind an event that has come, whenever that comes or came.
    pub fn end_at(&mut self, seq: Seq) {
        self.waiting.retain(|waiting, _| *waiting <= seq);
        self.end = Some(seq);
    }

    /// Takes an event.
    pub fn push(&mut self, record: EventRecord) -> Result<(), ReplayError> {
        let seq = record.seq;
        if self.end.is_some_and(|end| seq > end) {
            return Ok(());
        }
        if seq > self.state.version().next_seq() {
            return self.wait(record);
        }
        if let Some(first) = self.event_at(seq) {
            return same(seq, first, record.event.event_id);
        }
        self.fold(&record)?;
        while let Some(next) = self.waiting.remove(&self.state.version().next_seq()) {
            self.fold(&next)?;
        }
        Ok(())
    }

    fn wait(&mut self, record: EventRecord) -> Result<(), ReplayError> {
        if let Some(other) = self.waiting.get(&record.seq) {
            return same(record.seq, other.event.event_id, record.event.event_id);
        }
        if self.waiting.len() >= MAX_WAITING {
            return Err(self.gap(&record));
        }
        self.waiting.insert(record.seq, record);
        Ok(())
    }

    fn fold(&mut self, record: &EventRecord) -> Result<(), ReplayError> {
        self.state.apply(record)?;
        self.folded.push(record.event.event_id);
        Ok(())
    }

    fn event_at(&self, seq: Seq) -> Option<EventId> {
        let index = usize::try_from(seq.get() - 1).ok()?;
        self.folded.get(index).copied()
    }

    fn gap(&self, record: &EventRecord) -> ReplayError {
        ReplayError::Gap {
            event_id: record.event.event_id,
            found: record.seq,
            expected: self.state.version().next_seq(),
        }
    }

    /// How far the log is folded.
    pub fn state(&self) -> &ReplayState {
        &self.state
    }

    /// The fold of all events, if none is missing.
    pub fn finish(self) -> Result<ReplayState, ReplayError> {
        match self.waiting.values().next() {
            Some(record) => Err(self.gap(record)),
            None => Ok(self.state),
        }
    }
}

fn same(seq: Seq, first: EventId, second: EventId) -> Result<(), ReplayError> {
    if first == second {
        return Ok(());
    }
    Err(ReplayError::Twice { seq, first, second })
}
