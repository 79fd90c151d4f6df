//! Output of tasks while they run.

use noetl_types::redact::SecretSet;
use noetl_types::{CommandId, ErrorCode, ExecutionId, LeaseToken, Text, Timestamp, WorkerId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::is_default;

/// Sends output of running commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputRequest {
    /// Worker that runs the commands.
    pub worker_id: WorkerId,
    /// Output of each command. At most 100 commands.
    pub outputs: Vec<CommandOutput>,
}

/// Output of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandOutput {
    /// Id of the execution.
    pub execution_id: ExecutionId,
    /// Id of the command.
    pub command_id: CommandId,
    /// Number of the attempt.
    pub attempt: u32,
    /// Token of the lease.
    pub lease_token: LeaseToken,
    /// Chunks in the order of their numbers. At most 200.
    pub chunks: Vec<OutputChunk>,
}

/// A chunk of output.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputChunk {
    /// Number within the attempt, from 0. A number that was already sent is ignored.
    pub number: u32,
    /// Label of the task that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Text>,
    /// Standard output. At most 16 KiB together with `stderr`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stdout: Text,
    /// Standard error.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stderr: Text,
    /// Bytes that were dropped before the chunk.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dropped_bytes: u64,
    /// True if the attempt has no output after the chunk.
    #[serde(default, skip_serializing_if = "is_default")]
    pub last: bool,
}

impl CommandOutput {
    /// Returns the output with secrets redacted.
    #[must_use]
    pub fn redact_secrets(mut self, secrets: &SecretSet) -> Self {
        for chunk in &mut self.chunks {
            for text in [&mut chunk.stdout, &mut chunk.stderr] {
                if let Some(redacted) = secrets.redact_text(text) {
                    *text = Text::from(redacted);
                }
            }
        }
        self
    }
}

/// Results of storing output, in request order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct OutputResponse {
    /// One result per command.
    pub results: Vec<OutputResult>,
}

/// Result of storing the output of one command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputResult {
    /// Id of the command.
    pub command_id: CommandId,
    /// True if the output is stored. Otherwise the worker must not send more for this attempt.
    pub ok: bool,
    /// Reason why the output is not stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
}

/// Filters of the output of an execution.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct OutputQuery {
    /// Filter by step.
    pub step: Option<Text>,
    /// Filter by attempt of the command.
    pub attempt: Option<u32>,
    /// Return chunks after this position.
    pub after: Option<u64>,
    /// Maximum number of chunks, 1 to 500. Default: 100.
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<u32>,
}

/// A page of the output of an execution.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct OutputPage {
    /// The chunks, in the order in which they were stored.
    pub chunks: Vec<OutputView>,
    /// Value of `after` for the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<u64>,
}

/// A stored chunk of output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputView {
    /// Position in the output of the execution.
    pub position: u64,
    /// Id of the command.
    pub command_id: CommandId,
    /// Number of the attempt.
    pub attempt: u32,
    /// Name of the step.
    pub step: Text,
    /// Index of the loop iteration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
    /// Label of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Text>,
    /// Time when the server stored it.
    pub at: Timestamp,
    /// Standard output.
    pub stdout: Text,
    /// Standard error.
    pub stderr: Text,
    /// Bytes that were dropped before the chunk.
    pub dropped_bytes: u64,
    /// True if the attempt has no output after the chunk.
    pub last: bool,
}
