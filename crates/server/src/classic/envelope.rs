//! The envelope in which published workers report the result of a tool.
//!
//! The outer envelope is `{status, context, reference?, error?}`. Its `context` is the report of the
//! tool: `{status, data, error?, stdout?, stderr?, exit_code?, duration_ms}`. Other classic workers
//! report the data without an envelope. Owns the recognition of both, and the error that a report
//! contains. The data of each tool kind is the subject of [`tool_data`].

use noetl_playbook::command_machine::ToolResult;
use noetl_playbook::model::{Task, ToolKind};
use noetl_types::{Json, JsonMap, Millis, TaskError, TaskErrorKind};

use crate::classic::tool_data;

const ENVELOPE_KEYS: [&str; 4] = ["status", "context", "reference", "error"];
const TOOL_REPORT_KEYS: [&str; 8] =
    ["status", "data", "error", "stdout", "stderr", "exit_code", "duration_ms", "pending_callback"];
const FAILURE_STATUSES: [&str; 6] =
    ["error", "failed", "failure", "timeout", "cancelled", "canceled"];
const SUCCESS_STATUSES: [&str; 6] = ["success", "ok", "completed", "complete", "succeeded", "done"];
const REFERENCE_KINDS: [&str; 3] = ["ref", "result_ref", "reference"];
const REFERENCE_KEYS: [&str; 5] = ["ref", "uri", "logical_uri", "result_ref", "_ref"];

/// Result of a tool as a classic worker reported it.
#[derive(Debug, Default)]
pub(super) struct ReportedResult {
    /// The data, as the tool of the worker has it.
    pub(super) data: Json,
    /// Address of the data, if it is stored elsewhere.
    pub(super) reference: Option<Json>,
    pub(super) stdout: Option<Json>,
    pub(super) stderr: Option<Json>,
    pub(super) exit_code: Option<i64>,
    pub(super) duration_ms: Option<u64>,
    /// True if the data was inside of an envelope, so that its form depends on the worker.
    pub(super) is_enveloped: bool,
    pub(super) error: Option<Json>,
    pub(super) has_failed: bool,
    pub(super) has_timed_out: bool,
}

impl ReportedResult {
    /// Opens the envelope of a result, if it has one.
    pub(super) fn open(value: Json) -> Self {
        let opened = match value.as_map() {
            Some(map)
                if is_tool_report(map)
                    && map.get("duration_ms").is_some_and(is_number)
                    && map.contains_key("data") =>
            {
                Self::from_tool_report(map)
            }
            Some(map) if is_envelope(map) => Self::from_envelope(map),
            Some(_) | None => Self { data: value, ..Self::default() },
        };
        let in_data = find_reference_of_kind(&opened.data).map(|_| opened.data.clone());
        Self { reference: opened.reference.clone().or(in_data), ..opened }
    }

    fn from_envelope(map: &JsonMap) -> Self {
        let mut opened = match map.get("context") {
            Some(Json::Map(report)) if is_tool_report(report) => Self::from_tool_report(report),
            context => Self { data: context.cloned().unwrap_or_default(), ..Self::default() },
        };
        opened.is_enveloped = true;
        opened.record_status(map);
        opened.reference = map.get("reference").filter(|found| !found.is_null()).cloned();
        opened
    }

    fn from_tool_report(map: &JsonMap) -> Self {
        let field = |key: &str| map.get(key).filter(|value| !value.is_null()).cloned();
        let mut opened = Self {
            data: field("data").unwrap_or_default(),
            stdout: field("stdout"),
            stderr: field("stderr"),
            exit_code: field("exit_code").and_then(|code| code.as_i64()),
            duration_ms: field("duration_ms").and_then(|duration| duration.as_u64()),
            is_enveloped: true,
            ..Self::default()
        };
        opened.record_status(map);
        opened
    }

    fn record_status(&mut self, map: &JsonMap) {
        let status = map.get("status").and_then(Json::as_str).unwrap_or_default();
        self.has_failed |= is_word(status, &FAILURE_STATUSES);
        self.has_timed_out |= status.eq_ignore_ascii_case("timeout");
        let error = map.get("error").filter(|error| !is_blank(error)).cloned();
        self.error = self.error.take().or(error);
    }

    /// Returns the address of data in the result store that is to be loaded.
    pub(super) fn stored_data_uri(&self) -> Option<&str> {
        let uri = match self.reference.as_ref()? {
            Json::Str(uri) => uri,
            map => find_uri(map)?,
        };
        uri.starts_with("noetl://").then_some(uri)
    }

    /// Replaces the reference by the data that was loaded. The stored data may itself be an
    /// envelope.
    pub(super) fn with_stored_data(self, stored: Json) -> Self {
        let stored = Self::open(stored);
        if stored.is_enveloped {
            return Self {
                has_failed: self.has_failed || stored.has_failed,
                has_timed_out: self.has_timed_out || stored.has_timed_out,
                error: stored.error.or(self.error),
                reference: None,
                ..stored
            };
        }
        Self { data: stored.data, reference: None, ..self }
    }

    /// Converts the report to the result that our own workers report for the same call. A failure
    /// is the error of an event that reports one, or null.
    pub(super) fn into_tool_result(
        mut self,
        task: Option<&Task>,
        failure: Option<Json>,
    ) -> ToolResult {
        if let Some(reference) = self.reference.take() {
            // Data that is stored elsewhere stays a reference.
            self.data = reference;
            self.is_enveloped = false;
        }
        let kind = task.map(|task| task.kind.value);
        let error = self.error(kind, failure);
        let data = match task {
            Some(task) if self.is_enveloped => tool_data::to_own_form(&self, task, error.as_ref()),
            Some(_) | None => self.data.clone(),
        };
        let mut result = ToolResult {
            data,
            error,
            duration: self.duration_ms.map(Millis::from_ms),
            ..ToolResult::default()
        };
        tool_data::add_extras(&self, kind, &mut result);
        result
    }

    fn error(&self, kind: Option<ToolKind>, failure: Option<Json>) -> Option<TaskError> {
        let exit_code = match kind {
            // The data of these tasks is the value that their code returned.
            Some(ToolKind::Python) => self.exit_code,
            _ => self.exit_code.or_else(|| self.data.get("exit_code")?.as_i64()),
        };
        let exit_code = exit_code.filter(|code| *code != 0 && kind.is_some_and(runs_program));
        let found = tool_data::error_in_data(&self.data, kind.filter(|_| self.is_enveloped));
        let has_failed =
            self.has_failed || self.error.is_some() || exit_code.is_some() || found.is_some();
        if !has_failed && failure.is_none() {
            return None;
        }
        let reported = failure.filter(|error| !is_blank(error)).or_else(|| self.error.clone());
        let mut error = match (&reported, found) {
            (Some(reported), Some(found)) => {
                TaskError { message: TaskError::from_json(reported).message, ..found }
            }
            (Some(reported), None) => TaskError::from_json(reported),
            (None, Some(found)) => found,
            (None, None) => {
                TaskError::new(TaskErrorKind::Unknown, self.default_message(kind, exit_code))
            }
        };
        if self.has_timed_out {
            error = with_kind(error, TaskErrorKind::Timeout);
        }
        if error.kind == TaskErrorKind::Unknown
            && let Some(kind) = kind
        {
            error = tool_data::with_kind_of_tool(error, kind, self);
        }
        if error.code.is_none() {
            error.code = exit_code.map(Json::from);
        }
        Some(error)
    }

    fn default_message(&self, kind: Option<ToolKind>, exit_code: Option<i64>) -> String {
        let output = [&self.stderr, &self.stdout].into_iter().flatten().find_map(last_line);
        // An exception says more than the exit code of the interpreter.
        let exit_code = exit_code.filter(|_| output.is_none() || kind != Some(ToolKind::Python));
        match (exit_code, output) {
            (Some(code), Some(line)) => format!("the task ended with exit code {code}: {line}"),
            (Some(code), None) => format!("the task ended with exit code {code}"),
            (None, Some(line)) => line,
            (None, None) => "the worker reported no error message".to_owned(),
        }
    }
}

/// Returns the error with another kind, which determines if a retry can help.
pub(super) fn with_kind(error: TaskError, kind: TaskErrorKind) -> TaskError {
    TaskError { kind, retryable: kind.is_retryable(), ..error }
}

/// Returns the last line of a text that is not blank.
pub(super) fn last_line(text: &Json) -> Option<String> {
    let line = text.as_str()?.lines().rfind(|line| !line.trim().is_empty())?;
    Some(line.trim().to_owned())
}

/// True for tools whose exit code determines if they succeeded.
fn runs_program(kind: ToolKind) -> bool {
    matches!(kind, ToolKind::Shell | ToolKind::Python | ToolKind::Script | ToolKind::Container)
}

fn is_word(status: &str, words: &[&str]) -> bool {
    words.iter().any(|word| status.eq_ignore_ascii_case(word))
}

fn is_number(value: &Json) -> bool {
    value.as_f64().is_some()
}

fn is_blank(value: &Json) -> bool {
    value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty())
}

fn has_known_status(map: &JsonMap) -> bool {
    let status = map.get("status").and_then(Json::as_str).unwrap_or_default();
    is_word(status, &SUCCESS_STATUSES) || is_word(status, &FAILURE_STATUSES)
}

fn is_envelope(map: &JsonMap) -> bool {
    let has_content = map.contains_key("context") || map.contains_key("reference");
    has_content && has_known_status(map) && map.keys().all(|key| ENVELOPE_KEYS.contains(&&**key))
}

fn is_tool_report(map: &JsonMap) -> bool {
    let has_duration = map.get("duration_ms").is_some_and(is_number);
    let has_known_keys = map.keys().all(|key| TOOL_REPORT_KEYS.contains(&&**key));
    has_known_status(map) && (has_known_keys || (has_duration && map.contains_key("data")))
}

/// Returns the address in a value that names itself a reference. The data of tasks may contain
/// addresses too, so other maps are not references.
fn find_reference_of_kind(value: &Json) -> Option<&str> {
    let kind = value.get("kind")?.as_str()?;
    REFERENCE_KINDS.contains(&kind).then(|| find_uri(value)).flatten()
}

fn find_uri(map: &Json) -> Option<&str> {
    REFERENCE_KEYS.iter().find_map(|key| map.get(key).and_then(Json::as_str))
}

#[cfg(test)]
mod tests;
