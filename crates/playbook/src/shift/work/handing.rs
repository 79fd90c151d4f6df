//! Where one command of a pipeline ends and another begins.

use std::sync::Arc;

use noetl_types::{Json, JsonMap, Millis, TaskError};

use super::{Side, Turn, Work};
use crate::bounds::fits;
use crate::model::SetTarget;
use crate::segments;
use crate::shift::onward::{Onward, Relay};
use crate::shift::result::{Ahead, Finished};

impl Work {
    /// Goes on where the commands before left the pipeline.
    pub(super) fn take_over(&mut self, relay: Relay) {
        let Relay { onward, results } = relay;
        let bench = &mut self.bench;
        let before = onward
            .after
            .as_ref()
            .and_then(|label| results.get(label).cloned());
        bench.previous = before.clone().unwrap_or_default();
        bench.results = results;
        bench.pipeline = onward.variables;
        bench.iter = Json::from(onward.iter);
        self.last = before;
        self.before = onward.after;
        self.attempts = onward.task_runs;
        self.attempt = onward.attempt;
    }

    /// Goes on with an attempt of the first task, with what earlier ones wrote.
    pub(in crate::shift) fn take_up(&mut self, attempt: u32, set: &JsonMap) {
        self.attempt = self.attempt.max(attempt);
        let written = set.iter().filter_map(|(key, value)| {
            let target = SetTarget::parse(key).ok()?;
            Some((target, value.clone()))
        });
        self.write(written.collect());
    }

    /// All that was written, by the keys of `set`.
    pub(in crate::shift) fn written(&self) -> &JsonMap {
        &self.set
    }

    /// Goes to a task, be it this command's or another's. A task that parks, or that the server runs,
    /// is a command of its own each time that it runs.
    pub(super) fn go_to(&mut self, at: usize) -> Turn {
        let step = &self.playbook.workflow[self.step];
        let parks_here = step.tool.tasks().get(self.at).is_some_and(segments::parks);
        let is_alone = parks_here || self.side == Side::Server;
        let is_past_the_end = at >= step.tool.tasks().len();
        if is_past_the_end || (self.stretch.contains(&at) && !is_alone) {
            return self.begin(at);
        }
        Turn::Onward(at)
    }

    /// Takes back that the attempt made last is followed by another one. Gives what it failed with.
    pub(in crate::shift) fn take_back_retry(&mut self) -> Option<TaskError> {
        self.attempt = self.attempt.saturating_sub(1).max(1);
        self.retries.pop_back().map(|retried| retried.error)
    }

    /// Ends the command; another one goes on with a task.
    pub(in crate::shift) fn hand_on(self: Box<Self>, at: usize) -> Finished {
        self.handed_on(at, 1, Millis::ZERO)
    }

    /// Ends the command; another one tries the same task again.
    pub(in crate::shift) fn hand_on_again(self: Box<Self>, delay: Millis) -> Finished {
        let (at, next) = (self.at, self.attempt);
        let mut finished = self.handed_on(at, next, delay);
        finished.attempt = next.saturating_sub(1).max(1);
        finished
    }

    fn handed_on(self: Box<Self>, at: usize, attempt: u32, delay: Millis) -> Finished {
        let data = Json::from(self.bench.results.clone());
        if !fits(&data, self.max_data) {
            let error = self.located(self.too_large());
            return self.close(Some(error));
        }
        let onward = Onward {
            to: Arc::clone(self.label_at(at)),
            attempt,
            delay,
            after: self.before,
            variables: self.bench.pipeline,
            iter: self.bench.iter.as_map().cloned().unwrap_or_default(),
            task_runs: self.attempts,
        };
        Finished {
            error: None,
            retries: self.retries.into(),
            data,
            labels: None,
            set: self.set,
            attempt: self.attempt,
            tasks: self.reports,
            frame: None,
            ahead: Ahead::Segment(onward),
        }
    }

    /// Ends the work of the worker on a task that was only begun.
    pub(in crate::shift) fn park(self: Box<Self>, data: Json) -> Finished {
        Finished {
            error: None,
            retries: self.retries.into(),
            data,
            labels: None,
            set: self.set,
            attempt: self.attempt,
            tasks: self.reports,
            frame: None,
            ahead: Ahead::Callback,
        }
    }

    fn label_at(&self, at: usize) -> &Arc<str> {
        let tasks = self.playbook.workflow[self.step].tool.tasks();
        &tasks[at].label.value
    }
}
