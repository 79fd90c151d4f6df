//! A program that runs to its end within the walls.
//!
//! Owns how limits are put around a process that is not ours, and that it does not outlive its call
//! or its worker. What the program is and what its end means is said by the tools.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use noetl_types::{ByteSize, Json, TaskError, TaskErrorKind};
use tempfile::TempDir;
use tokio::process::Command;

use crate::call::Call;
use crate::config::Config;
use crate::process::{GroupLeader, Written, ending};
use crate::settings::{Settings, Walls};
use crate::tool::Scope;
use crate::walls::{Launch, walled};

/// What a shell reports of a command that a signal ended, less the signal.
const KILLED_BY_SIGNAL: i32 = 128;

/// A program, and what it gets.
#[derive(Debug)]
pub(crate) struct Program<'p> {
    /// Its name, and its arguments.
    pub(crate) words: Vec<String>,
    /// All that it sees of any environment.
    pub(crate) environment: &'p [(String, String)],
    /// The folder that it begins in.
    pub(crate) folder: &'p Path,
    /// The private folder of user code, which runs within all walls; `None` for a program that the
    /// operator chose.
    pub(crate) private: Option<&'p Path>,
    /// Its outputs.
    pub(crate) outputs: Outputs,
    /// Time for it, from which the limit of its processor time follows. Whoever runs it keeps the
    /// time itself.
    pub(crate) timeout: Duration,
}

/// What becomes of the outputs of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outputs {
    /// Kept, each by itself.
    Apart,
    /// Kept in the order in which they were written, as standard output.
    Together,
    /// Dropped.
    Dropped,
}

impl Program<'_> {
    /// Runs it to its end. A dropped future kills it with all that it started.
    pub(crate) async fn run(
        &self,
        settings: &Settings,
        scope: &Scope,
    ) -> Result<(ExitStatus, Written), TaskError> {
        let launch = self.launch(settings)?;
        let (mut leader, _lifeline) = self
            .spawn(&settings.walls, &launch)
            .map_err(|error| self.not_started(&error))?;
        scope.enter_group(leader.group());
        let mut outputs = leader.take_outputs(settings.output_cap);
        let status = tokio::select! {
            status = leader.wait() => status,
            never = outputs.follow() => match never {},
        };
        scope.leave_group();
        // Whatever the program left in the background ends with it.
        leader.kill();
        let status =
            status.map_err(|error| TaskError::new(TaskErrorKind::Unknown, error.to_string()))?;
        Ok((status, outputs.take()))
    }

    /// What is started for it.
    fn launch(&self, settings: &Settings) -> Result<Launch, TaskError> {
        let plain = Launch {
            words: self.words.clone(),
            environment: self.environment.to_vec(),
        };
        match self.private {
            Some(private) => walled(settings, private, self.folder, plain),
            None => Ok(plain),
        }
    }

    /// Starts it, to live no longer than the lifeline that comes with it.
    fn spawn(&self, walls: &Walls, launch: &Launch) -> io::Result<(GroupLeader, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", &self.raise(walls), "sh"])
            .args(&launch.words)
            .env_clear()
            .envs(launch.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(self.folder)
            .stdin(Stdio::from(OwnedFd::from(theirs)));
        // The command holds the other end, which must not keep the lifeline open; it goes here.
        let leader = GroupLeader::spawn(&mut command, self.outputs != Outputs::Dropped)?;
        Ok((leader, ours))
    }

    /// A script that lowers the limits of its own process and then becomes the program that its
    /// arguments name. A limit that is lower already stays.
    ///
    /// Its standard input is the lifeline, which nobody writes to: a process in the background
    /// waits for its end, which comes with the end of the worker, and kills the group. The program
    /// itself gets no input.
    fn raise(&self, walls: &Walls) -> String {
        let kib = |size: ByteSize| size.as_bytes() / 1024;
        let blocks = |size: ByteSize| size.as_bytes() / 512;
        let limits = [
            ("-c", Some(0)),
            ("-v", walls.memory.map(kib)),
            ("-t", Some(walls.cpu_seconds_within(self.timeout))),
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
        let together = match self.outputs {
            Outputs::Together => " 2>&1",
            Outputs::Apart | Outputs::Dropped => "",
        };
        format!(
            "exec 3<&0 </dev/null; {{ {script} }} 2>/dev/null; \
             {{ read -r _ <&3; kill -KILL 0; }} >/dev/null 2>&1 & exec \"$@\" 3<&-{together}"
        )
    }

    fn not_started(&self, error: &io::Error) -> TaskError {
        let message = if error.kind() == io::ErrorKind::NotFound && !self.folder.is_dir() {
            format!("the folder '{}' does not exist", self.folder.display())
        } else {
            let program = self.words.first().map_or("", String::as_str);
            format!("'{program}' cannot be started: {error}")
        };
        TaskError::new(TaskErrorKind::Transform, message)
    }
}

/// The environment of the processes of a call: the operator's, then the names of the run, then the
/// task's own.
pub(crate) fn environment(
    call: &Call,
    settings: &Settings,
) -> Result<Vec<(String, String)>, TaskError> {
    let own = Config(&call.config).texts("env")?;
    if let Some((name, _)) = own.iter().find(|(name, value)| !is_variable(name, value)) {
        return Err(not_a_variable(name));
    }
    let mut environment: Vec<(String, String)> = settings.environment.clone().into_iter().collect();
    environment.extend(names_of_the_run(call));
    environment.extend(own);
    Ok(environment)
}

/// What a process may want to know about the run that it is part of.
pub(crate) fn names_of_the_run(call: &Call) -> [(String, String); 3] {
    [
        ("NOETL_EXECUTION_ID".into(), call.execution_id.clone()),
        ("NOETL_STEP".into(), call.step.clone()),
        ("NOETL_IDEMPOTENCY_KEY".into(), call.idempotency_key.clone()),
    ]
}

/// Whether an environment can hold it.
pub(crate) fn is_variable(name: &str, value: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0')
}

/// The error of a name or value that no environment can hold.
pub(crate) fn not_a_variable(name: &str) -> TaskError {
    TaskError::new(
        TaskErrorKind::Schema,
        format!("'env' holds '{name}', which cannot be a variable"),
    )
}

/// A folder that only this call uses and that goes away with it.
pub(crate) fn private_folder(settings: &Settings) -> Result<TempDir, TaskError> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut builder = tempfile::Builder::new();
    let builder = builder
        .prefix("noetl-")
        .permissions(std::fs::Permissions::from_mode(0o700));
    let folder = match &settings.scratch {
        Some(parent) => builder.tempdir_in(parent),
        None => builder.tempdir(),
    };
    folder.map_err(|error| {
        let message = format!("no private folder for the task: {error}");
        TaskError::new(TaskErrorKind::StorageAccess, message)
    })
}

/// The code that a process ended with, as shells tell it.
pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    let by_signal = || {
        status
            .signal()
            .map_or(-1, |signal| KILLED_BY_SIGNAL + signal)
    };
    status.code().unwrap_or_else(by_signal)
}

/// The error of a process that ended badly, with its last words.
pub(crate) fn failure(what: &str, status: ExitStatus, said: Option<&str>) -> TaskError {
    let end = ending(status);
    let message = match said {
        Some(line) => format!("{what} ended with {end}: {line}"),
        None => format!("{what} ended with {end}"),
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
    async fn a_program_does_not_outlive_its_worker() {
        let program = Program {
            words: ["sh", "-c", "sleep 1000; true"].map(str::to_owned).into(),
            environment: &[("PATH".into(), "/usr/bin:/bin".into())],
            folder: Path::new("/"),
            private: None,
            outputs: Outputs::Dropped,
            timeout: Duration::from_mins(1),
        };
        let launch = program.launch(&Settings::default()).unwrap();
        let (mut leader, lifeline) = program.spawn(&Walls::default(), &launch).unwrap();
        drop(lifeline);
        assert_eq!(leader.wait().await.unwrap().signal(), Some(9));
    }
}
