//! A process of ours that is ended with its test.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running `noetl`.
pub(crate) struct Noetl {
    child: Child,
    /// The address that a server printed first.
    pub(crate) url: Option<String>,
}

impl Noetl {
    /// Starts a command that serves, and waits for its address.
    pub(crate) fn serving(command: &mut Command) -> Self {
        Self::serving_and_telling(command, Stdio::inherit())
    }

    /// The same with its log somewhere else.
    pub(crate) fn serving_and_telling(command: &mut Command, log: Stdio) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("noetl starts");
        let stdout = child.stdout.take().expect("a pipe");
        let mut first = String::new();
        BufReader::new(stdout)
            .read_line(&mut first)
            .expect("the first line");
        let url = first
            .split_whitespace()
            .find(|word| word.starts_with("http://"));
        let url = url
            .unwrap_or_else(|| panic!("no address in {first:?}"))
            .to_owned();
        Self {
            child,
            url: Some(url),
        }
    }

    /// Starts a command that serves nobody.
    pub(crate) fn working(command: &mut Command) -> Self {
        Self::working_and_telling(command, Stdio::inherit())
    }

    /// The same with its log somewhere else.
    pub(crate) fn working_and_telling(command: &mut Command, log: Stdio) -> Self {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("noetl starts");
        Self { child, url: None }
    }

    /// Sends a signal, by the name that `kill` knows.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &id])
            .status();
        assert!(sent.expect("kill runs").success(), "no process {id}");
    }

    /// The most memory that it has had resident so far, in MiB.
    pub(crate) fn resident_mib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("a process");
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().nth(1));
        kib.expect("a number").parse::<u64>().expect("a number") / 1024
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn leave(mut self) {
        self.signal("TERM");
        self.child.wait().expect("it ends");
    }

    /// Kills it as a power cut would.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // One that has ended already is what is wanted.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Noetl {
    fn drop(&mut self) {
        self.end();
    }
}

/// Whether a process lives, by its number in a file.
pub(crate) fn lives(pid_file: &Path) -> bool {
    let Ok(pid) = std::fs::read_to_string(pid_file) else {
        return false;
    };
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    // One that waits to be collected does nothing any more.
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}
