//! A `noetl` process that is killed at the end of its test.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running `noetl`.
pub(crate) struct NoetlProcess {
    child: Child,
    /// Address that a server printed on its first line.
    pub(crate) url: Option<String>,
}

impl NoetlProcess {
    /// Starts a server command and waits for its address.
    pub(crate) fn start_server(command: &mut Command) -> Self {
        Self::start_server_with_log(command, Stdio::inherit())
    }

    /// Starts a server command that writes its log to `log`.
    pub(crate) fn start_server_with_log(command: &mut Command, log: Stdio) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("noetl starts");
        let stdout = child.stdout.take().expect("a pipe");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("the first line");
        let url = line.split_whitespace().find(|word| word.starts_with("http://"));
        let url = url.unwrap_or_else(|| panic!("no address in {line:?}")).to_owned();
        Self { child, url: Some(url) }
    }

    /// Starts a command that does not listen, such as a worker.
    pub(crate) fn start_worker(command: &mut Command) -> Self {
        Self::start_worker_with_log(command, Stdio::inherit())
    }

    /// Starts a worker command that writes its log to `log`.
    pub(crate) fn start_worker_with_log(command: &mut Command, log: Stdio) -> Self {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("noetl starts");
        Self { child, url: None }
    }

    /// Sends a signal by its name for `kill`.
    pub(crate) fn send_signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args([&format!("-{name}"), &id]).status();
        assert!(status.expect("kill runs").success(), "no process {id}");
    }

    /// Peak resident memory of the process in MiB.
    pub(crate) fn peak_memory_mib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("a process");
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().nth(1));
        kib.expect("a number").parse::<u64>().expect("a number") / 1024
    }

    /// Sends SIGTERM and waits for the exit.
    pub(crate) fn terminate(mut self) {
        self.send_signal("TERM");
        self.child.wait().expect("it ends");
    }

    /// Sends SIGKILL, as a power cut would end it.
    pub(crate) fn kill(mut self) {
        self.kill_and_wait();
    }

    fn kill_and_wait(&mut self) {
        // Killing an ended process fails, which is fine.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for NoetlProcess {
    fn drop(&mut self) {
        self.kill_and_wait();
    }
}

/// True if the process whose id is in the file is running.
pub(crate) fn is_process_alive(pid_file: &Path) -> bool {
    let Ok(pid) = std::fs::read_to_string(pid_file) else {
        return false;
    };
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    // A zombie process no longer runs.
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}
