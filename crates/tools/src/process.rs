//! Processes with walls around them: a group that dies as one, and outputs with a cap.
//!
//! The walls that need code between fork and exec are not raised here; limits are set by the
//! process itself before it touches the user's code.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::os::fd::AsFd;
use std::process::{ExitStatus, Stdio};

use noetl_types::{ByteSize, Json, JsonMap};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

/// A process that leads a group of its own. Dropping it kills the whole group.
#[derive(Debug)]
pub(crate) struct GroupLeader {
    child: Child,
    group: Pid,
}

impl GroupLeader {
    /// Starts a command as the leader of a new group, outputs captured unless `capture` is off.
    pub(crate) fn spawn(command: &mut Command, capture: bool) -> io::Result<Self> {
        let output = || {
            if capture {
                Stdio::piped()
            } else {
                Stdio::null()
            }
        };
        let child = command
            .stdout(output())
            .stderr(output())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let group = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw)
            .ok_or_else(|| io::Error::other("the process has no id"))?;
        Ok(Self { child, group })
    }

    /// The group that it leads.
    pub(crate) fn group(&self) -> Pid {
        self.group
    }

    /// The captured outputs; each can be taken once.
    pub(crate) fn take_outputs(&mut self, cap: ByteSize) -> Outputs {
        Outputs {
            stdout: Capture::new(self.child.stdout.take(), cap),
            stderr: Capture::new(self.child.stderr.take(), cap),
        }
    }

    /// Waits until the leader ends. Its group may live on.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Kills whoever is left in the group.
    ///
    /// The id of a group that has ended could belong to a new one, but only after the kernel has
    /// gone through all other ids; the calls here follow the leader's end at once.
    pub(crate) fn kill(&self) {
        // An error means that nobody is left.
        kill_process_group(self.group, Signal::KILL).ok();
    }
}

impl Drop for GroupLeader {
    fn drop(&mut self) {
        self.kill();
    }
}

/// How a process ended, in words.
pub(crate) fn ending(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".to_owned(),
    }
}

/// Both outputs of a process.
#[derive(Debug)]
pub(crate) struct Outputs {
    stdout: Capture<ChildStdout>,
    stderr: Capture<ChildStderr>,
}

impl Outputs {
    /// Takes in what the process writes, for as long as the future is polled. It never ends, so it
    /// belongs beside a future that does.
    pub(crate) async fn follow(&mut self) -> Infallible {
        tokio::select! {
            never = self.stdout.follow() => never,
            never = self.stderr.follow() => never,
        }
    }

    /// Hands over what was written until now and begins anew.
    pub(crate) fn take(&mut self) -> Written {
        Written {
            stdout: self.stdout.take(),
            stderr: self.stderr.take(),
        }
    }
}

/// What a process wrote.
#[derive(Debug, Default)]
pub(crate) struct Written {
    stdout: Kept,
    stderr: Kept,
}

impl Written {
    /// Whether there is nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.stdout.bytes.is_empty() && self.stderr.bytes.is_empty()
    }

    /// Appends what a later process wrote.
    pub(crate) fn append(&mut self, later: &Self, cap: ByteSize) {
        self.stdout.append(&later.stdout.bytes, cap);
        self.stdout.cut |= later.stdout.cut;
        self.stderr.append(&later.stderr.bytes, cap);
        self.stderr.cut |= later.stderr.cut;
    }

    /// The last line of the error output that says something.
    pub(crate) fn last_error_line(&self) -> Option<String> {
        self.stderr.last_line()
    }

    /// The last line of the standard output that says something.
    pub(crate) fn last_line(&self) -> Option<String> {
        self.stdout.last_line()
    }

    /// The standard output.
    pub(crate) fn stdout(&self) -> Json {
        self.stdout.text()
    }

    /// Whether something was cut off.
    pub(crate) fn is_cut(&self) -> bool {
        self.stdout.cut || self.stderr.cut
    }

    /// Puts `stdout`, `stderr` and, when something was cut off, `truncated` into a map. What is not
    /// UTF-8 becomes U+FFFD.
    pub(crate) fn put_into(&self, map: &mut JsonMap) {
        map.insert("stdout".into(), self.stdout.text());
        map.insert("stderr".into(), self.stderr.text());
        if self.is_cut() {
            map.insert("truncated".into(), Json::from(true));
        }
    }
}

#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    cut: bool,
}

impl Kept {
    fn append(&mut self, bytes: &[u8], cap: ByteSize) {
        let cap = usize::try_from(cap.as_bytes()).unwrap_or(usize::MAX);
        let room = cap.saturating_sub(self.bytes.len()).min(bytes.len());
        self.cut |= room < bytes.len();
        self.bytes.extend(&bytes[..room]);
    }

    /// The last line that says something. One that was cut off may end in the middle of a secret, which
    /// nobody would know by its beginning in so short a text.
    fn last_line(&self) -> Option<String> {
        let mut lines = &*self.bytes;
        if self.cut {
            let whole = lines.iter().rposition(|byte| *byte == b'\n');
            lines = &lines[..whole.unwrap_or(0)];
        }
        let text = String::from_utf8_lossy(lines);
        text.lines()
            .rfind(|line| !line.trim().is_empty())
            .map(|line| line.trim().to_owned())
    }

    fn text(&self) -> Json {
        Json::from(&*String::from_utf8_lossy(&self.bytes))
    }
}

/// One output of a process, read as it comes so that the process never waits for us; what is over
/// the cap is dropped.
#[derive(Debug)]
struct Capture<P> {
    pipe: Option<P>,
    chunk: Box<[u8]>,
    kept: Kept,
    cap: ByteSize,
}

impl<P: AsyncRead + AsFd + Unpin> Capture<P> {
    const CHUNK: usize = 16 * 1024;

    fn new(pipe: Option<P>, cap: ByteSize) -> Self {
        Self {
            pipe,
            chunk: vec![0; Self::CHUNK].into(),
            kept: Kept::default(),
            cap,
        }
    }

    async fn follow(&mut self) -> Infallible {
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut self.chunk).await {
                Ok(0) | Err(_) => self.pipe = None,
                Ok(read) => self.kept.append(&self.chunk[..read], self.cap),
            }
        }
        pending().await
    }

    /// What was written until now.
    ///
    /// The pipe is asked directly: the runtime may not have heard yet of bytes that were written
    /// just before the process told us that it is done.
    fn take(&mut self) -> Kept {
        while let Some(pipe) = &self.pipe {
            match rustix::io::read(pipe.as_fd(), &mut *self.chunk) {
                Ok(0) => self.pipe = None,
                Ok(read) => self.kept.append(&self.chunk[..read], self.cap),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
        std::mem::take(&mut self.kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_cut_off_is_not_told_as_the_last() {
        let said = |text: &str, cap: u64| {
            let mut kept = Kept::default();
            kept.append(text.as_bytes(), ByteSize::from_bytes(cap));
            kept.last_line()
        };
        let text = "one\ntwo\n\nsesame-opens-42\n";
        assert_eq!(said(text, 100).as_deref(), Some("sesame-opens-42"));
        assert_eq!(said(text, 16).as_deref(), Some("two"));
        assert_eq!(said(text, 2), None);
    }
}
