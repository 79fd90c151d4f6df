//! How data is kept.

use std::sync::Arc;

use super::values::text_setting;
use crate::diag::{Code, Sink};
use crate::model::{Accumulate, OutputSelect, OutputSpec, Select, Store};
use crate::yaml::{Entry, Node, NodeValue};

use super::reader::{
    MapReader, bool, duration, integer, list, name, size, text, texts, word, wrong_type,
};

/// The `output` of a step or task.
pub(super) fn output(sink: &mut Sink<'_>, entry: &Entry) -> Option<OutputSpec> {
    let mut reader = MapReader::open(sink, "output", "output", &entry.value)?;
    let spec = OutputSpec {
        store: reader.take("store").and_then(|entry| store(sink, entry)),
        select: reader
            .take("select")
            .map(|entry| selects(sink, entry))
            .unwrap_or_default(),
        output_select: reader
            .take("output_select")
            .and_then(|entry| output_select(sink, entry)),
        accumulate: reader
            .take("accumulate")
            .and_then(|entry| accumulate(sink, entry)),
        inline_max_bytes: reader
            .take("inline_max_bytes")
            .and_then(|entry| size(sink, &entry.value)),
        preview_max_bytes: reader
            .take("preview_max_bytes")
            .and_then(|entry| size(sink, &entry.value)),
        scope: reader.take("scope").and_then(|entry| word(sink, entry)),
        alias: reader.take("as").and_then(|entry| name(sink, entry, false)),
    };
    reader.finish(sink);
    Some(spec)
}

fn store(sink: &mut Sink<'_>, entry: &Entry) -> Option<Store> {
    let mut reader = MapReader::open(sink, "store", "output.store", &entry.value)?;
    let store = Store {
        kind: reader
            .take("kind")
            .and_then(|entry| word(sink, entry))
            .unwrap_or_default(),
        bucket: reader
            .take("bucket")
            .and_then(|entry| text_setting(sink, entry))
            .map(|text| text.value),
        prefix: reader
            .take("prefix")
            .and_then(|entry| text_setting(sink, entry))
            .map(|text| text.value),
        ttl: reader
            .take("ttl")
            .and_then(|entry| duration(sink, &entry.value)),
        compression: reader
            .take("compression")
            .and_then(|entry| text(sink, entry)),
        credential: reader
            .take("credential")
            .and_then(|entry| text(sink, entry)),
    };
    reader.finish(sink);
    Some(store)
}

fn selects(sink: &mut Sink<'_>, entry: &Entry) -> Vec<Select> {
    let items = list(sink, entry).unwrap_or_default();
    items.iter().filter_map(|item| select(sink, item)).collect()
}

fn select(sink: &mut Sink<'_>, node: &Node) -> Option<Select> {
    let mut reader = MapReader::open(sink, "select", "output.select", node)?;
    let path = reader
        .require(sink, "path")
        .and_then(|entry| text(sink, entry));
    let alias = reader
        .require(sink, "as")
        .and_then(|entry| text(sink, entry));
    reader.finish(sink);
    Some(Select {
        path: path?,
        alias: alias?,
    })
}

/// Names, or a bound below which everything stays readable.
pub(super) fn output_select(sink: &mut Sink<'_>, entry: &Entry) -> Option<OutputSelect> {
    match &entry.value.value {
        NodeValue::Text(_) | NodeValue::List(_) => Some(OutputSelect::Names(texts(sink, entry))),
        NodeValue::Map(_) => threshold(sink, entry),
        NodeValue::Plain(_) => {
            wrong_type(sink, &entry.key, "a list of names or a map", &entry.value);
            None
        }
    }
}

fn threshold(sink: &mut Sink<'_>, entry: &Entry) -> Option<OutputSelect> {
    let mut reader = MapReader::open(sink, "output_select", "output_select", &entry.value)?;
    let strategy = reader.require(sink, "strategy").and_then(|entry| {
        let strategy = text(sink, entry)?;
        if &*strategy != "size_threshold" {
            sink.add(
                Code::NP011,
                entry.value.span,
                format!("'{strategy}' is not one of size_threshold"),
            );
        }
        Some(strategy)
    });
    let bound = reader
        .take("threshold_kb")
        .and_then(|entry| integer(sink, entry, 0..=1_048_576));
    reader.finish(sink);
    Some(OutputSelect::Threshold {
        strategy: strategy.unwrap_or_else(|| Arc::from("size_threshold")),
        threshold_kb: bound.and_then(|bound| u64::try_from(bound).ok()),
    })
}

fn accumulate(sink: &mut Sink<'_>, entry: &Entry) -> Option<Accumulate> {
    let mut reader = MapReader::open(sink, "accumulate", "output.accumulate", &entry.value)?;
    let accumulate = Accumulate {
        enabled: reader
            .take("enabled")
            .and_then(|entry| bool(sink, entry))
            .unwrap_or_default(),
        strategy: reader
            .take("strategy")
            .and_then(|entry| word(sink, entry))
            .unwrap_or_default(),
        merge_path: reader
            .take("merge_path")
            .and_then(|entry| text(sink, entry)),
        manifest_as: reader
            .take("manifest_as")
            .and_then(|entry| text(sink, entry)),
        max_items: reader
            .take("max_items")
            .and_then(|entry| integer(sink, entry, 1..=i64::MAX))
            .and_then(|items| u64::try_from(items).ok()),
    };
    reader.finish(sink);
    Some(accumulate)
}
