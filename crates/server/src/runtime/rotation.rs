//! Rotation: secrets that are still under an old key come under the current one.
//!
//! Only the key of each record is wrapped anew; no secret is opened. What is under the current key is
//! not looked at, so a rotation that ended early goes on where it was.

use noetl_api::credential::{KeyStatus, Rotation, RotationRequest, TableRotation, WalletRotation};
use noetl_store::{
    Credential, CredentialFilter, CredentialPut, KeychainEntry, KeychainFilter, KeychainPut,
};
use noetl_types::limits::PageLimit;
use noetl_types::{Json, TenantId, Text};

use super::credentials::{self, broken, sealed_json, sealed_of};
use super::{Runtime, RuntimeError, keychain};
use crate::vault::{About, KeyRing};

impl Runtime {
    /// Wraps the secrets of a tenant anew that are still under an old key.
    pub async fn rotate_credentials(
        &self,
        request: RotationRequest,
    ) -> Result<Rotation, RuntimeError> {
        let whose = Some(self.tenant().clone());
        let rotated = self.rotate(whose, request).await?;
        Ok(rotated.credential.done.and(rotated.keychain.done))
    }

    /// The same for all tenants.
    pub(crate) async fn rotate_wallet(
        &self,
        request: RotationRequest,
    ) -> Result<WalletRotation, RuntimeError> {
        self.rotate(None, request).await
    }

    /// Which keys the secrets of all tenants are under.
    pub(crate) async fn key_status(&self) -> Result<KeyStatus, RuntimeError> {
        let current = self.keys()?.current().kid().clone();
        let counts = self.store().key_counts().await?;
        Ok(KeyStatus {
            current,
            credential: counts.credentials,
            keychain: counts.keychain,
        })
    }

    async fn rotate(
        &self,
        whose: Option<TenantId>,
        request: RotationRequest,
    ) -> Result<WalletRotation, RuntimeError> {
        let keys = self.keys()?;
        self.jot(|act| act.key_id = Some(keys.current().kid().clone()));
        // Each is counted as it is done: what follows may fail.
        let counts = self.metrics().secrets();
        let credential = self.rotate_kept(keys, whose.clone(), request).await?;
        counts.rotated(credential.done);
        let keychain = self.rotate_cached(keys, whose, request).await?;
        counts.rotated(keychain.done);
        Ok(WalletRotation {
            credential,
            keychain,
        })
    }

    async fn rotate_kept(
        &self,
        keys: &KeyRing,
        tenant_id: Option<TenantId>,
        request: RotationRequest,
    ) -> Result<TableRotation, RuntimeError> {
        let mut filter = CredentialFilter {
            tenant_id,
            kind: None,
            text: None,
            not_under: Some(keys.current().kid().clone()),
            after: None,
        };
        let mut rotation = TableRotation::default();
        for _ in 0..request.max_batches {
            let page = self.store().credentials(filter.clone(), page_of(request));
            let page = page.await?;
            let Some(last) = page.last() else { break };
            filter.after = Some(last.credential_id);
            for kept in page {
                let id = kept.credential_id.get();
                count(&mut rotation, id, self.rewrap_kept(keys, kept).await);
            }
        }
        Ok(rotation)
    }

    async fn rotate_cached(
        &self,
        keys: &KeyRing,
        tenant_id: Option<TenantId>,
        request: RotationRequest,
    ) -> Result<TableRotation, RuntimeError> {
        let mut filter = KeychainFilter {
            tenant_id,
            catalog_id: None,
            not_under: Some(keys.current().kid().clone()),
            after: None,
        };
        let mut rotation = TableRotation::default();
        for _ in 0..request.max_batches {
            let page = self
                .store()
                .keychain_entries(filter.clone(), page_of(request));
            let page = page.await?;
            let Some(last) = page.last() else { break };
            filter.after = Some(last.keychain_id);
            for kept in page {
                let id = kept.keychain_id.get();
                count(&mut rotation, id, self.rewrap_cached(keys, kept).await);
            }
        }
        Ok(rotation)
    }

    async fn rewrap_kept(&self, keys: &KeyRing, kept: Credential) -> Result<bool, RuntimeError> {
        let about = credentials::about(&kept);
        let Some((sealed, kid)) = rewrapped(keys, &about, &kept.sealed)? else {
            return Ok(false);
        };
        let put = CredentialPut {
            replaces: Some(kept.version),
            credential: Credential {
                sealed,
                kid,
                ..kept
            },
        };
        Ok(self.store().put_credential(put).await?)
    }

    async fn rewrap_cached(
        &self,
        keys: &KeyRing,
        kept: KeychainEntry,
    ) -> Result<bool, RuntimeError> {
        let about = keychain::about(&kept);
        let Some((sealed, kid)) = rewrapped(keys, &about, &kept.sealed)? else {
            return Ok(false);
        };
        let put = KeychainPut {
            replaces: Some(kept.version),
            entry: KeychainEntry {
                sealed,
                kid,
                ..kept
            },
        };
        Ok(self.store().put_keychain(put).await?)
    }
}

fn page_of(request: RotationRequest) -> PageLimit {
    PageLimit::clamped(request.batch_size.into())
}

/// A sealed secret with its key under the current one, and that one's name.
fn rewrapped(
    keys: &KeyRing,
    about: &About<'_>,
    sealed: &Json,
) -> Result<Option<(Json, Text)>, RuntimeError> {
    let anew = keys.rewrap(about, &sealed_of(sealed)?);
    let anew = anew.map_err(|error| broken(&error))?;
    anew.map(|anew| Ok((sealed_json(&anew)?, anew.kid().clone())))
        .transpose()
}

fn count(rotation: &mut TableRotation, id: i64, rewrapped: Result<bool, RuntimeError>) {
    let done = &mut rotation.done;
    done.processed += 1;
    match rewrapped {
        Ok(true) => done.rewrapped += 1,
        Ok(false) => done.skipped += 1,
        Err(error) => {
            tracing::error!(%error, "a secret keeps its old key");
            done.failed += 1;
        }
    }
    rotation.last_id = Some(id);
}
