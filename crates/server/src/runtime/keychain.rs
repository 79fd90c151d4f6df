//! The cache of the keychain: what workers resolved for a definition, sealed, for a while.

use noetl_api::keychain::{
    KeychainAbout, KeychainDeleted, KeychainItem, KeychainKept, KeychainList, KeychainStatus,
    KeychainView, PutKeychain,
};
use noetl_store::{
    CatalogKey, Execution, KeychainEntry, KeychainFilter, KeychainPut, KeychainScope,
};
use noetl_types::json::{parse, to_canonical};
use noetl_types::limits::PageLimit;
use noetl_types::{
    CatalogId, ErrorCode, ExecutionId, Json, KeychainId, Millis, Text, Timestamp, WorkerId,
};

use super::credentials::{MAX_NAME, MAX_SECRET, TRIES, broken, invalid, sealed_json, sealed_of};
use super::{Runtime, RuntimeError};
use crate::vault::{About, VaultError};

/// How long something is kept where nobody says so.
const USUAL_TIME: Millis = Millis::from_secs(600);
/// How long anything is kept.
const LONGEST_TIME: Millis = Millis::from_days(30);
/// The table, as both layers of a seal name it.
const TABLE: &str = "keychain";
/// Both parts of what is sealed.
const DATA: &str = "data";
const RENEW_CONFIG: &str = "renew_config";

/// Which entry is meant.
#[derive(Debug, Clone)]
pub(crate) struct KeychainKey {
    /// The definition.
    pub(crate) catalog_id: CatalogId,
    /// The name in it.
    pub(crate) name: Text,
    /// Who shares it.
    pub(crate) scope: KeychainScope,
    /// The run that it is for.
    pub(crate) execution_id: Option<ExecutionId>,
}

/// Who asks for an entry, or for a change of one.
#[derive(Debug, Clone)]
pub(crate) enum KeychainCaller {
    /// An admin of secrets, who is shown them and may change them.
    Admin,
    /// A worker, which has to do with what a run of the definition needs while it works on it.
    Worker(Option<WorkerId>),
    /// Somebody who may know that it is there.
    Onlooker,
}

impl KeychainCaller {
    fn worker(&self) -> Option<&WorkerId> {
        match self {
            Self::Worker(worker) => worker.as_ref(),
            Self::Admin | Self::Onlooker => None,
        }
    }
}

impl KeychainKey {
    /// The key in its tenant, in the spelling of earlier releases.
    fn text(&self) -> Text {
        let Self {
            catalog_id, name, ..
        } = self;
        let whose = match (self.scope, self.bound_to()) {
            (KeychainScope::Local, Some(execution_id)) => execution_id.to_string(),
            (KeychainScope::Shared, Some(execution_id)) => format!("shared:{execution_id}"),
            (scope, _) => scope.as_str().to_owned(),
        };
        format!("{name}:{catalog_id}:{whose}").into()
    }

    /// The run that it is for; what is global is for all of them.
    fn bound_to(&self) -> Option<ExecutionId> {
        self.execution_id
            .filter(|_| self.scope != KeychainScope::Global)
    }

    /// The same for another run, or for none in particular.
    fn bound(&self, execution_id: Option<ExecutionId>) -> Self {
        Self {
            execution_id,
            ..self.clone()
        }
    }
}

impl Runtime {
    /// Keeps an entry; one of the same key is replaced.
    pub(crate) async fn put_keychain(
        &self,
        key: KeychainKey,
        request: PutKeychain,
        caller: KeychainCaller,
    ) -> Result<KeychainKept, RuntimeError> {
        self.jot(|act| act.execution_id = key.execution_id);
        let keys = self.keys()?;
        self.check_definition(key.catalog_id).await?;
        self.check_writer(&key, caller).await?;
        if key.name.is_empty() || key.name.len() > MAX_NAME {
            return Err(invalid(format!("the name has 1 to {MAX_NAME} bytes")));
        }
        if let Some(execution_id) = key.bound_to() {
            self.execution_row(execution_id).await?;
        }
        let (now, auto_renew) = (self.now(), request.auto_renew.unwrap_or(false));
        let expires_at = end_of(&request, now)?;
        let renew_config = request.renew_config.unwrap_or(Json::Null);
        let secret = Json::object([(DATA, request.data.clone()), (RENEW_CONFIG, renew_config)]);
        let secret = to_canonical(&secret);
        if secret.len() > MAX_SECRET {
            let text = format!("a secret has at most {MAX_SECRET} bytes");
            return Err(RuntimeError::refused(ErrorCode::TooLarge, text));
        }
        if let Some(run) = key.execution_id {
            self.note_lent(run, None, Some(&request.data));
        }
        let cache_key = key.text();
        for _ in 0..TRIES {
            let before = self.store().keychain_entry(self.tenant(), &cache_key);
            let before = before.await?;
            let mut entry = KeychainEntry {
                keychain_id: match &before {
                    Some(before) => before.keychain_id,
                    None => self.mint()?,
                },
                tenant_id: self.tenant().clone(),
                cache_key: cache_key.clone(),
                name: key.name.clone(),
                catalog_id: key.catalog_id,
                scope: key.scope,
                execution_id: key.bound_to(),
                version: before.as_ref().map_or(1, |before| before.version + 1),
                sealed: Json::Null,
                kid: keys.current().kid().clone(),
                auto_renew,
                created_at: before.as_ref().map_or(now, |before| before.created_at),
                updated_at: now,
                expires_at,
            };
            let sealed = keys.seal(&about(&entry), &secret);
            entry.sealed = sealed_json(&sealed.map_err(|error| broken(&error))?)?;
            let put = KeychainPut {
                entry,
                replaces: before.map(|before| before.version),
            };
            if self.store().put_keychain(put).await? {
                self.jot(|act| act.key_id = Some(keys.current().kid().clone()));
                return Ok(KeychainKept {
                    status: "success".into(),
                    cache_key,
                    expires_at,
                });
            }
        }
        let text = "others keep writing the entry; try again later";
        Err(RuntimeError::refused(ErrorCode::StoreUnavailable, text))
    }

    /// An entry, with its data for who may have it.
    pub(crate) async fn keychain(
        &self,
        key: &KeychainKey,
        caller: KeychainCaller,
    ) -> Result<KeychainView, RuntimeError> {
        self.jot(|act| {
            act.execution_id = key.execution_id;
            act.worker_id = caller.worker().cloned();
        });
        self.check_definition(key.catalog_id).await?;
        let is_opened = match caller {
            KeychainCaller::Admin => true,
            KeychainCaller::Worker(worker) => {
                self.check_borrower(key, worker).await?;
                true
            }
            KeychainCaller::Onlooker => false,
        };
        let Some(entry) = self.nearest(key).await? else {
            return Ok(KeychainView {
                status: KeychainStatus::NotFound,
                cache_key: key.text(),
                data: None,
                renew_config: None,
                about: None,
            });
        };
        self.jot(|act| act.key_id = Some(entry.kid.clone()));
        let is_over = entry.expires_at <= self.now();
        let (data, renew_config) = if is_opened {
            self.opened_entry(&entry)?
        } else {
            (None, None)
        };
        if let Some(run) = key.execution_id {
            self.note_lent(run, None, data.as_ref());
        }
        Ok(KeychainView {
            status: if is_over {
                KeychainStatus::Expired
            } else {
                KeychainStatus::Found
            },
            cache_key: entry.cache_key.clone(),
            data: data.filter(|_| !is_over),
            renew_config,
            about: Some(told(entry)),
        })
    }

    /// The entries of a definition, without their data.
    pub(crate) async fn keychain_of(
        &self,
        catalog_id: CatalogId,
        limit: PageLimit,
        cursor: Option<Text>,
    ) -> Result<KeychainList, RuntimeError> {
        let after = cursor
            .map(|cursor| cursor.parse::<KeychainId>())
            .transpose();
        let after = after.map_err(|_| {
            let text = "the cursor is not one that this list gave";
            RuntimeError::refused(ErrorCode::BadQuery, text)
        })?;
        self.check_definition(catalog_id).await?;
        let filter = KeychainFilter {
            tenant_id: Some(self.tenant().clone()),
            catalog_id: Some(catalog_id),
            not_under: None,
            after,
        };
        let page = self.store().keychain_entries(filter, limit).await?;
        let count = u32::try_from(page.len()).unwrap_or(u32::MAX);
        let last = page.last().map(|last| last.keychain_id.to_string().into());
        let now = self.now();
        let item = |entry: KeychainEntry| KeychainItem {
            cache_key: entry.cache_key.clone(),
            is_expired: entry.expires_at <= now,
            about: told(entry),
        };
        Ok(KeychainList {
            catalog_id,
            entries: page.into_iter().map(item).collect(),
            count,
            next_cursor: last.filter(|_| count == limit.get()),
        })
    }

    /// Forgets an entry.
    pub(crate) async fn delete_keychain(
        &self,
        key: &KeychainKey,
        caller: KeychainCaller,
    ) -> Result<KeychainDeleted, RuntimeError> {
        self.jot(|act| act.execution_id = key.execution_id);
        self.check_definition(key.catalog_id).await?;
        self.check_writer(key, caller).await?;
        let cache_key = key.text();
        let deleted = self.store().delete_keychain(self.tenant(), &cache_key);
        let status = if deleted.await? {
            "deleted"
        } else {
            "not_found"
        };
        Ok(KeychainDeleted {
            status: status.into(),
            cache_key,
        })
    }

    /// A definition of somebody else is none, and so is one at a path that the caller is not bound to.
    async fn check_definition(&self, catalog_id: CatalogId) -> Result<(), RuntimeError> {
        let key = CatalogKey::Id(catalog_id);
        let found = self.store().catalog_entry(self.tenant(), key).await?;
        let found = found.filter(|entry| self.behalf().sees(Some(&entry.path)));
        let none = || RuntimeError::refused(ErrorCode::NotFound, "there is no such definition");
        found.map(drop).ok_or_else(none)
    }

    /// The entry that is meant by a key: that of its run, else what the root of the run shares, else
    /// what is for no run in particular. What is over counts only where there is nothing better.
    async fn nearest(&self, key: &KeychainKey) -> Result<Option<KeychainEntry>, RuntimeError> {
        let mut places = vec![key.text()];
        if let Some(execution_id) = key.bound_to() {
            if key.scope == KeychainScope::Shared {
                let row = self.execution_row(execution_id).await?;
                let root = self.root_of(&row).await?;
                places.extend(root.map(|root| key.bound(Some(root.execution_id)).text()));
            }
            places.push(key.bound(None).text());
        }
        let mut over = None;
        for place in places {
            match self.store().keychain_entry(self.tenant(), &place).await? {
                Some(entry) if entry.expires_at > self.now() => return Ok(Some(entry)),
                found => over = over.or(found),
            }
        }
        Ok(over)
    }

    /// The run that a tree of runs began with, unless that is the run itself or one that the caller
    /// does not work for.
    async fn root_of(&self, run: &Execution) -> Result<Option<Execution>, RuntimeError> {
        let Some(root) = run.facts.root_execution_id else {
            return Ok(None);
        };
        match self.execution_row(root).await {
            Ok(root) => Ok(Some(root)),
            Err(RuntimeError::Refused(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A worker changes only what is kept for a definition of which it works on a run.
    async fn check_writer(
        &self,
        key: &KeychainKey,
        caller: KeychainCaller,
    ) -> Result<(), RuntimeError> {
        match caller {
            KeychainCaller::Admin => Ok(()),
            KeychainCaller::Worker(worker) => {
                let run = self.held_run(key, worker).await?;
                if run.facts.catalog_id == Some(key.catalog_id) {
                    return Ok(());
                }
                Err(other_definition())
            }
            KeychainCaller::Onlooker => {
                let text = "what workers resolved is changed by them, and by who has cred:admin";
                Err(RuntimeError::refused(ErrorCode::Forbidden, text))
            }
        }
    }

    /// A worker borrows for a run of the definition, and what its root shares for any run below.
    async fn check_borrower(
        &self,
        key: &KeychainKey,
        worker: Option<WorkerId>,
    ) -> Result<(), RuntimeError> {
        let run = self.held_run(key, worker).await?;
        if run.facts.catalog_id == Some(key.catalog_id) {
            return Ok(());
        }
        if key.scope == KeychainScope::Shared {
            let root = self.root_of(&run).await?;
            if root.is_some_and(|root| root.facts.catalog_id == Some(key.catalog_id)) {
                return Ok(());
            }
        }
        Err(other_definition())
    }

    /// The run that a worker names, of which it has to hold a command.
    async fn held_run(
        &self,
        key: &KeychainKey,
        worker: Option<WorkerId>,
    ) -> Result<Execution, RuntimeError> {
        let Some(execution_id) = key.execution_id else {
            let text = "what is kept is for a worker that names its execution_id, and for who has \
                the scope cred:admin";
            return Err(RuntimeError::refused(ErrorCode::Forbidden, text));
        };
        let run = self.execution_row(execution_id).await?;
        self.check_holder(execution_id, worker).await?;
        Ok(run)
    }

    fn opened_entry(
        &self,
        entry: &KeychainEntry,
    ) -> Result<(Option<Json>, Option<Json>), RuntimeError> {
        let sealed = sealed_of(&entry.sealed)?;
        let opened = self.keys()?.open(&about(entry), &sealed);
        let opened = opened.map_err(|error| broken(&error))?;
        let opened = parse(opened.bytes()).map_err(|_| broken(&VaultError::Damaged))?;
        let part = |name: &str| opened.get(name).cloned();
        let renew_config = part(RENEW_CONFIG).filter(|config| !config.is_null());
        Ok((part(DATA), renew_config))
    }
}

fn other_definition() -> RuntimeError {
    let text = "the execution does not run this definition, so nothing of it is lent or kept";
    RuntimeError::refused(ErrorCode::Forbidden, text)
}

/// When an entry is over: nothing is kept for longer than the longest time.
fn end_of(request: &PutKeychain, now: Timestamp) -> Result<Timestamp, RuntimeError> {
    let expires_at = request.expires_at.as_deref().map(Timestamp::parse_lenient);
    let expires_at = expires_at.transpose();
    let expires_at = expires_at.map_err(|error| invalid(format!("expires_at: {error}")))?;
    let seconds = request.expires_in.map(Millis::from_secs);
    let end = match expires_at.flatten() {
        Some(expires_at) => expires_at,
        None => now.saturating_add(seconds.unwrap_or(USUAL_TIME)),
    };
    Ok(end.min(now.saturating_add(LONGEST_TIME)))
}

pub(super) fn about(entry: &KeychainEntry) -> About<'_> {
    About {
        tenant_id: &entry.tenant_id,
        table: TABLE,
        record: entry.keychain_id.get(),
        key: Some(&entry.cache_key),
        version: entry.version,
    }
}

fn told(entry: KeychainEntry) -> KeychainAbout {
    KeychainAbout {
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
