//! Gauge whose value may be unknown.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;

/// Gauge that is omitted while its value is unknown, so that an old value is not reported as
/// current.
#[derive(Debug, Clone, Default)]
pub(super) struct OptionalGauge(Arc<Mutex<Option<i64>>>);

impl OptionalGauge {
    pub(super) fn set(&self, value: Option<i64>) {
        *self.lock_value() = value;
    }

    fn lock_value(&self) -> MutexGuard<'_, Option<i64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EncodeMetric for OptionalGauge {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let value = *self.lock_value();
        value.map_or(Ok(()), |value| encoder.encode_gauge(&value))
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}
