//! Tools with real interpreters, shells and servers.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod container;
mod database;
mod guard;
mod http;
mod interpreters;
mod mcp;
mod nats;
mod platform;
mod postgres;
mod python;
#[cfg(feature = "rhai")]
mod rhai;
mod script;
mod server;
mod shell;
mod sqlite;
mod support;
mod tls;
mod transfer;
mod walls;
