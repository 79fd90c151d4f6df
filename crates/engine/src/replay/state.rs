//! State of a replay, built by folding events in order.

use noetl_types::json::InvalidJson;
use noetl_types::record::{EventRecord, ExecutionVersion, Seq, UpcastError, upcast_record};
use noetl_types::replay::{ReplayChecksums, ReplayRow, ReplayedState};
use noetl_types::{EventId, ExecutionId, OrganizationId, StatusName, TenantId, Text};

use super::folded_event::FoldedEvent;
use super::{business, entries};

/// Maximum number of stored warnings. Further ones are only counted.
const MAX_WARNINGS: usize = 20;

/// Replayed state of an execution as of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayState {
    pub(super) replayed: ReplayedState,
    /// Warnings about events that were folded but are incomplete.
    pub(super) stored_warnings: Vec<Text>,
    pub(super) warning_count: u64,
}

/// Reason why a log cannot be folded. The content of an event is never the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// An event is missing or out of order.
    #[error("event {event_id} has seq {found}, but seq {expected} is next: the log has a gap")]
    Gap {
        /// The event.
        event_id: EventId,
        /// Its seq.
        found: Seq,
        /// Seq of the next event.
        expected: Seq,
    },
    /// Two events have the same seq.
    #[error("events {first} and {second} both have seq {seq}")]
    DuplicateSeq {
        /// The seq.
        seq: Seq,
        /// The first event.
        first: EventId,
        /// The second event.
        second: EventId,
    },
    /// An event of another execution.
    #[error("event {event_id} at seq {seq} belongs to execution {found}, not to {expected}")]
    OtherExecution {
        /// The event.
        event_id: EventId,
        /// Its seq.
        seq: Seq,
        /// Its execution.
        found: ExecutionId,
        /// The replayed execution.
        expected: ExecutionId,
    },
    /// The event was written by a newer program.
    #[error("event {event_id} at seq {seq} cannot be read")]
    Unreadable {
        /// The event.
        event_id: EventId,
        /// Its seq.
        seq: Seq,
        /// The cause.
        #[source]
        cause: UpcastError,
    },
    /// The event contains invalid JSON.
    #[error("event {event_id} at seq {seq} is damaged")]
    Damaged {
        /// The event.
        event_id: EventId,
        /// Its seq.
        seq: Seq,
        /// The cause.
        #[source]
        cause: InvalidJson,
    },
}

impl ReplayState {
    /// Creates the fold of no events.
    pub fn new(
        tenant_id: TenantId,
        organization_id: OrganizationId,
        execution_id: ExecutionId,
    ) -> Self {
        Self::from_replayed(ReplayedState::new(tenant_id, organization_id, execution_id))
    }

    pub(super) fn from_replayed(replayed: ReplayedState) -> Self {
        Self { replayed, stored_warnings: Vec::new(), warning_count: 0 }
    }

    /// Folds the next event.
    pub fn apply(&mut self, record: &EventRecord) -> Result<(), ReplayError> {
        if record.is_current() {
            return self.apply_row(&ReplayRow::from(record));
        }
        let (event_id, seq) = (record.event.event_id, record.seq);
        let current = upcast_record(record.clone()).map_err(|cause| ReplayError::Unreadable {
            event_id,
            seq,
            cause,
        })?;
        self.apply_row(&ReplayRow::from(&current))
    }

    /// Folds the next event from its replay row. After an error the state must not be used.
    pub fn apply_row(&mut self, event: &ReplayRow<'_>) -> Result<(), ReplayError> {
        let (event_id, seq) = (event.event_id, event.seq);
        let expected = self.version().next_seq();
        if seq != expected {
            return Err(ReplayError::Gap { event_id, found: seq, expected });
        }
        if event.execution_id != self.replayed.execution_id.0 {
            return Err(ReplayError::OtherExecution {
                event_id,
                seq,
                found: event.execution_id,
                expected: self.replayed.execution_id.0,
            });
        }
        self.fold_event(event).map_err(|cause| ReplayError::Damaged { event_id, seq, cause })
    }

    fn fold_event(&mut self, event: &ReplayRow<'_>) -> Result<(), InvalidJson> {
        let mut digits = itoa::Buffer::new();
        let view = FoldedEvent::new(event, &mut digits)?;
        let kind = event.event_type.resolved_type();
        let state = &mut self.replayed;
        state.event_count = event.seq.get();
        state.last_event_id = Some(view.number);
        if state.last_event_type.as_ref() != Some(event.event_type) {
            state.last_event_type = Some(event.event_type.clone());
        }
        let payload = entries::fold_execution(&mut state.execution, &view, kind)?;
        entries::fold_stage(&mut state.stages, &view, kind);
        entries::fold_frame(&mut state.frames, &view, kind)?;
        entries::fold_command(&mut state.commands, &view, kind)?;
        business::fold_business_object(&mut state.business_objects, &view, payload)?;
        entries::fold_loop(&mut state.loops, &view, kind);
        if event.event_type.as_str() == "unknown" {
            self.add_warning(format!(
                "event {} at seq {} has no event type",
                event.event_id, event.seq
            ));
        }
        Ok(())
    }

    fn add_warning(&mut self, text: String) {
        self.warning_count = self.warning_count.saturating_add(1);
        if self.stored_warnings.len() < MAX_WARNINGS {
            self.stored_warnings.push(text.into());
        }
    }

    /// Seq of the last folded event.
    pub fn version(&self) -> ExecutionVersion {
        ExecutionVersion::new(self.replayed.event_count).unwrap_or_default()
    }

    /// Number of entries, as a measure of the size.
    pub fn entry_count(&self) -> i64 {
        let state = &self.replayed;
        let entries = state.stages.len()
            + state.frames.len()
            + state.commands.len()
            + state.business_objects.len()
            + state.loops.len()
            + state.execution.payload_refs.len();
        i64::try_from(entries).unwrap_or(i64::MAX)
    }

    /// Status of the execution.
    pub fn status(&self) -> &StatusName {
        &self.replayed.execution.status
    }

    /// Entries that readers see.
    pub fn replayed(&self) -> &ReplayedState {
        &self.replayed
    }

    /// Entries that readers see.
    pub fn into_replayed(self) -> ReplayedState {
        self.replayed
    }

    /// Checksums of the entries.
    pub fn checksums(&self) -> ReplayChecksums {
        self.replayed.compute_checksums()
    }

    /// Warnings about the log. Their number is bounded.
    pub fn warnings(&self) -> Vec<Text> {
        let mut texts = self.stored_warnings.clone();
        let more = self
            .warning_count
            .saturating_sub(u64::try_from(self.stored_warnings.len()).unwrap_or(u64::MAX));
        if more > 0 {
            texts.push(format!("and {more} more warnings").into());
        }
        texts
    }
}

/// Folds events in any order. Repeated events count once.
pub fn fold_records(
    mut state: ReplayState,
    mut events: Vec<EventRecord>,
) -> Result<ReplayState, ReplayError> {
    events.sort_by_key(|record| record.seq);
    let mut last: Option<&EventRecord> = None;
    for record in &events {
        if let Some(last) = last
            && last.seq == record.seq
        {
            if last == record {
                continue;
            }
            return Err(ReplayError::DuplicateSeq {
                seq: record.seq,
                first: last.event.event_id,
                second: record.event.event_id,
            });
        }
        state.apply(record)?;
        last = Some(record);
    }
    Ok(state)
}
