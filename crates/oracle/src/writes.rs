//! Renders and applies `set`.

use std::sync::Arc;

use noetl_playbook::model::{SetClause, SetTarget};
use noetl_playbook::template::{RenderError, TemplateEnvironment};
use noetl_types::{Json, JsonMap};

/// One write of a `set`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum VariableWrite {
    /// Variable of the execution.
    Ctx(Vec<Arc<str>>, Json),
    /// Variable of the iteration. Outside of loops, of the step pass.
    Iter(Vec<Arc<str>>, Json),
    /// Variable of the step pass.
    Step(Vec<Arc<str>>, Json),
    /// Variable of the pipeline.
    Pipeline(Arc<str>, Json),
}

/// Location of a `set`. It determines the meaning of a name without a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetLocation {
    /// In a task or a rule. A bare name is a variable of the pipeline.
    Task,
    /// In a step or an arc. A bare name is a variable of the execution.
    Step,
}

/// Renders all values of one `set` before any of them is written.
pub(crate) fn render_set(
    set: &SetClause,
    environment: &dyn TemplateEnvironment,
    location: SetLocation,
) -> Result<Vec<VariableWrite>, RenderError> {
    set.0
        .iter()
        .map(|entry| {
            let value = entry.value.render(environment)?.value;
            Ok(match (&entry.target.value, location) {
                (SetTarget::Ctx(path), _) => VariableWrite::Ctx(path.clone(), value),
                (SetTarget::Iter(path), _) => VariableWrite::Iter(path.clone(), value),
                (SetTarget::Step(path), _) => VariableWrite::Step(path.clone(), value),
                (SetTarget::Bare(name), SetLocation::Task) => {
                    VariableWrite::Pipeline(Arc::clone(name), value)
                }
                (SetTarget::Bare(name), SetLocation::Step) => {
                    VariableWrite::Ctx(vec![Arc::clone(name)], value)
                }
            })
        })
        .collect()
}

/// Writes a value at a path and creates missing maps.
///
/// Choice: a value along the path that is not a map is replaced by one.
pub(crate) fn write_at_path(map: &mut JsonMap, path: &[Arc<str>], value: Json) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    if rest.is_empty() {
        map.insert(Arc::clone(first), value);
        return;
    }
    let mut inner = map.get(first).and_then(Json::as_map).cloned().unwrap_or_default();
    write_at_path(&mut inner, rest, value);
    map.insert(Arc::clone(first), Json::from(inner));
}

/// True if any of these writes sets a variable of the execution.
pub(crate) fn writes_ctx(writes: &[VariableWrite]) -> bool {
    writes.iter().any(|write| matches!(write, VariableWrite::Ctx(..)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_creates_path_and_keeps_siblings() {
        let path =
            |parts: &[&str]| parts.iter().map(|part| Arc::from(*part)).collect::<Vec<Arc<str>>>();
        let mut map = JsonMap::new();
        write_at_path(&mut map, &path(&["a", "b"]), Json::from(1));
        write_at_path(&mut map, &path(&["a", "c", "d"]), Json::from(2));
        write_at_path(&mut map, &path(&["a", "b"]), Json::from(3));
        assert_eq!(Json::from(map).to_string(), r#"{"a":{"b":3,"c":{"d":2}}}"#);
    }
}
