//! Who owns the tables: the server's own role, or another one that the operator names.
//!
//! With another one the server's role reads the log and adds to it, and can do nothing else to it:
//! whatever mistake the server makes, and whoever takes it over, what was written stays. The owner
//! changes tables, makes months and drops them, over a connection that lives as long as that takes.

use std::sync::Arc;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::PostgresOptions;
use super::bind::{failure, state_of};
use super::pool::{Plans, Pool, Pooled};
use crate::error::{Cause, StoreError};

/// What is wrong with the two roles.
#[derive(Debug, thiserror::Error)]
enum RoleError {
    #[error("as the owner of the tables one is not let in")]
    NotLetIn(#[source] Cause),
    #[error("the role {role} that the server works as is not there: CREATE ROLE {role} LOGIN")]
    NoRole { role: String },
    #[error("the owner of the tables is led to another database than the server")]
    Elsewhere,
    #[error(
        "the tables belong to {holder}, and the owner that is named, {owner}, has no right to them: \
         a superuser hands them over in this database by REASSIGN OWNED BY {holder} TO {owner}"
    )]
    NotOwner { owner: String, holder: String },
    #[error(
        "the tables are not up to date, and the server's role may not change them: migrate as their owner"
    )]
    NotAllowed(#[source] Cause),
}

/// A role, and where its connections lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Guest {
    role: String,
    /// The name of the database, and since when its server runs: two ways to one database have both
    /// in common.
    place: (String, String),
}

impl Guest {
    /// Whoever a connection is for.
    pub(super) async fn of(client: &Client) -> Result<Self, StoreError> {
        let sql = "SELECT current_user::text, current_database()::text,
            extract(epoch FROM pg_postmaster_start_time())::text";
        let row = client.query_one(sql, &[]).await.map_err(failure)?;
        Ok(Self {
            role: row.get(0),
            place: (row.get(1), row.get(2)),
        })
    }
}

/// Who may change tables.
#[derive(Debug)]
pub(super) struct Owner {
    pool: Arc<Pool>,
    /// The server's role, where it is another.
    server: Option<String>,
}

impl Owner {
    /// The server's own role.
    pub(super) fn itself(pool: &Arc<Pool>) -> Self {
        Self {
            pool: Arc::clone(pool),
            server: None,
        }
    }

    /// The role that the options name, or else the server's own.
    pub(super) async fn of(
        options: &PostgresOptions,
        pool: &Arc<Pool>,
        server: Guest,
    ) -> Result<Self, StoreError> {
        let Some(options) = options.of_owner() else {
            return Ok(Self::itself(pool));
        };
        let owner = Self {
            pool: Arc::new(Pool::new(&options, Plans::AsNeeded)?.for_one_at_a_time()),
            server: Some(server.role),
        };
        let mut pooled = owner.get().await?;
        let client = pooled.client()?;
        let guest = Guest::of(client).await?;
        if guest.place != server.place {
            return Err(StoreError::fatal(RoleError::Elsewhere));
        }
        has_right(client, &options.schema, guest.role).await?;
        pooled.done();
        drop(pooled);
        Ok(owner)
    }

    /// A connection of the owner.
    pub(super) async fn get(&self) -> Result<Pooled<'_>, StoreError> {
        let pooled = self.pool.get().await;
        pooled.map_err(|error| match (&self.server, error) {
            (None, error) => error,
            (Some(_), StoreError::Fatal { cause }) => StoreError::fatal(RoleError::NotLetIn(cause)),
            (Some(_), StoreError::Retry { cause, .. }) => {
                StoreError::retry(RoleError::NotLetIn(cause))
            }
        })
    }

    /// Whether something could not be done since the tables are somebody else's, whom nobody names.
    pub(super) fn is_kept_away(&self, error: &StoreError) -> bool {
        self.server.is_none() && state_of(error) == Some(&SqlState::INSUFFICIENT_PRIVILEGE)
    }

    /// Why tables could not be brought up to date, where it is that they are somebody else's.
    pub(super) fn why_not_done(&self, error: StoreError) -> StoreError {
        if !self.is_kept_away(&error) {
            return error;
        }
        let (StoreError::Retry { cause, .. } | StoreError::Fatal { cause }) = error;
        StoreError::fatal(RoleError::NotAllowed(cause))
    }

    /// Where its connections come from.
    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The role that the tables are opened to, where the server does not own them.
    pub(super) fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }
}

/// Tables that the server made before it had an owner beside it are the server's. Their schema may be
/// shut, so that they are not found by their names.
const HOLDER: &str = "SELECT pg_get_userbyid(log.relowner)::text
    FROM pg_class AS log
    JOIN pg_namespace AS house ON house.oid = log.relnamespace
    WHERE house.nspname = $1 AND log.relname = 'event'
        AND NOT pg_has_role(log.relowner, 'USAGE')";

async fn has_right(client: &Client, schema: &str, owner: String) -> Result<(), StoreError> {
    let holder = client
        .query_opt(HOLDER, &[&schema])
        .await
        .map_err(failure)?;
    match holder.map(|row| row.get(0)) {
        None => Ok(()),
        Some(holder) => Err(StoreError::fatal(RoleError::NotOwner { owner, holder })),
    }
}

/// Why the server is not let in, as far as the owner can tell.
pub(super) async fn why_not_in(options: &PostgresOptions, error: StoreError) -> StoreError {
    let (Some(role), true) = (options.user(), matches!(error, StoreError::Fatal { .. })) else {
        return error;
    };
    match is_there(options, &role).await {
        Some(false) => StoreError::fatal(RoleError::NoRole { role }),
        Some(true) | None => error,
    }
}

/// Whether there is a role; nothing where nobody can be asked.
async fn is_there(options: &PostgresOptions, role: &str) -> Option<bool> {
    let pool = Pool::new(&options.of_owner()?, Plans::AsNeeded).ok()?;
    let client = pool.connect().await.ok()?;
    let sql = "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)";
    let row = client.query_one(sql, &[&role]).await.ok()?;
    Some(row.get(0))
}
