//! The table of replays.

use super::table::markdown;
use super::value::{SystemName, cell, ours, systems};
use crate::document::Document;
use crate::metric::Metric;

pub(super) fn table(document: &Document) -> String {
    let header = [
        "W7 replay",
        "whole log, events/s",
        "from memory, events/s",
        "end, ms by length",
        "middle, ms by length",
        "steady state: whole log, events/s",
        "end, ms by length",
        "middle, ms by length",
        "first look, ms by length",
    ];
    let rows: Vec<_> = systems(document)
        .into_iter()
        .filter(|name| ours(document, *name, Metric::ReplayEventsPerS).is_some())
        .map(|name| row(document, name))
        .collect();
    markdown(&header, &rows)
}

fn row(document: &Document, name: SystemName) -> Vec<String> {
    let of = |metric| cell(ours(document, name, metric));
    let by_length = |metrics: [Metric; 3]| metrics.map(of).join(" / ");
    vec![
        name.text(),
        of(Metric::ReplayEventsPerS),
        of(Metric::FoldEventsPerS),
        by_length([Metric::EndShortMs, Metric::EndMediumMs, Metric::EndLongMs]),
        by_length([
            Metric::AsOfShortMs,
            Metric::AsOfMediumMs,
            Metric::AsOfLongMs,
        ]),
        of(Metric::SteadyEventsPerS),
        by_length([
            Metric::SteadyEndShortMs,
            Metric::SteadyEndMediumMs,
            Metric::SteadyEndLongMs,
        ]),
        by_length([
            Metric::SteadyMiddleShortMs,
            Metric::SteadyMiddleMediumMs,
            Metric::SteadyMiddleLongMs,
        ]),
        by_length([
            Metric::SteadyFirstShortMs,
            Metric::SteadyFirstMediumMs,
            Metric::SteadyFirstLongMs,
        ]),
    ]
}
