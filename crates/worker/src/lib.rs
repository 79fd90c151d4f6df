//! The worker: leases commands, runs them, renews their leases, and reports their outcomes.
//!
//! Owns concurrency permits, leases and the delivery of results to the server.
//! [`noetl_playbook::command_machine`] defines the meaning of tasks, [`noetl_tools`] runs the
//! tools, and [`noetl_api::WorkerApi`] is the control plane, over a network or in the same process.
//!
//! ```text
//! lease (long poll) ──► commands ──► machine + tools ──► report ──┐
//!        ▲                  ▲                                     │ returns the next commands
//!        └── free permits   └─────────────────────────────────────┘
//! ```
//!
//! - A permit is held by exactly one owner: a command, a report that requests the next command, or
//!   a poll that waits for one.
//! - Lost work is not reported. Once the server reports that a lease is lost, or that a command is
//!   cancelled, its tool is stopped and nothing more is sent.
//! - Long commands report progress: that they are running, and which failed attempts are retried.
//!   Progress decides nothing, and the final report contains everything that the server has not
//!   acknowledged.
//! - Output of tasks that run for a while is sent while they run, in bounded memory.
//! - A worker survives a server outage: reports are kept and sent again, and tasks continue
//!   meanwhile.
//!
//! Must not open the platform's database, or decide what follows from a result.

mod backoff;
mod command;
mod context;
mod definitions;
mod heartbeat;
mod leases;
mod metrics;
mod output;
mod panics;
mod platform_client;
mod poll;
mod progress;
mod report;
mod secrets;
mod settings;
mod tools;
mod trace;
mod worker;

#[cfg(test)]
mod tests;

pub use metrics::WorkerMetrics;
pub use settings::{Clock, WorkerError, WorkerSecrets, WorkerSettings, system_clock};
pub use tools::ToolRunner;
pub use worker::Worker;
