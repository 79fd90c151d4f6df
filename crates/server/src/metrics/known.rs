//! A number that is told while it is known.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;

/// A gauge without a line while nobody knows its number: one of before would be taken for one of now.
#[derive(Debug, Clone, Default)]
pub(super) struct Known(Arc<Mutex<Option<i64>>>);

impl Known {
    pub(super) fn set(&self, number: Option<i64>) {
        *self.number() = number;
    }

    fn number(&self) -> MutexGuard<'_, Option<i64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EncodeMetric for Known {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let number = *self.number();
        number.map_or(Ok(()), |number| encoder.encode_gauge(&number))
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}
