//! Table of the peers: each with its best variant of each workload.

use std::collections::BTreeMap;

use super::table::markdown_table;
use super::value::{MedianValue, format_cell, peer_medians, peer_names};
use crate::document::BenchDocument;
use crate::metric::BetterDirection;
use crate::peers::{DURABLE_PEERS, PeerIdle};

pub(super) fn peer_figures_table(document: &BenchDocument) -> String {
    let header = [
        "peer", "kind", "W1 p50 / p99 ms", "W2 runs/s", "W3 p50 ms", "W4 child runs s",
        "W4 steps s", "W5 idle MiB", "W5 first / second start s",
    ];
    let rows: Vec<_> =
        peer_names(document).iter().filter_map(|peer| peer_figures_row(document, peer)).collect();
    markdown_table(&header, &rows)
}

fn peer_figures_row(document: &BenchDocument, peer: &str) -> Option<Vec<String>> {
    let w1 = peer_medians(document, peer, |peer| &peer.w1, |figure| figure.p50_ms);
    let p99 = peer_medians(document, peer, |peer| &peer.w1, |figure| figure.p99_ms);
    let w2 = peer_medians(document, peer, |peer| &peer.w2, |figure| figure.runs_per_s);
    let w3 = peer_medians(document, peer, |peer| &peer.w3, |figure| figure.p50_ms);
    let w4 = peer_medians(document, peer, |peer| &peer.w4, |figure| figure.seconds);
    let idle = last_idle(document, peer);
    if w1.is_empty() && w2.is_empty() && w4.is_empty() && idle.is_none() {
        return None;
    }
    let (variant, latency) = best_variant(&w1, BetterDirection::Lower).unzip();
    let tail = variant.and_then(|variant| p99.get(variant).copied());
    let kind = if DURABLE_PEERS.contains(&peer) { "durable" } else { "queue" };
    Some(vec![
        peer.to_owned(),
        kind.to_owned(),
        format!("{} / {}", format_cell(latency), format_cell(tail)),
        format_cell(best_variant(&w2, BetterDirection::Higher).map(|(_, value)| value)),
        format_cell(best_variant(&w3, BetterDirection::Lower).map(|(_, value)| value)),
        format_cell(w4.get("child runs").copied()),
        format_cell(w4.get("steps").copied()),
        idle.as_ref().map_or_else(|| "-".to_owned(), format_peer_memory),
        idle.as_ref().map_or_else(|| "-".to_owned(), format_peer_starts),
    ])
}

/// Returns the best variant.
pub(super) fn best_variant(
    variants: &BTreeMap<String, MedianValue>,
    better: BetterDirection,
) -> Option<(&String, MedianValue)> {
    variants.iter().fold(None, |best, (variant, &value)| match best {
        Some((_, so_far)) if !better.is_better(value.value, so_far.value) => best,
        Some(_) | None => Some((variant, value)),
    })
}

/// Returns the idle figures of the last round. A median would add nothing, since memory hardly
/// changes.
fn last_idle(document: &BenchDocument, peer: &str) -> Option<PeerIdle> {
    let rounds = document.rounds.iter().rev();
    let mut idle = rounds.filter_map(|round| round.peers()?.peers.remove(peer)?.w5);
    idle.next()
}

fn format_peer_memory(idle: &PeerIdle) -> String {
    let format_part = |(name, mib): (&String, &BTreeMap<String, f64>)| {
        let key = if name == "postgres" { "pss" } else { "rss" };
        format!("{name} {:.0}", mib.get(key).copied().unwrap_or(0.0))
    };
    idle.idle_mib.iter().map(format_part).collect::<Vec<_>>().join(" + ")
}

fn format_peer_starts(idle: &PeerIdle) -> String {
    let last = |starts: &serde_json::Map<String, serde_json::Value>| {
        let seconds = starts.values().next_back().and_then(serde_json::Value::as_f64);
        seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.2}"))
    };
    format!("{} / {}", last(&idle.first_start_s), last(&idle.restart_s))
}
