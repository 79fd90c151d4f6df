//! Registry of metrics, and the declaration of metric sets.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Metric, Registry};

/// Prefix of all metric names.
const NAME_PREFIX: &str = "noetl";

#[derive(Debug)]
pub(super) struct MetricRegistry {
    registry: Registry,
    /// Names as in a scrape, including metrics that have no value yet.
    #[cfg(test)]
    metric_names: Vec<String>,
}

impl MetricRegistry {
    pub(super) fn new() -> Self {
        Self {
            registry: Registry::with_prefix(NAME_PREFIX),
            #[cfg(test)]
            metric_names: Vec::new(),
        }
    }

    /// Registers a metric. The name is without prefix, the help text without a full stop.
    pub(super) fn register(&mut self, name: &str, help: &str, metric: impl Metric) {
        #[cfg(test)]
        self.metric_names.push(scraped_name(name, metric.metric_type()));
        self.registry.register(name, help, metric);
    }

    /// Encodes all metrics as text.
    pub(super) fn encode_text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    #[cfg(test)]
    pub(super) fn metric_names(&self) -> &[String] {
        &self.metric_names
    }
}

#[cfg(test)]
fn scraped_name(name: &str, kind: MetricType) -> String {
    let suffix = match kind {
        MetricType::Counter => "_total",
        MetricType::Info => "_info",
        MetricType::Gauge | MetricType::Histogram | MetricType::Unknown => "",
    };
    format!("{NAME_PREFIX}_{name}{suffix}")
}

/// Declares a set of metrics. Each line is the name of a metric without prefix, its help text, and
/// the field with its type and, unless it is the default, its initial value.
macro_rules! metric_set {
    (
        $(#[$attribute:meta])*
        struct $set:ident { $($name:literal $help:literal $field:ident: $kind:ty $(= $new:expr)?;)+ }
    ) => {
        $(#[$attribute])*
        #[derive(Debug)]
        pub(crate) struct $set { $(pub(crate) $field: $kind,)+ }

        impl $set {
            pub(in crate::metrics) fn register_in(registry: &mut MetricRegistry) -> Self {
                let metrics = Self { $($field: metric_set!(@new $($new)?),)+ };
                $(registry.register($name, $help, metrics.$field.clone());)+
                metrics
            }
        }
    };
    (@new) => { Default::default() };
    (@new $new:expr) => { $new };
}

pub(super) use metric_set;

/// Gauge that is omitted while its value is unknown, so that an old value is not reported as
/// current.
#[derive(Debug, Clone, Default)]
pub(crate) struct OptionalGauge(Arc<Mutex<Option<i64>>>);

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

pub(super) fn to_gauge_value(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
