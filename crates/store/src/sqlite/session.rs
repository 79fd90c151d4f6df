//! The SQL layer on SQLite.

use async_trait::async_trait;
use futures_util::FutureExt as _;
use rusqlite::{Connection, params_from_iter};

use super::SqliteStore;
use super::bind::{execute_cached, query_all, query_each, to_store_error};
use crate::blobs::BlobFolder;
use crate::error::StoreError;
use crate::migration::{Migration, SQLITE_MIGRATIONS};
use crate::row::{Cell, FromRow};
use crate::sql::{Database, Durability, PlanMode, RowVisitor, Session, Statement, Work};

/// The writer's connection during a call, which is part of a transaction.
struct SqliteSession<'c> {
    connection: &'c mut Connection,
}

impl SqliteSession<'_> {
    fn run(&self, statement: &'static Statement, params: &[Cell]) -> Result<u64, StoreError> {
        let changed = execute_cached(self.connection, statement.sqlite(), params_from_iter(params));
        u64::try_from(changed.map_err(to_store_error)?).map_err(StoreError::fatal)
    }
}

#[async_trait]
impl Session for SqliteSession<'_> {
    async fn visit_rows(
        &mut self,
        statement: &'static Statement,
        params: Vec<Cell>,
        visit: RowVisitor<'_>,
    ) -> Result<(), StoreError> {
        query_each(self.connection, statement.sqlite(), params_from_iter(params), |cells| {
            visit(cells)?;
            Ok(true)
        })
    }

    async fn execute(
        &mut self,
        statement: &'static Statement,
        params: Vec<Cell>,
    ) -> Result<u64, StoreError> {
        self.run(statement, &params)
    }

    async fn execute_many(
        &mut self,
        statement: &'static Statement,
        rows: &[Vec<Cell>],
    ) -> Result<u64, StoreError> {
        rows.iter().map(|row| self.run(statement, row)).sum()
    }

    /// Does nothing, because there is only one writer.
    async fn lock_by_name(&mut self, _name: &str) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Database for SqliteStore {
    fn migrations() -> &'static [Migration] {
        SQLITE_MIGRATIONS
    }

    fn backend_name(&self) -> &'static str {
        if self.path.is_some() { "sqlite" } else { "memory" }
    }

    async fn query<T: FromRow>(
        &self,
        statement: &'static Statement,
        params: Vec<Cell>,
    ) -> Result<Vec<T>, StoreError> {
        self.readers
            .run_query(move |connection| {
                query_all(connection, statement.sqlite(), params_from_iter(params))
            })
            .await
    }

    async fn execute(
        &self,
        durability: Durability,
        statement: &'static Statement,
        params: Vec<Cell>,
    ) -> Result<u64, StoreError> {
        let bytes = params.iter().map(Cell::approximate_bytes).sum();
        self.writer
            .submit_job(durability, bytes, move |connection, _| {
                SqliteSession { connection }.run(statement, &params)
            })
            .await
    }

    async fn execute_returning<T: FromRow>(
        &self,
        durability: Durability,
        statement: &'static Statement,
        params: Vec<Cell>,
    ) -> Result<Vec<T>, StoreError> {
        self.writer
            .run_write(durability, move |connection| {
                query_all(connection, statement.sqlite(), params_from_iter(&params))
            })
            .await
    }

    async fn transaction<A: Send + Sync + 'static, T: Send + 'static>(
        &self,
        durability: Durability,
        _plan_mode: PlanMode,
        args: A,
        work: Work<A, T>,
    ) -> Result<T, StoreError> {
        let never_waits = || StoreError::fatal("a statement of SQLite waited");
        self.writer
            .run_write(durability, move |connection| {
                let result = work(&mut SqliteSession { connection }, &args).now_or_never();
                result.ok_or_else(never_waits)?
            })
            .await
    }

    fn blobs(&self) -> Option<&BlobFolder> {
        self.blobs.as_ref()
    }
}
