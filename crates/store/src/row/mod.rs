//! Mapping between model types and database rows.
//!
//! Both databases have the same tables. Their columns are listed here once, with the conversions
//! from and to a row. Backends only transfer cells.

/// Encodes values as the cells of a row, in column order.
macro_rules! cells {
    ($($value:expr),* $(,)?) => {
        vec![$( $crate::row::ToCell::to_cell(&$value) ),*]
    };
}

mod append;
mod cell;
mod coordination;
mod core_tables;
mod event;
mod event_body;
mod identities;
mod publishing;
mod replay;
mod result;
mod table;
mod task_output;

pub(crate) use append::{AppendRows, CoordinationRow, RowChange, slot_rows, to_append_rows};
pub(crate) use cell::{Cell, CellRef, ToCell};
pub(crate) use cells;
pub(crate) use coordination::{
    BROADCAST, CACHE, DEDUP, FOLLOW_UP, IDEMPOTENCY, SLOT, StoredRequest, VAR, WAIT,
    encode_idempotency_record, encode_slot_id, encode_var, in_progress_status,
};
pub(crate) use core_tables::{
    CATALOG, COMMAND, COMMAND_PATCH, EXECUTION, EXECUTION_MUTABLE, MACHINE, RUNTIME, SNAPSHOT,
    TIMER, encode_view,
};
pub(crate) use event::{EVENT, STORED_EVENT};
pub(crate) use event_body::EVENT_BODY;
pub(crate) use identities::{ANCHOR, AUDIT, CREDENTIAL, KEYCHAIN, TOKEN};
pub(crate) use publishing::{
    CLAIMED_OUTBOX, DEPENDENT_TABLES, DependentTable, INVALID_ATTEMPTS_ERROR,
    MAX_REPAIRED_ATTEMPTS, NEW_OUTBOX, OUTBOX, QUARANTINE, STREAM,
};
pub(crate) use replay::{
    MAX_REPLAY_PAGE_BYTES, push_replay_row, replay_bytes_expression, replay_columns,
    replay_columns_where,
};
pub(crate) use result::{RESULT, ResultRow, STORED_RESULT};
pub(crate) use table::{ColumnKind, CorruptRow, FromRow, Row, RowCells, Table, ToRow};
pub(crate) use task_output::TASK_OUTPUT;
