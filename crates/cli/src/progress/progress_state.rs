//! Active steps of a run, derived from its events.

use std::collections::BTreeMap;

use noetl_types::{ExecutionStatus, Millis, TaskError, Timestamp};

use super::progress_event::{ProgressEvent, SkipReason, StepEnd, StepPass};

/// Permanent line of the progress display.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ProgressNote {
    Entered { pass: StepPass, items: Option<u32> },
    Retried { pass: StepPass, error: TaskError, after: Millis },
    Expired { pass: StepPass, reason: String },
    Completed { pass: StepPass, stats: StepStats },
    Failed { pass: StepPass, stats: StepStats, error: TaskError, is_caught: bool },
    Cancelled { pass: StepPass, stats: StepStats },
    Skipped { step: String, reason: SkipReason },
}

/// Statistics of a pass of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StepStats {
    pub(crate) time: Millis,
    pub(crate) retries: u32,
    /// Progress of its loop.
    pub(crate) loop_progress: Option<LoopProgress>,
}

/// Progress of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoopProgress {
    pub(crate) total: u32,
    pub(crate) done: u32,
    pub(crate) failed: u32,
}

/// An active pass of a step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ActiveStep {
    pub(crate) since: Timestamp,
    pub(crate) retries: u32,
    pub(crate) loop_progress: Option<LoopProgress>,
    /// Error of the last attempt while the step waits for a retry.
    pub(crate) retry_error: Option<TaskError>,
}

/// State of the progress display.
#[derive(Debug, Default)]
pub(crate) struct ProgressState {
    active_steps: BTreeMap<StepPass, ActiveStep>,
    final_status: Option<ExecutionStatus>,
}

impl ProgressState {
    /// Applies an event and returns the lines to print.
    pub(crate) fn apply_event(
        &mut self,
        event: ProgressEvent,
        time: Timestamp,
    ) -> Vec<ProgressNote> {
        let note = match event {
            ProgressEvent::Ended(status) => return self.end_run(status, time),
            ProgressEvent::Entered { pass, items } => {
                let active = ActiveStep {
                    since: time,
                    retries: 0,
                    loop_progress: items.map(|total| LoopProgress { total, done: 0, failed: 0 }),
                    retry_error: None,
                };
                self.active_steps.insert(pass.clone(), active);
                Some(ProgressNote::Entered { pass, items })
            }
            ProgressEvent::Retried { pass, error, after } => {
                if let Some(active) = self.active_steps.get_mut(&pass) {
                    active.retries += 1;
                    active.retry_error = Some(error.clone());
                }
                Some(ProgressNote::Retried { pass, error, after })
            }
            ProgressEvent::Expired { pass, reason } => Some(ProgressNote::Expired { pass, reason }),
            ProgressEvent::Closed { pass, is_failure } => {
                self.count_iteration(&pass, is_failure);
                None
            }
            ProgressEvent::Exited { pass, end } => {
                let stats = self.end_pass(&pass, time);
                Some(match end {
                    StepEnd::Completed => ProgressNote::Completed { pass, stats },
                    StepEnd::Cancelled => ProgressNote::Cancelled { pass, stats },
                    StepEnd::Failed { error, is_caught } => {
                        ProgressNote::Failed { pass, stats, error, is_caught }
                    }
                })
            }
            ProgressEvent::Skipped { step, reason } => Some(ProgressNote::Skipped { step, reason }),
        };
        note.into_iter().collect()
    }

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
        remaining
            .into_iter()
            .map(|pass| {
                let stats = self.end_pass(&pass, time);
                ProgressNote::Cancelled { pass, stats }
            })
            .collect()
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

    /// Active steps, sorted by name.
    pub(crate) fn active_steps(&self) -> impl Iterator<Item = (&StepPass, &ActiveStep)> {
        self.active_steps.iter()
    }

    /// Final status of the run, if it has ended.
    pub(crate) fn final_status(&self) -> Option<ExecutionStatus> {
        self.final_status
    }
}
