//! [`KeychainStore`](crate::keychain::KeychainStore) in PostgreSQL.

use std::sync::LazyLock;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{CatalogId, KeychainId, TenantId, Text};

use super::PostgresStore;
use super::bind::decode_rows;
use super::query::{Param, insert_sql, select_sql, to_params};
use crate::error::StoreError;
use crate::keychain::KeychainStore;
use crate::model::{KeyCounts, KeychainEntry, KeychainFilter, KeychainPut};
use crate::row::{self, KEYCHAIN, ToCell as _, encode_keychain_entry};

static INSERT_KEYCHAIN_ENTRY: LazyLock<String> =
    LazyLock::new(|| insert_sql(&KEYCHAIN, "ON CONFLICT DO NOTHING RETURNING 1"));

/// Replaces the content of an entry if it still has the expected version.
const REPLACE_KEYCHAIN_ENTRY: &str = "UPDATE keychain SET name = $4, catalog_id = $5, scope = $6, execution_id = $7, version = $8, sealed =
    $9::text::json, kid = $10, auto_renew = $11, created_at = $12, updated_at = $13, expires_at
    = $14
    WHERE keychain_id = $1 AND tenant_id = $2 AND cache_key = $3 AND version = $15 RETURNING 1";

static KEYCHAIN_ENTRY_BY_KEY: LazyLock<String> =
    LazyLock::new(|| select_sql(&KEYCHAIN, "WHERE tenant_id = $1 AND cache_key = $2"));
static LIST_KEYCHAIN_ENTRIES: LazyLock<String> = LazyLock::new(|| {
    let condition = "WHERE keychain_id > $1 AND ($2::text IS NULL OR tenant_id = $2)
        AND ($3::bigint IS NULL OR catalog_id = $3) AND ($4::text IS NULL OR kid <> $4)
        ORDER BY keychain_id LIMIT $5::bigint";
    select_sql(&KEYCHAIN, condition)
});

const COUNT_CREDENTIALS_BY_KEY: &str = "SELECT kid, count(*) FROM credential GROUP BY kid";
const COUNT_KEYCHAIN_BY_KEY: &str = "SELECT kid, count(*) FROM keychain GROUP BY kid";

#[async_trait]
impl KeychainStore for PostgresStore {
    async fn put_keychain_entry(&self, put: KeychainPut) -> Result<bool, StoreError> {
        let mut client = self.pool.acquire().await?;
        let mut cells = encode_keychain_entry(&put.entry);
        let sql = match put.replaces {
            None => INSERT_KEYCHAIN_ENTRY.as_str(),
            Some(version) => {
                cells.push(version.to_cell());
                REPLACE_KEYCHAIN_ENTRY
            }
        };
        Ok(!client.query_rows(sql, &to_params(&cells)).await?.is_empty())
    }

    async fn find_keychain_entry(
        &self,
        tenant_id: &TenantId,
        cache_key: &str,
    ) -> Result<Option<KeychainEntry>, StoreError> {
        let mut client = self.pool.acquire().await?;
        let key: [Param<'_>; 2] = [&tenant_id.as_str(), &cache_key];
        let found = client.query_rows(&KEYCHAIN_ENTRY_BY_KEY, &key).await?;
        Ok(decode_rows(&found, row::decode_keychain_entry)?.into_iter().next())
    }

    async fn list_keychain_entries(
        &self,
        filter: KeychainFilter,
        limit: PageLimit,
    ) -> Result<Vec<KeychainEntry>, StoreError> {
        let mut client = self.pool.acquire().await?;
        let params: [Param<'_>; 5] = [
            &filter.after.map_or(0, KeychainId::get),
            &filter.tenant_id.as_ref().map(TenantId::as_str),
            &filter.catalog_id.map(CatalogId::get),
            &filter.excluded_kid.as_ref().map(Text::as_str),
            &i64::from(limit.get()),
        ];
        decode_rows(
            &client.query_rows(&LIST_KEYCHAIN_ENTRIES, &params).await?,
            row::decode_keychain_entry,
        )
    }

    async fn delete_keychain_entry(
        &self,
        tenant_id: &TenantId,
        cache_key: &str,
    ) -> Result<bool, StoreError> {
        let sql = "DELETE FROM keychain WHERE tenant_id = $1 AND cache_key = $2 RETURNING 1";
        let mut client = self.pool.acquire().await?;
        let key: [Param<'_>; 2] = [&tenant_id.as_str(), &cache_key];
        Ok(!client.query_rows(sql, &key).await?.is_empty())
    }

    async fn count_secrets_by_key(&self) -> Result<KeyCounts, StoreError> {
        let mut client = self.pool.acquire().await?;
        let counts =
            client.query_pipelined((COUNT_CREDENTIALS_BY_KEY, &[]), (COUNT_KEYCHAIN_BY_KEY, &[]));
        let (credentials, keychain) = counts.await?;
        Ok(KeyCounts {
            credentials: decode_rows(&credentials, row::decode_count)?.into_iter().collect(),
            keychain: decode_rows(&keychain, row::decode_count)?.into_iter().collect(),
        })
    }
}
