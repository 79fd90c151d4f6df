//! The outcome of a finished command.

use std::sync::Arc;

use noetl_types::{Json, TaskError};

use super::CommandState;
use crate::bounds::fits_within;
use crate::command_machine::outcome::{MachineOutcome, NextStage};
use crate::model::Tool;
use crate::output_data;

impl CommandState {
    pub(in crate::command_machine) fn into_outcome(
        self: Box<Self>,
        error: Option<TaskError>,
    ) -> MachineOutcome {
        let (mut data, mut labels) = if self.leaves_data(error.is_some()) {
            self.step_data(error.is_some())
        } else {
            (Json::Null, None)
        };
        let mut error = error;
        if !fits_within(&data, self.max_data) {
            error = error.or_else(|| Some(self.locate_error(self.data_too_large_error())));
            (data, labels) = (Json::Null, None);
        }
        MachineOutcome {
            error,
            retries: self.retries.into(),
            data,
            labels,
            set: self.set,
            attempt: self.attempt,
            tasks: self.reports,
            frame: self.frame.and_then(|frame| frame.into_report()),
            next_stage: NextStage::End,
        }
    }

    /// The data of the step, and the data of each task if some of it is hidden.
    fn step_data(&self, failed: bool) -> (Json, Option<Json>) {
        let step = &self.playbook.workflow[self.step_index];
        let last = self.last_data.clone();
        let tasks = match &step.tool {
            Tool::Single(_) => return (last.unwrap_or_default(), None),
            Tool::Pipeline(tasks) => tasks,
        };
        let labels = &self.data.results;
        let mut data = labels.clone();
        if failed {
            if let Some(task) = tasks.get(self.task_index) {
                let label = Json::Str(Arc::clone(&task.label.value));
                data.insert("failed_task".into(), label);
            }
            return (Json::from(data), None);
        }
        match last {
            Some(Json::Map(last)) => {
                data.extend(last.iter().map(|(key, part)| (key.clone(), part.clone())));
            }
            None => {}
            Some(other) => {
                data.insert("data".into(), other);
            }
        }
        let mut labelled = labels.iter();
        let is_hidden = labelled.any(|(label, part)| data.get(label) != Some(part));
        let labels = is_hidden.then(|| Json::from(labels.clone()));
        let mut data = Json::from(data);
        if let Some(output) = output_data::step_output(step).filter(|_| step.looping.is_none()) {
            output_data::apply_select(&output.select, &mut data);
        }
        (data, labels)
    }
}
