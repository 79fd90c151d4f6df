//! The kind `playbook` in passing: starts another run and does not wait for it.
//!
//! One that waits is no work for a worker: the server parks it.

use async_trait::async_trait;
use noetl_types::{Json, TaskError, TaskErrorKind};

use crate::call::{Call, Outcome};
use crate::config::{Config, missing, printed, wrong};
use crate::platform::{Child, ChildDefinition};
use crate::tool::{Scope, Tool};

/// Starts playbooks.
#[derive(Debug)]
pub(crate) struct Playbook;

#[async_trait]
impl Tool for Playbook {
    async fn run(&self, call: &Call, scope: &Scope) -> Outcome {
        match start(call, scope).await {
            Ok(data) => Outcome::ok(data),
            Err(error) => error.into(),
        }
    }
}

async fn start(call: &Call, scope: &Scope) -> Result<Json, TaskError> {
    let child = child(call)?;
    let started = scope.platform()?.start(child).await?;
    Ok(Json::object([
        ("status", Json::from("started")),
        ("execution_id", Json::from(started.execution_id)),
        ("path", Json::from(started.path)),
        ("async", Json::from(true)),
    ]))
}

fn child(call: &Call) -> Result<Child, TaskError> {
    let config = Config(&call.config);
    let waits =
        config.get("return_step").is_some() || config.flag("return_result")?.unwrap_or(false);
    if waits {
        return Err(TaskError::new(
            TaskErrorKind::Unsupported,
            "a playbook whose result is waited for is run by the server, not by a worker",
        ));
    }
    let scalar = |key: &str| {
        let value = config.get(key);
        let text = |value| printed(value).ok_or_else(|| wrong(key, "a text or a number", value));
        value.map(text).transpose()
    };
    let definition = match (scalar("catalog_id")?, config.text("path")?) {
        (Some(id), _) => ChildDefinition::Id(id),
        (None, Some(path)) => ChildDefinition::Path {
            path: path.to_owned(),
            version: scalar("version")?,
        },
        (None, None) => return Err(missing("'path' or 'catalog_id'")),
    };
    // What the task says in `input` wins over its `payload`.
    let mut payload = match config.get("payload") {
        Some(Json::Map(payload)) => payload.as_ref().clone(),
        Some(other) => return Err(wrong("payload", "a map", other)),
        None => noetl_types::JsonMap::new(),
    };
    payload.extend(call.input.clone());
    Ok(Child {
        definition,
        payload: payload.into(),
        parent_execution_id: call.execution_id.clone(),
        idempotency_key: call.idempotency_key.clone(),
    })
}
