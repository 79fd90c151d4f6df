//! Commands on the wire: how a worker gets them, keeps them, and tells what became of them.

use std::sync::Arc;

use noetl_types::limits::LeaseBatch;
use noetl_types::redact::Secrets;
use noetl_types::{
    CatalogId, CommandId, ErrorCode, EventId, ExecutionId, Json, JsonMap, Millis, PoolName, Seq,
    StepName, TaskError, Text, Timestamp, WorkerId,
};
use serde::{Deserialize, Serialize};

use crate::token::LeaseToken;

/// A worker asks for work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LeaseRequest {
    /// Who asks.
    pub worker_id: WorkerId,
    /// The pool that it works for.
    pub pool: PoolName,
    /// How many commands it can take.
    #[serde(default)]
    pub max: LeaseBatch,
    /// How long it waits where there is none.
    #[serde(default)]
    pub wait_ms: u64,
    /// The kinds of tools that it has; all where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<Text>>,
    /// How long a lease is to last; the server's own measure where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
}

/// Work for a worker.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaseAnswer {
    /// The commands, each of them now the worker's.
    pub commands: Vec<LeasedCommand>,
    /// How long to wait before asking again; 0 for at once.
    #[serde(default)]
    pub poll_after_ms: u64,
}

/// A command with all that a worker needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeasedCommand {
    /// The run.
    pub execution_id: ExecutionId,
    /// The event that issued it.
    pub event_id: EventId,
    /// The command.
    pub command_id: CommandId,
    /// The attempt that begins, from 1.
    pub attempt: u32,
    /// What proves the lease.
    pub lease_token: LeaseToken,
    /// Since when it is the worker's.
    pub claimed_at: Timestamp,
    /// Until when, unless it is renewed.
    pub lease_until: Timestamp,
    /// When the attempt fails, renewed or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
    /// The first two parts of the key of every call: run and seq.
    pub idempotency_key: Text,
    /// The step, as an id.
    pub node_id: StepName,
    /// The step.
    pub node_name: StepName,
    /// The kind of its first tool.
    pub action: Text,
    /// The values that its templates read, as of its issue, or where they are kept.
    #[serde(default)]
    pub context: JsonMap,
    /// Where it belongs.
    pub meta: CommandMeta,
}

/// Where a command belongs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommandMeta {
    /// The definition that its run is pinned to.
    pub catalog_id: CatalogId,
    /// The place of the event that issued it.
    pub seq: Seq,
    /// When it was issued: `now()` of its templates.
    pub issued_at: Timestamp,
    /// The run of its step, from 1.
    pub run: u32,
    /// The iteration, in a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// How many iterations there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection_size: Option<u32>,
    /// How many rows its frame asks for, in a loop over a cursor; `index` is the frame then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_max_rows: Option<u32>,
    /// The attempt that begins, as classic workers know it.
    pub attempts: u32,
    /// Attempts in all.
    pub max_attempts: u32,
    /// The trace that its run was started in, as a `traceparent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Text>,
}

/// What proves that a command is still one's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HeldLease {
    /// The run.
    pub execution_id: ExecutionId,
    /// The command.
    pub command_id: CommandId,
    /// The token that came with it.
    pub lease_token: LeaseToken,
    /// The attempt.
    pub attempt: u32,
}

/// A worker keeps its commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HeartbeatRequest {
    /// Who.
    pub worker_id: WorkerId,
    /// What it holds.
    pub leases: Vec<HeldLease>,
    /// For how long from now; the server's own measure where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extend_ms: Option<u64>,
}

/// What became of the wish to keep them; in the order of the request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeartbeatAnswer {
    /// One for each.
    pub leases: Vec<KeptLease>,
}

/// What became of one lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeptLease {
    /// The command.
    pub command_id: CommandId,
    /// Whether it still is the worker's.
    pub ok: bool,
    /// Until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Timestamp>,
    /// Whether nobody wants its result any more: stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<bool>,
    /// Why it is not the worker's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
}

/// A worker tells what became of its commands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReportRequest {
    /// Who.
    pub worker_id: WorkerId,
    /// At most [`noetl_types::limits::MAX_REPORT_BATCH`]; each stands for itself.
    pub reports: Vec<CommandReport>,
    /// What it would like to have next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<NextLease>,
}

/// What a worker that reports would like to have next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NextLease {
    /// The pool that it works for.
    pub pool: PoolName,
    /// How many commands it can take.
    pub max: LeaseBatch,
    /// How long it waits where there is none.
    #[serde(default)]
    pub wait_ms: u64,
    /// The kinds of tools that it has; all where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<Text>>,
    /// How long a lease is to last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CommandReport {
    /// The run.
    pub execution_id: ExecutionId,
    /// The command.
    pub command_id: CommandId,
    /// The attempt.
    pub attempt: u32,
    /// The token that came with it.
    pub lease_token: LeaseToken,
    /// How it went.
    pub status: ReportStatus,
    /// The data of the step, or how far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Json>,
    /// The data of each task of a pipeline, where that of the last one hides some of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Json>,
    /// Where the pipeline goes on in another command; then the result is the data of its tasks by
    /// label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub onward: Option<Json>,
    /// What its tasks wrote, by the keys of their `set`.
    #[serde(default, skip_serializing_if = "JsonMap::is_empty")]
    pub set: JsonMap,
    /// What it failed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TaskError>,
    /// What became of each task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskReport>,
    /// What became of the rows of its frame, in a loop over a cursor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<FrameReport>,
    /// The attempt of the last task, from 1.
    #[serde(default = "first")]
    pub task_attempt: u32,
    /// Attempts of tasks that failed and were made again, as far as the worker does not know that the
    /// server was told of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retries: Vec<RetriedTask>,
    /// How many there were before those, in this attempt of the command: what was told already is
    /// known by it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries_before: u32,
    /// Since when it was the worker's, as its lease said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_at: Option<Timestamp>,
    /// Until when, as its lease said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Timestamp>,
    /// When its work began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When its work ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
}

impl CommandReport {
    /// The same without secrets.
    #[must_use]
    pub fn hiding(self, secrets: &Secrets) -> Self {
        if secrets.is_empty() {
            return self;
        }
        let mut hidden = Self {
            result: self.result.map(|result| secrets.hide(result)),
            labels: self.labels.map(|labels| secrets.hide(labels)),
            onward: self.onward.map(|onward| hide_onward(secrets, onward)),
            set: secrets.hide_fields(self.set),
            error: self.error.map(|error| secrets.hide_error(error)),
            ..self
        };
        for task in &mut hidden.tasks {
            for text in [&mut task.stdout, &mut task.stderr].into_iter().flatten() {
                if let Some(shown) = secrets.hidden_in(text) {
                    *text = Text::lossy(&shown);
                }
            }
        }
        for retry in &mut hidden.retries {
            retry.error = secrets.hide_error(retry.error.clone());
        }
        for failed in hidden.frame.iter_mut().flat_map(|frame| &mut frame.errors) {
            failed.error = secrets.hide_error(failed.error.clone());
        }
        hidden
    }
}

/// What is handed on without secrets; where the pipeline goes on is none.
fn hide_onward(secrets: &Secrets, onward: Json) -> Json {
    let Json::Map(mut fields) = onward else {
        return secrets.hide(onward);
    };
    for key in ["variables", "iter"] {
        if let Some(Json::Map(values)) = Arc::make_mut(&mut fields).get_mut(key) {
            let hidden = secrets.hide_fields(std::mem::take(Arc::make_mut(values)));
            *values = Arc::new(hidden);
        }
    }
    Json::Map(fields)
}

const fn first() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What became of the rows of a frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FrameReport {
    /// How many were claimed; none ends the chain of frames.
    pub rows: u32,
    /// Those whose tasks went well.
    pub done: u32,
    /// Those whose tasks failed.
    pub failed: u32,
    /// Bytes of the rows.
    pub bytes: u64,
    /// The first failures, where the frame went on after them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<RowError>,
}

/// A row whose tasks failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RowError {
    /// Its place in the frame, from 0.
    pub row: u32,
    /// With what they failed.
    pub error: TaskError,
}

/// How a command went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReportStatus {
    /// Well.
    Completed,
    /// Badly, and for good.
    Failed,
    /// It goes on.
    Progress,
    /// What it started tells its end by itself; the result is what is known of it so far.
    Parked,
}

/// What became of a task of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TaskReport {
    /// The task.
    pub label: Text,
    /// How its last run went.
    pub status: TaskStatus,
    /// How often it ran.
    pub attempts: u32,
    /// How long it ran, all attempts together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// What its last run wrote to its standard output besides giving data; the end of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<Text>,
    /// The same of the error output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<Text>,
}

/// How a task went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Well.
    Ok,
    /// Badly.
    Error,
}

/// An attempt of a task that failed and is made again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RetriedTask {
    /// What it failed with.
    pub error: TaskError,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// After how long it is made again.
    #[serde(with = "noetl_types::time::as_ms")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub retry_in_ms: Millis,
    /// When it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// What became of reports, and what to do next.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReportAnswer {
    /// One for each report, in the order of the request.
    pub results: Vec<ReportResult>,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<LeasedCommand>,
}

/// What became of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReportResult {
    /// The command.
    pub command_id: CommandId,
    /// Whether it counts.
    pub status: ReportVerdict,
    /// The end of the run's log after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
    /// Why it does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
    /// The same in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Text>,
}

/// Whether a report counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReportVerdict {
    /// It does, durably.
    Accepted,
    /// It did before.
    Duplicate,
    /// It came too late, or from somebody whose lease is gone; that is noted.
    Ignored,
    /// It cannot be taken: the code says whether a repetition helps.
    Rejected,
}

#[cfg(test)]
mod tests {
    use noetl_types::TaskErrorKind;
    use noetl_types::json::parse;

    use super::*;

    fn json(text: &str) -> Json {
        parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_report_hides_values_and_leaves_the_names_of_the_playbook() {
        let report = r#"{"execution_id":"7","command_id":"8","attempt":1,"task_attempt":1,
            "lease_token":"00000000000000000000000000000000","status":"failed",
            "result":{"sesame-1":"<sesame-1>"},"labels":{"a":"sesame-1"},
            "onward":{"to":"sesame-1","task_runs":1,"variables":{"sesame-1":"sesame-1"}},
            "set":{"ctx.sesame-1":["sesame-1"]}}"#;
        let mut report: CommandReport = serde_json::from_str(report).unwrap();
        let error = TaskError {
            code: Some(Json::from("sesame-1")),
            details: Some(json(r#"{"said":"sesame-1"}"#)),
            ..TaskError::new(TaskErrorKind::Auth, "no entry with sesame-1")
        };
        report.error = Some(error.clone());
        report.retries = vec![RetriedTask {
            error: error.clone(),
            attempt: 1,
            retry_in_ms: Millis::ZERO,
            at: None,
        }];
        report.frame = Some(FrameReport {
            rows: 1,
            done: 0,
            failed: 1,
            bytes: 8,
            errors: vec![RowError { row: 0, error }],
        });
        report.tasks = vec![TaskReport {
            label: "sesame-1".into(),
            status: TaskStatus::Error,
            attempts: 1,
            duration_ms: None,
            stdout: Some("it is sesame-1".into()),
            stderr: Some("sesame-1\nno".into()),
        }];
        let mut secrets = Secrets::default();
        secrets.add_text("sesame-1");
        let hidden = report.hiding(&secrets);
        assert_eq!(
            hidden.result,
            Some(json(r#"{"[REDACTED]":"<[REDACTED]>"}"#))
        );
        assert_eq!(
            Json::from(hidden.set.clone()),
            json(r#"{"ctx.sesame-1":["[REDACTED]"]}"#)
        );
        assert_eq!(
            hidden.onward,
            Some(json(
                r#"{"to":"sesame-1","task_runs":1,"variables":{"sesame-1":"[REDACTED]"}}"#
            ))
        );
        let told = serde_json::to_string(&hidden).unwrap();
        // Those are the four names above.
        assert_eq!(told.matches("sesame-1").count(), 4, "{told}");
    }
}
