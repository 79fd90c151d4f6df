//! What is told of the tasks of a command besides their data.

use noetl_types::{Millis, Text};

use super::{Side, Work};
use crate::bounds::end_of_output;
use crate::shift::call::Answer;
use crate::shift::result::{RetriedCall, TaskReport, TaskStatus};

impl Work {
    /// Keeps count of how often a task ran, and what it wrote besides its data.
    pub(super) fn note(&mut self, label: &str, answer: &Answer) {
        let status = match answer.error {
            None => TaskStatus::Ok,
            Some(_) => TaskStatus::Error,
        };
        let (stdout, stderr) = self.written_beside(answer);
        match self.reports.iter_mut().find(|report| report.label == label) {
            Some(report) => {
                report.status = status;
                report.attempts = report.attempts.saturating_add(1);
                let durations = [report.duration, answer.duration].into_iter().flatten();
                report.duration = durations.reduce(Millis::saturating_add);
                report.stdout = stdout;
                report.stderr = stderr;
            }
            None => self.reports.push(TaskReport {
                label: Text::from(label),
                status,
                // The server ends one attempt; those before are in the log.
                attempts: match self.side {
                    Side::Worker => 1,
                    Side::Server => self.attempt,
                },
                duration: answer.duration,
                stdout,
                stderr,
            }),
        }
    }

    /// What a tool wrote that is not in its data: code that gives a result prints besides.
    fn written_beside(&self, answer: &Answer) -> (Option<Text>, Option<Text>) {
        let of = |tool: &str, name: &str| {
            let text = answer.extras.get(tool)?.get(name)?.as_str()?;
            (!text.is_empty()).then_some(text)
        };
        let shown = |text: &str| {
            // A secret that is cut in two would not be known for one.
            let hidden = self.hidden.known().hidden_in(text);
            Text::lossy(&end_of_output(hidden.as_deref().unwrap_or(text)))
        };
        let stdout = of("py", "stdout").or_else(|| of("rhai", "log"));
        (stdout.map(shown), of("py", "stderr").map(shown))
    }

    /// Takes the attempts that are made again, as far as they were not taken before.
    pub(in crate::shift) fn take_retries(&mut self) -> Vec<RetriedCall> {
        std::mem::take(&mut self.retries).into()
    }
}
