//! What a worker can run.
//!
//! Owns the tool kinds of the language that run on a worker, one file a kind behind one trait, and
//! the walls around them: timeout, cancellation, process groups, output caps and the egress guard.
//! A tool gets a rendered [`Call`] and gives an [`Outcome`]; it sees neither the store nor the
//! server, evaluates no policy and retries nothing.

mod call;
mod config;
pub mod egress;
mod http;
mod lenient;
mod noop;
mod process;
mod python;
mod settings;
mod shell;
mod tool;
mod toolbox;

pub use call::{Call, Outcome};
pub use noetl_playbook::model::ToolKind;
pub use settings::{ENVIRONMENT_ALLOW_LIST, PythonSettings, Settings, Walls};
pub use tokio_util::sync::CancellationToken;
pub use toolbox::Toolbox;
