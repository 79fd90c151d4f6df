//! Runs the binary in a separate directory for each test.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Directory of the crate, for files that tests share.
pub(crate) const CRATE_DIR: &str = env!("CARGO_MANIFEST_DIR");

/// Playbook without diagnostics.
pub(crate) const CLEAN_PLAYBOOK: &str = "\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: clean }
workflow:
  - step: start
    tool: { kind: noop }
";

/// Directory of one test.
pub(crate) struct TestDir(PathBuf);

impl TestDir {
    /// Creates an empty directory. `test` must be unique among all tests.
    pub(crate) fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        if path.exists() {
            fs::remove_dir_all(&path).unwrap();
        }
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file and creates its parent directories.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Waits until a file exists.
    pub(crate) fn wait_for_file(&self, name: &str) {
        let path = self.path(name);
        wait_until(name, || path.exists());
    }

    /// Builds a command that runs in this directory, without the user's terminal settings.
    pub(crate) fn noetl_command(&self, args: &[&str]) -> Command {
        let mut command = noetl_command(args);
        command.current_dir(&self.0);
        // Profiles are stored there, so each test needs a separate directory.
        command.env("XDG_CONFIG_HOME", self.path("config"));
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> CommandOutput {
        self.noetl_command(args).output().unwrap().into()
    }
}

/// Polls until a condition is true.
pub(crate) fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let (_silent, ticks) = std::sync::mpsc::channel::<()>();
    for _ in 0..6_000 {
        if is_true() {
            return;
        }
        let _ = ticks.recv_timeout(Duration::from_millis(10));
    }
    panic!("timed out: {what}");
}

/// Builds a command without the user's terminal settings.
pub(crate) fn noetl_command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_noetl"));
    command.args(args).stdin(Stdio::null());
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS"] {
        command.env_remove(variable);
    }
    command
}

pub(crate) fn run_noetl(args: &[&str]) -> CommandOutput {
    noetl_command(args).output().unwrap().into()
}

/// Runs a command with input on standard input.
pub(crate) fn run_with_stdin(args: &[&str], input: &[u8]) -> CommandOutput {
    let mut command = noetl_command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap().into()
}

/// Exit code and output of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl CommandOutput {
    /// Formats exit code and output as one text for snapshots.
    pub(crate) fn to_snapshot(&self) -> String {
        let mut snapshot = String::new();
        for (name, text) in [("stdout", &self.out), ("stderr", &self.err)] {
            if !text.is_empty() {
                write!(snapshot, "──── {name}\n{text}").unwrap();
            }
        }
        snapshot.push_str(&format!("──── exit {}", self.code));
        snapshot
    }
}
