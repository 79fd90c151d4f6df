//! The end of the work of a command: what is reported of it.

use std::sync::Arc;

use noetl_types::{Json, TaskError};

use super::Work;
use crate::bounds::fits;
use crate::gather;
use crate::model::Tool;
use crate::shift::result::{Ahead, Finished};

impl Work {
    pub(in crate::shift) fn close(self: Box<Self>, error: Option<TaskError>) -> Finished {
        let (mut data, mut labels) = if self.leaves_data(error.is_some()) {
            self.data(error.is_some())
        } else {
            (Json::Null, None)
        };
        let mut error = error;
        if !fits(&data, self.max_data) {
            error = error.or_else(|| Some(self.located(self.too_large())));
            (data, labels) = (Json::Null, None);
        }
        Finished {
            error,
            retries: self.retries.into(),
            data,
            labels,
            set: self.set,
            attempt: self.attempt,
            tasks: self.reports,
            frame: self.frame.and_then(|frame| frame.into_report()),
            ahead: Ahead::Nothing,
        }
    }

    /// The data of the step, and that of each task where some of it is hidden.
    fn data(&self, failed: bool) -> (Json, Option<Json>) {
        let step = &self.playbook.workflow[self.step];
        let last = self.last.clone();
        let tasks = match &step.tool {
            Tool::Single(_) => return (last.unwrap_or_default(), None),
            Tool::Pipeline(tasks) => tasks,
        };
        let labels = &self.bench.results;
        let mut data = labels.clone();
        if failed {
            if let Some(task) = tasks.get(self.at) {
                let label = Json::Str(Arc::clone(&task.label.value));
                data.insert("failed_task".into(), label);
            }
            return (Json::from(data), None);
        }
        match last {
            Some(Json::Map(top)) => {
                data.extend(top.iter().map(|(key, part)| (key.clone(), part.clone())));
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
        if let Some(output) = gather::of_step(step).filter(|_| step.looping.is_none()) {
            gather::select(&output.select, &mut data);
        }
        (data, labels)
    }
}
