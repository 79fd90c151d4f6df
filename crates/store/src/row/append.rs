//! Encoding of an append as rows.
//!
//! The caller encodes them before the append reaches a writer, because all other appends wait for
//! the writer.

use noetl_types::{ExecutionId, TenantId, Timestamp};

use super::cell::Cell;
use super::coordination::{
    encode_cache_put, encode_dedup, encode_follow_up_change, encode_idempotency_record,
    encode_slot_id, encode_wait_end,
};
use super::core_tables::{encode_execution, encode_patch};
use super::event::encode_event;
use super::publishing::encode_outbox_rows;
use super::result::encode_new_result;
use super::table::ToRow as _;
use crate::model::{
    AppendError, CommandChange, DedupReservation, Fence, FollowUpChange, IdempotencyRecord,
    LogHead, SlotChange, SlotId, TimerChange, WaitChange,
};
use crate::prepare_append::PreparedAppend;

type Row = Vec<Cell>;

/// Change that an append makes to a row of a coordination table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowChange {
    /// Inserts or replaces the row.
    Put,
    /// Confirms the row.
    Confirm,
    /// Deletes the row. The cells contain only its key.
    Drop,
}

impl RowChange {
    /// Canonical name.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Confirm => "confirm",
            Self::Drop => "drop",
        }
    }
}

/// A row of a coordination table, and the change to it.
#[derive(Debug)]
pub(crate) struct CoordinationRow {
    pub(crate) change: RowChange,
    pub(crate) cells: Row,
}

fn put_row(cells: Row) -> CoordinationRow {
    CoordinationRow { change: RowChange::Put, cells }
}

fn drop_row(cells: Row) -> CoordinationRow {
    CoordinationRow { change: RowChange::Drop, cells }
}

/// Encodes the awaited names, each wait followed by the key from which its remaining names are
/// deleted, because the previous wait may have had more.
fn wait_rows(prepared: &mut PreparedAppend) -> Vec<CoordinationRow> {
    let (execution_id, since) = (prepared.append.execution_id, prepared.head.ingest_time);
    let mut rows = Vec::new();
    for change in std::mem::take(&mut prepared.append.waits) {
        let command_id = change.command_id().get();
        let mut count = 0;
        if let WaitChange::Open(wait) = change {
            for open in wait.into_open_waits(&prepared.tenant_id, execution_id, since) {
                count = open.position.number.saturating_add(1);
                rows.push(put_row(open.to_row()));
            }
        }
        rows.push(drop_row(encode_wait_end(execution_id, command_id, count)));
    }
    rows
}

fn follow_up_rows(prepared: &PreparedAppend) -> Vec<CoordinationRow> {
    let changes = prepared.append.follow_ups.iter();
    changes
        .map(|change| {
            let cells = encode_follow_up_change(prepared.append.execution_id, change);
            match change {
                FollowUpChange::Add { .. } => put_row(cells),
                FollowUpChange::Done { .. } => drop_row(cells),
            }
        })
        .collect()
}

/// Encodes changes of slots.
pub(crate) fn slot_rows(
    tenant_id: &TenantId,
    execution_id: ExecutionId,
    changes: Vec<SlotChange>,
) -> Vec<CoordinationRow> {
    let id = |key, holder| SlotId { tenant_id: tenant_id.clone(), key, execution_id, holder };
    changes
        .into_iter()
        .map(|change| match change {
            SlotChange::Request(request) => {
                put_row(request.into_slot(tenant_id, execution_id).to_row())
            }
            SlotChange::Confirm { key, holder } => CoordinationRow {
                change: RowChange::Confirm,
                cells: encode_slot_id(&id(key, holder)),
            },
            SlotChange::Release { key, holder } => drop_row(encode_slot_id(&id(key, holder))),
        })
        .collect()
}

/// The rows of an append.
#[derive(Debug)]
pub(crate) struct AppendRows {
    pub(crate) execution_id: ExecutionId,
    /// Required head of the log.
    pub(crate) expected: LogHead,
    /// Head of the log after the append.
    pub(crate) head: LogHead,
    /// True if the append creates the execution.
    pub(crate) starts_execution: bool,
    /// True if the events may follow the end of the execution.
    pub(crate) is_audit: bool,
    pub(crate) fences: Vec<Fence>,
    pub(crate) timers: Vec<TimerChange>,
    pub(crate) execution: Row,
    pub(crate) events: Vec<Row>,
    pub(crate) issued: Vec<Row>,
    /// Changes of commands, each with its command id.
    pub(crate) patches: Vec<(i64, Row)>,
    pub(crate) results: Vec<Row>,
    /// Outbox rows, in the order of the events.
    pub(crate) outbox: Vec<Row>,
    pub(crate) waits: Vec<CoordinationRow>,
    pub(crate) follow_ups: Vec<CoordinationRow>,
    pub(crate) slots: Vec<CoordinationRow>,
    pub(crate) cache_puts: Vec<Row>,
    /// The message that starts the execution, with its row.
    pub(crate) dedup: Option<(DedupReservation, Row)>,
    /// The request that causes the append, with the clock and its row.
    pub(crate) idempotency: Option<(IdempotencyRecord, Timestamp, Row)>,
    /// Approximate total size.
    pub(crate) bytes: usize,
}

/// Encodes prepared appends.
pub(crate) fn to_append_rows(
    prepared: Vec<Result<PreparedAppend, AppendError>>,
) -> Vec<Result<AppendRows, AppendError>> {
    prepared.into_iter().map(|prepared| prepared.map(AppendRows::from_prepared)).collect()
}

impl AppendRows {
    /// True if it changes a coordination table.
    pub(crate) fn touches_coordination(&self) -> bool {
        let Self { waits, follow_ups, slots, cache_puts, dedup, idempotency, .. } = self;
        dedup.is_some()
            || idempotency.is_some()
            || !(waits.is_empty()
                && follow_ups.is_empty()
                && slots.is_empty()
                && cache_puts.is_empty())
    }

    fn from_prepared(mut prepared: PreparedAppend) -> Self {
        let execution_id = prepared.append.execution_id;
        let execution = encode_execution(&prepared);
        let events: Vec<_> = prepared.events.iter().map(encode_event).collect();
        let results = prepared.append.results.iter();
        let results: Vec<_> = results.map(|result| encode_new_result(&prepared, result)).collect();
        let mut issued = Vec::new();
        let mut patches = Vec::new();
        for change in std::mem::take(&mut prepared.append.commands) {
            if let Some(patch) = change.to_patch() {
                let row = encode_patch(execution_id, &patch);
                patches.push((patch.command_id.get(), row));
            } else if let CommandChange::Issue(command) = change {
                issued.push(command.into_command(execution_id).to_row());
            }
        }
        let size = |rows: &[Row]| rows.iter().flatten().map(Cell::approximate_bytes).sum::<usize>();
        let cache_puts: Vec<_> = {
            let puts = prepared.append.cache_puts.iter();
            puts.map(|put| encode_cache_put(&prepared, put)).collect()
        };
        let now = prepared.append.now;
        Self {
            bytes: size(&events) + size(&issued) + size(&results) + size(&cache_puts),
            outbox: encode_outbox_rows(&prepared, &events),
            waits: wait_rows(&mut prepared),
            follow_ups: follow_up_rows(&prepared),
            slots: slot_rows(
                &prepared.tenant_id,
                prepared.append.execution_id,
                std::mem::take(&mut prepared.append.slots),
            ),
            cache_puts,
            dedup: prepared.append.dedup.take().map(|reservation| {
                let row = encode_dedup(&prepared, &reservation);
                (reservation, row)
            }),
            idempotency: prepared.append.idempotency.take().map(|record| {
                let row = encode_idempotency_record(
                    &prepared.tenant_id, prepared.append.execution_id, &record,
                );
                (record, now, row)
            }),
            execution_id,
            expected: prepared.append.expected_head,
            head: prepared.head,
            starts_execution: prepared.append.start.is_some(),
            is_audit: prepared.is_audit,
            fences: prepared.append.fences,
            timers: prepared.append.timers,
            execution,
            events,
            issued,
            patches,
            results,
        }
    }
}
