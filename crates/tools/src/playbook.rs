//! The kind `playbook` without waiting: starts another execution and does not wait for it.
//!
//! A `playbook` task that waits is not run by a worker: the server suspends it.

use async_trait::async_trait;
use noetl_types::{Json, TaskError, TaskErrorKind};

use crate::call::{ToolCall, ToolOutcome};
use crate::config::{Config, missing_key, required_scalar};
use crate::platform::{ChildDefinition, ChildRequest};
use crate::tool::{CallContext, Tool};

#[derive(Debug)]
pub(crate) struct PlaybookTool;

#[async_trait]
impl Tool for PlaybookTool {
    async fn run(&self, call: &ToolCall, context: &CallContext) -> Result<ToolOutcome, TaskError> {
        let child = read_child_request(call)?;
        let started = context.platform()?.start_playbook(child).await?;
        Ok(ToolOutcome::ok(Json::object([
            ("status", Json::from("started")),
            ("execution_id", Json::from(started.execution_id)),
            ("path", Json::from(started.path)),
            ("async", Json::from(true)),
        ])))
    }
}

fn read_child_request(call: &ToolCall) -> Result<ChildRequest, TaskError> {
    let config = Config(&call.config);
    let waits =
        config.get("return_step").is_some() || config.flag("return_result")?.unwrap_or(false);
    if waits {
        return Err(TaskError::new(
            TaskErrorKind::Unsupported,
            "a playbook with return_step or return_result is run by the server, not by a worker",
        ));
    }
    let scalar = |key: &str| config.get(key).map(|value| required_scalar(key, value)).transpose();
    let definition = match (scalar("catalog_id")?, config.text("path")?) {
        (Some(id), _) => ChildDefinition::Id(id),
        (None, Some(path)) => {
            ChildDefinition::Path { path: path.to_owned(), version: scalar("version")? }
        }
        (None, None) => return Err(missing_key("'path' or 'catalog_id'")),
    };
    // `input` of the task overrides its `payload`.
    let mut payload = config.map("payload")?.cloned().unwrap_or_default();
    payload.extend(call.input.clone());
    Ok(ChildRequest {
        definition,
        payload: payload.into(),
        parent_execution_id: call.execution_id.clone(),
        idempotency_key: call.idempotency_key.clone(),
    })
}
