//! References to credentials in playbooks.

use noetl_playbook::model::{LoopSource, Playbook, Step, Task, ToolKind};
use noetl_playbook::template::{DynamicKey, DynamicValue, MapEnvironment};
use noetl_types::{Json, JsonMap};

/// Sides of a transfer, and the field in which each names its credential.
const TRANSFER_SIDES: [&str; 2] = ["source", "target"];
const AUTH_FIELD: &str = "auth";

/// True if a playbook computes a credential name with a template: then it may use any credential.
pub(crate) fn has_dynamic_credential_name(playbook: &Playbook) -> bool {
    let steps = playbook.workflow.iter().flat_map(step_credentials);
    let tasks = playbook.workbook.iter();
    let tasks = tasks.flat_map(|task| task_credentials(&task.tool));
    let entries = playbook.keychain.iter();
    let entries =
        entries.filter_map(|entry| entry.auth.as_ref().map(CredentialReference::from_value));
    let mut references = steps.chain(tasks).chain(entries);
    references.any(|reference| !reference.value.is_const())
}

/// Part of a playbook that names a credential.
pub(crate) struct CredentialReference<'p> {
    pub(crate) value: &'p DynamicValue,
    /// Key within the value, unless the value itself names it.
    key: Option<&'static str>,
    /// True if the members of a map may name credentials too.
    has_members: bool,
}

impl<'p> CredentialReference<'p> {
    pub(crate) fn from_value(value: &'p DynamicValue) -> Self {
        Self { value, key: None, has_members: false }
    }

    /// Credential reference of one side of a transfer.
    fn from_transfer_side(side: &'p DynamicValue) -> Option<Self> {
        let whole = Self { key: Some(AUTH_FIELD), ..Self::from_value(side) };
        let DynamicValue::Map(entries) = side else {
            return Some(whole);
        };
        let is_auth =
            |key: &DynamicKey| matches!(key, DynamicKey::Name(name) if &**name == AUTH_FIELD);
        match entries.iter().find(|(key, _)| is_auth(key)) {
            Some((_, auth)) => Some(Self::from_value(auth)),
            // A templated key may be this one.
            None => entries
                .iter()
                .any(|(key, _)| matches!(key, DynamicKey::Template(_)))
                .then_some(whole),
        }
    }

    /// True if it names the credential: directly, or under a key that holds its alias.
    pub(crate) fn refers_to(&self, name: &str, environment: &MapEnvironment) -> bool {
        self.value.render(environment).is_ok_and(|rendered| {
            let value = Some(&rendered.value);
            let auth = match self.key {
                Some(key) => value.and_then(|value| value.get(key)),
                None => value,
            };
            let members = auth.filter(|_| self.has_members).and_then(Json::as_map);
            let mut candidates =
                auth.into_iter().chain(members.into_iter().flat_map(JsonMap::values));
            candidates.any(|auth| {
                let mut parts = [Some(auth), auth.get("key"), auth.get("credential")].into_iter();
                parts.any(|part| part.and_then(Json::as_str) == Some(name))
            })
        })
    }
}

/// Credential references of the tasks of a step and of its cursor.
pub(crate) fn step_credentials(step: &Step) -> impl Iterator<Item = CredentialReference<'_>> {
    let cursor = match step.looping.as_ref().map(|looping| &looping.source) {
        Some(LoopSource::Cursor(cursor)) => cursor.auth.as_ref(),
        Some(LoopSource::In(_)) | None => None,
    };
    let tasks = step.tool.tasks().iter();
    tasks.flat_map(task_credentials).chain(cursor.map(CredentialReference::from_value))
}

/// Credential references of a task. Each side of a transfer has its own.
fn task_credentials(task: &Task) -> impl Iterator<Item = CredentialReference<'_>> {
    let is_transfer = task.kind.value == ToolKind::Transfer;
    let sides = task
        .config
        .iter()
        .filter(move |field| is_transfer && TRANSFER_SIDES.contains(&&*field.name.value));
    let sides = sides.filter_map(|field| CredentialReference::from_transfer_side(&field.value));
    let has_members = task.kind.value == ToolKind::Duckdb;
    let auth = task.auth.as_ref().map(CredentialReference::from_value);
    auth.map(|auth| CredentialReference { has_members, ..auth }).into_iter().chain(sides)
}
