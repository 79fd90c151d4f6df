//! Properties of every run, for any playbook, worker behaviour and order of events.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

pub(crate) mod generate;
mod graphs;
mod runs;
