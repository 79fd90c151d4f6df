//! The cache of the keychain, in the database.

use std::sync::LazyLock;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{CatalogId, KeychainId, TenantId, Text};

use super::PostgresStore;
use super::bind::read_all;
use super::query::{Param, insert, params, select};
use crate::error::StoreError;
use crate::keychain::Keychain;
use crate::model::{KeyCounts, KeychainEntry, KeychainFilter, KeychainPut};
use crate::row::{self, KEYCHAIN, ToCell as _, keychain_row};

static PUT: LazyLock<String> =
    LazyLock::new(|| insert(&KEYCHAIN, "ON CONFLICT DO NOTHING RETURNING 1"));

/// The row of the entry with its whole content, where it stands at a version.
const REPLACE: &str = "UPDATE keychain SET name = $4, catalog_id = $5, scope = $6, execution_id = $7, version = $8, sealed =
    $9::text::json, kid = $10, auto_renew = $11, created_at = $12, updated_at = $13, expires_at
    = $14
    WHERE keychain_id = $1 AND tenant_id = $2 AND cache_key = $3 AND version = $15 RETURNING 1";

static BY_KEY: LazyLock<String> =
    LazyLock::new(|| select(&KEYCHAIN, "WHERE tenant_id = $1 AND cache_key = $2"));
static LIST: LazyLock<String> = LazyLock::new(|| {
    let hits = "WHERE keychain_id > $1 AND ($2::text IS NULL OR tenant_id = $2)
        AND ($3::bigint IS NULL OR catalog_id = $3) AND ($4::text IS NULL OR kid <> $4)
        ORDER BY keychain_id LIMIT $5::bigint";
    select(&KEYCHAIN, hits)
});

const COUNT_CREDENTIALS: &str = "SELECT kid, count(*) FROM credential GROUP BY kid";
const COUNT_KEYCHAIN: &str = "SELECT kid, count(*) FROM keychain GROUP BY kid";

#[async_trait]
impl Keychain for PostgresStore {
    async fn put_keychain(&self, put: KeychainPut) -> Result<bool, StoreError> {
        let mut client = self.pool.get().await?;
        let mut cells = keychain_row(&put.entry);
        let sql = match put.replaces {
            None => PUT.as_str(),
            Some(version) => {
                cells.push(version.to_cell());
                REPLACE
            }
        };
        Ok(!client.rows(sql, &params(&cells)).await?.is_empty())
    }

    async fn keychain_entry(
        &self,
        tenant_id: &TenantId,
        cache_key: &str,
    ) -> Result<Option<KeychainEntry>, StoreError> {
        let mut client = self.pool.get().await?;
        let key: [Param<'_>; 2] = [&tenant_id.as_str(), &cache_key];
        let found = client.rows(&BY_KEY, &key).await?;
        Ok(read_all(&found, row::keychain)?.into_iter().next())
    }

    async fn keychain_entries(
        &self,
        filter: KeychainFilter,
        limit: PageLimit,
    ) -> Result<Vec<KeychainEntry>, StoreError> {
        let mut client = self.pool.get().await?;
        let params: [Param<'_>; 5] = [
            &filter.after.map_or(0, KeychainId::get),
            &filter.tenant_id.as_ref().map(TenantId::as_str),
            &filter.catalog_id.map(CatalogId::get),
            &filter.not_under.as_ref().map(Text::as_str),
            &i64::from(limit.get()),
        ];
        read_all(&client.rows(&LIST, &params).await?, row::keychain)
    }

    async fn delete_keychain(
        &self,
        tenant_id: &TenantId,
        cache_key: &str,
    ) -> Result<bool, StoreError> {
        let sql = "DELETE FROM keychain WHERE tenant_id = $1 AND cache_key = $2 RETURNING 1";
        let mut client = self.pool.get().await?;
        let key: [Param<'_>; 2] = [&tenant_id.as_str(), &cache_key];
        Ok(!client.rows(sql, &key).await?.is_empty())
    }

    async fn key_counts(&self) -> Result<KeyCounts, StoreError> {
        let mut client = self.pool.get().await?;
        let counts = client.two((COUNT_CREDENTIALS, &[]), (COUNT_KEYCHAIN, &[]));
        let (credentials, keychain) = counts.await?;
        Ok(KeyCounts {
            credentials: read_all(&credentials, row::count_of)?.into_iter().collect(),
            keychain: read_all(&keychain, row::count_of)?.into_iter().collect(),
        })
    }
}
