//! The `noetl` command line program.
//!
//! Owns the command line, its output and the exit codes. Other crates define the semantics of
//! playbooks. [`run`] works on any streams, so tests can call commands without starting a process.

mod command_line;
mod commands;
mod config;
mod confirm;
mod connection;
mod error;
mod exit;
mod graph;
mod io;
mod output;
mod payload;
mod profile;
mod progress;
mod render;
mod roles;
mod source;

pub use command_line::{command_tree, run_command_line as run};
pub use exit::CommandExit;
pub use io::{ColorPaint, DEFAULT_WIDTH, Env, Io, OutputStream, with_process_io};
