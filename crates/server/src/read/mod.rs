//! What readers see of executions, definitions, results and workers.
//!
//! Owns the way from the rows of the store and the fold of a log to the answers of the API. Writes
//! nothing but what is no part of any execution: definitions, and who works here.

mod analyze;
mod approvals;
mod archive;
mod as_of;
mod catalog;
mod commands;
mod cursor;
mod database;
mod definitions;
mod detail;
mod elapsed;
mod events;
mod execution;
mod explain;
mod follow;
mod holdings;
mod known_workers;
mod list;
mod metrics;
mod placement;
mod put_result;
mod ready;
pub mod replay;
mod result;
mod sight;
mod stats;
mod status;
mod system;
mod ui_schema;
mod vars;
mod workers;

pub(crate) use as_of::SeqSeen;
pub(crate) use follow::{FeedFollower, FeedWish, Follower, LogPlace, Told};
pub(crate) use known_workers::KnownWorkers;
pub(crate) use result::value_of;
