//! Tests of the real binary: its output and its exit codes.
#![cfg(test)]

mod check;
mod client_commands;
mod command_output;
mod database;
mod diagnostics;
mod docs;
mod examples;
mod explain;
mod fake_server;
mod fake_services;
mod graph;
mod help;
mod outbox;
mod process;
mod readme_session;
mod reference;
mod replay;
mod run;
mod run_inspection;
mod secrets;
mod serve;
mod support;
mod target_selection;
mod terminal_output;
mod tls;
mod without_server;
