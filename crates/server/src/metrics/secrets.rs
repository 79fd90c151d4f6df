//! Metrics of operations on secrets, without names and tenants, which are in the audit log.

use noetl_api::credential::RotationSummary;
use noetl_types::{ErrorCode, SecretOperation};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::labels::{OutcomeLabels, SecretLabels};
use super::registry::MetricRegistry;

#[derive(Debug, Default)]
pub(crate) struct SecretMetrics {
    operations: Family<SecretLabels, Counter>,
    sealed_credentials: Counter,
    rotated_secrets: Family<OutcomeLabels, Counter>,
}

impl SecretMetrics {
    pub(super) fn register_in(registry: &mut MetricRegistry) -> Self {
        let metrics = Self::default();
        let help = "Operations on secrets, by outcome";
        registry.register("secret_operations", help, metrics.operations.clone());
        let help = "Credentials sealed for a worker";
        registry.register("credentials_sealed", help, metrics.sealed_credentials.clone());
        let help = "Secrets processed by key rotation, by outcome";
        registry.register("wallet_rotate", help, metrics.rotated_secrets.clone());
        metrics
    }

    /// Counts an operation on a secret. The outcome is an error code on failure.
    pub(crate) fn count_operation(&self, operation: SecretOperation, outcome: Result<(), &str>) {
        let outcome = match outcome.map_err(ErrorCode::parse) {
            Ok(()) => "ok",
            Err(Ok(code)) if code.http_status() < 500 => "refused",
            Err(_) => "failed",
        };
        let operation = operation.as_str();
        let labels = SecretLabels { operation, outcome };
        self.operations.get_or_create_owned(&labels).inc();
    }

    pub(crate) fn count_sealed(&self) {
        self.sealed_credentials.inc();
    }

    pub(crate) fn count_rotated(&self, summary: RotationSummary) {
        for (outcome, count) in [
            ("rewrapped", summary.rewrapped),
            ("skipped", summary.skipped),
            ("failed", summary.failed),
        ] {
            let labels = OutcomeLabels { outcome };
            self.rotated_secrets.get_or_create_owned(&labels).inc_by(count);
        }
    }
}
