//! What `output` makes of data: parts of it under names of their own, and the data of several runs put
//! together.
//!
//! Owns the meaning of `select` and `accumulate`. A part that is selected lies beside the keys of the
//! data, so a template reads it alike wherever the data is kept.

use std::sync::Arc;

use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};

use crate::model::{Accumulate, AccumulateStrategy, OutputSpec, Select, Step, Task, Tool};

/// The key of a loop under which its whole is found that has no other name.
const ACCUMULATED: &str = "accumulated";

/// What is said about the data of a task. A step with a single task, run once, says it in its place.
pub fn of_task<'s>(step: &'s Step, task: &'s Task) -> impl Iterator<Item = &'s OutputSpec> {
    let is_alone = matches!(step.tool, Tool::Single(_)) && step.looping.is_none();
    let of_step = step.output.as_ref().filter(|_| is_alone);
    task.output.iter().chain(of_step)
}

/// What is said about the data of a step as such.
pub fn of_step(step: &Step) -> Option<&OutputSpec> {
    let is_alone = matches!(step.tool, Tool::Single(_)) && step.looping.is_none();
    step.output.as_ref().filter(|_| !is_alone)
}

/// How runs are put together, where they are.
pub fn accumulation<'s>(
    mut outputs: impl Iterator<Item = &'s OutputSpec>,
) -> Option<&'s Accumulate> {
    outputs.find_map(|output| output.accumulate.as_ref().filter(|it| it.enabled))
}

/// Lays selected parts beside the keys of a map. A key that is there stays what it is.
pub fn select(selects: &[Select], data: &mut Json) {
    let found = selects.iter().filter_map(|select| {
        let part = at_path(data, &select.path)?.clone();
        Some((Arc::clone(&select.alias), part))
    });
    let found: Vec<(Arc<str>, Json)> = found.collect();
    if let Json::Map(map) = data
        && !found.is_empty()
    {
        let map = Arc::make_mut(map);
        for (alias, part) in found {
            map.entry(alias).or_insert(part);
        }
    }
}

/// The part of a value at a path like `$.a.b[0]`.
pub fn at_path<'j>(value: &'j Json, path: &str) -> Option<&'j Json> {
    let path = path.strip_prefix('$').unwrap_or(path);
    let mut found = value;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let (key, places) = part.split_at(part.find('[').unwrap_or(part.len()));
        if !key.is_empty() {
            found = found.get(key)?;
        }
        for place in places.split('[').filter(|place| !place.is_empty()) {
            let place: usize = place.strip_suffix(']')?.parse().ok()?;
            let Json::List(items) = found else {
                return None;
            };
            found = items.get(place)?;
        }
    }
    Some(found)
}

impl Accumulate {
    /// The whole with the part of one more run. Data that has no such part adds nothing.
    pub fn add(&self, whole: Option<Json>, data: &Json) -> Result<Json, TaskError> {
        let part = match &self.merge_path {
            None => Some(data),
            Some(path) => at_path(data, path),
        };
        let whole = self.joined(whole, part.cloned());
        let items = match &whole {
            Json::List(items) => items.len(),
            Json::Map(map) => map.len(),
            _ => 0,
        };
        match self.max_items {
            Some(most) if u64::try_from(items).unwrap_or(u64::MAX) > most => {
                let message = format!("more than {most} items were accumulated");
                Err(TaskError::new(TaskErrorKind::Limit, message))
            }
            Some(_) | None => Ok(whole),
        }
    }

    fn joined(&self, whole: Option<Json>, part: Option<Json>) -> Json {
        match self.strategy {
            AccumulateStrategy::Append => list_with(whole, part),
            AccumulateStrategy::Concat => match part {
                Some(Json::List(items)) => list_with(whole, items.iter().cloned()),
                part => list_with(whole, part.filter(|part| !part.is_null())),
            },
            AccumulateStrategy::Replace => part.or(whole).unwrap_or_default(),
            AccumulateStrategy::Merge => match (whole, part) {
                (Some(Json::Map(mut under)), Some(Json::Map(over))) => {
                    lay_over(Arc::make_mut(&mut under), &over);
                    Json::Map(under)
                }
                (whole, part) => part.or(whole).unwrap_or_default(),
            },
        }
    }

    /// The whole of no runs.
    pub fn nothing(&self) -> Json {
        match self.strategy {
            AccumulateStrategy::Append | AccumulateStrategy::Concat => Json::list([]),
            AccumulateStrategy::Replace | AccumulateStrategy::Merge => Json::Null,
        }
    }

    /// The whole that the data of earlier runs holds.
    pub fn whole_of<'j>(&self, kept: &'j Json) -> Option<&'j Json> {
        match &self.manifest_as {
            None => Some(kept),
            Some(name) => kept.get(name),
        }
    }

    /// The data of a task: the whole itself, or that of its last run with the whole under a name.
    pub fn kept(&self, data: Json, whole: Json) -> Json {
        let Some(name) = &self.manifest_as else {
            return whole;
        };
        let mut map = match data {
            Json::Map(map) => map,
            _ => Arc::default(),
        };
        Arc::make_mut(&mut map).insert(Arc::clone(name), whole);
        Json::Map(map)
    }

    /// The name of the whole in the data of a loop.
    pub fn name_in_loop(&self) -> Arc<str> {
        self.manifest_as
            .clone()
            .unwrap_or_else(|| Arc::from(ACCUMULATED))
    }
}

/// A list with more items; nothing yet is an empty one, and what is no list is its first item.
fn list_with(whole: Option<Json>, items: impl IntoIterator<Item = Json>) -> Json {
    let mut list = match whole {
        None => Arc::default(),
        Some(Json::List(list)) => list,
        Some(other) => Arc::new(vec![other]),
    };
    Arc::make_mut(&mut list).extend(items);
    Json::List(list)
}

/// Lays a map over another: maps deeply, everything else replaced.
fn lay_over(under: &mut JsonMap, over: &JsonMap) {
    for (key, value) in over {
        match (under.get_mut(key), value) {
            (Some(Json::Map(under)), Json::Map(over)) => lay_over(Arc::make_mut(under), over),
            (_, value) => {
                under.insert(Arc::clone(key), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use noetl_types::json::parse;

    use super::*;

    fn json(text: &str) -> Json {
        parse(text.as_bytes()).unwrap()
    }

    fn accumulate(strategy: AccumulateStrategy) -> Accumulate {
        Accumulate {
            enabled: true,
            strategy,
            ..Accumulate::default()
        }
    }

    fn all(spec: &Accumulate, parts: &[&str]) -> Result<Json, TaskError> {
        let mut whole = None;
        for part in parts {
            whole = Some(spec.add(whole, &json(part))?);
        }
        Ok(whole.unwrap())
    }

    #[test]
    fn paths_lead_into_maps_and_lists() {
        let value = json(r#"{"a": {"b": [10, {"c": 11}]}, "n": null}"#);
        let found = |path| at_path(&value, path).map(ToString::to_string);
        assert_eq!(found("$.a.b[1].c").as_deref(), Some("11"));
        assert_eq!(found("a.b[0]").as_deref(), Some("10"));
        assert_eq!(found("$.n").as_deref(), Some("null"));
        assert_eq!(found("$").as_deref(), Some(&*value.to_string()));
        for path in ["$.x", "$.a.b[2]", "$.a[0]", "$.a.b[x]", "$.a.b[1", "$.n.x"] {
            assert_eq!(found(path), None, "{path}");
        }
    }

    #[test]
    fn selected_parts_lie_beside_what_is_there() {
        let select_all = |text: &str| {
            let mut data = json(text);
            let part = |path: &str, alias: &str| Select {
                path: path.into(),
                alias: alias.into(),
            };
            let parts = [
                part("$.rows[0].id", "first"),
                part("$.x", "n"),
                part("$.y", "z"),
            ];
            select(&parts, &mut data);
            data.to_string()
        };
        assert_eq!(
            select_all(r#"{"rows":[{"id":7}],"n":1,"x":2}"#),
            r#"{"first":7,"n":1,"rows":[{"id":7}],"x":2}"#
        );
        assert_eq!(select_all("[1]"), "[1]");
    }

    #[test]
    fn every_strategy() {
        let parts = [r#"{"a":{"x":1},"b":[1]}"#, r#"{"a":{"y":2},"b":[2]}"#];
        let shown = |strategy| all(&accumulate(strategy), &parts).unwrap().to_string();
        let both = format!("[{},{}]", parts[0], parts[1]);
        assert_eq!(shown(AccumulateStrategy::Append), both);
        assert_eq!(shown(AccumulateStrategy::Concat), both);
        assert_eq!(shown(AccumulateStrategy::Replace), parts[1]);
        let merged = r#"{"a":{"x":1,"y":2},"b":[2]}"#;
        assert_eq!(shown(AccumulateStrategy::Merge), merged);
    }

    #[test]
    fn a_part_is_taken_from_its_place() {
        let pages = [
            r#"{"page":{"items":[1,2]}}"#,
            "{}",
            r#"{"page":{"items":[3]}}"#,
        ];
        let at = |strategy| {
            let spec = Accumulate {
                merge_path: Some("$.page.items".into()),
                ..accumulate(strategy)
            };
            all(&spec, &pages).unwrap().to_string()
        };
        assert_eq!(at(AccumulateStrategy::Concat), "[1,2,3]");
        assert_eq!(at(AccumulateStrategy::Append), "[[1,2],[3]]");
        assert_eq!(at(AccumulateStrategy::Replace), "[3]");
    }

    #[test]
    fn more_than_allowed_is_a_failure() {
        let spec = Accumulate {
            max_items: Some(2),
            ..accumulate(AccumulateStrategy::Concat)
        };
        assert_eq!(all(&spec, &["[1]", "[2]"]).unwrap().to_string(), "[1,2]");
        let error = all(&spec, &["[1]", "[2,3]"]).unwrap_err();
        assert_eq!(error.kind, TaskErrorKind::Limit);
    }

    #[test]
    fn a_whole_with_a_name_lies_in_the_data() {
        let spec = Accumulate {
            manifest_as: Some("all".into()),
            ..accumulate(AccumulateStrategy::Append)
        };
        let kept = spec.kept(json(r#"{"n":1}"#), json("[1]"));
        assert_eq!(kept.to_string(), r#"{"all":[1],"n":1}"#);
        assert_eq!(spec.whole_of(&kept), Some(&json("[1]")));
        assert_eq!(
            spec.kept(json("7"), json("[1]")).to_string(),
            r#"{"all":[1]}"#
        );
    }
}
