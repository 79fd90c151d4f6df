//! A process of the product: started with a log file, stopped gracefully, and never left behind.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;
use tokio::time::timeout;

use crate::error::BenchError;

/// Maximum time for a process to end after SIGTERM.
const STOP_TIMEOUT: Duration = Duration::from_secs(40);

/// Bytes of a log that an error contains.
const LOG_TAIL_BYTES: usize = 1_500;

/// A process with its log file.
#[derive(Debug)]
pub(super) struct ProductProcess {
    name: &'static str,
    process: tokio::process::Child,
    pid: u32,
    log: PathBuf,
}

impl ProductProcess {
    /// Starts a process. It is killed when the value is dropped, unless it was stopped before.
    pub(super) fn spawn_process(
        name: &'static str,
        mut command: Command,
        folder: &Path,
    ) -> Result<Self, BenchError> {
        let log = folder.join(format!("{name}.log"));
        let file = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(BenchError::io_error(format!("the log of {name}")))?;
        let stderr =
            file.try_clone().map_err(BenchError::io_error(format!("the log of {name}")))?;
        let process = command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(stderr)
            .kill_on_drop(true)
            .spawn()
            .map_err(BenchError::io_error(format!("{name} cannot be started")))?;
        let pid =
            process.id().ok_or_else(|| BenchError::Harness(format!("{name} ended at once")))?;
        Ok(Self { name, process, pid, log })
    }

    pub(super) const fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns an error if the process has ended.
    pub(super) fn check_running(&mut self) -> Result<(), BenchError> {
        let status = self
            .process
            .try_wait()
            .map_err(BenchError::io_error(format!("the state of {}", self.name)))?;
        match status {
            None => Ok(()),
            Some(status) => Err(self.process_error(format!("ended with {status}"))),
        }
    }

    /// Creates an error for this process, with the end of its log.
    pub(super) fn process_error(&self, trouble: String) -> BenchError {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        let tail = &bytes[bytes.len().saturating_sub(LOG_TAIL_BYTES)..];
        BenchError::Process {
            program: format!("noetl {}", self.name),
            trouble,
            log: String::from_utf8_lossy(tail).trim().to_owned(),
        }
    }

    /// Sends SIGTERM, waits, and kills the process only after the timeout, which is an error.
    pub(super) async fn stop(mut self) -> Result<(), BenchError> {
        self.check_running()?;
        // The process has not been reaped, so its pid is not reused.
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            kill_process(pid, Signal::TERM)
                .map_err(|error| BenchError::io_error("a signal")(error.into()))?;
        }
        match timeout(STOP_TIMEOUT, self.process.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(self.process_error(format!("ended with {status}"))),
            Ok(Err(error)) => Err(BenchError::io_error(format!("the end of {}", self.name))(error)),
            Err(_) => {
                let trouble = format!("did not end within {} s", STOP_TIMEOUT.as_secs());
                let trouble = self.process_error(trouble);
                self.process
                    .kill()
                    .await
                    .map_err(BenchError::io_error(format!("the end of {}", self.name)))?;
                Err(trouble)
            }
        }
    }
}
