//! The error that an execution failed with, and its place in the playbook.

use noetl_api::explain::FailureView;
use noetl_engine::State;
use noetl_playbook::model::Step;
use noetl_playbook::source::{Source, Span};
use noetl_types::{TaskError, Text};

use crate::runtime::Definition;

/// The first error that nothing caught.
pub(super) fn of(definition: &Definition, state: &State) -> Option<FailureView> {
    let (error, steps) = state.failure()?;
    let plan = &definition.plan;
    let step = steps.first().map(|step| plan.model(*step));
    let place = step.map(|step| {
        let source = Source::new(&definition.entry.content);
        source.position(place(step, error).start)
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

/// Where the task that failed is written, or else its step.
fn place(step: &Step, error: &TaskError) -> Span {
    let task = error.task.as_ref().and_then(|label| {
        let mut tasks = step.tool.tasks().iter();
        tasks.find(|task| *task.label.value == **label)
    });
    task.map_or(step.name.span, |task| task.kind.span)
}
