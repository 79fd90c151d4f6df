//! Opening a database: the settings that promises rest on, the migrations, the months ahead.

use noetl_types::Digest;
use tokio_postgres::{Client, GenericClient, Row, Transaction};

use super::PostgresOptions;
use super::bind::failure;
use super::function::{APPEND, APPEND_SHARED};
use super::owner::{self, Guest, Owner};
use super::pool::Pool;
use super::query::Param;
use super::stream::FeedBase;
use super::{partition, rebase, rights, stream};
use crate::error::StoreError;
use crate::migration::{Applied, Migration, OLDEST_PROGRAM, Schema, pending};

pub(super) static MIGRATIONS: [Migration; 10] = [
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
    Migration {
        version: 8,
        name: "keychain",
        sql: include_str!("migrations/0008_keychain.sql"),
    },
    Migration {
        version: 9,
        name: "secret_acts",
        sql: include_str!("migrations/0009_secret_acts.sql"),
    },
    Migration {
        version: 10,
        name: "purge",
        sql: include_str!("migrations/0010_purge.sql"),
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

/// Looks whether the database can be trusted, and as whom the server is let in.
pub(super) async fn check(pool: &Pool, options: &PostgresOptions) -> Result<Guest, StoreError> {
    let mut pooled = match pool.get().await {
        Ok(pooled) => pooled,
        Err(error) => return Err(owner::why_not_in(options, error).await),
    };
    let client = pooled.client()?;
    check_server(client, options).await?;
    Guest::of(client).await
}

/// What only the owner of the tables may do before anybody works with them.
pub(super) async fn prepare(
    owner: &Owner,
    options: &PostgresOptions,
) -> Result<FeedBase, StoreError> {
    let mut pooled = owner.get().await?;
    let client = pooled.client()?;
    let migrated = migrate(client, &options.schema, owner).await;
    migrated.map_err(|error| owner.why_not_done(error))?;
    let ahead = (options.now, options.months_ahead);
    if let Err(error) = partition::ensure_ahead(client, owner, ahead).await {
        // There is room for now; the server tells by itself when it can make no more.
        let is_enough =
            owner.is_kept_away(&error) && partition::has_ahead(client, (options.now, 0)).await?;
        if !is_enough {
            return Err(owner.why_not_done(error));
        }
    }
    rebase::rebase(owner.pool(), client).await
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
        Applied::default()
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
        if !is_on && !options.unsafe_durability {
            return refused(OpenError::Unsafe { setting });
        }
    }
    Ok(())
}

/// An index of a large table takes longer than a statement may elsewhere.
const PATIENCE: &str = "SET LOCAL statement_timeout = '30min'";

/// One transaction under one lock, so that of many processes that start together one migrates and
/// the others find it done. Where all is there nothing is made, so that who owns nothing may look too.
async fn migrate(client: &mut Client, schema: &str, owner: &Owner) -> Result<(), StoreError> {
    let transaction = client.transaction().await.map_err(failure)?;
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&TABLES_LOCK])
        .await
        .map_err(failure)?;
    begin(&transaction, schema).await?;
    let applied = applied(&transaction).await?;
    let pending = pending(&MIGRATIONS, &applied).map_err(StoreError::fatal)?;
    if !pending.is_empty() {
        let set = transaction.batch_execute(PATIENCE).await;
        set.map_err(failure)?;
    }
    for migration in &pending {
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
    if !pending.is_empty() {
        let oldest: [Param<'_>; 1] = [&OLDEST_PROGRAM];
        let say = transaction.execute(SAY_OLDEST_PROGRAM, &oldest);
        say.await.map_err(failure)?;
    }
    for function in [&APPEND, &APPEND_SHARED] {
        function.ensure(&transaction).await.map_err(failure)?;
    }
    if let Some(server) = owner.server() {
        rights::give(&transaction, server).await?;
    }
    transaction.commit().await.map_err(failure)
}

/// Makes the schema and the table of what was migrated, where they are not there.
async fn begin(transaction: &Transaction<'_>, schema: &str) -> Result<(), StoreError> {
    let there =
        "SELECT to_regnamespace($1) IS NOT NULL, to_regclass('schema_migration') IS NOT NULL";
    let there = transaction.query_one(there, &[&schema]).await;
    let there = there.map_err(failure)?;
    let (has_schema, has_table): (bool, bool) = (there.get(0), there.get(1));
    let table = "CREATE TABLE schema_migration (
            version BIGINT PRIMARY KEY,
            name TEXT NOT NULL,
            sha256 TEXT NOT NULL
        )";
    let make_schema = format!("CREATE SCHEMA {schema}");
    let makes = [(has_schema, &*make_schema), (has_table, table)];
    for (_, make) in makes.into_iter().filter(|(is_there, _)| !is_there) {
        transaction.batch_execute(make).await.map_err(failure)?;
    }
    Ok(())
}

const SAY_OLDEST_PROGRAM: &str = "INSERT INTO meta (key, value)
    VALUES ('oldest_program', $1::bigint::text)
    ON CONFLICT (key) DO UPDATE
    SET value = greatest(meta.value::bigint, excluded.value::bigint)::text";

/// Where it is said: not in the first tables that there were.
const OLDEST_SAID: &str = "SELECT value::bigint FROM meta WHERE key = 'oldest_program'";

async fn applied(client: &impl GenericClient) -> Result<Applied, StoreError> {
    let has_meta = "SELECT to_regclass('meta') IS NOT NULL";
    let has_meta = client.query_one(has_meta, &[]).await.map_err(failure)?;
    let said = if has_meta.get(0) {
        client.query_opt(OLDEST_SAID, &[]).await.map_err(failure)?
    } else {
        None
    };
    let sql = "SELECT version, sha256 FROM schema_migration ORDER BY version";
    let rows = client.query(sql, &[]).await.map_err(failure)?;
    let migration = |row: &Row| {
        let checksum = Digest::parse(row.get(1)).map_err(StoreError::fatal)?;
        Ok((row.get(0), checksum))
    };
    Ok(Applied {
        migrations: rows
            .iter()
            .map(migration)
            .collect::<Result<_, StoreError>>()?,
        oldest_program: said.map(|row| row.get(0)),
    })
}
