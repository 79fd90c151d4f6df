//! [`CredentialStore`](crate::credentials::CredentialStore) in PostgreSQL.

use std::sync::LazyLock;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{CredentialId, TenantId, Text};

use super::PostgresStore;
use super::bind::decode_rows;
use super::query::{Param, insert_sql, select_sql, to_params};
use crate::credentials::CredentialStore;
use crate::error::StoreError;
use crate::model::{Credential, CredentialFilter, CredentialKey, CredentialPut};
use crate::row::{self, CREDENTIAL, ToCell as _, encode_credential};

static INSERT_CREDENTIAL: LazyLock<String> =
    LazyLock::new(|| insert_sql(&CREDENTIAL, "ON CONFLICT DO NOTHING RETURNING 1"));

/// Replaces the content of a credential if it still has the expected version.
const REPLACE_CREDENTIAL: &str =
    "UPDATE credential SET kind = $4, version = $5, sealed = $6::text::json,
    kid = $7, meta = $8::text::json, tags = $9::text::json, description = $10, created_at = $11,
    updated_at = $12
    WHERE credential_id = $1 AND tenant_id = $2 AND name = $3 AND version = $13 RETURNING 1";

static CREDENTIAL_BY_ID: LazyLock<String> =
    LazyLock::new(|| select_sql(&CREDENTIAL, "WHERE tenant_id = $1 AND credential_id = $2"));
static CREDENTIAL_BY_NAME: LazyLock<String> =
    LazyLock::new(|| select_sql(&CREDENTIAL, "WHERE tenant_id = $1 AND name = $2"));
static LIST_CREDENTIALS: LazyLock<String> = LazyLock::new(|| {
    let condition = "WHERE credential_id > $1 AND ($2::text IS NULL OR tenant_id = $2)
        AND ($3::text IS NULL OR kind = $3) AND ($4::text IS NULL OR strpos(name, $4) > 0)
        AND ($5::text IS NULL OR kid <> $5) ORDER BY credential_id LIMIT $6::bigint";
    select_sql(&CREDENTIAL, condition)
});

#[async_trait]
impl CredentialStore for PostgresStore {
    async fn put_credential(&self, put: CredentialPut) -> Result<bool, StoreError> {
        let mut client = self.pool.acquire().await?;
        let mut cells = encode_credential(&put.credential);
        let sql = match put.replaces {
            None => INSERT_CREDENTIAL.as_str(),
            Some(version) => {
                cells.push(version.to_cell());
                REPLACE_CREDENTIAL
            }
        };
        Ok(!client.query_rows(sql, &to_params(&cells)).await?.is_empty())
    }

    async fn find_credential(
        &self,
        tenant_id: &TenantId,
        key: &CredentialKey,
    ) -> Result<Option<Credential>, StoreError> {
        let mut client = self.pool.acquire().await?;
        let tenant_id = tenant_id.as_str();
        let found = match key {
            CredentialKey::Id(id) => {
                client.query_rows(&CREDENTIAL_BY_ID, &[&tenant_id, &id.get()]).await?
            }
            CredentialKey::Name(name) => {
                client.query_rows(&CREDENTIAL_BY_NAME, &[&tenant_id, &name.as_str()]).await?
            }
        };
        Ok(decode_rows(&found, row::decode_credential)?.into_iter().next())
    }

    async fn list_credentials(
        &self,
        filter: CredentialFilter,
        limit: PageLimit,
    ) -> Result<Vec<Credential>, StoreError> {
        let mut client = self.pool.acquire().await?;
        let params: [Param<'_>; 6] = [
            &filter.after.map_or(0, CredentialId::get),
            &filter.tenant_id.as_ref().map(TenantId::as_str),
            &filter.kind.as_ref().map(Text::as_str),
            &filter.text.as_ref().map(Text::as_str),
            &filter.excluded_kid.as_ref().map(Text::as_str),
            &i64::from(limit.get()),
        ];
        decode_rows(&client.query_rows(&LIST_CREDENTIALS, &params).await?, row::decode_credential)
    }

    async fn delete_credential(
        &self,
        tenant_id: &TenantId,
        credential_id: CredentialId,
    ) -> Result<bool, StoreError> {
        let sql = "DELETE FROM credential WHERE tenant_id = $1 AND credential_id = $2 RETURNING 1";
        let mut client = self.pool.acquire().await?;
        let key: [Param<'_>; 2] = [&tenant_id.as_str(), &credential_id.get()];
        Ok(!client.query_rows(sql, &key).await?.is_empty())
    }
}
