//! The writes of `set`, grouped by target.

use noetl_playbook::model::SetTarget;
use noetl_playbook::paths::path_text;
use noetl_types::{Json, JsonMap};

/// The writes of a group of `set` entries, by target.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SetWrites {
    /// Variables of the execution, by path.
    pub(crate) ctx: JsonMap,
    /// Variables of this step pass.
    pub(crate) step: JsonMap,
    /// Variables of the iteration, or of the step pass outside of a loop.
    pub(crate) iter: JsonMap,
}

/// Target of a name without a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BareName {
    /// A variable of the execution. Applies to `set` of a step or an arc.
    Ctx,
    /// A variable of the pipeline, which only its worker stores. Applies to `set` of a task or a
    /// rule.
    Pipeline,
}

impl SetWrites {
    /// Adds one write.
    pub(crate) fn add_write(&mut self, target: &SetTarget, value: Json, bare: BareName) {
        match target {
            SetTarget::Ctx(path) => self.ctx.insert(path_text(path), value),
            SetTarget::Iter(path) => self.iter.insert(path_text(path), value),
            SetTarget::Step(path) => self.step.insert(path_text(path), value),
            SetTarget::Bare(name) => match bare {
                BareName::Ctx => self.ctx.insert(path_text(&[name]), value),
                BareName::Pipeline => None,
            },
        };
    }

    /// Groups the writes that a worker reports, keyed as in its `set`. Keys that cannot be written
    /// are ignored: no validated playbook has one.
    pub(crate) fn from_report(set: &JsonMap) -> Self {
        let mut writes = Self::default();
        for (key, value) in set {
            if let Ok(target) = SetTarget::parse(key) {
                writes.add_write(&target, value.clone(), BareName::Pipeline);
            }
        }
        writes
    }
}

#[cfg(test)]
mod tests;
