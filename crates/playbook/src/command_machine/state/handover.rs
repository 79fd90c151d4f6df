//! The boundary between two commands of a pipeline.

use std::sync::Arc;

use noetl_types::{Json, JsonMap, Millis, TaskError};

use super::{CommandState, MachineHost, Transition};
use crate::bounds::fits_within;
use crate::command_machine::continuation::{Continuation, ContinuationState};
use crate::command_machine::outcome::{MachineOutcome, NextStage};
use crate::model::SetTarget;
use crate::segments;

impl CommandState {
    /// Resumes the pipeline where the previous commands left it.
    pub(super) fn resume_from(&mut self, state: ContinuationState) {
        let ContinuationState { continuation, results } = state;
        let data = &mut self.data;
        let previous = continuation.after.as_ref().and_then(|label| results.get(label).cloned());
        data.previous = previous.clone().unwrap_or_default();
        data.results = results;
        data.pipeline = continuation.variables;
        data.iter = Json::from(continuation.iter);
        self.last_data = previous;
        self.previous_label = continuation.after;
        self.attempts = continuation.task_runs;
        self.attempt = continuation.attempt;
    }

    /// Resumes at an attempt of the first task, with the values that earlier attempts wrote.
    pub(in crate::command_machine) fn resume_attempt(&mut self, attempt: u32, set: &JsonMap) {
        self.attempt = self.attempt.max(attempt);
        let written = set.iter().filter_map(|(key, value)| {
            let target = SetTarget::parse(key).ok()?;
            Some((target, value.clone()))
        });
        self.write_values(written.collect());
    }

    /// All written values, by the keys of `set`.
    pub(in crate::command_machine) fn written_values(&self) -> &JsonMap {
        &self.set
    }

    /// Continues with a task of this command or of another one. A task that suspends, or that the
    /// server runs, is a separate command for each of its runs.
    pub(super) fn go_to_task(&mut self, index: usize) -> Transition {
        let step = &self.playbook.workflow[self.step_index];
        let suspends_here =
            step.tool.tasks().get(self.task_index).is_some_and(segments::is_suspending);
        let is_alone = suspends_here || self.host == MachineHost::Server;
        let is_past_the_end = index >= step.tool.tasks().len();
        if is_past_the_end || (self.task_range.contains(&index) && !is_alone) {
            return self.begin_task(index);
        }
        Transition::HandOver(index)
    }

    /// Undoes the retry of the last attempt. Returns the error of that attempt.
    pub(in crate::command_machine) fn undo_retry(&mut self) -> Option<TaskError> {
        self.attempt = self.attempt.saturating_sub(1).max(1);
        self.retries.pop_back().map(|retried| retried.error)
    }

    /// Ends the command. Another one continues with the task at this index.
    pub(in crate::command_machine) fn hand_over(self: Box<Self>, index: usize) -> MachineOutcome {
        self.hand_over_at(index, 1, Millis::ZERO)
    }

    /// Ends the command. Another one retries the same task.
    pub(in crate::command_machine) fn hand_over_retry(
        self: Box<Self>,
        delay: Millis,
    ) -> MachineOutcome {
        let (index, next) = (self.task_index, self.attempt);
        let mut outcome = self.hand_over_at(index, next, delay);
        outcome.attempt = next.saturating_sub(1).max(1);
        outcome
    }

    fn hand_over_at(self: Box<Self>, index: usize, attempt: u32, delay: Millis) -> MachineOutcome {
        let data = Json::from(self.data.results.clone());
        if !fits_within(&data, self.max_data) {
            let error = self.locate_error(self.data_too_large_error());
            return self.into_outcome(Some(error));
        }
        let continuation = Continuation {
            to: Arc::clone(self.task_label(index)),
            attempt,
            delay,
            after: self.previous_label,
            variables: self.data.pipeline,
            iter: self.data.iter.as_map().cloned().unwrap_or_default(),
            task_runs: self.attempts,
        };
        MachineOutcome {
            error: None,
            retries: self.retries.into(),
            data,
            labels: None,
            set: self.set,
            attempt: self.attempt,
            tasks: self.reports,
            frame: None,
            next_stage: NextStage::Segment(continuation),
        }
    }

    /// Ends the command after its task was started.
    pub(in crate::command_machine) fn into_suspended(
        self: Box<Self>,
        data: Json,
    ) -> MachineOutcome {
        MachineOutcome {
            error: None,
            retries: self.retries.into(),
            data,
            labels: None,
            set: self.set,
            attempt: self.attempt,
            tasks: self.reports,
            frame: None,
            next_stage: NextStage::Callback,
        }
    }

    fn task_label(&self, index: usize) -> &Arc<str> {
        let tasks = self.playbook.workflow[self.step_index].tool.tasks();
        &tasks[index].label.value
    }
}
