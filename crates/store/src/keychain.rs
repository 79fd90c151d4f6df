//! Storage of the sealed keychain cache.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{KeychainId, TenantId, Text};

use crate::error::StoreError;
use crate::model::{KeyCounts, KeychainEntry, KeychainFilter, KeychainPut};
use crate::row::{KEYCHAIN, ToCell as _, ToRow as _, cells};
use crate::sql::{Database, Durability, Statement};

/// The part of a [`crate::Store`] that caches secrets resolved by workers. They are sealed by the
/// caller. Expired entries are deleted as [`crate::GcTarget::Keychain`].
#[async_trait]
pub trait KeychainStore {
    /// Writes an entry. Returns `false` if the stored version is not the one to be replaced.
    async fn put_keychain_entry(&self, put: KeychainPut) -> Result<bool, StoreError>;

    /// Returns an entry of a tenant, even if it has expired.
    async fn find_keychain_entry(
        &self,
        tenant_id: &TenantId,
        cache_key: &str,
    ) -> Result<Option<KeychainEntry>, StoreError>;

    /// Returns entries, including expired ones, ordered by id.
    async fn list_keychain_entries(
        &self,
        filter: KeychainFilter,
        limit: PageLimit,
    ) -> Result<Vec<KeychainEntry>, StoreError>;

    /// Deletes an entry of a tenant. Returns `false` if it does not exist.
    async fn delete_keychain_entry(
        &self,
        tenant_id: &TenantId,
        cache_key: &str,
    ) -> Result<bool, StoreError>;

    /// Counts the secrets of all tenants by the key that wraps them.
    async fn count_secrets_by_key(&self) -> Result<KeyCounts, StoreError>;

    /// Returns the stored key check: a known value, sealed with the encryption key. If there is
    /// none, stores `fresh`. Concurrent callers all get the same value.
    async fn get_or_init_key_check(&self, fresh: Option<Text>) -> Result<Option<Text>, StoreError>;

    /// Replaces the key check. Returns `false` if `old` is not the stored one.
    async fn replace_key_check(&self, old: Text, new: Text) -> Result<bool, StoreError>;
}

static INSERT_KEY_CHECK: Statement =
    Statement::new("INSERT INTO meta (key, value) VALUES ('key_check', $1) ON CONFLICT DO NOTHING");

static SELECT_KEY_CHECK: Statement =
    Statement::new("SELECT value FROM meta WHERE key = 'key_check'");

static REPLACE_KEY_CHECK: Statement =
    Statement::new("UPDATE meta SET value = $2 WHERE key = 'key_check' AND value = $1");

static INSERT_ENTRY: Statement = Statement::insert(&KEYCHAIN, "ON CONFLICT DO NOTHING");

/// Replaces the content of an entry if it still has the expected version.
static REPLACE_ENTRY: Statement = Statement::new(
    "UPDATE keychain SET name = $4, catalog_id = $5, scope = $6, execution_id = $7, version = $8,
         sealed = $9::text::json, kid = $10, auto_renew = $11, created_at = $12, updated_at = $13,
         expires_at = $14
     WHERE keychain_id = $1 AND tenant_id = $2 AND cache_key = $3 AND version = $15",
);

static ENTRY_BY_KEY: Statement =
    Statement::select(&KEYCHAIN, "WHERE tenant_id = $1 AND cache_key = $2");

static LIST_ENTRIES: Statement = Statement::select(
    &KEYCHAIN,
    "WHERE keychain_id > $1 AND ($2::text IS NULL OR tenant_id = $2)
        AND ($3::bigint IS NULL OR catalog_id = $3) AND ($4::text IS NULL OR kid <> $4)
        ORDER BY keychain_id LIMIT $5::bigint",
);

static DELETE_ENTRY: Statement =
    Statement::new("DELETE FROM keychain WHERE tenant_id = $1 AND cache_key = $2");

static COUNT_CREDENTIALS_BY_KEY: Statement =
    Statement::new("SELECT kid, count(*) FROM credential GROUP BY kid");

static COUNT_ENTRIES_BY_KEY: Statement =
    Statement::new("SELECT kid, count(*) FROM keychain GROUP BY kid");

#[async_trait]
impl<D: Database> KeychainStore for D {
    async fn put_keychain_entry(&self, put: KeychainPut) -> Result<bool, StoreError> {
        let mut cells = put.entry.to_row();
        let statement = match put.replaces {
            None => &INSERT_ENTRY,
            Some(version) => {
                cells.push(version.to_cell());
                &REPLACE_ENTRY
            }
        };
        Ok(self.execute(Durability::Synced, statement, cells).await? > 0)
    }

    async fn find_keychain_entry(
        &self,
        tenant_id: &TenantId,
        cache_key: &str,
    ) -> Result<Option<KeychainEntry>, StoreError> {
        self.query_first(&ENTRY_BY_KEY, cells![tenant_id, *cache_key]).await
    }

    async fn list_keychain_entries(
        &self,
        filter: KeychainFilter,
        limit: PageLimit,
    ) -> Result<Vec<KeychainEntry>, StoreError> {
        let after = filter.after.map_or(0, KeychainId::get);
        let KeychainFilter { tenant_id, catalog_id, excluded_kid, .. } = filter;
        let params = cells![after, tenant_id, catalog_id, excluded_kid, limit];
        self.query(&LIST_ENTRIES, params).await
    }

    async fn delete_keychain_entry(
        &self,
        tenant_id: &TenantId,
        cache_key: &str,
    ) -> Result<bool, StoreError> {
        let key = cells![tenant_id, *cache_key];
        Ok(self.execute(Durability::Synced, &DELETE_ENTRY, key).await? > 0)
    }

    async fn count_secrets_by_key(&self) -> Result<KeyCounts, StoreError> {
        Ok(KeyCounts {
            credentials: self.query(&COUNT_CREDENTIALS_BY_KEY, vec![]).await?.into_iter().collect(),
            keychain: self.query(&COUNT_ENTRIES_BY_KEY, vec![]).await?.into_iter().collect(),
        })
    }

    async fn get_or_init_key_check(&self, fresh: Option<Text>) -> Result<Option<Text>, StoreError> {
        if let Some(fresh) = fresh {
            self.execute(Durability::Synced, &INSERT_KEY_CHECK, cells![fresh]).await?;
        }
        let found: Option<(Text,)> = self.query_first(&SELECT_KEY_CHECK, vec![]).await?;
        Ok(found.map(|(sealed,)| sealed))
    }

    async fn replace_key_check(&self, old: Text, new: Text) -> Result<bool, StoreError> {
        let params = cells![old, new];
        Ok(self.execute(Durability::Synced, &REPLACE_KEY_CHECK, params).await? > 0)
    }
}
