//! Integration tests of tools with real interpreters, shells and servers.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod classic_corpus;
mod container;
mod database;
mod duckdb;
mod egress_policy;
mod http;
mod http_server;
mod interpreters;
mod mcp;
mod nats;
mod platform;
mod postgres;
mod process_limits;
mod python;
mod rhai;
mod script;
mod shell;
mod sqlite;
mod support;
mod tls;
mod transfer;
