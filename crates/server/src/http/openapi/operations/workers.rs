//! Workers, of both wires.

use noetl_api::paths;
use noetl_api::query::{CommandsQuery, PoolsQuery};
use noetl_types::ErrorCode::{
    ActiveClaim, AlreadyTerminal, Forbidden, IdConflict, NotFound, OwnedByOther, Paused,
    RetentionDropped, StaleAttempt,
};
use serde_json::json;

use super::{Operation, Tag, delete, get, post};

pub(super) fn operations() -> Vec<Operation> {
    let mut all = pools();
    all.extend(commands());
    all.extend(classic());
    all
}

fn pools() -> Vec<Operation> {
    let tag = Tag::Workers;
    vec![
        post(
            "register_worker",
            paths::POOL_REGISTER,
            tag,
            "Makes a worker known",
        )
        .fails(&[OwnedByOther, Forbidden])
        .example(json!({ "name": "worker-1", "labels": { "pool_name": "shared" }, "capacity": 8 })),
        post(
            "worker_alive",
            paths::POOL_HEARTBEAT,
            tag,
            "Notes that a worker lives",
        )
        .details("`not_found` means: drop all work and register again.")
        .fails(&[NotFound])
        .example(json!({ "name": "worker-1" })),
        post(
            "worker_leaves",
            paths::POOL_DEREGISTER,
            tag,
            "Lets a worker go; its leases end at once",
        )
        .example(json!({ "name": "worker-1" })),
        delete(
            "worker_leaves_classic",
            paths::POOL_DEREGISTER,
            tag,
            "The same, as classic workers do",
        )
        .deprecated(),
        post(
            "drain_worker",
            paths::POOL_DRAIN,
            tag,
            "Asks a worker to finish and leave",
        )
        .fails(&[NotFound])
        .example(json!({ "name": "worker-1" })),
        get(
            "list_pools",
            paths::POOLS,
            tag,
            "The workers, and how busy their pools are",
        )
        .query::<PoolsQuery>(),
    ]
}

fn commands() -> Vec<Operation> {
    let tag = Tag::Workers;
    vec![
        get(
            "list_commands",
            paths::COMMANDS,
            tag,
            "The queue, oldest first",
        )
        .query::<CommandsQuery>(),
        post(
            "lease_commands",
            paths::COMMANDS_LEASE,
            tag,
            "Hands out commands",
        )
        .details("Waits up to `wait_ms` where there are none.")
        .fails(&[Forbidden])
        .example(json!({ "worker_id": "worker-1", "pool": "shared", "max": 1 })),
        post(
            "keep_commands",
            paths::COMMANDS_HEARTBEAT,
            tag,
            "Keeps commands: their leases are renewed",
        )
        .example(json!({ "worker_id": "worker-1", "leases": [] })),
        post(
            "report_commands",
            paths::COMMANDS_REPORT,
            tag,
            "Takes what became of commands, and hands out the next",
        )
        .details("Each report stands for itself; the answer says of each whether it counts.")
        .example(json!({ "worker_id": "worker-1", "reports": [] })),
    ]
}

fn classic() -> Vec<Operation> {
    let tag = Tag::ClassicWorkers;
    vec![
        get("classic_command", paths::COMMAND, tag, "A command, by the event that issued it"),
        post("claim_command", paths::COMMAND_CLAIM, tag, "Gives a command to a worker that names it")
            .fails(&[ActiveClaim, AlreadyTerminal, Paused, OwnedByOther, Forbidden])
            .example(json!({ "worker_id": "worker-1" })),
        post("post_event", paths::EVENTS, tag, "Takes an event of a worker")
            .fails(&[NotFound, RetentionDropped, IdConflict, StaleAttempt, Forbidden])
            .example(json!({ "execution_id": "1", "step": "start", "event_type": "call.done", "payload": {} })),
        post("post_events", paths::EVENTS_BATCH, tag, "Takes several events of one run")
            .fails(&[NotFound, RetentionDropped, IdConflict, StaleAttempt, Forbidden])
            .example(json!({ "execution_id": "1", "events": [] })),
    ]
}
