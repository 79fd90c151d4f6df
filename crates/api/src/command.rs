//! Wire types for leasing, renewing and reporting commands.

use std::sync::Arc;

use noetl_types::limits::LeaseBatchSize;
use noetl_types::redact::SecretSet;
use noetl_types::{
    CatalogId, CommandId, ErrorCode, EventId, ExecutionId, Json, JsonMap, LeaseToken, PoolName,
    Seq, StepName, TaskError, Text, Timestamp, WorkerId,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::is_default;
use crate::output::CommandOutput;

pub use noetl_types::report::{FrameReport, RetriedTask, RowError, TaskReport, TaskStatus};

/// Leases commands for a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseRequest {
    /// Worker that requests the lease.
    pub worker_id: WorkerId,
    /// Pool of the worker.
    pub pool: PoolName,
    /// Maximum number of commands.
    #[serde(default)]
    pub max: LeaseBatchSize,
    /// Maximum time to wait for a command, in milliseconds.
    #[serde(default)]
    pub wait_ms: u64,
    /// Kinds of tools that the worker supports; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<Text>>,
    /// Duration of the lease in milliseconds; the server's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
}

/// Leased commands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct LeaseResponse {
    /// The commands, now leased to the worker.
    pub commands: Vec<LeasedCommand>,
    /// Time to wait before the next request, in milliseconds; 0 for none.
    #[serde(default)]
    pub poll_after_ms: u64,
    /// Time between the arrival of the request and the grant of the leases, in milliseconds.
    #[serde(default)]
    pub waited_ms: u64,
}

/// A leased command with everything that the worker needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeasedCommand {
    /// Id of the execution.
    pub execution_id: ExecutionId,
    /// Event that issued the command.
    pub event_id: EventId,
    /// Id of the command.
    pub command_id: CommandId,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Token that proves the lease.
    pub lease_token: LeaseToken,
    /// Start of the lease.
    pub claimed_at: Timestamp,
    /// End of the lease, unless it is renewed.
    pub lease_until: Timestamp,
    /// Deadline of the attempt, independent of renewals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
    /// First two parts of the idempotency key of every call: execution and seq.
    pub idempotency_key: Text,
    /// Id of the node: the name of the step.
    pub node_id: StepName,
    /// Name of the step.
    pub node_name: StepName,
    /// Kind of the first tool.
    pub action: Text,
    /// Template variables at the time of issue, or a reference to them.
    #[serde(default)]
    pub context: JsonMap,
    /// Metadata of the command.
    pub meta: CommandMeta,
}

/// Metadata of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandMeta {
    /// Definition that the execution is pinned to.
    pub catalog_id: CatalogId,
    /// Sequence number of the event that issued the command.
    pub seq: Seq,
    /// Time of issue: `now()` in its templates.
    pub issued_at: Timestamp,
    /// Number of the pass through the step, from 1.
    pub run: u32,
    /// Iteration, in a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// Number of iterations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection_size: Option<u32>,
    /// Maximum rows of the frame, in a loop over a cursor. `index` is then the number of the frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_max_rows: Option<u32>,
    /// Number of the attempt, for classic workers.
    pub attempts: u32,
    /// Maximum number of attempts.
    pub max_attempts: u32,
    /// Trace that the execution was started in, as a `traceparent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Text>,
}

/// A lease that a worker holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeldLease {
    /// Id of the execution.
    pub execution_id: ExecutionId,
    /// Id of the command.
    pub command_id: CommandId,
    /// Token of the lease.
    pub lease_token: LeaseToken,
    /// Number of the attempt.
    pub attempt: u32,
}

/// Renews the leases of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatRequest {
    /// Worker that holds the leases.
    pub worker_id: WorkerId,
    /// Leases to renew.
    pub leases: Vec<HeldLease>,
    /// Duration from now in milliseconds; the server's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extend_ms: Option<u64>,
    /// Maximum time to wait for the loss of a lease, in milliseconds. The response comes at once if
    /// a command is cancelled.
    #[serde(default)]
    pub wait_ms: u64,
}

/// Results of a lease renewal, in request order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct HeartbeatResponse {
    /// One result per lease.
    pub leases: Vec<LeaseRenewal>,
}

/// Result of renewing one lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeaseRenewal {
    /// Id of the command.
    pub command_id: CommandId,
    /// True if the worker still holds the lease.
    pub ok: bool,
    /// New end of the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Timestamp>,
    /// True if the command was cancelled and the worker must stop it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<bool>,
    /// Reason why the worker no longer holds the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
}

/// Reports the results of commands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportRequest {
    /// Worker that reports.
    pub worker_id: WorkerId,
    /// At most 100 reports. Each is processed independently.
    pub reports: Vec<CommandReport>,
    /// Remaining output of commands whose output was sent while they ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<CommandOutput>,
    /// Request for further commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<NextLease>,
}

/// Request for further commands, sent together with reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NextLease {
    /// Pool of the worker.
    pub pool: PoolName,
    /// Maximum number of commands.
    pub max: LeaseBatchSize,
    /// Maximum time to wait for a command, in milliseconds.
    #[serde(default)]
    pub wait_ms: u64,
    /// Kinds of tools that the worker supports; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<Text>>,
    /// Duration of the lease in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
}

/// Report on a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandReport {
    /// Id of the execution.
    pub execution_id: ExecutionId,
    /// Id of the command.
    pub command_id: CommandId,
    /// Number of the attempt.
    pub attempt: u32,
    /// Token of the lease.
    pub lease_token: LeaseToken,
    /// Status of the command.
    pub status: ReportStatus,
    /// Result of the step, or progress data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Json>,
    /// Result of each task of a pipeline, if the result of the last task hides some of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Json>,
    /// Continuation of the pipeline in another command. The result then holds the results of its
    /// tasks by label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub onward: Option<Json>,
    /// Values that its tasks set, by the keys of their `set`.
    #[serde(default, skip_serializing_if = "JsonMap::is_empty")]
    pub set: JsonMap,
    /// Error of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TaskError>,
    /// Report on each task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskReport>,
    /// Report on the rows of the frame, in a loop over a cursor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<FrameReport>,
    /// Attempt of the last task, from 1.
    #[serde(default = "first_attempt")]
    pub task_attempt: u32,
    /// Failed and retried task attempts that the server may not know yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retries: Vec<RetriedTask>,
    /// Number of earlier retries in this attempt of the command. The server uses it to detect
    /// retries that were already reported.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retries_before: u32,
    /// Start of the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_at: Option<Timestamp>,
    /// End of the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Timestamp>,
    /// Start time of the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// End time of the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
}

impl CommandReport {
    /// Returns the report with secrets redacted.
    #[must_use]
    pub fn redact_secrets(self, secrets: &SecretSet) -> Self {
        if secrets.is_empty() {
            return self;
        }
        let mut redacted = Self {
            result: self.result.map(|result| secrets.redact_json(result)),
            labels: self.labels.map(|labels| secrets.redact_json(labels)),
            onward: self.onward.map(|onward| redact_continuation(secrets, onward)),
            set: secrets.redact_fields(self.set),
            error: self.error.map(|error| secrets.redact_error(error)),
            ..self
        };
        for task in &mut redacted.tasks {
            for text in [&mut task.stdout, &mut task.stderr].into_iter().flatten() {
                if let Some(redacted_text) = secrets.redact_text(text) {
                    *text = Text::from_lossy(&redacted_text);
                }
            }
        }
        for retry in &mut redacted.retries {
            retry.error = secrets.redact_error(retry.error.clone());
        }
        for failed in redacted.frame.iter_mut().flat_map(|frame| &mut frame.errors) {
            failed.error = secrets.redact_error(failed.error.clone());
        }
        redacted
    }
}

/// Redacts the values of a continuation. Its position in the pipeline is not secret.
fn redact_continuation(secrets: &SecretSet, continuation: Json) -> Json {
    let Json::Map(mut fields) = continuation else {
        return secrets.redact_json(continuation);
    };
    for key in ["variables", "iter"] {
        if let Some(Json::Map(values)) = Arc::make_mut(&mut fields).get_mut(key) {
            let redacted = secrets.redact_fields(std::mem::take(Arc::make_mut(values)));
            *values = Arc::new(redacted);
        }
    }
    Json::Map(fields)
}

const fn first_attempt() -> u32 {
    1
}

/// Reported status of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReportStatus {
    /// Completed successfully.
    Completed,
    /// Failed permanently.
    Failed,
    /// Still running.
    Progress,
    /// Suspended: an external operation reports the end. The result is what is known so far.
    Suspended,
}

/// Results of reports, and further commands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ReportResponse {
    /// One result per report, in request order.
    pub results: Vec<ReportResult>,
    /// Further leased commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<LeasedCommand>,
}

/// Result of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportResult {
    /// Id of the command.
    pub command_id: CommandId,
    /// Disposition of the report.
    pub status: ReportDisposition,
    /// Last sequence number of the log after the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
    /// Error code if the report was not accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
    /// Human-readable message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Text>,
}

/// Disposition of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReportDisposition {
    /// Stored durably.
    Accepted,
    /// Already stored before.
    Duplicate,
    /// Late, or without a valid lease. Recorded for audit.
    Ignored,
    /// Not accepted. The code says whether a retry can help.
    Rejected,
}

#[cfg(test)]
mod tests;
