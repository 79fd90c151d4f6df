//! The kind `noop`: returns its `result`, or a status of `ok`.

use async_trait::async_trait;
use noetl_playbook::command_machine::noop_data;
use noetl_types::TaskError;

use crate::call::{ToolCall, ToolOutcome};
use crate::tool::{CallContext, Tool};

#[derive(Debug)]
pub(crate) struct NoopTool;

#[async_trait]
impl Tool for NoopTool {
    async fn run(&self, call: &ToolCall, _context: &CallContext) -> Result<ToolOutcome, TaskError> {
        Ok(ToolOutcome::ok(noop_data(&call.config)))
    }
}
