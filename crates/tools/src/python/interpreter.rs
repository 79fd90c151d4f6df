//! Warm interpreters: the process of each, its private channel and the exchange of one call, and the
//! pool that assigns them to calls.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;

use noetl_types::json::to_canonical;
use noetl_types::{ByteSize, Json, TaskError, TaskErrorKind};
use rustix::process::Pid;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;

use crate::idle::IdlePool;
use crate::program::{
    CapturedOutput, GroupLeader, OutputCapture, create_private_dir, describe_exit,
};
use crate::sandbox::{LaunchCommand, wrap_in_sandbox};
use crate::settings::{ProcessLimits, Settings};

/// The driver that runs inside the interpreter, in parts that share one namespace.
const DRIVER_CODE: &str = concat!(
    include_str!("driver/values.py"),
    include_str!("driver/code.py"),
    include_str!("driver/order.py"),
    include_str!("driver/serve.py"),
);

/// Reads the driver from the channel and runs it with a private copy of the builtins, which user
/// code cannot access.
const BOOTSTRAP_CODE: &str = "\
import builtins, os
def take(size):
    data = b''
    while len(data) < size:
        more = os.read(0, size - len(data))
        if not more:
            os._exit(0)
        data += more
    return data
exec(compile(take(int.from_bytes(take(4), 'little')), '<noetl>', 'exec'),
     {'__builtins__': dict(vars(builtins)), '__name__': 'noetl_driver'})
";

/// Allowance for the small fields of a reply in addition to the user's value, which has its own
/// limit.
const REPLY_OVERHEAD_BYTES: u64 = 1024 * 1024;

/// Error of a call without a reply.
#[derive(Debug, thiserror::Error)]
pub(super) enum InterpreterError {
    #[error("{0}")]
    NotStarted(#[source] io::Error),
    /// The process ended before it was ready.
    #[error("it ended with {ending}{}", colon_prefixed(.last_line.as_deref()))]
    NotReady { ending: String, last_line: Option<String> },
    /// The process ended during the call.
    #[error("the interpreter ended with {}", describe_exit(*.status))]
    Ended { status: ExitStatus, output: Box<CapturedOutput> },
    /// The channel failed or carried invalid data.
    #[error("the channel to the interpreter failed: {0}")]
    Channel(#[from] io::Error),
}

fn colon_prefixed(last_line: Option<&str>) -> String {
    last_line.map(|last_line| format!(": {last_line}")).unwrap_or_default()
}

/// A process that runs calls one after another.
#[derive(Debug)]
pub(super) struct Interpreter {
    leader: GroupLeader,
    channel: BufReader<UnixStream>,
    outputs: OutputCapture,
    max_reply_bytes: u64,
    calls: u32,
    /// Directory of its calls, which is deleted with the process.
    scratch: TempDir,
}

impl Interpreter {
    /// Starts an interpreter and waits until it is ready.
    pub(super) async fn start(
        key: &InterpreterKey,
        settings: &Settings,
        scratch: TempDir,
    ) -> Result<Self, InterpreterError> {
        let (worker_end, interpreter_end) =
            StdUnixStream::pair().map_err(InterpreterError::NotStarted)?;
        worker_end.set_nonblocking(true).map_err(InterpreterError::NotStarted)?;
        let launch =
            build_launch(key, settings, scratch.path()).map_err(InterpreterError::NotStarted)?;
        let mut leader = GroupLeader::spawn(&launch, scratch.path(), interpreter_end, true)
            .map_err(InterpreterError::NotStarted)?;
        let outputs = leader.take_outputs(settings.output_cap);
        let mut interpreter = Self {
            leader,
            channel: BufReader::new(UnixStream::from_std(worker_end)?),
            outputs,
            max_reply_bytes: settings.payload_cap.as_bytes() + REPLY_OVERHEAD_BYTES,
            calls: 0,
            scratch,
        };
        let startup = startup_message(settings, interpreter.scratch.path());
        let mut frames = encode_frame(DRIVER_CODE.as_bytes())?;
        frames.extend(encode_frame(&to_canonical(&startup))?);
        match interpreter.exchange_frames(&frames).await {
            Ok(_) => {
                interpreter.outputs.take_output();
                Ok(interpreter)
            }
            Err(InterpreterError::Ended { status, output }) => Err(InterpreterError::NotReady {
                ending: describe_exit(status),
                last_line: output.last_error_line(),
            }),
            Err(error) => Err(error),
        }
    }

    /// Runs one call. Returns the reply and the output of the call.
    pub(super) async fn call(
        &mut self,
        request: &Json,
    ) -> Result<(Vec<u8>, CapturedOutput), InterpreterError> {
        self.calls += 1;
        let reply = self.exchange_frames(&encode_frame(&to_canonical(request))?).await?;
        Ok((reply, self.outputs.take_output()))
    }

    pub(super) fn group(&self) -> Pid {
        self.leader.group()
    }

    pub(super) fn calls(&self) -> u32 {
        self.calls
    }

    async fn exchange_frames(&mut self, frame: &[u8]) -> Result<Vec<u8>, InterpreterError> {
        let Self { leader, channel, outputs, .. } = self;
        let max_bytes = self.max_reply_bytes;
        let exchange = async {
            channel.write_all(frame).await?;
            read_frame(channel, max_bytes).await
        };
        let reply = tokio::select! {
            biased;
            reply = exchange => reply,
            never = outputs.capture_forever() => match never {},
            status = leader.wait() => {
                return Err(InterpreterError::Ended { status: status?, output: Box::new(outputs.take_output()) });
            }
        };
        match reply {
            Ok(reply) => Ok(reply),
            // A closed channel means that the process is ending: report its exit status.
            Err(error) if is_disconnect(&error) => {
                // It may also have closed the channel and still run.
                leader.kill();
                let status = leader.wait().await?;
                let output = Box::new(outputs.take_output());
                Err(InterpreterError::Ended { status, output })
            }
            Err(error) => Err(InterpreterError::Channel(error)),
        }
    }

    /// Closes the channel as the end of the worker would, and waits for the resulting exit status.
    #[cfg(test)]
    pub(super) async fn orphan(self) -> io::Result<ExitStatus> {
        let Self { mut leader, channel, .. } = self;
        drop(channel);
        leader.wait().await
    }

    /// Sends a request without waiting for its reply.
    #[cfg(test)]
    pub(super) async fn send_request(&mut self, request: &Json) -> io::Result<()> {
        self.channel.write_all(&encode_frame(&to_canonical(request))?).await
    }
}

/// Builds the command line of an interpreter, which runs in the sandbox from its first line.
fn build_launch(
    key: &InterpreterKey,
    settings: &Settings,
    scratch: &Path,
) -> io::Result<LaunchCommand> {
    let variables = settings.environment.iter().chain(&key.environment);
    let plain = LaunchCommand {
        argv: vec![key.program.clone(), "-c".to_owned(), BOOTSTRAP_CODE.to_owned()],
        environment: variables.map(|(name, value)| (name.clone(), value.clone())).collect(),
    };
    wrap_in_sandbox(settings, scratch, scratch, plain)
        .map_err(|error| io::Error::other(error.message.to_string()))
}

fn is_disconnect(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

fn startup_message(settings: &Settings, scratch: &Path) -> Json {
    let ProcessLimits {
        memory,
        // The limit of a call is sent with the call, since an interpreter runs many.
        cpu_seconds: _,
        processes,
        open_files,
        file_size,
    } = settings.process_limits;
    let limits = [
        ("RLIMIT_CORE", Some(0)),
        ("RLIMIT_AS", memory.map(ByteSize::as_bytes)),
        ("RLIMIT_NPROC", processes),
        ("RLIMIT_NOFILE", open_files),
        ("RLIMIT_FSIZE", file_size.map(ByteSize::as_bytes)),
    ];
    let limits =
        limits.into_iter().filter_map(|(name, limit)| limit.map(|limit| (name, Json::from(limit))));
    Json::object([
        ("scratch", Json::from(&*scratch.to_string_lossy())),
        ("payload_cap", Json::from(settings.payload_cap.as_bytes())),
        ("max_memory", Json::from(settings.python.max_memory.as_bytes())),
        ("limits", Json::object(limits)),
    ])
}

fn encode_frame(body: &[u8]) -> io::Result<Vec<u8>> {
    let size = u32::try_from(body.len()).map_err(|_| io::Error::other("the call is too large"))?;
    let mut frame = Vec::with_capacity(4 + body.len());
    frame.extend(size.to_le_bytes());
    frame.extend(body);
    Ok(frame)
}

async fn read_frame(channel: &mut BufReader<UnixStream>, max_bytes: u64) -> io::Result<Vec<u8>> {
    let size = channel.read_u32_le().await?;
    if u64::from(size) > max_bytes {
        return Err(io::Error::other(format!("a reply of {size} bytes is too large")));
    }
    let mut body = Vec::new();
    channel.take(size.into()).read_to_end(&mut body).await?;
    if body.len() as u64 != u64::from(size) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(body)
}

/// Startup parameters of an interpreter, which determine the calls that it can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InterpreterKey {
    pub(super) program: String,
    /// Variables that have an effect only at the start of a process.
    pub(super) environment: BTreeMap<String, String>,
}

#[derive(Debug)]
pub(super) struct InterpreterPool {
    settings: Arc<Settings>,
    /// Permits that calls compete for.
    pub(super) permits: Semaphore,
    idle: Arc<IdlePool<InterpreterKey, Interpreter>>,
}

impl InterpreterPool {
    pub(super) fn new(settings: Arc<Settings>) -> Self {
        Self {
            permits: Semaphore::new(settings.python.pool_size.max(1)),
            idle: IdlePool::new(settings.python.idle),
            settings,
        }
    }

    /// Returns an interpreter for a call, or starts a new one if none is idle. The caller holds a
    /// permit.
    pub(super) async fn acquire(&self, key: &InterpreterKey) -> Result<Interpreter, TaskError> {
        if let Some((interpreter, _)) = self.idle.take(key) {
            return Ok(interpreter);
        }
        // A new interpreter is about to start and may have to replace an idle one with another key.
        // All permits that are not available are held by busy calls, including this one.
        self.idle.shrink_to(self.permits.available_permits());
        let scratch = create_private_dir(&self.settings)?;
        Interpreter::start(key, &self.settings, scratch).await.map_err(|error| {
            TaskError::new(
                TaskErrorKind::Unsupported,
                format!(
                    "python steps need Python 3.8 or newer on the worker, but '{}' cannot be \
                     started ({error}); install it, or name another interpreter with 'python'",
                    key.program
                ),
            )
        })
    }

    /// Returns an interpreter to the pool for the next call.
    pub(super) fn release(&self, key: InterpreterKey, interpreter: Interpreter) {
        if interpreter.calls() < self.settings.python.max_calls {
            self.idle.put(key, interpreter);
        }
    }

    /// Ends idle interpreters now, and all others when their calls end.
    pub(super) fn close(&self) {
        self.permits.close();
        self.idle.close();
    }
}
