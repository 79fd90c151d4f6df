//! Tool kinds and their keys.
//!
//! One table defines the name of each kind, the build feature that it requires, the keys that it
//! accepts, and the keys that it requires. The parser, the checker and the JSON Schema read this
//! table. No other code contains lists of keys.

mod schema;
mod table;

pub(super) use schema::task_schema;

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
pub const RESERVED_KINDS: [&str; 14] = [
    "duckdb",
    "ducklake",
    "snowflake",
    "gcs",
    "gateway",
    "secrets",
    "iterator",
    "playbooks",
    "agent",
    "wasm",
    "sink",
    "save",
    "auth",
    "task_sequence",
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

/// Keys that every task accepts, regardless of its kind.
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
        matches!(self, Self::Postgres | Self::Sqlite)
    }
}
