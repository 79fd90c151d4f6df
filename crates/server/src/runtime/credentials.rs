//! Credentials: encrypted before they are stored, decrypted for authorized callers.

use noetl_api::credential::{
    CredentialDeleteResponse, CredentialList, CredentialPutRequest, CredentialRequest,
    CredentialView, MAX_LISTED_CREDENTIALS,
};
use noetl_store::{
    CommandFilter, CommandStatusFilter, Credential, CredentialFilter, CredentialKey, CredentialPut,
};
use noetl_types::json::{parse, to_canonical};
use noetl_types::limits::PageLimit;
use noetl_types::{
    CommandStatus, CredentialId, ErrorCode, ExecutionId, Json, SecretOperation, Text, WorkerId,
};

use super::classic::has_dynamic_credential_name;
use super::secret_audit::truncate_audit_name;
use super::{Runtime, RuntimeError};
use crate::crypto::{CryptoError, KeyRing, RecordBinding, WrappedSecret};

pub(super) const MAX_NAME_BYTES: usize = 255;
/// Maximum bytes of a secret as canonical JSON.
pub(super) const MAX_SECRET_BYTES: usize = 64 << 10;
/// Maximum attempts of a write that conflicts with concurrent writers.
pub(super) const MAX_PUT_ATTEMPTS: u32 = 10;
/// Table name that both encryption layers are bound to.
const CREDENTIAL_TABLE: &str = "credential";

impl Runtime {
    /// Stores a credential and replaces an earlier one with the same name.
    pub async fn put_credential(
        &self,
        request: CredentialPutRequest,
    ) -> Result<CredentialView, RuntimeError> {
        self.add_secret_facts(|facts| facts.credential = Some(truncate_audit_name(&request.name)));
        let keys = self.encryption_keys()?;
        if request.name.is_empty() || request.name.len() > MAX_NAME_BYTES {
            return Err(validation_error(format!(
                "the name must have 1 to {MAX_NAME_BYTES} bytes"
            )));
        }
        // A number would be taken for a credential id.
        if request.name.parse::<CredentialId>().is_ok() {
            return Err(validation_error(
                "the name must not be a number, because a number is taken for an id",
            ));
        }
        if request.kind.is_empty() || request.kind.len() > MAX_NAME_BYTES {
            return Err(validation_error(format!(
                "the type must have 1 to {MAX_NAME_BYTES} bytes"
            )));
        }
        let secret = to_canonical(&request.data);
        if secret.len() > MAX_SECRET_BYTES {
            let text = format!("a secret may have at most {MAX_SECRET_BYTES} bytes");
            return Err(RuntimeError::refused(ErrorCode::TooLarge, text));
        }
        for _ in 0..MAX_PUT_ATTEMPTS {
            let key = CredentialKey::Name(request.name.clone());
            let previous = self.store().find_credential(self.tenant(), &key).await?;
            let now = self.now();
            let mut credential = Credential {
                credential_id: match &previous {
                    Some(previous) => previous.credential_id,
                    None => self.mint_id()?,
                },
                tenant_id: self.tenant().clone(),
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
            if self.store().put_credential(put).await? {
                self.add_secret_facts(|facts| facts.key_id = Some(credential.kid.clone()));
                return Ok(credential_view(credential, None));
            }
        }
        let text = "the credential is being changed concurrently; try again later";
        Err(RuntimeError::refused(ErrorCode::StoreUnavailable, text))
    }

    /// Lists credentials without their secrets.
    pub async fn list_credentials(
        &self,
        kind: Option<Text>,
        text: Option<Text>,
    ) -> Result<CredentialList, RuntimeError> {
        let mut filter =
            CredentialFilter { kind, text, ..CredentialFilter::for_tenant(self.tenant().clone()) };
        let mut items = Vec::new();
        // The answer has a single page, so all pages of the store are read.
        while items.len() < MAX_LISTED_CREDENTIALS {
            let page = self.store().list_credentials(filter.clone(), PageLimit::MAX);
            let page = page.await?;
            let Some(last) = page.last() else { break };
            filter.after = Some(last.credential_id);
            items.extend(page.into_iter().map(|credential| credential_view(credential, None)));
        }
        items.truncate(MAX_LISTED_CREDENTIALS);
        Ok(CredentialList { items, filter: None })
    }

    /// Returns a credential by id or name, without its secret.
    pub async fn get_credential(&self, key: &str) -> Result<CredentialView, RuntimeError> {
        Ok(credential_view(self.load_credential(key).await?, None))
    }

    /// Returns a credential with its secret.
    pub async fn reveal_credential(&self, key: &str) -> Result<CredentialView, RuntimeError> {
        let stored = self.load_credential(key).await?;
        self.decrypt_credential(stored)
    }

    /// Returns a credential with its secret to a worker that holds a command of an execution whose
    /// playbook names the credential.
    pub async fn issue_credential(
        &self,
        request: CredentialRequest,
    ) -> Result<CredentialView, RuntimeError> {
        self.add_secret_facts(|facts| facts.operation = SecretOperation::Issue);
        self.check_credential_request(&request).await?;
        let issued = self.reveal_credential(&request.name).await?;
        self.record_issued_secret(request.execution_id, Some(&issued.kind), issued.data.as_ref());
        Ok(issued)
    }

    /// Refuses a worker that holds no command of the execution, or whose playbook does not name the
    /// credential.
    pub(super) async fn check_credential_request(
        &self,
        request: &CredentialRequest,
    ) -> Result<(), RuntimeError> {
        self.add_secret_facts(|facts| {
            facts.execution_id = Some(request.execution_id);
            facts.worker_id = Some(request.worker_id.clone());
        });
        let row = self.visible_execution(request.execution_id).await?;
        self.add_secret_facts(|facts| facts.parent_execution_id = row.facts.parent_execution_id);
        let worker_id = Some(request.worker_id.clone());
        self.check_command_holder(request.execution_id, worker_id).await?;
        let definition = match row.facts.catalog_id {
            Some(id) => self.core.load_definition(self.tenant(), id).await?,
            None => return Err(RuntimeError::no_execution()),
        };
        let is_named = definition.entry.content.contains(request.name.as_str());
        if !is_named && !has_dynamic_credential_name(definition.plan.playbook()) {
            let text = format!("the playbook does not name the credential '{}'", request.name);
            return Err(RuntimeError::refused(ErrorCode::Forbidden, text));
        }
        Ok(())
    }

    /// Refuses callers that hold no command of an execution. With `None`, any worker's command
    /// counts.
    pub(super) async fn check_command_holder(
        &self,
        execution_id: ExecutionId,
        worker: Option<WorkerId>,
    ) -> Result<(), RuntimeError> {
        // Only leased commands are queried, because the number of pending ones is unbounded.
        for status in [CommandStatus::Claimed, CommandStatus::Running] {
            let filter = CommandFilter {
                tenant_id: self.tenant().clone(),
                status: CommandStatusFilter::Only(status),
                execution_id: Some(execution_id),
                pool: None,
                worker: worker.clone(),
                after: None,
                limit: PageLimit::MIN,
            };
            let page = self.store().list_commands(filter).await?;
            if page.commands.iter().any(|command| command.lease.is_some()) {
                return Ok(());
            }
        }
        let text = "only a worker that holds a command of the execution may read its credentials";
        Err(RuntimeError::refused(ErrorCode::Forbidden, text))
    }

    pub async fn delete_credential(
        &self,
        key: &str,
    ) -> Result<CredentialDeleteResponse, RuntimeError> {
        let stored = self.load_credential(key).await?;
        let id = stored.credential_id;
        self.store().delete_credential(self.tenant(), id).await?;
        Ok(CredentialDeleteResponse {
            message: format!("the credential '{}' was deleted", stored.name).into(),
            id,
        })
    }

    pub(super) async fn load_credential(&self, key: &str) -> Result<Credential, RuntimeError> {
        let key = match key.parse() {
            Ok(id) => CredentialKey::Id(id),
            Err(_) => CredentialKey::Name(key.into()),
        };
        let found = self.store().find_credential(self.tenant(), &key).await?;
        let not_found =
            || RuntimeError::refused(ErrorCode::NotFound, "there is no such credential");
        let stored = found.ok_or_else(not_found)?;
        self.add_secret_facts(|facts| {
            facts.credential = Some(stored.name.clone());
            facts.key_id = Some(stored.kid.clone());
        });
        Ok(stored)
    }

    pub(super) fn decrypt_credential(
        &self,
        stored: Credential,
    ) -> Result<CredentialView, RuntimeError> {
        let decrypted = self.encryption_keys()?.unwrap_secret(
            &credential_binding(&stored),
            &wrapped_secret_from_json(&stored.sealed)?,
        );
        let decrypted = decrypted.map_err(|error| crypto_failure(&error))?;
        let data =
            parse(decrypted.as_bytes()).map_err(|_| crypto_failure(&CryptoError::Damaged))?;
        Ok(credential_view(stored, Some(data)))
    }

    pub(super) fn encryption_keys(&self) -> Result<&KeyRing, RuntimeError> {
        self.settings().keys.as_deref().ok_or_else(|| {
            let text = "this server has no encryption key, so it cannot store secrets; start it \
                with NOETL_ENCRYPTION_KEY";
            RuntimeError::refused(ErrorCode::NotReady, text)
        })
    }
}

pub(super) fn credential_binding(credential: &Credential) -> RecordBinding<'_> {
    RecordBinding {
        tenant_id: &credential.tenant_id,
        table: CREDENTIAL_TABLE,
        record: credential.credential_id.get(),
        key: None,
        version: credential.version,
    }
}

pub(super) fn wrapped_secret_to_json(wrapped: &WrappedSecret) -> Result<Json, RuntimeError> {
    let text =
        serde_json::to_vec(wrapped).map_err(|_| crypto_failure(&CryptoError::EncryptFailed))?;
    parse(&text).map_err(|_| crypto_failure(&CryptoError::EncryptFailed))
}

pub(super) fn wrapped_secret_from_json(json: &Json) -> Result<WrappedSecret, RuntimeError> {
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

pub(super) fn validation_error(text: impl Into<Text>) -> RuntimeError {
    RuntimeError::refused(ErrorCode::Validation, text)
}

/// Logs the cause of a cryptographic failure for the operator. The caller gets no details.
pub(super) fn crypto_failure(error: &CryptoError) -> RuntimeError {
    tracing::error!(%error, "a secret cannot be encrypted or decrypted");
    match error {
        CryptoError::MissingKey(_) => RuntimeError::refused(ErrorCode::NotReady, error.to_string()),
        CryptoError::UnknownFormat | CryptoError::Damaged | CryptoError::EncryptFailed => {
            RuntimeError::refused(ErrorCode::Internal, "the secret cannot be decrypted")
        }
    }
}
