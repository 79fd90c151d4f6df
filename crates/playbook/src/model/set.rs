//! `set`: variables that a task, rule, step or arc writes.

use std::sync::Arc;

use schemars::json_schema;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use crate::schema::impl_schema;
use crate::source::Spanned;
use crate::template::DynamicValue;

/// Names that cannot be shadowed or written.
pub const WRITE_PROTECTED_NAMES: [&str; 5] =
    ["execution_id", "workload", "ctx", "steps", "keychain"];

/// Writes that are rendered against the same state and applied together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SetClause(pub Vec<SetEntry>);

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub struct SetEntry {
    /// Variable to write.
    pub target: Spanned<SetTarget>,
    /// Value to write.
    pub value: DynamicValue,
}

/// Target of a write.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SetTarget {
    /// `ctx.<path>`: a variable of the execution.
    Ctx(Vec<Arc<str>>),
    /// `iter.<path>`: a variable of the iteration, or of this step pass outside loops.
    Iter(Vec<Arc<str>>),
    /// `step.<path>`: a variable of this step pass.
    Step(Vec<Arc<str>>),
    /// A name without a prefix: a pipeline variable in a task or rule, equivalent to `ctx.` in a
    /// step or arc.
    Bare(Arc<str>),
}

/// A name that `set` cannot write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the name is reserved or empty")]
pub struct ReservedName;

impl SetTarget {
    /// Parses a key of a `set`. A dotted key with an unknown prefix is a literal key.
    pub fn parse(key: &str) -> Result<Self, ReservedName> {
        let Some((prefix, path)) = key.split_once('.') else {
            return if key.is_empty() || WRITE_PROTECTED_NAMES.contains(&key) {
                Err(ReservedName)
            } else {
                Ok(Self::Bare(key.into()))
            };
        };
        let build: fn(Vec<Arc<str>>) -> Self = match prefix {
            "ctx" => Self::Ctx,
            "iter" => Self::Iter,
            "step" => Self::Step,
            _ if WRITE_PROTECTED_NAMES.contains(&prefix) => return Err(ReservedName),
            _ => return Ok(Self::Bare(key.into())),
        };
        let path: Vec<Arc<str>> = path.split('.').map(Arc::from).collect();
        if path.iter().any(|part| part.is_empty()) {
            return Err(ReservedName);
        }
        if prefix == "iter" && &*path[0] == "parent" {
            return Err(ReservedName);
        }
        Ok(build(path))
    }

    /// Returns the key as written in a document.
    pub fn key(&self) -> String {
        match self {
            Self::Ctx(path) => format!("ctx.{}", path.join(".")),
            Self::Iter(path) => format!("iter.{}", path.join(".")),
            Self::Step(path) => format!("step.{}", path.join(".")),
            Self::Bare(name) => name.to_string(),
        }
    }
}

impl SetClause {
    /// Adds a write. If two spellings name the same target, the later write replaces the earlier
    /// one.
    pub fn insert_entry(&mut self, entry: SetEntry) {
        self.0.retain(|earlier| earlier.target != entry.target);
        self.0.push(entry);
    }

    /// True if there are no writes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for SetClause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for entry in &self.0 {
            map.serialize_entry(&entry.target.key(), &entry.value)?;
        }
        map.end()
    }
}

impl_schema!(SetClause, "Set", |_| json_schema!({
    "description": "Variables to write: `ctx.x` for the execution, `iter.x` for the iteration, `step.x` for this step pass.",
    "type": "object"
}));

#[cfg(test)]
mod tests;
