//! A process of the product: started with a log, stopped politely, never left behind.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;
use tokio::time::timeout;

use crate::error::BenchError;

/// How long a process may take to end after it was asked to.
const PATIENCE: Duration = Duration::from_secs(40);

/// How much of a log is told.
const TAIL: usize = 1_500;

/// A process, and where it writes what it has to say.
#[derive(Debug)]
pub(super) struct Child {
    name: &'static str,
    process: tokio::process::Child,
    pid: u32,
    log: PathBuf,
}

impl Child {
    /// Starts a process. It ends with the value, if it has not been stopped before.
    pub(super) fn spawn(
        name: &'static str,
        mut command: Command,
        folder: &Path,
    ) -> Result<Self, BenchError> {
        let log = folder.join(format!("{name}.log"));
        let file = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(BenchError::io(format!("the log of {name}")))?;
        let for_errors = file
            .try_clone()
            .map_err(BenchError::io(format!("the log of {name}")))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(for_errors)
            .kill_on_drop(true)
            .spawn()
            .map_err(BenchError::io(format!("{name} cannot be started")))?;
        let pid = child
            .id()
            .ok_or_else(|| BenchError::Harness(format!("{name} ended at once")))?;
        Ok(Self {
            name,
            process: child,
            pid,
            log,
        })
    }

    pub(super) const fn pid(&self) -> u32 {
        self.pid
    }

    /// An error if it has ended.
    pub(super) fn still_runs(&mut self) -> Result<(), BenchError> {
        let ended = self
            .process
            .try_wait()
            .map_err(BenchError::io(format!("the state of {}", self.name)))?;
        match ended {
            None => Ok(()),
            Some(status) => Err(self.trouble(format!("ended with {status}"))),
        }
    }

    /// An error of this process, with the end of its log.
    pub(super) fn trouble(&self, trouble: String) -> BenchError {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        let tail = &bytes[bytes.len().saturating_sub(TAIL)..];
        BenchError::Process {
            program: format!("noetl {}", self.name),
            trouble,
            log: String::from_utf8_lossy(tail).trim().to_owned(),
        }
    }

    /// Asks it to end, waits, and kills it only then. One that had to be killed is an error.
    pub(super) async fn stop(mut self) -> Result<(), BenchError> {
        self.still_runs()?;
        // The process has not been waited for, so its number is still its own.
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            kill_process(pid, Signal::TERM)
                .map_err(|error| BenchError::io("a signal")(error.into()))?;
        }
        match timeout(PATIENCE, self.process.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(self.trouble(format!("ended with {status}"))),
            Ok(Err(error)) => Err(BenchError::io(format!("the end of {}", self.name))(error)),
            Err(_) => {
                let trouble = format!("did not end within {} s", PATIENCE.as_secs());
                let trouble = self.trouble(trouble);
                self.process
                    .kill()
                    .await
                    .map_err(BenchError::io(format!("the end of {}", self.name)))?;
                Err(trouble)
            }
        }
    }
}
