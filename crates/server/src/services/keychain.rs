//! Keychain cache: secrets that workers resolved for a definition, stored encrypted until they
//! expire.

use std::sync::Arc;

use noetl_api::keychain::{
    KeychainDeleteResponse, KeychainList, KeychainListEntry, KeychainMetadata, KeychainPutRequest,
    KeychainPutResponse, KeychainStatus, KeychainView,
};
use noetl_store::{
    CatalogKey, Execution, KeychainEntry, KeychainFilter, KeychainPut, KeychainScope,
};
use noetl_types::json::{parse, to_canonical};
use noetl_types::limits::PageLimit;
use noetl_types::{CatalogId, ErrorCode, ExecutionId, Json, Millis, Text, Timestamp, WorkerId};

use crate::access::CallContext;
use crate::crypto::{CryptoError, RecordBinding};
use crate::error::{Result, RuntimeError, parse_cursor};
use crate::services::Infrastructure;
use crate::services::credentials::{
    MAX_NAME_BYTES, MAX_PUT_ATTEMPTS, MAX_SECRET_BYTES, crypto_failure, wrapped_secret_from_json,
    wrapped_secret_to_json,
};
use crate::services::issued_secrets::IssuedSecrets;

/// Lifetime of an entry if the request does not set one.
const DEFAULT_ENTRY_TTL: Millis = Millis::from_secs(600);
/// Maximum lifetime of an entry.
const MAX_ENTRY_TTL: Millis = Millis::from_days(30);
/// Table name that both encryption layers are bound to.
const KEYCHAIN_TABLE: &str = "keychain";
/// Fields of the encrypted JSON object.
const DATA_FIELD: &str = "data";
const RENEW_CONFIG_FIELD: &str = "renew_config";

/// Key of a keychain entry.
#[derive(Debug, Clone)]
pub(crate) struct KeychainKey {
    pub(crate) catalog_id: CatalogId,
    /// Name in the definition.
    pub(crate) name: Text,
    pub(crate) scope: KeychainScope,
    /// Execution that the entry belongs to.
    pub(crate) execution_id: Option<ExecutionId>,
}

/// Role of the caller that reads or changes an entry.
#[derive(Debug, Clone)]
pub(crate) enum KeychainCaller {
    /// Secrets admin, who may read and change all entries.
    Admin,
    /// Worker, which may access the entries of a definition while it holds a command of one of its
    /// executions.
    Worker(Option<WorkerId>),
    /// Caller that may see metadata but no secrets.
    MetadataReader,
}

impl KeychainCaller {
    fn worker(&self) -> Option<&WorkerId> {
        match self {
            Self::Worker(worker) => worker.as_ref(),
            Self::Admin | Self::MetadataReader => None,
        }
    }
}

impl KeychainKey {
    /// Returns the key within its tenant, in the format of earlier releases.
    fn to_cache_key(&self) -> Text {
        let Self { catalog_id, name, .. } = self;
        let suffix = match (self.scope, self.scoped_execution()) {
            (KeychainScope::Local, Some(execution_id)) => execution_id.to_string(),
            (KeychainScope::Shared, Some(execution_id)) => format!("shared:{execution_id}"),
            (scope, _) => scope.as_str().to_owned(),
        };
        format!("{name}:{catalog_id}:{suffix}").into()
    }

    /// Execution of the key's scope. Global entries have none.
    fn scoped_execution(&self) -> Option<ExecutionId> {
        self.execution_id.filter(|_| self.scope != KeychainScope::Global)
    }

    /// Returns this key for another execution, or for no execution.
    fn with_execution(&self, execution_id: Option<ExecutionId>) -> Self {
        Self { execution_id, ..self.clone() }
    }
}

/// Cache of resolved keychain entries.
pub struct Keychain {
    pub(crate) infra: Arc<Infrastructure>,
    pub(crate) secrets: Arc<IssuedSecrets>,
}

impl Keychain {
    /// Stores an entry and replaces an earlier one with the same key.
    pub(crate) async fn put_keychain_entry(
        &self,
        ctx: &CallContext,
        key: KeychainKey,
        request: KeychainPutRequest,
        caller: KeychainCaller,
    ) -> Result<KeychainPutResponse> {
        ctx.add_secret_facts(|facts| facts.execution_id = key.execution_id);
        let keys = self.infra.settings.encryption_keys()?;
        self.check_definition_visible(ctx, key.catalog_id).await?;
        self.check_keychain_writer(ctx, &key, caller).await?;
        if key.name.is_empty() || key.name.len() > MAX_NAME_BYTES {
            return Err(RuntimeError::invalid(format!(
                "the name must have 1 to {MAX_NAME_BYTES} bytes"
            )));
        }
        if let Some(execution_id) = key.scoped_execution() {
            ctx.visible_execution(self.infra.store(), execution_id).await?;
        }
        let (now, auto_renew) = (self.infra.now(), request.auto_renew.unwrap_or(false));
        let expires_at = entry_expiry(&request, now)?;
        let secret = encode_entry_secret(&request)?;
        if let Some(execution_id) = key.execution_id {
            self.secrets.record_issued_secret(execution_id, None, Some(&request.data));
        }
        let cache_key = key.to_cache_key();
        for _ in 0..MAX_PUT_ATTEMPTS {
            let previous = self.infra.store().find_keychain_entry(ctx.tenant(), &cache_key);
            let previous = previous.await?;
            let mut entry = KeychainEntry {
                keychain_id: match &previous {
                    Some(previous) => previous.keychain_id,
                    None => self.infra.mint_id()?,
                },
                tenant_id: ctx.tenant().clone(),
                cache_key: cache_key.clone(),
                name: key.name.clone(),
                catalog_id: key.catalog_id,
                scope: key.scope,
                execution_id: key.scoped_execution(),
                version: previous.as_ref().map_or(1, |previous| previous.version + 1),
                sealed: Json::Null,
                kid: keys.current().kid().clone(),
                auto_renew,
                created_at: previous.as_ref().map_or(now, |previous| previous.created_at),
                updated_at: now,
                expires_at,
            };
            let wrapped = keys.wrap_secret(&keychain_binding(&entry), &secret);
            entry.sealed =
                wrapped_secret_to_json(&wrapped.map_err(|error| crypto_failure(&error))?)?;
            let put = KeychainPut { entry, replaces: previous.map(|previous| previous.version) };
            if self.infra.store().put_keychain_entry(put).await? {
                ctx.add_secret_facts(|facts| facts.key_id = Some(keys.current().kid().clone()));
                return Ok(KeychainPutResponse { status: "success".into(), cache_key, expires_at });
            }
        }
        let text = "the keychain entry is being changed concurrently; try again later";
        Err(RuntimeError::refused(ErrorCode::StoreUnavailable, text))
    }

    /// Returns an entry, with its data if the caller may read it.
    pub(crate) async fn get_keychain_entry(
        &self,
        ctx: &CallContext,
        key: &KeychainKey,
        caller: KeychainCaller,
    ) -> Result<KeychainView> {
        ctx.add_secret_facts(|facts| {
            facts.execution_id = key.execution_id;
            facts.worker_id = caller.worker().cloned();
        });
        self.check_definition_visible(ctx, key.catalog_id).await?;
        let with_secret = match caller {
            KeychainCaller::Admin => true,
            KeychainCaller::Worker(worker) => {
                self.check_keychain_reader(ctx, key, worker).await?;
                true
            }
            KeychainCaller::MetadataReader => false,
        };
        let Some(entry) = self.find_keychain_entry(ctx, key).await? else {
            return Ok(KeychainView {
                status: KeychainStatus::NotFound,
                cache_key: key.to_cache_key(),
                data: None,
                renew_config: None,
                metadata: None,
            });
        };
        ctx.add_secret_facts(|facts| facts.key_id = Some(entry.kid.clone()));
        let is_expired = entry.expires_at <= self.infra.now();
        let (data, renew_config) =
            if with_secret { self.decrypt_keychain_entry(&entry)? } else { (None, None) };
        if let Some(execution_id) = key.execution_id {
            self.secrets.record_issued_secret(execution_id, None, data.as_ref());
        }
        Ok(KeychainView {
            status: if is_expired { KeychainStatus::Expired } else { KeychainStatus::Found },
            cache_key: entry.cache_key.clone(),
            data: data.filter(|_| !is_expired),
            renew_config,
            metadata: Some(keychain_metadata(entry)),
        })
    }

    /// Lists the entries of a definition without their data.
    pub(crate) async fn list_keychain_entries(
        &self,
        ctx: &CallContext,
        catalog_id: CatalogId,
        limit: PageLimit,
        cursor: Option<Text>,
    ) -> Result<KeychainList> {
        let after = parse_cursor(cursor)?;
        self.check_definition_visible(ctx, catalog_id).await?;
        let filter = KeychainFilter {
            tenant_id: Some(ctx.tenant().clone()),
            catalog_id: Some(catalog_id),
            excluded_kid: None,
            after,
        };
        let page = self.infra.store().list_keychain_entries(filter, limit).await?;
        let count = u32::try_from(page.len()).unwrap_or(u32::MAX);
        let last = page.last().map(|last| last.keychain_id.to_string().into());
        let now = self.infra.now();
        let item = |entry: KeychainEntry| KeychainListEntry {
            cache_key: entry.cache_key.clone(),
            is_expired: entry.expires_at <= now,
            metadata: keychain_metadata(entry),
        };
        Ok(KeychainList {
            catalog_id,
            entries: page.into_iter().map(item).collect(),
            count,
            next_cursor: last.filter(|_| count == limit.get()),
        })
    }

    pub(crate) async fn delete_keychain_entry(
        &self,
        ctx: &CallContext,
        key: &KeychainKey,
        caller: KeychainCaller,
    ) -> Result<KeychainDeleteResponse> {
        ctx.add_secret_facts(|facts| facts.execution_id = key.execution_id);
        self.check_definition_visible(ctx, key.catalog_id).await?;
        self.check_keychain_writer(ctx, key, caller).await?;
        let cache_key = key.to_cache_key();
        let deleted = self.infra.store().delete_keychain_entry(ctx.tenant(), &cache_key);
        let status = if deleted.await? { "deleted" } else { "not_found" };
        Ok(KeychainDeleteResponse { status: status.into(), cache_key })
    }

    /// Refuses a definition of another tenant, or at a path outside the caller's path restriction,
    /// as not found.
    async fn check_definition_visible(
        &self,
        ctx: &CallContext,
        catalog_id: CatalogId,
    ) -> Result<()> {
        let key = CatalogKey::Id(catalog_id);
        let entry = self.infra.store().find_catalog_entry(ctx.tenant(), key).await?;
        let entry = entry.filter(|entry| ctx.auth.can_see_path(Some(&entry.path)));
        let not_found = || RuntimeError::not_found("there is no such definition");
        entry.map(drop).ok_or_else(not_found)
    }

    /// Finds the entry for a key: that of its execution, then the one shared by the root execution,
    /// then the one without an execution. An expired entry is returned only if there is no valid
    /// one.
    async fn find_keychain_entry(
        &self,
        ctx: &CallContext,
        key: &KeychainKey,
    ) -> Result<Option<KeychainEntry>> {
        let mut cache_keys = vec![key.to_cache_key()];
        if let Some(execution_id) = key.scoped_execution() {
            if key.scope == KeychainScope::Shared {
                let row = ctx.visible_execution(self.infra.store(), execution_id).await?;
                let root = self.root_execution(ctx, &row).await?;
                cache_keys.extend(
                    root.map(|root| key.with_execution(Some(root.execution_id)).to_cache_key()),
                );
            }
            cache_keys.push(key.with_execution(None).to_cache_key());
        }
        let mut expired = None;
        for cache_key in cache_keys {
            match self.infra.store().find_keychain_entry(ctx.tenant(), &cache_key).await? {
                Some(entry) if entry.expires_at > self.infra.now() => return Ok(Some(entry)),
                found => expired = expired.or(found),
            }
        }
        Ok(expired)
    }

    /// Returns the root execution, unless the execution is itself the root or the caller may not
    /// access the root.
    async fn root_execution(
        &self,
        ctx: &CallContext,
        execution: &Execution,
    ) -> Result<Option<Execution>> {
        let Some(root) = execution.facts.root_execution_id else {
            return Ok(None);
        };
        match ctx.visible_execution(self.infra.store(), root).await {
            Ok(root) => Ok(Some(root)),
            Err(RuntimeError::Refused(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Checks that the caller may change an entry. A worker may do so only while it holds a command
    /// of an execution of the definition.
    async fn check_keychain_writer(
        &self,
        ctx: &CallContext,
        key: &KeychainKey,
        caller: KeychainCaller,
    ) -> Result<()> {
        match caller {
            KeychainCaller::Admin => Ok(()),
            KeychainCaller::Worker(worker) => {
                let execution = self.find_held_execution(ctx, key, worker).await?;
                if execution.facts.catalog_id == Some(key.catalog_id) {
                    return Ok(());
                }
                Err(definition_mismatch())
            }
            KeychainCaller::MetadataReader => {
                let text = "only workers and callers with the scope cred:admin may change keychain entries";
                Err(RuntimeError::forbidden(text))
            }
        }
    }

    /// Checks that a worker may read an entry: it must hold a command of an execution of the
    /// definition. Entries shared by a root execution can be read for all executions below it.
    async fn check_keychain_reader(
        &self,
        ctx: &CallContext,
        key: &KeychainKey,
        worker: Option<WorkerId>,
    ) -> Result<()> {
        let execution = self.find_held_execution(ctx, key, worker).await?;
        if execution.facts.catalog_id == Some(key.catalog_id) {
            return Ok(());
        }
        if key.scope == KeychainScope::Shared {
            let root = self.root_execution(ctx, &execution).await?;
            if root.is_some_and(|root| root.facts.catalog_id == Some(key.catalog_id)) {
                return Ok(());
            }
        }
        Err(definition_mismatch())
    }

    /// Returns the execution that a worker names, if the worker holds a command of it.
    async fn find_held_execution(
        &self,
        ctx: &CallContext,
        key: &KeychainKey,
        worker: Option<WorkerId>,
    ) -> Result<Execution> {
        let Some(execution_id) = key.execution_id else {
            let text = "a worker must name its execution_id to access keychain entries; other \
                callers need the scope cred:admin";
            return Err(RuntimeError::forbidden(text));
        };
        let execution = ctx.visible_execution(self.infra.store(), execution_id).await?;
        ctx.check_command_holder(self.infra.store(), execution_id, worker).await?;
        Ok(execution)
    }

    fn decrypt_keychain_entry(
        &self,
        entry: &KeychainEntry,
    ) -> Result<(Option<Json>, Option<Json>)> {
        let wrapped = wrapped_secret_from_json(&entry.sealed)?;
        let secret = self
            .infra
            .settings
            .encryption_keys()?
            .unwrap_secret(&keychain_binding(entry), &wrapped);
        let secret = secret.map_err(|error| crypto_failure(&error))?;
        let secret = parse(secret.as_bytes()).map_err(|_| crypto_failure(&CryptoError::Damaged))?;
        let part = |name: &str| secret.get(name).cloned();
        let renew_config = part(RENEW_CONFIG_FIELD).filter(|config| !config.is_null());
        Ok((part(DATA_FIELD), renew_config))
    }
}

fn definition_mismatch() -> RuntimeError {
    let text =
        "the execution does not run this definition, so it cannot access its keychain entries";
    RuntimeError::forbidden(text)
}

/// Encodes the data and the renewal configuration of an entry as canonical JSON.
fn encode_entry_secret(request: &KeychainPutRequest) -> Result<Vec<u8>> {
    let renew_config = request.renew_config.clone().unwrap_or(Json::Null);
    let secret = to_canonical(&Json::object([
        (DATA_FIELD, request.data.clone()),
        (RENEW_CONFIG_FIELD, renew_config),
    ]));
    if secret.len() > MAX_SECRET_BYTES {
        let text = format!("a secret may have at most {MAX_SECRET_BYTES} bytes");
        return Err(RuntimeError::too_large(text));
    }
    Ok(secret)
}

/// Returns the expiry of an entry, limited by the maximum lifetime.
fn entry_expiry(request: &KeychainPutRequest, now: Timestamp) -> Result<Timestamp> {
    let expires_at = request.expires_at.as_deref().map(Timestamp::parse_lenient);
    let expires_at = expires_at.transpose();
    let expires_at =
        expires_at.map_err(|error| RuntimeError::invalid(format!("expires_at: {error}")))?;
    let seconds = request.expires_in.map(Millis::from_secs);
    let expiry = match expires_at.flatten() {
        Some(expires_at) => expires_at,
        None => now.saturating_add(seconds.unwrap_or(DEFAULT_ENTRY_TTL)),
    };
    Ok(expiry.min(now.saturating_add(MAX_ENTRY_TTL)))
}

pub(crate) fn keychain_binding(entry: &KeychainEntry) -> RecordBinding<'_> {
    RecordBinding {
        tenant_id: &entry.tenant_id,
        table: KEYCHAIN_TABLE,
        record: entry.keychain_id.get(),
        columns: Some(entry.cache_key.as_str().into()),
        version: entry.version,
    }
}

fn keychain_metadata(entry: KeychainEntry) -> KeychainMetadata {
    KeychainMetadata {
        keychain_name: entry.name,
        catalog_id: entry.catalog_id,
        scope_type: entry.scope.as_str().into(),
        execution_id: entry.execution_id,
        auto_renew: entry.auto_renew,
        created_at: entry.created_at,
        updated_at: entry.updated_at,
        expires_at: entry.expires_at,
    }
}
