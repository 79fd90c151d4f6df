//! The server itself, its identities, the stream, and what the parts of the platform ask of each other.

use noetl_api::health::Ready;
use noetl_api::paths;
use noetl_api::secret_audit::SecretAuditQuery;
use noetl_api::system::HealthAnswer;
use noetl_types::ErrorCode::{Forbidden, NotFound, NotReady, NotSupported, RetentionDropped};
use noetl_types::Json;
use serde_json::json;

use super::queries::{Feed, FollowAll, Outbox, OutboxDead, Page, Quarantine, Shard};
use super::runs::LIVE;
use super::{Operation, Tag, delete, get, post};

pub(super) fn operations() -> Vec<Operation> {
    let mut all = health();
    all.extend(about());
    all.extend(identities());
    all.extend(stream());
    all.extend(outbox());
    all.extend(internal());
    all
}

fn health() -> Vec<Operation> {
    let tag = Tag::Server;
    vec![
        get("livez", paths::LIVEZ, tag, "The process lives"),
        get(
            "health",
            paths::HEALTH,
            tag,
            "The same, for probes that ask there",
        ),
        get(
            "readyz",
            paths::READYZ,
            tag,
            "Whether the server can work; each check by name",
        )
        .answers::<Ready>()
        .also(503),
        get(
            "metrics",
            paths::METRICS,
            tag,
            "What the server counts, for Prometheus",
        )
        .answers::<String>()
        .of_media(&["application/openmetrics-text; version=1.0.0; charset=utf-8"]),
        get(
            "api_health",
            paths::API_HEALTH,
            tag,
            "How the server is, as classic clients ask",
        )
        .answers::<HealthAnswer>()
        .also(503),
    ]
}

const NO_CONSOLE: &str = "Answers `forbidden` while NOETL_SQL_CONSOLE is off, and `not_supported` else: \
     nothing would keep a statement to its tenant and from secrets.";

fn about() -> Vec<Operation> {
    let tag = Tag::Server;
    vec![
        get(
            "server_status",
            paths::STATUS,
            tag,
            "What the server knows of itself",
        ),
        get(
            "pool_status",
            paths::POOL_STATUS,
            tag,
            "The same, as classic clients ask",
        ),
        get(
            "dashboard_stats",
            paths::DASHBOARD_STATS,
            tag,
            "How much there is of everything",
        ),
        get(
            "dashboard_widgets",
            paths::DASHBOARD_WIDGETS,
            tag,
            "The same as tiles",
        ),
        get(
            "shard_info",
            paths::SHARD_INFO,
            tag,
            "Where a run is placed among shards",
        )
        .query::<Shard>()
        .needs(&["execution_id"]),
        get("openapi", paths::OPENAPI, tag, "This document").answers::<Json>(),
        get(
            "json_schema",
            paths::SCHEMA,
            tag,
            "The JSON Schema of `playbook.json`, `subscription.json` or `config.json`",
        )
        .answers::<Json>()
        .fails(&[NotFound, NotSupported]),
        get(
            "validate_database",
            paths::DB_VALIDATE,
            tag,
            "Whether the tables of the database are there",
        ),
        post(
            "init_database",
            paths::DB_INIT,
            tag,
            "Prepares the database, as a server does when it starts",
        )
        .details("Doing it again changes nothing. Leaves a trail."),
        post(
            "sql_console",
            paths::SQL_CONSOLE,
            Tag::NotSupported,
            "This version has no SQL console",
        )
        .details(NO_CONSOLE)
        .fails(&[Forbidden, NotSupported]),
        get("docs", paths::DOCS, tag, "This document for people")
            .answers::<String>()
            .of_media(&["text/html; charset=utf-8"]),
    ]
}

fn identities() -> Vec<Operation> {
    let tag = Tag::Identities;
    vec![
        get(
            "whoami",
            paths::WHOAMI,
            tag,
            "Who the server takes the caller for, and what it may do",
        ),
        get(
            "list_tokens",
            paths::TOKENS,
            tag,
            "The tokens of the tenant, without their secrets",
        )
        .query::<Page>(),
        post(
            "create_token",
            paths::TOKENS,
            tag,
            "Makes a token, which is shown in this answer and never again",
        )
        .details("Leaves a trail.")
        .fails(&[Forbidden, NotFound])
        .example(json!({ "name": "ci", "scopes": ["exec:run", "exec:read"], "ttl_days": 30 })),
        delete("revoke_token", paths::TOKEN, tag, "Takes a token back").details("Leaves a trail."),
        get(
            "audit_trail",
            paths::AUDIT,
            tag,
            "What was done in the tenant, newest first",
        )
        .query::<Page>(),
    ]
}

fn stream() -> Vec<Operation> {
    let tag = Tag::Stream;
    vec![
        get("follow_events", paths::EVENTS_STREAM, tag, "All events of the tenant as they are committed")
            .details("Server-sent events, or lines of JSON where `Accept` is `application/jsonl`. The id of an event is its place among all of them, by which `Last-Event-ID` goes on.")
            .query::<FollowAll>()
            .answers::<String>()
            .of_media(LIVE),
        get("stream_status", paths::STREAM_STATUS, tag, "Where the stream of all events stands"),
        get("stream_feed", paths::STREAM_FEED, tag, "A part of the feed of all events").query::<Feed>(),
        get("stream_event", paths::STREAM_EVENT, tag, "An event as the stream carries it, whatever its size")
            .answers::<Json>()
            .fails(&[RetentionDropped]),
        get("stream_standing", paths::STREAM_STANDING, tag, "Where the stream of all events stands, for operators"),
        post("rebuild_stream", paths::STREAM_REBUILD, tag, "Has the whole log published again")
            .fails(&[NotReady]),
    ]
}

fn outbox() -> Vec<Operation> {
    let tag = Tag::Platform;
    vec![
        get(
            "list_outbox",
            paths::OUTBOX,
            tag,
            "Rows of the outbox, by id",
        )
        .query::<Outbox>(),
        post(
            "claim_outbox",
            paths::OUTBOX_CLAIM,
            tag,
            "Hands rows of the outbox to a publisher",
        ),
        post(
            "mark_published",
            paths::OUTBOX_MARK_PUBLISHED,
            tag,
            "Rows of the outbox are out",
        ),
        post(
            "mark_failed",
            paths::OUTBOX_MARK_FAILED,
            tag,
            "A row of the outbox could not be published",
        ),
        get(
            "outbox_pending_count",
            paths::OUTBOX_PENDING_COUNT,
            tag,
            "How many rows could be claimed",
        ),
        get(
            "outbox_dead",
            paths::OUTBOX_DEAD,
            tag,
            "Rows that failed too often",
        )
        .query::<OutboxDead>(),
        get(
            "list_quarantine",
            paths::QUARANTINE,
            tag,
            "What was refused while its neighbours went on, oldest first",
        )
        .details(
            "Events that could not be copied into the log, and such that no broker takes. They are kept \
             as long as rows of the outbox that are published.",
        )
        .query::<Quarantine>(),
        post(
            "replay_outbox",
            paths::OUTBOX_REPLAY,
            tag,
            "Sends dead rows out again",
        ),
        post(
            "discard_outbox",
            paths::OUTBOX_DISCARD,
            tag,
            "Gives dead rows up",
        ),
    ]
}

fn internal() -> Vec<Operation> {
    let tag = Tag::Platform;
    vec![
        post(
            "project_events",
            paths::EVENTS_PROJECT,
            tag,
            "Copies events of others into the log",
        ),
        post(
            "materialize_events",
            paths::EVENTS_MATERIALIZE,
            tag,
            "The same, as workers tell them",
        ),
        post(
            "advance_projection",
            paths::PROJECTION_ADVANCE,
            tag,
            "Lets read models follow their logs",
        ),
        post("purge", paths::CLEANUP_PURGE, tag, "Drops what is old"),
        post(
            "rotate_wallet",
            paths::WALLET_ROTATE,
            tag,
            "Wraps the secrets of all tenants under the current key",
        )
        .details("Leaves a trail."),
        get(
            "wallet_key_status",
            paths::WALLET_KEY_STATUS,
            tag,
            "How many secrets are under which key",
        ),
        get(
            "secret_audit",
            paths::SECRET_AUDIT,
            tag,
            "What was done to the secrets of all tenants, newest first",
        )
        .query::<SecretAuditQuery>(),
        get("list_cells", paths::CELLS, tag, "The cells that there are"),
    ]
}
