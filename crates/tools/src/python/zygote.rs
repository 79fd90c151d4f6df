//! Zygotes: warm interpreters that fork a process for each call, and the pool that keeps them.
//!
//! A zygote never receives anything of a call but descriptors: the process of the call reads its
//! request from its own channel, after it has entered its own sandbox.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::pin::pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use noetl_types::json::to_canonical;
use noetl_types::{ByteSize, Json, TaskError, TaskErrorKind};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader, Interest};
use tokio::net::UnixStream;
use tokio::sync::{Mutex, OnceCell, Semaphore};
use tokio::task::JoinSet;

use crate::idle::IdlePool;
use crate::memory_watch::kill_descendants_above_limit;
use crate::platform::PlatformHandle;
use crate::program::{
    CapturedOutput, GroupLeader, OutputCapture, create_private_dir, describe_exit,
};
use crate::sandbox::{LaunchCommand, ZygoteIsolation, wrap_in_sandbox, wrap_zygote_in_sandbox};
use crate::settings::{ProcessLimits, Settings};
use crate::tool::{CallContext, TaskProcess, run_blocking};

/// The driver that runs inside the interpreter, in parts that share one namespace.
const DRIVER_CODE: &str = concat!(
    include_str!("driver/values.py"),
    include_str!("driver/code.py"),
    include_str!("driver/streams.py"),
    include_str!("driver/isolate.py"),
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

/// Descriptors of a call: its channel, standard output, standard error and status socket.
const DESCRIPTORS_PER_CALL: usize = 4;

/// Levels of a call below the process that a worker starts: the two stages of the launcher, the
/// zygote and the call.
const SANDBOXED_CALL_DEPTH: u32 = 3;

/// Time in which a killed call reports its end. Only a kernel that is busy takes longer.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// Time in which a reply is read after its process has ended. Only a process that left the group, and
/// that no namespace contains, can keep the channel open.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);

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
    /// The zygote had ended before it could be asked to start the call.
    #[error("the interpreter ended before the call was started")]
    NotAsked,
    /// The zygote ended during the call.
    #[error("the interpreter ended unexpectedly")]
    Lost,
    /// The channel failed or carried invalid data.
    #[error("the channel to the interpreter failed: {0}")]
    Channel(#[from] io::Error),
}

fn colon_prefixed(last_line: Option<&str>) -> String {
    last_line.map(|last_line| format!(": {last_line}")).unwrap_or_default()
}

/// Startup parameters of a zygote, which determine the calls that it can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ZygoteKey {
    pub(super) program: String,
    /// Variables that have an effect only at the start of a process.
    pub(super) environment: BTreeMap<String, String>,
}

/// Sandbox of a zygote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ZygoteSandbox {
    /// It isolates each call, and can therefore run any number of them.
    PerCall,
    /// It is in the sandbox itself. Without a sandbox it can run any number of calls, and
    /// otherwise one.
    Whole,
}

/// A warm interpreter.
#[derive(Debug)]
pub(super) struct Zygote {
    control: Mutex<UnixStream>,
    /// Ends it when it is dropped.
    _leader: GroupLeader,
    max_reply_bytes: u64,
    output_cap: ByteSize,
    /// Directory of the private directories of its calls.
    scratch: TempDir,
    /// Limits the memory of each call.
    _memory_watch: JoinSet<()>,
}

impl Zygote {
    /// Starts a zygote and waits until it is ready. Returns `None` if it cannot isolate calls as
    /// `sandbox` requires.
    async fn start(
        key: &ZygoteKey,
        settings: &Arc<Settings>,
        sandbox: ZygoteSandbox,
    ) -> Result<Option<Self>, InterpreterError> {
        let not_started = InterpreterError::NotStarted;
        let scratch = create_private_dir(settings)
            .map_err(|error| not_started(io::Error::other(error.message.to_string())))?;
        let (worker_end, zygote_end) = StdUnixStream::pair().map_err(not_started)?;
        worker_end.set_nonblocking(true).map_err(not_started)?;
        let (launch, isolation) =
            build_launch(key, settings, sandbox, scratch.path()).map_err(not_started)?;
        let mut leader =
            GroupLeader::spawn(&launch, scratch.path(), zygote_end, true).map_err(not_started)?;
        // Without a sandbox, the processes of its calls are not in its group. It kills them when
        // its input is closed.
        leader.ends_with_input = !settings.sandbox.is_enabled();
        let mut outputs = leader.take_outputs(settings.output_cap, None)?;
        let mut control = BufReader::new(UnixStream::from_std(worker_end)?);
        let startup = startup_message(settings, isolation.as_ref(), scratch.path());
        let mut frames = encode_frame(DRIVER_CODE.as_bytes())?;
        frames.extend(encode_frame(&to_canonical(&startup))?);
        let max_reply_bytes = settings.payload_cap.as_bytes() + REPLY_OVERHEAD_BYTES;
        let exchange = async {
            control.write_all(&frames).await?;
            read_frame(&mut control, REPLY_OVERHEAD_BYTES).await
        };
        let reply = tokio::select! {
            biased;
            reply = exchange => reply,
            never = outputs.capture_forever() => match never {},
        };
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) if is_disconnect(&error) => {
                leader.kill();
                let ending = describe_exit(leader.wait().await?);
                let last_line = outputs.take_output().last_error_line();
                return Err(InterpreterError::NotReady { ending, last_line });
            }
            Err(error) => return Err(InterpreterError::Channel(error)),
        };
        let reply = crate::lenient::lenient_json(&reply).unwrap_or_default();
        if let Some(reason) = reply.get("not_isolated").and_then(Json::as_str) {
            tracing::debug!(reason, "calls of a python interpreter cannot be isolated");
            return Ok(None);
        }
        let mut memory_watch = JoinSet::new();
        if let Some(limit) = settings.process_limits.memory {
            let depth = if settings.sandbox.is_enabled() { SANDBOXED_CALL_DEPTH } else { 1 };
            memory_watch.spawn(kill_descendants_above_limit(leader.group(), depth, limit));
        }
        Ok(Some(Self {
            _memory_watch: memory_watch,
            control: Mutex::new(control.into_inner()),
            _leader: leader,
            max_reply_bytes,
            output_cap: settings.output_cap,
            scratch,
        }))
    }

    /// Runs one call in a process of its own. The process, and all processes that it has started, are
    /// killed when this returns.
    pub(super) async fn call(
        self: &Arc<Self>,
        request: &Json,
        modules: &[String],
        context: &CallContext,
    ) -> Result<(Vec<u8>, CapturedOutput), InterpreterError> {
        let (mut call, mut outputs) = self.start_call(modules, context.output_sink()).await?;
        context.set_process(Some(TaskProcess::Forked(Arc::downgrade(&call.status_socket))));
        let RunningCall { channel, status, status_socket, .. } = &mut call;
        // It is polled to its end: a future that was dropped may have received the status.
        let mut ended = pin!(self.wait_for_end(status));
        let result = {
            let mut exchange = pin!(async {
                channel.write_all(&encode_frame(&to_canonical(request))?).await?;
                read_frame(channel, self.max_reply_bytes).await
            });
            tokio::select! {
                biased;
                reply = &mut exchange => reply,
                never = outputs.capture_forever() => match never {},
                ended = &mut ended => {
                    context.set_process(None);
                    let status = ended.ok_or(InterpreterError::Lost)?;
                    // The reply may have arrived at the same time.
                    let reply = tokio::time::timeout(REPLY_TIMEOUT, exchange);
                    let reply = tokio::select! {
                        reply = reply => reply,
                        never = outputs.capture_forever() => match never {},
                    };
                    let output = outputs.take_output();
                    return match reply {
                        Ok(Ok(reply)) => Ok((reply, output)),
                        Ok(Err(_)) | Err(_) => Err(ended_error(status, output)),
                    };
                }
            }
        };
        context.set_process(None);
        match result {
            // Dropping the call kills what is left of it.
            Ok(reply) => Ok((reply, outputs.take_output())),
            // A closed channel means that the process has ended: report its exit status.
            Err(error) if is_disconnect(&error) => {
                status_socket.shutdown(std::net::Shutdown::Write)?;
                let ended = tokio::select! {
                    ended = tokio::time::timeout(KILL_TIMEOUT, &mut ended) => ended,
                    never = outputs.capture_forever() => match never {},
                };
                let status = ended.ok().flatten().ok_or(InterpreterError::Lost)?;
                Err(ended_error(status, outputs.take_output()))
            }
            Err(error) => Err(InterpreterError::Channel(error)),
        }
    }

    /// Waits until the processes of a call have ended, and deletes its directory. Returns the exit
    /// status of the first process, or `None` if the zygote has ended.
    async fn wait_for_end(&self, status: &mut UnixStream) -> Option<ExitStatus> {
        let code = status.read_i32_le().await.ok()?;
        let number = status.read_u32_le().await.ok()?;
        let folder = self.scratch.path().join(number.to_string());
        let deleted = run_blocking("file", move || std::fs::remove_dir_all(folder)).await;
        if let Ok(Err(error)) = deleted {
            tracing::warn!(%error, "the private folder of a task could not be deleted");
        }
        Some(ExitStatus::from_raw(code))
    }

    /// Has the zygote fork the process of a call.
    async fn start_call(
        self: &Arc<Self>,
        modules: &[String],
        sink: PlatformHandle,
    ) -> Result<(RunningCall, OutputCapture), InterpreterError> {
        let (channel, process_channel) = socket_pair()?;
        let (status, process_status) = socket_pair()?;
        let (stdout, process_stdout) = io::pipe()?;
        let (stderr, process_stderr) = io::pipe()?;
        let descriptors = [
            process_channel.as_fd(),
            process_stdout.as_fd(),
            process_stderr.as_fd(),
            process_status.as_fd(),
        ];
        let modules = modules.iter().map(|name| Json::from(&**name));
        let message = Json::object([("modules", Json::list(modules))]);
        let frame = encode_frame(&to_canonical(&message))?;
        {
            let mut control = self.control.lock().await;
            let sent = send_with_descriptors(&control, &frame, descriptors).await;
            let sent = sent.map_err(|_| InterpreterError::NotAsked)?;
            control.write_all(&frame[sent..]).await?;
        }
        let status_socket = Arc::new(status.try_clone()?);
        let call = RunningCall {
            channel: UnixStream::from_std(channel)?,
            status: UnixStream::from_std(status)?,
            status_socket,
            zygote: Arc::clone(self),
        };
        let outputs =
            OutputCapture::new(Some(stdout.into()), Some(stderr.into()), self.output_cap, sink)?;
        Ok((call, outputs))
    }
}

/// A call whose process may be running. Dropping it kills all processes of the call.
struct RunningCall {
    channel: UnixStream,
    /// Carries the exit status to the worker, and requests to stop to the zygote.
    status: UnixStream,
    status_socket: Arc<StdUnixStream>,
    zygote: Arc<Zygote>,
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        // The kernel ends the sending side for all copies of the descriptor.
        if self.status_socket.shutdown(std::net::Shutdown::Write).is_err() {
            return;
        }
        let zygote = Arc::clone(&self.zygote);
        if let Ok(runtime) = tokio::runtime::Handle::try_current()
            && let Ok(status) = self.status_socket.try_clone()
            && let Ok(mut status) = UnixStream::from_std(status)
        {
            runtime.spawn(async move {
                let _ = tokio::time::timeout(KILL_TIMEOUT, zygote.wait_for_end(&mut status)).await;
            });
        }
    }
}

fn ended_error(status: ExitStatus, output: CapturedOutput) -> InterpreterError {
    InterpreterError::Ended { status, output: Box::new(output) }
}

/// Returns the worker's end of a socket pair, and the other end.
fn socket_pair() -> io::Result<(StdUnixStream, StdUnixStream)> {
    let (worker_end, other_end) = StdUnixStream::pair()?;
    worker_end.set_nonblocking(true)?;
    Ok((worker_end, other_end))
}

/// Sends the beginning of a frame together with descriptors. Returns the number of bytes sent.
async fn send_with_descriptors(
    stream: &UnixStream,
    frame: &[u8],
    descriptors: [BorrowedFd<'_>; DESCRIPTORS_PER_CALL],
) -> io::Result<usize> {
    let send = || {
        let mut space =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_PER_CALL))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let frame = [IoSlice::new(frame)];
        Ok(rustix::net::sendmsg(stream, &frame, &mut ancillary, SendFlags::NOSIGNAL)?)
    };
    stream.async_io(Interest::WRITABLE, send).await
}

/// Builds the command line of a zygote, which runs in the sandbox from its first line.
fn build_launch(
    key: &ZygoteKey,
    settings: &Settings,
    sandbox: ZygoteSandbox,
    scratch: &Path,
) -> io::Result<(LaunchCommand, Option<ZygoteIsolation>)> {
    let variables = settings.environment.iter().chain(&key.environment);
    let plain = LaunchCommand {
        argv: vec![key.program.clone(), "-c".to_owned(), BOOTSTRAP_CODE.to_owned()],
        environment: variables.map(|(name, value)| (name.clone(), value.clone())).collect(),
    };
    let launch = match sandbox {
        ZygoteSandbox::PerCall => wrap_zygote_in_sandbox(settings, scratch, plain)
            .map(|(launch, isolation)| (launch, Some(isolation))),
        ZygoteSandbox::Whole => {
            wrap_in_sandbox(settings, scratch, scratch, plain).map(|launch| (launch, None))
        }
    };
    launch.map_err(|error| io::Error::other(error.message.to_string()))
}

fn is_disconnect(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

fn startup_message(
    settings: &Settings,
    isolation: Option<&ZygoteIsolation>,
    scratch: &Path,
) -> Json {
    let ProcessLimits {
        memory,
        // The limit of a call is sent with the call, since a zygote serves many.
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
        ("limits", Json::object(limits)),
        ("isolation", isolation.map_or(Json::Null, ZygoteIsolation::to_json)),
    ])
}

fn encode_frame(body: &[u8]) -> io::Result<Vec<u8>> {
    let size = u32::try_from(body.len()).map_err(|_| io::Error::other("the call is too large"))?;
    let mut frame = Vec::with_capacity(4 + body.len());
    frame.extend(size.to_le_bytes());
    frame.extend(body);
    Ok(frame)
}

async fn read_frame(
    channel: &mut (impl tokio::io::AsyncRead + Unpin),
    max_bytes: u64,
) -> io::Result<Vec<u8>> {
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

/// Zygotes that calls share.
#[derive(Debug)]
pub(super) struct ZygotePool {
    settings: Arc<Settings>,
    /// Permits that calls compete for.
    pub(super) permits: Semaphore,
    idle: Arc<IdlePool<ZygoteKey, Arc<OnceCell<Arc<Zygote>>>>>,
    /// True after a zygote could not isolate a call.
    cannot_isolate: AtomicBool,
}

impl ZygotePool {
    pub(super) fn new(settings: Arc<Settings>) -> Self {
        Self {
            permits: Semaphore::new(settings.python.pool_size.max(1)),
            idle: IdlePool::new(settings.python.idle),
            settings,
            cannot_isolate: AtomicBool::new(false),
        }
    }

    /// Runs one call. The caller holds a permit.
    pub(super) async fn run(
        &self,
        key: &ZygoteKey,
        request: &Json,
        modules: &[String],
        context: &CallContext,
    ) -> Result<(Vec<u8>, CapturedOutput), PoolError> {
        loop {
            let shared = self.share_zygote(key).await?;
            let Some(cell) = shared else {
                let zygote = Zygote::start(key, &self.settings, ZygoteSandbox::Whole).await;
                let zygote = zygote.map_err(|error| start_error(key, &error))?;
                // It has not been asked to isolate calls.
                let zygote = zygote.ok_or_else(|| start_error(key, &InterpreterError::NotAsked))?;
                return Ok(Arc::new(zygote).call(request, &[], context).await?);
            };
            let Some(zygote) = cell.get() else { continue };
            let result = zygote.call(request, modules, context).await;
            if matches!(result, Err(InterpreterError::NotAsked | InterpreterError::Lost)) {
                self.idle.remove(|kept| Arc::ptr_eq(kept, &cell));
            }
            match result {
                // The next one starts it.
                Err(InterpreterError::NotAsked) => {}
                result => return Ok(result?),
            }
        }
    }

    /// Returns the zygote of a key, or `None` if the call needs one of its own: one that the code
    /// of a playbook has influenced, or a kernel that cannot isolate calls from each other.
    async fn share_zygote(
        &self,
        key: &ZygoteKey,
    ) -> Result<Option<Arc<OnceCell<Arc<Zygote>>>>, TaskError> {
        let is_sandboxed = self.settings.sandbox.is_enabled();
        let sandbox = if is_sandboxed { ZygoteSandbox::PerCall } else { ZygoteSandbox::Whole };
        let is_trusted =
            key.environment.is_empty() && key.program == self.settings.python.interpreter;
        if is_sandboxed && (!is_trusted || self.cannot_isolate.load(Ordering::Relaxed)) {
            return Ok(None);
        }
        let cell = self.idle.get_or_insert_with(key, Arc::default);
        self.idle.shrink_to(self.settings.python.pool_size.max(1));
        let started = cell.get_or_try_init(async || {
            match Zygote::start(key, &self.settings, sandbox).await {
                Ok(Some(zygote)) => Ok(Arc::new(zygote)),
                Ok(None) => {
                    self.cannot_isolate.store(true, Ordering::Relaxed);
                    Err(None)
                }
                Err(error) => Err(Some(start_error(key, &error))),
            }
        });
        match started.await {
            Ok(_) => Ok(Some(cell)),
            Err(None) => Ok(None),
            Err(Some(error)) => Err(error),
        }
    }

    /// Ends idle zygotes now, and all others when their calls end.
    pub(super) fn close(&self) {
        self.permits.close();
        self.idle.close();
    }
}

/// Error of a call that a pool runs.
#[derive(Debug)]
pub(super) enum PoolError {
    NotStarted(TaskError),
    Failed(InterpreterError),
}

impl From<TaskError> for PoolError {
    fn from(error: TaskError) -> Self {
        Self::NotStarted(error)
    }
}

impl From<InterpreterError> for PoolError {
    fn from(error: InterpreterError) -> Self {
        Self::Failed(error)
    }
}

fn start_error(key: &ZygoteKey, error: &InterpreterError) -> TaskError {
    TaskError::new(
        TaskErrorKind::Unsupported,
        format!(
            "tasks of the kinds 'python' and 'duckdb' need Python 3.8 or newer on the worker, but '{}' cannot be started \
             ({error}); install it, or name another interpreter with 'python'",
            key.program
        ),
    )
}
