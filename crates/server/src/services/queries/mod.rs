//! Queries about executions.
//!
//! Owns the conversion of store rows and folded logs to API answers. Must not decide or write
//! anything, except snapshots and variables.

mod analyze;
mod approvals;
mod commands;
mod cursor;
mod detail;
mod events;
mod execution;
mod execution_list;
mod explain;
pub(crate) mod follow;
mod output;
pub mod replay;
mod vars;

use std::sync::Arc;

use crate::driver::Driver;
use crate::services::{Infrastructure, Publishing, Results};
pub(crate) use follow::{FeedFilter, FeedFollower, FeedUpdate, LogFollower, LogPosition};
pub(crate) use output::OutputFollower;

/// Answers questions about executions.
pub struct Queries {
    pub(crate) infra: Arc<Infrastructure>,
    pub(crate) driver: Arc<Driver>,
    pub(crate) results: Arc<Results>,
    pub(crate) publishing: Arc<Publishing>,
}
