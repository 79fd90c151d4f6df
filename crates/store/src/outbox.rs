//! The outbox, and items that a projector or a publisher rejected.

use async_trait::async_trait;
use noetl_types::id::first_id_at;
use noetl_types::limits::PageLimit;
use noetl_types::{OutboxId, Timestamp};

use crate::error::StoreError;
use crate::model::{
    ClaimedBatch, FailureOutcome, MAX_EXACT_PUBLISHED_COUNT, OutboxClaim, OutboxFailure,
    OutboxFilter, OutboxMark, OutboxRow, OutboxStats, OutboxStatus, QuarantineFilter,
    QuarantinedItem,
};
use crate::row::{Cell, OUTBOX, QUARANTINE, ToRow as _, cells};
use crate::sql::{Database, Durability, Statement};

/// The part of a [`crate::Store`] from which publishers take rows.
///
/// Outbox rows are written by appends that request them ([`crate::AppendRequest::use_outbox`]). A
/// claim gives a publisher a row for a limited time. The attempt number is the fence, because it
/// increases with every claim.
#[async_trait]
pub trait OutboxQueue {
    /// Claims rows for a publisher: due rows and rows whose publisher let its lease expire or set
    /// none, ordered by the time at which they may be claimed, then by id.
    ///
    /// Concurrent callers do not block each other, and no row is claimed twice. A call may return
    /// fewer rows than are available, because payloads are bounded by [`crate::MAX_CLAIM_BYTES`].
    async fn claim_outbox(&self, claim: OutboxClaim) -> Result<ClaimedBatch, StoreError>;

    /// Marks rows as published and returns the number changed. Only a row in flight changes, and
    /// only if the attempt matches.
    async fn mark_published(
        &self,
        marks: Vec<OutboxMark>,
        now: Timestamp,
    ) -> Result<u64, StoreError>;
}

/// The part of a [`crate::Store`] that manages rows of the outbox and rejected items.
#[async_trait]
pub trait OutboxStore {
    /// Returns true if appends write outbox rows, or `None` if no process has recorded it yet.
    async fn is_outbox_enabled(&self) -> Result<Option<bool>, StoreError>;

    /// Records the use of the outbox. A recorded value changes only if `may_change`. Returns the
    /// recorded value.
    async fn record_outbox_enabled(
        &self,
        is_enabled: bool,
        may_change: bool,
    ) -> Result<bool, StoreError>;

    /// Records that a row could not be published. Returns `None` if the caller no longer holds the
    /// row.
    async fn mark_failed(
        &self,
        failure: OutboxFailure,
    ) -> Result<Option<FailureOutcome>, StoreError>;

    /// Counts the rows that can be claimed.
    async fn count_claimable_outbox_rows(&self, now: Timestamp) -> Result<u64, StoreError>;

    /// Returns a page of rows, ordered by id.
    async fn list_outbox_rows(&self, filter: OutboxFilter) -> Result<Vec<OutboxRow>, StoreError>;

    /// Returns the number of rows, the age of the oldest unpublished row, and if a dead row awaits
    /// an operator's decision.
    async fn outbox_stats(&self) -> Result<OutboxStats, StoreError>;

    /// Returns the creation time of the newest row.
    async fn newest_outbox_row_at(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Makes dead rows claimable again. Returns how many were dead and not discarded.
    async fn requeue_outbox_rows(
        &self,
        rows: Vec<OutboxId>,
        now: Timestamp,
    ) -> Result<u64, StoreError>;

    /// Discards dead rows, so that they count as published. Returns how many were dead.
    async fn discard_outbox_rows(
        &self,
        rows: Vec<OutboxId>,
        now: Timestamp,
    ) -> Result<u64, StoreError>;

    /// Counts the rows that were published or discarded before a time.
    async fn count_old_outbox_rows(&self, before: Timestamp) -> Result<u64, StoreError>;

    /// Deletes rows that were published before a time, then rows that were discarded before it, the
    /// oldest first. Returns the number deleted, at most `limit`.
    async fn purge_outbox_rows(
        &self,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError>;

    /// Stores rejected items. See [`QuarantinedItem`].
    async fn quarantine_items(&self, items: Vec<QuarantinedItem>) -> Result<(), StoreError>;

    /// Returns a page of rejected items, oldest first.
    async fn list_quarantined_items(
        &self,
        filter: QuarantineFilter,
    ) -> Result<Vec<QuarantinedItem>, StoreError>;

    /// Deletes items that were rejected before a time, the oldest first. Returns the number
    /// deleted, at most `limit`.
    async fn purge_quarantined_items(
        &self,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError>;
}

static OUTBOX_ENABLED: Statement =
    Statement::new("SELECT value = 'on' FROM meta WHERE key = 'outbox'");

static RECORD_OUTBOX_ENABLED: Statement = Statement::new(
    "INSERT INTO meta (key, value) VALUES ('outbox', CASE WHEN $1::boolean THEN 'on' ELSE 'off' END)
     ON CONFLICT (key) DO UPDATE
     SET value = CASE WHEN $2::boolean THEN excluded.value ELSE meta.value END
     RETURNING value = 'on'",
);

static ROW_IN_FLIGHT: Statement = Statement::new(
    "SELECT attempts, forgiven FROM outbox WHERE outbox_id = $1 AND status = 'IN_FLIGHT'",
);

/// Marks a row as failed or dead, if it was not claimed again since it was read.
static MARK_FAILED: Statement = Statement::new(
    "UPDATE outbox
     SET status = $4::text, available_at = coalesce($5::timestamptz, available_at),
         dead_at = $6::timestamptz, lease_until = NULL, last_error = $7::text,
         updated_at = $3::timestamptz
     WHERE outbox_id = $1 AND status = 'IN_FLIGHT' AND attempts = $2::bigint",
);

pub(crate) static COUNT_CLAIMABLE: Statement = Statement::new(
    "SELECT (
         SELECT count(*) FROM outbox
         WHERE status IN ('PENDING', 'FAILED') AND available_at <= $1::timestamptz
     ) + (
         SELECT count(*) FROM outbox
         WHERE status = 'IN_FLIGHT' AND (lease_until <= $1::timestamptz OR lease_until IS NULL)
     )",
);

static LIST_ROWS: Statement = Statement::select(
    &OUTBOX,
    "WHERE ($1::text IS NULL OR status = $1) AND ($2::bigint IS NULL OR outbox_id > $2)
     ORDER BY outbox_id LIMIT $3::bigint",
)
.with_auto_plan();

/// Lists dead rows. They are few and have their own index.
pub(crate) static LIST_DEAD_ROWS: Statement = Statement::select(
    &OUTBOX,
    "/*sqlite INDEXED BY outbox_dead*/
     WHERE status = 'DEAD' AND $1::text IS NOT NULL AND ($2::bigint IS NULL OR outbox_id > $2)
     ORDER BY outbox_id LIMIT $3::bigint",
)
.with_auto_plan();

/// Counts rows by status, using the index of each status. SQLite considers a full scan equally
/// cheap, so the indexes are named. Published rows are counted up to a limit.
pub(crate) static COUNT_BY_STATUS: Statement = Statement::new(
    "SELECT status, count(*) FROM outbox /*sqlite INDEXED BY outbox_ready*/
         WHERE status IN ('PENDING', 'FAILED') GROUP BY status
     UNION ALL
     SELECT 'IN_FLIGHT'::text, count(*) FROM outbox /*sqlite INDEXED BY outbox_in_flight*/
         WHERE status = 'IN_FLIGHT'
     UNION ALL
     SELECT 'DEAD'::text, count(*) FROM outbox /*sqlite INDEXED BY outbox_dead*/
         WHERE status = 'DEAD'
     UNION ALL
     SELECT 'PUBLISHED'::text, count(*) FROM (
         SELECT published_at FROM outbox /*sqlite INDEXED BY outbox_published*/
         WHERE status = 'PUBLISHED' ORDER BY published_at, outbox_id LIMIT $1::bigint
     ) AS counted",
)
.with_auto_plan();

/// Selects the creation time of the oldest unpublished row, the presence of dead rows, and the
/// estimated number of rows. In PostgreSQL, unpublished rows are ready, in flight or dead, each of
/// which has an index.
pub(crate) static OUTBOX_STATS: Statement = Statement::per_database(
    "SELECT
         (SELECT min(created_at) FROM (
             SELECT created_at FROM outbox
             WHERE status IN ('PENDING', 'FAILED') AND discarded_at IS NULL
             UNION ALL
             SELECT created_at FROM outbox WHERE status = 'IN_FLIGHT' AND discarded_at IS NULL
             UNION ALL
             SELECT created_at FROM outbox WHERE status = 'DEAD' AND discarded_at IS NULL
         ) AS unpublished),
         EXISTS (SELECT 1 FROM outbox WHERE status = 'DEAD' AND discarded_at IS NULL),
         (SELECT reltuples::bigint FROM pg_class WHERE oid = 'outbox'::regclass)",
    "SELECT
         (SELECT min(created_at) FROM outbox INDEXED BY outbox_unpublished
          WHERE status <> 'PUBLISHED' AND discarded_at IS NULL),
         EXISTS (
             SELECT 1 FROM outbox INDEXED BY outbox_dead
             WHERE status = 'DEAD' AND discarded_at IS NULL
         ),
         coalesce(
             (SELECT max(outbox_id) FROM outbox) - (SELECT min(outbox_id) FROM outbox) + 1, 0
         )",
)
.with_auto_plan();

static NEWEST_ROW_AT: Statement =
    Statement::new("SELECT created_at FROM outbox ORDER BY outbox_id DESC LIMIT 1")
        .with_auto_plan();

/// Requeues a dead row. Its previous attempts no longer count towards the limit, but `attempts` is
/// not reset because it is also the fence.
pub(crate) static REQUEUE_DEAD_ROW: Statement = Statement::new(
    "UPDATE outbox
     SET status = 'PENDING', available_at = $2::timestamptz, dead_at = NULL, forgiven = attempts,
         updated_at = $2::timestamptz
     WHERE outbox_id = $1 AND status = 'DEAD' AND discarded_at IS NULL",
);

pub(crate) static DISCARD_DEAD_ROW: Statement = Statement::new(
    "UPDATE outbox SET discarded_at = $2::timestamptz, updated_at = $2::timestamptz
     WHERE outbox_id = $1 AND status = 'DEAD' AND discarded_at IS NULL",
);

pub(crate) static COUNT_OLD_ROWS: Statement = Statement::new(
    "SELECT (
         SELECT count(*) FROM outbox
         WHERE status = 'PUBLISHED' AND published_at < $1::timestamptz
     ) + (
         SELECT count(*) FROM outbox WHERE status = 'DEAD' AND discarded_at < $1::timestamptz
     )",
)
.with_auto_plan();

/// Deletes old rows. They are found by key, since a join might read all rows.
pub(crate) static PURGE_OUTBOX: Statement = Statement::new(
    "WITH published AS MATERIALIZED (
         SELECT outbox_id FROM outbox
         WHERE status = 'PUBLISHED' AND published_at < $1::timestamptz
         ORDER BY published_at, outbox_id LIMIT $2::bigint
         FOR UPDATE SKIP LOCKED
     ), given_up AS MATERIALIZED (
         SELECT outbox_id FROM outbox /*sqlite INDEXED BY outbox_dead*/
         WHERE status = 'DEAD' AND discarded_at < $1::timestamptz
         ORDER BY discarded_at, outbox_id LIMIT $2::bigint
         FOR UPDATE SKIP LOCKED
     )
     DELETE FROM outbox WHERE outbox_id = ANY (ARRAY(
         SELECT outbox_id FROM published UNION ALL SELECT outbox_id FROM given_up LIMIT $2::bigint
     ))",
)
.with_auto_plan();

static INSERT_QUARANTINED: Statement = Statement::insert(&QUARANTINE, "ON CONFLICT DO NOTHING");

static LIST_QUARANTINED: Statement = Statement::select(
    &QUARANTINE,
    "WHERE ($1::text IS NULL OR source = $1) AND ($2::bigint IS NULL OR quarantine_id > $2)
     ORDER BY quarantine_id LIMIT $3::bigint",
)
.with_auto_plan();

/// Deletes old quarantined items. Ids increase with time, so the id bound excludes newer items.
static PURGE_QUARANTINE: Statement = Statement::new(
    "DELETE FROM outbox_quarantine WHERE quarantine_id = ANY (ARRAY(
         SELECT quarantine_id FROM outbox_quarantine
         WHERE quarantine_id < $3::bigint AND created_at < $1::timestamptz
         ORDER BY quarantine_id LIMIT $2::bigint
         FOR UPDATE SKIP LOCKED
     ))",
)
.with_auto_plan();

/// Maximum attempts to mark a row as failed without a fence while other publishers claim it.
const MAX_MARK_ATTEMPTS: usize = 16;

/// Runs a statement for rows, in the order of their ids so that concurrent calls do not deadlock.
async fn update_dead_rows(
    database: &impl Database,
    statement: &'static Statement,
    mut ids: Vec<OutboxId>,
    now: Timestamp,
) -> Result<u64, StoreError> {
    ids.sort_unstable();
    let rows: Vec<Vec<Cell>> = ids.iter().map(|id| cells![id, now]).collect();
    database.execute_many(Durability::Synced, statement, rows).await
}

#[async_trait]
impl<D: Database> OutboxStore for D {
    async fn is_outbox_enabled(&self) -> Result<Option<bool>, StoreError> {
        let recorded = self.query_first(&OUTBOX_ENABLED, vec![]).await?;
        Ok(recorded.map(|(is_enabled,)| is_enabled))
    }

    async fn record_outbox_enabled(
        &self,
        is_enabled: bool,
        may_change: bool,
    ) -> Result<bool, StoreError> {
        let params = cells![is_enabled, may_change];
        let recorded =
            self.execute_returning(Durability::Synced, &RECORD_OUTBOX_ENABLED, params).await?;
        Ok(recorded.into_iter().next().is_some_and(|(is_enabled,)| is_enabled))
    }

    /// Reads a row, and marks it as failed if it has not changed since.
    async fn mark_failed(
        &self,
        failure: OutboxFailure,
    ) -> Result<Option<FailureOutcome>, StoreError> {
        let (id, now) = (failure.outbox_id, failure.now);
        for _ in 0..MAX_MARK_ATTEMPTS {
            let row: Option<(u32, u32)> = self.query_first(&ROW_IN_FLIGHT, cells![id]).await?;
            let Some((attempts, forgiven)) = row else {
                return Ok(None);
            };
            if failure.required_attempt().is_some_and(|fence| fence != attempts) {
                return Ok(None);
            }
            let outcome = failure.to_outcome(attempts, forgiven);
            let (status, retry_at, dead_at) = match outcome {
                FailureOutcome::Retry { delay } => {
                    (OutboxStatus::Failed, Some(now.saturating_add(delay)), None)
                }
                FailureOutcome::Dead => (OutboxStatus::Dead, None, Some(now)),
            };
            let error = failure.truncated_error();
            let params = cells![id, attempts, now, status, retry_at, dead_at, error];
            if self.execute(Durability::Synced, &MARK_FAILED, params).await? > 0 {
                return Ok(Some(outcome));
            }
        }
        Ok(None)
    }

    async fn count_claimable_outbox_rows(&self, now: Timestamp) -> Result<u64, StoreError> {
        self.query_count(&COUNT_CLAIMABLE, cells![now]).await
    }

    async fn list_outbox_rows(&self, filter: OutboxFilter) -> Result<Vec<OutboxRow>, StoreError> {
        let statement = match filter.status {
            Some(OutboxStatus::Dead) => &LIST_DEAD_ROWS,
            _ => &LIST_ROWS,
        };
        self.query(statement, cells![filter.status, filter.after, filter.limit]).await
    }

    async fn outbox_stats(&self) -> Result<OutboxStats, StoreError> {
        let counts = self.query(&COUNT_BY_STATUS, cells![MAX_EXACT_PUBLISHED_COUNT]).await?;
        let stats = self.query_first(&OUTBOX_STATS, vec![]).await?;
        let (oldest, has_dead, estimate): (Option<Timestamp>, bool, i64) =
            stats.unwrap_or_default();
        // PostgreSQL's estimate is negative until the first vacuum or analyze.
        let estimate = u64::try_from(estimate).unwrap_or_default();
        Ok(OutboxStats::from_counts(counts, estimate, oldest, has_dead))
    }

    async fn newest_outbox_row_at(&self) -> Result<Option<Timestamp>, StoreError> {
        let newest = self.query_first(&NEWEST_ROW_AT, vec![]).await?;
        Ok(newest.map(|(created_at,)| created_at))
    }

    async fn requeue_outbox_rows(
        &self,
        rows: Vec<OutboxId>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        update_dead_rows(self, &REQUEUE_DEAD_ROW, rows, now).await
    }

    async fn discard_outbox_rows(
        &self,
        rows: Vec<OutboxId>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        update_dead_rows(self, &DISCARD_DEAD_ROW, rows, now).await
    }

    async fn count_old_outbox_rows(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.query_count(&COUNT_OLD_ROWS, cells![before]).await
    }

    async fn purge_outbox_rows(
        &self,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        self.execute(Durability::Unsynced, &PURGE_OUTBOX, cells![before, limit]).await
    }

    async fn quarantine_items(&self, items: Vec<QuarantinedItem>) -> Result<(), StoreError> {
        let rows = items.iter().map(QuarantinedItem::to_row).collect();
        self.execute_many(Durability::Synced, &INSERT_QUARANTINED, rows).await.map(drop)
    }

    async fn list_quarantined_items(
        &self,
        filter: QuarantineFilter,
    ) -> Result<Vec<QuarantinedItem>, StoreError> {
        self.query(&LIST_QUARANTINED, cells![filter.source, filter.after, filter.limit]).await
    }

    async fn purge_quarantined_items(
        &self,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        let params = cells![before, limit, first_id_at(before.as_unix_ms())];
        self.execute(Durability::Unsynced, &PURGE_QUARANTINE, params).await
    }
}
