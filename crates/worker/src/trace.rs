//! The trace that a command belongs to, told to those whom its tasks call.

use noetl_api::command::LeasedCommand;
use noetl_playbook::model::ToolKind;
use noetl_types::trace::TraceContext;
use noetl_types::{Json, JsonMap};

/// The header that names a place in a trace.
const TRACEPARENT: &str = "traceparent";

/// Lets the request of a task say which attempt it comes from, where its run is part of a trace and
/// the task says nothing else.
pub(crate) fn tell(command: &LeasedCommand, kind: ToolKind, config: &mut JsonMap) {
    let given = command.meta.trace.as_deref().and_then(TraceContext::parse);
    let Some(given) = given.filter(|_| kind == ToolKind::Http) else {
        return;
    };
    let empty = Json::empty_map();
    let headers = config.get("headers").unwrap_or(&empty);
    let Some(headers) = headers.as_map() else {
        // The tool says what is wrong with it.
        return;
    };
    if headers
        .keys()
        .any(|name| name.eq_ignore_ascii_case(TRACEPARENT))
    {
        return;
    }
    let attempt = TraceContext::of_run(command.execution_id, Some(given))
        .of_attempt(command.command_id, command.attempt);
    let mut headers = headers.clone();
    headers.insert(TRACEPARENT.into(), Json::from(attempt.to_string()));
    config.insert("headers".into(), headers.into());
}
