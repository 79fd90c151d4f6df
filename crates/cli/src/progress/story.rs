//! What is under way in a run: a fold of what a watcher sees.

use std::collections::BTreeMap;

use noetl_types::{ExecutionStatus, Millis, TaskError, Timestamp};

use super::moment::{At, End, Moment, Reason};

/// Something to tell for good.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Note {
    Entered {
        at: At,
        items: Option<u32>,
    },
    Retried {
        at: At,
        error: TaskError,
        after: Millis,
    },
    Expired {
        at: At,
        reason: String,
    },
    Completed {
        at: At,
        took: Taken,
    },
    Failed {
        at: At,
        took: Taken,
        error: TaskError,
        is_caught: bool,
    },
    Cancelled {
        at: At,
        took: Taken,
    },
    Skipped {
        step: String,
        reason: Reason,
    },
}

/// What a run of a step took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Taken {
    pub(crate) time: Millis,
    pub(crate) retries: u32,
    /// Its iterations, where it looped.
    pub(crate) count: Option<Count>,
}

/// How far a loop is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) of: u32,
    pub(crate) done: u32,
    pub(crate) failed: u32,
}

/// A run of a step that goes on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Active {
    pub(crate) since: Timestamp,
    pub(crate) retries: u32,
    pub(crate) count: Option<Count>,
    /// What it waits for, if it does: the next attempt, since a failure.
    pub(crate) trouble: Option<TaskError>,
}

/// A run as it is told.
#[derive(Debug, Default)]
pub(crate) struct Story {
    active: BTreeMap<At, Active>,
    end: Option<ExecutionStatus>,
}

impl Story {
    /// Goes on by one event, and gives what is to be told of it.
    pub(crate) fn go_on(&mut self, moment: Moment, time: Timestamp) -> Vec<Note> {
        let told = match moment {
            Moment::Ended(status) => return self.finish(status, time),
            Moment::Entered { at, items } => {
                let begun = Active {
                    since: time,
                    retries: 0,
                    count: items.map(|of| Count {
                        of,
                        done: 0,
                        failed: 0,
                    }),
                    trouble: None,
                };
                self.active.insert(at.clone(), begun);
                Some(Note::Entered { at, items })
            }
            Moment::Retried { at, error, after } => {
                if let Some(active) = self.active.get_mut(&at) {
                    active.retries += 1;
                    active.trouble = Some(error.clone());
                }
                Some(Note::Retried { at, error, after })
            }
            Moment::Expired { at, reason } => Some(Note::Expired { at, reason }),
            Moment::Closed { at, is_failure } => {
                self.count(&at, is_failure);
                None
            }
            Moment::Exited { at, end } => {
                let took = self.leave(&at, time);
                Some(match end {
                    End::Completed => Note::Completed { at, took },
                    End::Cancelled => Note::Cancelled { at, took },
                    End::Failed { error, is_caught } => Note::Failed {
                        at,
                        took,
                        error,
                        is_caught,
                    },
                })
            }
            Moment::Skipped { step, reason } => Some(Note::Skipped { step, reason }),
        };
        told.into_iter().collect()
    }

    fn count(&mut self, at: &At, is_failure: bool) {
        let Some(active) = self.active.get_mut(at) else {
            return;
        };
        active.trouble = None;
        if let Some(count) = &mut active.count {
            count.done += 1;
            count.failed += u32::from(is_failure);
        }
    }

    /// The run ended: what still goes on is given up.
    fn finish(&mut self, status: ExecutionStatus, time: Timestamp) -> Vec<Note> {
        self.end = Some(status);
        let left: Vec<At> = self.active.keys().cloned().collect();
        left.into_iter()
            .map(|at| {
                let took = self.leave(&at, time);
                Note::Cancelled { at, took }
            })
            .collect()
    }

    fn leave(&mut self, at: &At, time: Timestamp) -> Taken {
        let Some(active) = self.active.remove(at) else {
            return Taken::default();
        };
        Taken {
            time: time.since(active.since),
            retries: active.retries,
            count: active.count,
        }
    }

    /// What goes on, in the order of the names.
    pub(crate) fn active(&self) -> impl Iterator<Item = (&At, &Active)> {
        self.active.iter()
    }

    /// How the run ended, if it has.
    pub(crate) fn end(&self) -> Option<ExecutionStatus> {
        self.end
    }
}
