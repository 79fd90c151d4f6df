//! Secrets of one command: resolved when they are read, and hidden in all that leaves.
//!
//! A credential comes from the server, for as long as the command runs; nothing of it is written
//! down. Whatever was resolved is looked for in everything that is reported.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use noetl_api::credential::{CredentialView, CredentialWish};
use noetl_playbook::model::{KeychainKind, Playbook, ToolKind};
use noetl_playbook::shift::EntrySpec;
use noetl_tools::Call;
use noetl_types::redact::Hidden;
use noetl_types::{ErrorCode, Json, JsonMap, PlaybookPath, TaskError, TaskErrorKind, Text};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::library::unavailable;
use crate::shop::Shop;

/// How long a token endpoint may take.
const TOKEN_PATIENCE: Duration = Duration::from_secs(30);

/// The secrets of one command.
pub(crate) struct Locker {
    shop: Arc<Shop>,
    execution_id: noetl_types::ExecutionId,
    /// What must not be seen.
    pub(crate) hidden: Hidden,
    /// Credentials that were read.
    read: Mutex<BTreeMap<Text, CredentialView>>,
    /// Whether the playbook is the platform's own, which may read what the worker itself was given.
    is_of_platform: AtomicBool,
}

impl Locker {
    pub(crate) fn new(shop: Arc<Shop>, execution_id: noetl_types::ExecutionId) -> Self {
        let hidden = shop.secrets.of(execution_id);
        Self {
            shop,
            execution_id,
            hidden,
            read: Mutex::default(),
            is_of_platform: AtomicBool::new(false),
        }
    }

    /// Says which playbook is run. Only an admin registers playbooks of the platform.
    pub(crate) fn opens_for(&self, playbook: &Playbook) {
        let path = playbook.metadata.path.as_ref();
        let is_of_platform = path.is_some_and(|path| path.starts_with(PlaybookPath::PLATFORM));
        self.is_of_platform.store(is_of_platform, Ordering::Relaxed);
    }

    /// A text as others may see it.
    pub(crate) fn shown(&self, text: String) -> String {
        self.hidden.known().hidden_in(&text).unwrap_or(text)
    }

    /// Resolves an entry of the keychain.
    pub(crate) async fn entry(
        &self,
        spec: EntrySpec,
        cancel: &CancellationToken,
    ) -> Result<Json, TaskError> {
        if self.is_of_platform.load(Ordering::Relaxed)
            && let Some(own) = self.shop.settings.secrets.get(&spec.name)
        {
            return Ok(own.clone());
        }
        let is_lenient = spec.is_lenient;
        let fields: Vec<Arc<str>> = spec.map.keys().cloned().collect();
        let resolved = self.resolved(spec, cancel).await;
        match resolved {
            Err(_) if is_lenient => {
                let fields = fields.into_iter().chain(["token".into()]);
                Ok(Json::object(fields.map(|field| (field, Json::from("")))))
            }
            resolved => resolved,
        }
    }

    async fn resolved(
        &self,
        spec: EntrySpec,
        cancel: &CancellationToken,
    ) -> Result<Json, TaskError> {
        let name = Arc::clone(&spec.name);
        if let Some(provider) = &spec.provider {
            let text = format!(
                "keychain entry '{name}': the secret service '{provider}' is not supported by this \
                 build; keep the secret as a credential"
            );
            return Err(TaskError::new(TaskErrorKind::Unsupported, text));
        }
        let credential = match &spec.auth {
            Some(auth) => Some(self.auth(auth.clone()).await?),
            None => None,
        };
        let data = match spec.kind {
            KeychainKind::Static => Json::from(spec.data.clone()),
            KeychainKind::Bearer => match &spec.token {
                Some(token) => Json::object([("token", token.clone())]),
                None => with_token(needed(credential, &name)?),
            },
            KeychainKind::Credential
            | KeychainKind::PostgresCredential
            | KeychainKind::SecretManager => needed(credential, &name)?,
            KeychainKind::Oauth2 => self.token(&spec, credential, cancel).await?,
            KeychainKind::GoogleIdToken => {
                let text = format!("keychain entry '{name}': this build asks no Google service");
                return Err(TaskError::new(TaskErrorKind::Unsupported, text));
            }
        };
        self.hidden.add_for_run(None, &data);
        mapped(&name, data, &spec.map)
    }

    /// Asks a token endpoint.
    async fn token(
        &self,
        spec: &EntrySpec,
        credential: Option<Json>,
        cancel: &CancellationToken,
    ) -> Result<Json, TaskError> {
        let name = &spec.name;
        let Some(endpoint) = spec.endpoint.clone() else {
            let text = format!("keychain entry '{name}' names no endpoint");
            return Err(TaskError::new(TaskErrorKind::Auth, text));
        };
        let mut form = spec.data.clone();
        if let Some(fields) = credential.as_ref().and_then(Json::as_map) {
            for (key, value) in fields {
                form.entry(Arc::clone(key)).or_insert_with(|| value.clone());
            }
        }
        let method = spec.method.as_deref().unwrap_or("POST");
        let config = JsonMap::from([
            ("url".into(), endpoint),
            ("method".into(), Json::from(method)),
            ("headers".into(), Json::from(spec.headers.clone())),
            ("form".into(), Json::from(form)),
        ]);
        let call = Call {
            kind: ToolKind::Http,
            config,
            input: JsonMap::new(),
            execution_id: self.execution_id.to_string(),
            command: format!("{}:keychain", self.execution_id),
            step: String::new(),
            label: name.to_string(),
            idempotency_key: String::new(),
            attempt: 1,
            timeout: TOKEN_PATIENCE,
            context: Json::empty_map(),
            variables: Json::empty_map(),
        };
        let answer = self.shop.tools.call(None, call, cancel.clone()).await;
        if let Some(error) = answer.error {
            let text = format!("keychain entry '{name}': {}", error.message);
            return Err(TaskError::new(TaskErrorKind::Auth, text));
        }
        let data = answer.data.get("data").cloned().unwrap_or(answer.data);
        if data.get("access_token").and_then(Json::as_str).is_none() {
            let text = format!("keychain entry '{name}': the endpoint gave no access_token");
            return Err(TaskError::new(TaskErrorKind::Auth, text));
        }
        Ok(with_token(data))
    }

    /// What a task asks with: an alias and a map that names one become the credential itself.
    pub(crate) async fn auth(&self, auth: Json) -> Result<Json, TaskError> {
        if let Some(alias) = auth.as_str() {
            return self.credential(alias).await;
        }
        let source = auth.get("source").and_then(Json::as_str);
        match (source, auth.get("key").and_then(Json::as_str)) {
            (Some("credential"), Some(alias)) => self.credential(alias).await,
            (Some("credential"), None) => Err(TaskError::new(
                TaskErrorKind::Auth,
                "'auth' with source 'credential' needs the alias in 'key'",
            )),
            _ => Ok(auth),
        }
    }

    /// The fields of a credential, with its type.
    async fn credential(&self, alias: &str) -> Result<Json, TaskError> {
        let alias = Text::from(alias);
        let mut read = self.read.lock().await;
        let found = if let Some(found) = read.get(&alias) {
            found.clone()
        } else {
            let found = self.fetched(&alias).await?;
            if let Some(data) = &found.data {
                self.hidden.add_for_run(Some(&found.kind), data);
            }
            read.insert(alias.clone(), found.clone());
            found
        };
        drop(read);
        let mut fields = match found.data {
            Some(Json::Map(fields)) => Arc::unwrap_or_clone(fields),
            Some(other) => JsonMap::from([("secret".into(), other)]),
            None => JsonMap::new(),
        };
        fields
            .entry("type".into())
            .or_insert_with(|| Json::from(found.kind.as_str()));
        Ok(Json::from(fields))
    }

    async fn fetched(&self, alias: &Text) -> Result<CredentialView, TaskError> {
        let wish = || CredentialWish {
            name: alias.clone(),
            execution_id: self.execution_id,
            worker_id: self.shop.settings.worker_id.clone(),
        };
        let library = &self.shop.library;
        let found = library.patiently(|| self.shop.api.credential(wish())).await;
        found.map_err(|error| match error.code() {
            Some(ErrorCode::NotFound) => TaskError::new(
                TaskErrorKind::Auth,
                format!("there is no credential '{alias}': `noetl secret set {alias}` makes one"),
            ),
            Some(ErrorCode::Forbidden | ErrorCode::Unauthenticated) => TaskError::new(
                TaskErrorKind::Auth,
                format!("the credential '{alias}' is not for this worker: {error}"),
            ),
            Some(_) | None => unavailable(&format!("the credential '{alias}'"), &error),
        })
    }
}

fn needed(credential: Option<Json>, name: &str) -> Result<Json, TaskError> {
    credential.ok_or_else(|| {
        let text = format!("keychain entry '{name}' names no credential in 'auth'");
        TaskError::new(TaskErrorKind::Auth, text)
    })
}

/// A token goes by several names; `token` is one of them in any case.
fn with_token(data: Json) -> Json {
    let Json::Map(fields) = data else {
        return data;
    };
    let mut fields = Arc::unwrap_or_clone(fields);
    let names = ["token", "access_token", "bearer_token", "secret"];
    let token = names.iter().find_map(|name| fields.get(*name)).cloned();
    if let Some(token) = token {
        fields.entry("token".into()).or_insert(token);
    }
    Json::from(fields)
}

/// The fields that an entry names, each from its place in the data; all of them where it names none.
fn mapped(name: &str, data: Json, map: &JsonMap) -> Result<Json, TaskError> {
    if map.is_empty() {
        return Ok(data);
    }
    let field = |(field, place): (&Arc<str>, &Json)| {
        let Some(path) = place.as_str() else {
            return Ok((Arc::clone(field), place.clone()));
        };
        let path = path.trim_start_matches("$.");
        let found = path.split('.').try_fold(&data, |value, key| value.get(key));
        let found = found.cloned().ok_or_else(|| {
            let text = format!("keychain entry '{name}': there is nothing at '{path}'");
            TaskError::new(TaskErrorKind::Auth, text)
        })?;
        Ok((Arc::clone(field), found))
    };
    let fields = map
        .iter()
        .map(field)
        .collect::<Result<JsonMap, TaskError>>();
    Ok(Json::from(fields?))
}
