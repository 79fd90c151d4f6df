//! `set`: rendering its values and writing them.

use std::sync::Arc;

use noetl_playbook::model::{Set, SetTarget};
use noetl_playbook::template::{RenderError, Scope};
use noetl_types::{Json, JsonMap};

/// One write of a `set`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Write {
    /// To a variable of the execution.
    Ctx(Vec<Arc<str>>, Json),
    /// To a variable of the iteration, outside of loops of the run.
    Iter(Vec<Arc<str>>, Json),
    /// To a variable of the run of the step.
    Step(Vec<Arc<str>>, Json),
    /// To a variable of the pipeline.
    Pipeline(Arc<str>, Json),
}

/// Where a `set` stands, which tells what a name without a scope means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetPlace {
    /// In a task or a rule: a variable of the pipeline.
    Task,
    /// In a step or an arc: a variable of the execution.
    Step,
}

/// All values of one `set` are rendered before any of them is written.
pub(crate) fn rendered(
    set: &Set,
    scope: &dyn Scope,
    place: SetPlace,
) -> Result<Vec<Write>, RenderError> {
    set.0
        .iter()
        .map(|entry| {
            let value = entry.value.render(scope)?.value;
            Ok(match (&entry.target.value, place) {
                (SetTarget::Ctx(path), _) => Write::Ctx(path.clone(), value),
                (SetTarget::Iter(path), _) => Write::Iter(path.clone(), value),
                (SetTarget::Step(path), _) => Write::Step(path.clone(), value),
                (SetTarget::Bare(name), SetPlace::Task) => Write::Pipeline(Arc::clone(name), value),
                (SetTarget::Bare(name), SetPlace::Step) => {
                    Write::Ctx(vec![Arc::clone(name)], value)
                }
            })
        })
        .collect()
}

/// Writes a value at a path, creating the maps on the way.
///
/// Choice: something on the way that is not a map is replaced by one.
pub(crate) fn put(map: &mut JsonMap, path: &[Arc<str>], value: Json) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    if rest.is_empty() {
        map.insert(Arc::clone(first), value);
        return;
    }
    let mut inner = map
        .get(first)
        .and_then(Json::as_map)
        .cloned()
        .unwrap_or_default();
    put(&mut inner, rest, value);
    map.insert(Arc::clone(first), Json::from(inner));
}

/// Whether any of these writes a variable of the execution.
pub(crate) fn touch_ctx(writes: &[Write]) -> bool {
    writes.iter().any(|write| matches!(write, Write::Ctx(..)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_created_and_its_neighbours_are_kept() {
        let path = |parts: &[&str]| {
            parts
                .iter()
                .map(|part| Arc::from(*part))
                .collect::<Vec<Arc<str>>>()
        };
        let mut map = JsonMap::new();
        put(&mut map, &path(&["a", "b"]), Json::from(1));
        put(&mut map, &path(&["a", "c", "d"]), Json::from(2));
        put(&mut map, &path(&["a", "b"]), Json::from(3));
        assert_eq!(Json::from(map).to_string(), r#"{"a":{"b":3,"c":{"d":2}}}"#);
    }
}
