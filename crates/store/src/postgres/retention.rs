//! Dropping old parts of the log.
//!
//! A part goes in one transaction: its executions are locked and checked, their rows deleted, the
//! range is noted, and the partition dropped. Rows in other tables are cleaned up afterwards, in small
//! steps: nobody finds them any more.

use std::sync::LazyLock;
use std::time::Duration;

use noetl_types::id::first_id_at;
use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, FeedPosition, Text, Timestamp};
use tokio_postgres::Transaction;
use tokio_postgres::error::SqlState;

use super::bind::failure;
use super::open::TABLES_LOCK;
use super::owner::Owner;
use super::partition;
use super::pool::Pool;
use super::query::{Param, rows};
use super::stream;
use crate::error::StoreError;
use crate::model::{EnabledOutlets, LogPart, OldPart, Pinned};
use crate::row::{CLEANED, Cleaned, ToCell as _};

/// How long a lock is waited for: so long may whoever appends have to wait for a drop.
const LOCK_TIMEOUT: Duration = Duration::from_millis(500);
const _: () = assert!(LOCK_TIMEOUT.as_millis() <= 500);

/// How often a part is tried whose lock is not had in that time.
const TRIES: u32 = 4;

/// How long others have the locks between two tries.
const PAUSE: Duration = Duration::from_millis(100);

/// How long whoever looks at a part, or drops it, may take for one statement of it.
const STATEMENT_TIMEOUT: Duration = Duration::from_mins(10);

pub(super) const LIVE: &str = "SELECT execution_id FROM execution
    WHERE $1 <= execution_id AND execution_id < $2 AND NOT ended ORDER BY execution_id LIMIT 1";

const OWED: &str = "SELECT execution_id FROM errand
    WHERE $1 <= execution_id AND execution_id < $2 ORDER BY execution_id LIMIT 1";

/// Found by the executions, among all of their rows: of a month that is old, what was published is mostly
/// purged, and where it is kept for longer each look reads what is left of it.
pub(super) const UNPUBLISHED: &str = "SELECT execution_id FROM outbox
    WHERE $1 <= execution_id AND execution_id < $2
        AND status <> 'PUBLISHED' AND discarded_at IS NULL
    ORDER BY execution_id LIMIT 1";

/// Whether there is an event behind a place, rows of earlier lives counting as of transaction 0.
const BEHIND: &str = "SELECT EXISTS (
        SELECT FROM event
        WHERE $1 <= execution_id AND execution_id < $2 AND position > $5::bigint
            AND (tx, position) > ($3::text::xid8, $4::bigint)
    ) OR ($3::text = '0' AND EXISTS (
        SELECT FROM event
        WHERE $1 <= execution_id AND execution_id < $2
            AND position <= $5::bigint AND position > $4::bigint
    ))";

async fn first_id(
    transaction: &Transaction<'_>,
    sql: &str,
    part: &LogPart,
) -> Result<Option<ExecutionId>, StoreError> {
    let found = rows(transaction, sql, &[&part.lo, &part.hi]).await?;
    let id = found.first().map(|row| ExecutionId::new(row.get(0)));
    id.transpose().map_err(StoreError::fatal)
}

/// What keeps a part, if anything.
async fn pinned(
    transaction: &Transaction<'_>,
    part: &LogPart,
    outlets: &EnabledOutlets,
) -> Result<Option<Pinned>, StoreError> {
    if let Some(id) = first_id(transaction, LIVE, part).await? {
        return Ok(Some(Pinned::Live(id)));
    }
    if let Some(id) = first_id(transaction, OWED, part).await? {
        return Ok(Some(Pinned::Owed(id)));
    }
    if outlets.outbox
        && let Some(id) = first_id(transaction, UNPUBLISHED, part).await?
    {
        return Ok(Some(Pinned::Outbox(id)));
    }
    if outlets.streams.is_empty() {
        return Ok(None);
    }
    let base = stream::base_in(transaction).await?;
    for name in &outlets.streams {
        // A stream that never began, or that is of an earlier life, has published nothing.
        let published = stream::published(transaction, name).await?;
        let FeedPosition { tx, position } = published.unwrap_or(FeedPosition {
            tx: 0,
            position: -1,
        });
        let tx = tx.to_string();
        let params: [Param<'_>; 5] = [&part.lo, &part.hi, &tx, &position, &base.0];
        let behind = rows(transaction, BEHIND, &params).await?;
        if behind.first().is_none_or(|row| row.get(0)) {
            return Ok(Some(Pinned::Stream(name.clone())));
        }
    }
    Ok(None)
}

pub(super) async fn old_parts(
    pool: &Pool,
    before: Timestamp,
    outlets: &EnabledOutlets,
) -> Result<Vec<OldPart>, StoreError> {
    let cut = first_id_at(before.as_unix_ms());
    let mut pooled = pool.get().await?;
    let parts = partition::parts(pooled.client()?).await?;
    pooled.done();
    let mut old = Vec::new();
    for part in parts.into_iter().filter(|part| part.hi <= cut) {
        // What goes wrong with one part breaks off a transaction, which is not that of the others.
        let transaction = pooled.transaction().await?;
        let looked = look(&transaction, &part, outlets).await;
        transaction.rollback().await.map_err(failure)?;
        let pinned = match looked {
            Ok(pinned) => pinned,
            Err(Refusal::Lock(text) | Refusal::Database(text)) => Some(Pinned::Refused(text)),
            Err(Refusal::Store(error)) => return Err(error),
        };
        old.push(OldPart { part, pinned });
    }
    Ok(old)
}

/// What keeps a part, as far as anybody can tell before it is locked.
async fn look(
    transaction: &Transaction<'_>,
    part: &LogPart,
    outlets: &EnabledOutlets,
) -> Result<Option<Pinned>, Refusal> {
    bound(transaction).await?;
    Ok(pinned(transaction, part, outlets).await?)
}

/// Bounds how long a transaction waits for others, and how long it works: longer than other statements
/// may, since a part can be large.
async fn bound(transaction: &Transaction<'_>) -> Result<(), Refusal> {
    let settings = format!(
        "SET LOCAL lock_timeout = {}; SET LOCAL statement_timeout = {}",
        LOCK_TIMEOUT.as_millis(),
        STATEMENT_TIMEOUT.as_millis()
    );
    let set = transaction.batch_execute(&settings).await;
    set.map_err(refusal)
}

/// Tries a few times, since others may have the log in hand for longer than anybody may wait. Whatever
/// the database has against it concerns this part alone; only without a connection nothing goes on.
pub(super) async fn drop_part(
    owner: &Owner,
    part: &LogPart,
    outlets: &EnabledOutlets,
    now: Timestamp,
) -> Result<Option<Pinned>, StoreError> {
    let mut tries = 1;
    loop {
        let mut pooled = owner.get().await?;
        let transaction = pooled.transaction().await?;
        let dropped = match drop_in(&transaction, part, outlets, now).await {
            Ok(None) => transaction.commit().await.map(|()| None).map_err(refusal),
            kept => {
                transaction.rollback().await.map_err(failure)?;
                kept
            }
        };
        match dropped {
            Ok(pinned) => return Ok(pinned),
            Err(Refusal::Lock(_)) if tries < TRIES => {
                drop(pooled);
                tries += 1;
                tokio::time::sleep(PAUSE).await;
            }
            Err(Refusal::Lock(text) | Refusal::Database(text)) => {
                return Ok(Some(Pinned::Refused(text)));
            }
            Err(Refusal::Store(error)) => return Err(error),
        }
    }
}

/// Why a transaction did not drop a part.
enum Refusal {
    /// A lock was not had in time.
    Lock(Text),
    /// The database has something against it: the table is somebody else's, or something needs it.
    Database(Text),
    /// Nothing else would go either.
    Store(StoreError),
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let (StoreError::Retry { cause, .. } | StoreError::Fatal { cause }) = &error;
        let told = cause.downcast_ref::<tokio_postgres::Error>();
        let told = told.and_then(told_of_part);
        match (told, &error) {
            (Some(told), _) => told,
            // A row of it that nobody can read.
            (None, StoreError::Fatal { cause }) if !cause.is::<tokio_postgres::Error>() => {
                Self::Database(cause.to_string().into())
            }
            (None, StoreError::Fatal { .. } | StoreError::Retry { .. }) => Self::Store(error),
        }
    }
}

fn refusal(error: tokio_postgres::Error) -> Refusal {
    Refusal::from(failure(error))
}

/// What the database has against dropping a part, where it was asked and answered.
fn told_of_part(error: &tokio_postgres::Error) -> Option<Refusal> {
    let told = error.as_db_error()?;
    let is_gone = matches!(
        *told.code(),
        SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN | SqlState::CANNOT_CONNECT_NOW
    );
    if is_gone || told.code().code().starts_with("08") {
        return None;
    }
    let detail = told.detail().map(|detail| format!(": {detail}"));
    let text = Text::from(told.message().to_owned() + &detail.unwrap_or_default());
    Some(match *told.code() {
        SqlState::LOCK_NOT_AVAILABLE | SqlState::T_R_DEADLOCK_DETECTED => Refusal::Lock(text),
        _ => Refusal::Database(text),
    })
}

/// Executions are locked in the order of their ids. Appends do not wait for them: they conflict.
const LOCK_EXECUTIONS: &str = "SELECT count(*) FROM (
        SELECT FROM execution WHERE $1 <= execution_id AND execution_id < $2
        ORDER BY execution_id FOR UPDATE
    ) AS locked";

const FORGET: &str = "DELETE FROM execution WHERE $1 <= execution_id AND execution_id < $2";

const NOTE: &str = "INSERT INTO retention_range (lo, hi, dropped_at) VALUES ($1, $2, $3)
    ON CONFLICT (lo) DO UPDATE SET hi = greatest(retention_range.hi, excluded.hi), cleaned_at = NULL";

const IS_THERE: &str =
    "SELECT EXISTS (SELECT FROM execution WHERE $1 <= execution_id AND execution_id < $2)";

/// Notes where the last event of a part was. Without earlier lives it is that of the last transaction;
/// with them there is an index of positions.
async fn note_last(transaction: &Transaction<'_>, part: &str) -> Result<(), Refusal> {
    let last = if stream::base_in(transaction).await?.is_first() {
        format!("SELECT position FROM {part} ORDER BY tx DESC, position DESC LIMIT 1")
    } else {
        format!("SELECT max(position) FROM {part}")
    };
    let note = format!(
        "INSERT INTO meta (key, value) SELECT 'last_dropped', coalesce(({last}), 0)::text
         ON CONFLICT (key) DO UPDATE
         SET value = greatest(meta.value::bigint, excluded.value::bigint)::text"
    );
    transaction.query(&note, &[]).await.map_err(refusal)?;
    Ok(())
}

/// Says so where a part is not the one any more that somebody looked at: the table, and not only its name.
async fn replaced(
    transaction: &Transaction<'_>,
    part: &LogPart,
) -> Result<Option<Pinned>, StoreError> {
    let parts = partition::parts(transaction).await?;
    let text = "there is no such part of the log any more";
    Ok((!parts.contains(part)).then(|| Pinned::Refused(Text::from(text))))
}

async fn lock_table(transaction: &Transaction<'_>, table: &str) -> Result<(), Refusal> {
    let lock = format!("LOCK TABLE ONLY {table} IN ACCESS EXCLUSIVE MODE");
    transaction.batch_execute(&lock).await.map_err(refusal)
}

/// The part is locked first: who writes to another one waits for nobody meanwhile, however long a
/// reader keeps it. The log as a whole is locked only when all else is done: whoever appends waits for
/// that lock, so it is asked for no longer than [`LOCK_TIMEOUT`], and held for a look and a commit.
///
/// An execution that was made in the range meanwhile is there once the log is locked. Who comes later
/// finds the range.
async fn drop_in(
    transaction: &Transaction<'_>,
    part: &LogPart,
    outlets: &EnabledOutlets,
    now: Timestamp,
) -> Result<Option<Pinned>, Refusal> {
    bound(transaction).await?;
    let range: [Param<'_>; 2] = [&part.lo, &part.hi];
    let run = |sql| transaction.query(sql, &range);
    let lock: [Param<'_>; 1] = [&TABLES_LOCK];
    let lock = transaction.query("SELECT pg_advisory_xact_lock($1)", &lock);
    lock.await.map_err(refusal)?;
    if let Some(replaced) = replaced(transaction, part).await? {
        return Ok(Some(replaced));
    }
    run(LOCK_EXECUTIONS).await.map_err(refusal)?;
    if let Some(pinned) = pinned(transaction, part, outlets).await? {
        return Ok(Some(pinned));
    }
    let note: [Param<'_>; 3] = [&part.lo, &part.hi, &now.to_cell()];
    transaction.query(NOTE, &note).await.map_err(refusal)?;
    run(FORGET).await.map_err(refusal)?;
    let name: [Param<'_>; 1] = [&part.name.as_str()];
    let quoted = transaction.query_one("SELECT quote_ident($1)", &name);
    let quoted: String = quoted.await.map_err(refusal)?.get(0);
    note_last(transaction, &quoted).await?;
    lock_table(transaction, &quoted).await?;
    // Until now the name could be given to another table; from now on it stands for the one that goes.
    if let Some(replaced) = replaced(transaction, part).await? {
        return Ok(Some(replaced));
    }
    lock_table(transaction, "event").await?;
    let is_there: bool = transaction
        .query_one(IS_THERE, &range)
        .await
        .map_err(refusal)?
        .get(0);
    if is_there {
        let text = "an execution was made in it just now";
        return Ok(Some(Pinned::Refused(Text::from(text))));
    }
    let gone = format!("DROP TABLE {quoted}");
    transaction.batch_execute(&gone).await.map_err(refusal)?;
    Ok(None)
}

const UNCLEAN: &str = "SELECT lo, hi FROM retention_range WHERE cleaned_at IS NULL
    ORDER BY lo LIMIT 1";

const CLEAN: &str = "UPDATE retention_range SET cleaned_at = $2::timestamptz WHERE lo = $1";

/// How rows of a range of executions go from each table.
static DELETES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let delete = |cleaned: &Cleaned| {
        let Cleaned {
            table, execution, ..
        } = cleaned;
        format!(
            "DELETE FROM {table} WHERE ctid = ANY (ARRAY(
                 SELECT ctid FROM {table} WHERE $1 <= {execution} AND {execution} < $2
                 LIMIT $3::bigint
             )) RETURNING 1"
        )
    };
    CLEANED.iter().map(delete).collect()
});

/// Cleans up behind one range, rows of one table in a step; a range that has nothing left is clean.
pub(super) async fn clean(
    pool: &Pool,
    now: Timestamp,
    limit: PageLimit,
) -> Result<u64, StoreError> {
    let mut client = pool.get().await?;
    loop {
        let found = client.rows(UNCLEAN, &[]).await?;
        let Some((lo, hi)) = found
            .first()
            .map(|row| (row.get::<_, i64>(0), row.get::<_, i64>(1)))
        else {
            return Ok(0);
        };
        let params: [Param<'_>; 3] = [&lo, &hi, &i64::from(limit.get())];
        for delete in &*DELETES {
            let gone = client.rows(delete, &params).await?;
            if !gone.is_empty() {
                return Ok(u64::try_from(gone.len()).unwrap_or(u64::MAX));
            }
        }
        client.rows(CLEAN, &[&lo, &now.to_cell()]).await?;
    }
}
