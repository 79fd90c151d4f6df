//! Runs: begun, looked at, steered, and what is kept beside them.

use noetl_api::execution::ExecutionLine;
use noetl_api::explain::ExplainQuery;
use noetl_api::paths;
use noetl_api::query::{ApprovalsQuery, DetailQuery, EventsQuery, ExecutionsQuery};
use noetl_api::signal::ApprovalList;
use noetl_types::ErrorCode::{
    AlreadyDecided, AlreadyTerminal, DedupMismatch, Forbidden, IllegalTransition, NotFound,
    OwnedByOther, RetentionDropped, TooLarge, Validation,
};
use noetl_types::Json;
use serde_json::json;

use super::queries::{Follow, Replay, Resolve};
use super::{Operation, Tag, delete, get, post, put};

pub(super) const LIVE: &[&str] = &["text/event-stream", "application/jsonl"];

const AS_OF: &[(&str, &str)] = &[(
    "X-Seq",
    "The place of the log that the answer is of: the end that it had, or where `at` is.",
)];

const NEXT_PAGE: &[(&str, &str)] = &[
    (
        "X-Next-Cursor",
        "The `cursor` of the next page; absent at the end.",
    ),
    ("Link", "The address of the next page, as `rel=\"next\"`."),
];

pub(super) fn operations() -> Vec<Operation> {
    let mut all = starting();
    all.extend(looking());
    all.extend(steering());
    all.extend(signals());
    all.extend(data());
    all
}

fn starting() -> Vec<Operation> {
    let tag = Tag::Runs;
    vec![
        post("execute", paths::EXECUTE, tag, "Starts a run")
            .details("Of `path` (and `version`), or of `catalog_id`, with `payload` laid over the workload. An answer means that the run is in the log for good.")
            .fails(&[NotFound, Forbidden, DedupMismatch, Validation])
            .example(json!({ "path": "examples/hello", "payload": { "who": "Ada" } })),
        post("execute_batch", paths::EXECUTE_BATCH, tag, "Starts many runs, independent of each other")
            .details("Each item is the body of `POST /api/execute`; what became of each is told by itself.")
            .example(json!({ "executions": [{ "path": "examples/hello" }] })),
    ]
}

fn looking() -> Vec<Operation> {
    let tag = Tag::Runs;
    vec![
        get("list_executions", paths::EXECUTIONS, tag, "The runs, newest first")
            .query::<ExecutionsQuery>()
            .answers::<Vec<ExecutionLine>>()
            .headers(NEXT_PAGE),
        get("execution", paths::EXECUTION, tag, "A run with its workload and a page of its log")
            .query::<DetailQuery>()
            .headers(AS_OF),
        get("execution_status", paths::EXECUTION_STATUS, tag, "Where a run stands, its variables, its result or error")
            .headers(AS_OF),
        get("execution_events", paths::EXECUTION_EVENTS, tag, "The log of a run")
            .details("`next_cursor` is the `cursor` of the next page, and absent at the end.")
            .query::<EventsQuery>()
            .headers(AS_OF),
        get("follow_execution", paths::EXECUTION_EVENTS_STREAM, tag, "The log of a run as it grows, to its end")
            .details("Server-sent events, or lines of JSON where `Accept` is `application/jsonl`. Each event is an `EventView`; its id is its `seq`, by which `Last-Event-ID` goes on.")
            .query::<Follow>()
            .answers::<String>()
            .of_media(LIVE),
        get("explain_execution", paths::EXECUTION_EXPLAIN, tag, "Why a run waits, or how it came to its end")
            .query::<ExplainQuery>()
            .headers(AS_OF),
        post("analyze_execution", paths::EXECUTION_ANALYZE, tag, "The same with some of its events, as classic clients ask")
            .details("Of the last `max_events` events it shows `event_sample_size`: those that tell of a failure, then the newest.")
            .only_reads(),
        get("replay_state", paths::REPLAY_STATE, tag, "What a run looked like at any moment of it")
            .details("Folded from its log, with a checksum.")
            .query::<Replay>()
            .needs(&["execution_id"])
            .fails(&[NotFound, RetentionDropped]),
        get("is_cancelled", paths::EXECUTION_CANCELLATION, tag, "Whether somebody ended a run"),
    ]
}

fn steering() -> Vec<Operation> {
    let tag = Tag::Steering;
    vec![
        post(
            "cancel_execution",
            paths::EXECUTION_CANCEL,
            tag,
            "Ends a run, and the runs that it waits for",
        )
        .details("Doing it again changes nothing. Leaves a trail.")
        .fails(&[AlreadyTerminal])
        .example(json!({ "reason": "no longer needed" })),
        post(
            "stop_execution",
            paths::EXECUTION_STOP,
            tag,
            "Ends a run, as classic clients do",
        )
        .fails(&[AlreadyTerminal]),
        post(
            "pause_execution",
            paths::EXECUTION_PAUSE,
            tag,
            "Holds a run: nothing new is started, what runs ends",
        )
        .fails(&[IllegalTransition, AlreadyTerminal]),
        post(
            "resume_execution",
            paths::EXECUTION_RESUME,
            tag,
            "Lets a run go on",
        )
        .fails(&[IllegalTransition, AlreadyTerminal]),
        post(
            "rerun_execution",
            paths::EXECUTION_RERUN,
            tag,
            "The same playbook and input once more",
        ),
        post(
            "finalize_execution",
            paths::EXECUTION_FINALIZE,
            tag,
            "Ends a run that cannot end by itself",
        )
        .fails(&[IllegalTransition, AlreadyTerminal])
        .example(json!({ "status": "FAILED", "reason": "its worker is gone for good" })),
        post(
            "clean_up_executions",
            paths::EXECUTIONS_CLEANUP,
            tag,
            "Ends runs that nothing happens to any more",
        )
        .example(json!({ "older_than_minutes": 60, "dry_run": true })),
    ]
}

fn signals() -> Vec<Operation> {
    let tag = Tag::Signals;
    vec![
        post(
            "signal_execution",
            paths::EXECUTION_SIGNAL,
            tag,
            "Sends a signal to a run",
        )
        .details("`delivered` says whether it waited for it; else it is kept.")
        .fails(&[AlreadyTerminal])
        .example(json!({ "name": "paid", "key": "7", "payload": { "sum": 30 } })),
        post(
            "broadcast_signal",
            paths::SIGNALS,
            tag,
            "Sends a signal to every run that waits for it",
        )
        .example(json!({ "name": "paid", "key": "7" })),
        get(
            "list_approvals",
            paths::APPROVALS,
            tag,
            "What waits for a person",
        )
        .details("`next_cursor` is the `cursor` of the next page, and absent at the end.")
        .query::<ApprovalsQuery>()
        .answers::<ApprovalList>()
        .headers(NEXT_PAGE),
        post(
            "decide",
            paths::EXECUTION_APPROVE,
            tag,
            "Decides about something that a run waits for",
        )
        .fails(&[AlreadyDecided, AlreadyTerminal, Forbidden])
        .example(json!({ "step": "ask", "decision": "approve", "values": { "account": "A1" } })),
    ]
}

fn data() -> Vec<Operation> {
    let tag = Tag::Data;
    vec![
        get("resolve_result", paths::RESULT_RESOLVE, tag, "Data that is kept beside the log")
            .details("As it was kept. What is no JSON comes as `application/octet-stream`.")
            .query::<Resolve>()
            .needs(&["ref"])
            .answers::<Json>()
            .of_media(&["application/json", "application/octet-stream"])
            .fails(&[NotFound, RetentionDropped]),
        put("put_result", paths::RESULT_PUT, tag, "Keeps data beside the log of a run")
            .fails(&[TooLarge, OwnedByOther])
            .example(json!({ "name": "rows", "data": [1, 2, 3] })),
        get("list_variables", paths::VARS, tag, "The variables of a run"),
        post("set_variables", paths::VARS, tag, "Sets variables of a run")
            .details("Either `{name: value, …}`, or `{variables: [{var_name, var_value, var_type?, source_step?}]}`.")
            .example(json!({ "rows": 3 })),
        delete("clear_variables", paths::VARS, tag, "Forgets all variables of a run"),
        get("get_variable", paths::VAR, tag, "A variable of a run"),
        delete("delete_variable", paths::VAR, tag, "Forgets a variable of a run"),
    ]
}
