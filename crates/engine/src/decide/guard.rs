//! Guard and admission rules of a step that is about to start.

use noetl_playbook::graph::StepIndex;
use noetl_types::Json;

use super::draft::{Draft, StepEvalError};
use super::environment::TemplateFocus;
use super::rendering::{FieldLocation, TemplateField};

/// Result of guard and admission rules.
pub(super) enum AdmissionResult {
    /// The step may start.
    Granted,
    /// The guard is false. Contains its value.
    GuardFailed(Json),
    /// The admission rules deny the step.
    Denied,
}

/// Evaluates guard and admission rules of a step.
pub(super) fn check_admission(
    draft: &Draft<'_>,
    step: StepIndex,
    focus: TemplateFocus<'_>,
) -> Result<AdmissionResult, StepEvalError> {
    let model = draft.plan.step_model(step);
    let name = &draft.step_plan(step).name;
    let environment = draft.environment(step, focus);
    let location = |field| FieldLocation { step: name, field };
    if let Some(guard) = &model.when {
        let (holds, value) =
            location(TemplateField::Guard).test_condition(&guard.value, &environment)?;
        if !holds {
            return Ok(AdmissionResult::GuardFailed(value));
        }
    }
    for (index, rule) in model.spec.policy.admit.iter().enumerate() {
        let applies = match &rule.when {
            None => true,
            Some(when) => {
                location(TemplateField::Admission(index))
                    .test_condition(&when.value, &environment)?
                    .0
            }
        };
        if applies {
            return Ok(if rule.allow { AdmissionResult::Granted } else { AdmissionResult::Denied });
        }
    }
    Ok(AdmissionResult::Granted)
}
