//! What a group of appends does to what executions share, as parameters; and what it is told.

use noetl_types::{ExecutionId, sha256};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::record::Records;
use crate::error::StoreError;
use crate::model::{Answered, AppendRefused};
use crate::row::{
    self, Cell, CellRef, Cells, ERRAND, Rows, SLOT, SharedRow, Table, ToCell as _, WAIT,
};

/// The parameters of a group that touches what executions share, behind those of every group.
#[derive(Debug)]
pub(super) struct Sharing {
    waits: Records<Vec<Cell>>,
    errands: Records<Vec<Cell>>,
    slots: Records<Vec<Cell>>,
    cached: Records<Vec<Cell>>,
    requests: Records<Vec<Cell>>,
    messages: Records<Vec<Cell>>,
    /// Numbers that stand for the keys of all claims, each once and in order: claims of one key, in
    /// whatever process, are judged one after the other under the lock of its number.
    claimed: Vec<i64>,
}

impl Sharing {
    /// What some appends share; `None` for nothing at all.
    pub(super) fn of(items: &[&Rows]) -> Option<Self> {
        if !items.iter().any(|rows| rows.shares()) {
            return None;
        }
        let each = || items.iter().copied();
        let changes = |table: &'static Table, rows: fn(&Rows) -> &[SharedRow]| {
            let rows = each().flat_map(rows);
            Records(rows.map(|row| change_row(table, row)).collect())
        };
        let cached = each().flat_map(|rows| {
            let of = rows.execution_id.to_cell();
            let cached = rows.cached.iter();
            cached.map(move |row| behind(of.clone(), row))
        });
        let requests = each().filter_map(|rows| rows.idempotency.as_ref());
        let requests = requests.map(|(_, now, row)| behind(now.to_cell(), row));
        let messages = each().filter_map(|rows| rows.dedup.as_ref());
        let mut claimed: Vec<_> = each().flat_map(claim_numbers).collect();
        claimed.sort_unstable();
        claimed.dedup();
        Some(Self {
            waits: changes(&WAIT, |rows| &rows.waits),
            errands: changes(&ERRAND, |rows| &rows.errands),
            slots: changes(&SLOT, |rows| &rows.slots),
            cached: Records(cached.collect()),
            requests: Records(requests.collect()),
            messages: Records(messages.map(|(_, row)| row.clone()).collect()),
            claimed,
        })
    }

    pub(super) fn params(&self) -> [&(dyn ToSql + Sync); 7] {
        [
            &self.waits,
            &self.errands,
            &self.slots,
            &self.cached,
            &self.requests,
            &self.messages,
            &self.claimed,
        ]
    }
}

/// What becomes of a row, then the row; where that is a key alone, the rest is empty.
fn change_row(table: &Table, row: &SharedRow) -> Vec<Cell> {
    let mut cells = behind(row.act.as_str().to_cell(), &row.cells);
    cells.resize(table.columns.len() + 1, Cell::Null);
    cells
}

fn behind(first: Cell, row: &[Cell]) -> Vec<Cell> {
    std::iter::once(first).chain(row.iter().cloned()).collect()
}

/// The numbers of the keys that an append claims. Two keys of one number only wait for each other.
fn claim_numbers(rows: &Rows) -> impl Iterator<Item = i64> {
    let request = rows.idempotency.as_ref().and_then(|it| it.2.get(..3));
    let message = rows.dedup.as_ref().and_then(|it| it.1.get(..2));
    [("request", request), ("message", message)]
        .into_iter()
        .filter_map(|(kind, key)| Some(number_of(kind, key?)))
}

fn number_of(kind: &str, key: &[Cell]) -> i64 {
    let digest = sha256(format!("{kind} {key:?}"));
    let first = digest.as_bytes().first_chunk();
    first.map_or(0, |bytes| i64::from_be_bytes(*bytes))
}

/// Why an append was refused whose claim somebody else had.
pub(super) fn refusal(
    verdict: &str,
    row: &Row,
    item: &Rows,
) -> Result<AppendRefused, tokio_postgres::Error> {
    Ok(match verdict {
        "other request" => AppendRefused::IdempotencyMismatch,
        "replay" => match answered(row, item)? {
            Ok(answered) => AppendRefused::Replay(Box::new(answered)),
            Err(error) => error.into(),
        },
        "duplicate" | "other message" => match ExecutionId::new(row.try_get(6)?) {
            Ok(execution_id) if verdict == "duplicate" => AppendRefused::Duplicate { execution_id },
            Ok(execution_id) => AppendRefused::DedupMismatch { execution_id },
            Err(error) => StoreError::fatal(error).into(),
        },
        other => StoreError::fatal(format!("odd verdict `{other}`")).into(),
    })
}

/// The bodies are the same, or it would not be replayed.
fn answered(row: &Row, item: &Rows) -> Result<Result<Answered, StoreError>, tokio_postgres::Error> {
    let Some((claim, _, key)) = &item.idempotency else {
        let text = "a request was replayed that was not sent";
        return Ok(Err(StoreError::fatal(text)));
    };
    let cells = key.iter().take(3).map(Cell::shown);
    let cells = cells.chain([
        CellRef::Bytes(claim.body_sha256.as_bytes()),
        row.try_get(7)?,
        row.try_get(8)?,
        row.try_get(6)?,
        row.try_get(9)?,
    ]);
    let cells: Vec<_> = cells.collect();
    let cells = Cells::new(&cells, 0..cells.len());
    Ok(row::answered(cells).map_err(StoreError::from))
}
