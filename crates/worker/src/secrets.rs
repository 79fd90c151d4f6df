//! Secrets of one command: resolved when they are read, and redacted from everything that is sent.
//!
//! Credentials come from the server and are kept while the command runs. They are never written to
//! disk. All resolved secrets are searched for in everything that is reported.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use noetl_api::credential::{CredentialRequest, CredentialView};
use noetl_playbook::command_machine::KeychainEntrySpec;
use noetl_playbook::model::{KeychainKind, Playbook, ToolKind};
use noetl_tools::ToolCall;
use noetl_types::redact::SharedSecretSet;
use noetl_types::{ErrorCode, Json, JsonMap, PlaybookPath, TaskError, TaskErrorKind, Text};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::context::WorkerContext;
use crate::definitions::unavailable_error;

/// Timeout of a token endpoint.
const TOKEN_ENDPOINT_TIMEOUT: Duration = Duration::from_secs(30);

/// Resolves the secrets of one command.
pub(crate) struct SecretResolver {
    context: Arc<WorkerContext>,
    execution_id: noetl_types::ExecutionId,
    /// Secrets that are redacted from everything that is sent.
    pub(crate) secret_set: SharedSecretSet,
    /// Credentials that were fetched.
    credentials: Mutex<BTreeMap<Text, CredentialView>>,
    /// True if the playbook belongs to the platform and may read the secrets of the worker itself.
    is_platform_playbook: AtomicBool,
}

impl SecretResolver {
    pub(crate) fn new(context: Arc<WorkerContext>, execution_id: noetl_types::ExecutionId) -> Self {
        let secret_set = context.secrets.get_or_create(execution_id);
        Self {
            context,
            execution_id,
            secret_set,
            credentials: Mutex::default(),
            is_platform_playbook: AtomicBool::new(false),
        }
    }

    /// Sets the playbook of the command. Only an admin can register playbooks of the platform.
    pub(crate) fn set_playbook(&self, playbook: &Playbook) {
        let path = playbook.metadata.path.as_ref();
        let is_platform = path.is_some_and(|path| path.starts_with(PlaybookPath::SYSTEM_PREFIX));
        self.is_platform_playbook.store(is_platform, Ordering::Relaxed);
    }

    /// Redacts a text.
    pub(crate) fn redact_text(&self, text: String) -> String {
        self.secret_set.current_secrets().redact_text(&text).unwrap_or(text)
    }

    /// Resolves a keychain entry.
    pub(crate) async fn resolve_entry(
        &self,
        spec: KeychainEntrySpec,
        cancel: &CancellationToken,
    ) -> Result<Json, TaskError> {
        if self.is_platform_playbook.load(Ordering::Relaxed)
            && let Some(secret) = self.context.settings.secrets.get(&spec.name)
        {
            return Ok(secret.clone());
        }
        let is_lenient = spec.is_lenient;
        let fields: Vec<Arc<str>> = spec.map.keys().cloned().collect();
        let resolved = self.resolve_entry_data(spec, cancel).await;
        match resolved {
            Err(_) if is_lenient => {
                let fields = fields.into_iter().chain(["token".into()]);
                Ok(Json::object(fields.map(|field| (field, Json::from("")))))
            }
            resolved => resolved,
        }
    }

    async fn resolve_entry_data(
        &self,
        spec: KeychainEntrySpec,
        cancel: &CancellationToken,
    ) -> Result<Json, TaskError> {
        let name = Arc::clone(&spec.name);
        let credential = match &spec.auth {
            Some(auth) => Some(self.resolve_auth(auth.clone()).await?),
            None => None,
        };
        let data = match spec.kind {
            KeychainKind::Static => {
                let token = spec.token.iter().map(|token| ("token".into(), token.clone()));
                Json::from(spec.data.clone().into_iter().chain(token).collect::<JsonMap>())
            }
            KeychainKind::Bearer => match &spec.token {
                Some(token) => Json::object([("token", token.clone())]),
                None => add_token_field(require_credential(credential, &name)?),
            },
            KeychainKind::Credential
            | KeychainKind::PostgresCredential
            | KeychainKind::SecretManager => require_credential(credential, &name)?,
            KeychainKind::Oauth2 => self.request_token(&spec, credential, cancel).await?,
        };
        self.secret_set.add_credential(None, &data);
        map_entry_fields(&name, data, &spec.map)
    }

    /// Requests a token from its endpoint.
    async fn request_token(
        &self,
        spec: &KeychainEntrySpec,
        credential: Option<Json>,
        cancel: &CancellationToken,
    ) -> Result<Json, TaskError> {
        let name = &spec.name;
        let Some(endpoint) = spec.endpoint.clone() else {
            let text = format!("keychain entry '{name}' has no endpoint");
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
        let call = ToolCall {
            kind: ToolKind::Http,
            config,
            input: JsonMap::new(),
            execution_id: self.execution_id.to_string(),
            command: format!("{}:keychain", self.execution_id),
            step: String::new(),
            label: name.to_string(),
            idempotency_key: String::new(),
            attempt: 1,
            timeout: TOKEN_ENDPOINT_TIMEOUT,
            context: Json::empty_map(),
            variables: Json::empty_map(),
        };
        let outcome = self.context.tools.call(None, call, cancel.clone()).await;
        if let Some(error) = outcome.error {
            let text = format!("keychain entry '{name}': {}", error.message);
            return Err(TaskError::new(TaskErrorKind::Auth, text));
        }
        let data = outcome.data.get("data").cloned().unwrap_or(outcome.data);
        if data.get("access_token").and_then(Json::as_str).is_none() {
            let text = format!("keychain entry '{name}': the endpoint returned no access_token");
            return Err(TaskError::new(TaskErrorKind::Auth, text));
        }
        Ok(add_token_field(data))
    }

    /// Resolves `auth`: an alias, or a map that names one, is replaced by the credential.
    pub(crate) async fn resolve_auth(&self, auth: Json) -> Result<Json, TaskError> {
        if let Some(alias) = auth.as_str() {
            return self.resolve_credential(alias).await;
        }
        let source = auth.get("source").and_then(Json::as_str);
        match (source, auth.get("key").and_then(Json::as_str)) {
            (Some("credential"), Some(alias)) => self.resolve_credential(alias).await,
            (Some("credential"), None) => Err(TaskError::new(
                TaskErrorKind::Auth,
                "'auth' with source 'credential' needs the alias in 'key'",
            )),
            _ => Ok(auth),
        }
    }

    /// The fields of a credential, with its type.
    async fn resolve_credential(&self, alias: &str) -> Result<Json, TaskError> {
        let alias = Text::from(alias);
        let mut cached = self.credentials.lock().await;
        let credential = if let Some(credential) = cached.get(&alias) {
            credential.clone()
        } else {
            let credential = self.fetch_credential(&alias).await?;
            if let Some(data) = &credential.data {
                self.secret_set.add_credential(Some(&credential.kind), data);
            }
            cached.insert(alias.clone(), credential.clone());
            credential
        };
        drop(cached);
        let mut fields = match credential.data {
            Some(Json::Map(fields)) => Arc::unwrap_or_clone(fields),
            Some(other) => JsonMap::from([("secret".into(), other)]),
            None => JsonMap::new(),
        };
        fields.entry("type".into()).or_insert_with(|| Json::from(credential.kind.as_str()));
        Ok(Json::from(fields))
    }

    async fn fetch_credential(&self, alias: &Text) -> Result<CredentialView, TaskError> {
        let request = || CredentialRequest {
            name: alias.clone(),
            execution_id: self.execution_id,
            worker_id: self.context.settings.worker_id.clone(),
        };
        let definitions = &self.context.definitions;
        let credential =
            definitions.with_retries(|| self.context.api.fetch_credential(request())).await;
        credential.map_err(|error| match error.code() {
            Some(ErrorCode::NotFound) => TaskError::new(
                TaskErrorKind::Auth,
                format!(
                    "there is no credential '{alias}'; create it with `noetl secret set {alias}`"
                ),
            ),
            Some(ErrorCode::Forbidden | ErrorCode::Unauthenticated) => TaskError::new(
                TaskErrorKind::Auth,
                format!("this worker may not use the credential '{alias}': {error}"),
            ),
            Some(_) | None => unavailable_error(&format!("the credential '{alias}'"), &error),
        })
    }
}

fn require_credential(credential: Option<Json>, name: &str) -> Result<Json, TaskError> {
    credential.ok_or_else(|| {
        let text = format!("keychain entry '{name}' has no credential in 'auth'");
        TaskError::new(TaskErrorKind::Auth, text)
    })
}

/// Adds the field `token`, if the token has another name.
fn add_token_field(data: Json) -> Json {
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

/// The fields that an entry maps, each from its path in the data. All fields if it maps none.
fn map_entry_fields(name: &str, data: Json, map: &JsonMap) -> Result<Json, TaskError> {
    if map.is_empty() {
        return Ok(data);
    }
    let field = |(field, source): (&Arc<str>, &Json)| {
        let Some(path) = source.as_str() else {
            return Ok((Arc::clone(field), source.clone()));
        };
        let path = path.trim_start_matches("$.");
        let value = path.split('.').try_fold(&data, |value, key| value.get(key));
        let value = value.cloned().ok_or_else(|| {
            let text = format!("keychain entry '{name}': there is nothing at '{path}'");
            TaskError::new(TaskErrorKind::Auth, text)
        })?;
        Ok((Arc::clone(field), value))
    };
    let fields = map.iter().map(field).collect::<Result<JsonMap, TaskError>>();
    Ok(Json::from(fields?))
}
