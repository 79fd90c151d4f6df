//! Keyed concurrency: a step, or the whole run, waits until one of the slots of its key is free.

use std::sync::Arc;

use noetl_playbook::model::Setting;
use noetl_playbook::template::{RenderError, Scope};
use noetl_types::Json;

use super::machine::{Machine, Running};
use super::waits::text;
use crate::names::Rank;

/// A slot that is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Want {
    pub(super) key: String,
    limit: usize,
    priority: i64,
}

impl Want {
    fn new(key: String, limit: u32, priority: i64) -> Self {
        Self {
            key,
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            priority,
        }
    }
}

impl Machine<'_> {
    /// The slot that a step must have before it enters.
    pub(super) fn slot_of(&self, step: usize, run: &Running) -> Result<Option<Want>, RenderError> {
        let Some(concurrency) = &self.step(step).concurrency else {
            return Ok(None);
        };
        let mut names = self.view(run).names(&self.step(step).name.value);
        names.put(Rank::Place, "event", run.came_with.event.clone());
        let scope = names.scope();
        let key = rendered(&concurrency.key.value, &scope)?;
        // The priority of a step goes before that of the playbook.
        let own = self.step(step).priority.as_ref();
        let priority = match own
            .or(self.playbook.priority.as_ref())
            .map(|set| &set.value)
        {
            None => 0,
            Some(Setting::Fixed(priority)) => *priority,
            Some(Setting::Template(template)) => {
                template.render(&scope)?.value.as_i64().unwrap_or_default()
            }
        };
        Ok(Some(Want::new(key, concurrency.limit.value, priority)))
    }

    /// The slot that the run must have before its first step enters.
    pub(super) fn root_slot(&self) -> Result<Option<Want>, RenderError> {
        let Some(concurrency) = &self.playbook.concurrency else {
            return Ok(None);
        };
        let scope = self.view(&Running::default()).names("").scope();
        let key = rendered(&concurrency.key, &scope)?;
        Ok(Some(Want::new(key, concurrency.limit.value, 0)))
    }

    /// Whether a slot that is wanted is free.
    pub(super) fn is_free(&self, want: &Want) -> bool {
        let others = self.world.held_until(&want.key);
        let others = others.iter().filter(|until| **until > self.now).count();
        let own = self.running.values();
        let own = own.filter(|run| run.slot.as_ref() == Some(&want.key));
        others + own.count() < want.limit
    }

    /// The step that gets a slot next: by priority, then by how long it has waited.
    ///
    /// Choice: of those that came at the same moment, the one that is written first.
    pub(super) fn next_granted(&self) -> Option<usize> {
        let wants = self.waiting.iter().filter_map(|waiting| {
            let want = waiting.wants.as_ref()?;
            Some((want, waiting.since, waiting.step))
        });
        let free = wants.filter(|(want, _, _)| self.is_free(want));
        free.min_by_key(|(want, since, step)| (-want.priority, *since, *step))
            .map(|(_, _, step)| step)
    }

    /// When somebody else next gives back a slot that is wanted here.
    pub(super) fn next_free_slot(&self) -> Option<u64> {
        let wants = self
            .waiting
            .iter()
            .filter_map(|waiting| waiting.wants.as_ref());
        wants
            .chain(&self.gate)
            .flat_map(|want| self.world.held_until(&want.key))
            .filter(|until| *until > self.now)
            .min()
    }
}

/// A key, rendered.
pub(super) fn rendered(key: &Setting<Arc<str>>, scope: &dyn Scope) -> Result<String, RenderError> {
    Ok(match key {
        Setting::Fixed(key) => key.to_string(),
        Setting::Template(template) => {
            text(&template.render(scope)?.value).unwrap_or_else(|| Json::Null.to_string())
        }
    })
}
