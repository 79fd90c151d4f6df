//! Tool kinds and their keys.
//!
//! One table defines the name of each kind, the build feature that it requires, the keys that it
//! accepts, and the keys that it requires. The parser, the checker and the JSON Schema read this
//! table. No other code contains lists of keys.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::output::OutputSpec;
use super::set::SetClause;
use super::tool::TaskSpec;
use crate::string_enum;

string_enum! {
    /// Kind of tool that a task runs.
    pub enum ToolKind {
        /// Does nothing and returns its `result`.
        Noop = "noop",
        /// Runs Python code.
        Python = "python",
        /// Runs shell commands.
        Shell = "shell",
        /// Sends an HTTP request.
        Http = "http",
        /// Runs SQL on PostgreSQL.
        Postgres = "postgres",
        /// Runs SQL on a SQLite file.
        Sqlite = "sqlite",
        /// Runs SQL on a DuckDB file.
        Duckdb = "duckdb",
        /// Starts another playbook.
        Playbook = "playbook",
        /// Runs a task of the workbook. The parser replaces it by that task.
        Workbook = "workbook",
        /// Key-value, object and stream operations of NATS.
        Nats = "nats",
        /// Reads or writes data in the result store.
        Artifact = "artifact",
        /// Alias of `artifact`.
        ResultFetch = "result_fetch",
        /// Runs a Rhai script.
        Rhai = "rhai",
        /// Copies rows from one system to another.
        Transfer = "transfer",
        /// Calls a Model Context Protocol server.
        Mcp = "mcp",
        /// Runs a container.
        Container = "container",
        /// Runs a script from an external location.
        Script = "script",
        /// Polls messages from a source.
        Subscription = "subscription",
        /// Waits for signals.
        Wait = "wait",
        /// Waits for approval by a person.
        Approval = "approval",
        /// Waits for a duration or until a time.
        Sleep = "sleep",
    }
}

/// Kinds of other runtimes that no build of this one contains.
pub const RESERVED_KINDS: [&str; 13] = [
    "ducklake", "snowflake", "gcs", "gateway", "secrets", "iterator", "playbooks", "agent", "wasm",
    "sink", "save", "auth", "task_sequence",
];

/// Cargo features of this build that add tool kinds.
pub const BUILD_FEATURES: &[&str] = if cfg!(feature = "rhai") { &["rhai"] } else { &[] };

/// Type of a key's value, unless the value is a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyType {
    /// Any value.
    Any,
    /// A string.
    Text,
    /// A bool.
    Bool,
    /// An integer.
    Integer,
    /// A duration.
    Duration,
    /// A list.
    List,
    /// A map.
    Map,
    /// A string or a list.
    TextOrList,
    /// A map or a list.
    MapOrList,
    /// A map with these keys.
    Fields(&'static [&'static str]),
    /// A list, whose maps have these keys.
    Items(&'static [&'static str]),
    /// One of these keywords.
    Words(&'static [&'static str]),
    /// Any value, which is ignored.
    NoEffect,
}

/// A key of a tool kind.
#[derive(Debug, Clone, Copy)]
pub struct KindKey {
    /// Canonical spelling, used in the model.
    pub name: &'static str,
    /// Alternative spellings, which the parser replaces.
    pub aliases: &'static [&'static str],
    /// Type of the value.
    pub value_type: KeyType,
}

impl KindKey {
    /// All spellings of the key, the canonical one first.
    pub fn spellings(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

/// Definition of a tool kind.
#[derive(Debug, Clone, Copy)]
pub struct KindSpec {
    /// Cargo feature that adds the kind to a build. `None` if every build contains it.
    pub feature: Option<&'static str>,
    /// Keys of the kind, in addition to those of every task.
    pub keys: &'static [KindKey],
    /// Groups of keys. At least one key of each group is required.
    pub required_groups: &'static [&'static [&'static str]],
    /// Groups of keys. At most one key of each group is allowed.
    pub exclusive_groups: &'static [&'static [&'static str]],
    /// Timeout of an attempt in seconds. `None` means the default of all tasks, 0 means unlimited.
    pub timeout_secs: Option<u64>,
}

use KeyType::{
    Any, Bool, Duration, Fields, Integer, Items, List, Map as Mapping, MapOrList, NoEffect, Text,
    TextOrList, Words,
};

/// Keys of `script`. `source` is the type as a text, or a map with the same keys.
const SCRIPT_SOURCE_KEYS: &[&str] =
    &["type", "source", "uri", "path", "url", "endpoint", "content", "code"];

/// Declares the keys of a kind, grouped by the type of their values. `name | alias` accepts a second
/// spelling.
macro_rules! keys {
    ($($value_type:expr => [$($name:ident $(| $alias:ident)*),+]),+ $(,)?) => {
        &[$($(KindKey {
            name: stringify!($name),
            aliases: &[$(stringify!($alias)),*],
            value_type: $value_type,
        },)+)+]
    };
}

/// Declares the keys of a kind that runs SQL.
macro_rules! sql_keys {
    ($($more:tt)*) => {
        keys![
            TextOrList => [command, query, commands, queries, cmd, commands_b64, queries_b64],
            Text => [command_b64, query_b64, cmd_b64],
            Fields(SCRIPT_SOURCE_KEYS) => [script],
            MapOrList => [params],
            Bool => [as_objects, transaction],
            $($more)*
        ]
    };
}

/// Keys that contain SQL.
const STATEMENT_KEY_GROUP: &[&str] = &[
    "command", "query", "commands", "queries", "cmd", "command_b64", "query_b64", "commands_b64",
    "queries_b64", "cmd_b64", "script",
];

const NATS_OPERATIONS: &[&str] = &[
    "kv_get", "kv_put", "kv_delete", "kv_keys", "kv_purge", "object_get", "object_put",
    "object_delete", "object_list", "object_info", "js_publish", "js_consume", "js_get_msg",
    "js_stream_info",
];

const NOOP_KEYS: &[KindKey] = keys![Any => [message, result]];
const PYTHON_KEYS: &[KindKey] = keys![Text => [code, code_b64, cwd, python], Fields(SCRIPT_SOURCE_KEYS) => [script], Mapping => [env]];
const SHELL_KEYS: &[KindKey] =
    keys![Text => [command, shell, cwd], List => [cmds], Mapping => [env], Bool => [capture]];
const HTTP_KEYS: &[KindKey] = keys![
    Text => [method, url | endpoint],
    Mapping => [headers, params, form],
    Any => [json, body],
    Bool => [follow_redirects],
    Words(&["json", "text", "binary"]) => [response_type],
];
const POSTGRES_KEYS: &[KindKey] = sql_keys![
    Text => [connection_string, db_host, db_user, db_password, db_name, sslmode, sslrootcert, schema],
    Any => [db_port, pool],
];
const SQLITE_KEYS: &[KindKey] = sql_keys![
    Text => [database | db_path | path],
    Bool => [readonly],
    Duration => [busy_timeout],
];
const DUCKDB_KEYS: &[KindKey] = sql_keys![
    Text => [database | db_path],
    Bool => [readonly],
    Duration => [busy_timeout],
];
const PLAYBOOK_KEYS: &[KindKey] = keys![
    Text => [path, return_step, result_step],
    Any => [catalog_id, version, payload],
    Bool => [return_result],
    Words(&["abandon", "cancel"]) => [on_timeout],
];
const WORKBOOK_KEYS: &[KindKey] = keys![Text => [task]];
const NATS_KEYS: &[KindKey] = keys![
    Words(NATS_OPERATIONS) => [operation],
    Text => [bucket, key, pattern, object, subject, stream, consumer, url],
    Any => [value, data, ack, last],
    Duration => [ttl],
    Mapping => [headers],
    Integer => [batch, timeout_ms, seq],
];
const ARTIFACT_KEYS: &[KindKey] = keys![
    Words(&["get", "put"]) => [action],
    Any => [result_ref | uri | ref, data],
    NoEffect => [prefer],
];
const RHAI_KEYS: &[KindKey] = keys![Text => [code]];
const TRANSFER_KEYS: &[KindKey] = keys![
    Mapping => [source, target, mapping],
    Integer => [chunk_size],
    Words(&["append", "replace", "upsert"]) => [mode],
];
const MCP_KEYS: &[KindKey] = keys![
    Text => [endpoint | url, server, method, tool, protocol_version],
    Mapping => [arguments, params, headers],
];
const CONTAINER_KEYS: &[KindKey] = keys![
    Words(&["local", "kubernetes"]) => [runtime],
    Text => [image],
    TextOrList => [command],
    MapOrList => [env],
    Mapping => [resources, labels],
    List => [volumes, volume_mounts],
    Bool => [callback],
    NoEffect => [namespace, service_account, backoff_limit],
];
const SCRIPT_KEYS: &[KindKey] =
    keys![Fields(SCRIPT_SOURCE_KEYS) => [script], Mapping => [job, env], Text => [cwd]];
const SUBSCRIPTION_KEYS: &[KindKey] = keys![
    Words(&["nats", "pubsub", "kafka"]) => [source],
    Words(&["poll", "ack", "nack"]) => [operation],
    Words(&["on_success", "auto", "manual", "none"]) => [ack],
    Text => [url, stream, consumer],
    Integer => [batch, timeout_ms, nack_delay_ms],
    List => [ack_ids],
    NoEffect => [subscription, endpoint, brokers, topic, group],
];
const WAIT_KEYS: &[KindKey] = keys![
    Text => [signal],
    Items(&["name", "key", "as"]) => [signals],
    Words(&["any", "all"]) => [mode],
    Any => [key],
    Duration => [lookback],
    Mapping => [schema],
];
const APPROVAL_KEYS: &[KindKey] = keys![
    Text => [title, message],
    Mapping => [form],
    List => [approvers],
    Integer => [quorum],
    Words(&["fail", "reject", "approve"]) => [on_timeout],
];
const SLEEP_KEYS: &[KindKey] = keys![Duration => [for], Text => [until]];

const fn core_kind(keys: &'static [KindKey]) -> KindSpec {
    KindSpec {
        feature: None,
        keys,
        required_groups: &[],
        exclusive_groups: &[],
        timeout_secs: None,
    }
}

const fn sql_kind(keys: &'static [KindKey]) -> KindSpec {
    KindSpec { required_groups: &[STATEMENT_KEY_GROUP], ..core_kind(keys) }
}

impl ToolKind {
    /// Finds a kind by its name or alias.
    pub fn find_by_name(text: &str) -> Option<Self> {
        match text {
            "snowflake_transfer" => Some(Self::Transfer),
            text => Self::parse(text),
        }
    }

    /// True if a build with these features contains the kind. Unknown features are assumed.
    pub fn is_in_build(self, features: Option<&[&str]>) -> bool {
        self.spec().feature.is_none_or(|name| features.is_none_or(|all| all.contains(&name)))
    }

    /// True if the server executes tasks of this kind and renders their templates.
    pub fn is_server_side(self) -> bool {
        matches!(self, Self::Wait | Self::Approval | Self::Sleep | Self::Playbook)
    }

    /// True if the kind is an extension to the classic language.
    pub fn is_extension(self) -> bool {
        matches!(self, Self::Wait | Self::Approval | Self::Sleep)
    }

    /// True if the statements of the kind are SQL.
    pub fn is_sql(self) -> bool {
        matches!(self, Self::Postgres | Self::Sqlite | Self::Duckdb)
    }
}

impl ToolKind {
    /// Returns the definition of the kind.
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
            Self::Postgres => sql_kind(POSTGRES_KEYS),
            Self::Sqlite => KindSpec {
                required_groups: &[STATEMENT_KEY_GROUP, &["database"]],
                ..core_kind(SQLITE_KEYS)
            },
            Self::Duckdb => sql_kind(DUCKDB_KEYS),
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

/// Returns the schema of a task: the keys of every task, and the specific keys of each kind.
pub(super) fn task_schema(generator: &mut SchemaGenerator) -> Schema {
    let kinds: Vec<&str> = ToolKind::WORDS.iter().copied().chain(["snowflake_transfer"]).collect();
    let by_kind: Vec<Value> =
        ToolKind::WORDS.iter().filter_map(|name| ToolKind::parse(name)).map(kind_schema).collect();
    let set = generator.subschema_for::<SetClause>();
    let spec = generator.subschema_for::<TaskSpec>();
    let output = generator.subschema_for::<OutputSpec>();
    json_schema!({
        "type": "object",
        "properties": {
            "kind": { "enum": kinds },
            "name": { "type": "string", "description": "Label of the task in its pipeline." },
            "auth": { "description": "Credential: an alias, a template of an alias, or a map." },
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
        properties.insert(key.name.to_owned(), key_schema(key.value_type));
        for alias in key.aliases {
            properties.insert((*alias).to_owned(), json!({ "deprecated": true }));
        }
    }
    json!({
        "if": { "properties": { "kind": { "const": kind.as_str() } }, "required": ["kind"] },
        "then": { "properties": properties }
    })
}

fn key_schema(value_type: KeyType) -> Value {
    // A template can produce any value, so strings are always allowed.
    let type_or_template = |name: &str| json!({ "type": [name, "string"] });
    match value_type {
        Any => json!({}),
        NoEffect => json!({ "deprecated": true, "description": "Has no effect." }),
        Text => json!({ "type": "string" }),
        Bool => type_or_template("boolean"),
        Integer => type_or_template("integer"),
        Duration => type_or_template("number"),
        List | Items(_) | TextOrList => type_or_template("array"),
        Mapping | Fields(_) => type_or_template("object"),
        MapOrList => json!({ "type": ["object", "array", "string"] }),
        Words(keywords) => json!({
            "anyOf": [{ "enum": keywords }, { "type": "string", "pattern": "\\{[{%]" }]
        }),
    }
}
