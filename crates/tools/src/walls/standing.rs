//! Which walls stand, asked of the launcher once.

use std::process::Stdio;

use tokio::process::Command;

use super::{LAUNCHER_WORD, Missing, Order, Sandbox, SandboxMode};

/// How long the launcher may take to say it; on a busy machine, too.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// What the walls of a worker are worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// What the operator wants.
    pub mode: SandboxMode,
    /// Whether user code has no network.
    pub is_offline: bool,
    /// What could not be raised, or why nothing is known of it.
    pub missing: Result<Vec<Missing>, String>,
}

impl Standing {
    /// Raises the walls once, around nothing, and tells which stand.
    pub async fn of(sandbox: &Sandbox) -> Self {
        let missing = match (sandbox.mode, &sandbox.launcher) {
            (SandboxMode::Off, _) => Ok(Vec::new()),
            (_, None) => Err("there is no launcher that could raise them".to_owned()),
            (_, Some(_)) => asked(sandbox).await,
        };
        Self {
            mode: sandbox.mode,
            is_offline: sandbox.is_offline,
            missing,
        }
    }

    /// The walls that do not stand, in words for people; nothing where all of them do.
    pub fn lacking(&self) -> Vec<String> {
        match &self.missing {
            _ if self.mode == SandboxMode::Off => vec!["sandbox off".to_owned()],
            Ok(missing) => missing.iter().map(ToString::to_string).collect(),
            Err(why) => vec![format!("all of them ({why})")],
        }
    }
}

async fn asked(sandbox: &Sandbox) -> Result<Vec<Missing>, String> {
    let launcher = sandbox.launcher.as_ref().ok_or("there is no launcher")?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let order = Order {
        strict: sandbox.mode == SandboxMode::Strict,
        offline: sandbox.is_offline,
        private: folder.path().to_owned(),
        cwd: folder.path().to_owned(),
        writable: sandbox.writable.clone(),
        hidden: sandbox.hidden.clone(),
        probe: true,
    };
    let order = serde_json::to_string(&order).map_err(|error| error.to_string())?;
    let told = Command::new(launcher)
        .args([LAUNCHER_WORD, &order])
        .env_clear()
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let told = tokio::time::timeout(PATIENCE, told).await;
    let told = told.map_err(|_| "the launcher did not answer".to_owned())?;
    let told = told.map_err(|error| error.to_string())?;
    serde_json::from_slice(&told.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&told.stderr);
        said.trim().to_owned()
    })
}
