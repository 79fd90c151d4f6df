//! Preparation of appends, shared by all backends.
//!
//! Owns the checks that need no store, and assigns sequence numbers, ingest times and chain digests
//! to the events. All of it depends only on the expected head, so it runs outside of any lock or
//! transaction.

use std::collections::BTreeSet;

use noetl_types::{ChainHash, EventName, EventRecord, TenantId};

use crate::model::{
    AppendError, AppendRequest, CommandChange, Fence, FollowUpChange, InvalidAppend, LogHead,
    MAX_APPEND_EVENTS, MAX_APPEND_ITEMS, MAX_APPEND_RESULT_BYTES, SlotChange, TimerChange,
    WaitChange,
};

/// A validated append that is ready to be written.
#[derive(Debug, Clone)]
pub(crate) struct PreparedAppend {
    pub(crate) append: AppendRequest,
    /// The events with sequence numbers and chain digests. The list in `append` is empty.
    pub(crate) events: Vec<PreparedEvent>,
    /// Head of the log after the append.
    pub(crate) head: LogHead,
    /// True if the events may follow the end of the execution.
    pub(crate) is_audit: bool,
    pub(crate) tenant_id: TenantId,
}

/// An event that lacks only its feed position.
#[derive(Debug, Clone)]
pub(crate) struct PreparedEvent {
    pub(crate) record: EventRecord,
    pub(crate) chain: ChainHash,
}

/// Prepares the appends of one call independently.
pub(crate) fn prepare_appends(
    appends: Vec<AppendRequest>,
) -> Vec<Result<PreparedAppend, AppendError>> {
    let too_many = appends.len() > MAX_APPEND_ITEMS;
    appends
        .into_iter()
        .map(|append| {
            if too_many {
                return Err(InvalidAppend::TooManyItems.into());
            }
            Ok(prepare_append(append)?)
        })
        .collect()
}

fn prepare_append(mut append: AppendRequest) -> Result<PreparedAppend, InvalidAppend> {
    check_append(&append)?;
    let tenant_id = append.tenant_id();
    let ingest_time = append.now.max(append.expected_head.ingest_time);
    let mut head = append.expected_head;
    let mut is_audit = true;
    let mut events = Vec::with_capacity(append.events.len());
    for event in std::mem::take(&mut append.events) {
        is_audit &= event.event_type.is_audit();
        let envelope = event.envelope_checksum();
        let seq = head.version.next_seq();
        let chain = head.chain.next(seq, ingest_time, &envelope);
        head = LogHead { version: seq.into(), chain, ingest_time };
        events.push(PreparedEvent {
            record: EventRecord {
                event,
                seq,
                ingest_time,
                envelope_checksum: append.keep_checksums.then_some(envelope),
            },
            chain,
        });
    }
    let is_audit = is_audit || append.is_projected;
    Ok(PreparedAppend { append, events, head, is_audit, tenant_id })
}

fn check_append(append: &AppendRequest) -> Result<(), InvalidAppend> {
    if append.events.is_empty() {
        return Err(InvalidAppend::NoEvents);
    }
    if append.events.len() > MAX_APPEND_EVENTS {
        return Err(InvalidAppend::TooManyEvents);
    }
    let is_same_execution =
        |event: &noetl_types::NewEvent| event.execution_id == append.execution_id;
    if !append.events.iter().all(is_same_execution) {
        return Err(InvalidAppend::ForeignEvent);
    }
    if append.start.is_some() != (append.expected_head == LogHead::START) {
        return Err(InvalidAppend::Start);
    }
    if !are_distinct(append.commands.iter().map(CommandChange::command_id)) {
        return Err(InvalidAppend::CommandTwice);
    }
    if !are_distinct(append.timers.iter().map(TimerChange::timer_id)) {
        return Err(InvalidAppend::TimerTwice);
    }
    if !are_distinct(append.fences.iter().map(|fence: &Fence| fence.command_id)) {
        return Err(InvalidAppend::FenceTwice);
    }
    check_results(append)?;
    check_coordination(append)?;
    check_issued_commands(append)
}

fn check_results(append: &AppendRequest) -> Result<(), InvalidAppend> {
    if !are_distinct(append.results.iter().map(|result| result.result_id)) {
        return Err(InvalidAppend::ResultTwice);
    }
    let bytes: usize = append.results.iter().map(|it| it.bytes.len()).sum();
    if bytes > MAX_APPEND_RESULT_BYTES {
        return Err(InvalidAppend::ResultsTooLarge);
    }
    Ok(())
}

fn check_coordination(append: &AppendRequest) -> Result<(), InvalidAppend> {
    if !are_distinct(append.waits.iter().map(WaitChange::command_id)) {
        return Err(InvalidAppend::WaitTwice);
    }
    let awaits_nothing = |change: &WaitChange| match change {
        WaitChange::Open(wait) => wait.names.is_empty(),
        WaitChange::Close { .. } => false,
    };
    if append.waits.iter().any(awaits_nothing) {
        return Err(InvalidAppend::WaitForNothing);
    }
    if !are_distinct(append.follow_ups.iter().map(FollowUpChange::follow_up_id)) {
        return Err(InvalidAppend::FollowUpTwice);
    }
    if !are_distinct(append.slots.iter().map(SlotChange::key_and_holder)) {
        return Err(InvalidAppend::SlotTwice);
    }
    let keys = append.cache_puts.iter().map(|put| (&put.scope, put.key_sha256));
    if !are_distinct(keys) {
        return Err(InvalidAppend::CacheTwice);
    }
    if append.dedup.is_some() && append.start.is_none() {
        return Err(InvalidAppend::DedupWithoutStart);
    }
    Ok(())
}

fn check_issued_commands(append: &AppendRequest) -> Result<(), InvalidAppend> {
    let ids: BTreeSet<_> = append.events.iter().map(|event| event.event_id).collect();
    let is_issued = |change: &CommandChange| match change {
        CommandChange::Issue(command) => ids.contains(&command.command_id.into()),
        CommandChange::Run { .. }
        | CommandChange::Close { .. }
        | CommandChange::Requeue { .. }
        | CommandChange::Hold { .. } => true,
    };
    if append.commands.iter().all(is_issued) { Ok(()) } else { Err(InvalidAppend::NoIssuedEvent) }
}

fn are_distinct<T: Ord>(values: impl Iterator<Item = T>) -> bool {
    let mut seen = BTreeSet::new();
    let mut values = values;
    values.all(|value| seen.insert(value))
}

impl PreparedAppend {
    /// Returns the id and the type of the last event, which always exists.
    pub(crate) fn last_event(&self) -> Option<(noetl_types::EventId, &EventName)> {
        let last = self.events.last()?;
        Some((last.record.event.event_id, &last.record.event.event_type))
    }
}
