//! Owner of the tables: the server's own role, or a separate role that the operator configures.
//!
//! With a separate owner, the server's role can only read the log and append to it. So neither a
//! bug of the server nor an attacker who controls it can change existing events. The owner's role
//! changes tables and creates and drops partitions, over a connection that is closed after use.

use std::sync::Arc;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::PostgresOptions;
use super::bind::{sql_state, to_store_error};
use super::pool::{ConnectionPool, PooledConnection};
use crate::error::{ErrorCause, StoreError};
use crate::sql::PlanMode;

/// Error about the roles of the server and of the owner.
#[derive(Debug, thiserror::Error)]
enum RoleError {
    #[error("cannot connect as the owner of the tables")]
    OwnerLoginFailed(#[source] ErrorCause),
    #[error("the server's role {role} does not exist; create it with CREATE ROLE {role} LOGIN")]
    MissingRole { role: String },
    #[error("the owner of the tables connects to another database than the server")]
    DifferentDatabase,
    #[error(
        "the tables belong to {holder}, and the configured owner {owner} has no privileges on \
         them; as a superuser, transfer them in this database with \
         REASSIGN OWNED BY {holder} TO {owner}"
    )]
    NotOwner { owner: String, holder: String },
    #[error(
        "the tables are not up to date, and the server's role may not change them; migrate as \
         their owner"
    )]
    MissingPrivilege(#[source] ErrorCause),
}

/// Role and database of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConnectedRole {
    role: String,
    /// Name of the database and start time of its server. Both are equal for two addresses of the
    /// same database.
    database: (String, String),
}

impl ConnectedRole {
    /// Reads the role and database of a connection.
    pub(super) async fn from_client(client: &Client) -> Result<Self, StoreError> {
        let sql = "SELECT current_user::text, current_database()::text,
            extract(epoch FROM pg_postmaster_start_time())::text";
        let row = client.query_one(sql, &[]).await.map_err(to_store_error)?;
        Ok(Self { role: row.get(0), database: (row.get(1), row.get(2)) })
    }
}

/// Role that owns the tables and may change them.
#[derive(Debug)]
pub(super) struct TableOwner {
    pool: Arc<ConnectionPool>,
    /// The server's role, if it is not the owner.
    server_role: Option<String>,
}

impl TableOwner {
    /// Returns the server's own role as the owner.
    pub(super) fn same_as_server(pool: &Arc<ConnectionPool>) -> Self {
        Self { pool: Arc::clone(pool), server_role: None }
    }

    /// Returns the configured owner, or the server's own role if none is configured.
    pub(super) async fn from_options(
        options: &PostgresOptions,
        pool: &Arc<ConnectionPool>,
        server: ConnectedRole,
    ) -> Result<Self, StoreError> {
        let Some(options) = options.owner_options() else {
            return Ok(Self::same_as_server(pool));
        };
        let owner = Self {
            pool: Arc::new(ConnectionPool::new(&options, PlanMode::Auto)?.into_single_use()),
            server_role: Some(server.role),
        };
        let mut pooled = owner.acquire().await?;
        let client = pooled.client()?;
        let connected = ConnectedRole::from_client(client).await?;
        if connected.database != server.database {
            return Err(StoreError::fatal(RoleError::DifferentDatabase));
        }
        check_ownership(client, &options.schema, connected.role).await?;
        pooled.mark_idle();
        drop(pooled);
        Ok(owner)
    }

    /// Returns a connection of the owner.
    pub(super) async fn acquire(&self) -> Result<PooledConnection<'_>, StoreError> {
        let pooled = self.pool.acquire().await;
        pooled.map_err(|error| match (&self.server_role, error) {
            (None, error) => error,
            (Some(_), StoreError::Fatal { cause }) => {
                StoreError::fatal(RoleError::OwnerLoginFailed(cause))
            }
            (Some(_), StoreError::Retry { cause, .. }) => {
                StoreError::retry(RoleError::OwnerLoginFailed(cause))
            }
        })
    }

    /// True if an operation failed because the server's role does not own the tables and no owner
    /// is configured.
    pub(super) fn is_privilege_error(&self, error: &StoreError) -> bool {
        self.server_role.is_none() && sql_state(error) == Some(&SqlState::INSUFFICIENT_PRIVILEGE)
    }

    /// Explains a failed migration if it failed because the server's role does not own the tables.
    pub(super) fn explain_migration_error(&self, error: StoreError) -> StoreError {
        if !self.is_privilege_error(&error) {
            return error;
        }
        let (StoreError::Retry { cause, .. } | StoreError::Fatal { cause }) = error;
        StoreError::fatal(RoleError::MissingPrivilege(cause))
    }

    /// Returns the connection pool of the owner.
    pub(super) fn pool(&self) -> &ConnectionPool {
        &self.pool
    }

    /// Returns the server's role, which needs privileges, if it is not the owner.
    pub(super) fn server_role(&self) -> Option<&str> {
        self.server_role.as_deref()
    }
}

/// Selects the owner of the log if the current role is not a member of it. A server without a
/// separate owner owns the tables it created. The lookup uses the catalog, since the current role
/// may have no access to the schema.
const CURRENT_OWNER: &str = "SELECT pg_get_userbyid(log.relowner)::text
    FROM pg_class AS log
    JOIN pg_namespace AS log_schema ON log_schema.oid = log.relnamespace
    WHERE log_schema.nspname = $1 AND log.relname = 'event'
        AND NOT pg_has_role(log.relowner, 'USAGE')";

async fn check_ownership(client: &Client, schema: &str, owner: String) -> Result<(), StoreError> {
    let holder = client.query_opt(CURRENT_OWNER, &[&schema]).await.map_err(to_store_error)?;
    match holder.map(|row| row.get(0)) {
        None => Ok(()),
        Some(holder) => Err(StoreError::fatal(RoleError::NotOwner { owner, holder })),
    }
}

/// Explains a failed login of the server, if its role does not exist. The owner's connection is
/// used to check that.
pub(super) async fn explain_login_error(
    options: &PostgresOptions,
    error: StoreError,
) -> StoreError {
    let (Some(role), true) = (options.login_role(), matches!(error, StoreError::Fatal { .. }))
    else {
        return error;
    };
    match role_exists(options, &role).await {
        Some(false) => StoreError::fatal(RoleError::MissingRole { role }),
        Some(true) | None => error,
    }
}

/// Returns true if a role exists, or `None` if that cannot be checked.
async fn role_exists(options: &PostgresOptions, role: &str) -> Option<bool> {
    let pool = ConnectionPool::new(&options.owner_options()?, PlanMode::Auto).ok()?;
    let client = pool.open_connection().await.ok()?;
    let sql = "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)";
    let row = client.query_one(sql, &[&role]).await.ok()?;
    Some(row.get(0))
}
