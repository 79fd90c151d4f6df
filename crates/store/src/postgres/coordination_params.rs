//! Encodes the changes of coordination tables of a group of appends, and decodes refusals because
//! of idempotency and dedup keys.

use noetl_types::{ExecutionId, sha256};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::composite_rows::CompositeRows;
use crate::error::StoreError;
use crate::model::{AnsweredRequest, AppendError};
use crate::row::{
    AppendRows, Cell, CellRef, CoordinationRow, FOLLOW_UP, FromRow as _, RowCells, SLOT, Table,
    ToCell as _, WAIT,
};

/// Additional parameters of a group that changes coordination tables.
#[derive(Debug)]
pub(super) struct CoordinationParams {
    waits: CompositeRows<Vec<Cell>>,
    follow_ups: CompositeRows<Vec<Cell>>,
    slots: CompositeRows<Vec<Cell>>,
    cache_puts: CompositeRows<Vec<Cell>>,
    requests: CompositeRows<Vec<Cell>>,
    messages: CompositeRows<Vec<Cell>>,
    /// Advisory lock keys of all idempotency and dedup keys, sorted and without duplicates. Appends
    /// with the same key, in any process, are checked one after the other under its lock.
    lock_keys: Vec<i64>,
}

impl CoordinationParams {
    /// Returns the parameters of some appends, or `None` if they change no coordination table.
    pub(super) fn from_items(items: &[&AppendRows]) -> Option<Self> {
        if !items.iter().any(|rows| rows.touches_coordination()) {
            return None;
        }
        let each = || items.iter().copied();
        let changes = |table: &'static Table, rows: fn(&AppendRows) -> &[CoordinationRow]| {
            let rows = each().flat_map(rows);
            CompositeRows(rows.map(|row| encode_change(table, row)).collect())
        };
        let cache_puts = each().flat_map(|rows| {
            let execution_id = rows.execution_id.to_cell();
            let puts = rows.cache_puts.iter();
            puts.map(move |row| prepend_cell(execution_id.clone(), row))
        });
        let requests = each().filter_map(|rows| rows.idempotency.as_ref());
        let requests = requests.map(|(_, now, row)| prepend_cell(now.to_cell(), row));
        let messages = each().filter_map(|rows| rows.dedup.as_ref());
        let mut lock_keys: Vec<_> = each().flat_map(append_lock_keys).collect();
        lock_keys.sort_unstable();
        lock_keys.dedup();
        Some(Self {
            waits: changes(&WAIT, |rows| &rows.waits),
            follow_ups: changes(&FOLLOW_UP, |rows| &rows.follow_ups),
            slots: changes(&SLOT, |rows| &rows.slots),
            cache_puts: CompositeRows(cache_puts.collect()),
            requests: CompositeRows(requests.collect()),
            messages: CompositeRows(messages.map(|(_, row)| row.clone()).collect()),
            lock_keys,
        })
    }

    pub(super) fn as_params(&self) -> [&(dyn ToSql + Sync); 7] {
        [
            &self.waits, &self.follow_ups, &self.slots, &self.cache_puts, &self.requests,
            &self.messages, &self.lock_keys,
        ]
    }
}

/// Encodes the kind of a change, followed by the row. If the row is only a key, the other columns
/// are null.
fn encode_change(table: &Table, row: &CoordinationRow) -> Vec<Cell> {
    let mut cells = prepend_cell(row.change.as_str().to_cell(), &row.cells);
    cells.resize(table.columns.len() + 1, Cell::Null);
    cells
}

fn prepend_cell(first: Cell, row: &[Cell]) -> Vec<Cell> {
    std::iter::once(first).chain(row.iter().cloned()).collect()
}

/// Returns the lock keys of an append. Two keys with the same lock key only wait for each other.
fn append_lock_keys(rows: &AppendRows) -> impl Iterator<Item = i64> {
    let request = rows.idempotency.as_ref().and_then(|it| it.2.get(..3));
    let message = rows.dedup.as_ref().and_then(|it| it.1.get(..2));
    [("request", request), ("message", message)]
        .into_iter()
        .filter_map(|(kind, key)| Some(hash_lock_key(kind, key?)))
}

fn hash_lock_key(kind: &str, key: &[Cell]) -> i64 {
    let digest = sha256(format!("{kind} {key:?}"));
    let first = digest.as_bytes().first_chunk();
    first.map_or(0, |bytes| i64::from_be_bytes(*bytes))
}

/// Decodes the refusal of an append whose idempotency or dedup key is already in use.
pub(super) fn decode_refusal(
    verdict: &str,
    row: &Row,
    item: &AppendRows,
) -> Result<AppendError, tokio_postgres::Error> {
    Ok(match verdict {
        "other request" => AppendError::IdempotencyMismatch,
        "replay" => match decode_replayed_answer(row, item)? {
            Ok(answered) => AppendError::AlreadyAnswered(Box::new(answered)),
            Err(error) => error.into(),
        },
        "duplicate" | "other message" => match ExecutionId::new(row.try_get(6)?) {
            Ok(execution_id) if verdict == "duplicate" => AppendError::Duplicate { execution_id },
            Ok(execution_id) => AppendError::DedupMismatch { execution_id },
            Err(error) => StoreError::fatal(error).into(),
        },
        other => StoreError::fatal(format!("unknown append verdict `{other}`")).into(),
    })
}

/// Decodes the answer of a replayed request. Its body equals that of the append, otherwise the
/// request would not be replayed.
fn decode_replayed_answer(
    row: &Row,
    item: &AppendRows,
) -> Result<Result<AnsweredRequest, StoreError>, tokio_postgres::Error> {
    let Some((record, _, key)) = &item.idempotency else {
        let text = "the append function replayed a request that the append does not contain";
        return Ok(Err(StoreError::fatal(text)));
    };
    let cells = key.iter().take(3).map(Cell::as_cell_ref);
    let cells = cells.chain([
        CellRef::Bytes(record.body_sha256.as_bytes()),
        row.try_get(7)?,
        row.try_get(8)?,
        row.try_get(6)?,
        row.try_get(9)?,
    ]);
    let cells: Vec<_> = cells.collect();
    let cells = RowCells::new(&cells, 0..cells.len());
    Ok(AnsweredRequest::from_row(cells).map_err(StoreError::from))
}
