//! One SQL layer for both databases.
//!
//! Everything that is not on the hot path is written once: a trait, its statements, and its
//! implementation for every [`Database`]. Appends, leases, the feed, and dropping of partitions
//! differ by nature and are implemented for each database.

mod statement;

use async_trait::async_trait;
use futures_util::future::BoxFuture;

use crate::blobs::BlobFolder;
use crate::error::StoreError;
use crate::migration::Migration;
use crate::row::{Cell, CorruptRow, FromRow, RowCells};

pub(crate) use statement::{PlanMode, Statement, select_sql};

/// Durability that a write requires of its commit in SQLite. In PostgreSQL every commit is durable
/// unless its statement says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The commit is synced to disk before the call is answered.
    Synced,
    /// A power failure may lose the commit. The next synced commit makes it durable.
    Unsynced,
}

/// Work of a transaction. It may run twice, with the first run rolled back.
pub(crate) type Work<A, T> =
    for<'a> fn(&'a mut dyn Session, &'a A) -> BoxFuture<'a, Result<T, StoreError>>;

/// A database that runs statements.
pub(crate) trait Database: Send + Sync {
    /// Returns all migrations.
    fn migrations() -> &'static [Migration];

    /// Returns `sqlite`, `postgres` or `memory`.
    fn backend_name(&self) -> &'static str;

    /// Returns all rows of a statement.
    fn query<T: FromRow>(
        &self,
        statement: &'static Statement,
        params: Vec<Cell>,
    ) -> impl Future<Output = Result<Vec<T>, StoreError>> + Send;

    /// Runs work in a transaction.
    fn transaction<A: Send + Sync + 'static, T: Send + 'static>(
        &self,
        durability: Durability,
        plan_mode: PlanMode,
        args: A,
        work: Work<A, T>,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// Returns the folder of large results, if there is one.
    fn blobs(&self) -> Option<&BlobFolder>;

    /// Returns the number that a statement counts.
    fn query_count(
        &self,
        statement: &'static Statement,
        params: Vec<Cell>,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send {
        async move {
            let count = self.query_first(statement, params).await?;
            Ok(count.map_or(0, |(count,)| count))
        }
    }

    /// Runs a statement for each row of parameters in one transaction, and returns the number of
    /// changed rows.
    fn execute_many(
        &self,
        durability: Durability,
        statement: &'static Statement,
        rows: Vec<Vec<Cell>>,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send {
        let args = (statement, rows);
        self.transaction(durability, statement.plan_mode(), args, |session, (statement, rows)| {
            session.execute_many(statement, rows)
        })
    }

    /// Returns the first row of a statement.
    fn query_first<T: FromRow>(
        &self,
        statement: &'static Statement,
        params: Vec<Cell>,
    ) -> impl Future<Output = Result<Option<T>, StoreError>> + Send {
        async move { Ok(self.query(statement, params).await?.into_iter().next()) }
    }

    /// Runs one statement that writes, and returns the number of changed rows.
    fn execute(
        &self,
        durability: Durability,
        statement: &'static Statement,
        params: Vec<Cell>,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Runs one statement that writes, and returns its rows.
    fn execute_returning<T: FromRow>(
        &self,
        durability: Durability,
        statement: &'static Statement,
        params: Vec<Cell>,
    ) -> impl Future<Output = Result<Vec<T>, StoreError>> + Send;
}

/// Receives the rows of a statement.
pub(crate) type RowVisitor<'v> = &'v mut (dyn FnMut(RowCells<'_>) -> Result<(), CorruptRow> + Send);

/// A transaction of a database.
#[async_trait]
pub(crate) trait Session: Send {
    /// Passes all rows of a statement to `visit`.
    async fn visit_rows(
        &mut self,
        statement: &'static Statement,
        params: Vec<Cell>,
        visit: RowVisitor<'_>,
    ) -> Result<(), StoreError>;

    /// Runs a statement and returns the number of changed rows.
    async fn execute(
        &mut self,
        statement: &'static Statement,
        params: Vec<Cell>,
    ) -> Result<u64, StoreError>;

    /// Runs a statement for each row of parameters and returns the number of changed rows.
    async fn execute_many(
        &mut self,
        statement: &'static Statement,
        rows: &[Vec<Cell>],
    ) -> Result<u64, StoreError>;

    /// Waits for the lock of a name, and holds it until the transaction ends.
    async fn lock_by_name(&mut self, name: &str) -> Result<(), StoreError>;
}

impl dyn Session + '_ {
    /// Returns all rows of a statement.
    pub(crate) async fn query<T: FromRow>(
        &mut self,
        statement: &'static Statement,
        params: Vec<Cell>,
    ) -> Result<Vec<T>, StoreError> {
        let mut rows = Vec::new();
        let visit: RowVisitor<'_> = &mut |cells| {
            rows.push(T::from_row(cells)?);
            Ok(())
        };
        self.visit_rows(statement, params, visit).await?;
        Ok(rows)
    }

    /// Returns the first row of a statement.
    pub(crate) async fn query_first<T: FromRow>(
        &mut self,
        statement: &'static Statement,
        params: Vec<Cell>,
    ) -> Result<Option<T>, StoreError> {
        Ok(self.query(statement, params).await?.into_iter().next())
    }
}
