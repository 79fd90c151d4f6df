//! Starts a new log epoch after the log was moved to another cluster or timeline.

use std::time::Duration;

use tokio_postgres::{Client, Transaction};

use super::bind::{query_rows, to_store_error};
use super::cluster_identity;
use super::feed::{self, FeedBase};
use super::open::TABLES_LOCK;
use super::pool::ConnectionPool;
use crate::error::StoreError;

/// Key of the advisory lock for starting a log epoch. It is not the tables lock: processes that
/// wait for that one have a transaction open, and `CREATE INDEX CONCURRENTLY` waits for all open
/// transactions.
const EPOCH_LOCK: i64 = TABLES_LOCK + 1;

/// Pause between two attempts to get that lock.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Checks if the log was restored from a dump, written in another cluster, or written on another
/// timeline (as after a point-in-time restore). Its transaction ids are then not valid here, or
/// readers may have seen other events with the same ids. In that case a new log epoch starts after
/// all existing rows.
///
/// This runs when the database is opened, before this process reads the feed. Other processes may
/// use the same log at that time. They detect the new base themselves.
pub(super) async fn rebase_if_moved(
    pool: &ConnectionPool,
    client: &mut Client,
) -> Result<FeedBase, StoreError> {
    if let Some(base) = base_or_new_epoch(client, PositionIndexes::Unknown).await? {
        return Ok(base);
    }
    // The lock is released when this connection closes.
    let mut lock_client = pool.open_connection().await?;
    let unbounded = "SET statement_timeout = 0";
    lock_client.batch_execute(unbounded).await.map_err(to_store_error)?;
    while !try_epoch_lock(&lock_client).await? {
        tokio::time::sleep(LOCK_RETRY_INTERVAL).await;
    }
    create_position_indexes(&lock_client).await?;
    let base = base_or_new_epoch(&mut lock_client, PositionIndexes::Complete).await?;
    base.ok_or_else(|| StoreError::retry("the new log epoch did not start"))
}

async fn try_epoch_lock(client: &Client) -> Result<bool, StoreError> {
    let sql = "SELECT pg_try_advisory_lock($1)";
    let row = client.query_one(sql, &[&EPOCH_LOCK]).await;
    Ok(row.map_err(to_store_error)?.get(0))
}

/// State of the indexes on the positions of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PositionIndexes {
    /// Indexes may be missing.
    Unknown,
    /// Every partition has an index.
    Complete,
}

/// Returns the base of the log. If a new log epoch is needed, starts it and returns its base, or
/// returns `None` if the indexes that this requires may be missing.
async fn base_or_new_epoch(
    client: &mut Client,
    indexes: PositionIndexes,
) -> Result<Option<FeedBase>, StoreError> {
    let transaction = client.transaction().await.map_err(to_store_error)?;
    let lock = "SELECT pg_advisory_xact_lock($1)";
    query_rows(&transaction, lock, &[&TABLES_LOCK]).await?;
    let base = feed::feed_base_in_transaction(&transaction).await?;
    if !needs_new_epoch(&transaction, base).await? {
        transaction.commit().await.map_err(to_store_error)?;
        return Ok(Some(base));
    }
    if indexes == PositionIndexes::Unknown {
        transaction.rollback().await.map_err(to_store_error)?;
        return Ok(None);
    }
    let base = start_epoch_after_log(&transaction).await?;
    transaction.commit().await.map_err(to_store_error)?;
    Ok(Some(base))
}

/// Transaction id of the newest event. Without a base, it is the greatest transaction id. With a
/// base, it is that of the last position, which has an index then.
const NEWEST_TX: &str =
    "SELECT tx::text::bigint FROM event ORDER BY tx DESC, position DESC LIMIT 1";
const NEWEST_TX_AFTER_BASE: &str = "SELECT tx::text::bigint FROM event
    WHERE position > $1::bigint ORDER BY position DESC LIMIT 1";

async fn needs_new_epoch(
    transaction: &Transaction<'_>,
    base: FeedBase,
) -> Result<bool, StoreError> {
    let newest = if base.0 == 0 {
        query_rows(transaction, NEWEST_TX, &[]).await?
    } else {
        query_rows(transaction, NEWEST_TX_AFTER_BASE, &[&base.0]).await?
    };
    let newest: i64 = newest.first().map_or(0, |row| row.get(0));
    let sql = "SELECT pg_current_xact_id()::text::bigint";
    let current: i64 =
        query_rows(transaction, sql, &[]).await?[..].first().map_or(i64::MAX, |row| row.get(0));
    // Always called, since it also stores what the next check compares.
    let has_moved = cluster_identity::has_log_moved(transaction).await?;
    Ok(newest >= current || has_moved)
}

/// Selects the partitions without an index on `position`, and the names for their indexes.
const UNINDEXED_PARTITIONS: &str = "SELECT quote_ident(part.relname),
        quote_ident(left(part.relname, 48) || '_by_position')
    FROM pg_inherits
    JOIN pg_class AS part ON part.oid = inhrelid
    JOIN pg_attribute AS attribute
        ON attribute.attrelid = part.oid AND attribute.attname = 'position'
    WHERE inhparent = 'event'::regclass AND part.relkind = 'r' AND NOT EXISTS (
        SELECT FROM pg_index
        WHERE indrelid = part.oid AND indisvalid AND indpred IS NULL
            AND indnatts = 1 AND indkey[0] = attribute.attnum
    )
    ORDER BY part.relname";

/// Creates the missing indexes on `position`, one partition at a time and concurrently with
/// appends: a log may be large, and other servers may be appending to it.
///
/// These indexes do not exist before the first restore, since they would slow down every append.
async fn create_position_indexes(client: &Client) -> Result<(), StoreError> {
    for row in client.query(UNINDEXED_PARTITIONS, &[]).await.map_err(to_store_error)? {
        let (partition, name): (&str, &str) = (row.get(0), row.get(1));
        // An interrupted build leaves an invalid index.
        for sql in [
            format!("DROP INDEX CONCURRENTLY IF EXISTS {name}"),
            format!("CREATE INDEX CONCURRENTLY {name} ON {partition} (position)"),
        ] {
            client.batch_execute(&sql).await.map_err(to_store_error)?;
        }
    }
    Ok(())
}

/// Blocks appends for a moment. Otherwise an append in progress could add rows at positions that
/// readers of the earlier epochs have already passed. The index on the whole log reuses those of
/// its partitions, and gives later partitions their index when they are created.
const LOCK_AND_INDEX_LOG: &str = "SET LOCAL lock_timeout = '10s';
    LOCK TABLE ONLY event IN SHARE MODE;
    CREATE INDEX IF NOT EXISTS event_by_position ON event (position)";

const UPDATE_FEED_BASE: &str = "UPDATE meta
    SET value = greatest(value::bigint, (SELECT max(position) FROM event))::text
    WHERE key = 'feed_base'";

async fn start_epoch_after_log(transaction: &Transaction<'_>) -> Result<FeedBase, StoreError> {
    transaction.batch_execute(LOCK_AND_INDEX_LOG).await.map_err(to_store_error)?;
    query_rows(transaction, UPDATE_FEED_BASE, &[]).await?;
    feed::start_log_epoch(transaction).await?;
    feed::feed_base_in_transaction(transaction).await
}
