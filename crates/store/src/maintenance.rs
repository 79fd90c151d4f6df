//! Maintenance of a store: partitions, retention, and health.

use std::collections::BTreeMap;
use std::path::Path;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{TenantId, Text, Timestamp};

use crate::error::StoreError;
use crate::migration::created_tables;
use crate::model::{
    EnabledPublishers, FailedPrivilegeCheck, GcTarget, LogPartition, OldPartition, PinReason,
    StoreStats, TenantTable,
};
use crate::row::cells;
use crate::sql::{Database, Durability, Statement};
use crate::streams::StreamCursorStore as _;

/// The part of a [`crate::Store`] that deletes rows which are no longer needed.
#[async_trait]
pub trait ExpiryStore {
    /// Counts the commands that ended before a time.
    async fn count_old_commands(&self, before: Timestamp) -> Result<u64, StoreError>;

    /// Deletes commands that ended before a time, the longest ended first. Returns the number
    /// deleted, at most `limit`.
    async fn purge_commands(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError>;

    /// Counts the worker pools whose last heartbeat was before a time.
    async fn count_old_runtimes(&self, before: Timestamp) -> Result<u64, StoreError>;

    /// Deletes worker pools whose last heartbeat was before a time, at most `limit`.
    async fn purge_runtimes(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError>;

    /// Deletes what has expired by `now`, the longest expired first. Returns the number deleted, at
    /// most `limit`. If it equals `limit`, more may remain. For files, `limit` is the number of
    /// files checked, and the next call continues after them.
    async fn delete_expired(
        &self,
        target: GcTarget,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError>;
}

/// The part of a [`crate::Store`] that describes it.
#[async_trait]
pub trait StatsStore {
    /// Returns the size, the schema version and the row counts of the store.
    async fn store_stats(&self) -> Result<StoreStats, StoreError>;

    /// Counts the rows of a tenant in a table, up to `max_count`.
    async fn count_tenant_rows(
        &self,
        tenant_id: &TenantId,
        table: TenantTable,
        max_count: u32,
    ) -> Result<u32, StoreError>;

    /// Returns the required tables and if each exists.
    async fn check_tables(&self) -> Result<BTreeMap<&'static str, bool>, StoreError>;
}

/// The part of a [`crate::Store`] that operators and scheduled jobs use.
#[async_trait]
pub trait MaintenanceStore {
    /// Ensures that log partitions exist for the current month and `months_ahead` months after it.
    async fn ensure_log_partitions(
        &self,
        now: Timestamp,
        months_ahead: u32,
    ) -> Result<(), StoreError>;

    /// Returns the end of the last log partition, or `None` if the log needs no partitions.
    async fn log_partitions_until(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Returns the clock of the database server, or `None` if the store uses the server's clock.
    async fn database_clock(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Returns the partitions whose executions were all started before a time, oldest first, each
    /// with the reason that pins it.
    async fn list_old_partitions(
        &self,
        before: Timestamp,
        publishers: &EnabledPublishers,
    ) -> Result<Vec<OldPartition>, StoreError>;

    /// Drops a partition if nothing pins it. Otherwise returns the reason. From then on its
    /// executions are gone, and appends to them fail.
    ///
    /// Appends to other partitions are blocked for at most half a second.
    async fn drop_partition(
        &self,
        partition: &LogPartition,
        publishers: &EnabledPublishers,
        now: Timestamp,
    ) -> Result<Option<PinReason>, StoreError>;

    /// Deletes the remaining rows of dropped executions from all tables. Returns the number of
    /// rows, at most `limit` per table. Zero means that nothing remains.
    async fn purge_dropped_executions(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError>;

    /// Returns the privilege checks that fail. Empty if the database has no roles.
    async fn list_failed_privilege_checks(&self) -> Result<Vec<FailedPrivilegeCheck>, StoreError>;

    /// Runs the integrity check of the database and returns what it found.
    async fn check_integrity(&self) -> Result<Vec<String>, StoreError>;

    /// Copies the store to a new file while it is in use.
    async fn write_backup(&self, to: &Path) -> Result<(), StoreError>;
}

/// Returns the statement that counts the rows of a tenant in a table.
fn count_rows_statement(table: TenantTable) -> &'static Statement {
    macro_rules! count_rows {
        ($table:literal) => {{
            static COUNT: Statement = Statement::new(concat!(
                "SELECT count(*) FROM (SELECT 1 FROM ",
                $table,
                " WHERE tenant_id = $1 LIMIT $2::bigint) AS counted"
            ));
            &COUNT
        }};
    }
    match table {
        TenantTable::Tokens => count_rows!("api_token"),
        TenantTable::Definitions => count_rows!("catalog"),
        TenantTable::Broadcasts => count_rows!("signal_broadcast"),
    }
}

static COUNT_OLD_COMMANDS: Statement =
    Statement::new("SELECT count(*) FROM command WHERE completed_at < $1::timestamptz")
        .with_auto_plan();

static PURGE_COMMANDS: Statement = Statement::new(
    "DELETE FROM command WHERE command_id IN (
         SELECT command_id FROM command WHERE completed_at < $1::timestamptz
         ORDER BY completed_at, command_id LIMIT $2::bigint
         FOR UPDATE SKIP LOCKED
     )",
)
.with_auto_plan();

static COUNT_OLD_RUNTIMES: Statement = Statement::new(
    "SELECT count(*) FROM runtime WHERE kind = 'worker_pool' AND heartbeat < $1::timestamptz",
)
.with_auto_plan();

static PURGE_RUNTIMES: Statement = Statement::new(
    "DELETE FROM runtime WHERE runtime_id IN (
         SELECT runtime_id FROM runtime
         WHERE kind = 'worker_pool' AND heartbeat < $1::timestamptz
         ORDER BY name LIMIT $2::bigint
         FOR UPDATE SKIP LOCKED
     )",
)
.with_auto_plan();

/// Returns a statement that deletes expired rows of a table. Rows are locked first, which checks
/// their expiry again, since a reservation may just have been renewed.
fn delete_expired_sql(table: &str) -> String {
    format!(
        "DELETE FROM {table} WHERE ctid = ANY (ARRAY(
             SELECT ctid FROM {table} WHERE expires_at <= $1::timestamptz
             ORDER BY expires_at LIMIT $2::bigint FOR UPDATE SKIP LOCKED
         ))"
    )
}

/// Deletes tokens that were revoked or have expired.
static DELETE_ENDED_TOKENS: Statement = Statement::new(
    "DELETE FROM api_token WHERE token_id IN (
         SELECT token_id FROM api_token
         WHERE coalesce(revoked_at, expires_at) <= $1::timestamptz LIMIT $2::bigint
     )",
)
.with_auto_plan();

/// Returns the statement that deletes expired rows. Files have none.
fn delete_expired_statement(target: GcTarget) -> Option<&'static Statement> {
    macro_rules! delete_expired {
        ($table:literal) => {{
            static DELETE: Statement =
                Statement::build(|| delete_expired_sql($table)).with_auto_plan();
            Some(&DELETE)
        }};
    }
    match target {
        GcTarget::Cache => delete_expired!("step_cache"),
        GcTarget::Dedup => delete_expired!("subscription_dedup"),
        GcTarget::Idempotency => delete_expired!("idempotency"),
        GcTarget::Broadcasts => delete_expired!("signal_broadcast"),
        GcTarget::Results => delete_expired!("result_store"),
        GcTarget::Keychain => delete_expired!("keychain"),
        GcTarget::Tokens => Some(&DELETE_ENDED_TOKENS),
        GcTarget::Blobs => None,
    }
}

static BLOB_REFERENCE: Statement =
    Statement::new("SELECT object_key FROM result_store WHERE object_key = $1 LIMIT 1")
        .with_auto_plan();

#[async_trait]
impl<D: Database> ExpiryStore for D {
    async fn count_old_commands(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.query_count(&COUNT_OLD_COMMANDS, cells![before]).await
    }

    async fn purge_commands(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError> {
        self.execute(Durability::Unsynced, &PURGE_COMMANDS, cells![before, limit]).await
    }

    async fn count_old_runtimes(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.query_count(&COUNT_OLD_RUNTIMES, cells![before]).await
    }

    async fn purge_runtimes(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError> {
        self.execute(Durability::Unsynced, &PURGE_RUNTIMES, cells![before, limit]).await
    }

    async fn delete_expired(
        &self,
        target: GcTarget,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        match (delete_expired_statement(target), self.blobs()) {
            (Some(statement), _) => {
                self.execute(Durability::Unsynced, statement, cells![now, limit]).await
            }
            (None, None) => Ok(0),
            (None, Some(blobs)) => {
                let is_referenced = |key: String| async move {
                    let found = self.query_first::<(Text,)>(&BLOB_REFERENCE, cells![*key]).await?;
                    Ok(found.is_some())
                };
                blobs.delete_unreferenced(now, limit, is_referenced).await
            }
        }
    }
}

/// Counts rows per table. The number of events is the sum of the versions of all executions, since
/// counting events would read the whole log.
static COUNT_ROWS: Statement = Statement::new(
    "SELECT (SELECT count(*) FROM execution),
         (SELECT coalesce(sum(version), 0)::bigint FROM execution),
         (SELECT count(*) FROM command),
         (SELECT count(*) FROM outbox),
         (SELECT count(*) FROM result_store)",
)
.with_auto_plan();

static DATABASE_SIZE: Statement = Statement::per_database(
    "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
     WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')",
    "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
)
.with_auto_plan();

static SCHEMA_VERSION: Statement =
    Statement::new("SELECT coalesce(max(version), 0) FROM schema_migration").with_auto_plan();

static LIST_TABLES: Statement = Statement::per_database(
    "SELECT relname::text FROM pg_class
     WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
         AND NOT relispartition",
    "SELECT name FROM sqlite_schema WHERE type = 'table'",
)
.with_auto_plan();

#[async_trait]
impl<D: Database> StatsStore for D {
    async fn store_stats(&self) -> Result<StoreStats, StoreError> {
        let rows = self.query_first(&COUNT_ROWS, vec![]).await?;
        let (execution, event, command, outbox, result_store) = rows.unwrap_or_default();
        let schema_version = self.query_count(&SCHEMA_VERSION, vec![]).await?;
        Ok(StoreStats {
            backend: self.backend_name(),
            schema_version: i64::try_from(schema_version).unwrap_or(i64::MAX),
            log_epoch: self.log_epoch().await?,
            bytes: self.query_count(&DATABASE_SIZE, vec![]).await?,
            rows: BTreeMap::from([
                ("execution", execution),
                ("event", event),
                ("command", command),
                ("outbox", outbox),
                ("result_store", result_store),
            ]),
        })
    }

    async fn count_tenant_rows(
        &self,
        tenant_id: &TenantId,
        table: TenantTable,
        max_count: u32,
    ) -> Result<u32, StoreError> {
        let statement = count_rows_statement(table);
        let count = self.query_count(statement, cells![tenant_id, max_count]).await?;
        Ok(u32::try_from(count).unwrap_or(max_count))
    }

    async fn check_tables(&self) -> Result<BTreeMap<&'static str, bool>, StoreError> {
        let existing = self.query::<(Text,)>(&LIST_TABLES, vec![]).await?;
        let exists = |name: &str| existing.iter().any(|(table,)| table.as_str() == name);
        Ok(created_tables(D::migrations()).map(|name| (name, exists(name))).collect())
    }
}
