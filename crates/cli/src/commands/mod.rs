//! Commands, one module each: arguments, help and implementation.

pub(crate) mod catalog;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod db;
pub(crate) mod doctor;
pub(crate) mod exec;
pub(crate) mod explain;
pub(crate) mod graph;
pub(crate) mod man;
pub(crate) mod outbox;
pub(crate) mod profile;
pub(crate) mod replay;
pub(crate) mod retention;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod schema;
pub(crate) mod secret;
pub(crate) mod serve;
pub(crate) mod stream;
pub(crate) mod token;
pub(crate) mod worker;

use noetl_types::limits::PageLimit;

/// Limit of the next page of a list with at most `max_items` items.
fn next_page_limit(max_items: usize, fetched: usize) -> PageLimit {
    PageLimit::clamped(i64::try_from(max_items.saturating_sub(fetched)).unwrap_or(i64::MAX))
}
