//! Guard and admission: whether a step that is about to start may.

use noetl_playbook::graph::StepIndex;
use noetl_types::Json;

use super::draft::{Draft, Trouble};
use super::eval::{Field, Site};
use super::scope::Focus;

/// What guard and admission say.
pub(super) enum Admission {
    /// It may start.
    Granted,
    /// Its guard does not hold: this is what it came to.
    Guarded(Json),
    /// Its admission rules deny it.
    Denied,
}

/// Asks guard and admission of a step.
pub(super) fn ask(
    draft: &Draft<'_>,
    step: StepIndex,
    focus: Focus<'_>,
) -> Result<Admission, Trouble> {
    let model = draft.plan.model(step);
    let name = &draft.step(step).name;
    let scope = draft.scope(step, focus);
    let site = |field| Site { step: name, field };
    if let Some(guard) = &model.when {
        let (holds, value) = site(Field::Guard).test(&guard.value, &scope)?;
        if !holds {
            return Ok(Admission::Guarded(value));
        }
    }
    for (at, rule) in model.spec.policy.admit.iter().enumerate() {
        let applies = match &rule.when {
            None => true,
            Some(when) => site(Field::Admission(at)).test(&when.value, &scope)?.0,
        };
        if applies {
            return Ok(if rule.allow {
                Admission::Granted
            } else {
                Admission::Denied
            });
        }
    }
    Ok(Admission::Granted)
}
