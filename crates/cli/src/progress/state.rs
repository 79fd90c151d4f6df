//! Active steps of a run, derived from its events.

use std::collections::BTreeMap;

use noetl_api::execution::EventView;
use noetl_types::{EventStatus, EventType, ExecutionStatus, Json, Millis, TaskError, Timestamp};

/// Permanent line of the progress display.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ProgressNote {
    /// A pass of a step started. `items` is the number of iterations of a loop.
    Entered {
        pass: StepPass,
        items: Option<u32>,
    },
    /// An attempt failed and is retried.
    Retried {
        pass: StepPass,
        error: TaskError,
        after: Millis,
    },
    /// A worker was lost or too slow.
    Expired {
        pass: StepPass,
        reason: String,
    },
    Completed {
        pass: StepPass,
        stats: StepStats,
    },
    Failed {
        pass: StepPass,
        stats: StepStats,
        error: TaskError,
        is_caught: bool,
    },
    Cancelled {
        pass: StepPass,
        stats: StepStats,
    },
    Skipped {
        step: String,
        reason: &'static str,
    },
}

/// Pass of a step.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StepPass {
    pub(super) step: String,
    /// Number of the pass, from 1.
    pub(super) number: u32,
}

/// Statistics of a pass of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct StepStats {
    pub(super) time: Millis,
    pub(super) retries: u32,
    /// Progress of its loop.
    pub(super) loop_progress: Option<LoopProgress>,
}

/// Progress of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LoopProgress {
    pub(super) total: u32,
    pub(super) done: u32,
    pub(super) failed: u32,
}

/// An active pass of a step.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ActiveStep {
    pub(super) since: Timestamp,
    pub(super) retries: u32,
    pub(super) loop_progress: Option<LoopProgress>,
    /// Error of the last attempt while the step waits for a retry.
    pub(super) retry_error: Option<TaskError>,
}

/// State of the progress display.
#[derive(Debug, Default)]
pub(super) struct ProgressState {
    /// Active steps, sorted by name.
    pub(super) active_steps: BTreeMap<StepPass, ActiveStep>,
    /// Final status of the run, if it has ended.
    pub(super) final_status: Option<ExecutionStatus>,
}

impl ProgressState {
    /// Applies an event and returns the lines to print.
    pub(super) fn apply_event(&mut self, event: &EventView) -> Vec<ProgressNote> {
        let Some(kind) = event.event_type.known_type() else {
            return Vec::new();
        };
        match kind.terminal_status() {
            Some(status) => self.end_run(status, event.created_at),
            None => self.apply_step_event(kind, event).into_iter().collect(),
        }
    }

    fn apply_step_event(&mut self, kind: EventType, event: &EventView) -> Option<ProgressNote> {
        let number = event_meta(event, "run").and_then(to_u32).unwrap_or(1);
        let pass = StepPass { step: event.node_name.as_ref()?.to_string(), number };
        // Most event types are irrelevant for the progress, and new ones are too.
        match kind {
            EventType::StepEnter => {
                let items = event_meta(event, "collection_size").and_then(to_u32);
                let active = ActiveStep {
                    since: event.created_at,
                    retries: 0,
                    loop_progress: items.map(|total| LoopProgress { total, done: 0, failed: 0 }),
                    retry_error: None,
                };
                self.active_steps.insert(pass.clone(), active);
                Some(ProgressNote::Entered { pass, items })
            }
            EventType::CallError => {
                let after = event_meta(event, "retry_in_ms").and_then(Json::as_u64)?;
                let error = event_error(event);
                if let Some(active) = self.active_steps.get_mut(&pass) {
                    active.retries += 1;
                    active.retry_error = Some(error.clone());
                }
                Some(ProgressNote::Retried { pass, error, after: Millis::from_ms(after) })
            }
            EventType::CommandExpired => {
                let reason = event_meta(event, "reason").and_then(Json::as_str);
                let reason = reason.unwrap_or("lease").to_owned();
                Some(ProgressNote::Expired { pass, reason })
            }
            EventType::CommandCompleted | EventType::CommandFailed => {
                self.count_iteration(&pass, kind == EventType::CommandFailed);
                None
            }
            EventType::StepExit => {
                let status = EventStatus::parse(&event.status).ok()?;
                let stats = self.end_pass(&pass, event.created_at);
                Some(match status {
                    EventStatus::Failed => {
                        let is_caught = result_context(event, "caught").and_then(Json::as_bool);
                        let (error, is_caught) = (event_error(event), is_caught.unwrap_or(false));
                        ProgressNote::Failed { pass, stats, error, is_caught }
                    }
                    EventStatus::Cancelled => ProgressNote::Cancelled { pass, stats },
                    _ => ProgressNote::Completed { pass, stats },
                })
            }
            EventType::StepSkipped => {
                let reason = match event_meta(event, "reason").and_then(Json::as_str)? {
                    "guard" => "its condition is false",
                    "admission" => "its admission rules deny it",
                    _ => "no arc leads to it",
                };
                Some(ProgressNote::Skipped { step: pass.step, reason })
            }
            _ => None,
        }
    }

    /// Counts an ended command. In a loop, this is an iteration.
    fn count_iteration(&mut self, pass: &StepPass, is_failure: bool) {
        let Some(active) = self.active_steps.get_mut(pass) else {
            return;
        };
        active.retry_error = None;
        if let Some(progress) = &mut active.loop_progress {
            progress.done += 1;
            progress.failed += u32::from(is_failure);
        }
    }

    /// Ends the run. Steps that are still active count as cancelled.
    fn end_run(&mut self, status: ExecutionStatus, time: Timestamp) -> Vec<ProgressNote> {
        self.final_status = Some(status);
        let remaining: Vec<StepPass> = self.active_steps.keys().cloned().collect();
        let cancel = |pass: StepPass| {
            let stats = self.end_pass(&pass, time);
            ProgressNote::Cancelled { pass, stats }
        };
        remaining.into_iter().map(cancel).collect()
    }

    fn end_pass(&mut self, pass: &StepPass, time: Timestamp) -> StepStats {
        let Some(active) = self.active_steps.remove(pass) else {
            return StepStats::default();
        };
        StepStats {
            time: time.duration_since(active.since),
            retries: active.retries,
            loop_progress: active.loop_progress,
        }
    }
}

/// Error of an event of a failed command or step.
pub(crate) fn event_error(event: &EventView) -> TaskError {
    match (result_context(event, "error"), &event.error) {
        (Some(error), _) => TaskError::from_json(error),
        (None, Some(message)) => TaskError::from_json(&Json::from(&**message)),
        (None, None) => TaskError::from_json(&Json::Null),
    }
}

fn event_meta<'e>(event: &'e EventView, key: &str) -> Option<&'e Json> {
    event.meta.as_ref()?.get(key)
}

fn result_context<'e>(event: &'e EventView, key: &str) -> Option<&'e Json> {
    event.result.as_ref()?.get("context")?.get(key)
}

fn to_u32(value: &Json) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok()
}
