//! Whether a server lives and can work.

use std::collections::BTreeMap;

use noetl_types::Text;
use serde::{Deserialize, Serialize};

/// A process lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Alive {
    /// Always the same, since a dead process answers nothing.
    pub status: Health,
}

/// Whether something works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// It does.
    Ok,
    /// It does its main work, but not all of it.
    Degraded,
    /// It does not.
    Failed,
}

/// Whether a server can work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ready {
    /// The worst of its checks.
    pub status: Health,
    /// What was looked at.
    pub checks: BTreeMap<Text, Health>,
    /// What is wrong with those that are not well; told only to who shows an identity.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reasons: BTreeMap<Text, Text>,
    /// Settings that make it less safe than it should be.
    #[serde(default, rename = "unsafe", skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Text>,
    /// Walls that do not stand: around the log, and around tasks those that workers could not raise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub walls: Vec<Text>,
}

impl Ready {
    /// The sum of checks: what is wrong with each of them, if anything.
    pub fn of<'n>(checks: impl IntoIterator<Item = (&'n str, Result<(), Text>)>) -> Self {
        let mut ready = Self {
            status: Health::Ok,
            checks: BTreeMap::new(),
            reasons: BTreeMap::new(),
            overrides: Vec::new(),
            walls: Vec::new(),
        };
        for (name, found) in checks {
            let health = if found.is_ok() {
                Health::Ok
            } else {
                Health::Failed
            };
            ready.status = ready.status.max(health);
            ready.checks.insert(name.into(), health);
            if let Err(reason) = found {
                ready.reasons.insert(name.into(), reason);
            }
        }
        ready
    }

    /// The same with one more check, which makes it no worse than it says when it is not well.
    #[must_use]
    pub fn and(mut self, name: &str, otherwise: Health, found: Result<(), Text>) -> Self {
        let health = if found.is_ok() { Health::Ok } else { otherwise };
        self.status = self.status.max(health);
        self.checks.insert(name.into(), health);
        if let Err(reason) = found {
            self.reasons.insert(name.into(), reason);
        }
        self
    }

    /// The same with settings that make it less safe than it should be.
    #[must_use]
    pub fn with_overrides(self, overrides: &[&str]) -> Self {
        Self {
            overrides: overrides.iter().map(|name| Text::from(*name)).collect(),
            ..self
        }
    }

    /// The same with walls that do not stand.
    #[must_use]
    pub fn with_walls(self, walls: Vec<Text>) -> Self {
        Self { walls, ..self }
    }

    /// The same for strangers.
    #[must_use]
    pub fn without_reasons(self) -> Self {
        Self {
            reasons: BTreeMap::new(),
            // Whoever looks for a weak spot need not be shown the way.
            walls: Vec::new(),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_fails_the_whole() {
        let ready = Ready::of([("store", Ok(())), ("machine_id", Err("lost".into()))]);
        assert_eq!(
            serde_json::to_string(&ready).unwrap(),
            r#"{"status":"failed","checks":{"machine_id":"failed","store":"ok"},"reasons":{"machine_id":"lost"}}"#
        );
        assert_eq!(
            serde_json::to_string(&ready.without_reasons()).unwrap(),
            r#"{"status":"failed","checks":{"machine_id":"failed","store":"ok"}}"#
        );
        assert_eq!(Ready::of([("store", Ok(()))]).status, Health::Ok);
    }
}
