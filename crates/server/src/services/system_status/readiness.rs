//! Readiness checks of the server.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use noetl_api::health::{HealthStatus, ReadinessResponse};
use noetl_store::RuntimeKind;
use noetl_types::{ExecutionId, Json, Text};

use crate::error::{Result, RuntimeError};
use crate::services::system_status::SystemStatus;

/// Timeout of a trivial store query.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum missing protections that are reported. Workers choose these texts.
const MAX_MISSING_PROTECTIONS: usize = 32;
const MAX_PROTECTION_TEXT_BYTES: usize = 300;

impl SystemStatus {
    /// Checks the dependencies that every request requires.
    pub async fn check_readiness(&self) -> ReadinessResponse {
        // The checks run concurrently, because a probe waits little longer than one of them.
        let (store, tables, missing) = tokio::join!(
            self.check_store(),
            self.check_tables(),
            tokio::time::timeout(PROBE_TIMEOUT, self.missing_protections()),
        );
        if store.is_err() {
            // The next store that answers may be a different one.
            self.tables_found.store(false, Ordering::Relaxed);
        }
        let machine_id = self.infra.ids.check_usable(self.infra.now());
        let mut ready = ReadinessResponse::from_checks([
            ("clock", self.infra.clock.check_skew()),
            ("machine_id", machine_id.map_err(|error| error.to_string().into())),
            ("store", store),
        ]);
        ready = match tables {
            Ok(()) => ready.with_check("migrations", HealthStatus::Ok, Ok(())),
            Err((health, reason)) => ready.with_check("migrations", health, Err(reason)),
        };
        // Without a warning the check is healthy.
        ready = ready.with_check("partitions", HealthStatus::Ok, Ok(()));
        if self.infra.settings.keys.is_some() {
            // A server does not start with keys that cannot decrypt the stored secrets.
            ready = ready.with_check("keys", HealthStatus::Ok, Ok(()));
        }
        if self.infra.outbox {
            ready = ready.with_check("outbox", HealthStatus::Ok, Ok(()));
        }
        for warning in self.maintenance.warnings.current_warnings() {
            ready = ready.with_check(warning.check_name, warning.health, Err(warning.reason));
        }
        // The server works without these, with delays.
        let optional = [
            ("nats", self.publishing.messaging_health()),
            ("stream", self.publishing.stream_health()),
        ];
        let ready = optional.into_iter().fold(ready, |ready, (name, health)| match health {
            Some(health) => ready.with_check(name, HealthStatus::Degraded, health),
            None => ready,
        });
        ready.with_inactive_layers(missing.ok().and_then(Result::ok).unwrap_or_default())
    }

    /// Returns the missing protections without duplicates: missing database privilege checks, and
    /// sandbox layers that live workers could not enable.
    async fn missing_protections(&self) -> Result<Vec<Text>> {
        let from_store = self.infra.store().list_failed_privilege_checks().await?;
        let from_store = from_store.iter().map(|text| Text::from(text.to_string()));
        let workers = self.infra.store().list_runtimes(RuntimeKind::WorkerPool).await?;
        let alive = workers.into_iter().filter(|worker| {
            self.infra.now().duration_since(worker.heartbeat)
                <= self.infra.settings.worker_offline_after
        });
        let mut from_workers = BTreeSet::new();
        for worker in alive {
            let detail = worker.detail.unwrap_or_default();
            let sandbox = detail.get("capabilities").and_then(|reported| reported.get("sandbox"));
            let reported = sandbox.and_then(|reported| reported.get("missing")?.as_list());
            let reported = reported.unwrap_or_default().iter().filter_map(Json::as_str);
            let short = reported.filter(|text| text.len() <= MAX_PROTECTION_TEXT_BYTES);
            from_workers.extend(short.map(Text::from));
        }
        // Those of the store are listed first, so that reports of workers cannot displace them.
        Ok(from_store.chain(from_workers).take(MAX_MISSING_PROTECTIONS).collect())
    }

    /// Checks that all tables exist. A store is migrated when it is opened, but it may be replaced
    /// later. Only tables known to be missing fail the check, because a query that times out may
    /// only mean that the store is busy. After a success the tables are not checked again while the
    /// store answers.
    async fn check_tables(&self) -> Result<(), (HealthStatus, Text)> {
        if self.tables_found.load(Ordering::Relaxed) {
            return Ok(());
        }
        let tables =
            match tokio::time::timeout(PROBE_TIMEOUT, self.infra.store().check_tables()).await {
                Ok(Ok(tables)) => tables,
                Ok(Err(error)) => {
                    let reason = RuntimeError::from(error).into_problem().detail;
                    return Err((HealthStatus::Degraded, reason));
                }
                Err(_) => {
                    let reason = "the store did not list its tables in time".into();
                    return Err((HealthStatus::Degraded, reason));
                }
            };
        let missing = tables.iter().filter(|(_, exists)| !**exists);
        let missing: Vec<&str> = missing.map(|(name, _)| &**name).collect();
        if !missing.is_empty() {
            let reason = format!("tables are missing: {}", missing.join(", "));
            return Err((HealthStatus::Failed, reason.into()));
        }
        self.tables_found.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn check_store(&self) -> Result<(), Text> {
        // The lowest id is a key lookup without a match on every store.
        let Ok(lowest) = ExecutionId::new(1) else {
            return Ok(());
        };
        match tokio::time::timeout(PROBE_TIMEOUT, self.infra.store().find_execution(lowest)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => {
                // `into_problem` also writes the cause to the log.
                let problem = RuntimeError::from(error).into_problem();
                Err(problem.detail)
            }
            Err(_) => Err("the store does not answer".into()),
        }
    }
}
