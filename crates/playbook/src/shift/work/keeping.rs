//! What is kept of an attempt that the pipeline goes on from.

use std::sync::Arc;

use noetl_types::TaskError;

use super::Work;
use crate::bounds::fits;
use crate::gather;
use crate::model::{Step, Task};
use crate::shift::call::{Answer, Attempted};

impl Work {
    /// Lays selected parts beside the data of an attempt that went well.
    pub(super) fn select(&self, task: &Task, answer: &mut Answer) {
        if answer.error.is_none() {
            let step = &self.playbook.workflow[self.step];
            for output in gather::of_task(step, task) {
                gather::select(&output.select, &mut answer.data);
            }
        }
    }

    /// Keeps the data of the task at hand, with that of its earlier runs where they are accumulated.
    /// A failed attempt adds nothing to them.
    pub(super) fn keep(&mut self, step: &Step, attempted: &Attempted) -> Result<(), TaskError> {
        let Some(task) = step.tool.tasks().get(self.at) else {
            return Ok(());
        };
        let label = &task.label.value;
        let mut data = attempted.data.clone();
        if let Some(spec) = gather::accumulation(gather::of_task(step, task)) {
            let known = self.bench.results.get(label);
            let known = known.and_then(|kept| spec.whole_of(kept)).cloned();
            let whole = match (&attempted.error, known) {
                (None, known) => spec
                    .add(known, &data)
                    .map_err(|error| self.located(error))?,
                (Some(_), known) => known.unwrap_or_else(|| spec.nothing()),
            };
            data = spec.kept(data, whole);
            if !fits(&data, self.max_data) {
                return Err(self.located(self.too_large()));
            }
            self.last = Some(data.clone());
        }
        self.before = Some(Arc::clone(label));
        self.bench.results.insert(Arc::clone(label), data.clone());
        self.bench.previous = data;
        Ok(())
    }
}
