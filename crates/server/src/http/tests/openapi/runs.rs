//! Operations on executions and their data.

use noetl_api::execution::ExecutionSummary;
use noetl_api::explain::ExplainQuery;
use noetl_api::output::OutputQuery;
use noetl_api::paths;
use noetl_api::query::{ApprovalsQuery, EventsQuery, ExecutionDetailQuery, ExecutionsQuery};
use noetl_api::signal::ApprovalList;
use noetl_types::ErrorCode::{
    AlreadyDecided, AlreadyTerminal, DedupMismatch, Forbidden, IllegalTransition, NotFound,
    OwnedByOther, RetentionDropped, TooLarge, Validation,
};
use noetl_types::Json;
use serde_json::json;

use super::operations::{
    OperationSpec, OperationTag, delete_operation, get_operation, post_operation, put_operation,
};
use super::queries::{FollowOutputParams, FollowParams, ReplayParams, ResolveParams};

pub(super) const LIVE_MEDIA_TYPES: &[&str] = &["text/event-stream", "application/jsonl"];

const PAGE_HEADERS: &[(&str, &str)] = &[
    ("X-Next-Cursor", "Value of `cursor` for the next page; absent on the last page."),
    ("Link", "URL of the next page, with `rel=\"next\"`."),
];

pub(super) fn execution_operations() -> Vec<OperationSpec> {
    let mut all = start_operations();
    all.extend(read_operations());
    all.extend(control_operations());
    all.extend(signal_operations());
    all.extend(data_operations());
    all
}

fn start_operations() -> Vec<OperationSpec> {
    let tag = OperationTag::Runs;
    vec![
        post_operation("execute", paths::EXECUTE, tag, "Start an execution")
            .details("Select the playbook by `path` and optional `version`, or by `catalog_id`. `payload` is merged into the workload. A response means that the execution is stored durably.")
            .error_codes(&[NotFound, Forbidden, DedupMismatch, Validation])
            .example(json!({ "path": "examples/hello", "payload": { "who": "Ada" } })),
        post_operation("execute_batch", paths::EXECUTE_BATCH, tag, "Start several executions")
            .details("Each item is a body of `POST /api/execute`. Items are processed independently; the response contains the outcome of each.")
            .example(json!({ "executions": [{ "path": "examples/hello" }] })),
    ]
}

fn read_operations() -> Vec<OperationSpec> {
    let tag = OperationTag::Runs;
    vec![
        get_operation("list_executions", paths::EXECUTIONS, tag, "List executions, newest first")
            .query::<ExecutionsQuery>()
            .with_response::<Vec<ExecutionSummary>>()
            .headers(PAGE_HEADERS),
        get_operation("execution", paths::EXECUTION, tag, "Get an execution with its workload and a page of its events")
            .query::<ExecutionDetailQuery>(),
        get_operation("execution_status", paths::EXECUTION_STATUS, tag, "Get the status of an execution, with its variables and its result or error"),
        get_operation("execution_events", paths::EXECUTION_EVENTS, tag, "List the events of an execution")
            .details("Pass `next_cursor` as `cursor` to get the next page. It is absent on the last page.")
            .query::<EventsQuery>(),
        get_operation("follow_execution", paths::EXECUTION_EVENTS_STREAM, tag, "Stream the events of an execution until it ends")
            .details("Sends server-sent events, or JSON lines if `Accept` is `application/jsonl`. Each event is an `EventView` with its `seq` as id. Resume with `Last-Event-ID`.")
            .query::<FollowParams>()
            .with_response::<String>()
            .with_media_types(LIVE_MEDIA_TYPES),
        get_operation("execution_logs", paths::EXECUTION_LOGS, tag, "List the output that tasks of an execution sent while they ran")
            .details("Tasks that run for less than about half a second send none: their output is only in their result. Pass `next_after` as `after` to get the next page.")
            .query::<OutputQuery>(),
        get_operation("follow_logs", paths::EXECUTION_LOGS_STREAM, tag, "Stream the output of the tasks of an execution until it ends")
            .details("Sends server-sent events, or JSON lines if `Accept` is `application/jsonl`. Each event is an `OutputView` with its `position` as id. Resume with `Last-Event-ID`.")
            .query::<FollowOutputParams>()
            .with_response::<String>()
            .with_media_types(LIVE_MEDIA_TYPES),
        get_operation("explain_execution", paths::EXECUTION_EXPLAIN, tag, "Explain why an execution waits, or how it ended")
            .query::<ExplainQuery>(),
        post_operation("analyze_execution", paths::EXECUTION_ANALYZE, tag, "Explain an execution, with a sample of its events (classic clients)")
            .details("Selects `event_sample_size` of the last `max_events` events: failures first, then the newest.")
            .read_only(),
        get_operation("replay_state", paths::REPLAY_STATE, tag, "Get the state of an execution at a point of its log")
            .details("The state is computed from the log, with a checksum.")
            .query::<ReplayParams>()
            .required_params(&["execution_id"])
            .error_codes(&[NotFound, RetentionDropped]),
        get_operation("is_cancelled", paths::EXECUTION_CANCELLATION, tag, "Check if an execution was cancelled"),
    ]
}

fn control_operations() -> Vec<OperationSpec> {
    let tag = OperationTag::Control;
    vec![
        post_operation(
            "cancel_execution",
            paths::EXECUTION_CANCEL,
            tag,
            "Cancel an execution and the child executions that it waits for",
        )
        .details("If the execution has a final step, that runs first, and the status is 'cancelling'. Cancelling again, or with `force`, ends the final step.")
        .error_codes(&[AlreadyTerminal])
        .example(json!({ "reason": "no longer needed" })),
        post_operation(
            "stop_execution",
            paths::EXECUTION_STOP,
            tag,
            "Cancel an execution (classic clients)",
        )
        .error_codes(&[AlreadyTerminal]),
        post_operation(
            "pause_execution",
            paths::EXECUTION_PAUSE,
            tag,
            "Pause an execution: running commands finish, new ones are not started",
        )
        .error_codes(&[IllegalTransition, AlreadyTerminal]),
        post_operation(
            "resume_execution",
            paths::EXECUTION_RESUME,
            tag,
            "Resume a paused execution",
        )
        .error_codes(&[IllegalTransition, AlreadyTerminal]),
        post_operation(
            "rerun_execution",
            paths::EXECUTION_RERUN,
            tag,
            "Rerun an execution with the same playbook and input",
        ),
        post_operation(
            "finalize_execution",
            paths::EXECUTION_FINALIZE,
            tag,
            "Force an execution to end with a given status",
        )
        .error_codes(&[IllegalTransition, AlreadyTerminal])
        .example(json!({ "status": "FAILED", "reason": "its worker is gone for good" })),
        post_operation(
            "clean_up_executions",
            paths::EXECUTIONS_CLEANUP,
            tag,
            "Cancel idle executions",
        )
        .example(json!({ "older_than_minutes": 60, "dry_run": true })),
    ]
}

fn signal_operations() -> Vec<OperationSpec> {
    let tag = OperationTag::Signals;
    vec![
        post_operation(
            "signal_execution",
            paths::EXECUTION_SIGNAL,
            tag,
            "Send a signal to an execution",
        )
        .details("`delivered` is true if the execution was waiting for the signal. Otherwise the signal is stored until the execution waits for it.")
        .error_codes(&[AlreadyTerminal])
        .example(json!({ "name": "paid", "key": "7", "payload": { "sum": 30 } })),
        post_operation(
            "broadcast_signal",
            paths::SIGNALS,
            tag,
            "Send a signal to all executions that wait for it",
        )
        .example(json!({ "name": "paid", "key": "7" })),
        get_operation(
            "list_approvals",
            paths::APPROVALS,
            tag,
            "List open approvals",
        )
        .details("Pass `next_cursor` as `cursor` to get the next page. It is absent on the last page.")
        .query::<ApprovalsQuery>()
        .with_response::<ApprovalList>()
        .headers(PAGE_HEADERS),
        post_operation(
            "approve_execution",
            paths::EXECUTION_APPROVE,
            tag,
            "Submit the decision of an approval",
        )
        .error_codes(&[AlreadyDecided, AlreadyTerminal, Forbidden])
        .example(json!({ "step": "ask", "decision": "approve", "values": { "account": "A1" } })),
    ]
}

fn data_operations() -> Vec<OperationSpec> {
    let tag = OperationTag::Data;
    vec![
        get_operation("resolve_result", paths::RESULT_RESOLVE, tag, "Get a stored result")
            .details("Returns the data as stored. Data that is not JSON is returned as `application/octet-stream`.")
            .query::<ResolveParams>()
            .required_params(&["ref"])
            .with_response::<Json>()
            .with_media_types(&["application/json", "application/octet-stream"])
            .error_codes(&[NotFound, RetentionDropped]),
        put_operation("put_result", paths::RESULT_PUT, tag, "Store a result of an execution")
            .error_codes(&[TooLarge, OwnedByOther])
            .example(json!({ "name": "rows", "data": [1, 2, 3] })),
        get_operation("list_variables", paths::VARS, tag, "List the variables of an execution"),
        post_operation("set_variables", paths::VARS, tag, "Set variables of an execution")
            .details("The body is `{name: value, …}` or `{variables: [{var_name, var_value, var_type?, source_step?}]}`.")
            .example(json!({ "rows": 3 })),
        delete_operation("clear_variables", paths::VARS, tag, "Delete all variables of an execution"),
        get_operation("get_variable", paths::VAR, tag, "Get a variable of an execution"),
        delete_operation("delete_variable", paths::VAR, tag, "Delete a variable of an execution"),
    ]
}
