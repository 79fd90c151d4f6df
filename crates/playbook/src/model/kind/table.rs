//! The table: which keys each kind takes, and which it cannot do without.

use super::{Build, Key, KeyType, KindSpec, ToolKind};

const fn key(name: &'static str, takes: KeyType) -> Key {
    Key {
        name,
        aliases: &[],
        takes,
    }
}

const fn aliased(name: &'static str, aliases: &'static [&'static str], takes: KeyType) -> Key {
    Key {
        name,
        aliases,
        takes,
    }
}

use KeyType::{
    Any, Bool, Duration, Integer, List, Map as Mapping, MapOrList, Text, TextOrList, Words,
};

/// The ways to give SQL.
const SQL: &[&str] = &[
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

const POSTGRES_KEYS: &[Key] = sql_keys![
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
const SQLITE_KEYS: &[Key] = sql_keys![
    aliased("database", &["db_path", "path"], Text),
    key("readonly", Bool),
    key("busy_timeout", Duration),
];
const DUCKDB_KEYS: &[Key] = sql_keys![
    aliased("database", &["db_path"], Text),
    key("catalog_connection", Text),
    key("catalog_name", Text),
    key("data_path", Text),
];
const SNOWFLAKE_KEYS: &[Key] = sql_keys![
    key("account", Text),
    key("user", Text),
    key("password", Text),
    key("private_key", Text),
    key("passphrase", Text),
    key("warehouse", Text),
    key("database", Text),
    key("schema", Text),
    key("role", Text),
];
const HTTP_KEYS: &[Key] = &[
    key("method", Text),
    aliased("url", &["endpoint"], Text),
    key("headers", Mapping),
    key("params", Mapping),
    key("json", Any),
    key("form", Mapping),
    key("body", Any),
    key("follow_redirects", Bool),
    key("response_type", Words(&["json", "text", "binary"])),
];
const PYTHON_KEYS: &[Key] = &[
    key("code", Text),
    key("code_b64", Text),
    key("script", Mapping),
    key("env", Mapping),
    key("cwd", Text),
    key("python", Text),
];
const SHELL_KEYS: &[Key] = &[
    key("command", Text),
    key("cmds", List),
    key("shell", Text),
    key("cwd", Text),
    key("env", Mapping),
    key("capture", Bool),
];
const PLAYBOOK_KEYS: &[Key] = &[
    key("path", Text),
    key("catalog_id", Any),
    key("version", Any),
    key("payload", Any),
    key("return_step", Text),
    key("return_result", Bool),
    key("result_step", Text),
    key("on_timeout", Words(&["abandon", "cancel"])),
];
const NATS_KEYS: &[Key] = &[
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
const ARTIFACT_KEYS: &[Key] = &[
    key("action", Words(&["get", "put"])),
    aliased("result_ref", &["uri", "ref"], Any),
    key("prefer", Text),
    key("data", Any),
];
const TRANSFER_KEYS: &[Key] = &[
    key("source", Mapping),
    key("target", Mapping),
    key("mapping", Mapping),
    key("chunk_size", Integer),
    key("mode", Words(&["append", "replace", "upsert"])),
];
const MCP_KEYS: &[Key] = &[
    aliased("endpoint", &["url"], Text),
    key("server", Text),
    key("method", Text),
    key("tool", Text),
    key("arguments", Mapping),
    key("params", Mapping),
    key("protocol_version", Text),
    key("headers", Mapping),
];
const CONTAINER_KEYS: &[Key] = &[
    key("runtime", Words(&["local", "kubernetes"])),
    key("image", Text),
    key("command", TextOrList),
    key("env", MapOrList),
    key("resources", Mapping),
    key("namespace", Text),
    key("service_account", Text),
    key("backoff_limit", Integer),
    key("volumes", List),
    key("volume_mounts", List),
    key("labels", Mapping),
    key("callback", Bool),
];
const SCRIPT_KEYS: &[Key] = &[
    key("script", Mapping),
    key("job", Mapping),
    key("env", Mapping),
    key("cwd", Text),
];
const SUBSCRIPTION_KEYS: &[Key] = &[
    key("source", Words(&["nats", "pubsub", "kafka"])),
    key("operation", Words(&["poll", "ack", "nack"])),
    key("batch", Integer),
    key("timeout_ms", Integer),
    key("ack", Words(&["on_success", "auto", "manual", "none"])),
    key("url", Text),
    key("stream", Text),
    key("consumer", Text),
    key("subscription", Text),
    key("endpoint", Text),
    key("brokers", TextOrList),
    key("topic", Text),
    key("group", Text),
    key("ack_ids", List),
    key("nack_delay_ms", Integer),
];
const WAIT_KEYS: &[Key] = &[
    key("signal", Text),
    key("signals", List),
    key("mode", Words(&["any", "all"])),
    key("key", Any),
    key("lookback", Duration),
    key("schema", Mapping),
];
const APPROVAL_KEYS: &[Key] = &[
    key("title", Text),
    key("message", Text),
    key("form", Mapping),
    key("approvers", List),
    key("quorum", Integer),
    key("on_timeout", Words(&["fail", "reject", "approve"])),
];

const NOOP_KEYS: &[Key] = &[key("message", Any), key("result", Any)];
const WORKBOOK_KEYS: &[Key] = &[key("task", Text)];
const RHAI_KEYS: &[Key] = &[key("code", Text)];
const SLEEP_KEYS: &[Key] = &[key("for", Duration), key("until", Text)];

const fn core(keys: &'static [Key]) -> KindSpec {
    KindSpec {
        build: Build::Core,
        keys,
        needs: &[],
        excludes: &[],
        timeout_secs: None,
    }
}

const fn reserved() -> KindSpec {
    KindSpec {
        build: Build::Reserved,
        ..core(&[])
    }
}

const fn sql(keys: &'static [Key], build: Build) -> KindSpec {
    KindSpec {
        build,
        needs: &[SQL],
        ..core(keys)
    }
}

impl ToolKind {
    /// What there is to know about it.
    #[expect(clippy::too_many_lines, reason = "a table, an entry a kind")]
    pub fn spec(self) -> KindSpec {
        match self {
            Self::Noop => core(NOOP_KEYS),
            Self::Python => KindSpec {
                needs: &[&["code", "code_b64", "script"]],
                excludes: &[&["code", "code_b64", "script"]],
                ..core(PYTHON_KEYS)
            },
            Self::Shell => KindSpec {
                needs: &[&["command", "cmds"]],
                excludes: &[&["command", "cmds"]],
                ..core(SHELL_KEYS)
            },
            Self::Http => KindSpec {
                needs: &[&["url"]],
                excludes: &[&["json", "form", "body"]],
                timeout_secs: Some(30),
                ..core(HTTP_KEYS)
            },
            Self::Postgres => sql(POSTGRES_KEYS, Build::Core),
            Self::Sqlite => KindSpec {
                needs: &[SQL, &["database"]],
                ..core(SQLITE_KEYS)
            },
            Self::Duckdb | Self::Ducklake => sql(DUCKDB_KEYS, Build::Feature("duckdb")),
            Self::Snowflake => sql(SNOWFLAKE_KEYS, Build::Feature("snowflake")),
            Self::Playbook => KindSpec {
                needs: &[&["path", "catalog_id"]],
                timeout_secs: Some(300),
                ..core(PLAYBOOK_KEYS)
            },
            Self::Workbook => core(WORKBOOK_KEYS),
            Self::Nats => KindSpec {
                needs: &[&["operation"]],
                ..core(NATS_KEYS)
            },
            Self::Artifact | Self::ResultFetch => core(ARTIFACT_KEYS),
            Self::Rhai => KindSpec {
                build: Build::Feature("rhai"),
                needs: &[&["code"]],
                ..core(RHAI_KEYS)
            },
            Self::Transfer => KindSpec {
                needs: &[&["source"], &["target"]],
                ..core(TRANSFER_KEYS)
            },
            Self::Mcp => KindSpec {
                needs: &[&["endpoint", "server"]],
                timeout_secs: Some(60),
                ..core(MCP_KEYS)
            },
            Self::Container => KindSpec {
                needs: &[&["image"]],
                ..core(CONTAINER_KEYS)
            },
            Self::Script => KindSpec {
                needs: &[&["script"]],
                ..core(SCRIPT_KEYS)
            },
            Self::Subscription => KindSpec {
                needs: &[&["source"]],
                ..core(SUBSCRIPTION_KEYS)
            },
            Self::Wait => KindSpec {
                needs: &[&["signal", "signals"]],
                excludes: &[&["signal", "signals"]],
                timeout_secs: Some(0),
                ..core(WAIT_KEYS)
            },
            Self::Approval => KindSpec {
                timeout_secs: Some(0),
                ..core(APPROVAL_KEYS)
            },
            Self::Sleep => KindSpec {
                needs: &[&["for", "until"]],
                excludes: &[&["for", "until"]],
                timeout_secs: Some(0),
                ..core(SLEEP_KEYS)
            },
            Self::Gcs
            | Self::Gateway
            | Self::Secrets
            | Self::Iterator
            | Self::Playbooks
            | Self::Agent
            | Self::Wasm
            | Self::Sink
            | Self::Save
            | Self::Auth
            | Self::TaskSequence => reserved(),
        }
    }
}
