//! Credentials: sealed when they come, opened for whoever may have them.

use noetl_api::credential::{
    CredentialList, CredentialView, CredentialWish, DeletedCredential, MAX_LISTED, PutCredential,
};
use noetl_store::{
    CommandChoice, CommandFilter, Credential, CredentialFilter, CredentialKey, CredentialPut,
};
use noetl_types::json::{parse, to_canonical};
use noetl_types::limits::PageLimit;
use noetl_types::{
    CommandStatus, CredentialId, ErrorCode, ExecutionId, Json, SecretOperation, Text, WorkerId,
};

use super::classic::asks_with_any;
use super::secret_acts::told_name;
use super::{Runtime, RuntimeError};
use crate::vault::{About, KeyRing, Sealed, VaultError};

/// Bytes of a name.
pub(super) const MAX_NAME: usize = 255;
/// Bytes of a secret, as JSON.
pub(super) const MAX_SECRET: usize = 64 << 10;
/// How often a write is tried that others get in the way of.
pub(super) const TRIES: u32 = 10;
/// The table, as both layers of a seal name it.
const TABLE: &str = "credential";

impl Runtime {
    /// Keeps a credential; one of the same name is replaced.
    pub async fn put_credential(
        &self,
        request: PutCredential,
    ) -> Result<CredentialView, RuntimeError> {
        self.jot(|act| act.credential = Some(told_name(&request.name)));
        let keys = self.keys()?;
        if request.name.is_empty() || request.name.len() > MAX_NAME {
            return Err(invalid(format!("the name has 1 to {MAX_NAME} bytes")));
        }
        // A number names a credential by its id.
        if request.name.parse::<CredentialId>().is_ok() {
            return Err(invalid("a name that is a number would be taken for an id"));
        }
        if request.kind.is_empty() || request.kind.len() > MAX_NAME {
            return Err(invalid(format!("the type has 1 to {MAX_NAME} bytes")));
        }
        let secret = to_canonical(&request.data);
        if secret.len() > MAX_SECRET {
            let text = format!("a secret has at most {MAX_SECRET} bytes");
            return Err(RuntimeError::refused(ErrorCode::TooLarge, text));
        }
        for _ in 0..TRIES {
            let key = CredentialKey::Name(request.name.clone());
            let before = self.store().credential(self.tenant(), &key).await?;
            let now = self.now();
            let mut credential = Credential {
                credential_id: match &before {
                    Some(before) => before.credential_id,
                    None => self.mint()?,
                },
                tenant_id: self.tenant().clone(),
                name: request.name.clone(),
                kind: request.kind.clone(),
                version: before.as_ref().map_or(1, |before| before.version + 1),
                sealed: Json::Null,
                kid: keys.current().kid().clone(),
                meta: request.meta.clone(),
                tags: Json::list(request.tags.iter().cloned().map(Json::from)),
                description: request.description.clone(),
                created_at: before.as_ref().map_or(now, |before| before.created_at),
                updated_at: now,
            };
            let sealed = keys
                .seal(&about(&credential), &secret)
                .map_err(|error| broken(&error))?;
            credential.sealed = sealed_json(&sealed)?;
            let put = CredentialPut {
                credential: credential.clone(),
                replaces: before.map(|before| before.version),
            };
            if self.store().put_credential(put).await? {
                self.jot(|act| act.key_id = Some(credential.kid.clone()));
                return Ok(view(credential, None));
            }
        }
        let text = "others keep writing the credential; try again later";
        Err(RuntimeError::refused(ErrorCode::StoreUnavailable, text))
    }

    /// The credentials, without their secrets.
    pub async fn credentials(
        &self,
        kind: Option<Text>,
        text: Option<Text>,
    ) -> Result<CredentialList, RuntimeError> {
        let mut filter = CredentialFilter {
            kind,
            text,
            ..CredentialFilter::of(self.tenant().clone())
        };
        let mut items = Vec::new();
        // The list is one answer, whatever the pages of the store.
        while items.len() < MAX_LISTED {
            let page = self.store().credentials(filter.clone(), PageLimit::MAX);
            let page = page.await?;
            let Some(last) = page.last() else { break };
            filter.after = Some(last.credential_id);
            items.extend(page.into_iter().map(|found| view(found, None)));
        }
        items.truncate(MAX_LISTED);
        Ok(CredentialList {
            items,
            filter: None,
        })
    }

    /// A credential by its id or its name, without its secret.
    pub async fn credential(&self, key: &str) -> Result<CredentialView, RuntimeError> {
        Ok(view(self.kept_credential(key).await?, None))
    }

    /// A credential with its secret.
    pub async fn reveal_credential(&self, key: &str) -> Result<CredentialView, RuntimeError> {
        let kept = self.kept_credential(key).await?;
        self.opened_view(kept)
    }

    /// The same for a worker that has a command of an execution which names the credential.
    pub async fn lend_credential(
        &self,
        wish: CredentialWish,
    ) -> Result<CredentialView, RuntimeError> {
        self.jot(|act| act.operation = SecretOperation::Lend);
        self.check_lending(&wish).await?;
        let lent = self.reveal_credential(&wish.name).await?;
        self.note_lent(wish.execution_id, Some(&lent.kind), lent.data.as_ref());
        Ok(lent)
    }

    /// Refuses a worker that has no command of an execution which names the credential.
    pub(super) async fn check_lending(&self, wish: &CredentialWish) -> Result<(), RuntimeError> {
        self.jot(|act| {
            act.execution_id = Some(wish.execution_id);
            act.worker_id = Some(wish.worker_id.clone());
        });
        let row = self.execution_row(wish.execution_id).await?;
        self.jot(|act| act.parent_execution_id = row.facts.parent_execution_id);
        let worker_id = Some(wish.worker_id.clone());
        self.check_holder(wish.execution_id, worker_id).await?;
        let definition = match row.facts.catalog_id {
            Some(id) => self.core.definition(self.tenant(), id).await?,
            None => return Err(RuntimeError::no_execution()),
        };
        let is_named = definition.entry.content.contains(wish.name.as_str());
        if !is_named && !asks_with_any(definition.plan.playbook()) {
            let text = format!("the playbook does not name the credential '{}'", wish.name);
            return Err(RuntimeError::refused(ErrorCode::Forbidden, text));
        }
        Ok(())
    }

    /// Refuses who holds no command of an execution; a worker that does not say which one it is
    /// stands for all of them.
    pub(super) async fn check_holder(
        &self,
        execution_id: ExecutionId,
        worker: Option<WorkerId>,
    ) -> Result<(), RuntimeError> {
        // Any number may wait, so it is asked for those alone that somebody holds.
        for status in [CommandStatus::Claimed, CommandStatus::Running] {
            let held = CommandFilter {
                tenant_id: self.tenant().clone(),
                choice: CommandChoice::Only(status),
                execution_id: Some(execution_id),
                pool: None,
                worker: worker.clone(),
                after: None,
                limit: PageLimit::MIN,
            };
            let held = self.store().commands(held).await?;
            if held.commands.iter().any(|held| held.lease.is_some()) {
                return Ok(());
            }
        }
        let text = "a credential is lent to who holds a command of the execution";
        Err(RuntimeError::refused(ErrorCode::Forbidden, text))
    }

    /// Forgets a credential.
    pub async fn delete_credential(&self, key: &str) -> Result<DeletedCredential, RuntimeError> {
        let kept = self.kept_credential(key).await?;
        let id = kept.credential_id;
        self.store().delete_credential(self.tenant(), id).await?;
        Ok(DeletedCredential {
            message: format!("the credential '{}' is gone", kept.name).into(),
            id,
        })
    }

    pub(super) async fn kept_credential(&self, key: &str) -> Result<Credential, RuntimeError> {
        let key = match key.parse() {
            Ok(id) => CredentialKey::Id(id),
            Err(_) => CredentialKey::Name(key.into()),
        };
        let found = self.store().credential(self.tenant(), &key).await?;
        let none = || RuntimeError::refused(ErrorCode::NotFound, "there is no such credential");
        let kept = found.ok_or_else(none)?;
        self.jot(|act| {
            act.credential = Some(kept.name.clone());
            act.key_id = Some(kept.kid.clone());
        });
        Ok(kept)
    }

    pub(super) fn opened_view(&self, kept: Credential) -> Result<CredentialView, RuntimeError> {
        let opened = self.keys()?.open(&about(&kept), &sealed_of(&kept.sealed)?);
        let opened = opened.map_err(|error| broken(&error))?;
        let data = parse(opened.bytes()).map_err(|_| broken(&VaultError::Damaged))?;
        Ok(view(kept, Some(data)))
    }

    pub(super) fn keys(&self) -> Result<&KeyRing, RuntimeError> {
        self.settings().keys.as_deref().ok_or_else(|| {
            let text = "this server has no encryption key, so it keeps no secrets: start it with \
                NOETL_ENCRYPTION_KEY";
            RuntimeError::refused(ErrorCode::NotReady, text)
        })
    }
}

pub(super) fn about(credential: &Credential) -> About<'_> {
    About {
        tenant_id: &credential.tenant_id,
        table: TABLE,
        record: credential.credential_id.get(),
        key: None,
        version: credential.version,
    }
}

pub(super) fn sealed_json(sealed: &Sealed) -> Result<Json, RuntimeError> {
    let text = serde_json::to_vec(sealed).map_err(|_| broken(&VaultError::Cannot))?;
    parse(&text).map_err(|_| broken(&VaultError::Cannot))
}

pub(super) fn sealed_of(sealed: &Json) -> Result<Sealed, RuntimeError> {
    let text = to_canonical(sealed);
    serde_json::from_slice(&text).map_err(|_| broken(&VaultError::Unknown))
}

fn view(kept: Credential, data: Option<Json>) -> CredentialView {
    let tags = kept.tags.as_list().unwrap_or_default().iter();
    CredentialView {
        id: kept.credential_id,
        name: kept.name,
        kind: kept.kind,
        meta: kept.meta,
        tags: tags.filter_map(Json::as_str).map(Text::from).collect(),
        description: kept.description,
        created_at: kept.created_at,
        updated_at: kept.updated_at,
        data,
    }
}

pub(super) fn invalid(text: impl Into<Text>) -> RuntimeError {
    RuntimeError::refused(ErrorCode::Validation, text)
}

/// What is wrong with a seal is for the operator's log; nobody else learns more than that it is so.
pub(super) fn broken(error: &VaultError) -> RuntimeError {
    tracing::error!(%error, "a secret cannot be sealed or opened");
    match error {
        VaultError::NoKey(_) => RuntimeError::refused(ErrorCode::NotReady, error.to_string()),
        VaultError::Unknown | VaultError::Damaged | VaultError::Cannot => {
            RuntimeError::refused(ErrorCode::Internal, "the secret cannot be opened")
        }
    }
}
