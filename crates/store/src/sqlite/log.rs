//! [`EventLog`] in SQLite.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use async_trait::async_trait;
use noetl_types::{EventId, ExecutionId, ExecutionVersion, FeedPosition, StoredEvent};
use rusqlite::Connection;

use super::bind::{query_all, query_each, query_first, query_within_bytes};
use super::{SqliteStore, append};
use crate::error::StoreError;
use crate::executions::EXECUTION_BY_ID;
use crate::log::EventLog;
use crate::model::{
    AppendError, AppendReceipt, AppendRequest, EventKey, Execution, FeedBatch, FeedItem, FeedLag,
    FeedLimit, KnownEvents, LoadedLog, LogPageLimit, MAX_FEED_BATCH_BYTES, MAX_FEED_LAG_EVENTS,
    PackedReplayRows, ReplayPage, Snapshot, SnapshotKey,
};
use crate::prepare_append::prepare_appends;
use crate::row::{self, EVENT, EVENT_BODY, to_append_rows};
use crate::snapshots::NEWEST_SNAPSHOT;

/// Start of every event query. With one writer, positions follow the order of commits, so all
/// events have the same `tx`.
static EVENT_SELECT: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {}, 0, position FROM event", EVENT.column_list()));

static SELECT_EVENTS: LazyLock<String> = LazyLock::new(|| {
    let events = &*EVENT_SELECT;
    format!("{events} WHERE execution_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3")
});

static SELECT_REPLAY_ROWS: LazyLock<String> = LazyLock::new(|| {
    let columns = row::replay_columns("instr(meta, 'object') > 0");
    format!(
        "SELECT {columns} FROM event WHERE execution_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3"
    )
});

static SELECT_EVENT: LazyLock<String> = LazyLock::new(|| {
    let events = &*EVENT_SELECT;
    format!("{events} WHERE execution_id = ?1 AND event_id = ?2")
});

static SELECT_FEED: LazyLock<String> = LazyLock::new(|| {
    let events = &*EVENT_SELECT;
    format!("{events} WHERE position > ?1 ORDER BY position LIMIT ?2")
});

static SELECT_MESSAGES: LazyLock<String> = LazyLock::new(|| {
    let columns = EVENT_BODY.column_list();
    format!(
        "SELECT {columns}, 0, position FROM event WHERE position > ?1 ORDER BY position LIMIT ?2"
    )
});

fn read_events(
    connection: &Connection,
    execution_id: ExecutionId,
    after: ExecutionVersion,
    page: LogPageLimit,
) -> Result<Vec<StoredEvent>, StoreError> {
    query_all(connection, &SELECT_EVENTS, (execution_id.get(), after.get(), page.get()))
}

pub(super) fn find_event(
    connection: &Connection,
    execution_id: ExecutionId,
    event_id: EventId,
) -> Result<Option<StoredEvent>, StoreError> {
    query_first(connection, &SELECT_EVENT, (execution_id.get(), event_id.get()))
}

fn find_execution(
    connection: &Connection,
    execution_id: ExecutionId,
) -> Result<Option<Execution>, StoreError> {
    query_first(connection, EXECUTION_BY_ID.sqlite(), [execution_id.get()])
}

#[async_trait]
impl EventLog for SqliteStore {
    async fn append_events(
        &self,
        appends: Vec<AppendRequest>,
    ) -> Vec<Result<AppendReceipt, AppendError>> {
        let items = to_append_rows(prepare_appends(appends));
        let count = items.len();
        let bytes = items.iter().flatten().map(|rows| rows.bytes).sum();
        let results = self
            .writer
            .run_large_write(bytes, move |connection, isolation| {
                append::append_items(connection, &items, isolation)
            })
            .await;
        results.unwrap_or_else(|error| vec![Err(error.into()); count])
    }

    async fn load_execution(
        &self,
        execution_id: ExecutionId,
        snapshot: &SnapshotKey,
        page: LogPageLimit,
    ) -> Result<Option<LoadedLog>, StoreError> {
        let key = snapshot.clone();
        let load = move |connection: &Connection| {
            let Some(execution) = find_execution(connection, execution_id)? else {
                return Ok(None);
            };
            let version = execution.head.version.get();
            let params = (execution_id.get(), key.kind.as_str(), key.fold_version, version);
            let snapshot: Option<Snapshot> =
                query_first(connection, NEWEST_SNAPSHOT.sqlite(), params)?;
            let after =
                snapshot.as_ref().map_or(ExecutionVersion::EMPTY, |snapshot| snapshot.head.version);
            let tail = read_events(connection, execution_id, after, page)?;
            Ok(Some(LoadedLog::from_page(execution, snapshot, tail, page)))
        };
        self.readers.run_query(load).await
    }

    async fn read_events(
        &self,
        execution_id: ExecutionId,
        after: ExecutionVersion,
        page: LogPageLimit,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let read = move |connection: &_| read_events(connection, execution_id, after, page);
        self.readers.run_query(read).await
    }

    async fn read_replay_rows(
        &self,
        execution_id: ExecutionId,
        after: ExecutionVersion,
        page: LogPageLimit,
    ) -> Result<ReplayPage, StoreError> {
        let read = move |connection: &Connection| {
            let mut rows = PackedReplayRows::new(execution_id);
            let mut is_current = true;
            let params = (execution_id.get(), after.get(), page.get());
            query_each(connection, &SELECT_REPLAY_ROWS, params, |cells| {
                is_current = row::push_replay_row(&mut rows, cells)?;
                Ok(is_current && rows.text_bytes() < row::MAX_REPLAY_PAGE_BYTES)
            })?;
            if is_current {
                return Ok(ReplayPage::Rows(rows));
            }
            read_events(connection, execution_id, after, page).map(ReplayPage::Events)
        };
        self.readers.run_query(read).await
    }

    async fn find_event(
        &self,
        execution_id: ExecutionId,
        event_id: EventId,
    ) -> Result<Option<StoredEvent>, StoreError> {
        let find = move |connection: &_| find_event(connection, execution_id, event_id);
        self.readers.run_query(find).await
    }

    /// Finds events and their executions. All reads see one snapshot, which a reader holds for a
    /// call.
    async fn find_known_events(&self, events: Vec<EventKey>) -> Result<KnownEvents, StoreError> {
        let find = move |connection: &Connection| {
            let keys: BTreeSet<_> = events.iter().copied().collect();
            let ids: BTreeSet<_> = keys.iter().map(|key| key.execution_id).collect();
            let mut known = KnownEvents::default();
            for id in ids {
                known.executions.extend(find_execution(connection, id)?);
            }
            for key in keys {
                known.events.extend(find_event(connection, key.execution_id, key.event_id)?);
            }
            Ok(known)
        };
        self.readers.run_query(find).await
    }

    /// Reads events of the feed. A batch with only unreadable events is skipped, since the caller
    /// takes an empty batch for the end of the feed.
    async fn read_feed(
        &self,
        after: FeedPosition,
        limit: FeedLimit,
    ) -> Result<FeedBatch, StoreError> {
        let read = move |connection: &Connection| {
            let mut after = after;
            loop {
                let params = (after.position, limit.get());
                let (events, is_cut) =
                    query_within_bytes(connection, &SELECT_FEED, params, MAX_FEED_BATCH_BYTES)?;
                let batch = FeedBatch::from_items(events, after, limit, is_cut).into_readable();
                if !batch.is_all_skipped() {
                    return Ok(batch);
                }
                after = batch.next;
            }
        };
        self.readers.run_query(read).await
    }

    async fn read_feed_messages(
        &self,
        after: FeedPosition,
        limit: FeedLimit,
    ) -> Result<FeedBatch<FeedItem>, StoreError> {
        let read = move |connection: &Connection| {
            let params = (after.position, limit.get());
            let (events, is_cut) =
                query_within_bytes(connection, &SELECT_MESSAGES, params, MAX_FEED_BATCH_BYTES)?;
            Ok(FeedBatch::from_items(events, after, limit, is_cut))
        };
        self.readers.run_query(read).await
    }

    async fn feed_lag(&self, after: FeedPosition) -> Result<FeedLag, StoreError> {
        let count = move |connection: &Connection| {
            // All events have transaction 0.
            let after_position = if after.tx == 0 { after.position } else { i64::MAX };
            let sql = "SELECT count(*) FROM (SELECT 1 FROM event WHERE position > ?1 LIMIT ?2)";
            let limit = i64::try_from(MAX_FEED_LAG_EVENTS).unwrap_or(i64::MAX);
            let counted: Option<(u64,)> = query_first(connection, sql, (after_position, limit))?;
            let sql = "SELECT ingest_time FROM event WHERE position > ?1 ORDER BY position LIMIT 1";
            let oldest = query_first(connection, sql, [after_position])?;
            let end = "SELECT coalesce(max(position), 0) FROM event";
            let end: Option<(i64,)> = query_first(connection, end, [])?;
            Ok(FeedLag {
                events: counted.map_or(0, |(events,)| events),
                oldest: oldest.map(|(oldest,)| oldest),
                end: FeedPosition { tx: 0, position: end.map_or(0, |(position,)| position) },
                held_back_since: None,
            })
        };
        self.readers.run_query(count).await
    }
}
