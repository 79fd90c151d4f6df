//! What every backend does to an append before it looks at its tables.
//!
//! Owns the checks that need no store, and the numbers, times and links that the events get. All
//! of it follows from the expected head, so it is done outside of any lock or transaction.

use std::collections::BTreeSet;

use noetl_types::{Chain, EventName, EventRecord, TenantId};

use crate::model::{
    Append, AppendRefused, CommandChange, ErrandChange, Fence, Head, InvalidAppend,
    MAX_APPEND_EVENTS, MAX_APPEND_ITEMS, MAX_APPEND_RESULT_BYTES, SlotChange, TimerChange,
    WaitChange,
};

/// An append that is ready to be written.
#[derive(Debug, Clone)]
pub(crate) struct Sealed {
    pub(crate) append: Append,
    /// The events with their places and links. The append's own list is empty by now.
    pub(crate) events: Vec<SealedEvent>,
    /// Where the log stands afterwards.
    pub(crate) head: Head,
    /// Whether the events may follow the end of the execution.
    pub(crate) is_audit: bool,
    /// Whose the execution is.
    pub(crate) tenant_id: TenantId,
}

/// An event that only lacks its place in the feed.
#[derive(Debug, Clone)]
pub(crate) struct SealedEvent {
    pub(crate) record: EventRecord,
    pub(crate) chain: Chain,
}

/// Seals the appends of one call, each by itself.
pub(crate) fn seal_all(appends: Vec<Append>) -> Vec<Result<Sealed, AppendRefused>> {
    let too_many = appends.len() > MAX_APPEND_ITEMS;
    appends
        .into_iter()
        .map(|append| {
            if too_many {
                return Err(InvalidAppend::TooManyItems.into());
            }
            Ok(seal(append)?)
        })
        .collect()
}

fn seal(mut append: Append) -> Result<Sealed, InvalidAppend> {
    check(&append)?;
    let tenant_id = append.tenant_id();
    let ingest_time = append.now.max(append.expected.ingest_time);
    let mut head = append.expected;
    let mut is_audit = true;
    let mut events = Vec::with_capacity(append.events.len());
    for event in std::mem::take(&mut append.events) {
        is_audit &= event.event_type.is_audit();
        let envelope = event.envelope_checksum();
        let seq = head.version.next_seq();
        let chain = head.chain.next(seq, ingest_time, &envelope);
        head = Head {
            version: seq.into(),
            chain,
            ingest_time,
        };
        events.push(SealedEvent {
            record: EventRecord {
                event,
                seq,
                ingest_time,
                envelope_checksum: append.keep_checksums.then_some(envelope),
            },
            chain,
        });
    }
    let is_audit = is_audit || append.is_copy;
    Ok(Sealed {
        append,
        events,
        head,
        is_audit,
        tenant_id,
    })
}

fn check(append: &Append) -> Result<(), InvalidAppend> {
    if append.events.is_empty() {
        return Err(InvalidAppend::NoEvents);
    }
    if append.events.len() > MAX_APPEND_EVENTS {
        return Err(InvalidAppend::TooManyEvents);
    }
    let is_ours = |event: &noetl_types::NewEvent| event.execution_id == append.execution_id;
    if !append.events.iter().all(is_ours) {
        return Err(InvalidAppend::ForeignEvent);
    }
    if append.start.is_some() != (append.expected == Head::START) {
        return Err(InvalidAppend::Start);
    }
    if !all_differ(append.commands.iter().map(CommandChange::command_id)) {
        return Err(InvalidAppend::CommandTwice);
    }
    if !all_differ(append.timers.iter().map(TimerChange::timer_id)) {
        return Err(InvalidAppend::TimerTwice);
    }
    if !all_differ(append.fences.iter().map(|fence: &Fence| fence.command_id)) {
        return Err(InvalidAppend::FenceTwice);
    }
    check_results(append)?;
    check_shared(append)?;
    check_issued(append)
}

fn check_results(append: &Append) -> Result<(), InvalidAppend> {
    if !all_differ(append.results.iter().map(|result| result.result_id)) {
        return Err(InvalidAppend::ResultTwice);
    }
    let bytes: usize = append.results.iter().map(|it| it.bytes.len()).sum();
    if bytes > MAX_APPEND_RESULT_BYTES {
        return Err(InvalidAppend::ResultsTooLarge);
    }
    Ok(())
}

fn check_shared(append: &Append) -> Result<(), InvalidAppend> {
    if !all_differ(append.waits.iter().map(WaitChange::command_id)) {
        return Err(InvalidAppend::WaitTwice);
    }
    let awaits_nothing = |change: &WaitChange| match change {
        WaitChange::Open(wait) => wait.names.is_empty(),
        WaitChange::Close { .. } => false,
    };
    if append.waits.iter().any(awaits_nothing) {
        return Err(InvalidAppend::WaitForNothing);
    }
    if !all_differ(append.errands.iter().map(ErrandChange::errand_id)) {
        return Err(InvalidAppend::ErrandTwice);
    }
    if !all_differ(append.slots.iter().map(SlotChange::subject)) {
        return Err(InvalidAppend::SlotTwice);
    }
    let keys = append.cached.iter().map(|put| (&put.scope, put.key_sha256));
    if !all_differ(keys) {
        return Err(InvalidAppend::CacheTwice);
    }
    if append.dedup.is_some() && append.start.is_none() {
        return Err(InvalidAppend::DedupWithoutStart);
    }
    Ok(())
}

fn check_issued(append: &Append) -> Result<(), InvalidAppend> {
    let ids: BTreeSet<_> = append.events.iter().map(|event| event.event_id).collect();
    let is_issued = |change: &CommandChange| match change {
        CommandChange::Issue(command) => ids.contains(&command.command_id.into()),
        CommandChange::Run { .. }
        | CommandChange::Close { .. }
        | CommandChange::Requeue { .. }
        | CommandChange::Hold { .. } => true,
    };
    if append.commands.iter().all(is_issued) {
        Ok(())
    } else {
        Err(InvalidAppend::NoIssuedEvent)
    }
}

fn all_differ<T: Ord>(values: impl Iterator<Item = T>) -> bool {
    let mut seen = BTreeSet::new();
    let mut values = values;
    values.all(|value| seen.insert(value))
}

impl Sealed {
    /// The id and the type of the last event; there always is one.
    pub(crate) fn last_event(&self) -> Option<(noetl_types::EventId, &EventName)> {
        let last = self.events.last()?;
        Some((last.record.event.event_id, &last.record.event.event_type))
    }
}
