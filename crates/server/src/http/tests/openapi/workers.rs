//! Operations of workers, current and classic.

use noetl_api::paths;
use noetl_api::query::{CommandsQuery, PoolsQuery};
use noetl_types::ErrorCode::{
    ActiveClaim, AlreadyTerminal, Forbidden, IdConflict, NotFound, OwnedByOther, Paused,
    RetentionDropped, StaleAttempt,
};
use serde_json::json;

use super::operations::{
    OperationSpec, OperationTag, delete_operation, get_operation, post_operation,
};

pub(super) fn worker_operations() -> Vec<OperationSpec> {
    let mut all = pool_operations();
    all.extend(command_operations());
    all.extend(classic_operations());
    all
}

fn pool_operations() -> Vec<OperationSpec> {
    let tag = OperationTag::Workers;
    vec![
        post_operation("register_worker", paths::POOL_REGISTER, tag, "Register a worker")
            .error_codes(&[OwnedByOther, Forbidden])
            .example(
                json!({ "name": "worker-1", "labels": { "pool_name": "shared" }, "capacity": 8 }),
            ),
        post_operation(
            "heartbeat_worker",
            paths::POOL_HEARTBEAT,
            tag,
            "Send a heartbeat of a worker",
        )
        .details("On `not_found`, the worker must drop its work and register again.")
        .error_codes(&[NotFound])
        .example(json!({ "name": "worker-1" })),
        post_operation(
            "deregister_worker",
            paths::POOL_DEREGISTER,
            tag,
            "Deregister a worker; its leases end immediately",
        )
        .example(json!({ "name": "worker-1" })),
        delete_operation(
            "deregister_worker_classic",
            paths::POOL_DEREGISTER,
            tag,
            "Deregister a worker (classic workers)",
        )
        .deprecated(),
        post_operation(
            "drain_worker",
            paths::POOL_DRAIN,
            tag,
            "Drain a worker: it finishes its commands and stops",
        )
        .error_codes(&[NotFound])
        .example(json!({ "name": "worker-1" })),
        get_operation("list_pools", paths::POOLS, tag, "List workers and the load of their pools")
            .query::<PoolsQuery>(),
    ]
}

fn command_operations() -> Vec<OperationSpec> {
    let tag = OperationTag::Workers;
    vec![
        get_operation("list_commands", paths::COMMANDS, tag, "List commands, oldest first")
            .query::<CommandsQuery>(),
        post_operation("lease_commands", paths::COMMANDS_LEASE, tag, "Lease commands")
            .details("If no command is available, waits up to `wait_ms`.")
            .error_codes(&[Forbidden])
            .example(json!({ "worker_id": "worker-1", "pool": "shared", "max": 1 })),
        post_operation(
            "renew_commands",
            paths::COMMANDS_HEARTBEAT,
            tag,
            "Renew the leases of commands",
        )
        .example(json!({ "worker_id": "worker-1", "leases": [] })),
        post_operation(
            "report_commands",
            paths::COMMANDS_REPORT,
            tag,
            "Report results of commands, and lease the next ones",
        )
        .details("Reports are processed independently; the response contains the outcome of each.")
        .example(json!({ "worker_id": "worker-1", "reports": [] })),
        post_operation(
            "store_output",
            paths::COMMANDS_OUTPUT,
            tag,
            "Store output of running commands",
        )
        .details("Only the holder of a lease can store output. The first 768 KiB and the last 256 KiB of an attempt are kept, and 64 MiB per execution.")
        .example(json!({ "worker_id": "worker-1", "outputs": [] })),
    ]
}

fn classic_operations() -> Vec<OperationSpec> {
    let tag = OperationTag::ClassicWorkers;
    vec![
        get_operation("classic_command", paths::COMMAND, tag, "Get a command by the event that issued it"),
        post_operation("claim_command", paths::COMMAND_CLAIM, tag, "Claim a command")
            .error_codes(&[ActiveClaim, AlreadyTerminal, Paused, OwnedByOther, Forbidden])
            .example(json!({ "worker_id": "worker-1" })),
        post_operation("post_event", paths::EVENTS, tag, "Post an event")
            .error_codes(&[NotFound, RetentionDropped, IdConflict, StaleAttempt, Forbidden])
            .example(json!({ "execution_id": "1", "step": "start", "event_type": "call.done", "payload": {} })),
        post_operation("post_events", paths::EVENTS_BATCH, tag, "Post several events of one execution")
            .error_codes(&[NotFound, RetentionDropped, IdConflict, StaleAttempt, Forbidden])
            .example(json!({ "execution_id": "1", "events": [] })),
    ]
}
