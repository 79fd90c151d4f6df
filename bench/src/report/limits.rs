//! Comparison of our figures with the limits of the disk and the plain databases.

use super::table::{format_number, markdown_table};
use super::value::{MedianValue, SystemName, measured_systems, our_median, peer_medians};
use crate::document::BenchDocument;
use crate::metric::Metric;
use crate::store_site::StoreKind;

/// Peer that only reports limits.
const LIMITS_PEER: &str = "raw";

pub(super) fn limits_table(document: &BenchDocument) -> String {
    let limits = peer_medians(document, LIMITS_PEER, |peer| &peer.limits, |figure| figure.value);
    let header = ["against the plain store", "limit", "ours", "in units of the limit"];
    let mut rows = Vec::new();
    for name in measured_systems(document) {
        let limit = |label: &str| limits.get(label).copied();
        rows.extend(latency_row(document, name, limit(sequential_limit(name.store))));
        rows.extend(throughput_row(document, name, limit(concurrent_limit(name.store))));
    }
    for (label, value) in &limits {
        let unit = limit_unit(document, label);
        rows.push(vec![
            label.clone(),
            format!("{} {unit}", value.to_cell()),
            "-".to_owned(),
            "-".to_owned(),
        ]);
    }
    markdown_table(&header, &rows)
}

/// Name of the limit of sequential commits.
const fn sequential_limit(store: StoreKind) -> &'static str {
    match store {
        StoreKind::Sqlite => "SQLite WAL FULL, one row per commit",
        StoreKind::Postgres => "Postgres, one row per commit, 1 client",
    }
}

/// Name of the limit of concurrent commits. SQLite always has one writer.
const fn concurrent_limit(store: StoreKind) -> &'static str {
    match store {
        StoreKind::Sqlite => "SQLite WAL FULL, one row per commit",
        StoreKind::Postgres => "Postgres, one row per commit, 32 clients",
    }
}

/// Compares a single run with commits of the plain store. It needs at least two: a run must be
/// durable before its execution, and its result before it is reported.
fn latency_row(
    document: &BenchDocument,
    name: SystemName,
    limit: Option<MedianValue>,
) -> Option<Vec<String>> {
    let run = our_median(document, name, Metric::RunP50Ms)?;
    let limit = limit?;
    let commit_ms = 1e3 / limit.value;
    Some(vec![
        format!("{}: W1 p50", name.display_name()),
        format!("{} ms a commit{}", format_number(commit_ms), limit.disturbance_mark()),
        format!("{} ms", run.to_cell()),
        format!("{} commits a run", format_number(run.value / commit_ms)),
    ])
}

fn throughput_row(
    document: &BenchDocument,
    name: SystemName,
    limit: Option<MedianValue>,
) -> Option<Vec<String>> {
    let rate = our_median(document, name, Metric::RunsPerS)?;
    let limit = limit?;
    Some(vec![
        format!("{}: W2", name.display_name()),
        format!("{} commits/s", limit.to_cell()),
        format!("{} runs/s", rate.to_cell()),
        format!("{} commits a run", format_number(limit.value / rate.value)),
    ])
}

fn limit_unit(document: &BenchDocument, label: &str) -> String {
    let rounds = document.rounds.iter();
    let mut units = rounds.filter_map(|round| {
        let mut peers = round.peers()?.peers;
        peers.remove(LIMITS_PEER)?.limits.remove(label)?.unit
    });
    units.next().unwrap_or_default()
}
