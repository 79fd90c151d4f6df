//! The error that an execution failed with, and its position in the playbook.

use noetl_api::explain::FailureView;
use noetl_engine::ExecutionState;
use noetl_playbook::find_error_span;
use noetl_playbook::source::DocumentText;
use noetl_types::Text;

use crate::runtime::Definition;

/// Returns the first uncaught error.
pub(super) fn find_failure(definition: &Definition, state: &ExecutionState) -> Option<FailureView> {
    let (error, steps) = state.uncaught_failure()?;
    let plan = &definition.plan;
    let step = steps.first().map(|step| plan.step_model(*step));
    let position = step.map(|step| {
        let text = &definition.entry.content;
        DocumentText::new(text).position(find_error_span(text, step, error).start)
    });
    Some(FailureView {
        step: steps.first().map(|step| Text::from(plan.step(*step).name.as_str())),
        error: error.to_json(),
        line: position.map(|position| position.line),
        column: position.map(|position| position.column),
    })
}
