//! Credentials: encrypted before they are stored, decrypted for authorized callers.

pub(crate) mod key_check;
pub(crate) mod references;
mod rotation;

use std::sync::Arc;

use noetl_api::credential::{
    CredentialDeleteResponse, CredentialList, CredentialPutRequest, CredentialRequest,
    CredentialView, MAX_LISTED_CREDENTIALS, SealedCredential,
};
use noetl_store::{Credential, CredentialFilter, CredentialKey, CredentialPut};
use noetl_types::json::{parse, to_canonical};
use noetl_types::limits::PageLimit;
use noetl_types::{CredentialId, ErrorCode, ExecutionId, Json, SecretOperation, Text, WorkerId};
use zeroize::Zeroizing;

use crate::access::{CallContext, SecretAuditContext, truncate_audit_name};
use crate::crypto::{
    CryptoError, RecordBinding, SEALED_BOX_ALGORITHM, SEALED_BOX_VERSION, WrappedSecret,
};
use crate::error::{Result, RuntimeError};
use crate::services::audit_log::AuditRecord;
use crate::services::issued_secrets::IssuedSecrets;
use crate::services::{AuditLog, Catalog, Infrastructure, WorkerRegistry};
use references::has_dynamic_credential_name;

pub(crate) const MAX_NAME_BYTES: usize = 255;
/// Maximum bytes of a secret as canonical JSON.
pub(crate) const MAX_SECRET_BYTES: usize = 64 << 10;
/// Maximum attempts of a write that conflicts with concurrent writers.
pub(crate) const MAX_PUT_ATTEMPTS: u32 = 10;
/// Table name that both encryption layers are bound to.
const CREDENTIAL_TABLE: &str = "credential";

/// Stored credentials.
pub struct Credentials {
    pub(crate) infra: Arc<Infrastructure>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) workers: Arc<WorkerRegistry>,
    pub(crate) secrets: Arc<IssuedSecrets>,
    pub(crate) audit: Arc<AuditLog>,
}

impl Credentials {
    /// Stores a credential and replaces an earlier one with the same name.
    pub async fn put_credential(
        &self,
        ctx: &CallContext,
        request: CredentialPutRequest,
    ) -> Result<CredentialView> {
        ctx.add_secret_facts(|facts| facts.credential = Some(truncate_audit_name(&request.name)));
        let keys = self.infra.settings.encryption_keys()?;
        if request.name.is_empty() || request.name.len() > MAX_NAME_BYTES {
            return Err(RuntimeError::invalid(format!(
                "the name must have 1 to {MAX_NAME_BYTES} bytes"
            )));
        }
        // A number would be taken for a credential id.
        if request.name.parse::<CredentialId>().is_ok() {
            return Err(RuntimeError::invalid(
                "the name must not be a number, because a number is taken for an id",
            ));
        }
        if request.kind.is_empty() || request.kind.len() > MAX_NAME_BYTES {
            return Err(RuntimeError::invalid(format!(
                "the type must have 1 to {MAX_NAME_BYTES} bytes"
            )));
        }
        let secret = to_canonical(&request.data);
        if secret.len() > MAX_SECRET_BYTES {
            let text = format!("a secret may have at most {MAX_SECRET_BYTES} bytes");
            return Err(RuntimeError::too_large(text));
        }
        for _ in 0..MAX_PUT_ATTEMPTS {
            let key = CredentialKey::Name(request.name.clone());
            let previous = self.infra.store().find_credential(ctx.tenant(), &key).await?;
            let now = self.infra.now();
            let mut credential = Credential {
                credential_id: match &previous {
                    Some(previous) => previous.credential_id,
                    None => self.infra.mint_id()?,
                },
                tenant_id: ctx.tenant().clone(),
                name: request.name.clone(),
                kind: request.kind.clone(),
                version: previous.as_ref().map_or(1, |previous| previous.version + 1),
                sealed: Json::Null,
                kid: keys.current().kid().clone(),
                meta: request.meta.clone(),
                tags: Json::list(request.tags.iter().cloned().map(Json::from)),
                description: request.description.clone(),
                created_at: previous.as_ref().map_or(now, |previous| previous.created_at),
                updated_at: now,
            };
            let wrapped = keys
                .wrap_secret(&credential_binding(&credential), &secret)
                .map_err(|error| crypto_failure(&error))?;
            credential.sealed = wrapped_secret_to_json(&wrapped)?;
            let put = CredentialPut {
                credential: credential.clone(),
                replaces: previous.map(|previous| previous.version),
            };
            if self.infra.store().put_credential(put).await? {
                ctx.add_secret_facts(|facts| facts.key_id = Some(credential.kid.clone()));
                return Ok(credential_view(credential, None));
            }
        }
        let text = "the credential is being changed concurrently; try again later";
        Err(RuntimeError::refused(ErrorCode::StoreUnavailable, text))
    }

    /// Lists credentials without their secrets.
    pub async fn list_credentials(
        &self,
        ctx: &CallContext,
        kind: Option<Text>,
        text: Option<Text>,
    ) -> Result<CredentialList> {
        let mut filter =
            CredentialFilter { kind, text, ..CredentialFilter::for_tenant(ctx.tenant().clone()) };
        let mut items = Vec::new();
        // The answer has a single page, so all pages of the store are read.
        while items.len() < MAX_LISTED_CREDENTIALS {
            let page = self.infra.store().list_credentials(filter.clone(), PageLimit::MAX);
            let page = page.await?;
            let Some(last) = page.last() else { break };
            filter.after = Some(last.credential_id);
            items.extend(page.into_iter().map(|credential| credential_view(credential, None)));
        }
        items.truncate(MAX_LISTED_CREDENTIALS);
        Ok(CredentialList { items, filter: None })
    }

    /// Returns a credential by id or name, without its secret.
    pub async fn get_credential(&self, ctx: &CallContext, key: &str) -> Result<CredentialView> {
        Ok(credential_view(self.load_credential(ctx, key).await?, None))
    }

    /// Returns a credential with its secret.
    pub async fn reveal_credential(&self, ctx: &CallContext, key: &str) -> Result<CredentialView> {
        let stored = self.load_credential(ctx, key).await?;
        self.decrypt_credential(stored)
    }

    /// Returns a credential with its secret to a worker that holds a command of an execution whose
    /// playbook names the credential.
    pub async fn issue_credential(
        &self,
        ctx: &CallContext,
        request: CredentialRequest,
    ) -> Result<CredentialView> {
        ctx.add_secret_facts(|facts| facts.operation = SecretOperation::Issue);
        self.check_credential_request(ctx, &request).await?;
        let issued = self.reveal_credential(ctx, &request.name).await?;
        self.secrets.record_issued_secret(
            request.execution_id,
            Some(&issued.kind),
            issued.data.as_ref(),
        );
        Ok(issued)
    }

    /// Refuses a worker that holds no command of the execution, or whose playbook does not name the
    /// credential.
    pub(crate) async fn check_credential_request(
        &self,
        ctx: &CallContext,
        request: &CredentialRequest,
    ) -> Result<()> {
        ctx.add_secret_facts(|facts| {
            facts.execution_id = Some(request.execution_id);
            facts.worker_id = Some(request.worker_id.clone());
        });
        let row = ctx.visible_execution(self.infra.store(), request.execution_id).await?;
        ctx.add_secret_facts(|facts| facts.parent_execution_id = row.facts.parent_execution_id);
        let worker_id = Some(request.worker_id.clone());
        ctx.check_command_holder(self.infra.store(), request.execution_id, worker_id).await?;
        let definition = match row.facts.catalog_id {
            Some(id) => self.catalog.load_definition(ctx.tenant(), id).await?,
            None => return Err(RuntimeError::no_execution()),
        };
        let is_named = definition.entry.content.contains(request.name.as_str());
        if !is_named && !has_dynamic_credential_name(definition.plan.playbook()) {
            let text = format!("the playbook does not name the credential '{}'", request.name);
            return Err(RuntimeError::forbidden(text));
        }
        Ok(())
    }

    pub async fn delete_credential(
        &self,
        ctx: &CallContext,
        key: &str,
    ) -> Result<CredentialDeleteResponse> {
        let stored = self.load_credential(ctx, key).await?;
        let id = stored.credential_id;
        self.infra.store().delete_credential(ctx.tenant(), id).await?;
        Ok(CredentialDeleteResponse {
            message: format!("the credential '{}' was deleted", stored.name).into(),
            id,
        })
    }

    pub(crate) async fn load_credential(&self, ctx: &CallContext, key: &str) -> Result<Credential> {
        let key = match key.parse() {
            Ok(id) => CredentialKey::Id(id),
            Err(_) => CredentialKey::Name(key.into()),
        };
        let found = self.infra.store().find_credential(ctx.tenant(), &key).await?;
        let not_found = || RuntimeError::not_found("there is no such credential");
        let stored = found.ok_or_else(not_found)?;
        ctx.add_secret_facts(|facts| {
            facts.credential = Some(stored.name.clone());
            facts.key_id = Some(stored.kid.clone());
        });
        Ok(stored)
    }

    pub(crate) fn decrypt_credential(&self, stored: Credential) -> Result<CredentialView> {
        let decrypted = self.infra.settings.encryption_keys()?.unwrap_secret(
            &credential_binding(&stored),
            &wrapped_secret_from_json(&stored.sealed)?,
        );
        let decrypted = decrypted.map_err(|error| crypto_failure(&error))?;
        let data =
            parse(decrypted.as_bytes()).map_err(|_| crypto_failure(&CryptoError::Damaged))?;
        Ok(credential_view(stored, Some(data)))
    }

    /// Issues a credential to a worker in this process. Such a request does not pass through the
    /// HTTP middleware, which would audit it.
    pub(crate) async fn issue_credential_in_process(
        &self,
        ctx: &CallContext,
        request: CredentialRequest,
    ) -> Result<CredentialView> {
        let context = SecretAuditContext::new(SecretOperation::Issue, Some(&request.name));
        let audited = CallContext { secret_audit: Some(context.clone()), ..ctx.clone() };
        let issued = self.issue_credential(&audited, request).await;
        let code = |error: &RuntimeError| error.code().unwrap_or(ErrorCode::StoreUnavailable);
        self.audit
            .record_audit(
                ctx,
                AuditRecord {
                    actor: "worker".into(),
                    token_id: None,
                    action: "issue".into(),
                    target: None,
                    address: None,
                    outcome: issued
                        .as_ref()
                        .map_or_else(|error| code(error).as_str(), |_| AuditRecord::OK)
                        .into(),
                    secret: Some(context.collected()),
                },
            )
            .await?;
        issued
    }

    /// Returns a credential that only the worker can decrypt.
    pub(crate) async fn issue_sealed_credential(
        &self,
        ctx: &CallContext,
        request: CredentialRequest,
    ) -> Result<SealedCredential> {
        self.check_credential_request(ctx, &request).await?;
        let execution_id = Some(request.execution_id);
        self.reveal_sealed_credential(ctx, &request.name, &request.worker_id, execution_id).await
    }

    /// Returns a credential that only the worker can decrypt, for a secrets admin. No execution is
    /// required.
    pub(crate) async fn reveal_sealed_credential(
        &self,
        ctx: &CallContext,
        key: &str,
        worker_id: &WorkerId,
        execution_id: Option<ExecutionId>,
    ) -> Result<SealedCredential> {
        ctx.add_secret_facts(|facts| {
            facts.worker_id = Some(worker_id.clone());
            facts.execution_id = execution_id;
        });
        let stored = self.load_credential(ctx, key).await?;
        let Some(recipient) = self.workers.worker_public_key(ctx, worker_id).await? else {
            return Err(missing_public_key(worker_id));
        };
        let credential = self.decrypt_credential(stored)?;
        if let Some(execution_id) = execution_id {
            self.secrets.record_issued_secret(
                execution_id,
                Some(&credential.kind),
                credential.data.as_ref(),
            );
        }
        let plaintext = to_plaintext(&credential)?;
        let execution = execution_id.map_or_else(String::new, |id| id.to_string());
        // None of the three contains a NUL, so the associated data is unique per request.
        let associated_data = [worker_id.as_str(), &execution, key].join("\0");
        let sealed = recipient.seal_box(associated_data.as_bytes(), &plaintext);
        let sealed_box = sealed.map_err(|error| crypto_failure(&error))?;
        let sealed_box = sealed_box.ok_or_else(|| missing_public_key(worker_id))?;
        self.infra.metrics.secrets.sealed_credentials.inc();
        Ok(SealedCredential {
            alg: SEALED_BOX_ALGORITHM.into(),
            v: SEALED_BOX_VERSION,
            eph_pub: sealed_box.eph_pub,
            ciphertext: sealed_box.ciphertext,
        })
    }
}

/// Binds the secret of a credential to all columns of its row, so that an edited row is refused.
pub(crate) fn credential_binding(credential: &Credential) -> RecordBinding<'_> {
    let columns = Json::object([
        ("name", Json::from(credential.name.clone())),
        ("kind", Json::from(credential.kind.clone())),
        ("meta", credential.meta.clone().unwrap_or_default()),
        ("tags", credential.tags.clone()),
        ("description", credential.description.clone().map_or(Json::Null, Json::from)),
        ("created_at", Json::from(credential.created_at.as_micros())),
        ("updated_at", Json::from(credential.updated_at.as_micros())),
    ]);
    RecordBinding {
        tenant_id: &credential.tenant_id,
        table: CREDENTIAL_TABLE,
        record: credential.credential_id.get(),
        columns: Some(columns.to_string().into()),
        version: credential.version,
    }
}

pub(crate) fn wrapped_secret_to_json(wrapped: &WrappedSecret) -> Result<Json> {
    let text =
        serde_json::to_vec(wrapped).map_err(|_| crypto_failure(&CryptoError::EncryptFailed))?;
    parse(&text).map_err(|_| crypto_failure(&CryptoError::EncryptFailed))
}

pub(crate) fn wrapped_secret_from_json(json: &Json) -> Result<WrappedSecret> {
    let text = to_canonical(json);
    serde_json::from_slice(&text).map_err(|_| crypto_failure(&CryptoError::UnknownFormat))
}

fn credential_view(credential: Credential, data: Option<Json>) -> CredentialView {
    let tags = credential.tags.as_list().unwrap_or_default().iter();
    CredentialView {
        id: credential.credential_id,
        name: credential.name,
        kind: credential.kind,
        meta: credential.meta,
        tags: tags.filter_map(Json::as_str).map(Text::from).collect(),
        description: credential.description,
        created_at: credential.created_at,
        updated_at: credential.updated_at,
        data,
    }
}

/// Logs the cause of a cryptographic failure for the operator. The caller gets no details.
pub(crate) fn crypto_failure(error: &CryptoError) -> RuntimeError {
    tracing::error!(%error, "a secret cannot be encrypted or decrypted");
    match error {
        CryptoError::MissingKey(_) => RuntimeError::refused(ErrorCode::NotReady, error.to_string()),
        CryptoError::UnknownFormat | CryptoError::Damaged | CryptoError::EncryptFailed => {
            RuntimeError::internal("the secret cannot be decrypted")
        }
    }
}

fn to_plaintext(view: &CredentialView) -> Result<Zeroizing<Vec<u8>>> {
    let text = serde_json::to_vec(view).map_err(|_| crypto_failure(&CryptoError::EncryptFailed))?;
    Ok(Zeroizing::new(text))
}

fn missing_public_key(worker_id: &WorkerId) -> RuntimeError {
    let text = format!(
        "worker_id: the worker '{worker_id}' has not registered a `public_key` (base64 of a \
            32-byte X25519 key)"
    );
    RuntimeError::refused(ErrorCode::BadQuery, text)
}

#[cfg(test)]
mod tests;
