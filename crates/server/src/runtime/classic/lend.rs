//! Credentials for the work on one command, and for no other.
//!
//! Whoever has the capability of a command gets what that command names: in the `auth` of its tasks
//! and of its cursor, and in the entries of the keychain that its templates read.

use noetl_api::credential::CredentialView;
use noetl_playbook::model::{KeychainEntry, LoopSource, Playbook, Step, Task, ToolKind};
use noetl_playbook::template::{Dynamic, Key, MapScope};
use noetl_store::Command;
use noetl_types::{ErrorCode, ExecutionId, Json, SecretOperation};

use super::context::{Issued, render_context};
use crate::runtime::{Capability, Runtime, RuntimeError};

/// The sides of a transfer, and where each of them names its credential.
const SIDES: [&str; 2] = ["source", "target"];
const AUTH: &str = "auth";

impl Runtime {
    /// A credential, by its name and the run that it is for, to whoever works on the command of a
    /// capability; its secret only where it is wanted.
    pub(crate) async fn lend_to_command(
        &self,
        capability: &Capability,
        (execution_id, name): (Option<ExecutionId>, &str),
        is_opened: bool,
    ) -> Result<CredentialView, RuntimeError> {
        let execution_id = execution_id.unwrap_or(capability.execution_id);
        self.jot(|act| {
            if is_opened {
                act.operation = SecretOperation::Lend;
            }
            act.execution_id = Some(execution_id);
        });
        let run = self.execution_row(execution_id).await?;
        let command = self.command_row(capability.command_id).await?;
        self.jot(|act| {
            act.parent_execution_id = run.facts.parent_execution_id;
            act.worker_id.clone_from(&command.worker);
        });
        if command.lease.is_none() {
            let text = "a credential is lent to who holds the command";
            return Err(RuntimeError::refused(ErrorCode::Forbidden, text));
        }
        let issued = self.issued(&command).await?;
        if !names(&issued, &command, name)? {
            let text = format!("the command does not name the credential '{name}'");
            return Err(RuntimeError::refused(ErrorCode::Forbidden, text));
        }
        if is_opened {
            let lent = self.reveal_credential(name).await?;
            let run = capability.execution_id;
            self.note_lent(run, Some(&lent.kind), lent.data.as_ref());
            Ok(lent)
        } else {
            self.credential(name).await
        }
    }
}

/// Whether a playbook asks with a name that a template makes: then any credential may be meant.
pub(in crate::runtime) fn asks_with_any(playbook: &Playbook) -> bool {
    let steps = playbook.workflow.iter().flat_map(asked_with);
    let tasks = playbook.workbook.iter();
    let tasks = tasks.flat_map(|task| asked_by(&task.tool));
    let entries = playbook.keychain.iter();
    let entries = entries.filter_map(|entry| entry.auth.as_ref().map(Asked::with));
    let mut asked = steps.chain(tasks).chain(entries);
    asked.any(|asked| !asked.value.is_const())
}

/// Where a credential is named.
struct Asked<'p> {
    value: &'p Dynamic,
    /// Where in the value, unless that is what names it.
    key: Option<&'static str>,
}

impl<'p> Asked<'p> {
    fn with(value: &'p Dynamic) -> Self {
        Self { value, key: None }
    }

    /// What one side of a transfer asks with.
    fn by_side(side: &'p Dynamic) -> Option<Self> {
        let whole = Self {
            value: side,
            key: Some(AUTH),
        };
        let Dynamic::Map(entries) = side else {
            return Some(whole);
        };
        let is_auth = |key: &Key| matches!(key, Key::Name(name) if &**name == AUTH);
        match entries.iter().find(|(key, _)| is_auth(key)) {
            Some((_, auth)) => Some(Self::with(auth)),
            // A key that a template makes may be this one.
            None => entries
                .iter()
                .any(|(key, _)| matches!(key, Key::Template(_)))
                .then_some(whole),
        }
    }

    /// Whether a credential is asked for by this name: as it is, or in a key that holds its alias.
    fn is_for(&self, name: &str, scope: &MapScope) -> bool {
        self.value.render(scope).is_ok_and(|rendered| {
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

/// Whether a command names a credential. Templates see what its worker was given.
fn names(issued: &Issued, command: &Command, name: &str) -> Result<bool, RuntimeError> {
    let step = issued.step()?;
    let scope = MapScope::of(&render_context(issued, command, step));
    if asked_with(step).any(|asked| asked.is_for(name, &scope)) {
        return Ok(true);
    }
    let is_read = |entry: &KeychainEntry| {
        let mut reads = values(step).flat_map(Dynamic::reads);
        reads.any(|read| {
            let path = read.path.iter().map(|part| &**part);
            path.take(2).eq(["keychain", &**entry.name])
        })
    };
    let mut entries = issued.definition.plan.playbook().keychain.iter();
    Ok(entries.any(|entry| {
        let auth = entry.auth.as_ref().map(Asked::with);
        let is_it = &**entry.name == name || auth.is_some_and(|it| it.is_for(name, &scope));
        is_it && is_read(entry)
    }))
}

/// What the tasks of a step, and its cursor, ask with.
fn asked_with(step: &Step) -> impl Iterator<Item = Asked<'_>> {
    let cursor = match step.looping.as_ref().map(|looping| &looping.source) {
        Some(LoopSource::Cursor(cursor)) => cursor.auth.as_ref(),
        Some(LoopSource::In(_)) | None => None,
    };
    let tasks = step.tool.tasks().iter();
    tasks.flat_map(asked_by).chain(cursor.map(Asked::with))
}

/// What a task asks with. Each side of a transfer has a credential of its own.
fn asked_by(task: &Task) -> impl Iterator<Item = Asked<'_>> {
    let is_transfer = task.kind.value == ToolKind::Transfer;
    let sides = task
        .config
        .iter()
        .filter(move |field| is_transfer && SIDES.contains(&&*field.name.value));
    let sides = sides.filter_map(|field| Asked::by_side(&field.value));
    task.auth.as_ref().map(Asked::with).into_iter().chain(sides)
}

/// The values that are rendered for the calls of a step.
fn values(step: &Step) -> impl Iterator<Item = &Dynamic> {
    let tasks = step.tool.tasks().iter();
    let fields = tasks.flat_map(|task| task.input.iter().chain(task.config.iter()));
    let fields = step.input.iter().chain(fields);
    let asked = asked_with(step).map(|asked| asked.value);
    asked.chain(fields.map(|field| &field.value))
}
