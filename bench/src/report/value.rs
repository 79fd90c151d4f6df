//! One figure over all rounds.

use std::collections::BTreeMap;

use super::table::number;
use crate::document::{Document, SystemResult, system_name};
use crate::gauge::{DISTURBED, OTHER};
use crate::metric::Metric;
use crate::outlets::Outlets;
use crate::peers::{Peer, PeerFigure};
use crate::site::StoreKind;
use crate::stats::median_by;
use crate::system::ShapeKind;

/// The median of a figure, which is one that was measured, and how disturbed that one was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Value {
    pub(super) value: f64,
    pub(super) other: f64,
}

impl Value {
    fn of(value: f64, cpu: &BTreeMap<String, f64>) -> Self {
        let other = cpu.get(OTHER).copied().unwrap_or(0.0);
        Self { value, other }
    }

    /// The number, with a mark where it was disturbed.
    pub(super) fn cell(self) -> String {
        format!("{}{}", number(self.value), self.mark())
    }

    pub(super) fn mark(self) -> &'static str {
        if self.other > DISTURBED { " (!)" } else { "" }
    }
}

/// The cell of a figure that may be missing.
pub(super) fn cell(value: Option<Value>) -> String {
    value.map_or_else(|| "-".to_owned(), Value::cell)
}

/// A system that was measured in some round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SystemName {
    pub(super) store: StoreKind,
    pub(super) shape: ShapeKind,
    pub(super) outlets: Outlets,
}

impl SystemName {
    pub(super) fn of(system: &SystemResult) -> Self {
        Self {
            store: system.store,
            shape: system.shape,
            outlets: system.outlets,
        }
    }

    pub(super) fn text(self) -> String {
        system_name(self.store, self.shape, self.outlets)
    }
}

/// All systems of a document, in a fixed order.
pub(super) fn systems(document: &Document) -> Vec<SystemName> {
    let all = document.rounds.iter().flat_map(|round| &round.systems);
    let mut names: Vec<_> = all
        .filter(|system| !system.measurements.is_empty())
        .map(SystemName::of)
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// A figure of ours.
pub(super) fn ours(document: &Document, name: SystemName, metric: Metric) -> Option<Value> {
    let systems = document.rounds.iter().flat_map(|round| &round.systems);
    let measured = systems
        .filter(|system| SystemName::of(system) == name)
        // A figure counts only if the log bears it out.
        .filter(|system| system.error.is_none())
        .flat_map(|system| &system.measurements)
        .filter_map(|measurement| {
            let value = *measurement.figures.get(&metric)?;
            Some(Value::of(value, &measurement.cpu))
        });
    median_by(measured.collect(), |value| value.value)
}

/// The names of all peers.
pub(super) fn peer_names(document: &Document) -> Vec<String> {
    let mut names: Vec<String> = document
        .rounds
        .iter()
        .filter_map(crate::document::Round::peers)
        .flat_map(|peers| peers.peers.into_keys())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// A figure of a peer, by variant.
pub(super) fn theirs(
    document: &Document,
    peer: &str,
    figures: impl Fn(&Peer) -> &BTreeMap<String, PeerFigure>,
    value: impl Fn(&PeerFigure) -> Option<f64>,
) -> BTreeMap<String, Value> {
    let mut measured: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for round in &document.rounds {
        let mut peers = round.peers().unwrap_or_default().peers;
        for (variant, figure) in peers.remove(peer).iter().flat_map(&figures) {
            let found = value(figure).map(|value| Value::of(value, &figure.cpu));
            measured.entry(variant.clone()).or_default().extend(found);
        }
    }
    let medians = measured.into_iter();
    medians
        .filter_map(|(variant, values)| Some((variant, median_by(values, |it| it.value)?)))
        .collect()
}
