//! What a run comes to, in a form that two interpreters can be compared by.

use std::collections::BTreeMap;
use std::sync::Arc;

use noetl_types::{EventType, ExecutionStatus, Json, JsonMap};

use crate::names::StepValue;
use crate::outcome::ErrorKind;

/// What a run came to.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResult {
    /// `Completed` or `Failed`; `Running` where the run waits for what never comes.
    pub status: ExecutionStatus,
    /// The kind of the first uncaught failure.
    pub error_kind: Option<ErrorKind>,
    /// Every step of the playbook, also those that never ran.
    pub steps: BTreeMap<Arc<str>, StepResult>,
    /// Every skip, in order.
    pub skipped: Vec<Skip>,
    /// The variables of the execution.
    pub ctx: Json,
    /// The recorded input.
    pub workload: Json,
    /// The result of the run.
    pub result: Json,
    /// The steps that failed uncaught, in order of failure.
    pub failed_steps: Vec<Arc<str>>,
    /// What happened, in the order and the words of the log.
    pub history: Vec<Happening>,
    /// What the run has left to others.
    pub(crate) left: Vec<Cached>,
}

/// A result that other runs of the same step may take over.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cached {
    /// The step, by its number.
    pub(crate) step: usize,
    /// What must be equal.
    pub(crate) key: String,
    /// The event that the result means to arcs.
    pub(crate) event: &'static str,
    /// The result.
    pub(crate) value: StepValue,
    /// When it is too old.
    pub(crate) until: Option<u64>,
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepResult {
    /// How many times it was entered.
    pub runs: u64,
    /// What its latest run or skip came to.
    pub status: StepStatus,
    /// The data of its latest successful run, else null.
    pub data: Json,
    /// Why its latest run failed, if it did.
    pub error_kind: Option<ErrorKind>,
}

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepStatus {
    /// Never entered and never skipped.
    Pending,
    /// Entered and not left.
    Running,
    /// Its latest run succeeded.
    Completed,
    /// Its latest run failed, caught or not.
    Failed,
    /// Its latest run was cut short because the execution had failed elsewhere.
    Cancelled,
    /// It was skipped, and has not run since.
    Skipped,
}

impl StepStatus {
    /// The word for it.
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

/// A step that was passed over.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skip {
    /// The step.
    pub step: Arc<str>,
    /// Why.
    pub reason: SkipReason,
}

/// Why a step was passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkipReason {
    /// Nothing active could lead to it any more.
    NotRouted,
    /// Its guard did not hold.
    Guard,
    /// Its admission denied it.
    Admission,
}

impl SkipReason {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotRouted => "not_routed",
            Self::Guard => "guard",
            Self::Admission => "admission",
        }
    }
}

/// One event of the log, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happening {
    /// What happened.
    pub event: EventType,
    /// To which step; the path of the playbook for what happens to the whole run.
    pub node: Arc<str>,
    /// The index of the iteration, for what happens to a command of a loop.
    pub index: Option<usize>,
}

/// Data without the parts that two right interpreters may word differently.
///
/// The language fixes the kind of an error, and not the text of its message. A loop that tolerates
/// failures keeps error objects in its data: each is reduced to its kind here, and an empty list of
/// them is dropped. The id of a child is drawn anew in every run.
pub fn comparable(data: &Json) -> Json {
    match data {
        Json::Map(map) => {
            let mut kept = JsonMap::new();
            for (key, value) in map.iter() {
                let is_empty = value.as_list().is_some_and(<[Json]>::is_empty);
                if &**key == "errors" && is_empty {
                    continue;
                }
                if &**key == "execution_id" {
                    kept.insert(Arc::clone(key), Json::Null);
                    continue;
                }
                let value = match value.get("kind") {
                    Some(kind) if &**key == "error" => kind.clone(),
                    Some(_) | None => comparable(value),
                };
                kept.insert(Arc::clone(key), value);
            }
            Json::from(kept)
        }
        Json::List(items) => Json::list(items.iter().map(comparable)),
        Json::Null
        | Json::Bool(_)
        | Json::Int(_)
        | Json::UInt(_)
        | Json::Float(_)
        | Json::Str(_) => data.clone(),
    }
}
