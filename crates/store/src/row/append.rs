//! An append as rows.
//!
//! Whoever appends makes them, before a writer sees the append: what a writer does is what all
//! others wait for.

use noetl_types::{ExecutionId, TenantId, Timestamp};

use super::cell::Cell;
use super::event::event_row;
use super::outlets::outbox_rows;
use super::result::result_row;
use super::shared::{
    answered_row, cache_row, dedup_row, errand_row, slot_id_row, slot_row, wait_end, wait_row,
};
use super::tables::{command_row, execution_row, patch_row};
use crate::model::{
    AppendRefused, CommandChange, DedupClaim, ErrandChange, Fence, Head, IdempotencyClaim,
    SlotChange, SlotId, TimerChange, WaitChange,
};
use crate::seal::Sealed;

type Row = Vec<Cell>;

/// What an append does to a row that is about more than its execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// It is there from now on.
    Put,
    /// It counts from now on.
    Confirm,
    /// It is not there any more. The row is its key alone.
    Drop,
}

impl Act {
    /// The one spelling.
    #[cfg(feature = "postgres")]
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Confirm => "confirm",
            Self::Drop => "drop",
        }
    }
}

/// A row that is about more than its execution, and what becomes of it.
#[derive(Debug)]
pub(crate) struct SharedRow {
    pub(crate) act: Act,
    pub(crate) cells: Row,
}

fn put(cells: Row) -> SharedRow {
    SharedRow {
        act: Act::Put,
        cells,
    }
}

fn drop_row(cells: Row) -> SharedRow {
    SharedRow {
        act: Act::Drop,
        cells,
    }
}

/// The names that are awaited, and behind those of each wait where it ends: there may have been more.
fn wait_rows(sealed: &mut Sealed) -> Vec<SharedRow> {
    let (execution_id, since) = (sealed.append.execution_id, sealed.head.ingest_time);
    let mut rows = Vec::new();
    for change in std::mem::take(&mut sealed.append.waits) {
        let command_id = change.command_id().get();
        let mut count = 0;
        if let WaitChange::Open(wait) = change {
            for open in wait.into_open(&sealed.tenant_id, execution_id, since) {
                count = open.place.number.saturating_add(1);
                rows.push(put(wait_row(&open)));
            }
        }
        rows.push(drop_row(wait_end(execution_id, (command_id, count))));
    }
    rows
}

fn errand_rows(sealed: &Sealed) -> Vec<SharedRow> {
    let changes = sealed.append.errands.iter();
    changes
        .map(|change| {
            let cells = errand_row(sealed.append.execution_id, change);
            match change {
                ErrandChange::Add { .. } => put(cells),
                ErrandChange::Done { .. } => drop_row(cells),
            }
        })
        .collect()
}

/// Takes changes of slots apart.
pub(crate) fn slot_rows(
    tenant_id: &TenantId,
    execution_id: ExecutionId,
    changes: Vec<SlotChange>,
) -> Vec<SharedRow> {
    let id = |key, holder| SlotId {
        tenant_id: tenant_id.clone(),
        key,
        execution_id,
        holder,
    };
    changes
        .into_iter()
        .map(|change| match change {
            SlotChange::Want(wish) => put(slot_row(&wish.into_slot(tenant_id, execution_id))),
            SlotChange::Confirm { key, holder } => SharedRow {
                act: Act::Confirm,
                cells: slot_id_row(&id(key, holder)),
            },
            SlotChange::Free { key, holder } => drop_row(slot_id_row(&id(key, holder))),
        })
        .collect()
}

/// An append that is ready to be written.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) execution_id: ExecutionId,
    /// Where the log must stand.
    pub(crate) expected: Head,
    /// Where it stands afterwards.
    pub(crate) head: Head,
    /// Whether it makes the execution.
    pub(crate) starts: bool,
    /// Whether the events may follow the end of the execution.
    pub(crate) is_audit: bool,
    pub(crate) fences: Vec<Fence>,
    pub(crate) timers: Vec<TimerChange>,
    pub(crate) execution: Row,
    pub(crate) events: Vec<Row>,
    pub(crate) issued: Vec<Row>,
    /// Changes of commands, each with the number of its command.
    pub(crate) patches: Vec<(i64, Row)>,
    pub(crate) results: Vec<Row>,
    /// Rows of the outbox, in the order of the events.
    pub(crate) outbox: Vec<Row>,
    pub(crate) waits: Vec<SharedRow>,
    pub(crate) errands: Vec<SharedRow>,
    pub(crate) slots: Vec<SharedRow>,
    pub(crate) cached: Vec<Row>,
    /// The message that makes the execution, with its row.
    pub(crate) dedup: Option<(DedupClaim, Row)>,
    /// The request that the append is the effect of, with its row and the clock.
    pub(crate) idempotency: Option<(IdempotencyClaim, Timestamp, Row)>,
    /// About how many bytes all of it has.
    pub(crate) bytes: usize,
}

/// Takes sealed appends apart.
pub(crate) fn rows_of(
    sealed: Vec<Result<Sealed, AppendRefused>>,
) -> Vec<Result<Rows, AppendRefused>> {
    sealed
        .into_iter()
        .map(|sealed| sealed.map(Rows::of))
        .collect()
}

impl Rows {
    /// Whether it touches what executions share.
    #[cfg(feature = "postgres")]
    pub(crate) fn shares(&self) -> bool {
        let Self {
            waits,
            errands,
            slots,
            cached,
            dedup,
            idempotency,
            ..
        } = self;
        dedup.is_some()
            || idempotency.is_some()
            || !(waits.is_empty() && errands.is_empty() && slots.is_empty() && cached.is_empty())
    }

    fn of(mut sealed: Sealed) -> Self {
        let execution_id = sealed.append.execution_id;
        let execution = execution_row(&sealed);
        let events: Vec<_> = sealed.events.iter().map(event_row).collect();
        let results = sealed.append.results.iter();
        let results: Vec<_> = results.map(|result| result_row(&sealed, result)).collect();
        let mut issued = Vec::new();
        let mut patches = Vec::new();
        for change in std::mem::take(&mut sealed.append.commands) {
            if let Some(patch) = change.patch() {
                let row = patch_row(execution_id, &patch);
                patches.push((patch.command_id.get(), row));
            } else if let CommandChange::Issue(command) = change {
                issued.push(command_row(&command.into_command(execution_id)));
            }
        }
        let size = |rows: &[Row]| rows.iter().flatten().map(Cell::bytes_about).sum::<usize>();
        let cached: Vec<_> = {
            let puts = sealed.append.cached.iter();
            puts.map(|put| cache_row(&sealed, put)).collect()
        };
        let now = sealed.append.now;
        Self {
            bytes: size(&events) + size(&issued) + size(&results) + size(&cached),
            outbox: outbox_rows(&sealed, &events),
            waits: wait_rows(&mut sealed),
            errands: errand_rows(&sealed),
            slots: slot_rows(
                &sealed.tenant_id,
                sealed.append.execution_id,
                std::mem::take(&mut sealed.append.slots),
            ),
            cached,
            dedup: sealed.append.dedup.take().map(|claim| {
                let row = dedup_row(&sealed, &claim);
                (claim, row)
            }),
            idempotency: sealed.append.idempotency.take().map(|claim| {
                let row = answered_row(&sealed, &claim);
                (claim, now, row)
            }),
            execution_id,
            expected: sealed.append.expected,
            head: sealed.head,
            starts: sealed.append.start.is_some(),
            is_audit: sealed.is_audit,
            fences: sealed.append.fences,
            timers: sealed.append.timers,
            execution,
            events,
            issued,
            patches,
            results,
        }
    }
}
