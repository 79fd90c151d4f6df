//! Events as their outlets carry them, straight from their cells.
//!
//! A body has every column that leaves the store, in the order of their names. What columns hold of
//! JSON is canonical text and goes in as it lies there: no value is made of an event only to write it.

use std::sync::LazyLock;

use noetl_types::json::{CanonicalWriter, WriteCanonical as _};
use noetl_types::record::Elapsed;
use noetl_types::{Digest, FeedPosition, TenantId, Timestamp};

use super::cell::{CellProblem, CellRef, FromCell as _};
use super::event::EVENT;
use super::table::{Cells, Corrupt, Kind, Reader, Table};
use crate::model::{EventBody, FeedItem, FeedMessage, Unreadable, subject};

/// Bytes that most bodies have room in.
const USUAL_BYTES: usize = 1024;

/// The columns of a body, in the order in which it has them.
pub(crate) static SENT: LazyLock<Table> = LazyLock::new(|| {
    let leaving = EVENT.columns.iter().filter(|(name, _)| *name != "chain");
    let mut columns: Vec<_> = leaving.copied().collect();
    columns.sort_unstable_by_key(|(name, _)| *name);
    Table {
        name: EVENT.name,
        columns: columns.leak(),
    }
});

/// Where the columns are that are read besides.
struct Places {
    execution_id: usize,
    event_id: usize,
    event_type: usize,
    ingest_time: usize,
    seq: usize,
    tenant_id: usize,
}

static PLACES: LazyLock<Places> = LazyLock::new(|| {
    let place = |wanted| {
        let mut names = SENT.columns.iter().map(|(name, _)| *name);
        // A place that no row has reads as nothing, which is refused.
        names.position(|name| name == wanted).unwrap_or(usize::MAX)
    };
    Places {
        execution_id: place("execution_id"),
        event_id: place("event_id"),
        event_type: place("event_type"),
        ingest_time: place("ingest_time"),
        seq: place("seq"),
        tenant_id: place("tenant_id"),
    }
});

/// Writes a value as the body of an event has it.
fn write(writer: &mut CanonicalWriter, kind: Kind, cell: CellRef<'_>) -> Result<(), CellProblem> {
    match kind {
        Kind::Int => writer.int(i64::from_cell(cell)?),
        Kind::Text => writer.text(cell.text()?),
        Kind::Json => writer.canonical(cell.text()?),
        Kind::Time => Timestamp::from_cell(cell)?.write_canonical(writer),
        Kind::Float => Elapsed::from_cell(cell)?.write_canonical(writer),
        Kind::Bytes => writer.text(&Digest::from_cell(cell)?.to_string()),
        Kind::Bool => writer.bool(bool::from_cell(cell)?),
    }
    Ok(())
}

/// Whether a cell has nothing to say. `null` is as good as nothing in JSON.
fn is_absent(kind: Kind, cell: CellRef<'_>) -> bool {
    match cell {
        CellRef::Null => true,
        CellRef::Text(text) => kind == Kind::Json && text == "null",
        _ => false,
    }
}

/// Composes the body of an event from the cells of [`SENT`].
fn event_body(cells: Cells<'_>) -> Result<EventBody, Corrupt> {
    let row = Reader::new(&SENT, cells.clone());
    let mut writer = CanonicalWriter::with_capacity(USUAL_BYTES);
    let mut object = writer.object();
    for (place, ((name, kind), cell)) in SENT.columns.iter().zip(cells).enumerate() {
        if !is_absent(*kind, cell) {
            let written = write(object.key(name), *kind, cell);
            written.map_err(|problem| row.corrupt(place, problem))?;
        }
    }
    drop(object);
    Ok(EventBody {
        execution_id: row.at(PLACES.execution_id)?,
        event_id: row.at(PLACES.event_id)?,
        seq: row.at(PLACES.seq)?,
        event_type: row.at(PLACES.event_type)?,
        bytes: writer.into_bytes().into(),
    })
}

/// The same where the row of an event may be missing.
pub(super) fn joined_body(cells: Cells<'_>) -> Result<Option<EventBody>, Corrupt> {
    let is_there = cells.at(PLACES.event_id) != CellRef::Null;
    is_there.then(|| event_body(cells)).transpose()
}

/// Composes the message of an event from the cells of [`SENT`], behind which its place in the feed
/// stands. What has a place is passed by, even where nothing else of it can be read.
pub(crate) fn feed_item(mut cells: Cells<'_>) -> Result<FeedItem, Corrupt> {
    let sent = cells.split(SENT.columns.len());
    let mut behind = Reader::new(&SENT, cells);
    let feed = FeedPosition {
        tx: behind.take()?,
        position: behind.take()?,
    };
    Ok(feed_message(sent, feed).map_err(|corrupt| Unreadable {
        feed,
        why: corrupt.with_cause(),
    }))
}

fn feed_message(sent: Cells<'_>, feed: FeedPosition) -> Result<FeedMessage, Corrupt> {
    let row = Reader::new(&SENT, sent.clone());
    let tenant_id: TenantId = row.at(PLACES.tenant_id)?;
    let ingest_time = row.at(PLACES.ingest_time)?;
    let body = event_body(sent)?;
    Ok(FeedMessage {
        feed,
        subject: subject(&tenant_id, &body.event_type),
        ingest_time,
        body,
    })
}
