//! Tests with a real NATS server: wakeups and the event stream.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod accounts;
mod broker_loss;
mod broker_proxy;
mod cluster;
mod inbox;
mod stream;
mod stream_reader;
mod wakeups;
