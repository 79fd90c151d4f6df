//! The container engine of the host, through its command line: docker, or podman, which has the
//! same interface.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use noetl_types::json::parse;
use noetl_types::{Json, TaskError, TaskErrorKind};
use rustix::fs::{Access, access};
use tokio::time::timeout;

use super::arguments::RunArguments;
use crate::program::{CapturedOutput, OutputMode, Program, exit_error};
use crate::settings::Settings;
use crate::tool::CallContext;

const ENGINE_NAMES: [&str; 2] = ["docker", "podman"];

/// Timeout of a short engine command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// Messages of a client that cannot reach its engine.
const UNREACHABLE_PATTERNS: [&str; 3] =
    ["cannot connect", "connection refused", "is the docker daemon running"];

/// Messages of an engine that cannot get an image.
const MISSING_IMAGE_PATTERNS: [&str; 5] =
    ["no such image", "not found", "manifest unknown", "does not exist", "access denied"];

#[derive(Debug)]
pub(super) struct ContainerEngine {
    program: PathBuf,
    environment: Vec<(String, String)>,
    settings: Arc<Settings>,
}

impl ContainerEngine {
    /// Returns the engine that the operator names, else the first that is installed.
    pub(super) fn find_installed(settings: &Arc<Settings>) -> Result<Self, TaskError> {
        let path = settings.environment.get("PATH").map_or("", String::as_str);
        let named = settings.container.engine.as_deref();
        let candidates = named.as_ref().map_or(&ENGINE_NAMES[..], std::slice::from_ref);
        let program = candidates.iter().find_map(|name| find_on_path(name, path));
        let program = program.ok_or_else(|| {
            let message = match named {
                Some(name) => format!("the container engine '{name}' is not on the worker's PATH"),
                None => {
                    "containers require docker or podman on the worker, but neither is on its PATH"
                        .to_owned()
                }
            };
            TaskError::new(TaskErrorKind::Unsupported, message)
        })?;
        let mut environment = settings.environment.clone();
        environment.extend(settings.container.environment.clone());
        Ok(Self {
            program,
            environment: environment.into_iter().collect(),
            settings: Arc::clone(settings),
        })
    }

    /// Command that runs a container to its end. The container is kept afterwards, so that its
    /// state can be inspected.
    pub(super) fn program<'p>(
        &'p self,
        arguments: &'p RunArguments,
        name: &str,
        folder: &'p Path,
        timeout: Duration,
    ) -> Program<'p> {
        let mut argv = self.command_line(&["run", "--name", name]);
        argv.extend(arguments.args.iter().cloned());
        Program {
            argv,
            environment: &arguments.environment,
            working_dir: folder,
            private_dir: None,
            output_mode: OutputMode::Separate,
            timeout,
        }
    }

    /// Removes a container, running or not. Succeeds if it does not exist.
    pub(super) async fn remove(&self, name: &str, folder: &Path) -> Result<(), TaskError> {
        let (status, output) =
            self.run_command(&["rm", "--force", "--volumes", name], folder).await?;
        let last_line = output.last_error_line();
        let is_gone = |line: &str| line.to_ascii_lowercase().contains("no such container");
        if status.success() || last_line.as_deref().is_some_and(is_gone) {
            return Ok(());
        }
        Err(engine_error(status, last_line.as_deref()))
    }

    /// Returns true if a container that has ended ran out of memory, or `None` if the engine has no
    /// state for it.
    pub(super) async fn ran_out_of_memory(&self, name: &str, folder: &Path) -> Option<bool> {
        let command = ["inspect", "--format", "{{json .State}}", name];
        let (status, output) = self.run_command(&command, folder).await.ok()?;
        let state = parse(output.stdout().as_str()?.trim().as_bytes()).ok()?;
        status.success().then(|| state.get("OOMKilled") == Some(&Json::from(true)))
    }

    async fn run_command(
        &self,
        command: &[&str],
        folder: &Path,
    ) -> Result<(ExitStatus, CapturedOutput), TaskError> {
        let program = Program {
            argv: self.command_line(command),
            environment: &self.environment,
            working_dir: folder,
            private_dir: None,
            output_mode: OutputMode::Separate,
            timeout: COMMAND_TIMEOUT,
        };
        // Not part of the call's context: cancelling a call must not cancel its cleanup.
        let context = CallContext::default();
        timeout(COMMAND_TIMEOUT, program.run(&self.settings, &context)).await.unwrap_or_else(|_| {
            let message = "the container engine does not respond";
            Err(TaskError::new(TaskErrorKind::Connection, message))
        })
    }

    fn command_line(&self, args: &[&str]) -> Vec<String> {
        let program = self.program.to_string_lossy().into_owned();
        let args = args.iter().map(|arg| (*arg).to_owned());
        std::iter::once(program).chain(args).collect()
    }
}

/// Finds the file of a program as a shell does.
fn find_on_path(name: &str, path: &str) -> Option<PathBuf> {
    let can_run = |file: &PathBuf| file.is_file() && access(file, Access::EXEC_OK).is_ok();
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(can_run);
    }
    let folders = path.split(':').filter(|folder| folder.starts_with('/'));
    folders.map(|folder| Path::new(folder).join(name)).find(can_run)
}

/// Error for an engine command that failed.
pub(super) fn engine_error(status: ExitStatus, last_line: Option<&str>) -> TaskError {
    let message = last_line.unwrap_or("").to_ascii_lowercase();
    let contains_any = |parts: &[&str]| parts.iter().any(|part| message.contains(part));
    let kind = if contains_any(&UNREACHABLE_PATTERNS) {
        TaskErrorKind::Connection
    } else if contains_any(&["unauthorized", "authentication required"]) {
        TaskErrorKind::Auth
    } else if contains_any(&MISSING_IMAGE_PATTERNS) {
        TaskErrorKind::NotFound
    } else {
        TaskErrorKind::Transform
    };
    TaskError {
        kind,
        retryable: kind.is_retryable(),
        ..exit_error("the container engine", status, last_line)
    }
}

#[cfg(test)]
mod tests;
