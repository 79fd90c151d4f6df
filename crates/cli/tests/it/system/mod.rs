//! Tests of the whole system as real processes: servers, workers and databases are killed mid-run.
//!
//! Every test ends by verifying the logs: each acknowledged run exists, its log has no gap and no
//! modification, the run ended once, and no command has two accepted results.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its measurements"
)]

mod api;
mod broker_outage;
mod canary;
mod cancel;
mod clocks;
mod constructs;
mod crash_recovery;
mod database_roles;
mod deployment;
mod event_logs;
mod faults;
mod followers;
mod hostile_clients;
mod load;
mod long_logs;
mod multi_server;
mod platform;
mod process;
mod raw_http;
mod sandbox;
mod storm;
mod stream_reader;
mod task_output;
mod telemetry;
mod test_cluster;
mod tool_kinds;
mod zombies;
