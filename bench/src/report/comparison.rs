//! Comparison with the best variant of the best durable peer, figure by figure.

use std::collections::BTreeMap;

use super::peer_figures::best_variant;
use super::table::markdown_table;
use super::value::{MedianValue, measured_systems, our_median, peer_medians};
use crate::document::BenchDocument;
use crate::metric::{BetterDirection, Metric};
use crate::peers::{DURABLE_PEERS, PeerFigure, PeerResult};

/// A figure, and the peer figure that it is compared with.
struct ComparisonRow {
    name: &'static str,
    metric: Metric,
    better: BetterDirection,
    figures: fn(&PeerResult) -> &BTreeMap<String, PeerFigure>,
    value: fn(&PeerFigure) -> Option<f64>,
    /// The only variant to compare with, if set.
    variant: Option<&'static str>,
}

const COMPARISON_ROWS: [ComparisonRow; 5] = [
    ComparisonRow {
        name: "W1 p50 ms",
        metric: Metric::RunP50Ms,
        better: BetterDirection::Lower,
        figures: |peer| &peer.w1,
        value: |figure| figure.p50_ms,
        variant: None,
    },
    ComparisonRow {
        name: "W2 runs/s",
        metric: Metric::RunsPerS,
        better: BetterDirection::Higher,
        figures: |peer| &peer.w2,
        value: |figure| figure.runs_per_s,
        variant: None,
    },
    ComparisonRow {
        name: "W3 p50 ms",
        metric: Metric::SequenceP50Ms,
        better: BetterDirection::Lower,
        figures: |peer| &peer.w3,
        value: |figure| figure.p50_ms,
        variant: None,
    },
    ComparisonRow {
        name: "W4 s, tasks against child runs",
        metric: Metric::FanOutS,
        better: BetterDirection::Lower,
        figures: |peer| &peer.w4,
        value: |figure| figure.seconds,
        variant: Some("child runs"),
    },
    ComparisonRow {
        name: "W4 s, tasks against steps",
        metric: Metric::FanOutS,
        better: BetterDirection::Lower,
        figures: |peer| &peer.w4,
        value: |figure| figure.seconds,
        variant: Some("steps"),
    },
];

pub(super) fn comparison_table(document: &BenchDocument) -> String {
    let names = measured_systems(document);
    let columns: Vec<String> = names.iter().map(|name| name.display_name()).collect();
    let mut header = vec!["against the best durable peer (times as good)", "best peer"];
    header.extend(columns.iter().map(String::as_str));
    let mut rows = Vec::new();
    for row in &COMPARISON_ROWS {
        let Some((peer, theirs)) = row.best_peer(document) else {
            continue;
        };
        let mut cells = vec![row.name.to_owned(), format!("{} ({peer})", theirs.to_cell())];
        cells.extend(names.iter().map(|name| {
            let Some(ours) = our_median(document, *name, row.metric) else {
                return "-".to_owned();
            };
            let ratio = row.better.improvement_ratio(ours.value, theirs.value);
            format!("{} (x{ratio:.2})", ours.to_cell())
        }));
        rows.push(cells);
    }
    markdown_table(&header, &rows)
}

impl ComparisonRow {
    /// Returns the best durable peer, with the variant if there are several.
    fn best_peer(&self, document: &BenchDocument) -> Option<(String, MedianValue)> {
        let mut candidates = BTreeMap::new();
        for peer in DURABLE_PEERS {
            let mut variants = peer_medians(document, peer, self.figures, self.value);
            variants.retain(|variant, _| self.variant.is_none_or(|only| variant == only));
            let has_variants = variants.len() > 1;
            if let Some((variant, value)) = best_variant(&variants, self.better) {
                let name =
                    if has_variants { format!("{peer}, {variant}") } else { peer.to_owned() };
                candidates.insert(name, value);
            }
        }
        let (name, value) = best_variant(&candidates, self.better)?;
        Some((name.clone(), value))
    }
}
