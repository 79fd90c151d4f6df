//! Opening a database: the settings that promises rest on, the migrations, the months ahead.

use std::time::Duration;

use noetl_types::Digest;
use tokio::time::{Instant, sleep};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, GenericClient, Row, Transaction};

use super::PostgresOptions;
use super::bind::{failure, state_of};
use super::function::{APPEND, APPEND_SHARED};
use super::owner::{self, Guest, Owner};
use super::pool::Pool;
use super::query::Param;
use super::stream::FeedBase;
use super::{partition, rebase, rights, stream};
use crate::error::{Cause, StoreError};
use crate::migration::{Applied, Migration, OLDEST_PROGRAM, Schema, pending};

pub(crate) static MIGRATIONS: [Migration; 11] = [
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
        name: "outbox_unpublished",
        sql: include_str!("migrations/0010_outbox_unpublished.sql"),
    },
    Migration {
        version: 11,
        name: "purge",
        sql: include_str!("migrations/0011_purge.sql"),
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
    #[error(
        "the tables are not up to date, and others hold a lock that the next migration needs: end the \
         transactions that are open on them (pg_stat_activity shows which), or start again later"
    )]
    Locked(#[source] Cause),
}

/// Looks whether the database can be trusted, and as whom the server is let in.
pub(super) async fn check(pool: &Pool, options: &PostgresOptions) -> Result<Guest, StoreError> {
    let mut pooled = match pool.get().await {
        Ok(pooled) => pooled,
        Err(error) => return Err(owner::why_not_in(options, error).await),
    };
    let client = pooled.client()?;
    check_server(client, options).await?;
    let guest = Guest::of(client).await?;
    pooled.done();
    Ok(guest)
}

/// What only the owner of the tables may do before anybody works with them.
pub(super) async fn prepare(
    owner: &Owner,
    options: &PostgresOptions,
) -> Result<FeedBase, StoreError> {
    let mut pooled = owner.get().await?;
    let client = pooled.client()?;
    let migrated = migrate(client, &options.schema, owner, PATIENCE).await;
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
    let base = rebase::rebase(owner.pool(), client).await?;
    pooled.done();
    Ok(base)
}

/// What is needed to read tables that are up to date; others are refused, and nothing is changed.
pub(super) async fn look(pool: &Pool) -> Result<FeedBase, StoreError> {
    let Schema { version, newest } = schema(pool).await?;
    if version < newest {
        return Err(StoreError::fatal(OpenError::OldTables { version, newest }));
    }
    let mut pooled = pool.get().await?;
    let base = stream::base(pooled.client()?).await?;
    pooled.done();
    Ok(base)
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
    pooled.done();
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

/// How long tables may take to be brought up to date: an index of a large one takes longer than a
/// statement may elsewhere, and others may have what is needed in hand.
const PATIENCE: Duration = Duration::from_mins(30);

/// How long a lock is waited for at a time: so long does whoever comes behind wait as well.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// How long others have the locks between two tries.
const PAUSE: Duration = Duration::from_secs(1);

/// Brings the tables up to date. A migration that does not get a lock in time is taken back and tried
/// again, so that nobody is kept from a table by one that only waits for it.
pub(super) async fn migrate(
    client: &mut Client,
    schema: &str,
    owner: &Owner,
    patience: Duration,
) -> Result<(), StoreError> {
    let end = Instant::now() + patience;
    loop {
        match step(client, schema, owner).await {
            Ok(Step::Last) => return Ok(()),
            Ok(Step::More) => {}
            Err(error) if state_of(&error) != Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                return Err(error);
            }
            Err(StoreError::Retry { cause, .. } | StoreError::Fatal { cause })
                if Instant::now() >= end =>
            {
                return Err(StoreError::retry(OpenError::Locked(cause)));
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// Whether a step was the last one.
enum Step {
    More,
    Last,
}

/// One transaction under one lock, so that of many processes that start together one migrates and the
/// others find it done. Where all is there nothing is made, so that who owns nothing may look too.
///
/// Each migration has a transaction of its own, and holds what it locks no longer than it takes itself.
/// Nobody waits for tables that are not there yet: they are made at once, or not at all.
async fn step(client: &mut Client, schema: &str, owner: &Owner) -> Result<Step, StoreError> {
    let transaction = client.transaction().await.map_err(failure)?;
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&TABLES_LOCK])
        .await
        .map_err(failure)?;
    begin(&transaction, schema).await?;
    let applied = applied(&transaction).await?;
    let pending = pending(&MIGRATIONS, &applied).map_err(StoreError::fatal)?;
    let is_new = applied.migrations.is_empty();
    let count = if is_new { pending.len() } else { 1 };
    let (next, later) = pending.split_at(count.min(pending.len()));
    if !next.is_empty() {
        apply(&transaction, next).await?;
    }
    if !later.is_empty() {
        transaction.commit().await.map_err(failure)?;
        return Ok(Step::More);
    }
    for function in [&APPEND, &APPEND_SHARED] {
        function.ensure(&transaction).await.map_err(failure)?;
    }
    if let Some(server) = owner.server() {
        rights::give(&transaction, server).await?;
    }
    transaction.commit().await.map_err(failure)?;
    Ok(Step::Last)
}

/// Applies migrations, and says which programs may work with what comes of them.
async fn apply(
    transaction: &Transaction<'_>,
    migrations: &[&'static Migration],
) -> Result<(), StoreError> {
    let limits = format!(
        "SET LOCAL statement_timeout = {}; SET LOCAL lock_timeout = {}",
        PATIENCE.as_millis(),
        LOCK_TIMEOUT.as_millis()
    );
    transaction.batch_execute(&limits).await.map_err(failure)?;
    for migration in migrations {
        let applied = transaction.batch_execute(migration.sql).await;
        applied.map_err(failure)?;
        let note = "INSERT INTO schema_migration (version, name, sha256) VALUES ($1, $2, $3)";
        let checksum = migration.checksum().to_string();
        let note_of: [Param<'_>; 3] = [&migration.version, &migration.name, &checksum];
        let noted = transaction.execute(note, &note_of).await;
        noted.map_err(failure)?;
    }
    if has_meta(transaction).await? {
        let oldest: [Param<'_>; 1] = [&OLDEST_PROGRAM];
        let say = transaction.execute(SAY_OLDEST_PROGRAM, &oldest);
        say.await.map_err(failure)?;
    }
    Ok(())
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

async fn has_meta(client: &impl GenericClient) -> Result<bool, StoreError> {
    let has_meta = "SELECT to_regclass('meta') IS NOT NULL";
    let has_meta = client.query_one(has_meta, &[]).await;
    Ok(has_meta.map_err(failure)?.get(0))
}

async fn applied(client: &impl GenericClient) -> Result<Applied, StoreError> {
    let said = if has_meta(client).await? {
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
