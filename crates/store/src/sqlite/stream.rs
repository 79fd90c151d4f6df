//! Where streams stand, and the lives of the log.

use std::sync::LazyLock;

use noetl_types::{FeedPosition, Text, Timestamp};
use rusqlite::{Connection, params, params_from_iter};

use super::bind::{execute, failure, first, within};
use super::query::{put, select};
use crate::error::StoreError;
use crate::model::{
    FEED_BYTES, FeedBatch, FeedItem, FeedLag, FeedLimit, LogEpoch, MAX_FEED_LAG, StreamBegin,
    StreamCursor, StreamMove, StreamOwner, StreamTake, StreamTaken,
};
use crate::row::{self, Cell, Reader, SENT, STREAM, ToCell as _, stream_row};

static CURSOR: LazyLock<String> = LazyLock::new(|| select(&STREAM, "WHERE name = ?1"));

const EPOCH: &str = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'log_epoch'";

const NEW_EPOCH: &str = "UPDATE meta
    SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT) WHERE key = 'log_epoch'";

/// The rows that are still to be published get the names of the new life; what others called their
/// rows stays.
const RENAME: &str = "UPDATE outbox
    SET message_id = meta.value || substr(message_id, instr(message_id, ':'))
    FROM meta
    WHERE meta.key = 'log_epoch' AND status <> 'PUBLISHED' AND discarded_at IS NULL
        AND instr(message_id, (CAST(meta.value AS INTEGER) - 1) || ':' || execution_id || ':') = 1";

pub(super) fn log_epoch(connection: &Connection) -> Result<LogEpoch, StoreError> {
    let found = first(connection, EPOCH, [], |cells| {
        Reader::new(&STREAM, cells).take()
    })?;
    Ok(found.unwrap_or(LogEpoch::FIRST))
}

pub(super) fn begin_log_epoch(connection: &Connection) -> Result<LogEpoch, StoreError> {
    execute(connection, NEW_EPOCH, []).map_err(failure)?;
    execute(connection, RENAME, []).map_err(failure)?;
    log_epoch(connection)
}

const LAST_DROPPED: &str = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'last_dropped'";

pub(super) fn last_dropped(connection: &Connection) -> Result<i64, StoreError> {
    let found = first(connection, LAST_DROPPED, [], |cells| {
        Reader::new(&STREAM, cells).take()
    })?;
    Ok(found.unwrap_or_default())
}

pub(super) fn note_dropped(connection: &Connection, last: i64) -> Result<(), StoreError> {
    let last = last.max(last_dropped(connection)?);
    let note = "INSERT OR REPLACE INTO meta (key, value) VALUES ('last_dropped', ?1)";
    execute(connection, note, [last.to_string()]).map_err(failure)?;
    Ok(())
}

fn end(connection: &Connection) -> Result<FeedPosition, StoreError> {
    let sql = "SELECT coalesce(max(position), 0) FROM event";
    let position = first(connection, sql, [], |cells| {
        Reader::new(&STREAM, cells).take()
    })?;
    Ok(FeedPosition {
        tx: 0,
        position: position.unwrap_or_default(),
    })
}

pub(super) fn cursor(
    connection: &Connection,
    name: &Text,
) -> Result<Option<StreamCursor>, StoreError> {
    first(connection, &CURSOR, [name.as_str()], row::stream_cursor)
}

/// What a stream has published; nothing if it never began, or is of an earlier life of the log.
pub(super) fn published(
    connection: &Connection,
    name: &Text,
) -> Result<Option<FeedPosition>, StoreError> {
    let cursor = cursor(connection, name)?;
    let epoch = log_epoch(connection)?;
    let cursor = cursor.filter(|cursor| cursor.log_epoch == epoch);
    Ok(cursor.map(|cursor| cursor.position))
}

pub(super) fn take(connection: &Connection, take: &StreamTake) -> Result<StreamTaken, StoreError> {
    let cursor = if let Some(cursor) = cursor(connection, &take.name)? {
        cursor
    } else {
        let position = match take.begin {
            StreamBegin::Now => end(connection)?,
            StreamBegin::Beginning => FeedPosition::default(),
        };
        StreamCursor::begun(take, position, log_epoch(connection)?)
    };
    let taken = cursor.take(take);
    if let StreamTaken::Taken(cursor) = &taken {
        put(connection, "INSERT OR REPLACE", &STREAM, stream_row(cursor))?;
    }
    Ok(taken)
}

/// Changes the stream of an owner, and says whether it was the owner's.
fn change(
    connection: &Connection,
    set: &str,
    also: &str,
    owner: &StreamOwner,
    rest: &[Cell],
) -> Result<bool, StoreError> {
    let sql = format!(
        "UPDATE stream_cursor SET {set}, updated_at = ?3
         WHERE name = ?1 AND epoch = ?2 AND owner IS NOT NULL{also}"
    );
    let own = [
        owner.name.to_cell(),
        owner.epoch.to_cell(),
        owner.now.to_cell(),
    ];
    let all = own.iter().chain(rest);
    let changed = execute(connection, &sql, params_from_iter(all)).map_err(failure)?;
    Ok(changed > 0)
}

pub(super) fn renew(
    connection: &Connection,
    owner: &StreamOwner,
    lease_until: Timestamp,
) -> Result<bool, StoreError> {
    let until = [lease_until.to_cell()];
    change(connection, "lease_until = ?4", "", owner, &until)
}

pub(super) fn release(connection: &Connection, owner: &StreamOwner) -> Result<bool, StoreError> {
    let set = "owner = NULL, lease_until = NULL";
    change(connection, set, "", owner, &[])
}

pub(super) fn go(
    connection: &Connection,
    owner: &StreamOwner,
    to: StreamMove,
) -> Result<bool, StoreError> {
    let pair = |at: FeedPosition| [at.tx.to_cell(), at.position.to_cell()];
    match to {
        StreamMove::Forward { from, to } => {
            let also = " AND (tx, position) = (?4, ?5) AND (tx, position) < (?6, ?7)
                AND log_epoch = (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'log_epoch')";
            let both = [pair(from), pair(to)].concat();
            change(connection, "tx = ?6, position = ?7", also, owner, &both)
        }
        StreamMove::Restart {
            to,
            stream_created_at,
        } => {
            let set = "tx = ?4, position = ?5, stream_created_at = ?6,
                log_epoch = (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'log_epoch')";
            let mut rest = pair(to).to_vec();
            rest.push(stream_created_at.to_cell());
            change(connection, set, "", owner, &rest)
        }
    }
}

static SELECT_MESSAGES: LazyLock<String> = LazyLock::new(|| {
    let columns = SENT.list();
    format!(
        "SELECT {columns}, 0, position FROM event WHERE position > ?1 ORDER BY position LIMIT ?2"
    )
});

pub(super) fn messages(
    connection: &Connection,
    after: FeedPosition,
    limit: FeedLimit,
) -> Result<FeedBatch<FeedItem>, StoreError> {
    let params = (after.position, limit.get());
    let read = row::feed_item;
    let (events, is_cut) = within(connection, &SELECT_MESSAGES, params, FEED_BYTES, read)?;
    Ok(FeedBatch::of(events, after, limit, is_cut))
}

pub(super) fn lag(connection: &Connection, after: FeedPosition) -> Result<FeedLag, StoreError> {
    // All events have transaction 0.
    let behind = if after.tx == 0 {
        after.position
    } else {
        i64::MAX
    };
    let sql = "SELECT '', count(*) FROM (SELECT 1 FROM event WHERE position > ?1 LIMIT ?2)";
    let params = params![behind, i64::try_from(MAX_FEED_LAG).unwrap_or(i64::MAX)];
    let counted = first(connection, sql, params, row::count_of::<Text>)?;
    let sql = "SELECT ingest_time FROM event WHERE position > ?1 ORDER BY position LIMIT 1";
    let oldest = first(connection, sql, [behind], |cells| {
        Reader::new(&STREAM, cells).take()
    })?;
    Ok(FeedLag {
        events: counted.map_or(0, |(_, events)| events),
        oldest,
        end: end(connection)?,
        held_back_since: None,
    })
}
