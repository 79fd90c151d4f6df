//! Event bodies, encoded directly from cells.
//!
//! A body has every column that may leave the store, ordered by name. JSON columns contain
//! canonical text, which is copied unchanged: no event is decoded only to be encoded again.

use std::sync::LazyLock;

use noetl_types::json::{CanonicalWriter, WriteCanonical as _};
use noetl_types::record::ElapsedTime;
use noetl_types::{Digest, FeedPosition, TenantId, Timestamp};

use super::cell::{CellProblem, CellRef, FromCell as _};
use super::event::EVENT;
use super::table::{ColumnKind, Columns, CorruptRow, FromRow, RowCells, RowReader, Table};
use crate::model::{EventBody, FeedItem, FeedMessage, UnreadableEvent, event_subject};

/// Initial buffer size, sufficient for most bodies.
const BODY_CAPACITY_BYTES: usize = 1024;

/// The columns of a body, in their order.
pub(crate) static EVENT_BODY: LazyLock<Table> = LazyLock::new(|| {
    let published = EVENT.columns.iter().filter(|(name, _)| *name != "chain");
    let mut columns: Vec<_> = published.copied().collect();
    columns.sort_unstable_by_key(|(name, _)| *name);
    Table { name: EVENT.name, columns: columns.leak() }
});

/// Indexes of the columns that are also decoded.
struct BodyColumns {
    execution_id: usize,
    event_id: usize,
    event_type: usize,
    ingest_time: usize,
    seq: usize,
    tenant_id: usize,
}

static BODY_COLUMNS: LazyLock<BodyColumns> = LazyLock::new(|| {
    let index_of = |column| {
        let mut names = EVENT_BODY.columns.iter().map(|(name, _)| *name);
        // An index that no row has reads as null, which is rejected.
        names.position(|name| name == column).unwrap_or(usize::MAX)
    };
    BodyColumns {
        execution_id: index_of("execution_id"),
        event_id: index_of("event_id"),
        event_type: index_of("event_type"),
        ingest_time: index_of("ingest_time"),
        seq: index_of("seq"),
        tenant_id: index_of("tenant_id"),
    }
});

/// Writes a cell as a value of the body.
fn write_cell(
    writer: &mut CanonicalWriter,
    kind: ColumnKind,
    cell: CellRef<'_>,
) -> Result<(), CellProblem> {
    match kind {
        ColumnKind::Int => writer.write_int(i64::from_cell(cell)?),
        ColumnKind::Text => writer.write_text(cell.text()?),
        ColumnKind::Json => writer.write_canonical_text(cell.text()?),
        ColumnKind::Time => Timestamp::from_cell(cell)?.write_canonical(writer),
        ColumnKind::Float => ElapsedTime::from_cell(cell)?.write_canonical(writer),
        ColumnKind::Bytes => writer.write_text(&Digest::from_cell(cell)?.to_string()),
        ColumnKind::Bool => writer.write_bool(bool::from_cell(cell)?),
    }
    Ok(())
}

/// True if a cell is omitted. JSON `null` is equivalent to SQL NULL.
fn is_absent(kind: ColumnKind, cell: CellRef<'_>) -> bool {
    match cell {
        CellRef::Null => true,
        CellRef::Text(text) => kind == ColumnKind::Json && text == "null",
        _ => false,
    }
}

/// Encodes the body of an event from the cells of [`EVENT_BODY`].
fn decode_event_body(cells: RowCells<'_>) -> Result<EventBody, CorruptRow> {
    let row = RowReader::new(&EVENT_BODY, cells.clone());
    let mut writer = CanonicalWriter::with_capacity(BODY_CAPACITY_BYTES);
    let mut object = writer.begin_object();
    for (index, ((name, kind), cell)) in EVENT_BODY.columns.iter().zip(cells).enumerate() {
        if !is_absent(*kind, cell) {
            let written = write_cell(object.write_key(name), *kind, cell);
            written.map_err(|problem| row.corrupt_column(index, problem))?;
        }
    }
    drop(object);
    Ok(EventBody {
        execution_id: row.value_at(BODY_COLUMNS.execution_id)?,
        event_id: row.value_at(BODY_COLUMNS.event_id)?,
        seq: row.value_at(BODY_COLUMNS.seq)?,
        event_type: row.value_at(BODY_COLUMNS.event_type)?,
        bytes: writer.into_bytes().into(),
    })
}

/// Encodes the body of an event whose row may be missing in a join.
pub(super) fn decode_optional_event_body(
    cells: RowCells<'_>,
) -> Result<Option<EventBody>, CorruptRow> {
    let exists = cells.cell_at(BODY_COLUMNS.event_id) != CellRef::Null;
    exists.then(|| decode_event_body(cells)).transpose()
}

/// Decodes a feed entry from the cells of [`EVENT_BODY`], followed by its feed position. If only
/// the position can be read, it is returned as unreadable, so that the reader can skip it.
impl FromRow for FeedItem {
    fn from_row(mut cells: RowCells<'_>) -> Result<Self, CorruptRow> {
        let body_cells = cells.split_front(EVENT_BODY.columns.len());
        let mut position_reader = RowReader::new(&EVENT_BODY, cells);
        let feed = FeedPosition::read_columns(&mut position_reader)?;
        Ok(decode_feed_message(body_cells, feed)
            .map_err(|corrupt| UnreadableEvent { feed, reason: corrupt.message_with_cause() }))
    }
}

fn decode_feed_message(cells: RowCells<'_>, feed: FeedPosition) -> Result<FeedMessage, CorruptRow> {
    let row = RowReader::new(&EVENT_BODY, cells.clone());
    let tenant_id: TenantId = row.value_at(BODY_COLUMNS.tenant_id)?;
    let ingest_time = row.value_at(BODY_COLUMNS.ingest_time)?;
    let body = decode_event_body(cells)?;
    Ok(FeedMessage {
        feed,
        subject: event_subject(&tenant_id, &body.event_type),
        ingest_time,
        body,
    })
}
