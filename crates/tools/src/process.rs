//! Processes in a group that is killed as a whole, with capped output.
//!
//! Nothing here runs code between fork and exec: the process sets its limits itself before it runs
//! the user's code.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::os::fd::AsFd;
use std::process::{ExitStatus, Stdio};

use noetl_types::{ByteSize, Json, JsonMap};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

/// Process that leads its own process group. Dropping it kills the whole group.
#[derive(Debug)]
pub(crate) struct GroupLeader {
    child: Child,
    group: Pid,
}

impl GroupLeader {
    /// Starts a command as the leader of a new group. Captures its outputs if `capture` is true.
    pub(crate) fn spawn(command: &mut Command, capture: bool) -> io::Result<Self> {
        let output = || {
            if capture { Stdio::piped() } else { Stdio::null() }
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

    /// Returns the group that it leads.
    pub(crate) fn group(&self) -> Pid {
        self.group
    }

    /// Returns the captured outputs. Each can be taken once.
    pub(crate) fn take_outputs(&mut self, cap: ByteSize) -> OutputCapture {
        OutputCapture {
            stdout: StreamCapture::new(self.child.stdout.take(), cap),
            stderr: StreamCapture::new(self.child.stderr.take(), cap),
        }
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
        self.kill();
    }
}

/// Describes the exit status of a process.
pub(crate) fn describe_exit(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".to_owned(),
    }
}

/// Capture of both outputs of a process.
#[derive(Debug)]
pub(crate) struct OutputCapture {
    stdout: StreamCapture<ChildStdout>,
    stderr: StreamCapture<ChildStderr>,
}

impl OutputCapture {
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

/// Captured output of a process.
#[derive(Debug, Default)]
pub(crate) struct CapturedOutput {
    stdout: CappedBuffer,
    stderr: CappedBuffer,
}

impl CapturedOutput {
    /// True if both outputs are empty.
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

    /// Returns the standard output.
    pub(crate) fn stdout(&self) -> Json {
        self.stdout.to_json_text()
    }

    /// True if output was truncated.
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
/// the cap is dropped.
#[derive(Debug)]
struct StreamCapture<P> {
    pipe: Option<P>,
    chunk: Box<[u8]>,
    buffer: CappedBuffer,
    cap: ByteSize,
}

impl<P: AsyncRead + AsFd + Unpin> StreamCapture<P> {
    const CHUNK_BYTES: usize = 16 * 1024;

    fn new(pipe: Option<P>, cap: ByteSize) -> Self {
        Self {
            pipe,
            chunk: vec![0; Self::CHUNK_BYTES].into(),
            buffer: CappedBuffer::default(),
            cap,
        }
    }

    async fn read_forever(&mut self) -> Infallible {
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut self.chunk).await {
                Ok(0) | Err(_) => self.pipe = None,
                Ok(read) => self.buffer.append(&self.chunk[..read], self.cap),
            }
        }
        pending().await
    }

    /// Returns the output so far.
    ///
    /// Reads the pipe directly: the runtime may not have been notified yet of bytes that were
    /// written just before the process reported that it is done.
    fn take_buffer(&mut self) -> CappedBuffer {
        while let Some(pipe) = &self.pipe {
            match rustix::io::read(pipe.as_fd(), &mut *self.chunk) {
                Ok(0) => self.pipe = None,
                Ok(read) => self.buffer.append(&self.chunk[..read], self.cap),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
        std::mem::take(&mut self.buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_line_is_not_last_line() {
        let last_line = |text: &str, cap: u64| {
            let mut captured = CappedBuffer::default();
            captured.append(text.as_bytes(), ByteSize::from_bytes(cap));
            captured.last_line()
        };
        let text = "one\ntwo\n\nsesame-opens-42\n";
        assert_eq!(last_line(text, 100).as_deref(), Some("sesame-opens-42"));
        assert_eq!(last_line(text, 16).as_deref(), Some("two"));
        assert_eq!(last_line(text, 2), None);
    }
}
