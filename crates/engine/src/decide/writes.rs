//! `set`: rendering a group of writes and recording those to variables of the run.

use noetl_playbook::bounds::{MAX_SET_BYTES, MAX_VALUE_DEPTH, is_shallow, size_within};
use noetl_playbook::graph::StepIndex;
use noetl_playbook::model::{Set, SetTarget};
use noetl_playbook::paths::path_segments;
use noetl_types::{Json, JsonMap, StepName, TaskError, TaskErrorKind};

use super::Refused;
use super::draft::{Draft, Trouble};
use super::eval::{Field, Site};
use super::scope::RunScope;
use crate::ctx::{BareName, Writes};
use crate::event::{CtxSource, CtxUpdated, EventKind};

/// Renders all values of a `set` against the same state.
pub(super) fn render<'s>(
    set: &'s Set,
    step: &StepName,
    field: impl Fn(&'s SetTarget) -> Field<'s>,
    scope: &RunScope<'_>,
) -> Result<Writes, Trouble> {
    let mut writes = Writes::default();
    for entry in &set.0 {
        let target = &entry.target.value;
        let site = Site {
            step,
            field: field(target),
        };
        let value = site.render(&entry.value, scope)?;
        writes.add(target, value, BareName::Ctx);
    }
    match over_bounds(&writes.ctx) {
        Some(error) => Err(error.into()),
        None => Ok(writes),
    }
}

/// The failure of writes that no event can hold.
pub(super) fn over_bounds(values: &JsonMap) -> Option<TaskError> {
    let limit = |message: String| Some(TaskError::new(TaskErrorKind::Limit, message));
    let mut left = MAX_SET_BYTES;
    for (path, value) in values {
        let depth = path_segments(path).len();
        if depth > MAX_VALUE_DEPTH || !is_shallow(value, MAX_VALUE_DEPTH - depth) {
            return limit(format!("set: `{path}` is nested too deeply"));
        }
        match size_within(value, left) {
            Some(bytes) => left -= bytes,
            None => {
                return limit(format!(
                    "set: the values are larger than {MAX_SET_BYTES} bytes; keep big data in the \
                     data of a step"
                ));
            }
        }
    }
    None
}

/// Records writes to variables of the run; a group without any leaves no event.
pub(super) fn record(
    draft: &mut Draft<'_>,
    step: StepIndex,
    run: u32,
    source: CtxSource,
    written: Written,
) -> Result<(), Refused> {
    if written.values.is_empty() {
        return Ok(());
    }
    draft.emit(EventKind::CtxUpdated(Box::new(CtxUpdated {
        step: draft.name(step),
        run,
        index: written.index,
        source,
        values: written.values,
    })))?;
    Ok(())
}

/// Values of one group of writes.
pub(super) struct Written {
    pub(super) index: Option<u32>,
    pub(super) values: JsonMap,
}

impl From<JsonMap> for Written {
    fn from(values: JsonMap) -> Self {
        Self {
            index: None,
            values,
        }
    }
}

/// Variables with further writes on top, for templates that see them before they are recorded.
pub(super) fn with_writes(variables: &Json, values: &JsonMap) -> Json {
    let mut written = variables.clone();
    if !values.is_empty() {
        noetl_playbook::paths::write(&mut written, values);
    }
    written
}
