//! Operations on the server, tokens, the event stream, and the internal API.

use noetl_api::health::ReadinessResponse;
use noetl_api::paths;
use noetl_api::secret_audit::SecretAuditQuery;
use noetl_api::system::HealthResponse;
use noetl_types::ErrorCode::{Forbidden, NotFound, NotReady, NotSupported, RetentionDropped};
use noetl_types::Json;
use serde_json::json;

use super::operations::{
    OperationSpec, OperationTag, delete_operation, get_operation, post_operation,
};
use super::queries::{
    DeadOutboxParams, FeedParams, FollowAllParams, OutboxParams, PageParams, QuarantineParams,
    ShardParams,
};
use super::runs::LIVE_MEDIA_TYPES;

pub(super) fn platform_operations() -> Vec<OperationSpec> {
    let mut all = health_operations();
    all.extend(server_operations());
    all.extend(identity_operations());
    all.extend(stream_operations());
    all.extend(outbox_operations());
    all.extend(internal_operations());
    all
}

fn health_operations() -> Vec<OperationSpec> {
    let tag = OperationTag::Server;
    vec![
        get_operation("livez", paths::LIVEZ, tag, "Liveness probe"),
        get_operation("health", paths::HEALTH, tag, "Liveness probe (alias)"),
        get_operation(
            "readyz",
            paths::READYZ,
            tag,
            "Readiness probe, with the result of each check",
        )
        .with_response::<ReadinessResponse>()
        .also_status(503),
        get_operation("metrics", paths::METRICS, tag, "Get metrics for Prometheus")
            .with_response::<String>()
            .with_media_types(&["application/openmetrics-text; version=1.0.0; charset=utf-8"]),
        get_operation(
            "api_health",
            paths::API_HEALTH,
            tag,
            "Get the health of the server (classic clients)",
        )
        .with_response::<HealthResponse>()
        .also_status(503),
    ]
}

fn server_operations() -> Vec<OperationSpec> {
    let tag = OperationTag::Server;
    vec![
        get_operation("server_status", paths::STATUS, tag, "Get the status of the server"),
        get_operation(
            "pool_status",
            paths::POOL_STATUS,
            tag,
            "Get the status of the server (classic clients)",
        ),
        get_operation(
            "dashboard_stats",
            paths::DASHBOARD_STATS,
            tag,
            "Get the statistics of the dashboard",
        ),
        get_operation(
            "dashboard_widgets",
            paths::DASHBOARD_WIDGETS,
            tag,
            "Get the widgets of the dashboard",
        ),
        get_operation("shard_info", paths::SHARD_INFO, tag, "Get the shard of an execution")
            .query::<ShardParams>()
            .required_params(&["execution_id"]),
        get_operation("openapi", paths::OPENAPI, tag, "Get this document").with_response::<Json>(),
        get_operation(
            "json_schema",
            paths::SCHEMA,
            tag,
            "Get the JSON Schema `playbook.json` or `config.json`",
        )
        .with_response::<Json>()
        .error_codes(&[NotFound, NotSupported]),
        get_operation(
            "validate_database",
            paths::DB_VALIDATE,
            tag,
            "Check that the tables of the database exist",
        ),
        post_operation(
            "init_database",
            paths::DB_INIT,
            tag,
            "Create missing tables of the database, as at server start",
        )
        .details("Calling it again has no effect."),
        get_operation("docs", paths::DOCS, tag, "Get this document as an HTML page")
            .with_response::<String>()
            .with_media_types(&["text/html; charset=utf-8"]),
    ]
}

fn identity_operations() -> Vec<OperationSpec> {
    let tag = OperationTag::Identities;
    vec![
        get_operation("whoami", paths::WHOAMI, tag, "Get the identity and scopes of the caller"),
        post_operation(
            "validate_session",
            paths::AUTH_VALIDATE,
            tag,
            "Validate a token (published console)",
        )
        .details("The token may be in the body, in `Authorization` or in `X-Session-Token`.")
        .read_only(),
        post_operation(
            "check_session_access",
            paths::AUTH_CHECK_ACCESS,
            tag,
            "Check if a token allows an action on a playbook (published console)",
        )
        .example(json!({ "playbook_path": "examples/hello", "permission_type": "execute" }))
        .read_only(),
        get_operation(
            "list_tokens",
            paths::TOKENS,
            tag,
            "List the tokens of the tenant without their secrets",
        )
        .query::<PageParams>(),
        post_operation(
            "create_token",
            paths::TOKENS,
            tag,
            "Create a token; only this response contains its secret",
        )
        .error_codes(&[Forbidden, NotFound])
        .example(json!({ "name": "ci", "scopes": ["exec:run", "exec:read"], "ttl_days": 30 })),
        delete_operation(
            "revoke_token",
            paths::TOKEN,
            tag,
            "Revoke a token (takes effect within seconds)",
        ),
        get_operation(
            "list_audit_entries",
            paths::AUDIT,
            tag,
            "List the audit log of the tenant, newest first",
        )
        .query::<PageParams>(),
    ]
}

fn stream_operations() -> Vec<OperationSpec> {
    let tag = OperationTag::Stream;
    vec![
        get_operation("follow_events", paths::EVENTS_STREAM, tag, "Stream all events of the tenant as they are committed")
            .details("Sends server-sent events, or JSON lines if `Accept` is `application/jsonl`. The id of an event is its feed position. Resume with `Last-Event-ID`.")
            .query::<FollowAllParams>()
            .with_response::<String>()
            .with_media_types(LIVE_MEDIA_TYPES),
        get_operation("stream_status", paths::STREAM_STATUS, tag, "Get the status of the event stream"),
        get_operation("stream_feed", paths::STREAM_FEED, tag, "Read the feed of all events").query::<FeedParams>(),
        get_operation("stream_event", paths::STREAM_EVENT, tag, "Get an event in the format of the stream, without size limit")
            .with_response::<Json>()
            .error_codes(&[RetentionDropped]),
        get_operation("internal_stream_status", paths::INTERNAL_STREAM_STATUS, tag, "Get the status of the event stream (operators)"),
        post_operation("rebuild_stream", paths::STREAM_REBUILD, tag, "Publish the whole log again")
            .error_codes(&[NotReady]),
    ]
}

fn outbox_operations() -> Vec<OperationSpec> {
    let tag = OperationTag::Platform;
    vec![
        get_operation(
            "list_outbox",
            paths::OUTBOX,
            tag,
            "List outbox rows, ordered by id",
        )
        .query::<OutboxParams>(),
        post_operation(
            "claim_outbox",
            paths::OUTBOX_CLAIM,
            tag,
            "Claim outbox rows for a publisher",
        ),
        post_operation(
            "mark_published",
            paths::OUTBOX_MARK_PUBLISHED,
            tag,
            "Mark outbox rows as published",
        ),
        post_operation(
            "mark_failed",
            paths::OUTBOX_MARK_FAILED,
            tag,
            "Mark an outbox row as failed",
        ),
        get_operation(
            "outbox_pending_count",
            paths::OUTBOX_PENDING_COUNT,
            tag,
            "Count the outbox rows that can be claimed",
        ),
        get_operation(
            "outbox_dead",
            paths::OUTBOX_DEAD,
            tag,
            "List outbox rows that reached the maximum number of attempts",
        )
        .query::<DeadOutboxParams>(),
        get_operation(
            "list_quarantine",
            paths::QUARANTINE,
            tag,
            "List events in quarantine, oldest first",
        )
        .details(
            "Contains events that could not be copied into the log, and events that the broker rejects. They \
             have the same retention as published outbox rows.",
        )
        .query::<QuarantineParams>(),
        post_operation(
            "replay_outbox",
            paths::OUTBOX_REPLAY,
            tag,
            "Make dead outbox rows claimable again",
        ),
        post_operation(
            "discard_outbox",
            paths::OUTBOX_DISCARD,
            tag,
            "Discard dead outbox rows",
        ),
    ]
}

fn internal_operations() -> Vec<OperationSpec> {
    let tag = OperationTag::Platform;
    vec![
        post_operation(
            "project_events",
            paths::EVENTS_PROJECT,
            tag,
            "Copy events from elsewhere into the log",
        ),
        post_operation(
            "materialize_events",
            paths::EVENTS_MATERIALIZE,
            tag,
            "Copy events of classic workers into the log",
        ),
        post_operation(
            "advance_projection",
            paths::PROJECTION_ADVANCE,
            tag,
            "Update read models from their logs",
        ),
        post_operation("purge", paths::CLEANUP_PURGE, tag, "Delete data beyond its retention"),
        post_operation(
            "rotate_wallet",
            paths::WALLET_ROTATE,
            tag,
            "Encrypt the secrets of all tenants with the current key",
        ),
        get_operation(
            "wallet_key_status",
            paths::WALLET_KEY_STATUS,
            tag,
            "Count secrets per encryption key",
        ),
        get_operation(
            "secret_audit",
            paths::SECRET_AUDIT,
            tag,
            "List operations on secrets of all tenants, newest first",
        )
        .query::<SecretAuditQuery>(),
        get_operation("list_cells", paths::CELLS, tag, "List cells (always empty)"),
    ]
}
