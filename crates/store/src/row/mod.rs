//! Mapping between model types and database rows.
//!
//! Both databases have the same tables. Their columns are listed here once, with one function that
//! encodes a value and one that decodes it. Backends only transfer cells.

/// Encodes values as the cells of a row, in column order.
macro_rules! cells {
    ($($value:expr),+ $(,)?) => {
        vec![$( ToCell::to_cell(&$value) ),+]
    };
}

mod append;
mod cell;
mod coordination;
mod core_tables;
mod credential;
mod event;
mod event_body;
mod identities;
mod keychain;
mod publishing;
mod replay;
mod result;
mod table;

pub(crate) use append::{AppendRows, CoordinationRow, RowChange, slot_rows, to_append_rows};
pub(crate) use cell::{Cell, CellRef, ToCell};
pub(crate) use coordination::{
    BROADCAST, CACHE, DEDUP, FOLLOW_UP, IDEMPOTENCY, RESERVE_REQUEST, SLOT, SLOT_ID_COLUMNS, VAR,
    WAIT, decode_answered_request, decode_broadcast, decode_cached_result, decode_dedup_record,
    decode_follow_up, decode_reserve_outcome, decode_slot, decode_var, decode_wait, decode_work_id,
    encode_broadcast, encode_reservation, encode_slot_id, encode_var, expiring_table,
    in_progress_status,
};
pub(crate) use core_tables::{
    CATALOG, COMMAND, EXECUTION, EXECUTION_MUTABLE, MACHINE, RUNTIME, SNAPSHOT,
    decode_catalog_entry, decode_command, decode_count, decode_due_timer, decode_execution,
    decode_machine, decode_pool_count, decode_runtime, decode_snapshot, encode_catalog_entry,
    encode_machine, encode_runtime, encode_snapshot, encode_view,
};
pub(crate) use credential::{CREDENTIAL, decode_credential, encode_credential};
pub(crate) use event::{EVENT, decode_feed_event, decode_stored_event};
pub(crate) use event_body::{EVENT_BODY, decode_feed_item};
pub(crate) use keychain::{KEYCHAIN, decode_keychain_entry, encode_keychain_entry};
pub(crate) use publishing::{
    CLAIMED_OUTBOX, DEPENDENT_TABLES, DependentTable, INVALID_ATTEMPTS_ERROR,
    MAX_REPAIRED_ATTEMPTS, NEW_OUTBOX, OUTBOX, QUARANTINE, STREAM, decode_claimed_message,
    decode_outbox_row, decode_quarantined_item, decode_stream_cursor, encode_quarantined_item,
    encode_stream_cursor,
};
pub(crate) use replay::{MAX_REPLAY_PAGE_BYTES, push_replay_row, replay_columns};
pub(crate) use result::{RESULT, ResultRow, STORED_RESULT, decode_result, encode_stored_result};
pub(crate) use table::{CorruptRow, Row, RowCells, RowReader, Table};

pub(crate) use identities::{
    AUDIT, TOKEN, decode_audit_entry, decode_token, encode_audit_entry, encode_token,
};

// PostgreSQL sends rows as arrays. SQLite reads single columns.
#[cfg(feature = "postgres")]
pub(crate) use cell::decode_timestamp;
#[cfg(feature = "sqlite")]
pub(crate) use core_tables::encode_command;
#[cfg(feature = "postgres")]
pub(crate) use core_tables::{COMMAND_PATCH, TIMER};
#[cfg(feature = "postgres")]
pub(crate) use event::STORED_EVENT;
#[cfg(feature = "postgres")]
pub(crate) use replay::{replay_bytes_expression, replay_columns_where};
#[cfg(feature = "postgres")]
pub(crate) use table::ColumnKind;
