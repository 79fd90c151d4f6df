//! The columns that a replay reads, and the packing of their rows.

use noetl_types::record::{SchemaVersion, is_current_schema};
use noetl_types::{EventName, StatusName};

use super::cell::CellProblem;
use super::table::{ColumnKind, CorruptRow, RowCells, RowReader, Table};
use crate::model::{PackedReplayRow, PackedReplayRows, TEXT_COLUMN_COUNT};

/// Text size at which a page ends, even if it has few events.
pub(crate) const MAX_REPLAY_PAGE_BYTES: usize = 8 << 20;

/// Columns of a replay. From `node_name` on, they are the texts of a [`PackedReplayRow`].
static REPLAY_COLUMNS: Table = Table {
    name: "event",
    columns: &[
        ("event_id", ColumnKind::Int),
        ("seq", ColumnKind::Int),
        ("event_type", ColumnKind::Text),
        ("status", ColumnKind::Text),
        ("command_id", ColumnKind::Int),
        ("schema_version", ColumnKind::Int),
        ("schema_name", ColumnKind::Text),
        ("node_name", ColumnKind::Text),
        ("stage_id", ColumnKind::Text),
        ("frame_id", ColumnKind::Text),
        ("aggregate_type", ColumnKind::Text),
        ("aggregate_id", ColumnKind::Text),
        ("worker_id", ColumnKind::Text),
        ("result", ColumnKind::Json),
        ("meta", ColumnKind::Json),
        ("payload_ref", ColumnKind::Json),
        ("context", ColumnKind::Json),
    ],
};

/// Returns the select list. The context of an event can be large, and is read only for events about
/// business objects. `may_name_object` is an SQL expression that is true if the metadata contains
/// the text `object`. Without it, the metadata names no object.
pub(crate) fn replay_columns(may_name_object: &str) -> String {
    let columns = REPLAY_COLUMNS.filtered_column_list("", |name| name != "context");
    format!("{columns}, {} AS context", context_expression(may_name_object))
}

fn context_expression(may_name_object: &str) -> String {
    format!(
        "CASE WHEN context IS NOT NULL
             AND (aggregate_type = 'business_object' OR {may_name_object}) THEN context END"
    )
}

/// Returns an SQL expression for the size of the columns that can be large. `bytes_of` gives the
/// expression for a JSON column.
pub(crate) fn replay_bytes_expression(
    may_name_object: &str,
    bytes_of: fn(&str) -> String,
) -> String {
    let bytes = REPLAY_COLUMNS.columns.iter().filter_map(|(name, kind)| match kind {
        ColumnKind::Json if *name == "context" => {
            Some(bytes_of(&format!("({})", context_expression(may_name_object))))
        }
        ColumnKind::Json => Some(bytes_of(name)),
        ColumnKind::Text => Some(format!("coalesce(octet_length({name}), 0)")),
        ColumnKind::Bool
        | ColumnKind::Int
        | ColumnKind::Float
        | ColumnKind::Bytes
        | ColumnKind::Time => None,
    });
    bytes.collect::<Vec<_>>().join(" + ")
}

/// Returns the select list of an outer query that applies a condition to the columns that can be
/// large.
pub(crate) fn replay_columns_where(condition: &str) -> String {
    let columns = REPLAY_COLUMNS.columns.iter().map(|(name, kind)| match kind {
        ColumnKind::Json | ColumnKind::Text => format!("CASE WHEN {condition} THEN {name} END"),
        ColumnKind::Bool
        | ColumnKind::Int
        | ColumnKind::Float
        | ColumnKind::Bytes
        | ColumnKind::Time => (*name).to_owned(),
    });
    columns.collect::<Vec<_>>().join(", ")
}

/// Adds a row to a page. Returns `false` and adds nothing if it does not have the current schema
/// version.
pub(crate) fn push_replay_row(
    page: &mut PackedReplayRows,
    cells: RowCells<'_>,
) -> Result<bool, CorruptRow> {
    let mut row = RowReader::new(&REPLAY_COLUMNS, cells);
    let (event_id, seq) = (row.read_next()?, row.read_next()?);
    let last = page.rows.last();
    // Consecutive rows often have the same custom name, which is then shared.
    let event_type = row.read_with(|cell| {
        let text = cell.text()?;
        match last.map(|last| &last.event_type) {
            Some(last) if last.as_str() == text => Ok(last.clone()),
            Some(_) | None => EventName::parse_lenient(Some(text)).map_err(CellProblem::value),
        }
    })?;
    let status: StatusName = row.read_next()?;
    let command_id = row.read_next()?;
    let schema_version: SchemaVersion = row.read_next()?;
    if !is_current_schema(row.read_text()?, schema_version) {
        return Ok(false);
    }
    let mut text_lengths = [None; TEXT_COLUMN_COUNT];
    for length in &mut text_lengths {
        if let Some(text) = row.read_text()? {
            // No database stores a longer text.
            *length = Some(u32::try_from(text.len()).unwrap_or(u32::MAX));
            page.push_text(text);
        }
    }
    page.rows.push(PackedReplayRow { event_id, seq, event_type, status, command_id, text_lengths });
    Ok(true)
}
