//! The one command of the product, `noetl`.
//!
//! Owns the command line, what is printed and the exit codes. What a playbook means is decided in
//! other crates; here it is only asked for and shown. [`run`] works on any streams, so that no test
//! needs a process to reach a command.

mod args;
mod ask;
mod commands;
mod config;
mod error;
mod exit;
mod graph;
mod io;
mod output;
mod payload;
mod profile;
mod progress;
mod reach;
#[cfg(test)]
mod reference;
mod render;
mod roles;
mod run;
mod source;

pub use exit::Exit;
pub use io::{DEFAULT_WIDTH, Env, Io, Paint, Stream, with_process_io};
pub use run::run;
