//! The state that events fold into, one after the other.

use noetl_types::json::NoJson;
use noetl_types::record::{EventRecord, Seq, UpcastError, Version, upcast};
use noetl_types::replay::{Gist, Replayed, Sums};
use noetl_types::{EventId, ExecutionId, OrganizationId, StatusName, TenantId, Text};

use super::about::About;
use super::{business, command, execution, frame, looping, stage};

/// Rows that a fold remembers as odd; further ones are only counted.
const MAX_WARNINGS: usize = 20;

/// The replayed state of an execution as of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayState {
    pub(super) replayed: Replayed,
    /// Rows that could be folded, and tell less than they should.
    pub(super) odd: Vec<Text>,
    pub(super) odd_count: u64,
}

/// Why a log cannot be folded. What an event says is never the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// An event is missing, or out of its order.
    #[error("event {event_id} has seq {found}, and the next one is {expected}: the log has a gap")]
    Gap {
        /// The event.
        event_id: EventId,
        /// Where it stands.
        found: Seq,
        /// Where the next one should stand.
        expected: Seq,
    },
    /// Two events claim one place.
    #[error("events {first} and {second} both have seq {seq}")]
    Twice {
        /// The place.
        seq: Seq,
        /// One event.
        first: EventId,
        /// The other.
        second: EventId,
    },
    /// An event of another execution.
    #[error("event {event_id} at seq {seq} belongs to execution {found}, not to {expected}")]
    OtherExecution {
        /// The event.
        event_id: EventId,
        /// Its place.
        seq: Seq,
        /// Its execution.
        found: ExecutionId,
        /// The one that is replayed.
        expected: ExecutionId,
    },
    /// A newer program wrote an event.
    #[error("event {event_id} at seq {seq} cannot be read")]
    Unreadable {
        /// The event.
        event_id: EventId,
        /// Its place.
        seq: Seq,
        /// Why.
        #[source]
        cause: UpcastError,
    },
    /// What an event holds is not what anybody wrote.
    #[error("event {event_id} at seq {seq} is damaged")]
    Damaged {
        /// The event.
        event_id: EventId,
        /// Its place.
        seq: Seq,
        /// Why.
        #[source]
        cause: NoJson,
    },
}

impl ReplayState {
    /// The fold of no events.
    pub fn new(
        tenant_id: TenantId,
        organization_id: OrganizationId,
        execution_id: ExecutionId,
    ) -> Self {
        Self::of(Replayed::new(tenant_id, organization_id, execution_id))
    }

    pub(super) fn of(replayed: Replayed) -> Self {
        Self {
            replayed,
            odd: Vec::new(),
            odd_count: 0,
        }
    }

    /// Folds the next event.
    pub fn apply(&mut self, record: &EventRecord) -> Result<(), ReplayError> {
        if record.is_current() {
            return self.apply_gist(&Gist::from(record));
        }
        let (event_id, seq) = (record.event.event_id, record.seq);
        let current = upcast(record.clone()).map_err(|cause| ReplayError::Unreadable {
            event_id,
            seq,
            cause,
        })?;
        self.apply_gist(&Gist::from(&current))
    }

    /// Folds the next event from what a replay reads of it. After an error the state is of no use.
    pub fn apply_gist(&mut self, event: &Gist<'_>) -> Result<(), ReplayError> {
        let (event_id, seq) = (event.event_id, event.seq);
        let expected = self.version().next_seq();
        if seq != expected {
            return Err(ReplayError::Gap {
                event_id,
                found: seq,
                expected,
            });
        }
        if event.execution_id != self.replayed.execution_id {
            return Err(ReplayError::OtherExecution {
                event_id,
                seq,
                found: event.execution_id,
                expected: self.replayed.execution_id,
            });
        }
        self.fold(event).map_err(|cause| ReplayError::Damaged {
            event_id,
            seq,
            cause,
        })
    }

    fn fold(&mut self, event: &Gist<'_>) -> Result<(), NoJson> {
        let mut digits = itoa::Buffer::new();
        let about = About::new(event, &mut digits)?;
        let kind = event.event_type.meaning();
        let state = &mut self.replayed;
        state.event_count = event.seq.get();
        state.last_event_id = Some(about.number);
        if state.last_event_type.as_ref() != Some(event.event_type) {
            state.last_event_type = Some(event.event_type.clone());
        }
        let payload = execution::fold(&mut state.execution, &about, kind)?;
        stage::fold(&mut state.stages, &about, kind);
        frame::fold(&mut state.frames, &about, kind)?;
        command::fold(&mut state.commands, &about, kind)?;
        business::fold(&mut state.business_objects, &about, payload)?;
        looping::fold(&mut state.loops, &about, kind);
        if event.event_type.as_str() == "unknown" {
            self.warn(format!(
                "event {} at seq {} has no event type",
                event.event_id, event.seq
            ));
        }
        Ok(())
    }

    fn warn(&mut self, text: String) {
        self.odd_count = self.odd_count.saturating_add(1);
        if self.odd.len() < MAX_WARNINGS {
            self.odd.push(text.into());
        }
    }

    /// How far the log is folded.
    pub fn version(&self) -> Version {
        Version::new(self.replayed.event_count).unwrap_or_default()
    }

    /// How many entries it has, which tells how large it is.
    pub fn entries(&self) -> i64 {
        let state = &self.replayed;
        let entries = state.stages.len()
            + state.frames.len()
            + state.commands.len()
            + state.business_objects.len()
            + state.loops.len()
            + state.execution.payload_refs.len();
        i64::try_from(entries).unwrap_or(i64::MAX)
    }

    /// Where the execution stands.
    pub fn status(&self) -> &StatusName {
        &self.replayed.execution.status
    }

    /// What readers see.
    pub fn replayed(&self) -> &Replayed {
        &self.replayed
    }

    /// What readers see.
    pub fn into_replayed(self) -> Replayed {
        self.replayed
    }

    /// The checksums of what readers see.
    pub fn checksums(&self) -> Sums {
        self.replayed.checksums()
    }

    /// What is odd about the log, in words; bounded.
    pub fn warnings(&self) -> Vec<Text> {
        let mut texts = self.odd.clone();
        let more = self
            .odd_count
            .saturating_sub(u64::try_from(self.odd.len()).unwrap_or(u64::MAX));
        if more > 0 {
            texts.push(format!("and {more} more of the kind").into());
        }
        texts
    }
}

/// Folds events that come in any order. The same event twice counts once.
pub fn fold(
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
            return Err(ReplayError::Twice {
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
