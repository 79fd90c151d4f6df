//! A log that finds itself elsewhere begins a new life.

use std::time::Duration;

use tokio_postgres::{Client, Transaction};

use super::bind::failure;
use super::cluster;
use super::open::TABLES_LOCK;
use super::pool::Pool;
use super::query::rows;
use super::stream::{self, FeedBase};
use crate::error::StoreError;

/// The name of the lock of whoever begins a new life. It is not that of the tables: whoever waits for
/// that one has a transaction open, and an index that is built beside writers waits for all of those.
const LIVES_LOCK: i64 = TABLES_LOCK + 1;

/// How long to wait before that lock is asked for again.
const PAUSE: Duration = Duration::from_millis(200);

/// Looks whether the log was written in another cluster, as after a dump and a restore, or in another
/// past of this one, as after a restore to a point in time: then its transactions are not those of this
/// one, or others of the same numbers were seen, and a new life begins behind all of its rows.
///
/// It is done when the database is opened, before this process reads the feed. Others may be at work on
/// the same log meanwhile, and find the new base by themselves.
pub(super) async fn rebase(pool: &Pool, client: &mut Client) -> Result<FeedBase, StoreError> {
    if let Some(base) = life(client, Rows::AsTheyAre).await? {
        return Ok(base);
    }
    // The lock goes with the connection.
    let mut own = pool.connect().await?;
    let unbounded = "SET statement_timeout = 0";
    own.batch_execute(unbounded).await.map_err(failure)?;
    while !has_lock(&own).await? {
        tokio::time::sleep(PAUSE).await;
    }
    index(&own).await?;
    let base = life(&mut own, Rows::Indexed).await?;
    base.ok_or_else(|| StoreError::retry("the new life of the log did not begin"))
}

async fn has_lock(client: &Client) -> Result<bool, StoreError> {
    let ask = "SELECT pg_try_advisory_lock($1)";
    let row = client.query_one(ask, &[&LIVES_LOCK]).await;
    Ok(row.map_err(failure)?.get(0))
}

/// Whether the rows of the log can be found by their positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rows {
    AsTheyAre,
    Indexed,
}

/// The base of the log where it is; that of a new life where one has to begin, which needs an index.
async fn life(client: &mut Client, log: Rows) -> Result<Option<FeedBase>, StoreError> {
    let transaction = client.transaction().await.map_err(failure)?;
    let lock = "SELECT pg_advisory_xact_lock($1)";
    rows(&transaction, lock, &[&TABLES_LOCK]).await?;
    let base = stream::base_in(&transaction).await?;
    if !is_elsewhere(&transaction, base).await? {
        transaction.commit().await.map_err(failure)?;
        return Ok(Some(base));
    }
    if log == Rows::AsTheyAre {
        transaction.rollback().await.map_err(failure)?;
        return Ok(None);
    }
    let base = begin(&transaction).await?;
    transaction.commit().await.map_err(failure)?;
    Ok(Some(base))
}

/// Without a base the greatest transaction; with one that of the newest row, for which there is an
/// index then.
const NEWEST_TX: &str =
    "SELECT tx::text::bigint FROM event ORDER BY tx DESC, position DESC LIMIT 1";
const NEWEST_TX_BEHIND: &str = "SELECT tx::text::bigint FROM event
    WHERE position > $1::bigint ORDER BY position DESC LIMIT 1";

async fn is_elsewhere(transaction: &Transaction<'_>, base: FeedBase) -> Result<bool, StoreError> {
    let newest = if base.0 == 0 {
        rows(transaction, NEWEST_TX, &[]).await?
    } else {
        rows(transaction, NEWEST_TX_BEHIND, &[&base.0]).await?
    };
    let newest: i64 = newest.first().map_or(0, |row| row.get(0));
    let sql = "SELECT pg_current_xact_id()::text::bigint";
    let here: i64 = rows(transaction, sql, &[]).await?[..]
        .first()
        .map_or(i64::MAX, |row| row.get(0));
    // Always looked at, since it is also what is remembered.
    let is_another = cluster::is_another(transaction).await?;
    Ok(newest >= here || is_another)
}

/// Parts of the log whose rows cannot be found by their positions, and what their indexes are called.
const UNINDEXED: &str = "SELECT quote_ident(part.relname),
        quote_ident(left(part.relname, 48) || '_by_position')
    FROM pg_inherits
    JOIN pg_class AS part ON part.oid = inhrelid
    JOIN pg_attribute AS place ON place.attrelid = part.oid AND place.attname = 'position'
    WHERE inhparent = 'event'::regclass AND part.relkind = 'r' AND NOT EXISTS (
        SELECT FROM pg_index
        WHERE indrelid = part.oid AND indisvalid AND indpred IS NULL
            AND indnatts = 1 AND indkey[0] = place.attnum
    )
    ORDER BY part.relname";

/// Indexes what there is, part by part and beside whoever writes: a log may be large, and other
/// servers may be appending to it.
///
/// There is no such index before a first restore, since every append would pay for it.
async fn index(client: &Client) -> Result<(), StoreError> {
    for part in client.query(UNINDEXED, &[]).await.map_err(failure)? {
        let (part, name): (&str, &str) = (part.get(0), part.get(1));
        // What is left of one that was broken off is of no use.
        for sql in [
            format!("DROP INDEX CONCURRENTLY IF EXISTS {name}"),
            format!("CREATE INDEX CONCURRENTLY {name} ON {part} (position)"),
        ] {
            client.batch_execute(&sql).await.map_err(failure)?;
        }
    }
    Ok(())
}

/// Nobody appends meanwhile, which takes a moment: what was on its way would else come to be behind
/// readers of the old rows. The index of the whole log is made of those of its parts, and makes that
/// later parts have theirs from the beginning.
const LOCK: &str = "SET LOCAL lock_timeout = '10s';
    LOCK TABLE ONLY event IN SHARE MODE;
    CREATE INDEX IF NOT EXISTS event_by_position ON event (position)";

const NEW_BASE: &str = "UPDATE meta
    SET value = greatest(value::bigint, (SELECT max(position) FROM event))::text
    WHERE key = 'feed_base'";

async fn begin(transaction: &Transaction<'_>) -> Result<FeedBase, StoreError> {
    transaction.batch_execute(LOCK).await.map_err(failure)?;
    rows(transaction, NEW_BASE, &[]).await?;
    stream::new_epoch(transaction).await?;
    stream::base_in(transaction).await
}
