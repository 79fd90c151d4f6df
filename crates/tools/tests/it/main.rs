//! Tools with real interpreters, shells and servers.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod http;
mod python;
mod server;
mod shell;
mod support;
mod walls;
