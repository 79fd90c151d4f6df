//! Propagation of the trace of a command to the services that its tasks call.

use noetl_api::command::LeasedCommand;
use noetl_playbook::model::ToolKind;
use noetl_types::trace::TraceContext;
use noetl_types::{Json, JsonMap};

/// The header with the position in a trace.
const TRACEPARENT_HEADER: &str = "traceparent";

/// Adds the trace header of the attempt to the request of a task, if the execution is part of a
/// trace and the task sets no such header.
pub(crate) fn add_traceparent(command: &LeasedCommand, kind: ToolKind, config: &mut JsonMap) {
    let trace = command.meta.trace.as_deref().and_then(TraceContext::parse);
    let Some(trace) = trace.filter(|_| kind == ToolKind::Http) else {
        return;
    };
    let empty = Json::empty_map();
    let headers = config.get("headers").unwrap_or(&empty);
    let Some(headers) = headers.as_map() else {
        // The tool reports the invalid headers.
        return;
    };
    if headers.keys().any(|name| name.eq_ignore_ascii_case(TRACEPARENT_HEADER)) {
        return;
    }
    let attempt = TraceContext::for_execution(command.execution_id, Some(trace))
        .for_attempt(command.command_id, command.attempt);
    let mut headers = headers.clone();
    headers.insert(TRACEPARENT_HEADER.into(), Json::from(attempt.to_string()));
    config.insert("headers".into(), headers.into());
}
