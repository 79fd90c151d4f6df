//! Decisions of the engine, by area.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod classic_reports;
mod control;
mod cursors;
mod fence;
mod final_step;
mod limits;
mod name_resolution;
mod outputs;
mod payloads;
mod progress;
mod result_cache;
mod slots;
mod start;

use noetl_types::Json;
use noetl_types::json::parse;

fn parse_json(text: &str) -> Json {
    parse(text.as_bytes()).unwrap()
}
