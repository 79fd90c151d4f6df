//! Keyed concurrency: a step, or the whole run, waits until a slot of its key is free.

use std::sync::Arc;

use noetl_playbook::model::ValueOrTemplate;
use noetl_playbook::template::{RenderError, TemplateEnvironment};
use noetl_types::Json;

use super::interpreter::{Interpreter, StepPass};
use super::waits::json_to_text;
use crate::names::NamePrecedence;

/// Request for a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SlotRequest {
    pub(super) key: String,
    limit: usize,
    priority: i64,
}

impl SlotRequest {
    fn new(key: String, limit: u32, priority: i64) -> Self {
        Self { key, limit: usize::try_from(limit).unwrap_or(usize::MAX), priority }
    }
}

impl Interpreter<'_> {
    /// Returns the slot that a step needs before it is entered.
    pub(super) fn step_slot_request(
        &self,
        step: usize,
        pass: &StepPass,
    ) -> Result<Option<SlotRequest>, RenderError> {
        let Some(concurrency) = &self.step_model(step).concurrency else {
            return Ok(None);
        };
        let mut names = self.execution_view(pass).template_names(&self.step_model(step).name.value);
        names.add_name(NamePrecedence::Builtin, "event", pass.trigger.event.clone());
        let environment = names.to_environment();
        let key = render_key(&concurrency.key.value, &environment)?;
        // The priority of the step overrides that of the playbook.
        let step_priority = self.step_model(step).priority.as_ref();
        let priority =
            match step_priority.or(self.playbook.priority.as_ref()).map(|priority| &priority.value)
            {
                None => 0,
                Some(ValueOrTemplate::Fixed(priority)) => *priority,
                Some(ValueOrTemplate::Template(template)) => {
                    template.render(&environment)?.value.as_i64().unwrap_or_default()
                }
            };
        Ok(Some(SlotRequest::new(key, concurrency.limit.value, priority)))
    }

    /// Returns the slot that the run needs before its first step is entered.
    pub(super) fn execution_slot_request(&self) -> Result<Option<SlotRequest>, RenderError> {
        let Some(concurrency) = &self.playbook.concurrency else {
            return Ok(None);
        };
        let environment =
            self.execution_view(&StepPass::default()).template_names("").to_environment();
        let key = render_key(&concurrency.key, &environment)?;
        Ok(Some(SlotRequest::new(key, concurrency.limit.value, 0)))
    }

    /// True if the requested slot is free.
    pub(super) fn is_slot_free(&self, request: &SlotRequest) -> bool {
        let others = self.external_inputs.slot_release_times(&request.key);
        let others = others.iter().filter(|until| **until > self.now).count();
        let own_passes = self.running.values();
        let own_passes = own_passes.filter(|pass| pass.slot_key.as_ref() == Some(&request.key));
        others + own_passes.count() < request.limit
    }

    /// Returns the step that gets the next slot: by priority, then by waiting time.
    ///
    /// Choice: of steps that arrived at the same time, the first in the document.
    pub(super) fn next_step_to_grant(&self) -> Option<usize> {
        let requests = self.waiting.iter().filter_map(|waiting| {
            let request = waiting.slot_request.as_ref()?;
            Some((request, waiting.since, waiting.step))
        });
        let free = requests.filter(|(request, _, _)| self.is_slot_free(request));
        free.min_by_key(|(request, since, step)| (-request.priority, *since, *step))
            .map(|(_, _, step)| step)
    }

    /// Returns the time at which another run next releases a requested slot.
    pub(super) fn next_slot_release(&self) -> Option<u64> {
        let requests = self.waiting.iter().filter_map(|waiting| waiting.slot_request.as_ref());
        requests
            .chain(&self.awaited_execution_slot)
            .flat_map(|request| self.external_inputs.slot_release_times(&request.key))
            .filter(|until| *until > self.now)
            .min()
    }
}

/// Renders a concurrency or cache key.
pub(super) fn render_key(
    key: &ValueOrTemplate<Arc<str>>,
    environment: &dyn TemplateEnvironment,
) -> Result<String, RenderError> {
    Ok(match key {
        ValueOrTemplate::Fixed(key) => key.to_string(),
        ValueOrTemplate::Template(template) => json_to_text(&template.render(environment)?.value)
            .unwrap_or_else(|| Json::Null.to_string()),
    })
}
