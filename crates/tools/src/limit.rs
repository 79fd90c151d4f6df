//! Errors of processes that ran into one of their limits, told as such.
//!
//! The kernel refuses memory, a process or a file like any other wish, and programs say so in words of
//! their own. Whoever reads them learns here which limit it may have been, and who sets it.

use noetl_types::{TaskError, Text};

use crate::call::Outcome;
use crate::settings::Settings;
use crate::walls::{MOST_PROCESSES, SandboxMode};

/// What programs say to whom the kernel gives no memory, in small letters.
const NO_MEMORY: [&str; 6] = [
    "memoryerror",
    "cannot allocate memory",
    "can't allocate memory",
    "out of memory",
    "memory allocation of",
    "bad_alloc",
];
/// What they say when they may not begin a process or a thread.
const NO_PROCESS: [&str; 4] = [
    "can't start new thread",
    "cannot fork",
    "can't fork",
    "fork: resource temporarily unavailable",
];
/// What they say when a file may not grow.
const NO_FILE: [&str; 2] = ["file too large", "file size limit exceeded"];
/// The code of a process that was ended because its file would have grown too large, as shells tell it.
const FILE_SIGNAL: i64 = 128 + 25;

impl Settings {
    /// The same with the limit that its error may come from.
    pub(crate) fn told(&self, mut outcome: Outcome) -> Outcome {
        if let Some(error) = &mut outcome.error
            && let Some(limit) = self.limit_of(error)
        {
            error.message = Text::lossy(&format!("{}; {limit}", error.message));
        }
        outcome
    }

    fn limit_of(&self, error: &TaskError) -> Option<String> {
        let words = error.message.to_lowercase();
        let says = |any: &[&str]| any.iter().any(|part| words.contains(part));
        let is_ended = error.code.as_ref().and_then(noetl_types::Json::as_i64) == Some(FILE_SIGNAL);
        if says(&NO_MEMORY) {
            let memory = self.walls.memory?;
            return Some(format!(
                "a process of a task may have {memory} of memory (NOETL_TASK_MEMORY)"
            ));
        }
        if is_ended || says(&NO_FILE) {
            let size = self.walls.file_size?;
            return Some(format!(
                "a file of a task may have {size} (NOETL_TASK_FILE_SIZE)"
            ));
        }
        if says(&NO_PROCESS) {
            let all = self.walls.processes?;
            let all = format!("tasks may have {all} processes and threads (NOETL_TASK_PROCESSES)");
            return Some(match self.own_processes() {
                Some(own) => {
                    format!("one task may have {own} in its user namespace, and all {all}")
                }
                None => all,
            });
        }
        None
    }

    /// How many processes one task may have, where that is another number than that of all tasks. Whether
    /// its user namespace stands is up to the kernel.
    fn own_processes(&self) -> Option<u64> {
        let is_walled = self.sandbox.mode != SandboxMode::Off && self.sandbox.launcher.is_some();
        let is_less = self.walls.processes.is_some_and(|all| all > MOST_PROCESSES);
        (is_walled && is_less).then_some(MOST_PROCESSES)
    }
}

#[cfg(test)]
mod tests {
    use noetl_types::{ByteSize, Json, TaskErrorKind};

    use super::*;

    fn told(settings: &Settings, message: &str, code: i64) -> String {
        let error = TaskError {
            code: Some(Json::from(code)),
            ..TaskError::new(TaskErrorKind::Transform, message)
        };
        let outcome = settings.told(error.into());
        outcome.error.unwrap().message.to_string()
    }

    #[test]
    fn a_limit_is_named_by_the_words_of_whoever_met_it() {
        let mut settings = Settings::default();
        settings.walls.memory = Some(ByteSize::from_gib(4));
        let told = |message: &str, code: i64| told(&settings, message, code);
        for (message, code, limit) in [
            ("MemoryError (line 3)", 1, "NOETL_TASK_MEMORY"),
            ("fork: Cannot allocate memory", 2, "4GiB of memory"),
            (
                "the command ended with exit code 153",
                153,
                "NOETL_TASK_FILE_SIZE",
            ),
            (
                "OSError: [Errno 27] File too large",
                1,
                "may have 4GiB (NOETL_TASK_FILE_SIZE)",
            ),
            ("sh: 1: Cannot fork", 2, "16384 processes"),
        ] {
            let told = told(message, code);
            assert!(told.starts_with(message) && told.contains(limit), "{told}");
        }
        assert_eq!(
            told("exit code 3: no such file", 3),
            "exit code 3: no such file"
        );
    }

    #[test]
    fn the_limit_of_one_task_is_told_where_it_is_lower_than_that_of_all() {
        let mut settings = Settings::default();
        let told_by = |settings: &Settings| told(settings, "sh: 1: Cannot fork", 2);
        assert!(!told_by(&settings).contains("1024"));
        settings.sandbox.mode = SandboxMode::BestEffort;
        settings.sandbox.launcher = Some("noetl".into());
        let walled = told_by(&settings);
        let first = walled.find("1024").unwrap();
        assert!(first < walled.find("16384").unwrap(), "{walled}");
        settings.walls.processes = Some(900);
        let lower = told_by(&settings);
        assert!(lower.contains("900 processes") && !lower.contains("1024"));
    }
}
