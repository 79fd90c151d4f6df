//! Events that are relevant for the progress display.

use noetl_api::execution::EventView;
use noetl_types::{EventStatus, EventType, ExecutionStatus, Json, Millis, TaskError};

/// Progress of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ProgressEvent {
    /// A pass of a step started.
    Entered {
        pass: StepPass,
        /// Number of iterations of a loop.
        items: Option<u32>,
    },
    /// An attempt failed and is retried.
    Retried { pass: StepPass, error: TaskError, after: Millis },
    /// A worker was lost or too slow.
    Expired { pass: StepPass, reason: String },
    /// A command ended. In a loop, this is an iteration.
    Closed { pass: StepPass, is_failure: bool },
    /// A pass of a step ended.
    Exited { pass: StepPass, end: StepEnd },
    /// A step was skipped.
    Skipped { step: String, reason: SkipReason },
    /// The run ended.
    Ended(ExecutionStatus),
}

/// Pass of a step.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StepPass {
    pub(crate) step: String,
    /// Number of the pass, from 1.
    pub(crate) number: u32,
}

/// Outcome of a pass of a step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum StepEnd {
    Completed,
    Failed { error: TaskError, is_caught: bool },
    Cancelled,
}

/// Reason for skipping a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SkipReason {
    NotRouted,
    Guard,
    Admission,
}

impl SkipReason {
    /// Text for people.
    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::NotRouted => "no arc leads to it",
            Self::Guard => "its condition is false",
            Self::Admission => "its admission rules deny it",
        }
    }
}

impl ProgressEvent {
    /// Interprets an event. Returns `None` for irrelevant events.
    pub(crate) fn from_event(view: &EventView) -> Option<Self> {
        let kind = view.event_type.known_type()?;
        if let Some(status) = kind.terminal_status() {
            return Some(Self::Ended(status));
        }
        // Most event types are irrelevant for the progress, and new ones are too.
        if kind == EventType::StepEnter {
            let items = event_meta(view, "collection_size").and_then(to_u32);
            Some(Self::Entered { pass: step_pass(view)?, items })
        } else if kind == EventType::StepExit {
            let (pass, end) = (step_pass(view)?, step_end(view)?);
            Some(Self::Exited { pass, end })
        } else if kind == EventType::StepSkipped {
            skipped_event(view)
        } else if kind == EventType::CallError {
            retried_event(view)
        } else if kind == EventType::CommandExpired {
            let reason = event_meta(view, "reason").and_then(Json::as_str);
            Some(Self::Expired {
                pass: step_pass(view)?,
                reason: reason.unwrap_or("lease").to_owned(),
            })
        } else if kind == EventType::CommandCompleted || kind == EventType::CommandFailed {
            Some(Self::Closed {
                pass: step_pass(view)?,
                is_failure: kind == EventType::CommandFailed,
            })
        } else {
            None
        }
    }
}

fn step_pass(view: &EventView) -> Option<StepPass> {
    Some(StepPass {
        step: view.node_name.as_ref()?.to_string(),
        number: event_meta(view, "run").and_then(to_u32).unwrap_or(1),
    })
}

fn step_end(view: &EventView) -> Option<StepEnd> {
    let status = EventStatus::parse(&view.status).ok()?;
    if status == EventStatus::Failed {
        return Some(StepEnd::Failed {
            error: event_error(view),
            is_caught: result_context(view, "caught").and_then(Json::as_bool).unwrap_or(false),
        });
    }
    Some(if status == EventStatus::Cancelled { StepEnd::Cancelled } else { StepEnd::Completed })
}

fn skipped_event(view: &EventView) -> Option<ProgressEvent> {
    let reason = match event_meta(view, "reason").and_then(Json::as_str)? {
        "guard" => SkipReason::Guard,
        "admission" => SkipReason::Admission,
        _ => SkipReason::NotRouted,
    };
    let step = view.node_name.as_ref()?.to_string();
    Some(ProgressEvent::Skipped { step, reason })
}

fn retried_event(view: &EventView) -> Option<ProgressEvent> {
    let after = event_meta(view, "retry_in_ms").and_then(Json::as_u64)?;
    Some(ProgressEvent::Retried {
        pass: step_pass(view)?,
        error: event_error(view),
        after: Millis::from_ms(after),
    })
}

fn event_error(view: &EventView) -> TaskError {
    match (result_context(view, "error"), &view.error) {
        (Some(error), _) => TaskError::from_json(error),
        (None, Some(message)) => TaskError::from_json(&Json::from(&**message)),
        (None, None) => TaskError::from_json(&Json::Null),
    }
}

fn event_meta<'v>(view: &'v EventView, key: &str) -> Option<&'v Json> {
    view.meta.as_ref()?.get(key)
}

fn result_context<'v>(view: &'v EventView, key: &str) -> Option<&'v Json> {
    view.result.as_ref()?.get("context")?.get(key)
}

fn to_u32(value: &Json) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok()
}
