//! The table of replays.

use super::table::markdown_table;
use super::value::{SystemName, format_cell, measured_systems, our_median};
use crate::document::BenchDocument;
use crate::metric::Metric;

pub(super) fn replay_table(document: &BenchDocument) -> String {
    let header = [
        "W7 replay",
        "whole log, events/s",
        "from memory, events/s",
        "end, ms by length",
        "middle, ms by length",
        "steady state: whole log, events/s",
        "end, ms by length",
        "middle, ms by length",
        "first read, ms by length",
    ];
    let rows: Vec<_> = measured_systems(document)
        .into_iter()
        .filter(|name| our_median(document, *name, Metric::ReplayEventsPerS).is_some())
        .map(|name| replay_row(document, name))
        .collect();
    markdown_table(&header, &rows)
}

fn replay_row(document: &BenchDocument, name: SystemName) -> Vec<String> {
    let cell = |metric| format_cell(our_median(document, name, metric));
    let by_length = |metrics: [Metric; 3]| metrics.map(cell).join(" / ");
    vec![
        name.display_name(),
        cell(Metric::ReplayEventsPerS),
        cell(Metric::FoldEventsPerS),
        by_length([Metric::EndShortMs, Metric::EndMediumMs, Metric::EndLongMs]),
        by_length([Metric::AsOfShortMs, Metric::AsOfMediumMs, Metric::AsOfLongMs]),
        cell(Metric::SteadyEventsPerS),
        by_length([Metric::SteadyEndShortMs, Metric::SteadyEndMediumMs, Metric::SteadyEndLongMs]),
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
