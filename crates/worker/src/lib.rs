//! The worker: leases commands, runs them, keeps them, and reports what became of them.
//!
//! Owns slots, leases and the way of results back to the server. What a task means is said by
//! [`noetl_playbook::shift`], what a tool does by [`noetl_tools`], and what the control plane is by
//! [`noetl_api::WorkerApi`]: over a network, or in the same process.
//!
//! ```text
//! lease (long poll) ──► commands ──► shift + tools ──► report ──┐
//!        ▲                  ▲                                   │ the answer brings the next work
//!        └── free slots     └───────────────────────────────────┘
//! ```
//!
//! - A slot is a permit that is never counted twice: a command has it, or a report that asks for the
//!   next command, or a poll that waits for one.
//! - What is lost is not reported: once the server says that a lease is gone, or a command cancelled,
//!   its tool is stopped and nothing more is told.
//! - What takes a while is told meanwhile: that a command is at work, and which attempts failed that are
//!   made again. It decides nothing, and what nobody heard is in the report.
//! - A worker outlives its server: reports are kept and sent again, and tasks go on meanwhile.
//!
//! Must not: open the platform's database, or decide what follows from a result.

mod cache;
mod chance;
mod command;
mod errands;
mod heartbeat;
mod held;
mod library;
mod metrics;
mod panics;
mod poll;
mod progress;
mod report;
mod secrets;
mod settings;
mod shop;
mod tools;
mod trace;
mod worker;

#[cfg(test)]
mod tests;

pub use metrics::Metrics;
pub use settings::{Clock, OwnSecrets, Settings, WorkerError, system_clock};
pub use tools::Tools;
pub use worker::Worker;
