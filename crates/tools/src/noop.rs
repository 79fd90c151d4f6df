//! The kind `noop`: returns its `result`, or a status of `ok`.

use async_trait::async_trait;
use noetl_types::{Json, TaskError};

use crate::call::{ToolCall, ToolOutcome};
use crate::tool::{CallContext, Tool};

#[derive(Debug)]
pub(crate) struct NoopTool;

#[async_trait]
impl Tool for NoopTool {
    async fn run(&self, call: &ToolCall, _context: &CallContext) -> Result<ToolOutcome, TaskError> {
        if let Some(result) = call.config.get("result") {
            return Ok(ToolOutcome::ok(result.clone()));
        }
        let message = call.config.get("message").cloned().unwrap_or_default();
        Ok(ToolOutcome::ok(Json::object([("status", Json::from("ok")), ("message", message)])))
    }
}
