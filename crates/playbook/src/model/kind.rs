//! Tool kinds and the keys of each.
//!
//! One table says what a kind is called, what a build needs for it, which keys it takes and which it
//! cannot do without. Parser, checker and JSON Schema read it; nothing else knows a key by heart.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

use super::output::OutputSpec;
use super::set::Set;
use super::tool::TaskSpec;
use crate::words;

words! {
    /// What a task runs.
    pub enum ToolKind {
        /// Nothing; gives its `result`.
        Noop = "noop",
        /// Python code.
        Python = "python",
        /// Shell commands.
        Shell = "shell",
        /// An HTTP request.
        Http = "http",
        /// SQL on PostgreSQL.
        Postgres = "postgres",
        /// SQL on a SQLite file.
        Sqlite = "sqlite",
        /// SQL on DuckDB.
        Duckdb = "duckdb",
        /// SQL on a DuckLake catalog.
        Ducklake = "ducklake",
        /// Another playbook.
        Playbook = "playbook",
        /// A task of the workbook; the parser replaces it.
        Workbook = "workbook",
        /// Key-value, object and stream operations of NATS.
        Nats = "nats",
        /// Data of the result store.
        Artifact = "artifact",
        /// Data of the result store, by another name.
        ResultFetch = "result_fetch",
        /// A Rhai script.
        Rhai = "rhai",
        /// Rows from one system to another.
        Transfer = "transfer",
        /// A call of a model-context-protocol server.
        Mcp = "mcp",
        /// A container.
        Container = "container",
        /// A script from somewhere.
        Script = "script",
        /// Messages of a source, polled.
        Subscription = "subscription",
        /// SQL on Snowflake.
        Snowflake = "snowflake",
        /// Waits for signals.
        Wait = "wait",
        /// Waits for a person.
        Approval = "approval",
        /// Waits for a time.
        Sleep = "sleep",
        /// Reserved.
        Gcs = "gcs",
        /// Reserved.
        Gateway = "gateway",
        /// Reserved.
        Secrets = "secrets",
        /// Reserved.
        Iterator = "iterator",
        /// Reserved.
        Playbooks = "playbooks",
        /// Reserved.
        Agent = "agent",
        /// Reserved.
        Wasm = "wasm",
        /// Reserved.
        Sink = "sink",
        /// Reserved.
        Save = "save",
        /// Reserved.
        Auth = "auth",
        /// Reserved.
        TaskSequence = "task_sequence",
    }
}

/// What a build needs for a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// Nothing: every build has it.
    Core,
    /// A cargo feature.
    Feature(&'static str),
    /// No build has it: the name is reserved.
    Reserved,
}

/// What a key takes, where it is not a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyType {
    /// Anything.
    Any,
    /// A text.
    Text,
    /// A bool.
    Bool,
    /// A whole number.
    Integer,
    /// A duration.
    Duration,
    /// A list.
    List,
    /// A map.
    Map,
    /// A text or a list.
    TextOrList,
    /// A map or a list.
    MapOrList,
    /// One of these words.
    Words(&'static [&'static str]),
}

/// A key of a kind.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its one spelling in the model.
    pub name: &'static str,
    /// Other spellings that the parser replaces.
    pub aliases: &'static [&'static str],
    /// What it takes.
    pub takes: KeyType,
}

/// What there is to know about a kind.
#[derive(Debug, Clone, Copy)]
pub struct KindSpec {
    /// What a build needs for it.
    pub build: Build,
    /// Its keys, besides those of every task.
    pub keys: &'static [Key],
    /// Of each group at least one key must be given.
    pub needs: &'static [&'static [&'static str]],
    /// Of each group at most one key may be given.
    pub excludes: &'static [&'static [&'static str]],
    /// Time for an attempt in seconds: `None` means the default of all tasks, 0 means no bound.
    pub timeout_secs: Option<u64>,
}

/// Keys of every task, whatever its kind.
pub const COMMON_TASK_KEYS: [&str; 13] = [
    "kind",
    "name",
    "auth",
    "credential",
    "input",
    "args",
    "set",
    "timeout",
    "timeout_seconds",
    "spec",
    "output",
    "output_select",
    "libs",
];

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
    /// Finds a kind by its spelling or an alias of it.
    pub fn find(text: &str) -> Option<Self> {
        match text {
            "snowflake_transfer" => Some(Self::Transfer),
            text => Self::parse(text),
        }
    }

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

    /// Whether a task of this kind is carried out by the server, which renders its templates.
    pub fn is_server_side(self) -> bool {
        matches!(
            self,
            Self::Wait | Self::Approval | Self::Sleep | Self::Playbook
        )
    }

    /// Whether it belongs to the language of this control plane alone.
    pub fn is_addition(self) -> bool {
        matches!(self, Self::Wait | Self::Approval | Self::Sleep)
    }

    /// Whether its statements are SQL.
    pub fn is_sql(self) -> bool {
        matches!(
            self,
            Self::Postgres | Self::Sqlite | Self::Duckdb | Self::Ducklake | Self::Snowflake
        )
    }
}

/// The schema of a task: the keys of every task, and for each kind its own.
pub(super) fn task_schema(generator: &mut SchemaGenerator) -> Schema {
    let kinds: Vec<&str> = ToolKind::WORDS
        .iter()
        .copied()
        .chain(["snowflake_transfer"])
        .collect();
    let by_kind: Vec<Value> = ToolKind::WORDS
        .iter()
        .filter_map(|word| ToolKind::parse(word))
        .filter(|kind| kind.spec().build != Build::Reserved)
        .map(kind_schema)
        .collect();
    let set = generator.subschema_for::<Set>();
    let spec = generator.subschema_for::<TaskSpec>();
    let output = generator.subschema_for::<OutputSpec>();
    json_schema!({
        "type": "object",
        "properties": {
            "kind": { "enum": kinds },
            "name": { "type": "string", "description": "The label of the task in its pipeline." },
            "auth": { "description": "A credential: its alias, a template of one, or a map." },
            "input": { "type": "object" },
            "set": set,
            "timeout": { "type": ["string", "number"] },
            "spec": { "anyOf": [spec, { "type": "object" }] },
            "output": output,
            "output_select": {},
            "libs": { "type": ["object", "array"] }
        },
        "required": ["kind"],
        "allOf": by_kind
    })
}

fn kind_schema(kind: ToolKind) -> Value {
    let spec = kind.spec();
    let mut properties = Map::new();
    for key in spec.keys {
        properties.insert(key.name.to_owned(), key_schema(key.takes));
        for alias in key.aliases {
            properties.insert(
                (*alias).to_owned(),
                serde_json::json!({ "deprecated": true }),
            );
        }
    }
    serde_json::json!({
        "if": { "properties": { "kind": { "const": kind.as_str() } }, "required": ["kind"] },
        "then": { "properties": properties }
    })
}

fn key_schema(takes: KeyType) -> Value {
    // A template may stand for anything, so texts are always welcome.
    let of = |name: &str| serde_json::json!({ "type": [name, "string"] });
    match takes {
        Any => serde_json::json!({}),
        Text => serde_json::json!({ "type": "string" }),
        Bool => of("boolean"),
        Integer => of("integer"),
        Duration => of("number"),
        List | TextOrList => of("array"),
        Mapping => of("object"),
        MapOrList => serde_json::json!({ "type": ["object", "array", "string"] }),
        Words(words) => serde_json::json!({
            "anyOf": [{ "enum": words }, { "type": "string", "pattern": "\\{[{%]" }]
        }),
    }
}
