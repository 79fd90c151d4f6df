//! Drops old partitions of the log.
//!
//! A partition is dropped in one transaction: its executions are locked and checked, their rows are
//! deleted, the dropped range is recorded, and the table is dropped. Rows in other tables are
//! purged afterwards, in small steps. They can no longer be found once their execution is gone.

use std::sync::LazyLock;
use std::time::Duration;

use noetl_types::id::first_id_at;
use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, FeedPosition, Text, Timestamp};
use tokio_postgres::Transaction;
use tokio_postgres::error::SqlState;

use super::bind::{Param, query_rows, to_store_error};
use super::feed;
use super::open::TABLES_LOCK;
use super::partition;
use super::pool::ConnectionPool;
use super::table_owner::TableOwner;
use crate::error::StoreError;
use crate::model::{EnabledPublishers, LogPartition, OldPartition, PinReason};
use crate::row::{DEPENDENT_TABLES, DependentTable, ToCell as _};

/// Maximum wait for a lock. Appends may have to wait this long for a drop.
const LOCK_TIMEOUT: Duration = Duration::from_millis(500);
const _: () = assert!(LOCK_TIMEOUT.as_millis() <= 500);

/// Maximum attempts to drop a partition whose locks are not available in time.
const MAX_DROP_ATTEMPTS: u32 = 4;

/// Pause between two attempts, in which other transactions can take the locks.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum duration of one statement that checks or drops a partition.
const STATEMENT_TIMEOUT: Duration = Duration::from_mins(10);

pub(super) const FIRST_LIVE_EXECUTION: &str = "SELECT execution_id FROM execution
    WHERE $1 <= execution_id AND execution_id < $2 AND NOT ended ORDER BY execution_id LIMIT 1";

const FIRST_PENDING_FOLLOW_UP: &str = "SELECT execution_id FROM errand
    WHERE $1 <= execution_id AND execution_id < $2 ORDER BY execution_id LIMIT 1";

/// First execution with unpublished rows, found by scanning the rows of the executions. Published
/// rows of an old month are mostly purged. If they are retained longer, each check reads those that
/// are left.
pub(super) const FIRST_UNPUBLISHED: &str = "SELECT execution_id FROM outbox
    WHERE $1 <= execution_id AND execution_id < $2
        AND status <> 'PUBLISHED' AND discarded_at IS NULL
    ORDER BY execution_id LIMIT 1";

/// Selects true if there is an event after a position. Rows of earlier log epochs count as written
/// by transaction 0.
const HAS_EVENT_AFTER: &str = "SELECT EXISTS (
        SELECT FROM event
        WHERE $1 <= execution_id AND execution_id < $2 AND position > $5::bigint
            AND (tx, position) > ($3::text::xid8, $4::bigint)
    ) OR ($3::text = '0' AND EXISTS (
        SELECT FROM event
        WHERE $1 <= execution_id AND execution_id < $2
            AND position <= $5::bigint AND position > $4::bigint
    ))";

async fn first_execution_id(
    transaction: &Transaction<'_>,
    sql: &str,
    partition: &LogPartition,
) -> Result<Option<ExecutionId>, StoreError> {
    let found = query_rows(transaction, sql, &[&partition.first_id, &partition.end_id]).await?;
    let id = found.first().map(|row| ExecutionId::new(row.get(0)));
    id.transpose().map_err(StoreError::fatal)
}

/// Returns the reason that a partition cannot be dropped.
async fn pin_reason(
    transaction: &Transaction<'_>,
    partition: &LogPartition,
    publishers: &EnabledPublishers,
) -> Result<Option<PinReason>, StoreError> {
    if let Some(id) = first_execution_id(transaction, FIRST_LIVE_EXECUTION, partition).await? {
        return Ok(Some(PinReason::NotEnded(id)));
    }
    if let Some(id) = first_execution_id(transaction, FIRST_PENDING_FOLLOW_UP, partition).await? {
        return Ok(Some(PinReason::PendingFollowUp(id)));
    }
    if publishers.outbox
        && let Some(id) = first_execution_id(transaction, FIRST_UNPUBLISHED, partition).await?
    {
        return Ok(Some(PinReason::Outbox(id)));
    }
    if publishers.streams.is_empty() {
        return Ok(None);
    }
    let base = feed::feed_base_in_transaction(transaction).await?;
    for name in &publishers.streams {
        // A stream that never started, or that belongs to an earlier log epoch, has published
        // nothing.
        let published = feed::published_position(transaction, name).await?;
        let FeedPosition { tx, position } =
            published.unwrap_or(FeedPosition { tx: 0, position: -1 });
        let tx = tx.to_string();
        let params: [Param<'_>; 5] =
            [&partition.first_id, &partition.end_id, &tx, &position, &base.0];
        let has_more = query_rows(transaction, HAS_EVENT_AFTER, &params).await?;
        if has_more.first().is_none_or(|row| row.get(0)) {
            return Ok(Some(PinReason::Stream(name.clone())));
        }
    }
    Ok(None)
}

pub(super) async fn list_old_partitions(
    pool: &ConnectionPool,
    before: Timestamp,
    publishers: &EnabledPublishers,
) -> Result<Vec<OldPartition>, StoreError> {
    let cutoff_id = first_id_at(before.as_unix_ms());
    let mut pooled = pool.acquire().await?;
    let partitions = partition::list_partitions(pooled.client()?).await?;
    pooled.mark_idle();
    let mut old = Vec::new();
    for partition in partitions.into_iter().filter(|partition| partition.end_id <= cutoff_id) {
        // An error aborts the transaction, so each partition is checked in a separate one.
        let transaction = pooled.begin_transaction().await?;
        let checked = check_partition(&transaction, &partition, publishers).await;
        transaction.rollback().await.map_err(to_store_error)?;
        let pin_reason = match checked {
            Ok(pin_reason) => pin_reason,
            Err(DropFailure::Lock(text) | DropFailure::Database(text)) => {
                Some(PinReason::Refused(text))
            }
            Err(DropFailure::Store(error)) => return Err(error),
        };
        old.push(OldPartition { partition, pin_reason });
    }
    Ok(old)
}

/// Returns the reason that a partition cannot be dropped, without locking it.
async fn check_partition(
    transaction: &Transaction<'_>,
    partition: &LogPartition,
    publishers: &EnabledPublishers,
) -> Result<Option<PinReason>, DropFailure> {
    set_drop_timeouts(transaction).await?;
    Ok(pin_reason(transaction, partition, publishers).await?)
}

/// Sets the timeouts of a transaction for locks and for statements. Statements may take longer than
/// elsewhere, since a partition can be large.
async fn set_drop_timeouts(transaction: &Transaction<'_>) -> Result<(), DropFailure> {
    let settings = format!(
        "SET LOCAL lock_timeout = {}; SET LOCAL statement_timeout = {}",
        LOCK_TIMEOUT.as_millis(),
        STATEMENT_TIMEOUT.as_millis()
    );
    let result = transaction.batch_execute(&settings).await;
    result.map_err(to_drop_failure)
}

/// Drops a partition. Makes several attempts, since other transactions may hold locks on the log
/// for longer than the lock timeout. An error from the database concerns only this partition and
/// becomes its pin reason. Only connection failures are returned as errors.
pub(super) async fn drop_partition(
    owner: &TableOwner,
    partition: &LogPartition,
    publishers: &EnabledPublishers,
    now: Timestamp,
) -> Result<Option<PinReason>, StoreError> {
    let mut attempts = 1;
    loop {
        let mut pooled = owner.acquire().await?;
        let transaction = pooled.begin_transaction().await?;
        let dropped = match drop_in_transaction(&transaction, partition, publishers, now).await {
            Ok(None) => transaction.commit().await.map(|()| None).map_err(to_drop_failure),
            not_dropped => {
                transaction.rollback().await.map_err(to_store_error)?;
                not_dropped
            }
        };
        match dropped {
            Ok(pin_reason) => return Ok(pin_reason),
            Err(DropFailure::Lock(_)) if attempts < MAX_DROP_ATTEMPTS => {
                drop(pooled);
                attempts += 1;
                tokio::time::sleep(LOCK_RETRY_INTERVAL).await;
            }
            Err(DropFailure::Lock(text) | DropFailure::Database(text)) => {
                return Ok(Some(PinReason::Refused(text)));
            }
            Err(DropFailure::Store(error)) => return Err(error),
        }
    }
}

/// Reason that a transaction did not drop a partition.
enum DropFailure {
    /// A lock was not available in time.
    Lock(Text),
    /// The database rejected the drop: another role owns the table, or another object depends on
    /// it.
    Database(Text),
    /// The store failed. Other partitions would fail too.
    Store(StoreError),
}

impl From<StoreError> for DropFailure {
    fn from(error: StoreError) -> Self {
        let (StoreError::Retry { cause, .. } | StoreError::Fatal { cause }) = &error;
        let reported = cause.downcast_ref::<tokio_postgres::Error>();
        let reported = reported.and_then(to_database_refusal);
        match (reported, &error) {
            (Some(reported), _) => reported,
            // A row of the partition cannot be read.
            (None, StoreError::Fatal { cause }) if !cause.is::<tokio_postgres::Error>() => {
                Self::Database(cause.to_string().into())
            }
            (None, StoreError::Fatal { .. } | StoreError::Retry { .. }) => Self::Store(error),
        }
    }
}

fn to_drop_failure(error: tokio_postgres::Error) -> DropFailure {
    DropFailure::from(to_store_error(error))
}

/// Converts an error that the database reported about dropping a partition. Returns `None` if the
/// connection failed or the server is shutting down.
fn to_database_refusal(error: &tokio_postgres::Error) -> Option<DropFailure> {
    let reported = error.as_db_error()?;
    let is_unavailable = matches!(
        *reported.code(),
        SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN | SqlState::CANNOT_CONNECT_NOW
    );
    if is_unavailable || reported.code().code().starts_with("08") {
        return None;
    }
    let detail = reported.detail().map(|detail| format!(": {detail}"));
    let text = Text::from(reported.message().to_owned() + &detail.unwrap_or_default());
    Some(match *reported.code() {
        SqlState::LOCK_NOT_AVAILABLE | SqlState::T_R_DEADLOCK_DETECTED => DropFailure::Lock(text),
        _ => DropFailure::Database(text),
    })
}

/// Locks executions in the order of their ids. Appends do not wait for these locks: they fail with
/// a conflict.
const LOCK_EXECUTIONS: &str = "SELECT count(*) FROM (
        SELECT FROM execution WHERE $1 <= execution_id AND execution_id < $2
        ORDER BY execution_id FOR UPDATE
    ) AS locked";

const DELETE_EXECUTIONS: &str =
    "DELETE FROM execution WHERE $1 <= execution_id AND execution_id < $2";

const RECORD_DROPPED_RANGE: &str = "INSERT INTO retention_range (lo, hi, dropped_at) VALUES ($1, $2, $3)
    ON CONFLICT (lo) DO UPDATE SET hi = greatest(retention_range.hi, excluded.hi), cleaned_at = NULL";

const HAS_EXECUTIONS: &str =
    "SELECT EXISTS (SELECT FROM execution WHERE $1 <= execution_id AND execution_id < $2)";

/// Records the last position of a partition. Without earlier log epochs it is the position of the
/// last transaction. With earlier epochs, positions have an index.
async fn record_dropped_position(
    transaction: &Transaction<'_>,
    partition: &str,
) -> Result<(), DropFailure> {
    let last = if feed::feed_base_in_transaction(transaction).await?.is_first_epoch() {
        format!("SELECT position FROM {partition} ORDER BY tx DESC, position DESC LIMIT 1")
    } else {
        format!("SELECT max(position) FROM {partition}")
    };
    let record = format!(
        "INSERT INTO meta (key, value) SELECT 'last_dropped', coalesce(({last}), 0)::text
         ON CONFLICT (key) DO UPDATE
         SET value = greatest(meta.value::bigint, excluded.value::bigint)::text"
    );
    transaction.query(&record, &[]).await.map_err(to_drop_failure)?;
    Ok(())
}

/// Returns a pin reason if a partition is no longer the table that was checked. Another table may
/// have its name.
async fn replaced_reason(
    transaction: &Transaction<'_>,
    partition: &LogPartition,
) -> Result<Option<PinReason>, StoreError> {
    let partitions = partition::list_partitions(transaction).await?;
    let text = "the partition no longer exists";
    Ok((!partitions.contains(partition)).then(|| PinReason::Refused(Text::from(text))))
}

async fn lock_table(transaction: &Transaction<'_>, table: &str) -> Result<(), DropFailure> {
    let lock = format!("LOCK TABLE ONLY {table} IN ACCESS EXCLUSIVE MODE");
    transaction.batch_execute(&lock).await.map_err(to_drop_failure)
}

/// Drops a partition in a transaction. The partition is locked first. While that lock waits for
/// readers, writes to other partitions are not blocked. The log as a whole is locked last, since
/// all appends wait for that lock: the transaction waits for it at most [`LOCK_TIMEOUT`], and holds
/// it only for one check and the commit.
///
/// An execution that was created in the range meanwhile is visible once the log is locked. Later
/// appends find the recorded range.
async fn drop_in_transaction(
    transaction: &Transaction<'_>,
    partition: &LogPartition,
    publishers: &EnabledPublishers,
    now: Timestamp,
) -> Result<Option<PinReason>, DropFailure> {
    set_drop_timeouts(transaction).await?;
    let range: [Param<'_>; 2] = [&partition.first_id, &partition.end_id];
    let run_on_range = |sql| transaction.query(sql, &range);
    let lock: [Param<'_>; 1] = [&TABLES_LOCK];
    let lock = transaction.query("SELECT pg_advisory_xact_lock($1)", &lock);
    lock.await.map_err(to_drop_failure)?;
    if let Some(reason) = replaced_reason(transaction, partition).await? {
        return Ok(Some(reason));
    }
    run_on_range(LOCK_EXECUTIONS).await.map_err(to_drop_failure)?;
    if let Some(reason) = pin_reason(transaction, partition, publishers).await? {
        return Ok(Some(reason));
    }
    let record: [Param<'_>; 3] = [&partition.first_id, &partition.end_id, &now.to_cell()];
    transaction.query(RECORD_DROPPED_RANGE, &record).await.map_err(to_drop_failure)?;
    run_on_range(DELETE_EXECUTIONS).await.map_err(to_drop_failure)?;
    let name: [Param<'_>; 1] = [&partition.name.as_str()];
    let quoted = transaction.query_one("SELECT quote_ident($1)", &name);
    let quoted: String = quoted.await.map_err(to_drop_failure)?.get(0);
    record_dropped_position(transaction, &quoted).await?;
    lock_table(transaction, &quoted).await?;
    // Until the lock was taken, the name could be given to another table.
    if let Some(reason) = replaced_reason(transaction, partition).await? {
        return Ok(Some(reason));
    }
    lock_table(transaction, "event").await?;
    let has_executions: bool =
        transaction.query_one(HAS_EXECUTIONS, &range).await.map_err(to_drop_failure)?.get(0);
    if has_executions {
        let text = "an execution was just created in the partition";
        return Ok(Some(PinReason::Refused(Text::from(text))));
    }
    let drop_table = format!("DROP TABLE {quoted}");
    transaction.batch_execute(&drop_table).await.map_err(to_drop_failure)?;
    Ok(None)
}

const SELECT_UNPURGED_RANGE: &str = "SELECT lo, hi FROM retention_range WHERE cleaned_at IS NULL
    ORDER BY lo LIMIT 1";

const MARK_RANGE_PURGED: &str =
    "UPDATE retention_range SET cleaned_at = $2::timestamptz WHERE lo = $1";

/// Statements that delete rows of a range of executions, one per dependent table.
static PURGE_STATEMENTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let delete = |dependent: &DependentTable| {
        let DependentTable { table, execution_column: execution, .. } = dependent;
        format!(
            "DELETE FROM {table} WHERE ctid = ANY (ARRAY(
                 SELECT ctid FROM {table} WHERE $1 <= {execution} AND {execution} < $2
                 LIMIT $3::bigint
             )) RETURNING 1"
        )
    };
    DEPENDENT_TABLES.iter().map(delete).collect()
});

/// Deletes remaining rows of dropped executions, from one table per call. Marks a range as purged
/// once no rows are left. Returns the number of deleted rows, 0 if nothing is left to purge.
pub(super) async fn purge_dropped_executions(
    pool: &ConnectionPool,
    now: Timestamp,
    limit: PageLimit,
) -> Result<u64, StoreError> {
    let mut client = pool.acquire().await?;
    loop {
        let found = client.query_rows(SELECT_UNPURGED_RANGE, &[]).await?;
        let Some((lo, hi)) = found.first().map(|row| (row.get::<_, i64>(0), row.get::<_, i64>(1)))
        else {
            return Ok(0);
        };
        let params: [Param<'_>; 3] = [&lo, &hi, &i64::from(limit.get())];
        for delete in &*PURGE_STATEMENTS {
            let deleted = client.query_rows(delete, &params).await?;
            if !deleted.is_empty() {
                return Ok(u64::try_from(deleted.len()).unwrap_or(u64::MAX));
            }
        }
        client.query_rows(MARK_RANGE_PURGED, &[&lo, &now.to_cell()]).await?;
    }
}
