//! Median of one figure over all rounds.

use std::collections::BTreeMap;

use super::table::format_number;
use crate::cpu_sampler::{MAX_OTHER_CPU_PERCENT, OTHER_CPU_KEY};
use crate::document::{BenchDocument, SystemResult, system_name};
use crate::metric::Metric;
use crate::peers::{PeerFigure, PeerResult};
use crate::publishing::PublishingMode;
use crate::stats::median_by;
use crate::store_site::StoreKind;
use crate::system::ShapeKind;

/// Median of a figure, which is a measured value, with the CPU share of other processes during it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MedianValue {
    pub(super) value: f64,
    pub(super) other_cpu: f64,
}

impl MedianValue {
    fn with_cpu_shares(value: f64, cpu: &BTreeMap<String, f64>) -> Self {
        let other_cpu = cpu.get(OTHER_CPU_KEY).copied().unwrap_or(0.0);
        Self { value, other_cpu }
    }

    /// Formats the number, with a mark if it was disturbed.
    pub(super) fn to_cell(self) -> String {
        format!("{}{}", format_number(self.value), self.disturbance_mark())
    }

    pub(super) fn disturbance_mark(self) -> &'static str {
        if self.other_cpu > MAX_OTHER_CPU_PERCENT { " (!)" } else { "" }
    }
}

/// Formats a figure that may be missing.
pub(super) fn format_cell(value: Option<MedianValue>) -> String {
    value.map_or_else(|| "-".to_owned(), MedianValue::to_cell)
}

/// Identifies a system that was measured in some round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SystemName {
    pub(super) store: StoreKind,
    pub(super) shape: ShapeKind,
    pub(super) publishing: PublishingMode,
}

impl SystemName {
    pub(super) fn from_result(system: &SystemResult) -> Self {
        Self { store: system.store, shape: system.shape, publishing: system.publishing }
    }

    pub(super) fn display_name(self) -> String {
        system_name(self.store, self.shape, self.publishing)
    }
}

/// Returns all systems of a document, in a fixed order.
pub(super) fn measured_systems(document: &BenchDocument) -> Vec<SystemName> {
    let systems = document.rounds.iter().flat_map(|round| &round.systems);
    let mut names: Vec<_> = systems
        .filter(|system| !system.measurements.is_empty())
        .map(SystemName::from_result)
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the median of a figure of ours.
pub(super) fn our_median(
    document: &BenchDocument,
    name: SystemName,
    metric: Metric,
) -> Option<MedianValue> {
    let systems = document.rounds.iter().flat_map(|round| &round.systems);
    let measured = systems
        .filter(|system| SystemName::from_result(system) == name)
        // Figures count only if the check of the log succeeded.
        .filter(|system| system.error.is_none())
        .flat_map(|system| &system.measurements)
        .filter_map(|measurement| {
            let value = *measurement.figures.get(&metric)?;
            Some(MedianValue::with_cpu_shares(value, &measurement.cpu))
        });
    median_by(measured.collect(), |value| value.value)
}

/// Returns the names of all peers.
pub(super) fn peer_names(document: &BenchDocument) -> Vec<String> {
    let mut names: Vec<String> = document
        .rounds
        .iter()
        .filter_map(crate::document::MeasurementRound::peers)
        .flat_map(|peers| peers.peers.into_keys())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the medians of a figure of a peer, by variant.
pub(super) fn peer_medians(
    document: &BenchDocument,
    peer: &str,
    figures: impl Fn(&PeerResult) -> &BTreeMap<String, PeerFigure>,
    value: impl Fn(&PeerFigure) -> Option<f64>,
) -> BTreeMap<String, MedianValue> {
    let mut measured: BTreeMap<String, Vec<MedianValue>> = BTreeMap::new();
    for round in &document.rounds {
        let mut peers = round.peers().unwrap_or_default().peers;
        for (variant, figure) in peers.remove(peer).iter().flat_map(&figures) {
            let median =
                value(figure).map(|value| MedianValue::with_cpu_shares(value, &figure.cpu));
            measured.entry(variant.clone()).or_default().extend(median);
        }
    }
    let medians = measured.into_iter();
    medians
        .filter_map(|(variant, values)| Some((variant, median_by(values, |median| median.value)?)))
        .collect()
}
