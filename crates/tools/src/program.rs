//! A program that runs to its end inside the sandbox.
//!
//! Owns how limits are applied to an external process, and that the process does not outlive its
//! call or its worker. The tools choose the program and interpret its exit status.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use noetl_types::{ByteSize, Json, TaskError, TaskErrorKind};
use tempfile::TempDir;
use tokio::process::Command;

use crate::call::ToolCall;
use crate::config::Config;
use crate::process::{CapturedOutput, GroupLeader, describe_exit};
use crate::sandbox::{LaunchCommand, wrap_in_sandbox};
use crate::settings::{ProcessLimits, Settings};
use crate::tool::CallContext;

/// Offset that shells add to the number of the signal that ended a command.
const SIGNAL_EXIT_BASE: i32 = 128;

/// A program and its execution settings.
#[derive(Debug)]
pub(crate) struct Program<'p> {
    /// Program name and arguments.
    pub(crate) argv: Vec<String>,
    /// Its complete environment.
    pub(crate) environment: &'p [(String, String)],
    /// Working directory.
    pub(crate) working_dir: &'p Path,
    /// Private directory of user code, which runs in the sandbox; `None` for a program that the
    /// operator chose.
    pub(crate) private_dir: Option<&'p Path>,
    /// Handling of its outputs.
    pub(crate) output_mode: OutputMode,
    /// Timeout, from which its CPU limit is derived. The caller enforces the timeout itself.
    pub(crate) timeout: Duration,
}

/// Handling of the outputs of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputMode {
    /// Captured separately.
    Separate,
    /// Captured as standard output, in the order in which they were written.
    Merged,
    /// Discarded.
    Discarded,
}

impl Program<'_> {
    /// Runs it to its end. Dropping the future kills it and every process of its group.
    pub(crate) async fn run(
        &self,
        settings: &Settings,
        context: &CallContext,
    ) -> Result<(ExitStatus, CapturedOutput), TaskError> {
        let launch = self.launch_command(settings)?;
        let (mut leader, _lifeline) = self
            .spawn(&settings.process_limits, &launch)
            .map_err(|error| self.start_error(&error))?;
        context.set_process_group(Some(leader.group()));
        let mut outputs = leader.take_outputs(settings.output_cap);
        let status = tokio::select! {
            status = leader.wait() => status,
            never = outputs.capture_forever() => match never {},
        };
        context.set_process_group(None);
        // Background processes of the program end with it.
        leader.kill();
        let status =
            status.map_err(|error| TaskError::new(TaskErrorKind::Unknown, error.to_string()))?;
        Ok((status, outputs.take_output()))
    }

    /// Returns the command line to start, wrapped in the sandbox for user code.
    fn launch_command(&self, settings: &Settings) -> Result<LaunchCommand, TaskError> {
        let command =
            LaunchCommand { argv: self.argv.clone(), environment: self.environment.to_vec() };
        match self.private_dir {
            Some(private) => wrap_in_sandbox(settings, private, self.working_dir, command),
            None => Ok(command),
        }
    }

    /// Starts it together with a lifeline. The program is killed when the lifeline is closed.
    fn spawn(
        &self,
        limits: &ProcessLimits,
        launch: &LaunchCommand,
    ) -> io::Result<(GroupLeader, UnixStream)> {
        let (worker_end, program_end) = UnixStream::pair()?;
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", &self.limit_script(limits), "sh"])
            .args(&launch.argv)
            .env_clear()
            .envs(launch.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(self.working_dir)
            .stdin(Stdio::from(OwnedFd::from(program_end)));
        // The command holds the other end, which must not keep the lifeline open. It is dropped
        // here.
        let leader = GroupLeader::spawn(&mut command, self.output_mode != OutputMode::Discarded)?;
        Ok((leader, worker_end))
    }

    /// Shell script that lowers the limits of its own process and then replaces itself with the
    /// program in its arguments. Limits that are already lower are kept.
    ///
    /// Its standard input is the lifeline, to which nothing is ever written: a background process
    /// waits for it to close, which happens when the worker ends, and then kills the group. The
    /// program itself gets no input.
    fn limit_script(&self, limits: &ProcessLimits) -> String {
        let kib = |size: ByteSize| size.as_bytes() / 1024;
        let blocks = |size: ByteSize| size.as_bytes() / 512;
        let ulimits = [
            ("-c", Some(0)),
            ("-v", limits.memory.map(kib)),
            ("-t", Some(limits.cpu_seconds_for(self.timeout))),
            ("-n", limits.open_files),
            ("-f", limits.file_size.map(blocks)),
        ];
        let mut script: String = ulimits
            .into_iter()
            .filter_map(|(flag, limit)| limit.map(|limit| format!("ulimit {flag} {limit};")))
            .collect();
        if let Some(processes) = limits.processes {
            // The flag differs between shells.
            script += &format!("ulimit -u {processes} || ulimit -p {processes};");
        }
        let redirect = match self.output_mode {
            OutputMode::Merged => " 2>&1",
            OutputMode::Separate | OutputMode::Discarded => "",
        };
        format!(
            "exec 3<&0 </dev/null; {{ {script} }} 2>/dev/null; \
             {{ read -r _ <&3; kill -KILL 0; }} >/dev/null 2>&1 & exec \"$@\" 3<&-{redirect}"
        )
    }

    fn start_error(&self, error: &io::Error) -> TaskError {
        let message = if error.kind() == io::ErrorKind::NotFound && !self.working_dir.is_dir() {
            format!("the folder '{}' does not exist", self.working_dir.display())
        } else {
            let program = self.argv.first().map_or("", String::as_str);
            format!("'{program}' cannot be started: {error}")
        };
        TaskError::new(TaskErrorKind::Transform, message)
    }
}

/// Environment of the processes of a call: the operator's variables, then those of the execution,
/// then the task's own.
pub(crate) fn task_environment(
    call: &ToolCall,
    settings: &Settings,
) -> Result<Vec<(String, String)>, TaskError> {
    let task_variables = Config(&call.config).text_map("env")?;
    if let Some((name, _)) =
        task_variables.iter().find(|(name, value)| !is_valid_variable(name, value))
    {
        return Err(invalid_variable(name));
    }
    let mut environment: Vec<(String, String)> = settings.environment.clone().into_iter().collect();
    environment.extend(execution_variables(call));
    environment.extend(task_variables);
    Ok(environment)
}

/// Variables that identify the execution to its processes.
pub(crate) fn execution_variables(call: &ToolCall) -> [(String, String); 3] {
    [
        ("NOETL_EXECUTION_ID".into(), call.execution_id.clone()),
        ("NOETL_STEP".into(), call.step.clone()),
        ("NOETL_IDEMPOTENCY_KEY".into(), call.idempotency_key.clone()),
    ]
}

/// True if an environment can hold the variable.
pub(crate) fn is_valid_variable(name: &str, value: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0')
}

/// Error for a name or value that an environment cannot hold.
pub(crate) fn invalid_variable(name: &str) -> TaskError {
    TaskError::new(
        TaskErrorKind::Schema,
        format!("'env' contains '{name}', which is not a valid environment variable"),
    )
}

/// Creates a directory that only this call uses. It is deleted when the value is dropped.
pub(crate) fn create_private_dir(settings: &Settings) -> Result<TempDir, TaskError> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix("noetl-").permissions(std::fs::Permissions::from_mode(0o700));
    let folder = match &settings.scratch {
        Some(parent) => builder.tempdir_in(parent),
        None => builder.tempdir(),
    };
    folder.map_err(|error| {
        let message = format!("the private folder of the task cannot be created: {error}");
        TaskError::new(TaskErrorKind::StorageAccess, message)
    })
}

/// Exit code of a process, as shells report it.
pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    let by_signal = || status.signal().map_or(-1, |signal| SIGNAL_EXIT_BASE + signal);
    status.code().unwrap_or_else(by_signal)
}

/// Error for a process that failed, with the last line of its output.
pub(crate) fn exit_error(subject: &str, status: ExitStatus, last_line: Option<&str>) -> TaskError {
    let ending = describe_exit(status);
    let message = match last_line {
        Some(line) => format!("{subject} ended with {ending}: {line}"),
        None => format!("{subject} ended with {ending}"),
    };
    TaskError {
        code: Some(Json::from(exit_code(status))),
        ..TaskError::new(TaskErrorKind::Transform, message)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    /// The end of the worker closes its end of the lifeline.
    #[tokio::test]
    async fn program_ends_with_its_worker() {
        let program = Program {
            argv: ["sh", "-c", "sleep 1000; true"].map(str::to_owned).into(),
            environment: &[("PATH".into(), "/usr/bin:/bin".into())],
            working_dir: Path::new("/"),
            private_dir: None,
            output_mode: OutputMode::Discarded,
            timeout: Duration::from_mins(1),
        };
        let launch = program.launch_command(&Settings::default()).unwrap();
        let (mut leader, lifeline) = program.spawn(&ProcessLimits::default(), &launch).unwrap();
        drop(lifeline);
        assert_eq!(leader.wait().await.unwrap().signal(), Some(9));
    }
}
