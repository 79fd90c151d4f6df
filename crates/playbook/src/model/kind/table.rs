//! The table of tool kinds: accepted and required keys of each kind.

use super::KeyType::{
    Any, Bool, Duration, Integer, List, Map as Mapping, MapOrList, NoEffect, Text, TextOrList,
    Words,
};
use super::{KeyType, KindKey, KindSpec, ToolKind};

const fn key(name: &'static str, value_type: KeyType) -> KindKey {
    KindKey { name, aliases: &[], value_type }
}

const fn aliased_key(
    name: &'static str,
    aliases: &'static [&'static str],
    value_type: KeyType,
) -> KindKey {
    KindKey { name, aliases, value_type }
}

/// Keys that contain SQL.
const STATEMENT_KEY_GROUP: &[&str] = &[
    "command",
    "query",
    "commands",
    "queries",
    "cmd",
    "command_b64",
    "query_b64",
    "commands_b64",
    "queries_b64",
    "cmd_b64",
    "script",
];

macro_rules! sql_keys {
    ($($more:expr),* $(,)?) => {
        &[
            key("command", TextOrList), key("query", TextOrList), key("commands", TextOrList),
            key("queries", TextOrList), key("cmd", TextOrList), key("command_b64", Text), key("query_b64", Text),
            key("commands_b64", TextOrList), key("queries_b64", TextOrList), key("cmd_b64", Text),
            key("script", Mapping), key("params", MapOrList), key("as_objects", Bool), key("transaction", Bool),
            $($more),*
        ]
    };
}

const POSTGRES_KEYS: &[KindKey] = sql_keys![
    key("connection_string", Text),
    key("db_host", Text),
    key("db_port", Any),
    key("db_user", Text),
    key("db_password", Text),
    key("db_name", Text),
    key("sslmode", Text),
    key("sslrootcert", Text),
    key("schema", Text),
    key("pool", Any),
];
const SQLITE_KEYS: &[KindKey] = sql_keys![
    aliased_key("database", &["db_path", "path"], Text),
    key("readonly", Bool),
    key("busy_timeout", Duration),
];
const HTTP_KEYS: &[KindKey] = &[
    key("method", Text),
    aliased_key("url", &["endpoint"], Text),
    key("headers", Mapping),
    key("params", Mapping),
    key("json", Any),
    key("form", Mapping),
    key("body", Any),
    key("follow_redirects", Bool),
    key("response_type", Words(&["json", "text", "binary"])),
];
const PYTHON_KEYS: &[KindKey] = &[
    key("code", Text),
    key("code_b64", Text),
    key("script", Mapping),
    key("env", Mapping),
    key("cwd", Text),
    key("python", Text),
];
const SHELL_KEYS: &[KindKey] = &[
    key("command", Text),
    key("cmds", List),
    key("shell", Text),
    key("cwd", Text),
    key("env", Mapping),
    key("capture", Bool),
];
const PLAYBOOK_KEYS: &[KindKey] = &[
    key("path", Text),
    key("catalog_id", Any),
    key("version", Any),
    key("payload", Any),
    key("return_step", Text),
    key("return_result", Bool),
    key("result_step", Text),
    key("on_timeout", Words(&["abandon", "cancel"])),
];
const NATS_KEYS: &[KindKey] = &[
    key(
        "operation",
        Words(&[
            "kv_get",
            "kv_put",
            "kv_delete",
            "kv_keys",
            "kv_purge",
            "object_get",
            "object_put",
            "object_delete",
            "object_list",
            "object_info",
            "js_publish",
            "js_consume",
            "js_get_msg",
            "js_stream_info",
        ]),
    ),
    key("bucket", Text),
    key("key", Text),
    key("value", Any),
    key("ttl", Duration),
    key("pattern", Text),
    key("object", Text),
    key("subject", Text),
    key("data", Any),
    key("headers", Mapping),
    key("stream", Text),
    key("consumer", Text),
    key("batch", Integer),
    key("timeout_ms", Integer),
    key("ack", Any),
    key("seq", Integer),
    key("last", Any),
    key("url", Text),
];
const ARTIFACT_KEYS: &[KindKey] = &[
    key("action", Words(&["get", "put"])),
    aliased_key("result_ref", &["uri", "ref"], Any),
    key("prefer", NoEffect),
    key("data", Any),
];
const TRANSFER_KEYS: &[KindKey] = &[
    key("source", Mapping),
    key("target", Mapping),
    key("mapping", Mapping),
    key("chunk_size", Integer),
    key("mode", Words(&["append", "replace", "upsert"])),
];
const MCP_KEYS: &[KindKey] = &[
    aliased_key("endpoint", &["url"], Text),
    key("server", Text),
    key("method", Text),
    key("tool", Text),
    key("arguments", Mapping),
    key("params", Mapping),
    key("protocol_version", Text),
    key("headers", Mapping),
];
const CONTAINER_KEYS: &[KindKey] = &[
    key("runtime", Words(&["local", "kubernetes"])),
    key("image", Text),
    key("command", TextOrList),
    key("env", MapOrList),
    key("resources", Mapping),
    key("namespace", NoEffect),
    key("service_account", NoEffect),
    key("backoff_limit", NoEffect),
    key("volumes", List),
    key("volume_mounts", List),
    key("labels", Mapping),
    key("callback", Bool),
];
const SCRIPT_KEYS: &[KindKey] =
    &[key("script", Mapping), key("job", Mapping), key("env", Mapping), key("cwd", Text)];
const SUBSCRIPTION_KEYS: &[KindKey] = &[
    key("source", Words(&["nats", "pubsub", "kafka"])),
    key("operation", Words(&["poll", "ack", "nack"])),
    key("batch", Integer),
    key("timeout_ms", Integer),
    key("ack", Words(&["on_success", "auto", "manual", "none"])),
    key("url", Text),
    key("stream", Text),
    key("consumer", Text),
    key("subscription", NoEffect),
    key("endpoint", NoEffect),
    key("brokers", NoEffect),
    key("topic", NoEffect),
    key("group", NoEffect),
    key("ack_ids", List),
    key("nack_delay_ms", Integer),
];
const WAIT_KEYS: &[KindKey] = &[
    key("signal", Text),
    key("signals", List),
    key("mode", Words(&["any", "all"])),
    key("key", Any),
    key("lookback", Duration),
    key("schema", Mapping),
];
const APPROVAL_KEYS: &[KindKey] = &[
    key("title", Text),
    key("message", Text),
    key("form", Mapping),
    key("approvers", List),
    key("quorum", Integer),
    key("on_timeout", Words(&["fail", "reject", "approve"])),
];

const NOOP_KEYS: &[KindKey] = &[key("message", Any), key("result", Any)];
const WORKBOOK_KEYS: &[KindKey] = &[key("task", Text)];
const RHAI_KEYS: &[KindKey] = &[key("code", Text)];
const SLEEP_KEYS: &[KindKey] = &[key("for", Duration), key("until", Text)];

const fn core_kind(keys: &'static [KindKey]) -> KindSpec {
    KindSpec {
        feature: None,
        keys,
        required_groups: &[],
        exclusive_groups: &[],
        timeout_secs: None,
    }
}

impl ToolKind {
    /// Returns the definition of the kind.
    #[expect(clippy::too_many_lines, reason = "a table with one entry per kind")]
    pub fn spec(self) -> KindSpec {
        match self {
            Self::Noop => core_kind(NOOP_KEYS),
            Self::Python => KindSpec {
                required_groups: &[&["code", "code_b64", "script"]],
                exclusive_groups: &[&["code", "code_b64", "script"]],
                ..core_kind(PYTHON_KEYS)
            },
            Self::Shell => KindSpec {
                required_groups: &[&["command", "cmds"]],
                exclusive_groups: &[&["command", "cmds"]],
                ..core_kind(SHELL_KEYS)
            },
            Self::Http => KindSpec {
                required_groups: &[&["url"]],
                exclusive_groups: &[&["json", "form", "body"]],
                timeout_secs: Some(30),
                ..core_kind(HTTP_KEYS)
            },
            Self::Postgres => {
                KindSpec { required_groups: &[STATEMENT_KEY_GROUP], ..core_kind(POSTGRES_KEYS) }
            }
            Self::Sqlite => KindSpec {
                required_groups: &[STATEMENT_KEY_GROUP, &["database"]],
                ..core_kind(SQLITE_KEYS)
            },
            Self::Playbook => KindSpec {
                required_groups: &[&["path", "catalog_id"]],
                timeout_secs: Some(300),
                ..core_kind(PLAYBOOK_KEYS)
            },
            Self::Workbook => core_kind(WORKBOOK_KEYS),
            Self::Nats => KindSpec { required_groups: &[&["operation"]], ..core_kind(NATS_KEYS) },
            Self::Artifact | Self::ResultFetch => core_kind(ARTIFACT_KEYS),
            Self::Rhai => KindSpec {
                feature: Some("rhai"),
                required_groups: &[&["code"]],
                ..core_kind(RHAI_KEYS)
            },
            Self::Transfer => KindSpec {
                required_groups: &[&["source"], &["target"]],
                ..core_kind(TRANSFER_KEYS)
            },
            Self::Mcp => KindSpec {
                required_groups: &[&["endpoint", "server"]],
                timeout_secs: Some(60),
                ..core_kind(MCP_KEYS)
            },
            Self::Container => {
                KindSpec { required_groups: &[&["image"]], ..core_kind(CONTAINER_KEYS) }
            }
            Self::Script => KindSpec { required_groups: &[&["script"]], ..core_kind(SCRIPT_KEYS) },
            Self::Subscription => {
                KindSpec { required_groups: &[&["source"]], ..core_kind(SUBSCRIPTION_KEYS) }
            }
            Self::Wait => KindSpec {
                required_groups: &[&["signal", "signals"]],
                exclusive_groups: &[&["signal", "signals"]],
                timeout_secs: Some(0),
                ..core_kind(WAIT_KEYS)
            },
            Self::Approval => KindSpec { timeout_secs: Some(0), ..core_kind(APPROVAL_KEYS) },
            Self::Sleep => KindSpec {
                required_groups: &[&["for", "until"]],
                exclusive_groups: &[&["for", "until"]],
                timeout_secs: Some(0),
                ..core_kind(SLEEP_KEYS)
            },
        }
    }
}
