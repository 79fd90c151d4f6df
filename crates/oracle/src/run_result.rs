//! Result of a run, in a form in which two interpreters can be compared.

use std::collections::BTreeMap;
use std::sync::Arc;

use noetl_types::{EventType, ExecutionStatus, Json, JsonMap};

use crate::names::StepValue;
use crate::outcome::ErrorKind;

#[derive(Debug, Clone, PartialEq)]
pub struct RunResult {
    /// `Completed` or `Failed`. `Running` if the run waits for an event that never occurs.
    pub status: ExecutionStatus,
    /// The kind of the first uncaught failure.
    pub error_kind: Option<ErrorKind>,
    /// Every step of the playbook, including those that never ran.
    pub steps: BTreeMap<Arc<str>, StepResult>,
    /// Every skip, in order.
    pub skipped: Vec<SkippedStep>,
    /// Variables of the execution.
    pub ctx: Json,
    /// Recorded input.
    pub workload: Json,
    pub result: Json,
    /// The steps that failed uncaught, in order of failure.
    pub failed_steps: Vec<Arc<str>>,
    /// Events of the log, in order.
    pub history: Vec<HistoryEvent>,
    /// Results that later runs may reuse.
    pub(crate) cached_results: Vec<CachedResult>,
}

/// A result that other passes of the same step may reuse.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CachedResult {
    /// Index of the step.
    pub(crate) step: usize,
    pub(crate) key: String,
    /// Event name that arcs see for this result.
    pub(crate) event: &'static str,
    pub(crate) value: StepValue,
    /// Time of expiry, in milliseconds since the start of the run.
    pub(crate) expires_at: Option<u64>,
}

/// Final state of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepResult {
    /// Number of times it was entered.
    pub runs: u64,
    /// Outcome of its latest pass or skip.
    pub status: StepStatus,
    /// Data of its latest successful pass, otherwise null.
    pub data: Json,
    /// Error kind of its latest pass, if that failed.
    pub error_kind: Option<ErrorKind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepStatus {
    /// Never entered and never skipped.
    Pending,
    /// Entered and not exited.
    Running,
    /// Its latest pass succeeded.
    Completed,
    /// Its latest pass failed, caught or not.
    Failed,
    /// Its latest pass was cancelled because the execution failed elsewhere.
    Cancelled,
    /// It was skipped and has not run since.
    Skipped,
}

impl StepStatus {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Running => "RUNNING",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Cancelled => "CANCELLED",
            Self::Skipped => "SKIPPED",
        }
    }
}

/// A step that was skipped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SkippedStep {
    pub step: Arc<str>,
    pub reason: SkipReason,
}

/// Reason for which a step was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkipReason {
    /// No active step can reach it any more.
    NotRouted,
    /// Its guard was false.
    Guard,
    /// Its admission rules denied it.
    Admission,
}

impl SkipReason {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotRouted => "not_routed",
            Self::Guard => "guard",
            Self::Admission => "admission",
        }
    }
}

/// One event of the log, without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEvent {
    pub event: EventType,
    /// Name of the step, or the path of the playbook for events of the execution.
    pub node: Arc<str>,
    /// Index of the iteration, for events of a loop command.
    pub index: Option<usize>,
}

/// Removes the parts of data in which two correct interpreters may differ.
///
/// The language fixes the kind of an error, not the text of its message. A loop that tolerates
/// failures keeps error objects in its data: each is reduced to its kind here, and an empty list of
/// them is dropped. The id of a child execution is random and is set to null.
pub fn normalize_data(data: &Json) -> Json {
    match data {
        Json::Map(map) => {
            let mut normalized = JsonMap::new();
            for (key, value) in map.iter() {
                let is_empty = value.as_list().is_some_and(<[Json]>::is_empty);
                if &**key == "errors" && is_empty {
                    continue;
                }
                if &**key == "execution_id" {
                    normalized.insert(Arc::clone(key), Json::Null);
                    continue;
                }
                let value = match value.get("kind") {
                    Some(kind) if &**key == "error" => kind.clone(),
                    Some(_) | None => normalize_data(value),
                };
                normalized.insert(Arc::clone(key), value);
            }
            Json::from(normalized)
        }
        Json::List(items) => Json::list(items.iter().map(normalize_data)),
        Json::Null
        | Json::Bool(_)
        | Json::Int(_)
        | Json::UInt(_)
        | Json::Float(_)
        | Json::Str(_) => data.clone(),
    }
}
