//! Tool kinds and the keys of each.
//!
//! One table says what a kind is called, what a build needs for it, which keys it takes and which it
//! cannot do without. Parser, checker and JSON Schema read it; nothing else knows a key by heart.

mod schema;
mod table;

pub(super) use schema::task_schema;

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

impl ToolKind {
    /// Finds a kind by its spelling or an alias of it.
    pub fn find(text: &str) -> Option<Self> {
        match text {
            "snowflake_transfer" => Some(Self::Transfer),
            text => Self::parse(text),
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
