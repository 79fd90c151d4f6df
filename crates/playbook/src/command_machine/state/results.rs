//! The results of a command: the data and reports of its tasks, its outcome, and the state that it
//! hands over to the next command of the pipeline.

use std::sync::Arc;

use noetl_types::report::{TaskReport, TaskStatus};
use noetl_types::{Json, JsonMap, Millis, TaskError, Text};

use super::{CommandState, MachineHost, Transition, stays_on_worker};
use crate::bounds::{fits_within, tail_of_output};
use crate::command_machine::call::{CompletedAttempt, ToolResult};
use crate::command_machine::continuation::{Continuation, ContinuationState};
use crate::command_machine::outcome::{MachineOutcome, NextStage};
use crate::model::{SetTarget, Step, Task, Tool};
use crate::output_data;
use crate::segments;

// The data that is kept of an attempt after which the pipeline continues.
impl CommandState {
    /// Adds selected parts to the data of a successful attempt.
    pub(super) fn select_output(&self, task: &Task, result: &mut ToolResult) {
        if result.error.is_none() {
            for output in output_data::task_outputs(self.step(), task) {
                output_data::apply_select(&output.select, &mut result.data);
            }
        }
    }

    /// Stores the data of the current task, together with the data of its earlier runs if they are
    /// accumulated. A failed attempt adds nothing to the accumulated data.
    pub(super) fn store_task_data(
        &mut self,
        step: &Step,
        attempted: &CompletedAttempt,
    ) -> Result<(), TaskError> {
        let Some(task) = step.tool.tasks().get(self.task_index) else {
            return Ok(());
        };
        let label = &task.label.value;
        let mut data = attempted.data.clone();
        if let Some(spec) = output_data::find_accumulation(output_data::task_outputs(step, task)) {
            let previous = self.data.results.get(label);
            let previous = previous.and_then(|value| spec.accumulated_value(value)).cloned();
            let accumulated = match (&attempted.error, previous) {
                (None, previous) => {
                    spec.add_part(previous, &data).map_err(|error| self.locate_error(error))?
                }
                (Some(_), previous) => previous.unwrap_or_else(|| spec.initial_value()),
            };
            data = spec.with_accumulated(data, accumulated);
            if !fits_within(&data, self.max_data) {
                return Err(self.locate_error(self.data_too_large_error()));
            }
            self.last_data = Some(data.clone());
        }
        self.previous_label = Some(Arc::clone(label));
        self.data.results.insert(Arc::clone(label), data.clone());
        self.data.previous = data;
        Ok(())
    }
}

// Reports of the tasks besides their data.
impl CommandState {
    /// Updates the report of a task: the number of attempts, and the output besides its data.
    pub(super) fn record_report(&mut self, label: &str, result: &ToolResult) {
        let status = match result.error {
            None => TaskStatus::Ok,
            Some(_) => TaskStatus::Error,
        };
        let duration_ms = result.duration.map(Millis::as_ms);
        let (stdout, stderr) = self.captured_output(result);
        match self.reports.iter_mut().find(|report| report.label == label) {
            Some(report) => {
                report.status = status;
                report.attempts = report.attempts.saturating_add(1);
                let durations = [report.duration_ms, duration_ms].into_iter().flatten();
                report.duration_ms = durations.reduce(u64::saturating_add);
                report.stdout = stdout;
                report.stderr = stderr;
            }
            None => self.reports.push(TaskReport {
                label: Text::from(label),
                status,
                // The server completes one attempt. Earlier ones are in the log.
                attempts: match self.host {
                    MachineHost::Worker | MachineHost::WorkerProxy => 1,
                    MachineHost::Server => self.attempt,
                },
                duration_ms,
                stdout,
                stderr,
            }),
        }
    }

    /// Printed output of a tool that is not part of its data. Code that returns a result may also
    /// print.
    fn captured_output(&self, result: &ToolResult) -> (Option<Text>, Option<Text>) {
        let extra_text = |tool: &str, name: &str| {
            let text = result.extras.get(tool)?.get(name)?.as_str()?;
            (!text.is_empty()).then_some(text)
        };
        let redact = |text: &str| {
            // Redacted before truncation, because half a secret would not be recognized.
            let redacted = self.secret_set.current_secrets().redact_text(text);
            Text::from_lossy(&tail_of_output(redacted.as_deref().unwrap_or(text)))
        };
        let stdout = extra_text("py", "stdout").or_else(|| extra_text("rhai", "log"));
        (stdout.map(redact), extra_text("py", "stderr").map(redact))
    }
}

// The outcome of a finished command.
impl CommandState {
    pub(in crate::command_machine) fn into_outcome(
        mut self: Box<Self>,
        mut error: Option<TaskError>,
    ) -> MachineOutcome {
        let (mut data, mut labels) = if self.leaves_data(error.is_some()) {
            self.step_data(error.is_some())
        } else {
            (Json::Null, None)
        };
        if !fits_within(&data, self.max_data) {
            error = error.or_else(|| Some(self.locate_error(self.data_too_large_error())));
            (data, labels) = (Json::Null, None);
        }
        let frame = self.frame.take().and_then(|frame| frame.into_report());
        self.set.retain(|key, _| !stays_on_worker(key));
        MachineOutcome { error, labels, frame, ..self.into_outcome_at(data, NextStage::End) }
    }

    /// Ends the command without an error, with this data and continuation.
    pub(in crate::command_machine) fn into_outcome_at(
        self: Box<Self>,
        data: Json,
        next_stage: NextStage,
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
            next_stage,
        }
    }

    /// The data of the step, and the data of each task if some of it is hidden.
    fn step_data(&self, failed: bool) -> (Json, Option<Json>) {
        let step = self.step();
        let last = self.last_data.clone();
        let tasks = match &step.tool {
            Tool::Single(_) => return (last.unwrap_or_default(), None),
            Tool::Pipeline(tasks) => tasks,
        };
        let labels = &self.data.results;
        if failed {
            let mut data = labels.clone();
            if let Some(task) = tasks.get(self.task_index) {
                let label = Json::Str(Arc::clone(&task.label.value));
                data.insert("failed_task".into(), label);
            }
            return (Json::from(data), None);
        }
        let mut data = pipeline_data(labels, last);
        let mut labelled = labels.iter();
        let is_hidden = labelled.any(|(label, part)| data.get(label) != Some(part));
        let labels = is_hidden.then(|| Json::from(labels.clone()));
        if let Some(output) = output_data::step_output(step).filter(|_| step.looping.is_none()) {
            output_data::apply_select(&output.select, &mut data);
        }
        (data, labels)
    }
}

/// The data of a pipeline: that of its tasks by label, with the keys of the last one on top.
pub(in crate::command_machine) fn pipeline_data(labels: &JsonMap, last: Option<Json>) -> Json {
    let mut data = labels.clone();
    match last {
        Some(Json::Map(last)) => {
            data.extend(last.iter().map(|(key, part)| (key.clone(), part.clone())));
        }
        None => {}
        Some(other) => {
            data.insert("data".into(), other);
        }
    }
    Json::from(data)
}

// The boundary between two commands of a pipeline.
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
        // The server has accepted these values before.
        let _ = self.write_values(written.collect());
    }

    /// Continues with a task of this command or of another one. A task that suspends, or that the
    /// server runs, is a separate command for each of its runs.
    pub(super) fn go_to_task(&mut self, index: usize) -> Transition {
        let tasks = self.step().tool.tasks();
        let suspends_here = tasks.get(self.task_index).is_some_and(segments::is_suspending);
        let is_alone = suspends_here || self.host != MachineHost::Worker;
        let is_past_the_end = index >= tasks.len();
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
            to: Arc::clone(&self.step().tool.tasks()[index].label.value),
            attempt,
            delay,
            after: self.previous_label.clone(),
            variables: self.data.pipeline.clone(),
            iter: self.data.iter.as_map().cloned().unwrap_or_default(),
            task_runs: self.attempts,
        };
        self.into_outcome_at(data, NextStage::Segment(continuation))
    }
}
