//! Ours against the best durable peer, figure by figure. The best one is the best variant of any.

use std::collections::BTreeMap;

use super::table::markdown;
use super::theirs::best;
use super::value::{Value, ours, systems, theirs};
use crate::document::Document;
use crate::metric::{Better, Metric};
use crate::peers::{DURABLE, Peer, PeerFigure};

/// A figure of ours, and what of the peers it is held against.
struct Row {
    name: &'static str,
    metric: Metric,
    better: Better,
    figures: fn(&Peer) -> &BTreeMap<String, PeerFigure>,
    value: fn(&PeerFigure) -> Option<f64>,
    /// The only variant that counts, where not all do.
    variant: Option<&'static str>,
}

const ROWS: [Row; 5] = [
    Row {
        name: "W1 p50 ms",
        metric: Metric::RunP50Ms,
        better: Better::Lower,
        figures: |peer| &peer.w1,
        value: |figure| figure.p50_ms,
        variant: None,
    },
    Row {
        name: "W2 runs/s",
        metric: Metric::RunsPerS,
        better: Better::Higher,
        figures: |peer| &peer.w2,
        value: |figure| figure.runs_per_s,
        variant: None,
    },
    Row {
        name: "W3 p50 ms",
        metric: Metric::SequenceP50Ms,
        better: Better::Lower,
        figures: |peer| &peer.w3,
        value: |figure| figure.p50_ms,
        variant: None,
    },
    Row {
        name: "W4 s, tasks against child runs",
        metric: Metric::FanOutS,
        better: Better::Lower,
        figures: |peer| &peer.w4,
        value: |figure| figure.seconds,
        variant: Some("child runs"),
    },
    Row {
        name: "W4 s, tasks against steps",
        metric: Metric::FanOutS,
        better: Better::Lower,
        figures: |peer| &peer.w4,
        value: |figure| figure.seconds,
        variant: Some("steps"),
    },
];

pub(super) fn table(document: &Document) -> String {
    let names = systems(document);
    let columns: Vec<String> = names.iter().map(|name| name.text()).collect();
    let mut header = vec!["against the best durable peer (times as good)", "best peer"];
    header.extend(columns.iter().map(String::as_str));
    let mut rows = Vec::new();
    for row in &ROWS {
        let Some((peer, theirs)) = row.best_peer(document) else {
            continue;
        };
        let mut cells = vec![row.name.to_owned(), format!("{} ({peer})", theirs.cell())];
        cells.extend(names.iter().map(|name| {
            let Some(ours) = ours(document, *name, row.metric) else {
                return "-".to_owned();
            };
            let ratio = row.better.ratio(ours.value, theirs.value);
            format!("{} (x{ratio:.2})", ours.cell())
        }));
        rows.push(cells);
    }
    markdown(&header, &rows)
}

impl Row {
    /// The best durable peer, with the variant where there are several.
    fn best_peer(&self, document: &Document) -> Option<(String, Value)> {
        let mut found = BTreeMap::new();
        for peer in DURABLE {
            let mut variants = theirs(document, peer, self.figures, self.value);
            variants.retain(|variant, _| self.variant.is_none_or(|only| variant == only));
            let several = variants.len() > 1;
            if let Some((variant, value)) = best(&variants, self.better) {
                let name = if several {
                    format!("{peer}, {variant}")
                } else {
                    peer.to_owned()
                };
                found.insert(name, value);
            }
        }
        let (name, value) = best(&found, self.better)?;
        Some((name.clone(), value))
    }
}
