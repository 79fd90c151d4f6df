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
mod tests {
    use noetl_types::json::parse;

    use super::*;

    fn parse_json(text: &str) -> Json {
        parse(text.as_bytes()).unwrap()
    }

    fn enabled_accumulation(strategy: AccumulateStrategy) -> AccumulateSpec {
        AccumulateSpec { enabled: true, strategy, ..AccumulateSpec::default() }
    }

    fn accumulate_all(spec: &AccumulateSpec, parts: &[&str]) -> Result<Json, TaskError> {
        let mut accumulated = None;
        for part in parts {
            accumulated = Some(spec.add_part(accumulated, &parse_json(part))?);
        }
        Ok(accumulated.unwrap())
    }

    #[test]
    fn paths_select_in_maps_and_lists() {
        let value = parse_json(r#"{"a": {"b": [10, {"c": 11}]}, "n": null}"#);
        let text_at = |path| value_at_path(&value, path).map(ToString::to_string);
        assert_eq!(text_at("$.a.b[1].c").as_deref(), Some("11"));
        assert_eq!(text_at("a.b[0]").as_deref(), Some("10"));
        assert_eq!(text_at("$.n").as_deref(), Some("null"));
        assert_eq!(text_at("$").as_deref(), Some(&*value.to_string()));
        for path in ["$.x", "$.a.b[2]", "$.a[0]", "$.a.b[x]", "$.a.b[1", "$.n.x"] {
            assert_eq!(text_at(path), None, "{path}");
        }
    }

    #[test]
    fn selected_parts_are_added_to_data() {
        let select_all = |text: &str| {
            let mut data = parse_json(text);
            let part =
                |path: &str, alias: &str| SelectedPath { path: path.into(), alias: alias.into() };
            let parts = [part("$.rows[0].id", "first"), part("$.x", "n"), part("$.y", "z")];
            apply_select(&parts, &mut data);
            data.to_string()
        };
        assert_eq!(
            select_all(r#"{"rows":[{"id":7}],"n":1,"x":2}"#),
            r#"{"first":7,"n":1,"rows":[{"id":7}],"x":2}"#
        );
        assert_eq!(select_all("[1]"), "[1]");
    }

    #[test]
    fn accumulates_by_strategy() {
        let parts = [r#"{"a":{"x":1},"b":[1]}"#, r#"{"a":{"y":2},"b":[2]}"#];
        let accumulate =
            |strategy| accumulate_all(&enabled_accumulation(strategy), &parts).unwrap().to_string();
        let both = format!("[{},{}]", parts[0], parts[1]);
        assert_eq!(accumulate(AccumulateStrategy::Append), both);
        assert_eq!(accumulate(AccumulateStrategy::Concat), both);
        assert_eq!(accumulate(AccumulateStrategy::Replace), parts[1]);
        let merged = r#"{"a":{"x":1,"y":2},"b":[2]}"#;
        assert_eq!(accumulate(AccumulateStrategy::Merge), merged);
    }

    #[test]
    fn merge_path_selects_part() {
        let pages = [r#"{"page":{"items":[1,2]}}"#, "{}", r#"{"page":{"items":[3]}}"#];
        let accumulate = |strategy| {
            let spec = AccumulateSpec {
                merge_path: Some("$.page.items".into()),
                ..enabled_accumulation(strategy)
            };
            accumulate_all(&spec, &pages).unwrap().to_string()
        };
        assert_eq!(accumulate(AccumulateStrategy::Concat), "[1,2,3]");
        assert_eq!(accumulate(AccumulateStrategy::Append), "[[1,2],[3]]");
        assert_eq!(accumulate(AccumulateStrategy::Replace), "[3]");
    }

    #[test]
    fn exceeding_max_items_fails() {
        let spec = AccumulateSpec {
            max_items: Some(2),
            ..enabled_accumulation(AccumulateStrategy::Concat)
        };
        assert_eq!(accumulate_all(&spec, &["[1]", "[2]"]).unwrap().to_string(), "[1,2]");
        let error = accumulate_all(&spec, &["[1]", "[2,3]"]).unwrap_err();
        assert_eq!(error.kind, TaskErrorKind::Limit);
    }

    #[test]
    fn named_accumulation_is_stored_in_data() {
        let spec = AccumulateSpec {
            manifest_as: Some("all".into()),
            ..enabled_accumulation(AccumulateStrategy::Append)
        };
        let data = spec.with_accumulated(parse_json(r#"{"n":1}"#), parse_json("[1]"));
        assert_eq!(data.to_string(), r#"{"all":[1],"n":1}"#);
        assert_eq!(spec.accumulated_value(&data), Some(&parse_json("[1]")));
        assert_eq!(
            spec.with_accumulated(parse_json("7"), parse_json("[1]")).to_string(),
            r#"{"all":[1]}"#
        );
    }
}
