//! Child processes that end with the process that started them.

use std::io::{self, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};

/// A process that reads from a pipe and ends when the pipe is closed: when this value is dropped,
/// or when this process ends in any way, including a kill.
#[derive(Debug)]
pub(crate) struct SupervisedProcess {
    /// `Some` until the value is dropped.
    pipe: Option<ChildStdin>,
    child: Child,
}

impl SupervisedProcess {
    /// Runs a shell script with arguments in a separate session. Signals that the terminal sends to
    /// this process do not reach it, so that it can clean up.
    pub(crate) fn run(script: &str, arguments: &[&str]) -> io::Result<Self> {
        let mut child = Command::new("setsid")
            .args(["sh", "-c", script, "supervise"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let pipe = child.stdin.take();
        Ok(Self { pipe, child })
    }

    /// Sends a line to the process.
    pub(crate) fn send_line(&mut self, line: &str) -> io::Result<()> {
        match &mut self.pipe {
            Some(pipe) => writeln!(pipe, "{line}").and_then(|()| pipe.flush()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

/// Waits until everything is cleaned up.
impl Drop for SupervisedProcess {
    fn drop(&mut self) {
        self.pipe = None;
        let _ = self.child.wait();
    }
}
