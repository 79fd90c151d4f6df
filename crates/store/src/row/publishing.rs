//! The tables of the outbox, quarantined items and stream cursors.

use noetl_types::{FeedPosition, Json, Text, json};

use super::cell::Cell;
use super::event_body::decode_optional_event_body;
use super::table::{
    ColumnKind, CorruptRow, FromRow, RowCells, RowReader, Table, ToRow, columns, table,
};
use crate::model::{
    ClaimedMessage, OutboxPayload, OutboxRow, QuarantinedItem, StreamCursor, event_subject,
};
use crate::prepare_append::{PreparedAppend, PreparedEvent};

/// A table whose rows are deleted with their executions.
pub(crate) struct DependentTable {
    pub(crate) table: &'static str,
    /// The column with the execution id.
    pub(crate) execution_column: &'static str,
    /// The primary key columns.
    pub(crate) key_columns: &'static str,
    pub(crate) large_columns: &'static [&'static str],
}

impl DependentTable {
    const fn new(
        table: &'static str,
        key_columns: &'static str,
        large_columns: &'static [&'static str],
    ) -> Self {
        Self { table, execution_column: "execution_id", key_columns, large_columns }
    }
}

/// All dependent tables, except the log and the executions themselves. The last one has no index by
/// execution and few rows, and is scanned when the others are empty.
pub(crate) static DEPENDENT_TABLES: &[DependentTable] = &[
    DependentTable::new("command", "command_id", &["error"]),
    DependentTable::new("timer", "execution_id, timer_id", &[]),
    DependentTable::new("wait", "execution_id, command_id, number", &["detail"]),
    DependentTable::new("errand", "execution_id, errand_id", &["body"]),
    DependentTable::new("result_store", "execution_id, result_id", &["data"]),
    DependentTable::new("transient", "execution_id, var_name", &["var_value"]),
    DependentTable::new("task_output", "execution_id, position", &["stdout", "stderr"]),
    DependentTable::new(
        "projection_snapshot",
        "execution_id, kind, fold_version, version",
        &["state"],
    ),
    DependentTable::new("outbox", "outbox_id", &["payload", "last_error"]),
    DependentTable {
        execution_column: "origin_execution_id",
        ..DependentTable::new(
            "step_cache",
            "tenant_id, scope, key_sha256",
            &["result", "result_ref"],
        )
    },
    DependentTable::new(
        "concurrency_slot",
        "tenant_id, slot_key, execution_id, step_name, run",
        &[],
    ),
];

/// The columns that an append writes. The store prepends the log epoch to the message.
pub(crate) static NEW_OUTBOX: Table = Table {
    name: "outbox",
    columns: &[
        ("execution_id", ColumnKind::Int),
        ("event_id", ColumnKind::Int),
        ("message", ColumnKind::Text),
        ("subject", ColumnKind::Text),
        ("available_at", ColumnKind::Time),
        ("bytes", ColumnKind::Int),
    ],
};

table! {
    /// An outbox row as shown to operators.
    OUTBOX = "outbox": OutboxRow {
        outbox_id: Int,
        event_id: Int,
        execution_id: Int,
        subject: Text,
        message_id: Text,
        payload_codec: Text,
        status: Text,
        attempts: Int,
        forgiven: Int,
        available_at: Time,
        claim_owner: Text,
        locked_at: Time,
        lease_until: Time,
        published_at: Time,
        dead_at: Time,
        discarded_at: Time,
        last_error: Text,
        created_at: Time,
    }
}

/// An outbox row as returned to a publisher, followed by the columns of its event.
pub(crate) static CLAIMED_OUTBOX: Table = Table {
    name: "outbox",
    columns: &[
        ("outbox_id", ColumnKind::Int),
        ("event_id", ColumnKind::Int),
        ("execution_id", ColumnKind::Int),
        ("subject", ColumnKind::Text),
        ("message_id", ColumnKind::Text),
        ("payload", ColumnKind::Json),
        ("payload_codec", ColumnKind::Text),
        ("attempts", ColumnKind::Int),
    ],
};

/// Error of a row whose number of attempts is invalid.
pub(crate) const INVALID_ATTEMPTS_ERROR: &str =
    "the row is damaged: its number of attempts is invalid";

/// Replacement for an attempt count that is too large. It is high enough that no fence in use is
/// repeated, and low enough that the row can still be claimed many times.
pub(crate) const MAX_REPAIRED_ATTEMPTS: u32 = u32::MAX - 1_000_000;

table! {
    /// A quarantined item.
    QUARANTINE = "outbox_quarantine": QuarantinedItem {
        quarantine_id: Int,
        source: Text,
        raw: Text,
        code: Text,
        message: Text,
        created_at: Time,
    }
    computed { raw_sha256: Bytes }
}

table! {
    STREAM = "stream_cursor": StreamCursor {
        name: Text,
        position(tx: Int, position: Int),
        epoch: Int,
        owner: Text,
        lease_until: Time,
        log_epoch: Int,
        stream_created_at: Time,
        updated_at: Time,
    }
}

columns! {
    FeedPosition { tx, position }
}

/// Approximate message size, in addition to the event's columns.
const ENVELOPE_BYTES: usize = 1024;

/// Encodes the outbox rows of an append, each with its message size, so that a claim can be bounded
/// without reading events.
pub(super) fn encode_outbox_rows(
    prepared: &PreparedAppend,
    events: &[Vec<Cell>],
) -> Vec<Vec<Cell>> {
    let row = |(event, cells): (&PreparedEvent, &Vec<Cell>)| {
        let record = &event.record;
        let new_event = &record.event;
        let message = format!("{}:{}", new_event.execution_id, record.seq);
        cells![
            new_event.execution_id,
            new_event.event_id,
            *message,
            event_subject(&new_event.tenant_id, &new_event.event_type),
            record.ingest_time,
            i64::try_from(
                cells.iter().map(Cell::approximate_bytes).sum::<usize>() + ENVELOPE_BYTES
            )
            .unwrap_or(i64::MAX),
        ]
    };
    let events = prepared.events.iter().zip(events);
    let events = events.filter(|_| prepared.append.use_outbox);
    events.map(row).collect()
}

/// Parses a payload of an external writer. Invalid JSON is passed on as a string, because one
/// malformed row must not block a publisher.
fn parse_payload(text: Text) -> Json {
    json::parse(text.as_bytes()).unwrap_or_else(|_| text.into())
}

/// Decodes a claimed row with its event, whose columns follow.
impl FromRow for ClaimedMessage {
    fn from_row(mut cells: RowCells<'_>) -> Result<Self, CorruptRow> {
        let mut row =
            RowReader::new(&CLAIMED_OUTBOX, cells.split_front(CLAIMED_OUTBOX.columns.len()));
        let (outbox_id, event_id, execution_id) =
            (row.read_next()?, row.read_next()?, row.read_next()?);
        let (subject, message_id) = (row.read_next()?, row.read_next()?);
        let payload = match row.read_next::<Option<Text>>()? {
            Some(text) => OutboxPayload::External(parse_payload(text)),
            None => decode_optional_event_body(cells)?
                .map_or(OutboxPayload::External(Json::Null), OutboxPayload::Event),
        };
        Ok(Self {
            outbox_id,
            event_id,
            execution_id,
            subject,
            message_id,
            payload,
            payload_codec: row.read_next()?,
            attempts: row.read_next()?,
        })
    }
}
