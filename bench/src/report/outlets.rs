//! The table of the outlets: the stream and the outbox.

use super::table::markdown;
use super::value::{SystemName, Value, cell, ours, systems};
use crate::document::Document;
use crate::metric::{Better, Metric};

pub(super) fn table(document: &Document) -> String {
    let header = [
        "outlets",
        "W8 answer to consumer p50 / p99 ms",
        "W9 backlog events/s",
        "W9 plain publisher events/s (ours in %)",
        "W10 rows/s, 50 at once (times pg-boss)",
        "W10 rows/s, 1000 at once (times pg-boss)",
        "W10 pending count p50 / p99 ms",
    ];
    let is_measured = |name: &SystemName| {
        let metrics = [
            Metric::ConsumerP50Ms,
            Metric::PublishPerS,
            Metric::OutboxFewPerS,
        ];
        let mut found = metrics.iter().filter_map(|it| ours(document, *name, *it));
        found.next().is_some()
    };
    let rows: Vec<_> = systems(document)
        .into_iter()
        .filter(is_measured)
        .map(|name| row(document, name))
        .collect();
    markdown(&header, &rows)
}

fn row(document: &Document, name: SystemName) -> Vec<String> {
    let value = |metric| ours(document, name, metric);
    let of = |metric| cell(value(metric));
    let pair = |left, right| format!("{} / {}", of(left), of(right));
    let plain = value(Metric::PublishShare).map_or_else(String::new, share);
    vec![
        name.text(),
        pair(Metric::ConsumerP50Ms, Metric::ConsumerP99Ms),
        of(Metric::PublishPerS),
        format!("{}{plain}", of(Metric::PlainPublishPerS)),
        against(value(Metric::OutboxFewPerS), value(Metric::PgBossFewPerS)),
        against(value(Metric::OutboxManyPerS), value(Metric::PgBossManyPerS)),
        pair(Metric::PendingP50Ms, Metric::PendingP99Ms),
    ]
}

fn share(share: Value) -> String {
    format!(" ({:.0} %)", share.value)
}

/// A rate of ours, and how it stands to that of pg-boss.
fn against(ours: Option<Value>, theirs: Option<Value>) -> String {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => {
            let ratio = Better::Higher.ratio(ours.value, theirs.value);
            format!("{} (x{ratio:.2} of {})", ours.cell(), theirs.cell())
        }
        (ours, _) => cell(ours),
    }
}
