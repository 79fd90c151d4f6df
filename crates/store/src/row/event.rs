//! The log, column by column.

use noetl_types::record::CopiedFields;
use noetl_types::{EventRecord, FeedPosition, NewEvent, StoredEvent};

use super::cell::{Cell, ToCell};
use super::table::{Cells, Corrupt, Kind, Reader, Table};
use crate::model::Unreadable;
use crate::seal::SealedEvent;

/// The columns of an event; the last two are its place in the feed, which the store gives.
const COLUMNS: &[(&str, Kind)] = &[
    ("execution_id", Kind::Int),
    ("event_id", Kind::Int),
    ("seq", Kind::Int),
    ("event_type", Kind::Text),
    ("status", Kind::Text),
    ("tenant_id", Kind::Text),
    ("organization_id", Kind::Text),
    ("event_time", Kind::Time),
    ("created_at", Kind::Time),
    ("ingest_time", Kind::Time),
    ("node_id", Kind::Text),
    ("node_name", Kind::Text),
    ("node_type", Kind::Text),
    ("catalog_id", Kind::Int),
    ("parent_event_id", Kind::Int),
    ("parent_execution_id", Kind::Int),
    ("prev_event_id", Kind::Int),
    ("command_id", Kind::Int),
    ("stage_id", Kind::Text),
    ("frame_id", Kind::Text),
    ("aggregate_type", Kind::Text),
    ("aggregate_id", Kind::Text),
    ("stream_id", Kind::Text),
    ("stream_version", Kind::Int),
    ("schema_name", Kind::Text),
    ("schema_version", Kind::Int),
    ("duration", Kind::Float),
    ("context", Kind::Json),
    ("result", Kind::Json),
    ("meta", Kind::Json),
    ("payload_ref", Kind::Json),
    ("error", Kind::Text),
    ("stack_trace", Kind::Text),
    ("worker_id", Kind::Text),
    ("producer", Kind::Text),
    ("causation_id", Kind::Text),
    ("correlation_id", Kind::Text),
    ("idempotency_key", Kind::Text),
    ("current_index", Kind::Int),
    ("current_item", Kind::Text),
    ("context_key", Kind::Text),
    ("context_value", Kind::Text),
    ("distributed_state", Kind::Text),
    ("trace_component", Kind::Json),
    ("extra", Kind::Json),
    ("envelope_checksum", Kind::Bytes),
    ("chain", Kind::Bytes),
    ("tx", Kind::Int),
    ("position", Kind::Int),
];

/// What an append writes of an event.
pub(crate) static EVENT: Table = Table {
    name: "event",
    columns: COLUMNS.split_at(COLUMNS.len() - 2).0,
};

/// An event with its place in the feed, as it is read.
pub(crate) static STORED_EVENT: Table = Table {
    name: "event",
    columns: COLUMNS,
};

/// Takes an event apart.
pub(crate) fn event_row(sealed: &SealedEvent) -> Vec<Cell> {
    let record = &sealed.record;
    let event = &record.event;
    let copied = event.copied.as_deref();
    cells![
        event.execution_id,
        event.event_id,
        record.seq,
        event.event_type,
        event.status,
        event.tenant_id,
        event.organization_id,
        event.event_time,
        event.created_at,
        record.ingest_time,
        event.node_id,
        event.node_name,
        event.node_type,
        event.catalog_id,
        event.parent_event_id,
        event.parent_execution_id,
        event.prev_event_id,
        event.command_id,
        event.stage_id,
        event.frame_id,
        event.aggregate_type,
        event.aggregate_id,
        event.stream_id,
        event.stream_version,
        event.schema_name,
        event.schema_version,
        event.duration,
        event.context,
        event.result,
        event.meta,
        event.payload_ref,
        event.error,
        event.stack_trace,
        event.worker_id,
        event.producer,
        event.causation_id,
        event.correlation_id,
        event.idempotency_key,
        copied.and_then(|it| it.current_index.as_ref()),
        copied.and_then(|it| it.current_item.as_ref()),
        copied.and_then(|it| it.context_key.as_ref()),
        copied.and_then(|it| it.context_value.as_ref()),
        copied.and_then(|it| it.distributed_state.as_ref()),
        copied.and_then(|it| it.trace_component.as_ref()),
        copied.and_then(|it| it.extra.as_ref()),
        record.envelope_checksum,
        sealed.chain,
    ]
}

/// Puts an event together.
#[expect(
    clippy::too_many_lines,
    reason = "one line for each column, in their order"
)]
pub(crate) fn stored_event(cells: Cells<'_>) -> Result<StoredEvent, Corrupt> {
    let mut row = Reader::new(&STORED_EVENT, cells);
    let execution_id = row.take()?;
    let event_id = row.take()?;
    let seq = row.take()?;
    let event_type = row.take()?;
    let status = row.take()?;
    let tenant_id = row.take()?;
    let organization_id = row.take()?;
    let event_time = row.take()?;
    let created_at = row.take()?;
    let ingest_time = row.take()?;
    let event = NewEvent {
        execution_id,
        event_id,
        event_type,
        status,
        tenant_id,
        organization_id,
        event_time,
        created_at,
        node_id: row.take()?,
        node_name: row.take()?,
        node_type: row.take()?,
        catalog_id: row.take()?,
        parent_event_id: row.take()?,
        parent_execution_id: row.take()?,
        prev_event_id: row.take()?,
        command_id: row.take()?,
        stage_id: row.take()?,
        frame_id: row.take()?,
        aggregate_type: row.take()?,
        aggregate_id: row.take()?,
        stream_id: row.take()?,
        stream_version: row.take()?,
        schema_name: row.take()?,
        schema_version: row.take()?,
        duration: row.take()?,
        context: row.take()?,
        result: row.take()?,
        meta: row.take()?,
        payload_ref: row.take()?,
        error: row.take()?,
        stack_trace: row.take()?,
        worker_id: row.take()?,
        producer: row.take()?,
        causation_id: row.take()?,
        correlation_id: row.take()?,
        idempotency_key: row.take()?,
        copied: CopiedFields {
            current_index: row.take()?,
            current_item: row.take()?,
            context_key: row.take()?,
            context_value: row.take()?,
            distributed_state: row.take()?,
            trace_component: row.take()?,
            extra: row.take()?,
        }
        .into_option(),
    };
    let envelope_checksum = row.take()?;
    Ok(StoredEvent {
        record: EventRecord {
            event,
            seq,
            ingest_time,
            envelope_checksum,
        },
        chain: row.take()?,
        feed: FeedPosition {
            tx: row.take()?,
            position: row.take()?,
        },
    })
}

/// The same where an event is one of the feed. What has a place there is passed by, even where nothing
/// else of it can be read.
pub(crate) fn feed_event(cells: Cells<'_>) -> Result<Result<StoredEvent, Unreadable>, Corrupt> {
    let row = Reader::new(&STORED_EVENT, cells.clone());
    let place = EVENT.columns.len();
    let feed = FeedPosition {
        tx: row.at(place)?,
        position: row.at(place + 1)?,
    };
    Ok(stored_event(cells).map_err(|corrupt| Unreadable {
        feed,
        why: corrupt.with_cause(),
    }))
}
