//! Running the binary in a directory of its own.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// The crate, for files that tests share.
pub(crate) const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// A document without a flaw.
pub(crate) const CLEAN: &str = "\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: clean }
workflow:
  - step: start
    tool: { kind: noop }
";

/// A directory that belongs to one test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// An empty directory; `test` is a name that no other test uses.
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

    /// Writes a file, and the directories above it.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    /// What a file holds.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Waits until a file is there.
    pub(crate) fn wait_for(&self, name: &str) {
        let path = self.path(name);
        wait_until(name, || path.exists());
    }

    /// A command line to run here, undisturbed by the settings of whoever runs the test.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = command(args);
        command.current_dir(&self.0);
        // Profiles are kept there, and are nobody's business but the test's.
        command.env("XDG_CONFIG_HOME", self.path("config"));
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.command(args).output().unwrap().into()
    }
}

/// Looks again and again until something is true.
pub(crate) fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let (_silent, ticks) = std::sync::mpsc::channel::<()>();
    for _ in 0..6_000 {
        if is_true() {
            return;
        }
        let _ = ticks.recv_timeout(Duration::from_millis(10));
    }
    panic!("waited in vain: {what}");
}

/// A command line to run anywhere.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_noetl"));
    command.args(args).stdin(Stdio::null());
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS"] {
        command.env_remove(variable);
    }
    command
}

pub(crate) fn run(args: &[&str]) -> Ran {
    command(args).output().unwrap().into()
}

/// Runs a command line with something to read.
pub(crate) fn feed(args: &[&str], input: &[u8]) -> Ran {
    let mut command = command(args);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap().into()
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    /// All of it in one text, for snapshots.
    pub(crate) fn shown(&self) -> String {
        let mut shown = String::new();
        for (name, text) in [("stdout", &self.out), ("stderr", &self.err)] {
            if !text.is_empty() {
                write!(shown, "──── {name}\n{text}").unwrap();
            }
        }
        shown.push_str(&format!("──── exit {}", self.code));
        shown
    }
}
