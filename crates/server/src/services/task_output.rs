//! Output that workers send while commands run.

use std::sync::Arc;

use noetl_api::command::HeldLease;
use noetl_api::output::{CommandOutput, OutputRequest, OutputResponse, OutputResult};
use noetl_store::{NewOutputChunk, NewTaskOutput, TaskOutputOutcome};
use noetl_types::ErrorCode;
use noetl_types::limits::{
    MAX_EXECUTION_OUTPUT_SIZE, MAX_OUTPUT_CHUNK_SIZE, MAX_OUTPUT_CHUNKS, MAX_REPORT_BATCH,
};

use crate::access::CallContext;
use crate::error::{Result, RuntimeError};
use crate::services::issued_secrets::IssuedSecrets;
use crate::services::{Infrastructure, Leases};

/// Stores the output of running commands.
pub struct TaskOutput {
    pub(crate) infra: Arc<Infrastructure>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) secrets: Arc<IssuedSecrets>,
}

impl TaskOutput {
    /// Stores the output of commands independently of each other.
    pub async fn store_outputs(
        &self,
        ctx: &CallContext,
        request: OutputRequest,
    ) -> Result<OutputResponse> {
        check_limits(&request.outputs)?;
        let outputs = request.outputs.into_iter().map(|output| (output.execution_id, output));
        let outputs = self
            .secrets
            .redact_issued_secrets(outputs.collect(), CommandOutput::redact_secrets)
            .await?;
        let mut results = Vec::with_capacity(outputs.len());
        for output in outputs {
            let command_id = output.command_id;
            let code = match self.store_output(ctx, output).await? {
                TaskOutputOutcome::Stored => None,
                TaskOutputOutcome::Fenced => Some(ErrorCode::NotLeaseHolder),
                TaskOutputOutcome::LimitReached => Some(ErrorCode::QuotaExceeded),
            };
            results.push(OutputResult { command_id, ok: code.is_none(), code });
        }
        Ok(OutputResponse { results })
    }

    async fn store_output(
        &self,
        ctx: &CallContext,
        output: CommandOutput,
    ) -> Result<TaskOutputOutcome> {
        let CommandOutput { execution_id, command_id, attempt, lease_token, chunks } = output;
        let lease = HeldLease { execution_id, command_id, lease_token, attempt };
        if !self.leases.owns_lease(ctx, &lease).await? {
            return Ok(TaskOutputOutcome::Fenced);
        }
        let chunks = chunks.into_iter().map(|chunk| NewOutputChunk {
            number: chunk.number,
            task: chunk.task,
            stdout: chunk.stdout,
            stderr: chunk.stderr,
            dropped_bytes: chunk.dropped_bytes,
            is_last: chunk.last,
        });
        let output = NewTaskOutput {
            execution_id,
            command_id,
            attempt,
            lease_token,
            chunks: chunks.collect(),
            max_execution_size: MAX_EXECUTION_OUTPUT_SIZE,
            now: self.infra.now(),
        };
        Ok(self.infra.store().append_output(output).await?)
    }
}

fn check_limits(outputs: &[CommandOutput]) -> Result<()> {
    if outputs.len() > MAX_REPORT_BATCH {
        let text = format!("a call may contain output of at most {MAX_REPORT_BATCH} commands");
        return Err(RuntimeError::invalid(text));
    }
    if outputs.iter().any(|output| output.chunks.len() > MAX_OUTPUT_CHUNKS) {
        let text = format!("a call may contain at most {MAX_OUTPUT_CHUNKS} chunks of a command");
        return Err(RuntimeError::invalid(text));
    }
    let max_bytes = usize::try_from(MAX_OUTPUT_CHUNK_SIZE.as_bytes()).unwrap_or(usize::MAX);
    let mut chunks = outputs.iter().flat_map(|output| &output.chunks);
    if chunks.any(|chunk| chunk.stdout.len().saturating_add(chunk.stderr.len()) > max_bytes) {
        let text = format!("a chunk of output may contain at most {MAX_OUTPUT_CHUNK_SIZE}");
        return Err(RuntimeError::invalid(text));
    }
    Ok(())
}
