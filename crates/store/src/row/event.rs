//! The columns of the event log.

use noetl_types::record::ProjectedFields;
use noetl_types::{EventRecord, FeedPosition, NewEvent, StoredEvent};

use super::cell::Cell;
use super::table::{ColumnKind, Columns, CorruptRow, FromRow, RowCells, RowReader, Table};
use crate::model::UnreadableEvent;
use crate::prepare_append::PreparedEvent;

/// The columns of an event. The last two are its feed position, which the store assigns.
const EVENT_COLUMNS: &[(&str, ColumnKind)] = &[
    ("execution_id", ColumnKind::Int),
    ("event_id", ColumnKind::Int),
    ("seq", ColumnKind::Int),
    ("event_type", ColumnKind::Text),
    ("status", ColumnKind::Text),
    ("tenant_id", ColumnKind::Text),
    ("organization_id", ColumnKind::Text),
    ("event_time", ColumnKind::Time),
    ("created_at", ColumnKind::Time),
    ("ingest_time", ColumnKind::Time),
    ("node_id", ColumnKind::Text),
    ("node_name", ColumnKind::Text),
    ("node_type", ColumnKind::Text),
    ("catalog_id", ColumnKind::Int),
    ("parent_event_id", ColumnKind::Int),
    ("parent_execution_id", ColumnKind::Int),
    ("prev_event_id", ColumnKind::Int),
    ("command_id", ColumnKind::Int),
    ("stage_id", ColumnKind::Text),
    ("frame_id", ColumnKind::Text),
    ("aggregate_type", ColumnKind::Text),
    ("aggregate_id", ColumnKind::Text),
    ("stream_id", ColumnKind::Text),
    ("stream_version", ColumnKind::Int),
    ("schema_name", ColumnKind::Text),
    ("schema_version", ColumnKind::Int),
    ("duration", ColumnKind::Float),
    ("context", ColumnKind::Json),
    ("result", ColumnKind::Json),
    ("meta", ColumnKind::Json),
    ("payload_ref", ColumnKind::Json),
    ("error", ColumnKind::Text),
    ("stack_trace", ColumnKind::Text),
    ("worker_id", ColumnKind::Text),
    ("producer", ColumnKind::Text),
    ("causation_id", ColumnKind::Text),
    ("correlation_id", ColumnKind::Text),
    ("idempotency_key", ColumnKind::Text),
    ("current_index", ColumnKind::Int),
    ("current_item", ColumnKind::Text),
    ("context_key", ColumnKind::Text),
    ("context_value", ColumnKind::Text),
    ("distributed_state", ColumnKind::Text),
    ("trace_component", ColumnKind::Json),
    ("extra", ColumnKind::Json),
    ("envelope_checksum", ColumnKind::Bytes),
    ("chain", ColumnKind::Bytes),
    ("tx", ColumnKind::Int),
    ("position", ColumnKind::Int),
];

/// The columns of an event that an append writes.
pub(crate) static EVENT: Table =
    Table { name: "event", columns: EVENT_COLUMNS.split_at(EVENT_COLUMNS.len() - 2).0 };

/// All columns of an event, with its feed position.
pub(crate) static STORED_EVENT: Table = Table { name: "event", columns: EVENT_COLUMNS };

pub(crate) fn encode_event(prepared: &PreparedEvent) -> Vec<Cell> {
    let record = &prepared.record;
    let event = &record.event;
    let projected = event.projected.as_deref();
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
        projected.and_then(|it| it.current_index.as_ref()),
        projected.and_then(|it| it.current_item.as_ref()),
        projected.and_then(|it| it.context_key.as_ref()),
        projected.and_then(|it| it.context_value.as_ref()),
        projected.and_then(|it| it.distributed_state.as_ref()),
        projected.and_then(|it| it.trace_component.as_ref()),
        projected.and_then(|it| it.extra.as_ref()),
        record.envelope_checksum,
        prepared.chain,
    ]
}

impl FromRow for StoredEvent {
    fn from_row(cells: RowCells<'_>) -> Result<Self, CorruptRow> {
        let mut row = RowReader::new(&STORED_EVENT, cells);
        let execution_id = row.read_next()?;
        let event_id = row.read_next()?;
        let seq = row.read_next()?;
        let event_type = row.read_next()?;
        let status = row.read_next()?;
        let tenant_id = row.read_next()?;
        let organization_id = row.read_next()?;
        let event_time = row.read_next()?;
        let created_at = row.read_next()?;
        let ingest_time = row.read_next()?;
        let event = NewEvent {
            execution_id,
            event_id,
            event_type,
            status,
            tenant_id,
            organization_id,
            event_time,
            created_at,
            node_id: row.read_next()?,
            node_name: row.read_next()?,
            node_type: row.read_next()?,
            catalog_id: row.read_next()?,
            parent_event_id: row.read_next()?,
            parent_execution_id: row.read_next()?,
            prev_event_id: row.read_next()?,
            command_id: row.read_next()?,
            stage_id: row.read_next()?,
            frame_id: row.read_next()?,
            aggregate_type: row.read_next()?,
            aggregate_id: row.read_next()?,
            stream_id: row.read_next()?,
            stream_version: row.read_next()?,
            schema_name: row.read_next()?,
            schema_version: row.read_next()?,
            duration: row.read_next()?,
            context: row.read_next()?,
            result: row.read_next()?,
            meta: row.read_next()?,
            payload_ref: row.read_next()?,
            error: row.read_next()?,
            stack_trace: row.read_next()?,
            worker_id: row.read_next()?,
            producer: row.read_next()?,
            causation_id: row.read_next()?,
            correlation_id: row.read_next()?,
            idempotency_key: row.read_next()?,
            projected: ProjectedFields {
                current_index: row.read_next()?,
                current_item: row.read_next()?,
                context_key: row.read_next()?,
                context_value: row.read_next()?,
                distributed_state: row.read_next()?,
                trace_component: row.read_next()?,
                extra: row.read_next()?,
            }
            .into_option(),
        };
        let envelope_checksum = row.read_next()?;
        Ok(Self {
            record: EventRecord { event, seq, ingest_time, envelope_checksum },
            chain: row.read_next()?,
            feed: Columns::read_columns(&mut row)?,
        })
    }
}

/// Decodes an event of the feed. If its position can be read but another column cannot, it is
/// returned as unreadable, so that the reader can skip it.
impl FromRow for Result<StoredEvent, UnreadableEvent> {
    fn from_row(cells: RowCells<'_>) -> Result<Self, CorruptRow> {
        let row = RowReader::new(&STORED_EVENT, cells.clone());
        let feed_index = EVENT.columns.len();
        let feed =
            FeedPosition { tx: row.value_at(feed_index)?, position: row.value_at(feed_index + 1)? };
        Ok(StoredEvent::from_row(cells)
            .map_err(|corrupt| UnreadableEvent { feed, reason: corrupt.message_with_cause() }))
    }
}
