//! Reports of the tasks of a command besides their data.

use noetl_types::{Millis, Text};

use super::{CommandState, MachineHost};
use crate::bounds::tail_of_output;
use crate::command_machine::call::ToolResult;
use crate::command_machine::outcome::{RetriedCall, TaskReport, TaskStatus};

impl CommandState {
    /// Updates the report of a task: the number of attempts, and the output besides its data.
    pub(super) fn record_report(&mut self, label: &str, result: &ToolResult) {
        let status = match result.error {
            None => TaskStatus::Ok,
            Some(_) => TaskStatus::Error,
        };
        let (stdout, stderr) = self.captured_output(result);
        match self.reports.iter_mut().find(|report| report.label == label) {
            Some(report) => {
                report.status = status;
                report.attempts = report.attempts.saturating_add(1);
                let durations = [report.duration, result.duration].into_iter().flatten();
                report.duration = durations.reduce(Millis::saturating_add);
                report.stdout = stdout;
                report.stderr = stderr;
            }
            None => self.reports.push(TaskReport {
                label: Text::from(label),
                status,
                // The server completes one attempt. Earlier ones are in the log.
                attempts: match self.host {
                    MachineHost::Worker => 1,
                    MachineHost::Server => self.attempt,
                },
                duration: result.duration,
                stdout,
                stderr,
            }),
        }
    }

    /// Printed output of a tool that is not part of its data. Code that returns a result may also
    /// print.
    fn captured_output(&self, result: &ToolResult) -> (Option<Text>, Option<Text>) {
        let extra_text = |tool: &str, name: &str| {
            let text = result.extras.get(tool)?.get(name)?.as_str()?;
            (!text.is_empty()).then_some(text)
        };
        let redact = |text: &str| {
            // Redacted before truncation, because half a secret would not be recognized.
            let redacted = self.secret_set.current_secrets().redact_text(text);
            Text::from_lossy(&tail_of_output(redacted.as_deref().unwrap_or(text)))
        };
        let stdout = extra_text("py", "stdout").or_else(|| extra_text("rhai", "log"));
        (stdout.map(redact), extra_text("py", "stderr").map(redact))
    }

    /// Takes the retried attempts that were not taken before.
    pub(in crate::command_machine) fn take_retries(&mut self) -> Vec<RetriedCall> {
        std::mem::take(&mut self.retries).into()
    }
}
