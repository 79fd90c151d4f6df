//! Processes that live no longer than who started them.

use std::io::{self, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};

/// A process on a pipe. It reads the pipe and ends when that is closed: when the leash is dropped,
/// or when this process ends by whatever means, a kill included.
#[derive(Debug)]
pub(crate) struct Leash {
    /// Present until the leash is dropped.
    pipe: Option<ChildStdin>,
    child: Child,
}

impl Leash {
    /// Runs a shell script with arguments, in a session of its own: what the terminal sends to this
    /// process does not reach it, so that it can clean up.
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

    /// Says a word to the process, on a line of its own.
    pub(crate) fn say(&mut self, word: &str) -> io::Result<()> {
        match &mut self.pipe {
            Some(pipe) => writeln!(pipe, "{word}").and_then(|()| pipe.flush()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

/// Waits until everything is cleaned up.
impl Drop for Leash {
    fn drop(&mut self) {
        self.pipe = None;
        let _ = self.child.wait();
    }
}
