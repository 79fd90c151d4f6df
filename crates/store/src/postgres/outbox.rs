//! The outbox, and what was refused.

use std::sync::LazyLock;

use noetl_types::id::first_id_at;
use noetl_types::limits::PageLimit;
use noetl_types::{OutboxId, QuarantineId, Text, Timestamp};

use super::bind::{cells, read_all};
use super::block::Shape;
use super::pool::{Pool, Pooled};
use super::query::{Param, select};
use crate::error::StoreError;
use crate::model::{
    Claimed, Failed, MAX_CLAIM_BYTES, MAX_COUNTED, OutboxClaim, OutboxFacts, OutboxFailure,
    OutboxFilter, OutboxMark, OutboxRow, OutboxStatus, QuarantineFilter, Quarantined,
};
use crate::row::{
    self, CLAIMED, Corrupt, LARGEST_COUNT, NO_COUNTS, OUTBOX, QUARANTINE, Reader, SENT,
    ToCell as _, quarantine_row, time,
};

pub(super) static CLAIM: LazyLock<String> = LazyLock::new(|| {
    let most = u32::MAX;
    let tries = format!(
        "CASE WHEN attempts >= 0 AND attempts < {most} AND forgiven BETWEEN 0 AND {most}
             THEN attempts - forgiven END"
    );
    let counted = |count: &str| {
        format!("CASE WHEN {count} < {most} THEN greatest({count}, 0) ELSE {LARGEST_COUNT} END")
    };
    include_str!("sql/claim_outbox.sql")
        .replace("{tries}", &tries)
        .replace("{attempts}", &counted("outbox.attempts"))
        .replace("{forgiven}", &counted("outbox.forgiven"))
        .replace("{no_counts}", NO_COUNTS)
        .replace("{claimed_columns}", &CLAIMED.list_of("outbox."))
        .replace("{taken_columns}", &CLAIMED.list_of("taken."))
        .replace("{event_columns}", &SENT.list_of("event."))
});

/// Rows are found by their keys, one after the other in the order of their ids, so nobody waits in a
/// circle: the session allows no join that would take them in another order. The status is looked at
/// through a function, since the planner would else read the index of rows in flight from one end to the
/// other for each mark, with all that has left it since a vacuum.
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

const IN_HAND: &str = "SELECT attempts, forgiven FROM outbox
    WHERE outbox_id = $1 AND status = 'IN_FLIGHT'";

const MARK_FAILED: &str = "UPDATE outbox
    SET status = 'FAILED', available_at = $4::timestamptz, lease_until = NULL,
        last_error = $5::text, updated_at = $3::timestamptz
    WHERE outbox_id = $1 AND status = 'IN_FLIGHT' AND attempts = $2::bigint
    RETURNING 1";

/// A row that was claimed and cannot be read is handed to nobody, so this was no attempt.
const BURY: &str = "UPDATE outbox
    SET status = 'DEAD', dead_at = $3::timestamptz, lease_until = NULL, attempts = attempts - 1,
        last_error = $4::text, updated_at = $3::timestamptz
    WHERE outbox_id = $1 AND status = 'IN_FLIGHT' AND attempts = $2::bigint
    RETURNING 1";

const MARK_DEAD: &str = "UPDATE outbox
    SET status = 'DEAD', dead_at = $3::timestamptz, lease_until = NULL,
        last_error = $4::text, updated_at = $3::timestamptz
    WHERE outbox_id = $1 AND status = 'IN_FLIGHT' AND attempts = $2::bigint
    RETURNING 1";

pub(super) const PENDING: &str = "SELECT
    (SELECT count(*) FROM outbox
     WHERE status IN ('PENDING', 'FAILED') AND available_at <= $1::timestamptz)
    + (SELECT count(*) FROM outbox
       WHERE status = 'IN_FLIGHT' AND lease_until <= $1::timestamptz)";

const ANY_STATUS: &str = "($1::text IS NULL OR status = $1)";

static LIST: LazyLock<String> = LazyLock::new(|| {
    let page = "WHERE ($1::text IS NULL OR status = $1) AND ($2::bigint IS NULL OR outbox_id > $2)
        ORDER BY outbox_id LIMIT $3::bigint";
    select(&OUTBOX, page)
});

/// The few dead ones among all, which have an index of their own.
pub(super) static LIST_DEAD: LazyLock<String> = LazyLock::new(|| {
    let is_dead = "status = 'DEAD' AND $1::text IS NOT NULL";
    LIST.replace(ANY_STATUS, is_dead)
});

/// Rows by status, each kind by an index of its own; of published ones no more than are counted.
pub(super) const COUNTS: &str = "SELECT status, count(*) FROM outbox
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

/// What is not published is ready, in flight or dead, each of which has an index.
pub(super) const FACTS: &str = "SELECT
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

const NEWEST: &str = "SELECT created_at FROM outbox ORDER BY outbox_id DESC LIMIT 1";

/// Sends dead rows out again. The attempts so far do not count any more, but stay used as fences.
pub(super) const REPLAY: &str = "UPDATE outbox
    SET status = 'PENDING', available_at = $2::timestamptz, dead_at = NULL, forgiven = attempts,
        updated_at = $2::timestamptz
    WHERE outbox_id = ANY ($1::bigint[]) AND status = 'DEAD' AND discarded_at IS NULL
    RETURNING 1";

/// Gives dead rows up.
pub(super) const DISCARD: &str = "UPDATE outbox
    SET discarded_at = $2::timestamptz, updated_at = $2::timestamptz
    WHERE outbox_id = ANY ($1::bigint[]) AND status = 'DEAD' AND discarded_at IS NULL
    RETURNING 1";

pub(super) const OLD: &str = "SELECT
    (SELECT count(*) FROM outbox WHERE status = 'PUBLISHED' AND published_at < $1::timestamptz)
    + (SELECT count(*) FROM outbox WHERE status = 'DEAD' AND discarded_at < $1::timestamptz)";

/// Rows are found by their key: were they joined, all might be read.
pub(super) const PURGE: &str = "WITH published AS MATERIALIZED (
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

static QUARANTINED: LazyLock<String> = LazyLock::new(|| {
    let page = "WHERE ($1::text IS NULL OR source = $1)
        AND ($2::bigint IS NULL OR quarantine_id > $2)
        ORDER BY quarantine_id LIMIT $3::bigint";
    select(&QUARANTINE, page)
});

static REFUSED: LazyLock<Shape> = LazyLock::new(|| Shape::new(&[QUARANTINE.columns]));

static PUT_QUARANTINE: LazyLock<String> = LazyLock::new(|| {
    let (name, columns) = (QUARANTINE.name, QUARANTINE.list());
    let refused = REFUSED.unnest(&mut 0);
    format!("INSERT INTO {name} ({columns}) {refused} ON CONFLICT DO NOTHING")
});

/// Ids rise with time, so that those of later times need not be looked at.
const PURGE_QUARANTINE: &str = "DELETE FROM outbox_quarantine WHERE quarantine_id = ANY (ARRAY(
        SELECT quarantine_id FROM outbox_quarantine
        WHERE quarantine_id < $3::bigint AND created_at < $1::timestamptz
        ORDER BY quarantine_id LIMIT $2::bigint
        FOR UPDATE SKIP LOCKED
    )) RETURNING 1";

/// How often a mark without a fence follows a row that changes hands.
const MAX_LOOKS: usize = 16;

fn count(rows: &[tokio_postgres::Row]) -> u64 {
    u64::try_from(rows.len()).unwrap_or(u64::MAX)
}

fn ids(rows: &[OutboxId]) -> Vec<i64> {
    rows.iter().map(|id| id.get()).collect()
}

/// One row that cannot be read keeps nobody from the others: it dies, and its error says why. Where that
/// cannot be written, the others are handed out all the same, and the row comes back with its lease.
pub(super) async fn claim(pool: &Pool, claim: &OutboxClaim) -> Result<Claimed, StoreError> {
    let mut client = pool.get().await?;
    let params: [Param<'_>; 6] = [
        &claim.now.to_cell(),
        &i64::from(claim.limit.get()),
        &i64::try_from(MAX_CLAIM_BYTES).unwrap_or(i64::MAX),
        &claim.owner.as_str(),
        &claim.lease_until.to_cell(),
        &i64::from(claim.max_attempts),
    ];
    let rows = client.rows(&CLAIM, &params).await?;
    let mut claimed = Claimed::default();
    for row in &rows {
        let is_dead: bool = row.get(row.len() - 1);
        if !is_dead {
            match row::claimed_message(cells(row, 0, row.len())) {
                Ok(message) => {
                    claimed.rows.push(message);
                    continue;
                }
                Err(damage) => {
                    let buried = bury(&mut client, row, &damage, claim.now).await;
                    if buried.is_err() {
                        continue;
                    }
                }
            }
        }
        claimed.dead.extend(OutboxId::new(row.get(0)));
    }
    Ok(claimed)
}

async fn bury(
    client: &mut Pooled<'_>,
    row: &tokio_postgres::Row,
    damage: &Corrupt,
    now: Timestamp,
) -> Result<(), StoreError> {
    let (id, attempts): (i64, i64) = (row.get(0), row.get(CLAIMED.columns.len() - 1));
    let error = damage.with_cause();
    let params: [Param<'_>; 4] = [&id, &attempts, &now.to_cell(), &error.as_str()];
    client.rows(BURY, &params).await.map(drop)
}

pub(super) async fn mark_published(
    pool: &Pool,
    marks: &[OutboxMark],
    now: Timestamp,
) -> Result<u64, StoreError> {
    let mut client = pool.get().await?;
    let ids: Vec<_> = marks.iter().map(|mark| mark.outbox_id.get()).collect();
    let attempts: Vec<_> = marks
        .iter()
        .map(|mark| mark.attempts.map(i64::from))
        .collect();
    let params: [Param<'_>; 3] = [&ids, &attempts, &now.to_cell()];
    Ok(count(&client.rows(MARK_PUBLISHED, &params).await?))
}

/// How often a row was tried, and how many of these tries do not count.
fn tries(found: &tokio_postgres::Row) -> Result<(u32, u32), StoreError> {
    let mut row = Reader::new(&OUTBOX, cells(found, 0, 2));
    Ok((row.take()?, row.take()?))
}

/// Looks, and marks if nothing has changed since.
pub(super) async fn mark_failed(
    pool: &Pool,
    failure: &OutboxFailure,
) -> Result<Option<Failed>, StoreError> {
    let mut client = pool.get().await?;
    let (id, now, error) = (
        failure.outbox_id.get(),
        failure.now.to_cell(),
        failure.kept_error(),
    );
    for _ in 0..MAX_LOOKS {
        let rows = client.rows(IN_HAND, &[&id]).await?;
        let Some(found) = rows.first() else {
            return Ok(None);
        };
        let (attempts, forgiven) = tries(found)?;
        if failure.fence().is_some_and(|fence| fence != attempts) {
            return Ok(None);
        }
        let outcome = failure.outcome(attempts, forgiven);
        let seen = i64::from(attempts);
        let changed = match outcome {
            Failed::Retry { delay } => {
                let again = failure.now.saturating_add(delay).to_cell();
                let params: [Param<'_>; 5] = [&id, &seen, &now, &again, &error.as_str()];
                client.rows(MARK_FAILED, &params).await?
            }
            Failed::Dead => {
                let params: [Param<'_>; 4] = [&id, &seen, &now, &error.as_str()];
                client.rows(MARK_DEAD, &params).await?
            }
        };
        if !changed.is_empty() {
            return Ok(Some(outcome));
        }
    }
    Ok(None)
}

/// How many rows a statement counts at a time.
pub(super) async fn number(
    pool: &Pool,
    sql: &'static str,
    time: Timestamp,
) -> Result<u64, StoreError> {
    let mut client = pool.get().await?;
    let rows = client.rows(sql, &[&time.to_cell()]).await?;
    let number: i64 = rows.first().map_or(0, |row| row.get(0));
    Ok(u64::try_from(number).unwrap_or_default())
}

pub(super) async fn list(pool: &Pool, filter: &OutboxFilter) -> Result<Vec<OutboxRow>, StoreError> {
    let mut client = pool.get().await?;
    let params: [Param<'_>; 3] = [
        &filter.status.map(OutboxStatus::as_str),
        &filter.after.map(OutboxId::get),
        &i64::from(filter.limit.get()),
    ];
    let sql = match filter.status {
        Some(OutboxStatus::Dead) => &LIST_DEAD,
        _ => &LIST,
    };
    let rows = client.rows(sql, &params).await?;
    read_all(&rows, row::outbox_row)
}

pub(super) async fn facts(pool: &Pool) -> Result<OutboxFacts, StoreError> {
    let mut client = pool.get().await?;
    let most = i64::from(MAX_COUNTED);
    let (counts, facts) = client.two((COUNTS, &[&most]), (FACTS, &[])).await?;
    let counts = read_all(&counts, row::count_of)?;
    let Some(facts) = facts.first() else {
        return Ok(OutboxFacts::default());
    };
    let oldest = facts
        .get::<_, Option<row::CellRef<'_>>>(0)
        .map(time)
        .transpose()?;
    // Below zero while the database has never looked.
    let about = u64::try_from(facts.get::<_, i64>(2)).unwrap_or_default();
    Ok(OutboxFacts::of(counts, about, oldest, facts.get(1)))
}

pub(super) async fn newest(pool: &Pool) -> Result<Option<Timestamp>, StoreError> {
    let mut client = pool.get().await?;
    let rows = client.rows(NEWEST, &[]).await?;
    let newest = rows.first().map(|row| time(row.get(0)));
    newest.transpose()
}

pub(super) async fn settle(
    pool: &Pool,
    sql: &'static str,
    rows: &[OutboxId],
    now: Timestamp,
) -> Result<u64, StoreError> {
    let mut client = pool.get().await?;
    let params: [Param<'_>; 2] = [&ids(rows), &now.to_cell()];
    Ok(count(&client.rows(sql, &params).await?))
}

pub(super) async fn purge(
    pool: &Pool,
    before: Timestamp,
    limit: PageLimit,
) -> Result<u64, StoreError> {
    let mut client = pool.get().await?;
    let params: [Param<'_>; 2] = [&before.to_cell(), &i64::from(limit.get())];
    Ok(count(&client.rows(PURGE, &params).await?))
}

pub(super) async fn quarantine(pool: &Pool, refused: &[Quarantined]) -> Result<(), StoreError> {
    let mut block = REFUSED.block();
    for it in refused {
        block.push(&quarantine_row(it));
    }
    let params: Vec<_> = block.params().collect();
    let mut client = pool.get().await?;
    client.rows(&PUT_QUARANTINE, &params).await.map(drop)
}

pub(super) async fn purge_quarantine(
    pool: &Pool,
    before: Timestamp,
    limit: PageLimit,
) -> Result<u64, StoreError> {
    let mut client = pool.get().await?;
    let params: [Param<'_>; 3] = [
        &before.to_cell(),
        &i64::from(limit.get()),
        &first_id_at(before.as_unix_ms()),
    ];
    Ok(count(&client.rows(PURGE_QUARANTINE, &params).await?))
}

pub(super) async fn quarantined(
    pool: &Pool,
    filter: &QuarantineFilter,
) -> Result<Vec<Quarantined>, StoreError> {
    let mut client = pool.get().await?;
    let params: [Param<'_>; 3] = [
        &filter.source.as_ref().map(Text::as_str),
        &filter.after.map(QuarantineId::get),
        &i64::from(filter.limit.get()),
    ];
    let rows = client.rows(&QUARANTINED, &params).await?;
    read_all(&rows, row::quarantined)
}
