//! What holds of every run, whatever the playbook, the workers and the order of things.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod generate;
mod graphs;
mod runs;
