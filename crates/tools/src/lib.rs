//! What a worker can run.
//!
//! Owns the tool kinds of the language that run on a worker, one file a kind behind one trait, and
//! the walls around them: timeout, cancellation, process groups, output caps and the egress guard.
//! A tool gets a rendered [`Call`] and gives an [`Outcome`]; it sees neither the store nor the
//! server but through [`platform`], evaluates no policy and retries nothing.

mod artifact;
mod call;
mod config;
mod container;
pub mod egress;
mod http;
mod lenient;
mod limit;
mod mcp;
mod nats;
mod noop;
pub mod platform;
mod playbook;
mod postgres;
mod process;
mod program;
mod python;
#[cfg(feature = "rhai")]
mod rhai;
mod roots;
mod script;
mod settings;
mod shell;
mod source;
mod sql;
mod sqlite;
mod subscription;
mod tls;
mod tool;
mod toolbox;
mod transfer;
pub mod walls;
mod words;

pub use call::{Call, Outcome};
pub use noetl_playbook::model::ToolKind;
pub use settings::{
    ContainerSettings, ENVIRONMENT_ALLOW_LIST, LARGEST_OUTPUT, NatsSettings, PostgresSettings,
    PythonSettings, Settings, Walls,
};
pub use tokio_util::sync::CancellationToken;
pub use toolbox::Toolbox;
