//! Executions: start, control, signals, batches, and waiting for their end.

pub(crate) mod admission;
pub(crate) mod batch;
pub(crate) mod control;
pub(crate) mod dedup_keys;
pub(crate) mod signals;
pub(crate) mod start;
pub(crate) mod wait;

use std::sync::Arc;

use crate::driver::Driver;
use crate::services::issued_secrets::IssuedSecrets;
use crate::services::quotas::Quotas;
use crate::services::{Catalog, Infrastructure, Queries};
pub use start::{StartRequest, StartedExecution};

/// Starts and controls executions, and delivers signals to them.
pub struct Executions {
    pub(crate) infra: Arc<Infrastructure>,
    pub(crate) driver: Arc<Driver>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) queries: Arc<Queries>,
    pub(crate) quotas: Arc<Quotas>,
    pub(crate) secrets: Arc<IssuedSecrets>,
}
