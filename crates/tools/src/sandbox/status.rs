//! Status of the sandbox layers, determined by one launcher probe.

use std::process::Stdio;

use tokio::process::Command;

use super::{
    ESSENTIAL_LAYERS, InactiveLayer, LAUNCHER_COMMAND, LaunchPurpose, LaunchRequest, Layer,
    SandboxMode,
};
use crate::settings::Settings;

/// Timeout of the probe, long enough for a busy machine.
const PROBE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxStatus {
    /// Mode that the operator chose.
    pub mode: SandboxMode,
    /// True if user code has no network access.
    pub is_offline: bool,
    /// Layers that could not be enabled, or the reason why the probe failed.
    pub missing: Result<Vec<InactiveLayer>, String>,
}

impl SandboxStatus {
    /// Runs a probe that enables the layers without a program and reports which are inactive.
    pub async fn probe(settings: &Settings) -> Self {
        let sandbox = &settings.sandbox;
        let missing = match sandbox.mode {
            SandboxMode::Off => Ok(Vec::new()),
            SandboxMode::BestEffort | SandboxMode::Strict => query_launcher(settings).await,
        };
        Self { mode: sandbox.mode, is_offline: sandbox.is_offline, missing }
    }

    /// True if tasks cannot access files and processes of the machine or of each other.
    pub fn isolates(&self) -> bool {
        let missing = self.missing.as_deref();
        let is_active = |layer: &Layer| {
            missing.is_ok_and(|missing| missing.iter().all(|missing| missing.wall != *layer))
        };
        self.mode != SandboxMode::Off && ESSENTIAL_LAYERS.iter().all(is_active)
    }

    /// True if tasks are refused, because a layer that the mode requires is inactive.
    pub fn refuses_tasks(&self) -> bool {
        let strict = self.mode == SandboxMode::Strict;
        let is_required = |missing: &InactiveLayer| missing.wall.is_required(strict);
        self.mode != SandboxMode::Off
            && self.missing.as_ref().map_or(true, |missing| missing.iter().any(is_required))
    }

    /// Describes the inactive layers. Returns an empty list if all are active.
    pub fn describe_inactive(&self) -> Vec<String> {
        let mut texts = match &self.missing {
            _ if self.mode == SandboxMode::Off => vec!["sandbox off".to_owned()],
            Ok(missing) => missing.iter().map(ToString::to_string).collect(),
            Err(reason) => vec![format!("all layers ({reason})")],
        };
        if !self.isolates() {
            texts.insert(0, "isolation of tasks".to_owned());
        }
        texts
    }
}

async fn query_launcher(settings: &Settings) -> Result<Vec<InactiveLayer>, String> {
    let launcher = settings.sandbox.launcher.as_ref().ok_or("this build has no launcher")?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut request = LaunchRequest::new(settings, folder.path(), folder.path());
    request.purpose = LaunchPurpose::Probe;
    let request = serde_json::to_string(&request).map_err(|error| error.to_string())?;
    let output = Command::new(launcher)
        .args([LAUNCHER_COMMAND, &request])
        .env_clear()
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(PROBE_TIMEOUT, output).await;
    let output = output.map_err(|_| "the launcher did not respond".to_owned())?;
    let output = output.map_err(|error| error.to_string())?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        stderr.trim().to_owned()
    })
}
