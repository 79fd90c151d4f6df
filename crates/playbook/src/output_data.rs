//! Applies the `output` settings to data: selects parts under separate names and accumulates the
//! data of several runs.
//!
//! Owns the semantics of `select` and `accumulate`. A selected part becomes a key of the data, so
//! templates read it in the same way wherever the data is stored.

use std::sync::Arc;

use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};

use crate::model::{
    AccumulateSpec, AccumulateStrategy, OutputSpec, SelectedPath, Step, Task, Tool,
};

/// Key of the accumulated value in the data of a loop, if no other name is set.
const DEFAULT_LOOP_KEY: &str = "accumulated";

/// Returns the output settings that apply to the data of a task. The settings of a step apply if it
/// has a single task and no loop.
pub fn task_outputs<'s>(step: &'s Step, task: &'s Task) -> impl Iterator<Item = &'s OutputSpec> {
    let is_alone = matches!(step.tool, Tool::Single(_)) && step.looping.is_none();
    let inherited = step.output.as_ref().filter(|_| is_alone);
    task.output.iter().chain(inherited)
}

/// Returns the output settings that apply to the data of the step as a whole.
pub fn step_output(step: &Step) -> Option<&OutputSpec> {
    let is_alone = matches!(step.tool, Tool::Single(_)) && step.looping.is_none();
    step.output.as_ref().filter(|_| !is_alone)
}

/// Returns the enabled accumulation settings, if any.
pub fn find_accumulation<'s>(
    mut outputs: impl Iterator<Item = &'s OutputSpec>,
) -> Option<&'s AccumulateSpec> {
    outputs.find_map(|output| output.accumulate.as_ref().filter(|spec| spec.enabled))
}

/// Adds selected parts as keys of a map. Existing keys are not overwritten.
pub fn apply_select(selects: &[SelectedPath], data: &mut Json) {
    let selected = selects.iter().filter_map(|select| {
        let part = value_at_path(data, &select.path)?.clone();
        Some((Arc::clone(&select.alias), part))
    });
    let selected: Vec<(Arc<str>, Json)> = selected.collect();
    if let Json::Map(map) = data
        && !selected.is_empty()
    {
        let map = Arc::make_mut(map);
        for (alias, part) in selected {
            map.entry(alias).or_insert(part);
        }
    }
}

/// Returns the part of a value at a path such as `$.a.b[0]`.
pub fn value_at_path<'j>(value: &'j Json, path: &str) -> Option<&'j Json> {
    let path = path.strip_prefix('$').unwrap_or(path);
    let mut current = value;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let (key, indexes) = part.split_at(part.find('[').unwrap_or(part.len()));
        if !key.is_empty() {
            current = current.get(key)?;
        }
        for index in indexes.split('[').filter(|index| !index.is_empty()) {
            let index: usize = index.strip_suffix(']')?.parse().ok()?;
            let Json::List(items) = current else {
                return None;
            };
            current = items.get(index)?;
        }
    }
    Some(current)
}

impl AccumulateSpec {
    /// Adds the data of one more run to the accumulated value. Data without a part at `merge_path`
    /// adds nothing.
    pub fn add_part(&self, accumulated: Option<Json>, data: &Json) -> Result<Json, TaskError> {
        let part = match &self.merge_path {
            None => Some(data),
            Some(path) => value_at_path(data, path),
        };
        let accumulated = self.combine_part(accumulated, part.cloned());
        let items = match &accumulated {
            Json::List(items) => items.len(),
            Json::Map(map) => map.len(),
            _ => 0,
        };
        match self.max_items {
            Some(limit) if u64::try_from(items).unwrap_or(u64::MAX) > limit => {
                let message = format!("more than {limit} items were accumulated");
                Err(TaskError::new(TaskErrorKind::Limit, message))
            }
            Some(_) | None => Ok(accumulated),
        }
    }

    fn combine_part(&self, accumulated: Option<Json>, part: Option<Json>) -> Json {
        match self.strategy {
            AccumulateStrategy::Append => append_items(accumulated, part),
            AccumulateStrategy::Concat => match part {
                Some(Json::List(items)) => append_items(accumulated, items.iter().cloned()),
                part => append_items(accumulated, part.filter(|part| !part.is_null())),
            },
            AccumulateStrategy::Replace => part.or(accumulated).unwrap_or_default(),
            AccumulateStrategy::Merge => match (accumulated, part) {
                (Some(Json::Map(mut base)), Some(Json::Map(overlay))) => {
                    merge_maps(Arc::make_mut(&mut base), &overlay);
                    Json::Map(base)
                }
                (accumulated, part) => part.or(accumulated).unwrap_or_default(),
            },
        }
    }

    /// Returns the accumulated value of zero runs.
    pub fn initial_value(&self) -> Json {
        match self.strategy {
            AccumulateStrategy::Append | AccumulateStrategy::Concat => Json::list([]),
            AccumulateStrategy::Replace | AccumulateStrategy::Merge => Json::Null,
        }
    }

    /// Returns the accumulated value contained in the stored data of earlier runs.
    pub fn accumulated_value<'j>(&self, stored: &'j Json) -> Option<&'j Json> {
        match &self.manifest_as {
            None => Some(stored),
            Some(name) => stored.get(name),
        }
    }

    /// Returns the data of a task: the accumulated value itself, or the data of the last run with
    /// the accumulated value under a name.
    pub fn with_accumulated(&self, data: Json, accumulated: Json) -> Json {
        let Some(name) = &self.manifest_as else {
            return accumulated;
        };
        let mut map = match data {
            Json::Map(map) => map,
            _ => Arc::default(),
        };
        Arc::make_mut(&mut map).insert(Arc::clone(name), accumulated);
        Json::Map(map)
    }

    /// Returns the key of the accumulated value in the data of a loop.
    pub fn loop_key(&self) -> Arc<str> {
        self.manifest_as.clone().unwrap_or_else(|| Arc::from(DEFAULT_LOOP_KEY))
    }
}

/// Appends items to a list. `None` counts as an empty list, and a value of another type as the
/// first item.
fn append_items(accumulated: Option<Json>, items: impl IntoIterator<Item = Json>) -> Json {
    let mut list = match accumulated {
        None => Arc::default(),
        Some(Json::List(list)) => list,
        Some(other) => Arc::new(vec![other]),
    };
    Arc::make_mut(&mut list).extend(items);
    Json::List(list)
}

/// Merges a map into another. Nested maps are merged recursively, other values are replaced.
fn merge_maps(base: &mut JsonMap, overlay: &JsonMap) {
    for (key, value) in overlay {
        match (base.get_mut(key), value) {
            (Some(Json::Map(base)), Json::Map(overlay)) => merge_maps(Arc::make_mut(base), overlay),
            (_, value) => {
                base.insert(Arc::clone(key), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests;
