//! State that the commands of a split pipeline pass to each other.

use std::sync::Arc;

use noetl_types::{Json, JsonMap, Millis};
use serde::{Deserialize, Serialize};

use crate::model::Task;

/// The position at which a pipeline continues in its next command, and the state it needs besides
/// the data of the tasks so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continuation {
    /// The label of the next task.
    pub to: Arc<str>,
    /// The next attempt of that task. Greater than 1 for a retry.
    pub attempt: u32,
    /// Delay before that attempt.
    pub delay: Millis,
    /// The label of the previous task, whose data is `_prev`.
    pub after: Option<Arc<str>>,
    /// The variables of the pipeline.
    pub variables: JsonMap,
    /// Values written under `iter.`.
    pub iter: JsonMap,
    /// Number of task runs so far.
    pub task_runs: u32,
}

/// The state from the previous commands of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContinuationState {
    /// The position at which the pipeline continues.
    pub continuation: Continuation,
    /// The data of the tasks so far, by label.
    pub results: JsonMap,
}

impl Continuation {
    /// The index of the next task.
    pub fn next_task_index(&self, tasks: &[Task]) -> Option<usize> {
        tasks.iter().position(|task| task.label.value == self.to)
    }

    /// Converts to the form in events and commands. Default values are omitted.
    pub fn to_json(&self) -> JsonMap {
        let mut map = JsonMap::from([
            ("to".into(), Json::Str(Arc::clone(&self.to))),
            ("task_runs".into(), Json::from(self.task_runs)),
        ]);
        let mut put = |key: &str, value: Json| map.insert(key.into(), value);
        if self.attempt != 1 {
            put("attempt", Json::from(self.attempt));
        }
        if self.delay != Millis::ZERO {
            put("delay_ms", Json::from(self.delay.as_ms()));
        }
        if let Some(after) = &self.after {
            put("after", Json::Str(Arc::clone(after)));
        }
        if !self.variables.is_empty() {
            put("variables", Json::from(self.variables.clone()));
        }
        if !self.iter.is_empty() {
            put("iter", Json::from(self.iter.clone()));
        }
        map
    }

    /// Parses that form.
    pub fn from_json(map: &JsonMap) -> Option<Self> {
        let number = |key: &str, default: u64| match map.get(key) {
            None => Some(default),
            Some(value) => value.as_u64(),
        };
        let text = |value: &Json| value.as_str().map(Arc::from);
        let inner = |key: &str| match map.get(key) {
            None => Some(JsonMap::new()),
            Some(value) => value.as_map().cloned(),
        };
        Some(Self {
            to: text(map.get("to")?)?,
            attempt: u32::try_from(number("attempt", 1)?).ok()?,
            delay: Millis::from_ms(number("delay_ms", 0)?),
            after: match map.get("after") {
                None => None,
                Some(after) => Some(text(after)?),
            },
            variables: inner("variables")?,
            iter: inner("iter")?,
            task_runs: u32::try_from(number("task_runs", 0)?).ok()?,
        })
    }
}

impl ContinuationState {
    /// Converts to the form in commands.
    pub fn to_json(&self) -> JsonMap {
        let mut map = self.continuation.to_json();
        map.insert("results".into(), Json::from(self.results.clone()));
        map
    }

    /// Parses that form.
    pub fn from_json(map: &JsonMap) -> Option<Self> {
        Some(Self {
            continuation: Continuation::from_json(map)?,
            results: map.get("results")?.as_map()?.clone(),
        })
    }
}

#[cfg(test)]
mod tests;
