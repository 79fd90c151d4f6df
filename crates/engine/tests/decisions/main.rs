//! Decisions that need more than a glance at the log.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod bounds;
mod caches;
mod cursors;
mod endings;
mod fence;
mod names;
mod outputs;
mod payloads;
mod progress;
mod slots;
mod start;
mod steering;
mod told;

use noetl_types::Json;
use noetl_types::json::parse;

fn json(text: &str) -> Json {
    parse(text.as_bytes()).unwrap()
}
