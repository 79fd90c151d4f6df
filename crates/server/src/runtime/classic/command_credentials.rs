//! Credentials for the work on one command.
//!
//! The bearer of a command token can read the credentials that this command names: in the `auth` of
//! its tasks and of its cursor, and in the keychain entries that its templates read.

use noetl_api::credential::CredentialView;
use noetl_playbook::model::{KeychainEntry, LoopSource, Playbook, Step, Task, ToolKind};
use noetl_playbook::template::{DynamicKey, DynamicValue, MapEnvironment};
use noetl_store::Command;
use noetl_types::{ErrorCode, ExecutionId, Json, SecretOperation};

use super::context::{IssuedCommand, render_context};
use crate::runtime::{CommandToken, Runtime, RuntimeError};

/// Sides of a transfer, and the field in which each names its credential.
const TRANSFER_SIDES: [&str; 2] = ["source", "target"];
const AUTH_FIELD: &str = "auth";

impl Runtime {
    /// Returns a credential to the bearer of a command token, with its secret if `with_secret` is true.
    pub(crate) async fn command_credential(
        &self,
        token: &CommandToken,
        execution_id: Option<ExecutionId>,
        name: &str,
        with_secret: bool,
    ) -> Result<CredentialView, RuntimeError> {
        let execution_id = execution_id.unwrap_or(token.execution_id);
        self.add_secret_facts(|record| {
            if with_secret {
                record.operation = SecretOperation::Issue;
            }
            record.execution_id = Some(execution_id);
        });
        let execution = self.visible_execution(execution_id).await?;
        let command = self.command_row(token.command_id).await?;
        self.add_secret_facts(|record| {
            record.parent_execution_id = execution.facts.parent_execution_id;
            record.worker_id.clone_from(&command.worker);
        });
        if command.lease.is_none() {
            let text = "only the holder of the command's lease can read its credentials";
            return Err(RuntimeError::refused(ErrorCode::Forbidden, text));
        }
        let issued = self.load_issued_command(&command).await?;
        if !names_credential(&issued, &command, name)? {
            let text = format!("the command does not use the credential '{name}'");
            return Err(RuntimeError::refused(ErrorCode::Forbidden, text));
        }
        if with_secret {
            let credential = self.reveal_credential(name).await?;
            self.record_issued_secret(
                token.execution_id,
                Some(&credential.kind),
                credential.data.as_ref(),
            );
            Ok(credential)
        } else {
            self.get_credential(name).await
        }
    }
}

/// True if a playbook computes a credential name with a template: then it may use any credential.
pub(in crate::runtime) fn has_dynamic_credential_name(playbook: &Playbook) -> bool {
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
struct CredentialReference<'p> {
    value: &'p DynamicValue,
    /// Key within the value, unless the value itself names it.
    key: Option<&'static str>,
}

impl<'p> CredentialReference<'p> {
    fn from_value(value: &'p DynamicValue) -> Self {
        Self { value, key: None }
    }

    /// Credential reference of one side of a transfer.
    fn from_transfer_side(side: &'p DynamicValue) -> Option<Self> {
        let whole = Self { value: side, key: Some(AUTH_FIELD) };
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
    fn refers_to(&self, name: &str, environment: &MapEnvironment) -> bool {
        self.value.render(environment).is_ok_and(|rendered| {
            let value = Some(&rendered.value);
            let auth = match self.key {
                Some(key) => value.and_then(|value| value.get(key)),
                None => value,
            };
            let part = |key: &str| auth.and_then(|auth| auth.get(key));
            let mut parts = [auth, part("key"), part("credential")].into_iter();
            parts.any(|part| part.and_then(Json::as_str) == Some(name))
        })
    }
}

/// True if a command names a credential. Templates are rendered with the context that its worker
/// got.
fn names_credential(
    issued: &IssuedCommand,
    command: &Command,
    name: &str,
) -> Result<bool, RuntimeError> {
    let step = issued.step()?;
    let environment = MapEnvironment::from_values(&render_context(issued, command, step));
    if step_credentials(step).any(|reference| reference.refers_to(name, &environment)) {
        return Ok(true);
    }
    let is_read = |entry: &KeychainEntry| {
        let mut reads = rendered_values(step).flat_map(DynamicValue::reads);
        reads.any(|read| {
            let path = read.path.iter().map(|part| &**part);
            path.take(2).eq(["keychain", &**entry.name])
        })
    };
    let mut entries = issued.definition.plan.playbook().keychain.iter();
    Ok(entries.any(|entry| {
        let auth = entry.auth.as_ref().map(CredentialReference::from_value);
        let is_match =
            &**entry.name == name || auth.is_some_and(|auth| auth.refers_to(name, &environment));
        is_match && is_read(entry)
    }))
}

/// Credential references of the tasks of a step and of its cursor.
fn step_credentials(step: &Step) -> impl Iterator<Item = CredentialReference<'_>> {
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
    task.auth.as_ref().map(CredentialReference::from_value).into_iter().chain(sides)
}

/// Values that are rendered for the calls of a step.
fn rendered_values(step: &Step) -> impl Iterator<Item = &DynamicValue> {
    let tasks = step.tool.tasks().iter();
    let fields = tasks.flat_map(|task| task.input.iter().chain(task.config.iter()));
    let fields = step.input.iter().chain(fields);
    let references = step_credentials(step).map(|reference| reference.value);
    references.chain(fields.map(|field| &field.value))
}
