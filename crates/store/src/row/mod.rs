//! Rows: how what the model holds lies in the columns of a database.
//!
//! Both databases have the same tables. Their columns are listed here once, with one function that
//! takes a value apart and one that puts it together again; a backend only moves cells.

/// The cells of a row, in the order of its columns.
macro_rules! cells {
    ($($value:expr),+ $(,)?) => {
        vec![$( ToCell::to_cell(&$value) ),+]
    };
}

mod append;
mod cell;
mod credential;
mod event;
mod gist;
mod keychain;
mod outlets;
mod result;
mod sent;
mod shared;
mod table;
mod tables;
mod vault;

pub(crate) use append::{Act, Rows, SharedRow, rows_of, slot_rows};
pub(crate) use cell::{Cell, CellRef, ToCell};
pub(crate) use credential::{CREDENTIAL, credential, credential_row};
pub(crate) use event::{EVENT, feed_event, stored_event};
pub(crate) use gist::{GIST_BYTES, gist_columns, push_gist};
pub(crate) use keychain::{KEYCHAIN, keychain, keychain_row};
pub(crate) use outlets::{
    CLAIMED, CLEANED, Cleaned, LARGEST_COUNT, NEW_OUTBOX, NO_COUNTS, OUTBOX, QUARANTINE, STREAM,
    claimed_message, outbox_row, quarantine_row, quarantined, stream_cursor, stream_row,
};
pub(crate) use result::{KeptResult, RESULT, STORED_RESULT, result, stored_result_row};
pub(crate) use sent::{SENT, feed_item};
pub(crate) use shared::{
    ANSWERED, BROADCAST, CACHE, DEDUP, ERRAND, SLOT, SLOT_ID, TAKE_REQUEST, VAR, WAIT, answered,
    broadcast, broadcast_row, cached, errand, kept_dedup, request_row, slot, slot_id_row,
    swept_table, taken, under_way, var, var_row, wait, work_id,
};
pub(crate) use table::{Cells, Corrupt, Reader, Row, Table};
pub(crate) use tables::{
    CATALOG, COMMAND, EXECUTION, EXECUTION_CHANGING, MACHINE, RUNTIME, SNAPSHOT, catalog_entry,
    catalog_row, command, count_of, due_timer, execution, machine, machine_row, pool_count,
    runtime, runtime_row, snapshot, snapshot_row, view_row,
};

pub(crate) use vault::{AUDIT, TOKEN, audit, audit_row, token, token_row};

// One backend sends rows as arrays, the other reads single columns.
#[cfg(feature = "postgres")]
pub(crate) use cell::time;
#[cfg(feature = "postgres")]
pub(crate) use event::STORED_EVENT;
#[cfg(feature = "postgres")]
pub(crate) use gist::{gist_bytes, gist_columns_where};
#[cfg(feature = "postgres")]
pub(crate) use table::Kind;
#[cfg(feature = "sqlite")]
pub(crate) use tables::command_row;
#[cfg(feature = "postgres")]
pub(crate) use tables::{PATCH, TIMER};
