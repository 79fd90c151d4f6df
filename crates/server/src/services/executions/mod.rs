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
    infra: Arc<Infrastructure>,
    driver: Arc<Driver>,
    catalog: Arc<Catalog>,
    queries: Arc<Queries>,
    quotas: Arc<Quotas>,
    secrets: Arc<IssuedSecrets>,
}

impl Executions {
    pub(crate) fn new(
        infra: &Arc<Infrastructure>,
        driver: &Arc<Driver>,
        catalog: &Arc<Catalog>,
        queries: &Arc<Queries>,
        secrets: &Arc<IssuedSecrets>,
    ) -> Self {
        Self {
            infra: Arc::clone(infra),
            driver: Arc::clone(driver),
            catalog: Arc::clone(catalog),
            queries: Arc::clone(queries),
            quotas: Arc::new(Quotas::new(infra)),
            secrets: Arc::clone(secrets),
        }
    }
}
