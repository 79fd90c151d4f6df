//! Registry of metrics.

use std::fmt;

use prometheus_client::encoding::text::encode;
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
    pub(super) fn register(&mut self, name: impl Into<String>, help: &str, metric: impl Metric) {
        let name = name.into();
        #[cfg(test)]
        self.metric_names.push(scraped_name(&name, metric.metric_type()));
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
fn scraped_name(name: &str, kind: prometheus_client::metrics::MetricType) -> String {
    use prometheus_client::metrics::MetricType;
    let suffix = match kind {
        MetricType::Counter => "_total",
        MetricType::Info => "_info",
        MetricType::Gauge | MetricType::Histogram | MetricType::Unknown => "",
    };
    format!("{NAME_PREFIX}_{name}{suffix}")
}
