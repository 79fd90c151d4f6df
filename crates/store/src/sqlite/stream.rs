//! Stream cursors, the feed of messages, and log epochs.

use std::sync::LazyLock;

use noetl_types::{FeedPosition, Text, Timestamp};
use rusqlite::{Connection, params, params_from_iter};

use super::bind::{execute_cached, query_first, query_within_bytes, to_store_error};
use super::query::{insert_row, select_sql};
use crate::error::StoreError;
use crate::model::{
    CursorMove, FeedBatch, FeedItem, FeedLag, FeedLimit, LogEpoch, MAX_FEED_BATCH_BYTES,
    MAX_FEED_LAG_EVENTS, StreamCursor, StreamLeaseOutcome, StreamLeaseRequest, StreamOwner,
    StreamStart,
};
use crate::row::{self, Cell, EVENT_BODY, RowReader, STREAM, ToCell as _, encode_stream_cursor};

static SELECT_CURSOR: LazyLock<String> = LazyLock::new(|| select_sql(&STREAM, "WHERE name = ?1"));

const SELECT_LOG_EPOCH: &str = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'log_epoch'";

const INCREMENT_LOG_EPOCH: &str = "UPDATE meta
    SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT) WHERE key = 'log_epoch'";

/// Gives unpublished rows message ids of the new log epoch. Message ids that other writers chose
/// are not changed.
const UPDATE_MESSAGE_IDS: &str = "UPDATE outbox
    SET message_id = meta.value || substr(message_id, instr(message_id, ':'))
    FROM meta
    WHERE meta.key = 'log_epoch' AND status <> 'PUBLISHED' AND discarded_at IS NULL
        AND instr(message_id, (CAST(meta.value AS INTEGER) - 1) || ':' || execution_id || ':') = 1";

pub(super) fn log_epoch(connection: &Connection) -> Result<LogEpoch, StoreError> {
    let epoch = query_first(connection, SELECT_LOG_EPOCH, [], |cells| {
        RowReader::new(&STREAM, cells).read_next()
    })?;
    Ok(epoch.unwrap_or(LogEpoch::FIRST))
}

pub(super) fn start_log_epoch(connection: &Connection) -> Result<LogEpoch, StoreError> {
    execute_cached(connection, INCREMENT_LOG_EPOCH, []).map_err(to_store_error)?;
    execute_cached(connection, UPDATE_MESSAGE_IDS, []).map_err(to_store_error)?;
    log_epoch(connection)
}

const SELECT_LAST_DROPPED: &str =
    "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'last_dropped'";

pub(super) fn last_dropped_position(connection: &Connection) -> Result<i64, StoreError> {
    let position = query_first(connection, SELECT_LAST_DROPPED, [], |cells| {
        RowReader::new(&STREAM, cells).read_next()
    })?;
    Ok(position.unwrap_or_default())
}

pub(super) fn record_dropped_position(
    connection: &Connection,
    position: i64,
) -> Result<(), StoreError> {
    let position = position.max(last_dropped_position(connection)?);
    let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES ('last_dropped', ?1)";
    execute_cached(connection, sql, [position.to_string()]).map_err(to_store_error)?;
    Ok(())
}

fn feed_end(connection: &Connection) -> Result<FeedPosition, StoreError> {
    let sql = "SELECT coalesce(max(position), 0) FROM event";
    let position =
        query_first(connection, sql, [], |cells| RowReader::new(&STREAM, cells).read_next())?;
    Ok(FeedPosition { tx: 0, position: position.unwrap_or_default() })
}

pub(super) fn find_stream_cursor(
    connection: &Connection,
    name: &Text,
) -> Result<Option<StreamCursor>, StoreError> {
    query_first(connection, &SELECT_CURSOR, [name.as_str()], row::decode_stream_cursor)
}

/// Returns the position up to which a stream has published. `None` if it never started or belongs
/// to an earlier log epoch.
pub(super) fn published_position(
    connection: &Connection,
    name: &Text,
) -> Result<Option<FeedPosition>, StoreError> {
    let cursor = find_stream_cursor(connection, name)?;
    let epoch = log_epoch(connection)?;
    let cursor = cursor.filter(|cursor| cursor.log_epoch == epoch);
    Ok(cursor.map(|cursor| cursor.position))
}

pub(super) fn lease_stream(
    connection: &Connection,
    request: &StreamLeaseRequest,
) -> Result<StreamLeaseOutcome, StoreError> {
    let cursor = if let Some(cursor) = find_stream_cursor(connection, &request.name)? {
        cursor
    } else {
        let position = match request.begin {
            StreamStart::Now => feed_end(connection)?,
            StreamStart::Beginning => FeedPosition::default(),
        };
        StreamCursor::new_stream(request, position, log_epoch(connection)?)
    };
    let outcome = cursor.try_lease(request);
    if let StreamLeaseOutcome::Granted(cursor) = &outcome {
        insert_row(connection, "INSERT OR REPLACE", &STREAM, encode_stream_cursor(cursor))?;
    }
    Ok(outcome)
}

/// Updates the cursor of a stream. Returns false if the caller no longer owns the stream.
fn update_owned_stream(
    connection: &Connection,
    set: &str,
    condition: &str,
    owner: &StreamOwner,
    cells: &[Cell],
) -> Result<bool, StoreError> {
    let sql = format!(
        "UPDATE stream_cursor SET {set}, updated_at = ?3
         WHERE name = ?1 AND epoch = ?2 AND owner IS NOT NULL{condition}"
    );
    let owner_cells = [owner.name.to_cell(), owner.epoch.to_cell(), owner.now.to_cell()];
    let params = owner_cells.iter().chain(cells);
    let changed =
        execute_cached(connection, &sql, params_from_iter(params)).map_err(to_store_error)?;
    Ok(changed > 0)
}

pub(super) fn renew_stream_lease(
    connection: &Connection,
    owner: &StreamOwner,
    lease_until: Timestamp,
) -> Result<bool, StoreError> {
    let until = [lease_until.to_cell()];
    update_owned_stream(connection, "lease_until = ?4", "", owner, &until)
}

pub(super) fn release_stream_lease(
    connection: &Connection,
    owner: &StreamOwner,
) -> Result<bool, StoreError> {
    let set = "owner = NULL, lease_until = NULL";
    update_owned_stream(connection, set, "", owner, &[])
}

pub(super) fn move_stream_cursor(
    connection: &Connection,
    owner: &StreamOwner,
    to: CursorMove,
) -> Result<bool, StoreError> {
    let to_cells = |position: FeedPosition| [position.tx.to_cell(), position.position.to_cell()];
    match to {
        CursorMove::Forward { from, to } => {
            let condition = " AND (tx, position) = (?4, ?5) AND (tx, position) < (?6, ?7)
                AND log_epoch = (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'log_epoch')";
            let cells = [to_cells(from), to_cells(to)].concat();
            update_owned_stream(connection, "tx = ?6, position = ?7", condition, owner, &cells)
        }
        CursorMove::Restart { to, stream_created_at } => {
            let set = "tx = ?4, position = ?5, stream_created_at = ?6,
                log_epoch = (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'log_epoch')";
            let mut cells = to_cells(to).to_vec();
            cells.push(stream_created_at.to_cell());
            update_owned_stream(connection, set, "", owner, &cells)
        }
    }
}

static SELECT_MESSAGES: LazyLock<String> = LazyLock::new(|| {
    let columns = EVENT_BODY.column_list();
    format!(
        "SELECT {columns}, 0, position FROM event WHERE position > ?1 ORDER BY position LIMIT ?2"
    )
});

pub(super) fn read_feed_messages(
    connection: &Connection,
    after: FeedPosition,
    limit: FeedLimit,
) -> Result<FeedBatch<FeedItem>, StoreError> {
    let params = (after.position, limit.get());
    let decode = row::decode_feed_item;
    let (events, is_cut) =
        query_within_bytes(connection, &SELECT_MESSAGES, params, MAX_FEED_BATCH_BYTES, decode)?;
    Ok(FeedBatch::from_items(events, after, limit, is_cut))
}

pub(super) fn feed_lag(
    connection: &Connection,
    after: FeedPosition,
) -> Result<FeedLag, StoreError> {
    // All events have transaction 0.
    let after_position = if after.tx == 0 { after.position } else { i64::MAX };
    let sql = "SELECT '', count(*) FROM (SELECT 1 FROM event WHERE position > ?1 LIMIT ?2)";
    let params = params![after_position, i64::try_from(MAX_FEED_LAG_EVENTS).unwrap_or(i64::MAX)];
    let counted = query_first(connection, sql, params, row::decode_count::<Text>)?;
    let sql = "SELECT ingest_time FROM event WHERE position > ?1 ORDER BY position LIMIT 1";
    let oldest = query_first(connection, sql, [after_position], |cells| {
        RowReader::new(&STREAM, cells).read_next()
    })?;
    Ok(FeedLag {
        events: counted.map_or(0, |(_, events)| events),
        oldest,
        end: feed_end(connection)?,
        held_back_since: None,
    })
}
