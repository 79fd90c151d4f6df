//! A program that runs to its end inside the sandbox, in a process group that is killed as a whole,
//! with capped output.
//!
//! Owns how limits are applied to an external process, and that the process does not outlive its
//! call or its worker. The tools choose the program and interpret its exit status. Nothing here runs
//! code between fork and exec: the process sets its limits itself before it runs the user's code.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use noetl_types::{ByteSize, Json, JsonMap, TaskError, TaskErrorKind};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

use crate::call::ToolCall;
use crate::config::{Config, schema_error};
use crate::memory_watch::kill_above_limit;
use crate::platform::{OutputStream, PlatformHandle};
use crate::sandbox::{LaunchCommand, wrap_in_sandbox};
use crate::settings::{ProcessLimits, Settings};
use crate::tool::{CallContext, TaskProcess};

/// Offset that shells add to the number of the signal that ended a command.
const SIGNAL_EXIT_BASE: i32 = 128;

#[derive(Debug)]
pub(crate) struct Program<'p> {
    pub(crate) argv: Vec<String>,
    /// Its complete environment.
    pub(crate) environment: &'p [(String, String)],
    pub(crate) working_dir: &'p Path,
    /// Private directory of user code, which runs in the sandbox; `None` for a program that the
    /// operator chose.
    pub(crate) private_dir: Option<&'p Path>,
    pub(crate) output_mode: OutputMode,
    /// Timeout, from which its CPU limit is derived. The caller enforces the timeout itself.
    pub(crate) timeout: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputMode {
    Separate,
    /// Captured as standard output, in the order in which they were written.
    Merged,
    Discarded,
}

impl Program<'_> {
    /// Runs it to its end. Dropping the future kills it and every process of its group.
    pub(crate) async fn run(
        &self,
        settings: &Settings,
        context: &CallContext,
    ) -> Result<(ExitStatus, CapturedOutput), TaskError> {
        let (mut leader, _lifeline) = self.spawn(settings)?;
        context.set_process(Some(TaskProcess::Group(leader.group())));
        let outputs = leader.take_outputs(settings.output_cap, context.output_sink());
        let mut outputs = outputs.map_err(|error| self.start_error(&error))?;
        let group = leader.group();
        let memory = settings.process_limits.memory.filter(|_| self.private_dir.is_some());
        let status = tokio::select! {
            status = leader.wait() => status,
            never = outputs.capture_forever() => match never {},
            () = kill_above_limit(group, memory) => return Err(memory_error(memory)),
        };
        context.set_process(None);
        // Background processes of the program end with it.
        leader.kill();
        let status =
            status.map_err(|error| TaskError::new(TaskErrorKind::Unknown, error.to_string()))?;
        Ok((status, outputs.take_output()))
    }

    /// Starts it together with a lifeline. The program is killed when the lifeline is closed.
    fn spawn(&self, settings: &Settings) -> Result<(GroupLeader, UnixStream), TaskError> {
        let mut launch =
            LaunchCommand { argv: self.argv.clone(), environment: self.environment.to_vec() };
        if let Some(private) = self.private_dir {
            launch = wrap_in_sandbox(settings, private, self.working_dir, launch)?;
        }
        let script = self.limit_script(&settings.process_limits);
        let shell = ["/bin/sh".to_owned(), "-c".to_owned(), script, "sh".to_owned()];
        launch.argv.splice(..0, shell);
        let spawned = UnixStream::pair().and_then(|(worker_end, program_end)| {
            let capture = self.output_mode != OutputMode::Discarded;
            let leader = GroupLeader::spawn(&launch, self.working_dir, program_end, capture)?;
            Ok((leader, worker_end))
        });
        spawned.map_err(|error| self.start_error(&error))
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

fn memory_error(limit: Option<ByteSize>) -> TaskError {
    let limit = limit.map(|limit| limit.to_string()).unwrap_or_default();
    let message = format!(
        "the processes of the task used more than {limit} of memory together (NOETL_TASK_MEMORY)"
    );
    TaskError::new(TaskErrorKind::Limit, message)
}

/// Environment of the processes of a call: the operator's variables, then those of the execution,
/// then the task's own.
pub(crate) fn task_environment(
    call: &ToolCall,
    settings: &Settings,
) -> Result<Vec<(String, String)>, TaskError> {
    let task_variables = Config(&call.config).text_map("env")?;
    check_variables(&task_variables)?;
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

/// Rejects names and values that an environment cannot hold.
pub(crate) fn check_variables<'v>(
    variables: impl IntoIterator<Item = (&'v String, &'v String)>,
) -> Result<(), TaskError> {
    for (name, value) in variables {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(schema_error(format!(
                "'env' contains '{name}', which is not a valid environment variable"
            )));
        }
    }
    Ok(())
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

/// Process that leads its own process group. Dropping it kills the whole group.
#[derive(Debug)]
pub(crate) struct GroupLeader {
    child: Child,
    group: Pid,
    /// True if it ends by itself when its input is closed, and must not be killed before.
    pub(crate) ends_with_input: bool,
}

impl GroupLeader {
    /// Starts a command as the leader of a new group, with `stdin` as its input. Captures its
    /// outputs if `capture` is true.
    pub(crate) fn spawn(
        launch: &LaunchCommand,
        working_dir: &Path,
        stdin: UnixStream,
        capture: bool,
    ) -> io::Result<Self> {
        let output = || {
            if capture { Stdio::piped() } else { Stdio::null() }
        };
        let (program, args) = launch.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        // The command owns this end of `stdin`, which must not stay open in the worker. It is
        // dropped here.
        let child = Command::new(program)
            .args(args)
            .env_clear()
            .envs(launch.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(working_dir)
            .stdin(OwnedFd::from(stdin))
            .stdout(output())
            .stderr(output())
            .process_group(0)
            .spawn()?;
        let group = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw)
            .ok_or_else(|| io::Error::other("the process has no id"))?;
        Ok(Self { child, group, ends_with_input: false })
    }

    pub(crate) fn group(&self) -> Pid {
        self.group
    }

    /// Returns the captured outputs. Each can be taken once.
    pub(crate) fn take_outputs(
        &mut self,
        cap: ByteSize,
        sink: PlatformHandle,
    ) -> io::Result<OutputCapture> {
        let stdout = self.child.stdout.take().map(ChildStdout::into_owned_fd).transpose()?;
        let stderr = self.child.stderr.take().map(ChildStderr::into_owned_fd).transpose()?;
        OutputCapture::new(stdout, stderr, cap, sink)
    }

    /// Waits until the leader ends. Other processes of its group may still run.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Kills all remaining processes of the group.
    ///
    /// The id of a group that has ended could belong to a new group, but only after the kernel has
    /// gone through all other ids. The calls here follow the end of the leader immediately.
    pub(crate) fn kill(&self) {
        // An error means that the group is empty.
        kill_process_group(self.group, Signal::KILL).ok();
    }
}

impl Drop for GroupLeader {
    fn drop(&mut self) {
        if !self.ends_with_input {
            self.kill();
        }
    }
}

pub(crate) fn describe_exit(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".to_owned(),
    }
}

pub(crate) struct OutputCapture {
    stdout: StreamCapture,
    stderr: StreamCapture,
}

impl OutputCapture {
    pub(crate) fn new(
        stdout: Option<OwnedFd>,
        stderr: Option<OwnedFd>,
        cap: ByteSize,
        sink: PlatformHandle,
    ) -> io::Result<Self> {
        Ok(Self {
            stdout: StreamCapture::new(stdout, cap, OutputStream::Stdout, sink.clone())?,
            stderr: StreamCapture::new(stderr, cap, OutputStream::Stderr, sink)?,
        })
    }

    /// Reads the outputs for as long as the future is polled. It never completes, so poll it next
    /// to a future that does.
    pub(crate) async fn capture_forever(&mut self) -> Infallible {
        tokio::select! {
            never = self.stdout.read_forever() => never,
            never = self.stderr.read_forever() => never,
        }
    }

    /// Returns the output so far and starts an empty capture.
    pub(crate) fn take_output(&mut self) -> CapturedOutput {
        CapturedOutput { stdout: self.stdout.take_buffer(), stderr: self.stderr.take_buffer() }
    }
}

#[derive(Debug, Default)]
pub(crate) struct CapturedOutput {
    stdout: CappedBuffer,
    stderr: CappedBuffer,
}

impl CapturedOutput {
    pub(crate) fn is_empty(&self) -> bool {
        self.stdout.bytes.is_empty() && self.stderr.bytes.is_empty()
    }

    /// Appends the output of a later process.
    pub(crate) fn append(&mut self, later: &Self, cap: ByteSize) {
        self.stdout.append(&later.stdout.bytes, cap);
        self.stdout.truncated |= later.stdout.truncated;
        self.stderr.append(&later.stderr.bytes, cap);
        self.stderr.truncated |= later.stderr.truncated;
    }

    /// Last non-blank line of the standard error.
    pub(crate) fn last_error_line(&self) -> Option<String> {
        self.stderr.last_line()
    }

    /// Last non-blank line of the standard output.
    pub(crate) fn last_line(&self) -> Option<String> {
        self.stdout.last_line()
    }

    pub(crate) fn stdout(&self) -> Json {
        self.stdout.to_json_text()
    }

    pub(crate) fn is_truncated(&self) -> bool {
        self.stdout.truncated || self.stderr.truncated
    }

    /// Inserts `stdout`, `stderr` and, if output was truncated, `truncated` into a map. Bytes that
    /// are not UTF-8 become U+FFFD.
    pub(crate) fn insert_into(&self, map: &mut JsonMap) {
        map.insert("stdout".into(), self.stdout.to_json_text());
        map.insert("stderr".into(), self.stderr.to_json_text());
        if self.is_truncated() {
            map.insert("truncated".into(), Json::from(true));
        }
    }
}

#[derive(Debug, Default)]
struct CappedBuffer {
    bytes: Vec<u8>,
    truncated: bool,
}

impl CappedBuffer {
    fn append(&mut self, bytes: &[u8], cap: ByteSize) {
        let cap = usize::try_from(cap.as_bytes()).unwrap_or(usize::MAX);
        let accepted = cap.saturating_sub(self.bytes.len()).min(bytes.len());
        self.truncated |= accepted < bytes.len();
        self.bytes.extend(&bytes[..accepted]);
    }

    /// Last non-blank line. A truncated line is skipped: it may end in the middle of a secret,
    /// whose beginning alone would not be recognized and redacted.
    fn last_line(&self) -> Option<String> {
        let mut lines = &*self.bytes;
        if self.truncated {
            let line_end = lines.iter().rposition(|byte| *byte == b'\n');
            lines = &lines[..line_end.unwrap_or(0)];
        }
        let text = String::from_utf8_lossy(lines);
        text.lines().rfind(|line| !line.trim().is_empty()).map(|line| line.trim().to_owned())
    }

    fn to_json_text(&self) -> Json {
        Json::from(&*String::from_utf8_lossy(&self.bytes))
    }
}

/// One output of a process, read as it arrives so that the process never blocks on it. Output above
/// the cap is dropped from the result, but still passed to the sink.
struct StreamCapture {
    pipe: Option<Receiver>,
    chunk: Box<[u8]>,
    buffer: CappedBuffer,
    cap: ByteSize,
    stream: OutputStream,
    sink: PlatformHandle,
}

impl StreamCapture {
    const CHUNK_BYTES: usize = 16 * 1024;
    /// Maximum capacity of a pipe that an unprivileged process can set.
    const MAX_PIPE_BYTES: usize = 1024 * 1024;

    fn new(
        pipe: Option<OwnedFd>,
        cap: ByteSize,
        stream: OutputStream,
        sink: PlatformHandle,
    ) -> io::Result<Self> {
        Ok(Self {
            pipe: pipe.map(Receiver::from_owned_fd).transpose()?,
            chunk: vec![0; Self::CHUNK_BYTES].into(),
            buffer: CappedBuffer::default(),
            cap,
            stream,
            sink,
        })
    }

    /// Captures the first bytes of the read buffer.
    fn capture(&mut self, read: usize) {
        let bytes = &self.chunk[..read];
        self.buffer.append(bytes, self.cap);
        if let Some(sink) = &self.sink {
            sink.write_output(self.stream, bytes);
        }
    }

    async fn read_forever(&mut self) -> Infallible {
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut self.chunk).await {
                Ok(0) | Err(_) => self.pipe = None,
                Ok(read) => self.capture(read),
            }
        }
        pending().await
    }

    /// Returns the output so far.
    ///
    /// Reads the pipe directly: the runtime may not have been notified yet of bytes that were
    /// written just before the process reported that it is done. A process that left the group may
    /// go on writing, so no more is read than the pipe can hold.
    fn take_buffer(&mut self) -> CappedBuffer {
        let mut drained = 0;
        while let Some(pipe) = &self.pipe
            && drained < Self::MAX_PIPE_BYTES
        {
            match rustix::io::read(pipe.as_fd(), &mut *self.chunk) {
                Ok(0) => self.pipe = None,
                Ok(read) => {
                    drained += read;
                    self.capture(read);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
        std::mem::take(&mut self.buffer)
    }
}

#[cfg(test)]
mod tests;
