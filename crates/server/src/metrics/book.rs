//! Where everything that is counted is entered.

use std::fmt;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::{Metric, Registry};

/// What every name begins with.
const PREFIX: &str = "noetl";

#[derive(Debug)]
pub(super) struct Book {
    registry: Registry,
    /// As a scrape names them, whether or not there is something to tell of them yet.
    #[cfg(test)]
    names: Vec<String>,
}

impl Book {
    pub(super) fn new() -> Self {
        Self {
            registry: Registry::with_prefix(PREFIX),
            #[cfg(test)]
            names: Vec::new(),
        }
    }

    /// Enters something under a name, which stands behind the prefix, with a sentence that has no full stop.
    pub(super) fn register(&mut self, name: impl Into<String>, help: &str, metric: impl Metric) {
        let name = name.into();
        #[cfg(test)]
        self.names.push(told_name(&name, metric.metric_type()));
        self.registry.register(name, help, metric);
    }

    /// Everything, as a scrape gets it.
    pub(super) fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    #[cfg(test)]
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }
}

#[cfg(test)]
fn told_name(name: &str, kind: prometheus_client::metrics::MetricType) -> String {
    use prometheus_client::metrics::MetricType;
    let suffix = match kind {
        MetricType::Counter => "_total",
        MetricType::Info => "_info",
        MetricType::Gauge | MetricType::Histogram | MetricType::Unknown => "",
    };
    format!("{PREFIX}_{name}{suffix}")
}
