//! One warm interpreter: its process, its private channel, and the exchange of one call.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use noetl_types::json::to_canonical;
use noetl_types::{ByteSize, Json};
use rustix::process::Pid;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::process::Command;

use super::pool::Key;
use crate::process::{GroupLeader, Outputs, Written, ending};
use crate::settings::{Settings, Walls};
use crate::walls::{Launch, walled};

/// The program inside of the interpreter, in parts that share one namespace.
const DRIVER: &str = concat!(
    include_str!("driver/values.py"),
    include_str!("driver/code.py"),
    include_str!("driver/order.py"),
    include_str!("driver/serve.py"),
);

/// Takes the program from the channel and runs it with builtins of its own, which the user's code
/// cannot reach.
const BOOT: &str = "\
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

/// A reply has the user's value, which is bounded by itself, and a few small fields.
const REPLY_OVERHEAD: u64 = 1024 * 1024;

/// Why a call got no reply.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    /// The program cannot be started.
    #[error("{0}")]
    NotStarted(#[source] io::Error),
    /// It ended before it was ready.
    #[error("it ended with {ending}{}", colon(.said.as_deref()))]
    NotReady {
        /// How it ended.
        ending: String,
        /// Its last words.
        said: Option<String>,
    },
    /// It ended in the middle of the call.
    #[error("the interpreter ended with {}", ending(*.status))]
    Ended {
        /// How it ended.
        status: ExitStatus,
        /// What it wrote until then.
        written: Box<Written>,
    },
    /// The channel does not carry what it should.
    #[error("the channel to the interpreter failed: {0}")]
    Channel(#[from] io::Error),
}

fn colon(said: Option<&str>) -> String {
    said.map(|said| format!(": {said}")).unwrap_or_default()
}

/// A process that runs calls one after another.
#[derive(Debug)]
pub(super) struct Interpreter {
    leader: GroupLeader,
    channel: BufReader<UnixStream>,
    outputs: Outputs,
    largest_reply: u64,
    calls: u32,
    /// The folder of its calls, which goes away with the process.
    scratch: TempDir,
}

impl Interpreter {
    /// Starts an interpreter and waits until it is ready.
    pub(super) async fn start(
        key: &Key,
        settings: &Settings,
        scratch: TempDir,
    ) -> Result<Self, Lost> {
        let (ours, theirs) = StdUnixStream::pair().map_err(Lost::NotStarted)?;
        ours.set_nonblocking(true).map_err(Lost::NotStarted)?;
        let launch = launch(key, settings, scratch.path()).map_err(Lost::NotStarted)?;
        let (program, args) = launch.words.split_first().unwrap_or((&key.program, &[]));
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .envs(launch.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(scratch.path())
            .stdin(Stdio::from(OwnedFd::from(theirs)));
        let mut leader = GroupLeader::spawn(&mut command, true).map_err(Lost::NotStarted)?;
        // The command holds the other end of the channel; without it, an end is seen as such.
        drop(command);
        let outputs = leader.take_outputs(settings.output_cap);
        let mut interpreter = Self {
            leader,
            channel: BufReader::new(UnixStream::from_std(ours)?),
            outputs,
            largest_reply: settings.payload_cap.as_bytes() + REPLY_OVERHEAD,
            calls: 0,
            scratch,
        };
        let hello = hello(settings, interpreter.scratch.path());
        let mut greeting = framed(DRIVER.as_bytes())?;
        greeting.extend(framed(&to_canonical(&hello))?);
        match interpreter.exchange(&greeting).await {
            Ok(_) => {
                interpreter.outputs.take();
                Ok(interpreter)
            }
            Err(Lost::Ended { status, written }) => Err(Lost::NotReady {
                ending: ending(status),
                said: written.last_error_line(),
            }),
            Err(lost) => Err(lost),
        }
    }

    /// Runs one call: a request, and its reply with what was written meanwhile.
    pub(super) async fn call(&mut self, request: &Json) -> Result<(Vec<u8>, Written), Lost> {
        self.calls += 1;
        let reply = self.exchange(&framed(&to_canonical(request))?).await?;
        Ok((reply, self.outputs.take()))
    }

    /// The process group that the calls run in.
    pub(super) fn group(&self) -> Pid {
        self.leader.group()
    }

    /// Calls so far.
    pub(super) fn calls(&self) -> u32 {
        self.calls
    }

    async fn exchange(&mut self, frame: &[u8]) -> Result<Vec<u8>, Lost> {
        let Self {
            leader,
            channel,
            outputs,
            ..
        } = self;
        let largest = self.largest_reply;
        let talk = async {
            channel.write_all(frame).await?;
            read_frame(channel, largest).await
        };
        let talked = tokio::select! {
            biased;
            talked = talk => talked,
            never = outputs.follow() => match never {},
            status = leader.wait() => {
                return Err(Lost::Ended { status: status?, written: Box::new(outputs.take()) });
            }
        };
        match talked {
            Ok(reply) => Ok(reply),
            // A closed channel means that the process is ending: say how.
            Err(error) if is_end(&error) => {
                // It may also have closed the channel and live on.
                leader.kill();
                let status = leader.wait().await?;
                let written = Box::new(outputs.take());
                Err(Lost::Ended { status, written })
            }
            Err(error) => Err(Lost::Channel(error)),
        }
    }

    /// Closes the channel as the end of the worker would, and waits for what the kernel makes of
    /// it.
    #[cfg(test)]
    pub(super) async fn orphan(self) -> io::Result<ExitStatus> {
        let Self {
            mut leader,
            channel,
            ..
        } = self;
        drop(channel);
        leader.wait().await
    }

    /// Sends a request without waiting for its reply.
    #[cfg(test)]
    pub(super) async fn begin(&mut self, request: &Json) -> io::Result<()> {
        self.channel
            .write_all(&framed(&to_canonical(request))?)
            .await
    }
}

/// What is started for an interpreter: the walls stand around it from its first line on.
fn launch(key: &Key, settings: &Settings, scratch: &Path) -> io::Result<Launch> {
    let variables = settings.environment.iter().chain(&key.environment);
    let plain = Launch {
        words: vec![key.program.clone(), "-c".to_owned(), BOOT.to_owned()],
        environment: variables
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    };
    walled(settings, scratch, scratch, plain)
        .map_err(|error| io::Error::other(error.message.to_string()))
}

fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

fn hello(settings: &Settings, scratch: &Path) -> Json {
    let Walls {
        memory,
        // That of a call comes with it, since an interpreter has many.
        cpu_seconds: _,
        processes,
        open_files,
        file_size,
    } = settings.walls;
    let limits = [
        ("RLIMIT_CORE", Some(0)),
        ("RLIMIT_AS", memory.map(ByteSize::as_bytes)),
        ("RLIMIT_NPROC", processes),
        ("RLIMIT_NOFILE", open_files),
        ("RLIMIT_FSIZE", file_size.map(ByteSize::as_bytes)),
    ];
    let limits = limits
        .into_iter()
        .filter_map(|(name, limit)| limit.map(|limit| (name, Json::from(limit))));
    Json::object([
        ("scratch", Json::from(&*scratch.to_string_lossy())),
        ("payload_cap", Json::from(settings.payload_cap.as_bytes())),
        (
            "max_memory",
            Json::from(settings.python.max_memory.as_bytes()),
        ),
        ("limits", Json::object(limits)),
    ])
}

fn framed(body: &[u8]) -> io::Result<Vec<u8>> {
    let size = u32::try_from(body.len()).map_err(|_| io::Error::other("the call is too large"))?;
    let mut frame = Vec::with_capacity(4 + body.len());
    frame.extend(size.to_le_bytes());
    frame.extend(body);
    Ok(frame)
}

async fn read_frame(channel: &mut BufReader<UnixStream>, largest: u64) -> io::Result<Vec<u8>> {
    let size = channel.read_u32_le().await?;
    if u64::from(size) > largest {
        return Err(io::Error::other(format!("a reply of {size} bytes")));
    }
    let mut body = Vec::new();
    channel.take(size.into()).read_to_end(&mut body).await?;
    if body.len() as u64 != u64::from(size) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(body)
}
