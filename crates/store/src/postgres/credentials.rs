//! Credentials, in the database.

use std::sync::LazyLock;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{CredentialId, TenantId, Text};

use super::PostgresStore;
use super::bind::read_all;
use super::query::{Param, insert, params, select};
use crate::credentials::Credentials;
use crate::error::StoreError;
use crate::model::{Credential, CredentialFilter, CredentialKey, CredentialPut};
use crate::row::{self, CREDENTIAL, ToCell as _, credential_row};

static PUT: LazyLock<String> =
    LazyLock::new(|| insert(&CREDENTIAL, "ON CONFLICT DO NOTHING RETURNING 1"));

/// The row of the credential with its whole content, where it stands at a version.
const REPLACE: &str = "UPDATE credential SET kind = $4, version = $5, sealed = $6::text::json,
    kid = $7, meta = $8::text::json, tags = $9::text::json, description = $10, created_at = $11,
    updated_at = $12
    WHERE credential_id = $1 AND tenant_id = $2 AND name = $3 AND version = $13 RETURNING 1";

static BY_ID: LazyLock<String> =
    LazyLock::new(|| select(&CREDENTIAL, "WHERE tenant_id = $1 AND credential_id = $2"));
static BY_NAME: LazyLock<String> =
    LazyLock::new(|| select(&CREDENTIAL, "WHERE tenant_id = $1 AND name = $2"));
static LIST: LazyLock<String> = LazyLock::new(|| {
    let hits = "WHERE credential_id > $1 AND ($2::text IS NULL OR tenant_id = $2)
        AND ($3::text IS NULL OR kind = $3) AND ($4::text IS NULL OR strpos(name, $4) > 0)
        AND ($5::text IS NULL OR kid <> $5) ORDER BY credential_id LIMIT $6::bigint";
    select(&CREDENTIAL, hits)
});

#[async_trait]
impl Credentials for PostgresStore {
    async fn put_credential(&self, put: CredentialPut) -> Result<bool, StoreError> {
        let mut client = self.pool.get().await?;
        let mut cells = credential_row(&put.credential);
        let sql = match put.replaces {
            None => PUT.as_str(),
            Some(version) => {
                cells.push(version.to_cell());
                REPLACE
            }
        };
        Ok(!client.rows(sql, &params(&cells)).await?.is_empty())
    }

    async fn credential(
        &self,
        tenant_id: &TenantId,
        key: &CredentialKey,
    ) -> Result<Option<Credential>, StoreError> {
        let mut client = self.pool.get().await?;
        let tenant_id = tenant_id.as_str();
        let found = match key {
            CredentialKey::Id(id) => client.rows(&BY_ID, &[&tenant_id, &id.get()]).await?,
            CredentialKey::Name(name) => {
                client.rows(&BY_NAME, &[&tenant_id, &name.as_str()]).await?
            }
        };
        Ok(read_all(&found, row::credential)?.into_iter().next())
    }

    async fn credentials(
        &self,
        filter: CredentialFilter,
        limit: PageLimit,
    ) -> Result<Vec<Credential>, StoreError> {
        let mut client = self.pool.get().await?;
        let params: [Param<'_>; 6] = [
            &filter.after.map_or(0, CredentialId::get),
            &filter.tenant_id.as_ref().map(TenantId::as_str),
            &filter.kind.as_ref().map(Text::as_str),
            &filter.text.as_ref().map(Text::as_str),
            &filter.not_under.as_ref().map(Text::as_str),
            &i64::from(limit.get()),
        ];
        read_all(&client.rows(&LIST, &params).await?, row::credential)
    }

    async fn delete_credential(
        &self,
        tenant_id: &TenantId,
        credential_id: CredentialId,
    ) -> Result<bool, StoreError> {
        let sql = "DELETE FROM credential WHERE tenant_id = $1 AND credential_id = $2 RETURNING 1";
        let mut client = self.pool.get().await?;
        let key: [Param<'_>; 2] = [&tenant_id.as_str(), &credential_id.get()];
        Ok(!client.rows(sql, &key).await?.is_empty())
    }
}
