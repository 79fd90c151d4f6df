//! The outbox, and quarantined items.

use std::sync::LazyLock;

use noetl_types::id::first_id_at;
use noetl_types::limits::PageLimit;
use noetl_types::{OutboxId, QuarantineId, Text, Timestamp};

use super::bind::{decode_rows, row_cells};
use super::column_arrays::BlockShape;
use super::pool::{ConnectionPool, PooledConnection};
use super::query::{Param, select_sql};
use crate::error::StoreError;
use crate::model::{
    ClaimedBatch, FailureOutcome, MAX_CLAIM_BYTES, MAX_EXACT_PUBLISHED_COUNT, OutboxClaim,
    OutboxFailure, OutboxFilter, OutboxMark, OutboxRow, OutboxStats, OutboxStatus,
    QuarantineFilter, QuarantinedItem,
};
use crate::row::{
    self, CLAIMED_OUTBOX, CorruptRow, EVENT_BODY, INVALID_ATTEMPTS_ERROR, MAX_REPAIRED_ATTEMPTS,
    OUTBOX, QUARANTINE, RowReader, ToCell as _, decode_timestamp, encode_quarantined_item,
};

pub(super) static CLAIM_OUTBOX: LazyLock<String> = LazyLock::new(|| {
    let max = u32::MAX;
    let tries = format!(
        "CASE WHEN attempts >= 0 AND attempts < {max} AND forgiven BETWEEN 0 AND {max}
             THEN attempts - forgiven END"
    );
    let repaired = |count: &str| {
        format!(
            "CASE WHEN {count} < {max} THEN greatest({count}, 0) ELSE {MAX_REPAIRED_ATTEMPTS} END"
        )
    };
    include_str!("sql/claim_outbox.sql")
        .replace("{tries}", &tries)
        .replace("{attempts}", &repaired("outbox.attempts"))
        .replace("{forgiven}", &repaired("outbox.forgiven"))
        .replace("{no_counts}", INVALID_ATTEMPTS_ERROR)
        .replace("{claimed_columns}", &CLAIMED_OUTBOX.prefixed_column_list("outbox."))
        .replace("{taken_columns}", &CLAIMED_OUTBOX.prefixed_column_list("taken."))
        .replace("{event_columns}", &EVENT_BODY.prefixed_column_list("event."))
});

/// Marks rows as published. Rows are found by key and locked in the order of their ids, so that
/// statements do not deadlock: the session settings exclude joins that would lock them in another
/// order. The status is compared through `left()`, since the planner would otherwise scan the whole
/// index of rows in flight for each mark, including its dead entries since the last vacuum.
pub(super) const MARK_PUBLISHED: &str = "UPDATE outbox
    SET status = 'PUBLISHED', published_at = $3::timestamptz, last_error = NULL,
        lease_until = NULL, updated_at = $3::timestamptz
    FROM (
        SELECT outbox_id, attempts
        FROM unnest($1::bigint[], $2::bigint[]) AS given (outbox_id, attempts)
        ORDER BY outbox_id
    ) AS mark
    WHERE outbox.outbox_id = mark.outbox_id AND left(outbox.status, 9) = 'IN_FLIGHT'
        AND (mark.attempts IS NULL OR mark.attempts = outbox.attempts)
    RETURNING 1";

const SELECT_IN_FLIGHT: &str = "SELECT attempts, forgiven FROM outbox
    WHERE outbox_id = $1 AND status = 'IN_FLIGHT'";

const MARK_FAILED: &str = "UPDATE outbox
    SET status = 'FAILED', available_at = $4::timestamptz, lease_until = NULL,
        last_error = $5::text, updated_at = $3::timestamptz
    WHERE outbox_id = $1 AND status = 'IN_FLIGHT' AND attempts = $2::bigint
    RETURNING 1";

/// Marks a claimed row that cannot be read as dead. The row was not delivered, so its attempt is
/// not counted.
const MARK_UNREADABLE: &str = "UPDATE outbox
    SET status = 'DEAD', dead_at = $3::timestamptz, lease_until = NULL, attempts = attempts - 1,
        last_error = $4::text, updated_at = $3::timestamptz
    WHERE outbox_id = $1 AND status = 'IN_FLIGHT' AND attempts = $2::bigint
    RETURNING 1";

const MARK_DEAD: &str = "UPDATE outbox
    SET status = 'DEAD', dead_at = $3::timestamptz, lease_until = NULL,
        last_error = $4::text, updated_at = $3::timestamptz
    WHERE outbox_id = $1 AND status = 'IN_FLIGHT' AND attempts = $2::bigint
    RETURNING 1";

pub(super) const COUNT_CLAIMABLE: &str = "SELECT
    (SELECT count(*) FROM outbox
     WHERE status IN ('PENDING', 'FAILED') AND available_at <= $1::timestamptz)
    + (SELECT count(*) FROM outbox
       WHERE status = 'IN_FLIGHT' AND lease_until <= $1::timestamptz)";

const ANY_STATUS: &str = "($1::text IS NULL OR status = $1)";

static LIST_OUTBOX: LazyLock<String> = LazyLock::new(|| {
    let page = "WHERE ($1::text IS NULL OR status = $1) AND ($2::bigint IS NULL OR outbox_id > $2)
        ORDER BY outbox_id LIMIT $3::bigint";
    select_sql(&OUTBOX, page)
});

/// Lists dead rows. They are few and have their own index.
pub(super) static LIST_DEAD_OUTBOX: LazyLock<String> = LazyLock::new(|| {
    let is_dead = "status = 'DEAD' AND $1::text IS NOT NULL";
    LIST_OUTBOX.replace(ANY_STATUS, is_dead)
});

/// Counts rows by status, using the index of each status. Published rows are counted up to a limit.
pub(super) const COUNT_BY_STATUS: &str = "SELECT status, count(*) FROM outbox
        WHERE status IN ('PENDING', 'FAILED') GROUP BY status
    UNION ALL
    SELECT 'IN_FLIGHT'::text, count(*) FROM outbox WHERE status = 'IN_FLIGHT'
    UNION ALL
    SELECT 'DEAD'::text, count(*) FROM outbox WHERE status = 'DEAD'
    UNION ALL
    SELECT 'PUBLISHED'::text, count(*) FROM (
        SELECT published_at FROM outbox WHERE status = 'PUBLISHED'
        ORDER BY published_at, outbox_id LIMIT $1::bigint
    ) AS counted";

/// Selects the age of the oldest unpublished row, the presence of dead rows, and the estimated
/// number of rows. Unpublished rows are ready, in flight or dead, each of which has an index.
pub(super) const OUTBOX_STATS: &str = "SELECT
    (SELECT min(created_at) FROM (
        SELECT created_at FROM outbox
        WHERE status IN ('PENDING', 'FAILED') AND discarded_at IS NULL
        UNION ALL
        SELECT created_at FROM outbox WHERE status = 'IN_FLIGHT' AND discarded_at IS NULL
        UNION ALL
        SELECT created_at FROM outbox WHERE status = 'DEAD' AND discarded_at IS NULL
    ) AS unpublished),
    EXISTS (SELECT 1 FROM outbox WHERE status = 'DEAD' AND discarded_at IS NULL),
    (SELECT reltuples::bigint FROM pg_class WHERE oid = 'outbox'::regclass)";

const SELECT_NEWEST: &str = "SELECT created_at FROM outbox ORDER BY outbox_id DESC LIMIT 1";

/// Requeues dead rows. Their previous attempts no longer count towards the limit, but `attempts` is
/// not reset because it is also the fence.
pub(super) const REQUEUE_DEAD: &str = "UPDATE outbox
    SET status = 'PENDING', available_at = $2::timestamptz, dead_at = NULL, forgiven = attempts,
        updated_at = $2::timestamptz
    WHERE outbox_id = ANY ($1::bigint[]) AND status = 'DEAD' AND discarded_at IS NULL
    RETURNING 1";

/// Discards dead rows.
pub(super) const DISCARD_DEAD: &str = "UPDATE outbox
    SET discarded_at = $2::timestamptz, updated_at = $2::timestamptz
    WHERE outbox_id = ANY ($1::bigint[]) AND status = 'DEAD' AND discarded_at IS NULL
    RETURNING 1";

pub(super) const COUNT_OLD: &str = "SELECT
    (SELECT count(*) FROM outbox WHERE status = 'PUBLISHED' AND published_at < $1::timestamptz)
    + (SELECT count(*) FROM outbox WHERE status = 'DEAD' AND discarded_at < $1::timestamptz)";

/// Deletes old rows. They are found by key, since a join might read all rows.
pub(super) const PURGE_OUTBOX: &str = "WITH published AS MATERIALIZED (
        SELECT outbox_id FROM outbox
        WHERE status = 'PUBLISHED' AND published_at < $1::timestamptz
        ORDER BY published_at, outbox_id LIMIT $2::bigint
        FOR UPDATE SKIP LOCKED
    ), given_up AS MATERIALIZED (
        SELECT outbox_id FROM outbox
        WHERE status = 'DEAD' AND discarded_at < $1::timestamptz
        ORDER BY discarded_at, outbox_id LIMIT $2::bigint
        FOR UPDATE SKIP LOCKED
    )
    DELETE FROM outbox WHERE outbox_id = ANY (ARRAY(
        SELECT outbox_id FROM published UNION ALL SELECT outbox_id FROM given_up LIMIT $2::bigint
    )) RETURNING 1";

static LIST_QUARANTINED: LazyLock<String> = LazyLock::new(|| {
    let page = "WHERE ($1::text IS NULL OR source = $1)
        AND ($2::bigint IS NULL OR quarantine_id > $2)
        ORDER BY quarantine_id LIMIT $3::bigint";
    select_sql(&QUARANTINE, page)
});

static QUARANTINE_BLOCK: LazyLock<BlockShape> =
    LazyLock::new(|| BlockShape::new(&[QUARANTINE.columns]));

static INSERT_QUARANTINED: LazyLock<String> = LazyLock::new(|| {
    let (name, columns) = (QUARANTINE.name, QUARANTINE.column_list());
    let rows = QUARANTINE_BLOCK.unnest_sql(&mut 0);
    format!("INSERT INTO {name} ({columns}) {rows} ON CONFLICT DO NOTHING")
});

/// Deletes old quarantined items. Ids increase with time, so the id bound excludes newer items.
const PURGE_QUARANTINE: &str = "DELETE FROM outbox_quarantine WHERE quarantine_id = ANY (ARRAY(
        SELECT quarantine_id FROM outbox_quarantine
        WHERE quarantine_id < $3::bigint AND created_at < $1::timestamptz
        ORDER BY quarantine_id LIMIT $2::bigint
        FOR UPDATE SKIP LOCKED
    )) RETURNING 1";

/// Maximum attempts to mark a row as failed without a fence while other publishers claim it.
const MAX_MARK_ATTEMPTS: usize = 16;

fn row_count(rows: &[tokio_postgres::Row]) -> u64 {
    u64::try_from(rows.len()).unwrap_or(u64::MAX)
}

fn outbox_ids(ids: &[OutboxId]) -> Vec<i64> {
    ids.iter().map(|id| id.get()).collect()
}

/// Claims due rows. An unreadable row is marked dead with the reason as its error, so that it does
/// not block the others. If marking it fails, the other rows are still returned, and the row is
/// claimed again after its lease expires.
pub(super) async fn claim_outbox(
    pool: &ConnectionPool,
    claim: &OutboxClaim,
) -> Result<ClaimedBatch, StoreError> {
    let mut client = pool.acquire().await?;
    let params: [Param<'_>; 6] = [
        &claim.now.to_cell(),
        &i64::from(claim.limit.get()),
        &i64::try_from(MAX_CLAIM_BYTES).unwrap_or(i64::MAX),
        &claim.owner.as_str(),
        &claim.lease_until.to_cell(),
        &i64::from(claim.max_attempts),
    ];
    let rows = client.query_rows(&CLAIM_OUTBOX, &params).await?;
    let mut claimed = ClaimedBatch::default();
    for row in &rows {
        let is_dead: bool = row.get(row.len() - 1);
        if !is_dead {
            match row::decode_claimed_message(row_cells(row, 0, row.len())) {
                Ok(message) => {
                    claimed.rows.push(message);
                    continue;
                }
                Err(corrupt) => {
                    let marked = mark_unreadable(&mut client, row, &corrupt, claim.now).await;
                    if marked.is_err() {
                        continue;
                    }
                }
            }
        }
        claimed.dead.extend(OutboxId::new(row.get(0)));
    }
    Ok(claimed)
}

async fn mark_unreadable(
    client: &mut PooledConnection<'_>,
    row: &tokio_postgres::Row,
    corrupt: &CorruptRow,
    now: Timestamp,
) -> Result<(), StoreError> {
    let (id, attempts): (i64, i64) = (row.get(0), row.get(CLAIMED_OUTBOX.columns.len() - 1));
    let error = corrupt.message_with_cause();
    let params: [Param<'_>; 4] = [&id, &attempts, &now.to_cell(), &error.as_str()];
    client.query_rows(MARK_UNREADABLE, &params).await.map(drop)
}

pub(super) async fn mark_published(
    pool: &ConnectionPool,
    marks: &[OutboxMark],
    now: Timestamp,
) -> Result<u64, StoreError> {
    let mut client = pool.acquire().await?;
    let ids: Vec<_> = marks.iter().map(|mark| mark.outbox_id.get()).collect();
    let attempts: Vec<_> = marks.iter().map(|mark| mark.attempts.map(i64::from)).collect();
    let params: [Param<'_>; 3] = [&ids, &attempts, &now.to_cell()];
    Ok(row_count(&client.query_rows(MARK_PUBLISHED, &params).await?))
}

/// Returns the number of attempts of a row, and how many of them do not count.
fn read_attempts(found: &tokio_postgres::Row) -> Result<(u32, u32), StoreError> {
    let mut row = RowReader::new(&OUTBOX, row_cells(found, 0, 2));
    Ok((row.read_next()?, row.read_next()?))
}

/// Reads a row, and marks it as failed if it has not changed since.
pub(super) async fn mark_failed(
    pool: &ConnectionPool,
    failure: &OutboxFailure,
) -> Result<Option<FailureOutcome>, StoreError> {
    let mut client = pool.acquire().await?;
    let (id, now, error) =
        (failure.outbox_id.get(), failure.now.to_cell(), failure.truncated_error());
    for _ in 0..MAX_MARK_ATTEMPTS {
        let rows = client.query_rows(SELECT_IN_FLIGHT, &[&id]).await?;
        let Some(found) = rows.first() else {
            return Ok(None);
        };
        let (attempts, forgiven) = read_attempts(found)?;
        if failure.required_attempt().is_some_and(|fence| fence != attempts) {
            return Ok(None);
        }
        let outcome = failure.to_outcome(attempts, forgiven);
        let seen = i64::from(attempts);
        let changed = match outcome {
            FailureOutcome::Retry { delay } => {
                let retry_at = failure.now.saturating_add(delay).to_cell();
                let params: [Param<'_>; 5] = [&id, &seen, &now, &retry_at, &error.as_str()];
                client.query_rows(MARK_FAILED, &params).await?
            }
            FailureOutcome::Dead => {
                let params: [Param<'_>; 4] = [&id, &seen, &now, &error.as_str()];
                client.query_rows(MARK_DEAD, &params).await?
            }
        };
        if !changed.is_empty() {
            return Ok(Some(outcome));
        }
    }
    Ok(None)
}

/// Returns the number of rows that a counting statement finds at a given time.
pub(super) async fn count_rows_at(
    pool: &ConnectionPool,
    sql: &'static str,
    time: Timestamp,
) -> Result<u64, StoreError> {
    let mut client = pool.acquire().await?;
    let rows = client.query_rows(sql, &[&time.to_cell()]).await?;
    let count: i64 = rows.first().map_or(0, |row| row.get(0));
    Ok(u64::try_from(count).unwrap_or_default())
}

pub(super) async fn list_outbox_rows(
    pool: &ConnectionPool,
    filter: &OutboxFilter,
) -> Result<Vec<OutboxRow>, StoreError> {
    let mut client = pool.acquire().await?;
    let params: [Param<'_>; 3] = [
        &filter.status.map(OutboxStatus::as_str),
        &filter.after.map(OutboxId::get),
        &i64::from(filter.limit.get()),
    ];
    let sql = match filter.status {
        Some(OutboxStatus::Dead) => &LIST_DEAD_OUTBOX,
        _ => &LIST_OUTBOX,
    };
    let rows = client.query_rows(sql, &params).await?;
    decode_rows(&rows, row::decode_outbox_row)
}

pub(super) async fn outbox_stats(pool: &ConnectionPool) -> Result<OutboxStats, StoreError> {
    let mut client = pool.acquire().await?;
    let limit = i64::from(MAX_EXACT_PUBLISHED_COUNT);
    let (counts, stats) =
        client.query_pipelined((COUNT_BY_STATUS, &[&limit]), (OUTBOX_STATS, &[])).await?;
    let counts = decode_rows(&counts, row::decode_count)?;
    let Some(stats) = stats.first() else {
        return Ok(OutboxStats::default());
    };
    let oldest = stats.get::<_, Option<row::CellRef<'_>>>(0).map(decode_timestamp).transpose()?;
    // `reltuples` is negative until the first vacuum or analyze.
    let estimate = u64::try_from(stats.get::<_, i64>(2)).unwrap_or_default();
    Ok(OutboxStats::from_counts(counts, estimate, oldest, stats.get(1)))
}

pub(super) async fn newest_outbox_row_at(
    pool: &ConnectionPool,
) -> Result<Option<Timestamp>, StoreError> {
    let mut client = pool.acquire().await?;
    let rows = client.query_rows(SELECT_NEWEST, &[]).await?;
    let newest = rows.first().map(|row| decode_timestamp(row.get(0)));
    newest.transpose()
}

pub(super) async fn update_dead_rows(
    pool: &ConnectionPool,
    sql: &'static str,
    ids: &[OutboxId],
    now: Timestamp,
) -> Result<u64, StoreError> {
    let mut client = pool.acquire().await?;
    let params: [Param<'_>; 2] = [&outbox_ids(ids), &now.to_cell()];
    Ok(row_count(&client.query_rows(sql, &params).await?))
}

pub(super) async fn purge_outbox_rows(
    pool: &ConnectionPool,
    before: Timestamp,
    limit: PageLimit,
) -> Result<u64, StoreError> {
    let mut client = pool.acquire().await?;
    let params: [Param<'_>; 2] = [&before.to_cell(), &i64::from(limit.get())];
    Ok(row_count(&client.query_rows(PURGE_OUTBOX, &params).await?))
}

pub(super) async fn quarantine_items(
    pool: &ConnectionPool,
    items: &[QuarantinedItem],
) -> Result<(), StoreError> {
    let mut block = QUARANTINE_BLOCK.empty_block();
    for item in items {
        block.push(&encode_quarantined_item(item));
    }
    let params: Vec<_> = block.as_params().collect();
    let mut client = pool.acquire().await?;
    client.query_rows(&INSERT_QUARANTINED, &params).await.map(drop)
}

pub(super) async fn purge_quarantined_items(
    pool: &ConnectionPool,
    before: Timestamp,
    limit: PageLimit,
) -> Result<u64, StoreError> {
    let mut client = pool.acquire().await?;
    let params: [Param<'_>; 3] =
        [&before.to_cell(), &i64::from(limit.get()), &first_id_at(before.as_unix_ms())];
    Ok(row_count(&client.query_rows(PURGE_QUARANTINE, &params).await?))
}

pub(super) async fn list_quarantined_items(
    pool: &ConnectionPool,
    filter: &QuarantineFilter,
) -> Result<Vec<QuarantinedItem>, StoreError> {
    let mut client = pool.acquire().await?;
    let params: [Param<'_>; 3] = [
        &filter.source.as_ref().map(Text::as_str),
        &filter.after.map(QuarantineId::get),
        &i64::from(filter.limit.get()),
    ];
    let rows = client.query_rows(&LIST_QUARANTINED, &params).await?;
    decode_rows(&rows, row::decode_quarantined_item)
}
