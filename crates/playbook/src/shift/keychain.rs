//! Entries of the keychain, as far as they can be told without asking anybody.

use std::sync::Arc;

use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};

use super::work::{Stuck, Want, Work};
use crate::model::{KeychainEntry, KeychainKind, KeychainMode};

/// How many entries may lead to each other.
const DEEPEST: usize = 8;

/// An entry of the keychain that is to be resolved, everything rendered.
#[derive(Clone, PartialEq)]
pub struct EntrySpec {
    /// Its name.
    pub name: Arc<str>,
    /// Where it comes from.
    pub kind: KeychainKind,
    /// The service that keeps it.
    pub provider: Option<Arc<str>>,
    /// The credential to ask with.
    pub auth: Option<Json>,
    /// A token as it is.
    pub token: Option<Json>,
    /// Where to ask for a token.
    pub endpoint: Option<Json>,
    /// How to ask.
    pub method: Option<Arc<str>>,
    /// Headers of the request.
    pub headers: JsonMap,
    /// Form of the request.
    pub data: JsonMap,
    /// Fields and where their values are.
    pub map: JsonMap,
    /// Whether it is empty where it cannot be had.
    pub is_lenient: bool,
}

/// What it holds may be a secret.
impl std::fmt::Debug for EntrySpec {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("EntrySpec")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// Why an entry cannot be told.
pub(super) enum Lacking {
    /// Its templates read this payload.
    Payload(Arc<str>),
    /// It never can.
    Hope(TaskError),
}

impl Work {
    /// What is to be resolved for an entry: itself, or an entry that it is made from.
    pub(super) fn entry(&self, name: &Arc<str>) -> Result<EntrySpec, Lacking> {
        let mut name = Arc::clone(name);
        for _ in 0..DEEPEST {
            match self.rendered_entry(&name) {
                Ok(spec) => return Ok(spec),
                Err(Stuck::Needs(Want::Secret(other))) => name = other,
                Err(Stuck::Needs(Want::Payload(uri))) => return Err(Lacking::Payload(uri)),
                Err(Stuck::Broken(error)) => return Err(Lacking::Hope(error)),
            }
        }
        let text = format!("keychain entry '{name}' is made from itself");
        Err(Lacking::Hope(TaskError::new(TaskErrorKind::Auth, text)))
    }

    fn rendered_entry(&self, name: &str) -> Result<EntrySpec, Stuck> {
        let mut entries = self.playbook.keychain.iter();
        let Some(entry) = entries.find(|entry| &*entry.name.value == name) else {
            let text = format!("keychain entry '{name}' is not declared");
            return Err(Stuck::Broken(TaskError::new(TaskErrorKind::Auth, text)));
        };
        let KeychainEntry {
            auth,
            token,
            endpoint,
            ..
        } = entry;
        let one = |value: &Option<_>| value.as_ref().map(|value| self.plainly(value)).transpose();
        let mode = self.playbook.executor.spec.policy.keychain;
        Ok(EntrySpec {
            name: Arc::clone(&entry.name.value),
            kind: entry.kind,
            provider: entry.provider.clone(),
            auth: auth
                .as_ref()
                .map(|auth| self.plain_auth(auth))
                .transpose()?,
            token: one(token)?,
            endpoint: one(endpoint)?,
            method: entry.method.clone(),
            headers: self.plain_fields(&entry.headers)?,
            data: self.plain_fields(&entry.data)?,
            map: self.plain_fields(&entry.map)?,
            is_lenient: mode == KeychainMode::Lenient,
        })
    }
}
