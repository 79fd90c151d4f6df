//! `set`: renders a group of writes and records those to variables of the execution.

use noetl_playbook::bounds::{MAX_SET_BYTES, MAX_VALUE_DEPTH, is_shallow, size_within};
use noetl_playbook::graph::StepIndex;
use noetl_playbook::model::{SetClause, SetTarget};
use noetl_playbook::paths::path_segments;
use noetl_types::{Json, JsonMap, StepName, TaskError, TaskErrorKind};

use super::Result;
use super::draft::{Draft, StepEvalError};
use super::environment::ExecutionEnvironment;
use super::rendering::{FieldLocation, TemplateField};
use crate::ctx::{BareName, SetWrites};
use crate::event::{CtxSource, CtxUpdated, EventKind};

/// Renders all values of a `set` against the same state.
pub(super) fn render_set<'s>(
    set: &'s SetClause,
    step: &StepName,
    field: impl Fn(&'s SetTarget) -> TemplateField<'s>,
    environment: &ExecutionEnvironment<'_>,
) -> Result<SetWrites, StepEvalError> {
    let mut writes = SetWrites::default();
    for entry in &set.0 {
        let target = &entry.target.value;
        let location = FieldLocation { step, field: field(target) };
        let value = location.render_value(&entry.value, environment)?;
        writes.add_write(target, value, BareName::Ctx);
    }
    match bounds_error(&writes.ctx) {
        Some(error) => Err(error.into()),
        None => Ok(writes),
    }
}

/// Returns the error for writes that no event can contain.
pub(super) fn bounds_error(values: &JsonMap) -> Option<TaskError> {
    let limit = |message: String| Some(TaskError::new(TaskErrorKind::Limit, message));
    let mut remaining = MAX_SET_BYTES;
    for (path, value) in values {
        let depth = path_segments(path).len();
        if depth > MAX_VALUE_DEPTH || !is_shallow(value, MAX_VALUE_DEPTH - depth) {
            return limit(format!("set: `{path}` is nested too deeply"));
        }
        match size_within(value, remaining) {
            Some(bytes) => remaining -= bytes,
            None => {
                return limit(format!(
                    "set: with `{path}`, the values are larger than {MAX_SET_BYTES} bytes; keep big \
                     data in the data of a step"
                ));
            }
        }
    }
    None
}

/// Records writes to variables of the execution. An empty group emits no event.
pub(super) fn record_writes(
    draft: &mut Draft<'_>,
    step: StepIndex,
    run: u32,
    source: CtxSource,
    writes: CtxWrites,
) -> Result<()> {
    if writes.values.is_empty() {
        return Ok(());
    }
    draft.emit_event(EventKind::CtxUpdated(Box::new(CtxUpdated {
        step: draft.step_name(step),
        run,
        index: writes.index,
        source,
        values: writes.values,
    })))?;
    Ok(())
}

/// Values of one group of writes.
pub(super) struct CtxWrites {
    pub(super) index: Option<u32>,
    pub(super) values: JsonMap,
}

impl From<JsonMap> for CtxWrites {
    fn from(values: JsonMap) -> Self {
        Self { index: None, values }
    }
}

/// Applies further writes to variables, for templates that see them before they are recorded.
pub(super) fn with_writes(variables: &Json, values: &JsonMap) -> Json {
    let mut updated = variables.clone();
    if !values.is_empty() {
        noetl_playbook::paths::write_variables(&mut updated, values);
    }
    updated
}
