//! Table of the publishing figures: the stream and the outbox.

use super::table::markdown_table;
use super::value::{MedianValue, SystemName, format_cell, measured_systems, our_median};
use crate::document::BenchDocument;
use crate::metric::{BetterDirection, Metric};

pub(super) fn publishing_table(document: &BenchDocument) -> String {
    let header = [
        "publishing",
        "W8 response to consumer p50 / p99 ms",
        "W9 backlog events/s",
        "W9 plain publisher events/s (ours in %)",
        "W10 rows/s, 50 at once (times pg-boss)",
        "W10 rows/s, 1000 at once (times pg-boss)",
        "W10 pending count p50 / p99 ms",
    ];
    let is_measured = |name: &SystemName| {
        let metrics = [Metric::ConsumerP50Ms, Metric::PublishPerS, Metric::OutboxFewPerS];
        let mut medians = metrics.iter().filter_map(|metric| our_median(document, *name, *metric));
        medians.next().is_some()
    };
    let rows: Vec<_> = measured_systems(document)
        .into_iter()
        .filter(is_measured)
        .map(|name| publishing_row(document, name))
        .collect();
    markdown_table(&header, &rows)
}

fn publishing_row(document: &BenchDocument, name: SystemName) -> Vec<String> {
    let value = |metric| our_median(document, name, metric);
    let cell = |metric| format_cell(value(metric));
    let pair = |left, right| format!("{} / {}", cell(left), cell(right));
    let plain = value(Metric::PublishShare).map_or_else(String::new, format_share);
    vec![
        name.display_name(),
        pair(Metric::ConsumerP50Ms, Metric::ConsumerP99Ms),
        cell(Metric::PublishPerS),
        format!("{}{plain}", cell(Metric::PlainPublishPerS)),
        format_against_pgboss(value(Metric::OutboxFewPerS), value(Metric::PgBossFewPerS)),
        format_against_pgboss(value(Metric::OutboxManyPerS), value(Metric::PgBossManyPerS)),
        pair(Metric::PendingP50Ms, Metric::PendingP99Ms),
    ]
}

fn format_share(share: MedianValue) -> String {
    format!(" ({:.0} %)", share.value)
}

/// Formats our rate, with its ratio to that of pg-boss.
fn format_against_pgboss(ours: Option<MedianValue>, theirs: Option<MedianValue>) -> String {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => {
            let ratio = BetterDirection::Higher.improvement_ratio(ours.value, theirs.value);
            format!("{} (x{ratio:.2} of {})", ours.to_cell(), theirs.to_cell())
        }
        (ours, _) => format_cell(ours),
    }
}
