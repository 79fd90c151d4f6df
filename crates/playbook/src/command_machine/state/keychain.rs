//! Keychain entries, rendered as far as possible without resolving secrets.

use std::sync::Arc;

use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};

use super::{CommandState, RenderFailure};
use crate::command_machine::environment::TaskEnvironment;
use crate::model::{KeychainKind, KeychainMode};
use crate::template::FetchNeed;

/// Maximum depth of keychain entries that refer to each other.
const MAX_KEYCHAIN_DEPTH: usize = 8;

/// A keychain entry to resolve, with everything rendered.
#[derive(Clone, PartialEq)]
pub struct KeychainEntrySpec {
    /// Its name.
    pub name: Arc<str>,
    /// Source of the entry.
    pub kind: KeychainKind,
    /// The credential to authenticate with.
    pub auth: Option<Json>,
    /// A literal token.
    pub token: Option<Json>,
    /// Endpoint that issues the token.
    pub endpoint: Option<Json>,
    /// HTTP method of the request.
    pub method: Option<Arc<str>>,
    /// Headers of the request.
    pub headers: JsonMap,
    /// Form of the request.
    pub data: JsonMap,
    /// Fields and the paths of their values.
    pub map: JsonMap,
    /// True if the entry is empty when it cannot be resolved.
    pub is_lenient: bool,
}

/// The values may be secret.
impl std::fmt::Debug for KeychainEntrySpec {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("KeychainEntrySpec")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// Reasons why an entry cannot be rendered.
pub(in crate::command_machine) enum EntryError {
    /// Its templates read this payload, which must be fetched first.
    Payload(Arc<str>),
    /// A permanent error.
    Failed(TaskError),
}

impl CommandState {
    /// The spec of the entry to resolve next: the entry itself, or one that it refers to.
    pub(in crate::command_machine) fn next_entry_spec(
        &self,
        name: &Arc<str>,
    ) -> Result<KeychainEntrySpec, EntryError> {
        let mut name = Arc::clone(name);
        for _ in 0..MAX_KEYCHAIN_DEPTH {
            match self.render_entry(&name) {
                Ok(spec) => return Ok(spec),
                Err(RenderFailure::Needs(FetchNeed::Secret { name: other })) => name = other,
                Err(RenderFailure::Needs(FetchNeed::Payload { reference })) => {
                    return Err(EntryError::Payload(reference));
                }
                Err(RenderFailure::Failed(error)) => return Err(EntryError::Failed(error)),
            }
        }
        Err(EntryError::Failed(auth_error(format!("keychain entry '{name}' refers to itself"))))
    }

    fn render_entry(&self, name: &str) -> Result<KeychainEntrySpec, RenderFailure> {
        let mut entries = self.playbook.keychain.iter();
        let Some(entry) = entries.find(|entry| &*entry.name.value == name) else {
            let error = auth_error(format!("keychain entry '{name}' is not declared"));
            return Err(RenderFailure::Failed(error));
        };
        // An entry belongs to no task.
        let environment = TaskEnvironment {
            command: &self.data,
            label: "",
            idempotency_key: &self.idempotency_key,
            attempt: self.attempt,
            input: None,
            output: None,
            error: Json::Null,
            completed: None,
        };
        let render = |value: &Option<_>| {
            value.as_ref().map(|value| self.render_value(value, &environment)).transpose()
        };
        let auth = entry.auth.as_ref().map(|auth| self.render_auth(auth, &environment));
        let mode = self.playbook.executor.spec.policy.keychain;
        Ok(KeychainEntrySpec {
            name: Arc::clone(&entry.name.value),
            kind: entry.kind,
            auth: auth.transpose()?,
            token: render(&entry.token)?,
            endpoint: render(&entry.endpoint)?,
            method: entry.method.clone(),
            headers: self.render_fields(&entry.headers, &environment)?,
            data: self.render_fields(&entry.data, &environment)?,
            map: self.render_fields(&entry.map, &environment)?,
            is_lenient: mode == KeychainMode::Lenient,
        })
    }
}

fn auth_error(message: String) -> TaskError {
    TaskError::new(TaskErrorKind::Auth, message)
}
