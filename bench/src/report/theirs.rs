//! The table of the peers: each with its best variant of each workload.

use std::collections::BTreeMap;

use super::table::markdown;
use super::value::{Value, cell, peer_names, theirs};
use crate::document::Document;
use crate::metric::Better;
use crate::peers::{DURABLE, PeerIdle};

pub(super) fn table(document: &Document) -> String {
    let header = [
        "peer",
        "kind",
        "W1 p50 / p99 ms",
        "W2 runs/s",
        "W3 p50 ms",
        "W4 child runs s",
        "W4 steps s",
        "W5 idle MiB",
        "W5 first / second start s",
    ];
    let rows: Vec<_> = peer_names(document)
        .iter()
        .filter_map(|peer| row(document, peer))
        .collect();
    markdown(&header, &rows)
}

fn row(document: &Document, peer: &str) -> Option<Vec<String>> {
    let w1 = theirs(document, peer, |peer| &peer.w1, |it| it.p50_ms);
    let p99 = theirs(document, peer, |peer| &peer.w1, |it| it.p99_ms);
    let w2 = theirs(document, peer, |peer| &peer.w2, |it| it.runs_per_s);
    let w3 = theirs(document, peer, |peer| &peer.w3, |it| it.p50_ms);
    let w4 = theirs(document, peer, |peer| &peer.w4, |it| it.seconds);
    let idle = last_idle(document, peer);
    if w1.is_empty() && w2.is_empty() && w4.is_empty() && idle.is_none() {
        return None;
    }
    let (variant, latency) = best(&w1, Better::Lower).unzip();
    let tail = variant.and_then(|variant| p99.get(variant).copied());
    let kind = if DURABLE.contains(&peer) {
        "durable"
    } else {
        "queue"
    };
    Some(vec![
        peer.to_owned(),
        kind.to_owned(),
        format!("{} / {}", cell(latency), cell(tail)),
        cell(best(&w2, Better::Higher).map(|(_, value)| value)),
        cell(best(&w3, Better::Lower).map(|(_, value)| value)),
        cell(w4.get("child runs").copied()),
        cell(w4.get("steps").copied()),
        idle.as_ref().map_or_else(|| "-".to_owned(), memory),
        idle.as_ref().map_or_else(|| "-".to_owned(), starts),
    ])
}

/// The best of some variants.
pub(super) fn best(variants: &BTreeMap<String, Value>, better: Better) -> Option<(&String, Value)> {
    variants
        .iter()
        .fold(None, |best, (variant, &value)| match best {
            Some((_, so_far)) if !better.prefers(value.value, so_far.value) => best,
            Some(_) | None => Some((variant, value)),
        })
}

/// The last round tells as much as a median would: memory hardly changes.
fn last_idle(document: &Document, peer: &str) -> Option<PeerIdle> {
    let rounds = document.rounds.iter().rev();
    let mut found = rounds.filter_map(|round| round.peers()?.peers.remove(peer)?.w5);
    found.next()
}

fn memory(idle: &PeerIdle) -> String {
    let part = |(name, mib): (&String, &BTreeMap<String, f64>)| {
        let key = if name == "postgres" { "pss" } else { "rss" };
        format!("{name} {:.0}", mib.get(key).copied().unwrap_or(0.0))
    };
    idle.idle_mib
        .iter()
        .map(part)
        .collect::<Vec<_>>()
        .join(" + ")
}

fn starts(idle: &PeerIdle) -> String {
    let last = |starts: &serde_json::Map<String, serde_json::Value>| {
        let seconds = starts
            .values()
            .next_back()
            .and_then(serde_json::Value::as_f64);
        seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.2}"))
    };
    format!("{} / {}", last(&idle.first_start_s), last(&idle.restart_s))
}
