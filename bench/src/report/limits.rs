//! How near our figures are to what the disk and the plain databases can do at all.

use super::table::{markdown, number};
use super::value::{SystemName, Value, ours, systems, theirs};
use crate::document::Document;
use crate::metric::Metric;
use crate::site::StoreKind;

/// The peer that only tells limits.
const RAW: &str = "raw";

pub(super) fn table(document: &Document) -> String {
    let limits = theirs(document, RAW, |peer| &peer.limits, |figure| figure.value);
    let header = [
        "against the plain store",
        "limit",
        "ours",
        "in units of the limit",
    ];
    let mut rows = Vec::new();
    for name in systems(document) {
        let limit = |label: &str| limits.get(label).copied();
        rows.extend(alone(document, name, limit(one_by_one(name.store))));
        rows.extend(together(document, name, limit(many(name.store))));
    }
    for (label, value) in &limits {
        let unit = unit(document, label);
        rows.push(vec![
            label.clone(),
            format!("{} {unit}", value.cell()),
            "-".to_owned(),
            "-".to_owned(),
        ]);
    }
    markdown(&header, &rows)
}

/// The limit of commits that follow each other.
const fn one_by_one(store: StoreKind) -> &'static str {
    match store {
        StoreKind::Sqlite => "SQLite WAL FULL, one row per commit",
        StoreKind::Postgres => "Postgres, one row per commit, 1 client",
    }
}

/// The limit of commits from many clients; SQLite has one writer whoever asks.
const fn many(store: StoreKind) -> &'static str {
    match store {
        StoreKind::Sqlite => "SQLite WAL FULL, one row per commit",
        StoreKind::Postgres => "Postgres, one row per commit, 32 clients",
    }
}

/// A single run in commits of the plain store, of which it cannot do with less than two: a run must
/// be durable before it is worked on, and its result before it is told.
fn alone(document: &Document, name: SystemName, limit: Option<Value>) -> Option<Vec<String>> {
    let run = ours(document, name, Metric::RunP50Ms)?;
    let limit = limit?;
    let commit_ms = 1e3 / limit.value;
    Some(vec![
        format!("{}: W1 p50", name.text()),
        format!("{} ms a commit{}", number(commit_ms), limit.mark()),
        format!("{} ms", run.cell()),
        format!("{} commits a run", number(run.value / commit_ms)),
    ])
}

fn together(document: &Document, name: SystemName, limit: Option<Value>) -> Option<Vec<String>> {
    let rate = ours(document, name, Metric::RunsPerS)?;
    let limit = limit?;
    Some(vec![
        format!("{}: W2", name.text()),
        format!("{} commits/s", limit.cell()),
        format!("{} runs/s", rate.cell()),
        format!("{} commits a run", number(limit.value / rate.value)),
    ])
}

fn unit(document: &Document, label: &str) -> String {
    let rounds = document.rounds.iter();
    let mut units = rounds.filter_map(|round| {
        let mut peers = round.peers()?.peers;
        peers.remove(RAW)?.limits.remove(label)?.unit
    });
    units.next().unwrap_or_default()
}
