//! The kind `shell`: commands in order, until the first that fails.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use async_trait::async_trait;
use noetl_types::{ByteSize, Json, JsonMap, TaskError, TaskErrorKind};
use tempfile::TempDir;
use tokio::process::Command;

use crate::call::{Call, Outcome};
use crate::config::{Config, missing, wrong};
use crate::process::{GroupLeader, Written, ending};
use crate::settings::{Settings, Walls};
use crate::tool::{Scope, Tool};

/// What a shell reports of a command that a signal ended, less the signal.
const KILLED_BY_SIGNAL: i32 = 128;

/// Runs shell commands.
#[derive(Debug)]
pub(crate) struct Shell {
    settings: Arc<Settings>,
}

impl Shell {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self { settings }
    }
}

#[async_trait]
impl Tool for Shell {
    async fn run(&self, call: &Call, scope: &Scope) -> Outcome {
        match self.work(call, scope).await {
            Ok(outcome) => outcome,
            Err(error) => error.into(),
        }
    }
}

/// What the config asks for.
struct Job {
    commands: Vec<String>,
    shell: String,
    cwd: Option<PathBuf>,
    capture: bool,
    environment: Vec<(String, String)>,
}

impl Job {
    fn read(call: &Call, settings: &Settings) -> Result<Self, TaskError> {
        let config = Config(&call.config);
        let mut environment: Vec<(String, String)> =
            settings.environment.clone().into_iter().collect();
        environment.extend([
            ("NOETL_EXECUTION_ID".into(), call.execution_id.clone()),
            ("NOETL_STEP".into(), call.step.clone()),
            ("NOETL_IDEMPOTENCY_KEY".into(), call.idempotency_key.clone()),
        ]);
        environment.extend(config.texts("env")?);
        if let Some((name, _)) = environment
            .iter()
            .find(|(name, value)| !is_variable(name, value))
        {
            return Err(TaskError::new(
                TaskErrorKind::Schema,
                format!("'env' holds '{name}', which cannot be a variable"),
            ));
        }
        Ok(Self {
            commands: commands(config)?,
            shell: config.text("shell")?.unwrap_or("sh").to_owned(),
            cwd: config.text("cwd")?.map(PathBuf::from),
            capture: config.flag("capture")?.unwrap_or(true),
            environment,
        })
    }

    fn command(&self, text: &str, walls: &Walls, folder: &Path) -> Command {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", &raise(walls), "sh", &self.shell, "-c", text])
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(folder);
        command
    }
}

/// Whether an environment can hold it.
fn is_variable(name: &str, value: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0')
}

/// A script that lowers the limits of its own process and then becomes the program that its
/// arguments name. A limit that is lower already stays.
///
/// Its standard input is the lifeline, which nobody writes to: a process in the background waits
/// for its end, which comes with the end of the worker, and kills the group. The program itself
/// gets no input.
fn raise(walls: &Walls) -> String {
    let kib = |size: ByteSize| size.as_bytes() / 1024;
    let blocks = |size: ByteSize| size.as_bytes() / 512;
    let limits = [
        ("-c", Some(0)),
        ("-v", walls.memory.map(kib)),
        ("-t", walls.cpu_seconds),
        ("-n", walls.open_files),
        ("-f", walls.file_size.map(blocks)),
    ];
    let mut script: String = limits
        .into_iter()
        .filter_map(|(flag, limit)| limit.map(|limit| format!("ulimit {flag} {limit};")))
        .collect();
    if let Some(processes) = walls.processes {
        // Shells do not agree on the letter.
        script += &format!("ulimit -u {processes} || ulimit -p {processes};");
    }
    format!(
        "exec 3<&0 </dev/null; {{ {script} }} 2>/dev/null; \
         {{ read -r _ <&3; kill -KILL 0; }} >/dev/null 2>&1 & exec \"$@\" 3<&-"
    )
}

fn commands(config: Config<'_>) -> Result<Vec<String>, TaskError> {
    if let Some(command) = config.text("command")? {
        return Ok(vec![command.to_owned()]);
    }
    let Some(list) = config.get("cmds") else {
        return Err(missing("'command' or 'cmds'"));
    };
    let items = list
        .as_list()
        .ok_or_else(|| wrong("cmds", "a list", list))?;
    let command = |item: &Json| {
        let text = item.as_str().map(str::to_owned);
        text.ok_or_else(|| wrong("cmds", "a list of texts", item))
    };
    items.iter().map(command).collect()
}

impl Shell {
    async fn work(&self, call: &Call, scope: &Scope) -> Result<Outcome, TaskError> {
        let job = Job::read(call, &self.settings)?;
        let scratch = private_folder(&self.settings)?;
        let folder = match &job.cwd {
            // An absolute folder replaces the private one.
            Some(cwd) => scratch.path().join(cwd),
            None => scratch.path().to_owned(),
        };
        let mut written = Written::default();
        let mut code = 0;
        let mut end = None;
        for text in &job.commands {
            let (status, more) = self.one(&job, text, &folder, scope).await?;
            written.append(&more, self.settings.output_cap);
            code = exit_code(status);
            if code != 0 {
                end = Some(status);
                break;
            }
        }
        let mut data = JsonMap::from([("exit_code".into(), Json::from(code))]);
        written.put_into(&mut data);
        Ok(Outcome {
            data: data.into(),
            error: end.map(|status| failure(status, &written)),
            ..Outcome::default()
        })
    }

    async fn one(
        &self,
        job: &Job,
        text: &str,
        folder: &Path,
        scope: &Scope,
    ) -> Result<(ExitStatus, Written), TaskError> {
        let mut command = job.command(text, &self.settings.walls, folder);
        let (mut leader, _lifeline) = spawn(&mut command, job.capture)
            .map_err(|error| not_started(&job.shell, folder, &error))?;
        scope.enter_group(leader.group());
        let mut outputs = leader.take_outputs(self.settings.output_cap);
        let status = tokio::select! {
            status = leader.wait() => status,
            never = outputs.follow() => match never {},
        };
        scope.leave_group();
        // Whatever the command left in the background ends with it.
        leader.kill();
        let status =
            status.map_err(|error| TaskError::new(TaskErrorKind::Unknown, error.to_string()))?;
        Ok((status, outputs.take()))
    }
}

/// Starts a command that lives no longer than the lifeline that comes with it.
fn spawn(command: &mut Command, capture: bool) -> io::Result<(GroupLeader, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    command.stdin(Stdio::from(OwnedFd::from(theirs)));
    let leader = GroupLeader::spawn(command, capture)?;
    // The command would keep the other end open, and with it the lifeline.
    command.stdin(Stdio::null());
    Ok((leader, ours))
}

/// A folder that only this call uses and that goes away with it.
pub(crate) fn private_folder(settings: &Settings) -> Result<TempDir, TaskError> {
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix("noetl-");
    let folder = match &settings.scratch {
        Some(parent) => builder.tempdir_in(parent),
        None => builder.tempdir(),
    };
    folder.map_err(|error| {
        let message = format!("no private folder for the task: {error}");
        TaskError::new(TaskErrorKind::StorageAccess, message)
    })
}

fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    let by_signal = || {
        status
            .signal()
            .map_or(-1, |signal| KILLED_BY_SIGNAL + signal)
    };
    status.code().unwrap_or_else(by_signal)
}

fn failure(status: ExitStatus, written: &Written) -> TaskError {
    let end = ending(status);
    let message = match written.last_error_line() {
        Some(line) => format!("the command ended with {end}: {line}"),
        None => format!("the command ended with {end}"),
    };
    TaskError {
        code: Some(Json::from(exit_code(status))),
        ..TaskError::new(TaskErrorKind::Transform, message)
    }
}

fn not_started(shell: &str, folder: &Path, error: &io::Error) -> TaskError {
    let message = if error.kind() == io::ErrorKind::NotFound && !folder.is_dir() {
        format!("the folder '{}' does not exist", folder.display())
    } else {
        format!("'{shell}' cannot be started: {error}")
    };
    TaskError::new(TaskErrorKind::Transform, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;

    /// The end of the worker closes its end of the lifeline.
    #[tokio::test]
    async fn a_command_does_not_outlive_its_worker() {
        let job = Job {
            commands: Vec::new(),
            shell: "sh".into(),
            cwd: None,
            capture: false,
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        };
        let mut command = job.command("sleep 1000; true", &Walls::default(), Path::new("/"));
        let (mut leader, lifeline) = spawn(&mut command, false).unwrap();
        drop(lifeline);
        assert_eq!(leader.wait().await.unwrap().signal(), Some(9));
    }
}
