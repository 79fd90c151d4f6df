//! `set`: what a task, a rule, a step or an arc writes.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use crate::source::Spanned;
use crate::template::Dynamic;

/// Names that nothing shadows and nobody writes.
pub const WRITE_PROTECTED: [&str; 5] = ["execution_id", "workload", "ctx", "steps", "keychain"];

/// Writes that are rendered against the same state and applied together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Set(pub Vec<SetEntry>);

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub struct SetEntry {
    /// Where to.
    pub target: Spanned<SetTarget>,
    /// What.
    pub value: Dynamic,
}

/// Where a `set` writes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SetTarget {
    /// A variable of the execution, by its path.
    Ctx(Vec<Arc<str>>),
    /// A variable of the iteration (of the run of the step, outside loops).
    Iter(Vec<Arc<str>>),
    /// A variable of this run of the step.
    Step(Vec<Arc<str>>),
    /// No scope named: a pipeline variable in a task or a rule, the same as `ctx.` in a step or an arc.
    Bare(Arc<str>),
}

/// A name that `set` must not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the name is reserved or empty")]
pub struct ReservedName;

impl SetTarget {
    /// Reads a key of a `set`. A dotted key whose first part is no scope is a literal key.
    pub fn parse(key: &str) -> Result<Self, ReservedName> {
        let Some((scope, path)) = key.split_once('.') else {
            return if key.is_empty() || WRITE_PROTECTED.contains(&key) {
                Err(ReservedName)
            } else {
                Ok(Self::Bare(key.into()))
            };
        };
        let build: fn(Vec<Arc<str>>) -> Self = match scope {
            "ctx" => Self::Ctx,
            "iter" => Self::Iter,
            "step" => Self::Step,
            _ if WRITE_PROTECTED.contains(&scope) => return Err(ReservedName),
            _ => return Ok(Self::Bare(key.into())),
        };
        let path: Vec<Arc<str>> = path.split('.').map(Arc::from).collect();
        if path.iter().any(|part| part.is_empty()) {
            return Err(ReservedName);
        }
        if scope == "iter" && &*path[0] == "parent" {
            return Err(ReservedName);
        }
        Ok(build(path))
    }

    /// The key as it is written.
    pub fn key(&self) -> String {
        match self {
            Self::Ctx(path) => format!("ctx.{}", path.join(".")),
            Self::Iter(path) => format!("iter.{}", path.join(".")),
            Self::Step(path) => format!("step.{}", path.join(".")),
            Self::Bare(name) => name.to_string(),
        }
    }
}

impl Set {
    /// Adds a write. Of two writes to one place, which only two spellings of it can make, the later
    /// one counts.
    pub fn put(&mut self, entry: SetEntry) {
        self.0.retain(|earlier| earlier.target != entry.target);
        self.0.push(entry);
    }

    /// Whether it writes nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Set {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for entry in &self.0 {
            map.serialize_entry(&entry.target.key(), &entry.value)?;
        }
        map.end()
    }
}

impl JsonSchema for Set {
    fn schema_name() -> Cow<'static, str> {
        "Set".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Writes: `ctx.x` for the execution, `iter.x` for the iteration, `step.x` for this run of the step.",
            "type": "object"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_read_from_the_key() {
        let path = |parts: &[&str]| {
            parts
                .iter()
                .map(|p| Arc::from(*p))
                .collect::<Vec<Arc<str>>>()
        };
        assert_eq!(
            SetTarget::parse("ctx.a.b"),
            Ok(SetTarget::Ctx(path(&["a", "b"])))
        );
        assert_eq!(
            SetTarget::parse("iter.page"),
            Ok(SetTarget::Iter(path(&["page"])))
        );
        assert_eq!(
            SetTarget::parse("step.n"),
            Ok(SetTarget::Step(path(&["n"])))
        );
        assert_eq!(SetTarget::parse("n"), Ok(SetTarget::Bare("n".into())));
        assert_eq!(
            SetTarget::parse("cxt.n"),
            Ok(SetTarget::Bare("cxt.n".into()))
        );
        for refused in [
            "",
            "ctx",
            "ctx.",
            "ctx..a",
            "workload.x",
            "steps.a",
            "keychain.k",
            "execution_id",
            "iter.parent",
        ] {
            assert_eq!(SetTarget::parse(refused), Err(ReservedName), "{refused}");
        }
    }
}
