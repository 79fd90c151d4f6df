//! The SQL layer on PostgreSQL.

use async_trait::async_trait;
use futures_util::future::try_join_all;

use super::PostgresStore;
use super::bind::{decode_rows, row_cells, to_params, to_store_error};
use super::column_arrays::BlockShape;
use super::pool::{ConnectionPool, PooledTransaction};
use crate::blobs::BlobFolder;
use crate::error::StoreError;
use crate::migration::{Migration, POSTGRES_MIGRATIONS};
use crate::row::{Cell, FromRow, cells};
use crate::sql::{Database, Durability, PlanMode, RowVisitor, Session, Statement, Work};

static LOCK_BY_NAME: Statement =
    Statement::new("SELECT pg_advisory_xact_lock(hashtextextended($1, 0)) IS NULL");

#[async_trait]
impl Session for PooledTransaction<'_> {
    async fn visit_rows(
        &mut self,
        statement: &'static Statement,
        params: Vec<Cell>,
        visit: RowVisitor<'_>,
    ) -> Result<(), StoreError> {
        let prepared = self.prepare_cached(statement.postgres()).await?;
        let rows = self.query(&prepared, &to_params(&params)).await.map_err(to_store_error)?;
        for row in &rows {
            visit(row_cells(row, 0, row.len()))?;
        }
        Ok(())
    }

    async fn execute(
        &mut self,
        statement: &'static Statement,
        params: Vec<Cell>,
    ) -> Result<u64, StoreError> {
        let prepared = self.prepare_cached(statement.postgres()).await?;
        self.inner().execute(&prepared, &to_params(&params)).await.map_err(to_store_error)
    }

    /// Inserts all rows with one statement. Other statements are all sent before the first result
    /// arrives.
    async fn execute_many(
        &mut self,
        statement: &'static Statement,
        rows: &[Vec<Cell>],
    ) -> Result<u64, StoreError> {
        if let Some((sql, table)) = statement.postgres_many() {
            let prepared = self.prepare_cached(sql).await?;
            let mut block = BlockShape::new(&[table.columns]).empty_block();
            for row in rows {
                block.push(row);
            }
            let params: Vec<_> = block.as_params().collect();
            return self.inner().execute(&prepared, &params).await.map_err(to_store_error);
        }
        let prepared = self.prepare_cached(statement.postgres()).await?;
        let (transaction, prepared) = (self.inner(), &prepared);
        let rows = rows.iter().map(|row| async move {
            transaction.execute(prepared, &to_params(row)).await.map_err(to_store_error)
        });
        Ok(try_join_all(rows).await?.into_iter().sum())
    }

    async fn lock_by_name(&mut self, name: &str) -> Result<(), StoreError> {
        self.visit_rows(&LOCK_BY_NAME, cells![*name], &mut |_| Ok(())).await
    }
}

impl PostgresStore {
    fn pool_for(&self, plan_mode: PlanMode) -> &ConnectionPool {
        match plan_mode {
            PlanMode::Generic => &self.pool,
            PlanMode::Auto => &self.list_pool,
        }
    }
}

impl Database for PostgresStore {
    fn migrations() -> &'static [Migration] {
        POSTGRES_MIGRATIONS
    }

    fn backend_name(&self) -> &'static str {
        "postgres"
    }

    async fn query<T: FromRow>(
        &self,
        statement: &'static Statement,
        params: Vec<Cell>,
    ) -> Result<Vec<T>, StoreError> {
        let mut client = self.pool_for(statement.plan_mode()).acquire().await?;
        let rows = client.query_rows(statement.postgres(), &to_params(&params)).await?;
        drop(client);
        decode_rows(&rows)
    }

    async fn execute(
        &self,
        _durability: Durability,
        statement: &'static Statement,
        params: Vec<Cell>,
    ) -> Result<u64, StoreError> {
        let mut client = self.pool_for(statement.plan_mode()).acquire().await?;
        client.execute(statement.postgres(), &to_params(&params)).await
    }

    async fn execute_returning<T: FromRow>(
        &self,
        _durability: Durability,
        statement: &'static Statement,
        params: Vec<Cell>,
    ) -> Result<Vec<T>, StoreError> {
        self.query(statement, params).await
    }

    async fn transaction<A: Send + Sync + 'static, T: Send + 'static>(
        &self,
        _durability: Durability,
        plan_mode: PlanMode,
        args: A,
        work: Work<A, T>,
    ) -> Result<T, StoreError> {
        let mut client = self.pool_for(plan_mode).acquire().await?;
        let mut transaction = client.begin_transaction().await?;
        let result = work(&mut transaction, &args).await;
        match result {
            Ok(_) => transaction.commit().await.map_err(to_store_error)?,
            // If the connection is lost, nothing was committed either.
            Err(_) => drop(transaction.rollback().await),
        }
        result
    }

    fn blobs(&self) -> Option<&BlobFolder> {
        self.blobs.as_ref()
    }
}
