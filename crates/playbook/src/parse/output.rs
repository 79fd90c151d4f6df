//! Parses `output`.

use std::sync::Arc;

use crate::diag::DiagnosticSink;
use crate::model::{AccumulateSpec, OutputSelect, OutputSpec, SelectedPath};
use crate::yaml::{NodeValue, YamlNode};

use super::read::{
    MapReader, ReadValue, read_integer, read_items, read_keyword, read_map, read_texts,
    report_wrong_type,
};

read_map! {
    OutputSpec, "output",
    optional { select => read_items, output_select, accumulate, inline_max_bytes },
    unused OutputSpec::KEYS_WITHOUT_EFFECT,
}

read_map! { SelectedPath, "output.select", required { path, alias = "as" } }

read_map! {
    AccumulateSpec, "output.accumulate",
    optional { enabled, strategy, merge_path, manifest_as, max_items },
}

/// A list of names, or a size threshold.
impl ReadValue for OutputSelect {
    fn read_value(sink: &mut DiagnosticSink<'_>, key: &str, node: &YamlNode) -> Option<Self> {
        match &node.value {
            NodeValue::Text(_) | NodeValue::List(_) => {
                Some(Self::Names(read_texts(sink, key, node)))
            }
            NodeValue::Map(_) => read_threshold(sink, node),
            NodeValue::Plain(_) => {
                report_wrong_type(sink, key, "a list of names or a map", node);
                None
            }
        }
    }
}

fn read_threshold(sink: &mut DiagnosticSink<'_>, node: &YamlNode) -> Option<OutputSelect> {
    let mut reader = MapReader::open(sink, "output_select", "output_select", node)?;
    if let Some(entry) = reader.require_entry(sink, "strategy") {
        read_keyword(sink, &entry.key, &entry.value, &["size_threshold"]);
    }
    let threshold = reader
        .take_entry("threshold_kb")
        .and_then(|entry| read_integer(sink, &entry.key, &entry.value, 0..=1_048_576));
    reader.report_unread(sink);
    Some(OutputSelect::Threshold {
        strategy: Arc::from("size_threshold"),
        threshold_kb: threshold.and_then(|threshold| u64::try_from(threshold).ok()),
    })
}
