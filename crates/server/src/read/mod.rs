//! Queries over executions, definitions, results and workers.
//!
//! Owns the conversion of store rows and folded logs to API answers. Writes only data that is not
//! part of an execution: definitions and worker registrations.

mod analyze;
mod approvals;
mod archive;
mod catalog;
mod commands;
mod cursor;
mod database;
mod definitions;
mod detail;
mod elapsed;
mod events;
mod execution;
mod execution_list;
mod explain;
mod follow;
mod metrics;
mod observed_seq;
mod put_result;
mod readiness;
pub mod replay;
mod result;
mod sharding;
mod stats;
mod status;
mod system;
mod ui_schema;
mod vars;
mod visibility;
mod worker_cache;
mod worker_commands;
mod workers;

pub(crate) use follow::{FeedFilter, FeedFollower, FeedUpdate, LogFollower, LogPosition};
pub(crate) use observed_seq::ObservedSeq;
pub(crate) use result::parse_result_value;
pub(crate) use worker_cache::WorkerCache;
