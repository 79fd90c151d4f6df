//! Processes that a test starts, watches and ends.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Upper bound of any wait for output on a busy machine.
const OUTPUT_TIMEOUT: Duration = Duration::from_mins(1);

/// Process that is killed at the end of its test.
pub(crate) struct NoetlProcess {
    child: Child,
    out: OutputLines,
    err: OutputLines,
}

/// Lines of a stream, received as they are written.
struct OutputLines {
    receiver: Receiver<String>,
    received: Vec<String>,
}

impl OutputLines {
    fn from_stream(stream: impl Read + Send + 'static) -> Self {
        let (sender, receiver) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { receiver, received: Vec::new() }
    }

    fn wait_for_line(&mut self, expected: &str) -> Option<String> {
        loop {
            match self.receiver.recv_timeout(OUTPUT_TIMEOUT) {
                Ok(line) => {
                    self.received.push(line.clone());
                    if line.contains(expected) {
                        return Some(line);
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Reads to the end of the stream and returns all lines.
    fn read_to_end(mut self) -> String {
        while let Ok(line) = self.receiver.recv_timeout(OUTPUT_TIMEOUT) {
            self.received.push(line);
        }
        self.received.join("\n")
    }
}

impl NoetlProcess {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            out: OutputLines::from_stream(child.stdout.take().unwrap()),
            err: OutputLines::from_stream(child.stderr.take().unwrap()),
            child,
        }
    }

    /// Waits for a line on standard output.
    pub(crate) fn wait_for_stdout(&mut self, expected: &str) -> String {
        match self.out.wait_for_line(expected) {
            Some(line) => line,
            None => panic!("no '{expected}' in {:?} {:?}", self.out.received, self.err.received),
        }
    }

    /// Waits for a line on standard error.
    pub(crate) fn wait_for_stderr(&mut self, expected: &str) -> String {
        match self.err.wait_for_line(expected) {
            Some(line) => line,
            None => panic!("no '{expected}' in {:?}", self.err.received),
        }
    }

    /// Sends SIGINT, as Ctrl-C does.
    pub(crate) fn send_interrupt(&self) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args(["-INT", &id]).status().unwrap();
        assert!(status.success());
    }

    /// Sends SIGKILL and waits for the exit.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the exit and returns exit code, standard output and standard error.
    pub(crate) fn wait_for_exit(mut self) -> (i32, String, String) {
        let (out, err) =
            (take_lines(&mut self.out).read_to_end(), take_lines(&mut self.err).read_to_end());
        let status: ExitStatus = self.child.wait().unwrap();
        (status.code().unwrap_or(-1), out, err)
    }
}

fn take_lines(lines: &mut OutputLines) -> OutputLines {
    let (_, receiver) = channel();
    let empty = OutputLines { receiver, received: Vec::new() };
    std::mem::replace(lines, empty)
}

impl Drop for NoetlProcess {
    fn drop(&mut self) {
        // In a passing test the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// True if a process with this id exists.
pub(crate) fn is_process_alive(id: &str) -> bool {
    let probe = Command::new("kill").args(["-0", id]).stderr(Stdio::null()).status();
    probe.is_ok_and(|status| status.success())
}
