//! Credentials for the work on one command.
//!
//! The bearer of a command token can read the credentials that this command names: in the `auth` of
//! its tasks and of its cursor, and in the keychain entries that its templates read.

use noetl_api::credential::CredentialView;
use noetl_playbook::model::{KeychainEntry, Step};
use noetl_playbook::template::{DynamicValue, MapEnvironment};
use noetl_store::Command;
use noetl_types::{ExecutionId, SecretOperation};

use crate::access::CallContext;
use crate::classic::ClassicApi;
use crate::classic::context::{IssuedCommand, render_context};
use crate::error::{Result, RuntimeError};
use crate::services::credentials::references::{CredentialReference, step_credentials};

impl ClassicApi {
    /// Returns a credential to the bearer of a command token, with its secret if `with_secret` is true.
    pub(crate) async fn command_credential(
        &self,
        ctx: &CallContext,
        execution_id: Option<ExecutionId>,
        name: &str,
        with_secret: bool,
    ) -> Result<CredentialView> {
        let token = ctx.auth.command_token.as_ref().ok_or_else(RuntimeError::no_command)?;
        let execution_id = execution_id.unwrap_or(token.execution_id);
        ctx.add_secret_facts(|record| {
            if with_secret {
                record.operation = SecretOperation::Issue;
            }
            record.execution_id = Some(execution_id);
        });
        let execution = ctx.visible_execution(self.infra.store(), execution_id).await?;
        let command = ctx.visible_command(self.infra.store(), token.command_id).await?;
        ctx.add_secret_facts(|record| {
            record.parent_execution_id = execution.facts.parent_execution_id;
            record.worker_id.clone_from(&command.worker);
        });
        if command.lease.is_none() {
            let text = "only the holder of the command's lease can read its credentials";
            return Err(RuntimeError::forbidden(text));
        }
        let issued = self.load_issued_command(&command).await?;
        if !names_credential(&issued, &command, name)? {
            let text = format!("the command does not use the credential '{name}'");
            return Err(RuntimeError::forbidden(text));
        }
        if with_secret {
            let credential = self.credentials.reveal_credential(ctx, name).await?;
            self.secrets.record_issued_secret(
                token.execution_id,
                Some(&credential.kind),
                credential.data.as_ref(),
            );
            Ok(credential)
        } else {
            self.credentials.get_credential(ctx, name).await
        }
    }
}

/// True if a command names a credential. Templates are rendered with the context that its worker
/// got.
fn names_credential(issued: &IssuedCommand, command: &Command, name: &str) -> Result<bool> {
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

/// Values that are rendered for the calls of a step.
fn rendered_values(step: &Step) -> impl Iterator<Item = &DynamicValue> {
    let tasks = step.tool.tasks().iter();
    let fields = tasks.flat_map(|task| task.input.iter().chain(task.config.iter()));
    let fields = step.input.iter().chain(fields);
    let references = step_credentials(step).map(|reference| reference.value);
    references.chain(fields.map(|field| &field.value))
}
