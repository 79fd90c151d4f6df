//! Hints for errors of processes that reached one of their limits.
//!
//! When the kernel denies memory, a process or a file, every program reports it with its own
//! message. The hint names the limit that may be the cause and the setting that changes it.

use noetl_types::{TaskError, Text};

use crate::call::ToolOutcome;
use crate::sandbox::{MAX_TASK_PROCESSES, SandboxMode};
use crate::settings::Settings;

/// Messages of programs that cannot allocate memory, in lower case.
const MEMORY_ERROR_PATTERNS: [&str; 6] = [
    "memoryerror", "cannot allocate memory", "can't allocate memory", "out of memory",
    "memory allocation of", "bad_alloc",
];
/// End of the message of a process that was killed.
const KILLED_SUFFIX: &str = "ended with signal 9";
/// Messages of programs that cannot create a process or a thread.
const PROCESS_ERROR_PATTERNS: [&str; 4] = [
    "can't start new thread",
    "cannot fork",
    "can't fork",
    "fork: resource temporarily unavailable",
];
/// Messages of programs whose file may not grow.
const FILE_SIZE_ERROR_PATTERNS: [&str; 2] = ["file too large", "file size limit exceeded"];
/// Messages of programs that cannot write to a folder of a sandbox.
const READ_ONLY_ERROR_PATTERNS: [&str; 2] = ["read-only file system", "readonly database"];
/// Exit code that shells report for a process that SIGXFSZ ended because its file grew too large.
const SIGXFSZ_EXIT_CODE: i64 = 128 + 25;

impl Settings {
    /// Adds the limit that may have caused the error to its message.
    pub(crate) fn add_limit_hint(&self, mut outcome: ToolOutcome) -> ToolOutcome {
        if let Some(error) = &mut outcome.error
            && let Some(limit) = self.find_limit_hint(error)
        {
            error.message = Text::from_lossy(&format!("{}; {limit}", error.message));
        }
        outcome
    }

    fn find_limit_hint(&self, error: &TaskError) -> Option<String> {
        let message = error.message.to_lowercase();
        let contains_any = |parts: &[&str]| parts.iter().any(|part| message.contains(part));
        let is_file_size_signal =
            error.code.as_ref().and_then(noetl_types::Json::as_i64) == Some(SIGXFSZ_EXIT_CODE);
        if message.ends_with(KILLED_SUFFIX) {
            let memory = self.process_limits.memory?;
            return Some(format!(
                "a task whose processes use more than {memory} of memory together is killed \
                 (NOETL_TASK_MEMORY)"
            ));
        }
        if contains_any(&MEMORY_ERROR_PATTERNS) {
            let memory = self.process_limits.memory?;
            return Some(format!(
                "a process of a task may use {memory} of memory (NOETL_TASK_MEMORY)"
            ));
        }
        if is_file_size_signal || contains_any(&FILE_SIZE_ERROR_PATTERNS) {
            let size = self.process_limits.file_size?;
            return Some(format!("a file of a task may be up to {size} (NOETL_TASK_FILE_SIZE)"));
        }
        if self.sandbox.mode != SandboxMode::Off && contains_any(&READ_ONLY_ERROR_PATTERNS) {
            return Some(
                "tasks can write to their own folder, /tmp, and the folders in \
                 NOETL_SANDBOX_WRITABLE"
                    .to_owned(),
            );
        }
        if contains_any(&PROCESS_ERROR_PATTERNS) {
            let limit = self.process_limits.processes?;
            let hint =
                format!("tasks may have {limit} processes and threads (NOETL_TASK_PROCESSES)");
            return Some(match self.task_process_limit() {
                Some(task_limit) => {
                    format!("one task may have {task_limit} in its user namespace, and all {hint}")
                }
                None => hint,
            });
        }
        None
    }

    /// Maximum number of processes of one task, if it differs from the limit of all tasks. The
    /// kernel decides if the task's user namespace is available.
    fn task_process_limit(&self) -> Option<u64> {
        let is_sandboxed = self.sandbox.mode != SandboxMode::Off && self.sandbox.launcher.is_some();
        let is_lower =
            self.process_limits.processes.is_some_and(|limit| limit > MAX_TASK_PROCESSES);
        (is_sandboxed && is_lower).then_some(MAX_TASK_PROCESSES)
    }
}

#[cfg(test)]
mod tests;
