//! Credentials for the work on one command, and for no other.
//!
//! Whoever has the capability of a command gets what that command names: in the `auth` of its tasks
//! and of its cursor, and in the entries of the keychain that its templates read.

use noetl_api::credential::CredentialView;
use noetl_playbook::model::{KeychainEntry, LoopSource, Playbook, Step};
use noetl_playbook::template::{Dynamic, MapScope};
use noetl_store::Command;
use noetl_types::{ErrorCode, ExecutionId, Json, SecretOperation};

use super::context::{Issued, render_context};
use crate::runtime::{Capability, Runtime, RuntimeError};

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
    let tasks = playbook
        .workbook
        .iter()
        .filter_map(|task| task.tool.auth.as_ref());
    let entries = playbook
        .keychain
        .iter()
        .filter_map(|entry| entry.auth.as_ref());
    let mut asked = steps.chain(tasks).chain(entries);
    asked.any(|auth| !auth.is_const())
}

/// Whether a command names a credential. Templates see what its worker was given.
fn names(issued: &Issued, command: &Command, name: &str) -> Result<bool, RuntimeError> {
    let step = issued.step()?;
    let scope = MapScope::of(&render_context(issued, command, step));
    if asked_with(step).any(|auth| is_alias(auth, &scope, name)) {
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
        let auth = entry.auth.as_ref();
        let is_it = &**entry.name == name || auth.is_some_and(|it| is_alias(it, &scope, name));
        is_it && is_read(entry)
    }))
}

/// What the tasks of a step, and its cursor, ask with.
fn asked_with(step: &Step) -> impl Iterator<Item = &Dynamic> {
    let cursor = match step.looping.as_ref().map(|looping| &looping.source) {
        Some(LoopSource::Cursor(cursor)) => cursor.auth.as_ref(),
        Some(LoopSource::In(_)) | None => None,
    };
    let tasks = step.tool.tasks().iter();
    tasks.filter_map(|task| task.auth.as_ref()).chain(cursor)
}

/// The values that are rendered for the calls of a step.
fn values(step: &Step) -> impl Iterator<Item = &Dynamic> {
    let tasks = step.tool.tasks().iter();
    let fields = tasks.flat_map(|task| task.input.iter().chain(task.config.iter()));
    let fields = step.input.iter().chain(fields);
    asked_with(step).chain(fields.map(|field| &field.value))
}

/// Whether this is what a credential is asked for by: as it is, or in a key that holds its alias.
fn is_alias(auth: &Dynamic, scope: &MapScope, name: &str) -> bool {
    auth.render(scope).is_ok_and(|rendered| {
        let auth = &rendered.value;
        let mut parts = [Some(auth), auth.get("key"), auth.get("credential")].into_iter();
        parts.any(|part| part.and_then(Json::as_str) == Some(name))
    })
}
