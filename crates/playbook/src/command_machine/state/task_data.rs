//! The data that is kept of an attempt after which the pipeline continues.

use std::sync::Arc;

use noetl_types::TaskError;

use super::CommandState;
use crate::bounds::fits_within;
use crate::command_machine::call::{CompletedAttempt, ToolResult};
use crate::model::{Step, Task};
use crate::output_data;

impl CommandState {
    /// Adds selected parts to the data of a successful attempt.
    pub(super) fn select_output(&self, task: &Task, result: &mut ToolResult) {
        if result.error.is_none() {
            let step = &self.playbook.workflow[self.step_index];
            for output in output_data::task_outputs(step, task) {
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
