//! The `noetl` command line program.
//!
//! Owns the command line, its output and the exit codes. Other crates define the semantics of
//! playbooks. [`run`] works on any streams, so tests can call commands without starting a process.

mod args;
mod commands;
mod config;
mod confirm;
mod error;
mod exit;
mod graph;
mod io;
mod output;
mod payload;
mod profile;
mod progress;
#[cfg(test)]
mod reference;
mod render;
mod roles;
mod run;
mod source;
mod target;

pub use exit::CommandExit;
pub use io::{ColorPaint, DEFAULT_WIDTH, Env, Io, OutputStream, with_process_io};
pub use run::run;
