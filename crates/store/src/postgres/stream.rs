//! The feed, where streams of it stand, and the lives of the log.
//!
//! Rows up to the base are of an earlier life of the log: their transactions were those of another
//! cluster, so they count as written by transaction 0, in the order of their positions.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};

use noetl_types::{FeedPosition, StoredEvent, Text, Timestamp};
use tokio_postgres::{Client, Transaction};

use super::bind::{failure, read_all};
use super::pool::Pool;
use super::query::{Param, beside, insert, params, rows, select};
use crate::error::StoreError;
use crate::model::{
    FEED_BYTES, FeedBatch, FeedItem, FeedLag, FeedLimit, InFeed, LogEpoch, MAX_FEED_LAG,
    StreamBegin, StreamCursor, StreamMove, StreamOwner, StreamTake, StreamTaken, Unreadable,
};
use crate::row::{
    self, Cell, CellRef, Cells, Corrupt, EVENT, Kind, SENT, STREAM, Table, ToCell as _, stream_row,
    time,
};

/// The last position of the earlier lives of the log; 0 where there was none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FeedBase(pub(super) i64);

impl FeedBase {
    /// Behind the earlier lives the present one goes on.
    fn behind(self) -> FeedPosition {
        FeedPosition {
            tx: 0,
            position: self.0,
        }
    }

    /// Whether there were no earlier lives.
    pub(super) fn is_first(self) -> bool {
        self.0 == 0
    }

    fn is_before(self, after: FeedPosition) -> bool {
        after < self.behind()
    }
}

/// The base as this process last saw it. Another process may begin a new life of the log at any time,
/// so whoever reads by this one looks whether it is still the base.
#[derive(Debug)]
pub(super) struct KnownBase(AtomicI64);

impl KnownBase {
    pub(super) fn new(base: FeedBase) -> Self {
        Self(AtomicI64::new(base.0))
    }

    fn get(&self) -> FeedBase {
        FeedBase(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, base: FeedBase) {
        self.0.store(base.0, Ordering::Relaxed);
    }
}

const BASE: &str = "SELECT value::bigint FROM meta WHERE key = 'feed_base'";

/// The base as a transaction sees it.
pub(super) async fn base_in(transaction: &Transaction<'_>) -> Result<FeedBase, StoreError> {
    let found = rows(transaction, BASE, &[]).await?;
    Ok(FeedBase(found.first().map_or(0, |row| row.get(0))))
}

/// Below the oldest transaction that is still open nothing can appear any more.
const SETTLED: &str = "tx < pg_snapshot_xmin(pg_current_snapshot())";

/// Columns of an event that can be large.
const LARGE: [&str; 6] = ["context", "result", "meta", "extra", "error", "stack_trace"];

/// How many bytes a column has. What is not compressed tells its size without being read.
pub(super) fn bytes_of(column: &str) -> String {
    format!(
        "CASE WHEN pg_column_compression({column}) IS NULL
             THEN coalesce(pg_column_size({column}), 0) ELSE octet_length({column}::text) END"
    )
}

/// About how many bytes an event has, as far as that can be many.
fn bytes() -> String {
    format!("1024 + {}", LARGE.map(bytes_of).join(" + "))
}

/// A section of the feed.
struct Section {
    /// The transaction that its events count as written by.
    tx: &'static str,
    chosen: String,
    /// The order names what is stored: a name alone could be that of what is shown, which is no order
    /// that an index has.
    order: &'static str,
}

impl Section {
    /// Events in their order with what they have in bytes.
    fn measured(&self) -> String {
        let (bytes, chosen, order) = (bytes(), &self.chosen, self.order);
        format!(
            "SELECT *, {bytes} AS bytes FROM event WHERE {chosen}
             ORDER BY {order} LIMIT $3::bigint"
        )
    }

    /// Events up to the first that has too many bytes, of which nothing large is shown. Most of the
    /// feed is read by this: from the index to the wire, without a row being put down in between.
    fn of_small(&self, table: &Table) -> String {
        let shown = |(name, _): &(&str, Kind)| {
            if LARGE.contains(name) {
                format!("CASE WHEN bytes <= $4::bigint THEN {name} END AS {name}")
            } else {
                (*name).to_owned()
            }
        };
        let columns: Vec<_> = table.columns.iter().map(shown).collect();
        let (tx, columns) = (self.tx, columns.join(", "));
        let (measured, order) = (self.measured(), self.order.replace("tx", "measured.tx"));
        format!(
            "SELECT {columns}, {tx}, position, bytes > $4::bigint
             FROM ({measured}) AS measured ORDER BY {order}"
        )
    }

    /// Events of any size, as long as those before them have no more than so many bytes, and whether
    /// there are more.
    fn of_any(&self, table: &Table) -> String {
        let (tx, columns, order) = (self.tx, table.list(), self.order);
        let (measured, shown) = (self.measured(), order.replace("tx", "bounded.tx"));
        format!(
            "SELECT {columns}, {tx}, position, count(*) OVER () < chosen
             FROM (
                 SELECT *, count(*) OVER () AS chosen,
                     sum(bytes) OVER (ORDER BY {order}) - bytes AS bytes_before
                 FROM ({measured}) AS measured
             ) AS bounded
             WHERE bytes_before < $4::bigint
             ORDER BY {shown}"
        )
    }
}

/// How a section of the feed is read.
struct Statements {
    small: String,
    any: String,
}

/// How the present life of the log is read, how the earlier ones are, and what comes of a row.
struct Reading<T: 'static> {
    present: Statements,
    earlier: Statements,
    read: fn(Cells<'_>) -> Result<T, Corrupt>,
}

impl<T> Reading<T> {
    fn new(table: &Table, read: fn(Cells<'_>) -> Result<T, Corrupt>) -> Self {
        let present = Section {
            tx: "tx",
            chosen: format!(
                "(tx, position) > ($1::text::xid8, $2::bigint) AND position > $5::bigint
                     AND {SETTLED}"
            ),
            order: "tx, position",
        };
        let earlier = Section {
            tx: "0::bigint",
            chosen: "$1::text = '0' AND position > $2::bigint AND position <= $5::bigint".into(),
            order: "position",
        };
        let statements = |section: &Section| Statements {
            small: section.of_small(table),
            any: section.of_any(table),
        };
        Self {
            present: statements(&present),
            earlier: statements(&earlier),
            read,
        }
    }
}

static EVENTS: LazyLock<Reading<Result<StoredEvent, Unreadable>>> =
    LazyLock::new(|| Reading::new(&EVENT, row::feed_event));

static MESSAGES: LazyLock<Reading<FeedItem>> =
    LazyLock::new(|| Reading::new(&SENT, row::feed_item));

/// Whether the server is a standby, and where the earlier lives end.
const STATE: &str = "SELECT pg_is_in_recovery(),
    (SELECT value::bigint FROM meta WHERE key = 'feed_base')";

/// What the order of the feed cannot be told from.
#[derive(Debug, thiserror::Error)]
#[error(
    "the server is a standby, whose order of commits is not that of the log: connect to the primary"
)]
struct Standby;

/// Where what is asked for begins in the earlier lives and nothing of them is left behind it, the
/// present life goes on in the same read: whoever finds nothing asks from the same place again.
async fn read<T: InFeed + Send>(
    reading: &'static Reading<T>,
    pool: &Pool,
    known: &KnownBase,
    mut after: FeedPosition,
    limit: FeedLimit,
) -> Result<FeedBatch<T>, StoreError> {
    let mut client = pool.get().await?;
    let mut base = known.get();
    let mut is_small = true;
    loop {
        let is_old = base.is_before(after);
        let statements = if is_old {
            &reading.earlier
        } else {
            &reading.present
        };
        // As many as may be asked for, of this size, are no more than may be given.
        let (sql, bytes) = if is_small {
            (&statements.small, FEED_BYTES / limit.get() as usize)
        } else {
            (&statements.any, FEED_BYTES)
        };
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let tx = after.tx.to_string();
        let limit_of = i64::from(limit.get());
        let params: [Param<'_>; 5] = [&tx, &after.position, &limit_of, &bytes, &base.0];
        let (mut rows, state) = client.two((sql, &params), (STATE, &[])).await?;
        if state.first().is_none_or(|row| row.get(0)) {
            return Err(StoreError::fatal(Standby));
        }
        // It only grows: what it is behind the read it was before it, if that is what was known.
        let present = state.first().and_then(|row| row.get::<_, Option<i64>>(1));
        let present = FeedBase(present.unwrap_or_default());
        if present != base {
            known.set(present);
            base = present;
            continue;
        }
        if rows.is_empty() && is_old {
            after = base.behind();
            continue;
        }
        let mut is_cut = rows.first().is_some_and(is_marked);
        if is_small {
            if is_cut {
                is_small = false;
                continue;
            }
            let small = rows.iter().take_while(|row| !is_marked(row)).count();
            is_cut = small < rows.len();
            rows.truncate(small);
        }
        let of_rows = reading.read;
        let events = beside(move || read_all(&rows, of_rows)).await?;
        let mut batch = FeedBatch::of(events, after, limit, is_cut);
        batch.is_full |= is_old;
        return Ok(batch);
    }
}

/// What the last column of a row says: of a small one that it is none, of others that there are more.
fn is_marked(row: &tokio_postgres::Row) -> bool {
    row.get(row.len() - 1)
}

/// Reads on where nothing of a batch can be read: whoever finds nothing believes to be at the end.
pub(super) async fn feed(
    pool: &Pool,
    known: &KnownBase,
    mut after: FeedPosition,
    limit: FeedLimit,
) -> Result<FeedBatch, StoreError> {
    loop {
        let batch = read(&EVENTS, pool, known, after, limit).await?.readable();
        if !batch.is_passed_by() {
            return Ok(batch);
        }
        after = batch.next;
    }
}

pub(super) async fn messages(
    pool: &Pool,
    known: &KnownBase,
    after: FeedPosition,
    limit: FeedLimit,
) -> Result<FeedBatch<FeedItem>, StoreError> {
    read(&MESSAGES, pool, known, after, limit).await
}

const LAST_DROPPED: &str = "SELECT value::bigint FROM meta WHERE key = 'last_dropped'";

pub(super) async fn last_dropped(pool: &Pool) -> Result<i64, StoreError> {
    let mut client = pool.get().await?;
    let found = client.rows(LAST_DROPPED, &[]).await?;
    Ok(found.first().map_or(0, |row| row.get(0)))
}

static LAST: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT tx::text::bigint, position FROM event
         WHERE position > $1::bigint AND {SETTLED}
         ORDER BY tx DESC, position DESC LIMIT 1"
    )
});

/// The last event that can be read. With earlier lives and nothing behind them it is the last of
/// theirs.
async fn end(transaction: &Transaction<'_>, base: FeedBase) -> Result<FeedPosition, StoreError> {
    let found = rows(transaction, &LAST, &[&base.0]).await?;
    let last = found.first().map(|row| (row.get::<_, i64>(0), row.get(1)));
    Ok(last.map_or(base.behind(), |(tx, position)| FeedPosition {
        tx: u64::try_from(tx).unwrap_or_default(),
        position,
    }))
}

static COUNT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT count(*) FROM (
             SELECT FROM event
             WHERE (tx, position) > ($1::text::xid8, $2::bigint) AND position > $3::bigint AND {SETTLED}
             LIMIT $4::bigint
         ) AS behind"
    )
});

static FIRST: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT ingest_time FROM event
         WHERE (tx, position) > ($1::text::xid8, $2::bigint) AND position > $3::bigint AND {SETTLED}
         ORDER BY tx, position LIMIT 1"
    )
});

const OLD_COUNT: &str = "SELECT count(*) FROM (
    SELECT FROM event WHERE position > $1::bigint AND position <= $2::bigint LIMIT $3::bigint
) AS behind";

const OLD_FIRST: &str = "SELECT ingest_time FROM event
    WHERE position > $1::bigint AND position <= $2::bigint ORDER BY position LIMIT 1";

const HELD_BACK: &str = "SELECT ingest_time FROM event
    WHERE tx >= pg_snapshot_xmin(pg_current_snapshot()) AND position > $1::bigint
    ORDER BY tx, position LIMIT 1";

fn first_time(found: &[tokio_postgres::Row]) -> Result<Option<Timestamp>, StoreError> {
    let found = found.first().map(|row| row.get::<_, CellRef<'_>>(0));
    found.map(time).transpose()
}

/// One moment for all of it, or an event could be counted both as read and as held back.
pub(super) async fn lag(pool: &Pool, after: FeedPosition) -> Result<FeedLag, StoreError> {
    let mut pooled = pool.get().await?;
    let transaction = pooled.moment().await?;
    let base = base_in(&transaction).await?;
    let tx = after.tx.to_string();
    let most = i64::try_from(MAX_FEED_LAG).unwrap_or(i64::MAX);
    let behind: [Param<'_>; 3] = [&tx, &after.position, &base.0];
    let counted: [Param<'_>; 4] = [&tx, &after.position, &base.0, &most];
    let mut events: i64 = rows(&transaction, &COUNT, &counted)
        .await?
        .first()
        .map_or(0, |row| row.get(0));
    let mut oldest = first_time(&rows(&transaction, &FIRST, &behind).await?)?;
    if base.is_before(after) {
        let params: [Param<'_>; 3] = [&after.position, &base.0, &most];
        let old = rows(&transaction, OLD_COUNT, &params).await?;
        events = events.saturating_add(old.first().map_or(0, |row| row.get(0)));
        let params: [Param<'_>; 2] = [&after.position, &base.0];
        let first = first_time(&rows(&transaction, OLD_FIRST, &params).await?)?;
        oldest = first.or(oldest);
    }
    let lag = FeedLag {
        events: u64::try_from(events).unwrap_or_default().min(MAX_FEED_LAG),
        oldest,
        end: end(&transaction, base).await?,
        held_back_since: first_time(&rows(&transaction, HELD_BACK, &[&base.0]).await?)?,
    };
    transaction.commit().await.map_err(failure)?;
    Ok(lag)
}

static CURSOR: LazyLock<String> = LazyLock::new(|| select(&STREAM, "WHERE name = $1"));

static CURSOR_LOCKED: LazyLock<String> =
    LazyLock::new(|| select(&STREAM, "WHERE name = $1 FOR UPDATE"));

static BEGIN: LazyLock<String> = LazyLock::new(|| insert(&STREAM, "ON CONFLICT DO NOTHING"));

const TAKE: &str = "UPDATE stream_cursor
    SET epoch = $2::bigint, owner = $3::text, lease_until = $4::timestamptz,
        updated_at = $5::timestamptz
    WHERE name = $1";

/// The first of a name keeps its place, whoever else begins it at the same time.
pub(super) async fn take(pool: &Pool, take: &StreamTake) -> Result<StreamTaken, StoreError> {
    let mut pooled = pool.get().await?;
    let transaction = pooled.transaction().await?;
    let name = take.name.as_str();
    let mut found = rows(&transaction, &CURSOR_LOCKED, &[&name]).await?;
    if found.is_empty() {
        let position = match take.begin {
            StreamBegin::Now => end(&transaction, base_in(&transaction).await?).await?,
            StreamBegin::Beginning => FeedPosition::default(),
        };
        let epoch = epoch_in(&transaction).await?;
        let begun = stream_row(&StreamCursor::begun(take, position, epoch));
        rows(&transaction, &BEGIN, &params(&begun)).await?;
        found = rows(&transaction, &CURSOR_LOCKED, &[&name]).await?;
    }
    let cursors = read_all(&found, row::stream_cursor)?;
    let vanished = || StoreError::retry("the cursor has vanished");
    let cursor = cursors.into_iter().next().ok_or_else(vanished)?;
    let taken = cursor.take(take);
    if let StreamTaken::Taken(cursor) = &taken {
        let params: [Param<'_>; 5] = [
            &name,
            &cursor.epoch.to_cell(),
            &cursor.owner.to_cell(),
            &cursor.lease_until.to_cell(),
            &cursor.updated_at.to_cell(),
        ];
        rows(&transaction, TAKE, &params).await?;
    }
    transaction.commit().await.map_err(failure)?;
    Ok(taken)
}

const RENEW: &str = "UPDATE stream_cursor
    SET lease_until = $4::timestamptz, updated_at = $3::timestamptz
    WHERE name = $1 AND epoch = $2::bigint AND owner IS NOT NULL RETURNING 1";

const RELEASE: &str = "UPDATE stream_cursor
    SET owner = NULL, lease_until = NULL, updated_at = $3::timestamptz
    WHERE name = $1 AND epoch = $2::bigint AND owner IS NOT NULL RETURNING 1";

const FORWARD: &str = "UPDATE stream_cursor
    SET tx = $6::bigint, position = $7::bigint, updated_at = $3::timestamptz
    WHERE name = $1 AND epoch = $2::bigint AND owner IS NOT NULL
        AND (tx, position) = ($4::bigint, $5::bigint)
        AND (tx, position) < ($6::bigint, $7::bigint)
        AND log_epoch = (SELECT value::bigint FROM meta WHERE key = 'log_epoch')
    RETURNING 1";

const RESTART: &str = "UPDATE stream_cursor
    SET tx = $4::bigint, position = $5::bigint, stream_created_at = $6::timestamptz,
        log_epoch = (SELECT value::bigint FROM meta WHERE key = 'log_epoch'),
        updated_at = $3::timestamptz
    WHERE name = $1 AND epoch = $2::bigint AND owner IS NOT NULL RETURNING 1";

/// Runs a statement that changes the stream of an owner, and says whether it did.
async fn change(
    pool: &Pool,
    sql: &'static str,
    owner: &StreamOwner,
    rest: &[Cell],
) -> Result<bool, StoreError> {
    let mut client = pool.get().await?;
    let (name, epoch, now) = (
        owner.name.to_cell(),
        owner.epoch.to_cell(),
        owner.now.to_cell(),
    );
    let mut all: Vec<Param<'_>> = vec![&name, &epoch, &now];
    all.extend(params(rest));
    Ok(!client.rows(sql, &all).await?.is_empty())
}

pub(super) async fn renew(
    pool: &Pool,
    owner: &StreamOwner,
    lease_until: Timestamp,
) -> Result<bool, StoreError> {
    change(pool, RENEW, owner, &[lease_until.to_cell()]).await
}

pub(super) async fn release(pool: &Pool, owner: &StreamOwner) -> Result<bool, StoreError> {
    change(pool, RELEASE, owner, &[]).await
}

pub(super) async fn go(
    pool: &Pool,
    owner: &StreamOwner,
    to: StreamMove,
) -> Result<bool, StoreError> {
    let pair = |at: FeedPosition| [at.tx.to_cell(), at.position.to_cell()];
    match to {
        StreamMove::Forward { from, to } => {
            let both = [pair(from), pair(to)].concat();
            change(pool, FORWARD, owner, &both).await
        }
        StreamMove::Restart {
            to,
            stream_created_at,
        } => {
            let mut rest = pair(to).to_vec();
            rest.push(stream_created_at.to_cell());
            change(pool, RESTART, owner, &rest).await
        }
    }
}

pub(super) async fn cursor(pool: &Pool, name: &Text) -> Result<Option<StreamCursor>, StoreError> {
    let mut client = pool.get().await?;
    let rows = client.rows(&CURSOR, &[&name.as_str()]).await?;
    Ok(read_all(&rows, row::stream_cursor)?.into_iter().next())
}

/// What a stream has published; nothing if it never began, or is of an earlier life of the log.
pub(super) async fn published(
    transaction: &Transaction<'_>,
    name: &Text,
) -> Result<Option<FeedPosition>, StoreError> {
    let found = rows(transaction, &CURSOR, &[&name.as_str()]).await?;
    let cursor = read_all(&found, row::stream_cursor)?.into_iter().next();
    let epoch = epoch_in(transaction).await?;
    let cursor = cursor.filter(|cursor| cursor.log_epoch == epoch);
    Ok(cursor.map(|cursor| cursor.position))
}

const EPOCH: &str = "SELECT value::bigint FROM meta WHERE key = 'log_epoch'";

fn epoch_of(found: &[tokio_postgres::Row]) -> LogEpoch {
    let epoch = found.first().map_or(1, |row| row.get::<_, i64>(0));
    LogEpoch::new(u64::try_from(epoch).unwrap_or(1))
}

async fn epoch_in(transaction: &Transaction<'_>) -> Result<LogEpoch, StoreError> {
    Ok(epoch_of(&rows(transaction, EPOCH, &[]).await?))
}

pub(super) async fn log_epoch(pool: &Pool) -> Result<LogEpoch, StoreError> {
    let mut client = pool.get().await?;
    Ok(epoch_of(&client.rows(EPOCH, &[]).await?))
}

const NEW_EPOCH: &str = "UPDATE meta SET value = (value::bigint + 1)::text WHERE key = 'log_epoch'";

/// The rows that are still to be published get the names of the new life; what others called their
/// rows stays. Each kind of them has an index; what left it meanwhile is not touched.
pub(super) const RENAME: &str = "UPDATE outbox
    SET message_id = meta.value || substr(message_id, strpos(message_id, ':'))
    FROM meta
    WHERE meta.key = 'log_epoch' AND status <> 'PUBLISHED' AND discarded_at IS NULL
        AND outbox_id = ANY (ARRAY(
            SELECT outbox_id FROM outbox WHERE status IN ('PENDING', 'FAILED')
            UNION ALL
            SELECT outbox_id FROM outbox WHERE status = 'IN_FLIGHT'
            UNION ALL
            SELECT outbox_id FROM outbox WHERE status = 'DEAD'
        ))
        AND starts_with(message_id, (meta.value::bigint - 1) || ':' || execution_id || ':')";

pub(super) async fn new_epoch(transaction: &Transaction<'_>) -> Result<LogEpoch, StoreError> {
    rows(transaction, NEW_EPOCH, &[]).await?;
    rows(transaction, RENAME, &[]).await?;
    epoch_in(transaction).await
}

pub(super) async fn begin_log_epoch(pool: &Pool) -> Result<LogEpoch, StoreError> {
    let mut pooled = pool.get().await?;
    let transaction = pooled.transaction().await?;
    let epoch = new_epoch(&transaction).await?;
    transaction.commit().await.map_err(failure)?;
    Ok(epoch)
}

/// Where the earlier lives of the log end, as far as is known: for who only looks.
pub(super) async fn base(client: &Client) -> Result<FeedBase, StoreError> {
    let found = client.query(BASE, &[]).await.map_err(failure)?;
    Ok(FeedBase(found.first().map_or(0, |row| row.get(0))))
}
