//! Opens a database: checks the settings that durability depends on, runs migrations, and creates
//! partitions in advance.

use std::time::Duration;

use noetl_types::Digest;
use tokio::time::{Instant, sleep};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, GenericClient, Row, Transaction};

use super::PostgresOptions;
use super::append_function::{APPEND, APPEND_WITH_COORDINATION};
use super::bind::{Param, sql_state, to_store_error};
use super::feed::FeedBase;
use super::pool::ConnectionPool;
use super::table_owner::{self, ConnectedRole, TableOwner};
use super::{feed, partition, privileges, rebase};
use crate::error::{ErrorCause, StoreError};
use crate::migration::{
    AppliedMigrations, Migration, OLDEST_COMPATIBLE_VERSION, POSTGRES_MIGRATIONS, SchemaStatus,
    pending_migrations,
};

/// Oldest supported PostgreSQL version (`server_version_num`). The statements use its features.
const MIN_SERVER_VERSION: i32 = 150_000;

/// Key of the advisory lock for changes of tables and partitions: "noetl" in ASCII.
pub(super) const TABLES_LOCK: i64 = 0x6e_6f_65_74_6c;

/// Failed check of a server or its tables before anything is written.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error("PostgreSQL {found} is too old; use PostgreSQL 15 or later")]
    OutdatedServer { found: i32 },
    #[error("the PostgreSQL server is a read-only standby; connect to the primary")]
    Standby,
    #[error("the setting {setting} is off, so acknowledged appends could be lost; turn it on")]
    UnsafeSetting { setting: &'static str },
    #[error(
        "the tables have schema version {version}, but this program requires {newest}; migrate \
         them, or start a server of this version"
    )]
    OutdatedSchema { version: i64, newest: i64 },
    #[error(
        "the next migration of the tables needs a lock that other transactions hold; end the open \
         transactions on the tables (see pg_stat_activity), or start again later"
    )]
    LockTimeout(#[source] ErrorCause),
}

/// Checks the settings of the database, and returns the role and database of the connection.
pub(super) async fn check_database(
    pool: &ConnectionPool,
    options: &PostgresOptions,
) -> Result<ConnectedRole, StoreError> {
    let mut pooled = match pool.acquire().await {
        Ok(pooled) => pooled,
        Err(error) => return Err(table_owner::explain_login_error(options, error).await),
    };
    let client = pooled.client()?;
    check_server_settings(client, options).await?;
    let role = ConnectedRole::from_client(client).await?;
    pooled.mark_idle();
    Ok(role)
}

/// Migrates the tables, creates partitions, and rebases the log if needed. Only the owner of the
/// tables may do this, before any other use of them.
pub(super) async fn prepare_tables(
    owner: &TableOwner,
    options: &PostgresOptions,
) -> Result<FeedBase, StoreError> {
    let mut pooled = owner.acquire().await?;
    let client = pooled.client()?;
    let migrated = run_migrations(client, &options.schema, owner, MIGRATION_TIMEOUT).await;
    migrated.map_err(|error| owner.explain_migration_error(error))?;
    let (now, months_ahead) = (options.now, options.months_ahead);
    if let Err(error) = partition::ensure_partitions_ahead(client, owner, now, months_ahead).await {
        // The current month exists, so appends work for now. The NoETL server warns later if it
        // cannot create partitions.
        let is_sufficient = owner.is_privilege_error(&error)
            && partition::has_partitions_ahead(client, now, 0).await?;
        if !is_sufficient {
            return Err(owner.explain_migration_error(error));
        }
    }
    let base = rebase::rebase_if_moved(owner.pool(), client).await?;
    pooled.mark_idle();
    Ok(base)
}

/// Checks that there are no pending migrations, and returns the feed base. Changes nothing.
pub(super) async fn check_read_only(pool: &ConnectionPool) -> Result<FeedBase, StoreError> {
    let SchemaStatus { version, newest } = read_schema_status(pool).await?;
    if version < newest {
        return Err(StoreError::fatal(OpenError::OutdatedSchema { version, newest }));
    }
    let mut pooled = pool.acquire().await?;
    let base = feed::read_feed_base(pooled.client()?).await?;
    pooled.mark_idle();
    Ok(base)
}

/// Returns the schema version of the tables without changing them.
pub(super) async fn read_schema_status(pool: &ConnectionPool) -> Result<SchemaStatus, StoreError> {
    let mut pooled = pool.acquire().await?;
    let client = pooled.client()?;
    let sql = "SELECT to_regclass('schema_migration') IS NOT NULL";
    let has_migrations: bool = client.query_one(sql, &[]).await.map_err(to_store_error)?.get(0);
    let applied = if has_migrations {
        read_applied_migrations(client).await?
    } else {
        AppliedMigrations::default()
    };
    pooled.mark_idle();
    SchemaStatus::from_applied(POSTGRES_MIGRATIONS, &applied).map_err(StoreError::fatal)
}

async fn check_server_settings(
    client: &Client,
    options: &PostgresOptions,
) -> Result<(), StoreError> {
    let sql = "SELECT current_setting('server_version_num')::int4,
        pg_is_in_recovery(),
        current_setting('fsync')::bool,
        current_setting('full_page_writes')::bool,
        current_setting('synchronous_commit') = $1";
    // A connection pooler in between may drop session settings, so `synchronous_commit` is read
    // back.
    let row =
        client.query_one(sql, &[&options.synchronous_commit]).await.map_err(to_store_error)?;
    let reject = |error| Err(StoreError::fatal(error));
    let version: i32 = row.get(0);
    if version < MIN_SERVER_VERSION {
        return reject(OpenError::OutdatedServer { found: version / 10_000 });
    }
    if row.get(1) {
        return reject(OpenError::Standby);
    }
    let settings = ["fsync", "full_page_writes", "synchronous_commit"];
    for (index, setting) in settings.into_iter().enumerate() {
        let is_on: bool = row.get(index + 2);
        if !is_on && !options.unsafe_durability {
            return reject(OpenError::UnsafeSetting { setting });
        }
    }
    Ok(())
}

/// Maximum duration of migrations, including waits for locks. Building an index on a large table
/// takes longer than other statements may.
const MIGRATION_TIMEOUT: Duration = Duration::from_mins(30);

/// Maximum wait for a lock per attempt. Transactions queued behind the waiting migration wait as
/// long.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// Pause between two attempts, in which other transactions can take the locks.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Applies pending migrations. A migration that does not get a lock in time is rolled back and
/// retried, so that a waiting migration does not block other transactions on a table.
pub(super) async fn run_migrations(
    client: &mut Client,
    schema: &str,
    owner: &TableOwner,
    max_duration: Duration,
) -> Result<(), StoreError> {
    let deadline = Instant::now() + max_duration;
    loop {
        match run_migration_step(client, schema, owner).await {
            Ok(MigrationStep::Last) => return Ok(()),
            Ok(MigrationStep::More) => {}
            Err(error) if sql_state(&error) != Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                return Err(error);
            }
            Err(StoreError::Retry { cause, .. } | StoreError::Fatal { cause })
                if Instant::now() >= deadline =>
            {
                return Err(StoreError::retry(OpenError::LockTimeout(cause)));
            }
            Err(_) => sleep(LOCK_RETRY_INTERVAL).await,
        }
    }
}

/// Progress after a migration step.
enum MigrationStep {
    More,
    Last,
}

/// Runs one transaction under the tables lock, so that one of several starting processes migrates
/// and the others find the work done. If nothing is missing, nothing is created, so that a role
/// without ownership can run the check too.
///
/// Each migration has a separate transaction and holds its locks only for its own duration. In a
/// new database all migrations run in one transaction, since no other process uses the tables yet.
async fn run_migration_step(
    client: &mut Client,
    schema: &str,
    owner: &TableOwner,
) -> Result<MigrationStep, StoreError> {
    let transaction = client.transaction().await.map_err(to_store_error)?;
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&TABLES_LOCK])
        .await
        .map_err(to_store_error)?;
    create_schema(&transaction, schema).await?;
    let applied = read_applied_migrations(&transaction).await?;
    let pending = pending_migrations(POSTGRES_MIGRATIONS, &applied).map_err(StoreError::fatal)?;
    let is_new = applied.migrations.is_empty();
    let count = if is_new { pending.len() } else { 1 };
    let (next, later) = pending.split_at(count.min(pending.len()));
    if !next.is_empty() {
        apply_migrations(&transaction, next).await?;
    }
    if !later.is_empty() {
        transaction.commit().await.map_err(to_store_error)?;
        return Ok(MigrationStep::More);
    }
    for function in [&APPEND, &APPEND_WITH_COORDINATION] {
        function.ensure_created(&transaction).await.map_err(to_store_error)?;
    }
    if let Some(server) = owner.server_role() {
        privileges::sync_privileges(&transaction, server).await?;
    }
    transaction.commit().await.map_err(to_store_error)?;
    Ok(MigrationStep::Last)
}

/// Applies migrations, and records the oldest program version that can use the new tables.
pub(super) async fn apply_migrations(
    transaction: &Transaction<'_>,
    migrations: &[&'static Migration],
) -> Result<(), StoreError> {
    let limits = format!(
        "SET LOCAL statement_timeout = {}; SET LOCAL lock_timeout = {}",
        MIGRATION_TIMEOUT.as_millis(),
        LOCK_TIMEOUT.as_millis()
    );
    transaction.batch_execute(&limits).await.map_err(to_store_error)?;
    for migration in migrations {
        let applied = transaction.batch_execute(migration.sql).await;
        applied.map_err(to_store_error)?;
        let record = "INSERT INTO schema_migration (version, name, sha256) VALUES ($1, $2, $3)";
        let checksum = migration.checksum().to_string();
        let params: [Param<'_>; 3] = [&migration.version, &migration.name, &checksum];
        let recorded = transaction.execute(record, &params).await;
        recorded.map_err(to_store_error)?;
    }
    if has_meta_table(transaction).await? {
        let oldest: [Param<'_>; 1] = [&OLDEST_COMPATIBLE_VERSION];
        let recorded = transaction.execute(RECORD_OLDEST_VERSION, &oldest);
        recorded.await.map_err(to_store_error)?;
    }
    Ok(())
}

/// Creates the schema and the table of applied migrations if they do not exist.
pub(super) async fn create_schema(
    transaction: &Transaction<'_>,
    schema: &str,
) -> Result<(), StoreError> {
    let exists =
        "SELECT to_regnamespace($1) IS NOT NULL, to_regclass('schema_migration') IS NOT NULL";
    let exists = transaction.query_one(exists, &[&schema]).await;
    let exists = exists.map_err(to_store_error)?;
    let (has_schema, has_table): (bool, bool) = (exists.get(0), exists.get(1));
    let table = "CREATE TABLE schema_migration (
            version BIGINT PRIMARY KEY,
            name TEXT NOT NULL,
            sha256 TEXT NOT NULL
        )";
    let schema_sql = format!("CREATE SCHEMA {schema}");
    let statements = [(has_schema, &*schema_sql), (has_table, table)];
    for (_, sql) in statements.into_iter().filter(|(exists, _)| !exists) {
        transaction.batch_execute(sql).await.map_err(to_store_error)?;
    }
    Ok(())
}

const RECORD_OLDEST_VERSION: &str = "INSERT INTO meta (key, value)
    VALUES ('oldest_program', $1::bigint::text)
    ON CONFLICT (key) DO UPDATE
    SET value = greatest(meta.value::bigint, excluded.value::bigint)::text";

/// Reads the oldest compatible program version. The first schema versions have no `meta` table.
const SELECT_OLDEST_VERSION: &str = "SELECT value::bigint FROM meta WHERE key = 'oldest_program'";

async fn has_meta_table(client: &impl GenericClient) -> Result<bool, StoreError> {
    let has_meta = "SELECT to_regclass('meta') IS NOT NULL";
    let has_meta = client.query_one(has_meta, &[]).await;
    Ok(has_meta.map_err(to_store_error)?.get(0))
}

async fn read_applied_migrations(
    client: &impl GenericClient,
) -> Result<AppliedMigrations, StoreError> {
    let oldest_program = if has_meta_table(client).await? {
        client.query_opt(SELECT_OLDEST_VERSION, &[]).await.map_err(to_store_error)?
    } else {
        None
    };
    let sql = "SELECT version, sha256 FROM schema_migration ORDER BY version";
    let rows = client.query(sql, &[]).await.map_err(to_store_error)?;
    let migration = |row: &Row| {
        let checksum = Digest::parse(row.get(1)).map_err(StoreError::fatal)?;
        Ok((row.get(0), checksum))
    };
    Ok(AppliedMigrations {
        migrations: rows.iter().map(migration).collect::<Result<_, StoreError>>()?,
        oldest_program: oldest_program.map(|row| row.get(0)),
    })
}
