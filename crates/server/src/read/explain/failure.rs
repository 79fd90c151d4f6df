//! The error that an execution failed with, and its place in the playbook.

use noetl_api::explain::FailureView;
use noetl_engine::State;
use noetl_playbook::origin;
use noetl_playbook::source::Source;
use noetl_types::Text;

use crate::runtime::Definition;

/// The first error that nothing caught.
pub(super) fn of(definition: &Definition, state: &State) -> Option<FailureView> {
    let (error, steps) = state.failure()?;
    let plan = &definition.plan;
    let step = steps.first().map(|step| plan.model(*step));
    let place = step.map(|step| {
        let text = &definition.entry.content;
        Source::new(text).position(origin(text, step, error).start)
    });
    Some(FailureView {
        step: steps
            .first()
            .map(|step| Text::from(plan.step(*step).name.as_str())),
        error: error.to_json(),
        line: place.map(|place| place.line),
        column: place.map(|place| place.column),
    })
}
