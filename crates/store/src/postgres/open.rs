//! Opening a database: the settings that promises rest on, the migrations, the months ahead.

use noetl_types::Digest;
use tokio_postgres::{Client, GenericClient, Row};

use super::PostgresOptions;
use super::bind::failure;
use super::function::{APPEND, APPEND_SHARED};
use super::pool::Pool;
use super::stream::FeedBase;
use super::{partition, rebase, stream};
use crate::error::StoreError;
use crate::migration::{Migration, Schema, pending};

static MIGRATIONS: [Migration; 7] = [
    Migration {
        version: 1,
        name: "tables",
        sql: include_str!("migrations/0001_tables.sql"),
    },
    Migration {
        version: 2,
        name: "results",
        sql: include_str!("migrations/0002_results.sql"),
    },
    Migration {
        version: 3,
        name: "commons",
        sql: include_str!("migrations/0003_commons.sql"),
    },
    Migration {
        version: 4,
        name: "outlets",
        sql: include_str!("migrations/0004_outlets.sql"),
    },
    Migration {
        version: 5,
        name: "vault",
        sql: include_str!("migrations/0005_vault.sql"),
    },
    Migration {
        version: 6,
        name: "credentials",
        sql: include_str!("migrations/0006_credentials.sql"),
    },
    Migration {
        version: 7,
        name: "outbox_bytes",
        sql: include_str!("migrations/0007_outbox_bytes.sql"),
    },
];

/// The first release with everything that the statements use.
const OLDEST_SERVER: i32 = 150_000;

/// The name of the lock under which tables and partitions change: "noetl" in ASCII.
pub(super) const TABLES_LOCK: i64 = 0x6e_6f_65_74_6c;

/// What must be true of a server before anything is written.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error("PostgreSQL {found} is too old: 15 is the oldest that is supported")]
    OldServer { found: i32 },
    #[error("the server is a standby, which cannot be written to: connect to its primary")]
    Standby,
    #[error("the setting {setting} is off, so an answered append could be lost: turn it on")]
    Unsafe { setting: &'static str },
    #[error(
        "the tables are at schema {version}, and this program needs {newest}; migrate them, or start \
         a server of this version"
    )]
    OldTables { version: i64, newest: i64 },
}

pub(super) async fn prepare(
    pool: &Pool,
    options: &PostgresOptions,
) -> Result<FeedBase, StoreError> {
    let mut pooled = pool.get().await?;
    let client = pooled.client()?;
    check_server(client, options).await?;
    migrate(client, &options.schema).await?;
    partition::ensure_ahead(client, options.now, options.months_ahead).await?;
    rebase::rebase(pool, client).await
}

/// What is needed to read tables that are up to date; others are refused, and nothing is changed.
pub(super) async fn look(pool: &Pool) -> Result<FeedBase, StoreError> {
    let Schema { version, newest } = schema(pool).await?;
    if version < newest {
        return Err(StoreError::fatal(OpenError::OldTables { version, newest }));
    }
    let mut pooled = pool.get().await?;
    stream::base(pooled.client()?).await
}

/// How far the tables are, which are not changed.
pub(super) async fn schema(pool: &Pool) -> Result<Schema, StoreError> {
    let mut pooled = pool.get().await?;
    let client = pooled.client()?;
    let sql = "SELECT to_regclass('schema_migration') IS NOT NULL";
    let has_any: bool = client.query_one(sql, &[]).await.map_err(failure)?.get(0);
    let applied = if has_any {
        applied(client).await?
    } else {
        Vec::new()
    };
    Schema::of(&MIGRATIONS, &applied).map_err(StoreError::fatal)
}

async fn check_server(client: &Client, options: &PostgresOptions) -> Result<(), StoreError> {
    let sql = "SELECT current_setting('server_version_num')::int4,
        pg_is_in_recovery(),
        current_setting('fsync')::bool,
        current_setting('full_page_writes')::bool,
        current_setting('synchronous_commit') = $1";
    // What stands between may swallow the settings of a session.
    let row = client
        .query_one(sql, &[&options.synchronous_commit])
        .await
        .map_err(failure)?;
    let refused = |error| Err(StoreError::fatal(error));
    let version: i32 = row.get(0);
    if version < OLDEST_SERVER {
        return refused(OpenError::OldServer {
            found: version / 10_000,
        });
    }
    if row.get(1) {
        return refused(OpenError::Standby);
    }
    let settings = ["fsync", "full_page_writes", "synchronous_commit"];
    for (place, setting) in settings.into_iter().enumerate() {
        let is_on: bool = row.get(place + 2);
        if !is_on {
            return refused(OpenError::Unsafe { setting });
        }
    }
    Ok(())
}

/// One transaction under one lock, so that of many processes that start together one migrates and
/// the others find it done.
async fn migrate(client: &mut Client, schema: &str) -> Result<(), StoreError> {
    let transaction = client.transaction().await.map_err(failure)?;
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&TABLES_LOCK])
        .await
        .map_err(failure)?;
    let tables = format!(
        "CREATE SCHEMA IF NOT EXISTS {schema};
         CREATE TABLE IF NOT EXISTS schema_migration (
             version BIGINT PRIMARY KEY,
             name TEXT NOT NULL,
             sha256 TEXT NOT NULL
         )"
    );
    transaction.batch_execute(&tables).await.map_err(failure)?;
    let applied = applied(&transaction).await?;
    for migration in pending(&MIGRATIONS, &applied).map_err(StoreError::fatal)? {
        transaction
            .batch_execute(migration.sql)
            .await
            .map_err(failure)?;
        transaction
            .execute(
                "INSERT INTO schema_migration (version, name, sha256) VALUES ($1, $2, $3)",
                &[
                    &migration.version,
                    &migration.name,
                    &migration.checksum().to_string(),
                ],
            )
            .await
            .map_err(failure)?;
    }
    for function in [&APPEND, &APPEND_SHARED] {
        function.ensure(&transaction).await.map_err(failure)?;
    }
    transaction.commit().await.map_err(failure)
}

async fn applied(client: &impl GenericClient) -> Result<Vec<(i64, Digest)>, StoreError> {
    let sql = "SELECT version, sha256 FROM schema_migration ORDER BY version";
    let rows = client.query(sql, &[]).await.map_err(failure)?;
    let migration = |row: &Row| {
        let checksum = Digest::parse(row.get(1)).map_err(StoreError::fatal)?;
        Ok((row.get(0), checksum))
    };
    rows.iter().map(migration).collect()
}
