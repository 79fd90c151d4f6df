//! Servers and a real NATS server: wake-ups, and the stream of the log.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod hold;
mod house;
mod inbox;
mod lost;
mod outside;
mod stream;
mod wake;
