//! Loops.

use std::sync::Arc;

use noetl_types::Json;

use crate::diag::{Code, Sink};
use crate::model::{Cursor, Exec, Frame, Loop, LoopMode, LoopSource, LoopSpec, Setting};
use crate::source::Spanned;
use crate::yaml::{Entry, Node, NodeValue};

use super::reader::{MapReader, count, duration, is_name, size, text, word};
use super::values::{dynamic, fields, setting};

/// A loop.
pub(super) fn looping(sink: &mut Sink<'_>, entry: &Entry) -> Option<Loop> {
    let mut reader = MapReader::open(sink, "loop", "loop", &entry.value)?;
    let items = reader.take_raw("in");
    let cursor = reader.take("cursor");
    let iterator = iterator(sink, &mut reader, &entry.value);
    let spec_entry = reader.take("spec");
    let mut spec = spec_entry
        .map(|entry| loop_spec(sink, entry))
        .unwrap_or_default();
    reader.finish(sink);
    if let Some(entry) = spec_entry {
        without_effect(sink, entry, &spec, cursor.is_some());
    }
    let source = match (items, cursor) {
        (Some(items), None) => {
            if spec.mode == LoopMode::Cursor {
                let at = spec_entry.map_or(entry.value.head(), |spec| spec.value.head());
                sink.add(Code::NP303, at, "mode cursor needs cursor.claim");
            }
            in_source(sink, items)
        }
        (None, Some(cursor)) => {
            let explicit = spec_entry.and_then(|spec| spec.value.get("mode"));
            if let Some(node) = explicit.filter(|_| spec.mode != LoopMode::Cursor) {
                let message = format!("cursor cannot be combined with mode {}", spec.mode);
                sink.add(Code::NP705, node.span, message);
            }
            spec.mode = LoopMode::Cursor;
            cursor_source(sink, cursor)
        }
        (Some(_), Some(cursor)) => {
            sink.add(
                Code::NP301,
                cursor.key_span,
                "loop needs exactly one of 'in' and 'cursor'",
            );
            None
        }
        (None, None) => {
            sink.add(
                Code::NP301,
                entry.value.head(),
                "loop needs exactly one of 'in' and 'cursor'",
            );
            None
        }
    };
    Some(Loop {
        source: source?,
        iterator: iterator?,
        spec,
    })
}

fn iterator(
    sink: &mut Sink<'_>,
    reader: &mut MapReader<'_>,
    node: &Node,
) -> Option<Spanned<Arc<str>>> {
    let Some(entry) = reader.take_raw("iterator") else {
        sink.hinted(
            Code::NP302,
            node.head(),
            "loop needs a non-empty iterator",
            "add 'iterator: item'",
        );
        return None;
    };
    let name = match &entry.value.value {
        NodeValue::Text(name) if !name.is_empty() => name,
        NodeValue::Text(_) | NodeValue::Plain(_) | NodeValue::List(_) | NodeValue::Map(_) => {
            sink.hinted(
                Code::NP302,
                entry.value.span,
                "loop needs a non-empty iterator",
                "add 'iterator: item'",
            );
            return None;
        }
    };
    if !is_name(name, false) {
        sink.add(
            Code::NP013,
            entry.value.span,
            format!("'{name}' is not a valid name"),
        );
        return None;
    }
    Some(Spanned::new(Arc::clone(name), entry.value.span))
}

fn in_source(sink: &mut Sink<'_>, entry: &Entry) -> Option<LoopSource> {
    if let NodeValue::Plain(Json::Null | Json::Bool(_)) = &entry.value.value {
        let message = format!(
            "loop over a constant that is not iterable: {}",
            entry.value.type_name()
        );
        sink.hinted(
            Code::NP308,
            entry.value.span,
            message,
            "give a list, a map, a text, a number or a template",
        );
        return None;
    }
    let items = dynamic(sink, &entry.value);
    Some(LoopSource::In(Spanned::new(items, entry.value.span)))
}

fn cursor_source(sink: &mut Sink<'_>, entry: &Entry) -> Option<LoopSource> {
    let mut reader = MapReader::open(sink, "cursor", "cursor", &entry.value)?;
    let kind = reader.take("kind").and_then(|entry| text(sink, entry));
    let auth = reader.take("auth").map(|entry| dynamic(sink, &entry.value));
    let claim = reader
        .take("claim")
        .map(|entry| dynamic(sink, &entry.value));
    let options = reader
        .take("options")
        .map(|entry| fields(sink, entry))
        .unwrap_or_default();
    reader.finish(sink);
    if claim.is_none() {
        let hint = "'claim' is the statement that marks and returns the next rows";
        sink.hinted(
            Code::NP303,
            entry.value.head(),
            "mode cursor needs cursor.claim",
            hint,
        );
    }
    Some(LoopSource::Cursor(Cursor {
        kind: kind.unwrap_or_else(|| "postgres".into()),
        auth,
        claim: claim?,
        options,
    }))
}

fn loop_spec(sink: &mut Sink<'_>, entry: &Entry) -> LoopSpec {
    let Some(mut reader) = MapReader::open(sink, "spec", "loop.spec", &entry.value) else {
        return LoopSpec::default();
    };
    let spec = LoopSpec {
        mode: reader
            .take("mode")
            .and_then(|entry| word(sink, entry))
            .unwrap_or_default(),
        max_in_flight: reader
            .take("max_in_flight")
            .and_then(|entry| max_in_flight(sink, entry)),
        exec: reader.take("policy").and_then(|entry| exec(sink, entry)),
        frame: reader
            .take("frame")
            .map(|entry| frame(sink, entry))
            .unwrap_or_default(),
    };
    reader.finish(sink);
    spec
}

/// Settings that the mode of the loop does not use.
fn without_effect(sink: &mut Sink<'_>, entry: &Entry, spec: &LoopSpec, cursor: bool) {
    let is_cursor = cursor || spec.mode == LoopMode::Cursor;
    for entry in entry.value.as_map().unwrap_or_default() {
        let (unused, mode) = match &*entry.key {
            "frame" => (!is_cursor, "a cursor loop"),
            "max_in_flight" => (
                !is_cursor && spec.mode == LoopMode::Sequential,
                "a parallel loop",
            ),
            _ => continue,
        };
        if unused {
            let message = format!("'{}' has no effect", entry.key);
            sink.hinted(
                Code::NP018,
                entry.key_span,
                message,
                format!("it is for {mode}: set 'mode'"),
            );
        }
    }
}

fn max_in_flight(sink: &mut Sink<'_>, entry: &Entry) -> Option<Spanned<Setting<u32>>> {
    if matches!(&entry.value.value, NodeValue::Plain(Json::Int(value)) if *value < 1) {
        sink.add(
            Code::NP304,
            entry.value.span,
            "max_in_flight must be at least 1",
        );
        return None;
    }
    let width = setting(sink, &entry.value, |sink, _| count(sink, entry, 1))?;
    Some(Spanned::new(width, entry.value.span))
}

fn exec(sink: &mut Sink<'_>, entry: &Entry) -> Option<Exec> {
    let mut reader = MapReader::open(sink, "policy", "loop.spec.policy", &entry.value)?;
    let exec = reader.take("exec").and_then(|entry| word(sink, entry));
    reader.finish(sink);
    exec
}

fn frame(sink: &mut Sink<'_>, entry: &Entry) -> Frame {
    let Some(mut reader) = MapReader::open(sink, "frame", "loop.spec.frame", &entry.value) else {
        return Frame::default();
    };
    let number = |sink: &mut Sink<'_>, entry: Option<&Entry>| {
        entry.and_then(|entry| setting(sink, &entry.value, |sink, _| count(sink, entry, 1)))
    };
    let time = |sink: &mut Sink<'_>, entry: Option<&Entry>| {
        entry.and_then(|entry| setting(sink, &entry.value, duration))
    };
    let frame = Frame {
        max_rows: number(sink, reader.take("max_rows")),
        max_seconds: time(sink, reader.take("max_seconds")),
        max_bytes: reader
            .take("max_bytes")
            .and_then(|entry| setting(sink, &entry.value, size)),
        lease_seconds: time(sink, reader.take("lease_seconds")),
        heartbeat_seconds: time(sink, reader.take("heartbeat_seconds")),
        row_concurrency: number(sink, reader.take("row_concurrency")),
        process: reader.take("process").and_then(|entry| word(sink, entry)),
        retry_mode: reader
            .take("retry_mode")
            .and_then(|entry| word(sink, entry)),
        max_attempts: number(sink, reader.take("max_attempts")),
    };
    reader.finish(sink);
    frame
}
