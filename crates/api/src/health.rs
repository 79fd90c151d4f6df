//! Liveness and readiness of a server.

use std::collections::BTreeMap;

use noetl_types::Text;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Liveness of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LivenessResponse {
    /// Always `ok`: a dead process does not respond.
    pub status: HealthStatus,
}

/// Health of a component.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    /// Works.
    Ok,
    /// Works with restrictions.
    Degraded,
    /// Does not work.
    Failed,
}

/// Readiness of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReadinessResponse {
    /// Worst result of the checks.
    pub status: HealthStatus,
    /// Result of each check.
    pub checks: BTreeMap<Text, HealthStatus>,
    /// Reasons of failed checks. Only returned to authenticated callers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reasons: BTreeMap<Text, Text>,
    /// Settings that reduce security.
    #[serde(default, rename = "unsafe", skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Text>,
    /// Inactive protection layers: of the log, and of the task sandbox on workers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_protections: Vec<Text>,
}

impl ReadinessResponse {
    /// Combines the results of checks. An error holds the reason of the failure.
    pub fn from_checks<'n>(checks: impl IntoIterator<Item = (&'n str, Result<(), Text>)>) -> Self {
        let mut ready = Self {
            status: HealthStatus::Ok,
            checks: BTreeMap::new(),
            reasons: BTreeMap::new(),
            overrides: Vec::new(),
            missing_protections: Vec::new(),
        };
        for (name, result) in checks {
            ready = ready.with_check(name, HealthStatus::Failed, result);
        }
        ready
    }

    /// Adds a check. If it fails, the status becomes at least as bad as `failure_status`.
    #[must_use]
    pub fn with_check(
        mut self,
        name: &str,
        failure_status: HealthStatus,
        result: Result<(), Text>,
    ) -> Self {
        let health = if result.is_ok() { HealthStatus::Ok } else { failure_status };
        self.status = self.status.max(health);
        self.checks.insert(name.into(), health);
        if let Err(reason) = result {
            self.reasons.insert(name.into(), reason);
        }
        self
    }

    /// Adds settings that reduce security.
    #[must_use]
    pub fn with_overrides(self, overrides: &[&str]) -> Self {
        Self { overrides: overrides.iter().map(|name| Text::from(*name)).collect(), ..self }
    }

    /// Adds inactive protection layers.
    #[must_use]
    pub fn with_inactive_layers(self, missing_protections: Vec<Text>) -> Self {
        Self { missing_protections, ..self }
    }

    /// Removes details that unauthenticated callers must not see.
    #[must_use]
    pub fn without_reasons(self) -> Self {
        Self {
            reasons: BTreeMap::new(),
            // Inactive layers would show an attacker where to look.
            missing_protections: Vec::new(),
            ..self
        }
    }
}

#[cfg(test)]
mod tests;
