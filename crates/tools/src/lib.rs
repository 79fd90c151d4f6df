//! The tools that a worker runs.
//!
//! Owns the tool kinds of the language that run on a worker, one file per kind behind one trait,
//! and the sandbox around them: timeout, cancellation, process groups, output caps and the egress
//! guard. A tool receives a rendered [`ToolCall`] and returns a [`ToolOutcome`]. It reaches the
//! store and the server only through [`platform`], evaluates no policy and retries nothing.

mod artifact;
mod call;
mod command_line;
mod config;
mod container;
mod duckdb;
pub mod egress;
mod file_access;
mod http;
mod idle;
mod lenient;
mod limit_hints;
mod mcp;
mod memory_watch;
mod nats;
mod noop;
pub mod platform;
mod playbook;
mod postgres;
mod program;
mod python;
#[cfg(feature = "rhai")]
mod rhai;
pub mod sandbox;
mod scratch;
mod script;
mod script_source;
mod settings;
mod shell;
mod sql;
mod sqlite;
mod subscription;
mod tls;
mod tool;
mod toolbox;
mod transfer;

pub use call::{ToolCall, ToolOutcome};
pub use duckdb::names_credentials;
pub use noetl_playbook::model::ToolKind;
pub use settings::{
    ContainerSettings, ENVIRONMENT_ALLOW_LIST, MAX_OUTPUT_SIZE, NatsSettings, PostgresSettings,
    ProcessLimits, PythonSettings, Settings,
};
pub use tokio_util::sync::CancellationToken;
pub use toolbox::Toolbox;
