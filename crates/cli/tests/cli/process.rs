//! Processes that a test starts, watches and ends.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Longer than anything here takes on a machine that is busy with other tests.
const LONG: Duration = Duration::from_mins(1);

/// A process that ends with the test that started it.
pub(crate) struct Process {
    child: Child,
    out: Lines,
    err: Lines,
}

/// The lines of a stream, as they come.
struct Lines {
    receiver: Receiver<String>,
    seen: Vec<String>,
}

impl Lines {
    fn of(stream: impl Read + Send + 'static) -> Self {
        let (sender, receiver) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            receiver,
            seen: Vec::new(),
        }
    }

    fn find(&mut self, wanted: &str) -> Option<String> {
        loop {
            match self.receiver.recv_timeout(LONG) {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if line.contains(wanted) {
                        return Some(line);
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// All lines, once the stream has ended.
    fn all(mut self) -> String {
        while let Ok(line) = self.receiver.recv_timeout(LONG) {
            self.seen.push(line);
        }
        self.seen.join("\n")
    }
}

impl Process {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            out: Lines::of(child.stdout.take().unwrap()),
            err: Lines::of(child.stderr.take().unwrap()),
            child,
        }
    }

    /// Waits for a line on standard output.
    pub(crate) fn says(&mut self, wanted: &str) -> String {
        match self.out.find(wanted) {
            Some(line) => line,
            None => panic!("no '{wanted}' in {:?} {:?}", self.out.seen, self.err.seen),
        }
    }

    /// Waits for a line on standard error.
    pub(crate) fn tells(&mut self, wanted: &str) -> String {
        match self.err.find(wanted) {
            Some(line) => line,
            None => panic!("no '{wanted}' in {:?}", self.err.seen),
        }
    }

    /// Sends it an interrupt, as Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &id]).status().unwrap();
        assert!(sent.success());
    }

    /// Ends it without giving it a chance to do anything about it.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end; gives its exit code and what it wrote.
    pub(crate) fn end(mut self) -> (i32, String, String) {
        let (out, err) = (take(&mut self.out).all(), take(&mut self.err).all());
        let status: ExitStatus = self.child.wait().unwrap();
        (status.code().unwrap_or(-1), out, err)
    }
}

fn take(lines: &mut Lines) -> Lines {
    let (_, receiver) = channel();
    let empty = Lines {
        receiver,
        seen: Vec::new(),
    };
    std::mem::replace(lines, empty)
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended already where all went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a process of this id lives.
pub(crate) fn lives(id: &str) -> bool {
    let probe = Command::new("kill")
        .args(["-0", id])
        .stderr(Stdio::null())
        .status();
    probe.is_ok_and(|status| status.success())
}
