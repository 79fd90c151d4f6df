//! Keychain entries, rendered as far as possible without resolving secrets.

use std::sync::Arc;

use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};

use super::state::{CommandState, FetchTarget, RenderFailure};
use crate::model::{KeychainEntry, KeychainKind, KeychainMode};

/// Maximum depth of keychain entries that refer to each other.
const MAX_KEYCHAIN_DEPTH: usize = 8;

/// A keychain entry to resolve, with everything rendered.
#[derive(Clone, PartialEq)]
pub struct KeychainEntrySpec {
    /// Its name.
    pub name: Arc<str>,
    /// Source of the entry.
    pub kind: KeychainKind,
    /// The secret service that stores it.
    pub provider: Option<Arc<str>>,
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
pub(super) enum EntryError {
    /// Its templates read this payload, which must be fetched first.
    Payload(Arc<str>),
    /// A permanent error.
    Permanent(TaskError),
}

impl CommandState {
    /// The spec of the entry to resolve next: the entry itself, or one that it refers to.
    pub(super) fn next_entry_spec(&self, name: &Arc<str>) -> Result<KeychainEntrySpec, EntryError> {
        let mut name = Arc::clone(name);
        for _ in 0..MAX_KEYCHAIN_DEPTH {
            match self.render_entry(&name) {
                Ok(spec) => return Ok(spec),
                Err(RenderFailure::Needs(FetchTarget::Secret(other))) => name = other,
                Err(RenderFailure::Needs(FetchTarget::Payload(uri))) => {
                    return Err(EntryError::Payload(uri));
                }
                Err(RenderFailure::Failed(error)) => return Err(EntryError::Permanent(error)),
            }
        }
        let message = format!("keychain entry '{name}' refers to itself");
        Err(EntryError::Permanent(TaskError::new(TaskErrorKind::Auth, message)))
    }

    fn render_entry(&self, name: &str) -> Result<KeychainEntrySpec, RenderFailure> {
        let mut entries = self.playbook.keychain.iter();
        let Some(entry) = entries.find(|entry| &*entry.name.value == name) else {
            let message = format!("keychain entry '{name}' is not declared");
            return Err(RenderFailure::Failed(TaskError::new(TaskErrorKind::Auth, message)));
        };
        let KeychainEntry { auth, token, endpoint, .. } = entry;
        let render = |value: &Option<_>| {
            value.as_ref().map(|value| self.render_entry_value(value)).transpose()
        };
        let mode = self.playbook.executor.spec.policy.keychain;
        Ok(KeychainEntrySpec {
            name: Arc::clone(&entry.name.value),
            kind: entry.kind,
            provider: entry.provider.clone(),
            auth: auth.as_ref().map(|auth| self.render_entry_auth(auth)).transpose()?,
            token: render(token)?,
            endpoint: render(endpoint)?,
            method: entry.method.clone(),
            headers: self.render_entry_fields(&entry.headers)?,
            data: self.render_entry_fields(&entry.data)?,
            map: self.render_entry_fields(&entry.map)?,
            is_lenient: mode == KeychainMode::Lenient,
        })
    }
}
