//! The writes of `set`, by the scope that they go to.

use noetl_playbook::model::SetTarget;
use noetl_playbook::paths::path_text;
use noetl_types::{Json, JsonMap};

/// The writes of a group of `set` entries, by scope.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Writes {
    /// Variables of the run, by path.
    pub(crate) ctx: JsonMap,
    /// Variables of this run of the step.
    pub(crate) step: JsonMap,
    /// Variables of the iteration, or of the run of the step outside of a loop.
    pub(crate) iter: JsonMap,
}

/// Where a name without a scope goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BareName {
    /// It is a variable of the run: in a step or an arc.
    Ctx,
    /// It belongs to the pipeline, whose worker keeps it: in a task or a rule.
    Pipeline,
}

impl Writes {
    /// Adds one write.
    pub(crate) fn add(&mut self, target: &SetTarget, value: Json, bare: BareName) {
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

    /// The writes that a worker reports, by the keys of its `set`. A key that cannot be written is
    /// left out: no playbook that was checked has one.
    pub(crate) fn of_report(set: &JsonMap) -> Self {
        let mut writes = Self::default();
        for (key, value) in set {
            if let Ok(target) = SetTarget::parse(key) {
                writes.add(&target, value.clone(), BareName::Pipeline);
            }
        }
        writes
    }
}

#[cfg(test)]
mod tests {
    use noetl_types::json::parse;

    use super::*;

    fn map(text: &str) -> JsonMap {
        parse(text.as_bytes()).unwrap().as_map().unwrap().clone()
    }

    #[test]
    fn reported_writes_are_sorted_into_scopes() {
        let writes = Writes::of_report(&map(
            r#"{"ctx.a.b":1,"iter.page":2,"step.x":3,"bare":4,"workload.k":5}"#,
        ));
        assert_eq!(writes.ctx, map(r#"{"a.b":1}"#));
        assert_eq!(writes.iter, map(r#"{"page":2}"#));
        assert_eq!(writes.step, map(r#"{"x":3}"#));
    }
}
