//! The columns of an event that a replay reads.

use noetl_types::record::{SchemaVersion, is_current};
use noetl_types::{EventName, StatusName};

use super::cell::CellProblem;
use super::table::{Cells, Corrupt, Kind, Reader, Table};
use crate::model::{GistRow, GistRows, TEXTS};

/// Bytes of texts behind which a page ends, however few events it has.
pub(crate) const GIST_BYTES: usize = 8 << 20;

/// The columns; from the name of the node on they are the texts of a [`GistRow`].
static GIST: Table = Table {
    name: "event",
    columns: &[
        ("event_id", Kind::Int),
        ("seq", Kind::Int),
        ("event_type", Kind::Text),
        ("status", Kind::Text),
        ("command_id", Kind::Int),
        ("schema_version", Kind::Int),
        ("schema_name", Kind::Text),
        ("node_name", Kind::Text),
        ("stage_id", Kind::Text),
        ("frame_id", Kind::Text),
        ("aggregate_type", Kind::Text),
        ("aggregate_id", Kind::Text),
        ("worker_id", Kind::Text),
        ("result", Kind::Json),
        ("meta", Kind::Json),
        ("payload_ref", Kind::Json),
        ("context", Kind::Json),
    ],
};

/// The columns as a statement names them. What an event was done with may be large, and is only read of
/// events about business objects: `may_name_object` says in the words of the database whether the meta
/// data holds the text `object`, without which it names none.
pub(crate) fn gist_columns(may_name_object: &str) -> String {
    let columns = GIST.list_where("", |name| name != "context");
    format!("{columns}, {} AS context", shown_context(may_name_object))
}

fn shown_context(may_name_object: &str) -> String {
    format!(
        "CASE WHEN context IS NOT NULL
             AND (aggregate_type = 'business_object' OR {may_name_object}) THEN context END"
    )
}

/// How many bytes the columns have that can be large; `bytes_of` says it of one in JSON.
#[cfg(feature = "postgres")]
pub(crate) fn gist_bytes(may_name_object: &str, bytes_of: fn(&str) -> String) -> String {
    let bytes = GIST.columns.iter().filter_map(|(name, kind)| match kind {
        Kind::Json if *name == "context" => {
            Some(bytes_of(&format!("({})", shown_context(may_name_object))))
        }
        Kind::Json => Some(bytes_of(name)),
        Kind::Text => Some(format!("coalesce(octet_length({name}), 0)")),
        Kind::Bool | Kind::Int | Kind::Float | Kind::Bytes | Kind::Time => None,
    });
    bytes.collect::<Vec<_>>().join(" + ")
}

/// The columns once more, of a statement that has them by their names: those that can be large under a
/// condition.
#[cfg(feature = "postgres")]
pub(crate) fn gist_columns_where(condition: &str) -> String {
    let columns = GIST.columns.iter().map(|(name, kind)| match kind {
        Kind::Json | Kind::Text => format!("CASE WHEN {condition} THEN {name} END"),
        Kind::Bool | Kind::Int | Kind::Float | Kind::Bytes | Kind::Time => (*name).to_owned(),
    });
    columns.collect::<Vec<_>>().join(", ")
}

/// Adds a row to a page; says whether it is of the current schema version, and adds nothing if not.
pub(crate) fn push_gist(page: &mut GistRows, cells: Cells<'_>) -> Result<bool, Corrupt> {
    let mut row = Reader::new(&GIST, cells);
    let (event_id, seq) = (row.take()?, row.take()?);
    let last = page.rows.last();
    // Names outside of the vocabulary mostly follow on themselves, and are then shared.
    let event_type = row.read(|cell| {
        let text = cell.text()?;
        match last.map(|last| &last.event_type) {
            Some(last) if last.as_str() == text => Ok(last.clone()),
            Some(_) | None => EventName::read_copied(Some(text)).map_err(CellProblem::value),
        }
    })?;
    let status: StatusName = row.take()?;
    let command_id = row.take()?;
    let schema_version: SchemaVersion = row.take()?;
    if !is_current(row.text()?, schema_version) {
        return Ok(false);
    }
    let mut texts = [None; TEXTS];
    for length in &mut texts {
        if let Some(text) = row.text()? {
            // No database holds a longer one.
            *length = Some(u32::try_from(text.len()).unwrap_or(u32::MAX));
            page.push_text(text);
        }
    }
    page.rows.push(GistRow {
        event_id,
        seq,
        event_type,
        status,
        command_id,
        texts,
    });
    Ok(true)
}
