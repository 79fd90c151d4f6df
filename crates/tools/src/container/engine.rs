//! The engine of the machine, by its command line: docker, or podman, which speaks the same.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use noetl_types::json::parse;
use noetl_types::{Json, TaskError, TaskErrorKind};
use rustix::fs::{Access, access};
use tokio::time::timeout;

use super::order::Order;
use crate::process::Written;
use crate::program::{Outputs, Program, failure};
use crate::settings::Settings;
use crate::tool::Scope;

/// The engines that are looked for.
const ENGINES: [&str; 2] = ["docker", "podman"];

/// Time for the engine to answer a small question.
const PATIENCE: Duration = Duration::from_secs(30);

/// An engine.
#[derive(Debug)]
pub(super) struct Engine {
    program: PathBuf,
    environment: Vec<(String, String)>,
    settings: Arc<Settings>,
}

/// How a container ended, as the engine tells.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) out_of_memory: bool,
}

impl Engine {
    /// The engine that the operator names, else the first that is there.
    pub(super) fn find(settings: &Arc<Settings>) -> Result<Self, TaskError> {
        let path = settings.environment.get("PATH").map_or("", String::as_str);
        let named = settings.container.engine.as_deref();
        let wanted = named.as_ref().map_or(&ENGINES[..], std::slice::from_ref);
        let program = wanted.iter().find_map(|name| on_path(name, path));
        let program = program.ok_or_else(|| {
            let message = match named {
                Some(name) => format!("the container engine '{name}' is not on the worker"),
                None => {
                    "containers need docker or podman on the worker, and neither is on its PATH"
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

    /// The command that runs a container to its end. The container stays, so that one can ask how
    /// it ended.
    pub(super) fn program<'p>(
        &'p self,
        order: &'p Order,
        name: &str,
        folder: &'p Path,
        timeout: Duration,
    ) -> Program<'p> {
        let mut words = self.words(&["run", "--name", name]);
        words.extend(order.words.iter().cloned());
        Program {
            words,
            environment: &order.environment,
            folder,
            private: None,
            outputs: Outputs::Apart,
            timeout,
        }
    }

    /// Removes a container, running or not; one that is not there is as good.
    pub(super) async fn remove(&self, name: &str, folder: &Path) -> Result<(), TaskError> {
        let (status, written) = self
            .ask(&["rm", "--force", "--volumes", name], folder)
            .await?;
        let said = written.last_error_line();
        let is_gone = |line: &str| line.to_ascii_lowercase().contains("no such container");
        if status.success() || said.as_deref().is_some_and(is_gone) {
            return Ok(());
        }
        Err(refusal(status, said.as_deref()))
    }

    /// How a container ended; nothing where the engine cannot tell.
    pub(super) async fn ended(&self, name: &str, folder: &Path) -> Option<Ended> {
        let question = ["inspect", "--format", "{{json .State}}", name];
        let (status, written) = self.ask(&question, folder).await.ok()?;
        let state = written.stdout();
        let state = parse(state.as_str()?.trim().as_bytes()).ok()?;
        status.success().then(|| Ended {
            out_of_memory: state.get("OOMKilled").and_then(Json::as_bool) == Some(true),
        })
    }

    async fn ask(
        &self,
        question: &[&str],
        folder: &Path,
    ) -> Result<(ExitStatus, Written), TaskError> {
        let program = Program {
            words: self.words(question),
            environment: &self.environment,
            folder,
            private: None,
            outputs: Outputs::Apart,
            timeout: PATIENCE,
        };
        // Not part of the call's scope: a cancelled call must not take its own cleaning with it.
        let scope = Scope::default();
        timeout(PATIENCE, program.run(&self.settings, &scope))
            .await
            .unwrap_or_else(|_| {
                let message = "the container engine does not answer";
                Err(TaskError::new(TaskErrorKind::Connection, message))
            })
    }

    fn words(&self, words: &[&str]) -> Vec<String> {
        let program = self.program.to_string_lossy().into_owned();
        let words = words.iter().map(|word| (*word).to_owned());
        std::iter::once(program).chain(words).collect()
    }
}

/// The file of a program, looked for as a shell does.
fn on_path(name: &str, path: &str) -> Option<PathBuf> {
    let can_run = |file: &PathBuf| file.is_file() && access(file, Access::EXEC_OK).is_ok();
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(can_run);
    }
    let folders = path.split(':').filter(|folder| folder.starts_with('/'));
    folders
        .map(|folder| Path::new(folder).join(name))
        .find(can_run)
}

/// The error of an engine that does not do what it is asked.
pub(super) fn refusal(status: ExitStatus, said: Option<&str>) -> TaskError {
    let words = said.unwrap_or("").to_ascii_lowercase();
    let says = |parts: &[&str]| parts.iter().any(|part| words.contains(part));
    let kind = if says(&[
        "cannot connect",
        "connection refused",
        "is the docker daemon running",
    ]) {
        TaskErrorKind::Connection
    } else if says(&["unauthorized", "authentication required"]) {
        TaskErrorKind::Auth
    } else if says(&[
        "no such image",
        "not found",
        "manifest unknown",
        "does not exist",
        "access denied",
    ]) {
        TaskErrorKind::NotFound
    } else {
        TaskErrorKind::Transform
    };
    TaskError {
        kind,
        retryable: kind.retryable(),
        ..failure("the container engine", status, said)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn why_an_engine_refuses() {
        for (said, kind) in [
            (
                "docker: Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?",
                TaskErrorKind::Connection,
            ),
            (
                "docker: Error response from daemon: manifest unknown",
                TaskErrorKind::NotFound,
            ),
            (
                "Error: unauthorized: authentication required",
                TaskErrorKind::Auth,
            ),
            ("docker: invalid reference format", TaskErrorKind::Transform),
        ] {
            let error = refusal(ExitStatus::from_raw(125 << 8), Some(said));
            assert_eq!(error.kind, kind, "{said}");
            assert_eq!(error.retryable, kind.retryable());
            assert_eq!(error.code, Some(Json::from(125)));
        }
    }
}
