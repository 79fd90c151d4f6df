//! The feed.
//!
//! Rows up to the base belong to earlier log epochs. Their transaction ids come from another
//! cluster, so they count as written by transaction 0, in the order of their positions.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};

use noetl_types::{FeedPosition, Text, Timestamp};
use tokio_postgres::{Client, Transaction};

use super::bind::{Param, decode_first, query_rows, to_store_error};
use super::log::spawn_decode;
use super::pool::ConnectionPool;
use crate::error::StoreError;
use crate::model::{
    FeedBatch, FeedEntry, FeedItem, FeedLag, FeedLimit, LogEpoch, MAX_FEED_BATCH_BYTES,
    MAX_FEED_LAG_EVENTS, StreamCursor,
};
use crate::row::{ColumnKind, EVENT, EVENT_BODY, FromRow, Table};
use crate::streams::{
    CURSOR_BY_NAME, FEED_END, SELECT_FEED_BASE, SELECT_LOG_EPOCH, START_LOG_EPOCH,
};

/// Last position of the earlier log epochs. 0 if there are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FeedBase(pub(super) i64);

impl FeedBase {
    /// Returns the position after which the current log epoch starts.
    fn end_position(self) -> FeedPosition {
        FeedPosition { tx: 0, position: self.0 }
    }

    /// True if there are no earlier log epochs.
    pub(super) fn is_first_epoch(self) -> bool {
        self.0 == 0
    }

    fn has_earlier_rows_after(self, after: FeedPosition) -> bool {
        after < self.end_position()
    }
}

/// Feed base as this process last read it. Another process may start a new log epoch at any time,
/// so each read checks that the base is still current.
#[derive(Debug)]
pub(super) struct CachedFeedBase(AtomicI64);

impl CachedFeedBase {
    pub(super) fn new(base: FeedBase) -> Self {
        Self(AtomicI64::new(base.0))
    }

    fn load_base(&self) -> FeedBase {
        FeedBase(self.0.load(Ordering::Relaxed))
    }

    fn store_base(&self, base: FeedBase) {
        self.0.store(base.0, Ordering::Relaxed);
    }
}

/// Reads the base in a transaction.
pub(super) async fn feed_base_in_transaction(
    transaction: &Transaction<'_>,
) -> Result<FeedBase, StoreError> {
    let rows = query_rows(transaction, SELECT_FEED_BASE.postgres(), &[]).await?;
    Ok(FeedBase(rows.first().map_or(0, |row| row.get(0))))
}

/// Condition for settled events. No new event can appear below the oldest transaction in progress.
const IS_SETTLED: &str = "tx < pg_snapshot_xmin(pg_current_snapshot())";

/// Event columns that can be large.
const LARGE_COLUMNS: [&str; 6] = ["context", "result", "meta", "extra", "error", "stack_trace"];

/// Returns SQL for the size of a column in bytes. The size of an uncompressed value is known
/// without reading it.
pub(super) fn column_bytes_sql(column: &str) -> String {
    format!(
        "CASE WHEN pg_column_compression({column}) IS NULL
             THEN coalesce(pg_column_size({column}), 0) ELSE octet_length({column}::text) END"
    )
}

/// Returns SQL for the approximate size of an event, based on its large columns.
fn event_bytes_sql() -> String {
    format!("1024 + {}", LARGE_COLUMNS.map(column_bytes_sql).join(" + "))
}

/// Section of the feed: the current log epoch or the earlier ones.
struct FeedSection {
    /// SQL for the transaction id that its events count as written by.
    tx: &'static str,
    condition: String,
    /// Sort order on the stored columns. An unqualified name could refer to an output column, whose
    /// order no index provides.
    order: &'static str,
}

impl FeedSection {
    /// Returns SQL for the events in order, with their size in bytes.
    fn measured_sql(&self) -> String {
        let (bytes, condition, order) = (event_bytes_sql(), &self.condition, self.order);
        format!(
            "SELECT *, {bytes} AS bytes FROM event WHERE {condition}
             ORDER BY {order} LIMIT $3::bigint"
        )
    }

    /// Returns SQL for the events in order. Those over the size limit are flagged and returned
    /// without their large columns. Most of the feed is read with this statement, which streams
    /// rows from the index without materializing them.
    fn small_events_sql(&self, table: &Table) -> String {
        let expression = |(name, _): &(&str, ColumnKind)| {
            if LARGE_COLUMNS.contains(name) {
                format!("CASE WHEN bytes <= $4::bigint THEN {name} END AS {name}")
            } else {
                (*name).to_owned()
            }
        };
        let columns: Vec<_> = table.columns.iter().map(expression).collect();
        let (tx, columns) = (self.tx, columns.join(", "));
        let (measured, order) = (self.measured_sql(), self.order.replace("tx", "measured.tx"));
        format!(
            "SELECT {columns}, {tx}, position, bytes > $4::bigint
             FROM ({measured}) AS measured ORDER BY {order}"
        )
    }

    /// Returns SQL for events of any size until the events before them exceed the byte limit. The
    /// last column is true if there are more.
    fn any_size_sql(&self, table: &Table) -> String {
        let (tx, columns, order) = (self.tx, table.column_list(), self.order);
        let (measured, output_order) = (self.measured_sql(), order.replace("tx", "bounded.tx"));
        format!(
            "SELECT {columns}, {tx}, position, count(*) OVER () < chosen
             FROM (
                 SELECT *, count(*) OVER () AS chosen,
                     sum(bytes) OVER (ORDER BY {order}) - bytes AS bytes_before
                 FROM ({measured}) AS measured
             ) AS bounded
             WHERE bytes_before < $4::bigint
             ORDER BY {output_order}"
        )
    }
}

/// Statements that read a section of the feed.
struct SectionStatements {
    small: String,
    any_size: String,
}

/// Statements for the current and the earlier log epochs.
struct FeedStatements {
    current: SectionStatements,
    earlier: SectionStatements,
}

impl FeedStatements {
    fn new(table: &Table) -> Self {
        let current = FeedSection {
            tx: "tx",
            condition: format!(
                "(tx, position) > ($1::text::xid8, $2::bigint) AND position > $5::bigint
                     AND {IS_SETTLED}"
            ),
            order: "tx, position",
        };
        let earlier = FeedSection {
            tx: "0::bigint",
            condition: "$1::text = '0' AND position > $2::bigint AND position <= $5::bigint".into(),
            order: "position",
        };
        let statements = |section: &FeedSection| SectionStatements {
            small: section.small_events_sql(table),
            any_size: section.any_size_sql(table),
        };
        Self { current: statements(&current), earlier: statements(&earlier) }
    }
}

static READ_EVENTS: LazyLock<FeedStatements> = LazyLock::new(|| FeedStatements::new(&EVENT));

static READ_MESSAGES: LazyLock<FeedStatements> = LazyLock::new(|| FeedStatements::new(&EVENT_BODY));

/// Selects true if the server is a standby, and the feed base.
const SELECT_STANDBY_AND_BASE: &str = "SELECT pg_is_in_recovery(),
    (SELECT value::bigint FROM meta WHERE key = 'feed_base')";

/// Error for a standby server, which cannot provide the order of the feed.
#[derive(Debug, thiserror::Error)]
#[error(
    "the PostgreSQL server is a standby, where commits may appear in another order; connect to the \
     primary"
)]
struct StandbyServer;

/// Reads a batch of the feed. If `after` is in the earlier log epochs and they have no more rows,
/// the same call continues with the current epoch, since a caller that gets nothing asks from the
/// same position again.
async fn read_feed_batch<T: FeedEntry + FromRow>(
    feed: &'static FeedStatements,
    pool: &ConnectionPool,
    cached_base: &CachedFeedBase,
    mut after: FeedPosition,
    limit: FeedLimit,
) -> Result<FeedBatch<T>, StoreError> {
    let mut client = pool.acquire().await?;
    let mut base = cached_base.load_base();
    let mut is_small = true;
    loop {
        let is_earlier_epoch = base.has_earlier_rows_after(after);
        let statements = if is_earlier_epoch { &feed.earlier } else { &feed.current };
        // The requested number of events fits into a batch if each has at most this size.
        let (sql, bytes) = if is_small {
            (&statements.small, MAX_FEED_BATCH_BYTES / limit.get() as usize)
        } else {
            (&statements.any_size, MAX_FEED_BATCH_BYTES)
        };
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let tx = after.tx.to_string();
        let max_events = i64::from(limit.get());
        let params: [Param<'_>; 5] = [&tx, &after.position, &max_events, &bytes, &base.0];
        let (mut rows, state) =
            client.query_pipelined((sql, &params), (SELECT_STANDBY_AND_BASE, &[])).await?;
        if state.first().is_none_or(|row| row.get(0)) {
            return Err(StoreError::fatal(StandbyServer));
        }
        // The base only grows. If it has the known value after the read, it had it during the read.
        let current_base = state.first().and_then(|row| row.get::<_, Option<i64>>(1));
        let current_base = FeedBase(current_base.unwrap_or_default());
        if current_base != base {
            cached_base.store_base(current_base);
            base = current_base;
            continue;
        }
        if rows.is_empty() && is_earlier_epoch {
            after = base.end_position();
            continue;
        }
        let mut is_cut = rows.first().is_some_and(is_flagged);
        if is_small {
            if is_cut {
                is_small = false;
                continue;
            }
            let small = rows.iter().take_while(|row| !is_flagged(row)).count();
            is_cut = small < rows.len();
            rows.truncate(small);
        }
        let events = spawn_decode(rows).await?;
        let mut batch = FeedBatch::from_items(events, after, limit, is_cut);
        batch.is_full |= is_earlier_epoch;
        return Ok(batch);
    }
}

/// Returns the last column of a row. It is true if a row of a small read is too large, or if there
/// are more rows after a read of any size.
fn is_flagged(row: &tokio_postgres::Row) -> bool {
    row.get(row.len() - 1)
}

/// Reads events of the feed. A batch with only unreadable events is skipped, since the caller takes
/// an empty batch for the end of the feed.
pub(super) async fn read_feed(
    pool: &ConnectionPool,
    cached_base: &CachedFeedBase,
    mut after: FeedPosition,
    limit: FeedLimit,
) -> Result<FeedBatch, StoreError> {
    loop {
        let batch =
            read_feed_batch(&READ_EVENTS, pool, cached_base, after, limit).await?.into_readable();
        if !batch.is_all_skipped() {
            return Ok(batch);
        }
        after = batch.next;
    }
}

pub(super) async fn read_feed_messages(
    pool: &ConnectionPool,
    cached_base: &CachedFeedBase,
    after: FeedPosition,
    limit: FeedLimit,
) -> Result<FeedBatch<FeedItem>, StoreError> {
    read_feed_batch(&READ_MESSAGES, pool, cached_base, after, limit).await
}

/// Returns the position of the last settled event, or the end of the earlier log epochs if there is
/// no event after them.
async fn feed_end(
    transaction: &Transaction<'_>,
    base: FeedBase,
) -> Result<FeedPosition, StoreError> {
    let rows = query_rows(transaction, FEED_END.postgres(), &[&base.0]).await?;
    let last = decode_first(&rows)?;
    Ok(last.map_or(base.end_position(), |(tx, position)| FeedPosition { tx, position }))
}

static COUNT_AFTER: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT count(*) FROM (
             SELECT FROM event
             WHERE (tx, position) > ($1::text::xid8, $2::bigint) AND position > $3::bigint AND {IS_SETTLED}
             LIMIT $4::bigint
         ) AS behind"
    )
});

static OLDEST_AFTER: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT ingest_time FROM event
         WHERE (tx, position) > ($1::text::xid8, $2::bigint) AND position > $3::bigint AND {IS_SETTLED}
         ORDER BY tx, position LIMIT 1"
    )
});

const COUNT_EARLIER_EPOCHS: &str = "SELECT count(*) FROM (
    SELECT FROM event WHERE position > $1::bigint AND position <= $2::bigint LIMIT $3::bigint
) AS behind";

const OLDEST_EARLIER_EPOCHS: &str = "SELECT ingest_time FROM event
    WHERE position > $1::bigint AND position <= $2::bigint ORDER BY position LIMIT 1";

const OLDEST_UNSETTLED: &str = "SELECT ingest_time FROM event
    WHERE tx >= pg_snapshot_xmin(pg_current_snapshot()) AND position > $1::bigint
    ORDER BY tx, position LIMIT 1";

fn first_timestamp(rows: &[tokio_postgres::Row]) -> Result<Option<Timestamp>, StoreError> {
    Ok(decode_first(rows)?.map(|(time,)| time))
}

/// Measures the lag of a reader of the feed. All statements see one snapshot, since otherwise an
/// event could be counted both as readable and as held back.
pub(super) async fn feed_lag(
    pool: &ConnectionPool,
    after: FeedPosition,
) -> Result<FeedLag, StoreError> {
    let mut pooled = pool.acquire().await?;
    let transaction = pooled.begin_read_snapshot().await?;
    let base = feed_base_in_transaction(&transaction).await?;
    let tx = after.tx.to_string();
    let limit = i64::try_from(MAX_FEED_LAG_EVENTS).unwrap_or(i64::MAX);
    let after_params: [Param<'_>; 3] = [&tx, &after.position, &base.0];
    let count_params: [Param<'_>; 4] = [&tx, &after.position, &base.0, &limit];
    let mut events: i64 = query_rows(&transaction, &COUNT_AFTER, &count_params)
        .await?
        .first()
        .map_or(0, |row| row.get(0));
    let mut oldest =
        first_timestamp(&query_rows(&transaction, &OLDEST_AFTER, &after_params).await?)?;
    if base.has_earlier_rows_after(after) {
        let params: [Param<'_>; 3] = [&after.position, &base.0, &limit];
        let earlier = query_rows(&transaction, COUNT_EARLIER_EPOCHS, &params).await?;
        events = events.saturating_add(earlier.first().map_or(0, |row| row.get(0)));
        let params: [Param<'_>; 2] = [&after.position, &base.0];
        let first =
            first_timestamp(&query_rows(&transaction, OLDEST_EARLIER_EPOCHS, &params).await?)?;
        oldest = first.or(oldest);
    }
    let lag = FeedLag {
        events: u64::try_from(events).unwrap_or_default().min(MAX_FEED_LAG_EVENTS),
        oldest,
        end: feed_end(&transaction, base).await?,
        held_back_since: first_timestamp(
            &query_rows(&transaction, OLDEST_UNSETTLED, &[&base.0]).await?,
        )?,
    };
    transaction.commit().await.map_err(to_store_error)?;
    Ok(lag)
}

/// Returns the position up to which a stream has published. `None` if it never started or belongs
/// to an earlier log epoch.
pub(super) async fn published_position(
    transaction: &Transaction<'_>,
    name: &Text,
) -> Result<Option<FeedPosition>, StoreError> {
    let rows = query_rows(transaction, CURSOR_BY_NAME.postgres(), &[&name.as_str()]).await?;
    let cursor: Option<StreamCursor> = decode_first(&rows)?;
    let rows = query_rows(transaction, SELECT_LOG_EPOCH.postgres(), &[]).await?;
    let epoch = decode_first(&rows)?.map_or(LogEpoch::FIRST, |(epoch,)| epoch);
    Ok(cursor.filter(|cursor| cursor.log_epoch == epoch).map(|cursor| cursor.position))
}

/// Starts a new log epoch in a transaction.
pub(super) async fn start_log_epoch(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    for statement in START_LOG_EPOCH {
        query_rows(transaction, statement.postgres(), &[]).await?;
    }
    Ok(())
}

/// Reads the feed base without a transaction, for a read-only store.
pub(super) async fn read_feed_base(client: &Client) -> Result<FeedBase, StoreError> {
    let rows = client.query(SELECT_FEED_BASE.postgres(), &[]).await.map_err(to_store_error)?;
    Ok(FeedBase(rows.first().map_or(0, |row| row.get(0))))
}
