//! Output of tasks, stored while they run.

use noetl_types::limits::{MIN_OUTPUT_CHUNK_CHARGE, PageLimit};
use noetl_types::{ByteSize, CommandId, ExecutionId, LeaseToken, StepName, Text, Timestamp};

/// Output of an attempt to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTaskOutput {
    pub execution_id: ExecutionId,
    pub command_id: CommandId,
    pub attempt: u32,
    /// Token of the lease under which the attempt runs.
    pub lease_token: LeaseToken,
    /// In the order of their numbers.
    pub chunks: Vec<NewOutputChunk>,
    /// Maximum size of the stored output of the execution.
    pub max_execution_size: ByteSize,
    pub now: Timestamp,
}

/// A chunk of output to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOutputChunk {
    /// Number within the attempt. A chunk is stored once.
    pub number: u32,
    /// Label of the task that wrote it.
    pub task: Option<Text>,
    pub stdout: Text,
    pub stderr: Text,
    /// Bytes that were dropped before it.
    pub dropped_bytes: u64,
    /// True if the attempt has no output after it.
    pub is_last: bool,
}

impl NewOutputChunk {
    /// Size at which the chunk counts for limits.
    pub(crate) fn charge(&self) -> u64 {
        let bytes = self.stdout.len().saturating_add(self.stderr.len());
        u64::try_from(bytes).unwrap_or(u64::MAX).max(MIN_OUTPUT_CHUNK_CHARGE.as_bytes())
    }
}

/// Outcome of storing output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskOutputOutcome {
    Stored,
    /// The lease has ended or belongs to another worker.
    Fenced,
    /// The execution has too much output. Some chunks were not stored.
    LimitReached,
}

/// A stored chunk of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputChunk {
    pub execution_id: ExecutionId,
    /// Position among the chunks of the execution. Chunks become visible in this order.
    pub position: u64,
    pub command_id: CommandId,
    pub attempt: u32,
    pub number: u32,
    pub step_name: StepName,
    pub iter_index: Option<u64>,
    pub task: Option<Text>,
    pub stdout: Text,
    pub stderr: Text,
    pub dropped_bytes: u64,
    pub is_last: bool,
    pub created_at: Timestamp,
    /// Size at which the chunk counts for limits.
    pub(crate) charge: u64,
    /// Charges of the attempt up to this chunk.
    pub(crate) attempt_charge: u64,
    /// Charges of the stored chunks of the execution when this one was stored.
    pub(crate) execution_charge: u64,
}

/// Filter of the output of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFilter {
    pub execution_id: ExecutionId,
    /// Returns chunks after this position.
    pub after: u64,
    pub step: Option<Text>,
    pub attempt: Option<u32>,
    pub limit: PageLimit,
}
