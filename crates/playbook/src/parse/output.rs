//! Parses `output`.

use std::sync::Arc;

use crate::diag::{Code, DiagnosticSink};
use crate::model::{AccumulateSpec, OutputSelect, OutputSpec, SelectedPath};
use crate::yaml::{NodeValue, YamlEntry, YamlNode};

use super::reader::{
    MapReader, read_bool, read_integer, read_keyword, read_list, read_size, read_text, read_texts,
    report_wrong_type,
};

/// Parses the `output` of a step or task.
pub(super) fn parse_output(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<OutputSpec> {
    let mut reader = MapReader::open(sink, "output", "output", &entry.value)?;
    let spec = OutputSpec {
        select: reader
            .take_entry("select")
            .map(|entry| parse_selects(sink, entry))
            .unwrap_or_default(),
        output_select: reader
            .take_entry("output_select")
            .and_then(|entry| parse_output_select(sink, entry)),
        accumulate: reader.take_entry("accumulate").and_then(|entry| parse_accumulate(sink, entry)),
        inline_max_bytes: reader
            .take_entry("inline_max_bytes")
            .and_then(|entry| read_size(sink, &entry.value)),
    };
    reader.report_keys_without_effect(sink, &OutputSpec::KEYS_WITHOUT_EFFECT);
    reader.report_unread(sink);
    Some(spec)
}

fn parse_selects(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Vec<SelectedPath> {
    let items = read_list(sink, entry).unwrap_or_default();
    items.iter().filter_map(|item| parse_select(sink, item)).collect()
}

fn parse_select(sink: &mut DiagnosticSink<'_>, node: &YamlNode) -> Option<SelectedPath> {
    let mut reader = MapReader::open(sink, "select", "output.select", node)?;
    let path = reader.require_entry(sink, "path").and_then(|entry| read_text(sink, entry));
    let alias = reader.require_entry(sink, "as").and_then(|entry| read_text(sink, entry));
    reader.report_unread(sink);
    Some(SelectedPath { path: path?, alias: alias? })
}

/// Parses a list of names, or a size threshold.
pub(super) fn parse_output_select(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
) -> Option<OutputSelect> {
    match &entry.value.value {
        NodeValue::Text(_) | NodeValue::List(_) => {
            Some(OutputSelect::Names(read_texts(sink, entry)))
        }
        NodeValue::Map(_) => parse_threshold(sink, entry),
        NodeValue::Plain(_) => {
            report_wrong_type(sink, &entry.key, "a list of names or a map", &entry.value);
            None
        }
    }
}

fn parse_threshold(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<OutputSelect> {
    let mut reader = MapReader::open(sink, "output_select", "output_select", &entry.value)?;
    let strategy = reader.require_entry(sink, "strategy").and_then(|entry| {
        let strategy = read_text(sink, entry)?;
        if &*strategy != "size_threshold" {
            sink.add_finding(
                Code::NP011,
                entry.value.span,
                format!("'{strategy}' is not one of size_threshold"),
            );
        }
        Some(strategy)
    });
    let threshold = reader
        .take_entry("threshold_kb")
        .and_then(|entry| read_integer(sink, entry, 0..=1_048_576));
    reader.report_unread(sink);
    Some(OutputSelect::Threshold {
        strategy: strategy.unwrap_or_else(|| Arc::from("size_threshold")),
        threshold_kb: threshold.and_then(|threshold| u64::try_from(threshold).ok()),
    })
}

fn parse_accumulate(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<AccumulateSpec> {
    let mut reader = MapReader::open(sink, "accumulate", "output.accumulate", &entry.value)?;
    let accumulate = AccumulateSpec {
        enabled: reader
            .take_entry("enabled")
            .and_then(|entry| read_bool(sink, entry))
            .unwrap_or_default(),
        strategy: reader
            .take_entry("strategy")
            .and_then(|entry| read_keyword(sink, entry))
            .unwrap_or_default(),
        merge_path: reader.take_entry("merge_path").and_then(|entry| read_text(sink, entry)),
        manifest_as: reader.take_entry("manifest_as").and_then(|entry| read_text(sink, entry)),
        max_items: reader
            .take_entry("max_items")
            .and_then(|entry| read_integer(sink, entry, 1..=i64::MAX))
            .and_then(|items| u64::try_from(items).ok()),
    };
    reader.report_unread(sink);
    Some(accumulate)
}
