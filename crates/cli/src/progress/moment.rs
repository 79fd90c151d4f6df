//! What an event means to somebody who watches.

use noetl_api::execution::EventView;
use noetl_types::{EventStatus, EventType, ExecutionStatus, Json, Millis, TaskError};

/// An event, as far as a watcher cares.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Moment {
    /// A run of a step began.
    Entered {
        at: At,
        /// How many iterations it has, where it loops.
        items: Option<u32>,
    },
    /// An attempt failed, and another one follows.
    Retried {
        at: At,
        error: TaskError,
        after: Millis,
    },
    /// A worker was lost, or too slow.
    Expired { at: At, reason: String },
    /// A command ended; in a loop, that is an iteration.
    Closed { at: At, is_failure: bool },
    /// A run of a step ended.
    Exited { at: At, end: End },
    /// A step was passed over.
    Skipped { step: String, reason: Reason },
    /// The run ended.
    Ended(ExecutionStatus),
}

/// Where in the run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct At {
    pub(crate) step: String,
    /// Which run of the step, from 1.
    pub(crate) run: u32,
}

/// How a run of a step ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum End {
    Completed,
    Failed { error: TaskError, is_caught: bool },
    Cancelled,
}

/// Why a step was passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    NotRouted,
    Guard,
    Admission,
}

impl Reason {
    /// For people.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::NotRouted => "no arc led to it",
            Self::Guard => "its condition does not hold",
            Self::Admission => "its admission rules deny it",
        }
    }
}

impl Moment {
    /// Reads an event. What tells a watcher nothing is none.
    pub(crate) fn of(view: &EventView) -> Option<Self> {
        let kind = view.event_type.known()?;
        if let Some(status) = kind.ends_as() {
            return Some(Self::Ended(status));
        }
        // No arm for the rest: most types of events tell a watcher nothing, and a new one neither.
        if kind == EventType::StepEnter {
            let items = meta(view, "collection_size").and_then(number);
            Some(Self::Entered {
                at: at(view)?,
                items,
            })
        } else if kind == EventType::StepExit {
            let (at, end) = (at(view)?, end(view)?);
            Some(Self::Exited { at, end })
        } else if kind == EventType::StepSkipped {
            skipped(view)
        } else if kind == EventType::CallError {
            retried(view)
        } else if kind == EventType::CommandExpired {
            let reason = meta(view, "reason").and_then(Json::as_str);
            Some(Self::Expired {
                at: at(view)?,
                reason: reason.unwrap_or("lease").to_owned(),
            })
        } else if kind == EventType::CommandCompleted || kind == EventType::CommandFailed {
            Some(Self::Closed {
                at: at(view)?,
                is_failure: kind == EventType::CommandFailed,
            })
        } else {
            None
        }
    }
}

fn at(view: &EventView) -> Option<At> {
    Some(At {
        step: view.node_name.as_ref()?.to_string(),
        run: meta(view, "run").and_then(number).unwrap_or(1),
    })
}

fn end(view: &EventView) -> Option<End> {
    let status = EventStatus::parse(&view.status).ok()?;
    if status == EventStatus::Failed {
        return Some(End::Failed {
            error: error_of(view),
            is_caught: told(view, "caught")
                .and_then(Json::as_bool)
                .unwrap_or(false),
        });
    }
    Some(if status == EventStatus::Cancelled {
        End::Cancelled
    } else {
        End::Completed
    })
}

fn skipped(view: &EventView) -> Option<Moment> {
    let reason = match meta(view, "reason").and_then(Json::as_str)? {
        "guard" => Reason::Guard,
        "admission" => Reason::Admission,
        _ => Reason::NotRouted,
    };
    let step = view.node_name.as_ref()?.to_string();
    Some(Moment::Skipped { step, reason })
}

fn retried(view: &EventView) -> Option<Moment> {
    let after = meta(view, "retry_in_ms").and_then(Json::as_u64)?;
    Some(Moment::Retried {
        at: at(view)?,
        error: error_of(view),
        after: Millis::from_ms(after),
    })
}

fn error_of(view: &EventView) -> TaskError {
    match (told(view, "error"), &view.error) {
        (Some(error), _) => TaskError::from_json(error),
        (None, Some(message)) => TaskError::from_json(&Json::from(&**message)),
        (None, None) => TaskError::from_json(&Json::Null),
    }
}

fn meta<'v>(view: &'v EventView, key: &str) -> Option<&'v Json> {
    view.meta.as_ref()?.get(key)
}

fn told<'v>(view: &'v EventView, key: &str) -> Option<&'v Json> {
    view.result.as_ref()?.get("context")?.get(key)
}

fn number(value: &Json) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok()
}
