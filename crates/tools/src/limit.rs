//! Errors of processes that ran into one of their limits, told as such.
//!
//! The kernel refuses memory, a process or a file like any other wish, and programs say so in words of
//! their own. Whoever reads them learns here which limit it may have been, and who sets it.

use noetl_types::{TaskError, Text};

use crate::call::Outcome;
use crate::settings::Walls;

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

impl Walls {
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
            let memory = self.memory?;
            return Some(format!(
                "a process of a task may have {memory} of memory (NOETL_TASK_MEMORY)"
            ));
        }
        if is_ended || says(&NO_FILE) {
            let size = self.file_size?;
            return Some(format!(
                "a file of a task may have {size} (NOETL_TASK_FILE_SIZE)"
            ));
        }
        if says(&NO_PROCESS) {
            let processes = self.processes?;
            return Some(format!(
                "tasks may have {processes} processes and threads (NOETL_TASK_PROCESSES)"
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use noetl_types::{ByteSize, Json, TaskErrorKind};

    use super::*;

    #[test]
    fn a_limit_is_named_by_the_words_of_whoever_met_it() {
        let walls = Walls {
            memory: Some(ByteSize::from_gib(4)),
            ..Walls::default()
        };
        let told = |message: &str, code: i64| {
            let error = TaskError {
                code: Some(Json::from(code)),
                ..TaskError::new(TaskErrorKind::Transform, message)
            };
            let outcome = walls.told(error.into());
            outcome.error.map(|error| error.message.to_string())
        };
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
            let told = told(message, code).unwrap();
            assert!(told.starts_with(message) && told.contains(limit), "{told}");
        }
        assert_eq!(
            told("exit code 3: no such file", 3).unwrap(),
            "exit code 3: no such file"
        );
    }
}
