//! What the commands of a split pipeline hand on to each other.

use std::sync::Arc;

use noetl_types::{Json, JsonMap, Millis};
use serde::{Deserialize, Serialize};

use crate::model::Task;

/// Where a pipeline goes on in its next command, and what that one has to know besides the data of
/// the tasks so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Onward {
    /// The label of the task that comes next.
    pub to: Arc<str>,
    /// The attempt of it that comes next: past the first where it is tried again.
    pub attempt: u32,
    /// How long it waits before that.
    pub delay: Millis,
    /// The label of the task before, whose data is `_prev`.
    pub after: Option<Arc<str>>,
    /// The variables of the pipeline.
    pub variables: JsonMap,
    /// What was written under `iter.`.
    pub iter: JsonMap,
    /// Runs of tasks so far.
    pub task_runs: u32,
}

/// All that the commands before hand on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relay {
    /// Where it goes on.
    pub onward: Onward,
    /// The data of the tasks so far, by label.
    pub results: JsonMap,
}

impl Onward {
    /// The place of the task that comes next.
    pub fn place_in(&self, tasks: &[Task]) -> Option<usize> {
        tasks.iter().position(|task| task.label.value == self.to)
    }

    /// The form in which events and commands hold it. What is as usual is left out.
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

    /// Reads that form.
    pub fn from_json(map: &JsonMap) -> Option<Self> {
        let number = |key: &str, usual: u64| match map.get(key) {
            None => Some(usual),
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

impl Relay {
    /// The form in which commands hold it.
    pub fn to_json(&self) -> JsonMap {
        let mut map = self.onward.to_json();
        map.insert("results".into(), Json::from(self.results.clone()));
        map
    }

    /// Reads that form.
    pub fn from_json(map: &JsonMap) -> Option<Self> {
        Some(Self {
            onward: Onward::from_json(map)?,
            results: map.get("results")?.as_map()?.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_reads_back() {
        let usual = Onward {
            to: "b".into(),
            attempt: 1,
            delay: Millis::ZERO,
            after: None,
            variables: JsonMap::new(),
            iter: JsonMap::new(),
            task_runs: 2,
        };
        let full = Onward {
            attempt: 3,
            delay: Millis::from_ms(1500),
            after: Some("a".into()),
            variables: JsonMap::from([("x".into(), Json::from(1))]),
            iter: JsonMap::from([("page".into(), Json::Null)]),
            ..usual.clone()
        };
        for onward in [usual, full] {
            let relay = Relay {
                onward,
                results: JsonMap::from([("a".into(), Json::from("data"))]),
            };
            assert_eq!(Relay::from_json(&relay.to_json()), Some(relay));
        }
        assert_eq!(Relay::from_json(&JsonMap::new()), None);
    }
}
