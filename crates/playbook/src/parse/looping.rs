//! Parses loops.

use std::sync::Arc;

use noetl_types::Json;

use crate::diag::{Code, DiagnosticSink};
use crate::model::{
    CursorSource, FrameSpec, Loop, LoopMode, LoopSource, LoopSpec, ToolKind, ValueOrTemplate,
};
use crate::source::Spanned;
use crate::yaml::{NodeValue, YamlEntry, YamlNode};

use super::reader::{
    MapReader, is_name, read_count, read_duration, read_keyword, read_size, read_text,
};
use super::values::{parse_dynamic, parse_named_values, parse_setting};

/// Parses a `loop`.
pub(super) fn parse_loop(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<Loop> {
    let mut reader = MapReader::open(sink, "loop", "loop", &entry.value)?;
    let items = reader.take_nullable("in");
    let cursor = reader.take_entry("cursor");
    let iterator = parse_iterator(sink, &mut reader, &entry.value);
    let spec_entry = reader.take_entry("spec");
    let mut spec = spec_entry.map(|entry| parse_loop_spec(sink, entry)).unwrap_or_default();
    reader.report_unread(sink);
    if let Some(entry) = spec_entry {
        report_unused_settings(sink, entry, &spec, cursor.is_some());
    }
    let source = match (items, cursor) {
        (Some(items), None) => {
            if spec.mode == LoopMode::Cursor {
                let span =
                    spec_entry.map_or(entry.value.head_span(), |spec| spec.value.head_span());
                sink.add_finding(Code::NP303, span, "mode cursor needs cursor.claim");
            }
            parse_in_source(sink, items)
        }
        (None, Some(cursor)) => {
            let explicit = spec_entry.and_then(|spec| spec.value.get("mode"));
            if let Some(node) = explicit.filter(|_| spec.mode != LoopMode::Cursor) {
                let message = format!("cursor cannot be combined with mode {}", spec.mode);
                sink.add_finding(Code::NP705, node.span, message);
            }
            spec.mode = LoopMode::Cursor;
            parse_cursor_source(sink, cursor)
        }
        (Some(_), Some(cursor)) => {
            sink.add_finding(
                Code::NP301,
                cursor.key_span,
                "loop needs exactly one of 'in' and 'cursor'",
            );
            None
        }
        (None, None) => {
            sink.add_finding(
                Code::NP301,
                entry.value.head_span(),
                "loop needs exactly one of 'in' and 'cursor'",
            );
            None
        }
    };
    Some(Loop { source: source?, iterator: iterator?, spec })
}

fn parse_iterator(
    sink: &mut DiagnosticSink<'_>,
    reader: &mut MapReader<'_>,
    node: &YamlNode,
) -> Option<Spanned<Arc<str>>> {
    let Some(entry) = reader.take_nullable("iterator") else {
        sink.add_with_hint(
            Code::NP302,
            node.head_span(),
            "loop needs a non-empty iterator",
            "add 'iterator: item'",
        );
        return None;
    };
    let name = match &entry.value.value {
        NodeValue::Text(name) if !name.is_empty() => name,
        NodeValue::Text(_) | NodeValue::Plain(_) | NodeValue::List(_) | NodeValue::Map(_) => {
            sink.add_with_hint(
                Code::NP302,
                entry.value.span,
                "loop needs a non-empty iterator",
                "add 'iterator: item'",
            );
            return None;
        }
    };
    if !is_name(name, false) {
        sink.add_finding(Code::NP013, entry.value.span, format!("'{name}' is not a valid name"));
        return None;
    }
    Some(Spanned::new(Arc::clone(name), entry.value.span))
}

fn parse_in_source(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<LoopSource> {
    if let NodeValue::Plain(Json::Null | Json::Bool(_)) = &entry.value.value {
        let message =
            format!("loop over a constant that is not iterable: {}", entry.value.type_name());
        sink.add_with_hint(
            Code::NP308,
            entry.value.span,
            message,
            "use a list, a map, text, a number or a template",
        );
        return None;
    }
    let items = parse_dynamic(sink, &entry.value);
    Some(LoopSource::In(Spanned::new(items, entry.value.span)))
}

fn parse_cursor_source(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<LoopSource> {
    let mut reader = MapReader::open(sink, "cursor", "cursor", &entry.value)?;
    let kind = reader.take_entry("kind").and_then(|entry| parse_cursor_kind(sink, entry));
    let auth = reader.take_entry("auth").map(|entry| parse_dynamic(sink, &entry.value));
    let claim = reader.take_entry("claim").map(|entry| parse_dynamic(sink, &entry.value));
    let options = reader
        .take_entry("options")
        .map(|entry| parse_named_values(sink, entry))
        .unwrap_or_default();
    reader.report_unread(sink);
    if claim.is_none() {
        let hint = "'claim' is the statement that marks and returns the next rows";
        sink.add_with_hint(
            Code::NP303,
            entry.value.head_span(),
            "mode cursor needs cursor.claim",
            hint,
        );
    }
    Some(LoopSource::Cursor(CursorSource {
        kind: kind.unwrap_or_else(|| "postgres".into()),
        auth,
        claim: claim?,
        options,
    }))
}

/// Parses the kind of database of a cursor. Reports kinds that cannot claim rows.
fn parse_cursor_kind(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<Arc<str>> {
    let kind = read_text(sink, entry)?;
    if !ToolKind::parse(&kind).is_some_and(ToolKind::is_sql) {
        let message = format!("a cursor of kind '{kind}' is not part of this build");
        sink.add_with_hint(Code::NP402, entry.value.span, message, "use postgres or sqlite");
    }
    Some(kind)
}

fn parse_loop_spec(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> LoopSpec {
    let Some(mut reader) = MapReader::open(sink, "spec", "loop.spec", &entry.value) else {
        return LoopSpec::default();
    };
    let spec = LoopSpec {
        mode: reader
            .take_entry("mode")
            .and_then(|entry| read_keyword(sink, entry))
            .unwrap_or_default(),
        max_in_flight: reader
            .take_entry("max_in_flight")
            .and_then(|entry| parse_max_in_flight(sink, entry)),
        frame: reader.take_entry("frame").map(|entry| parse_frame(sink, entry)).unwrap_or_default(),
    };
    reader.report_keys_without_effect(sink, &LoopSpec::KEYS_WITHOUT_EFFECT);
    reader.report_unread(sink);
    spec
}

/// Reports settings that the mode of the loop does not use.
fn report_unused_settings(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
    spec: &LoopSpec,
    cursor: bool,
) {
    let is_cursor = cursor || spec.mode == LoopMode::Cursor;
    for entry in entry.value.as_map().unwrap_or_default() {
        let (unused, mode) = match &*entry.key {
            "frame" => (!is_cursor, "a cursor loop"),
            "max_in_flight" => (!is_cursor && spec.mode == LoopMode::Sequential, "a parallel loop"),
            _ => continue,
        };
        if unused {
            let message = format!("'{}' has no effect", entry.key);
            sink.add_with_hint(
                Code::NP018,
                entry.key_span,
                message,
                format!("it applies only to {mode}; set 'mode'"),
            );
        }
    }
}

fn parse_max_in_flight(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
) -> Option<Spanned<ValueOrTemplate<u32>>> {
    if matches!(&entry.value.value, NodeValue::Plain(Json::Int(value)) if *value < 1) {
        sink.add_finding(Code::NP304, entry.value.span, "max_in_flight must be at least 1");
        return None;
    }
    let width = parse_setting(sink, &entry.value, |sink, _| read_count(sink, entry, 1))?;
    Some(Spanned::new(width, entry.value.span))
}

fn parse_frame(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> FrameSpec {
    let Some(mut reader) = MapReader::open(sink, "frame", "loop.spec.frame", &entry.value) else {
        return FrameSpec::default();
    };
    let number = |sink: &mut DiagnosticSink<'_>, entry: Option<&YamlEntry>| {
        entry.and_then(|entry| {
            parse_setting(sink, &entry.value, |sink, _| read_count(sink, entry, 1))
        })
    };
    let time = |sink: &mut DiagnosticSink<'_>, entry: Option<&YamlEntry>| {
        entry.and_then(|entry| parse_setting(sink, &entry.value, read_duration))
    };
    let frame = FrameSpec {
        max_rows: number(sink, reader.take_entry("max_rows")),
        max_seconds: time(sink, reader.take_entry("max_seconds")),
        max_bytes: reader
            .take_entry("max_bytes")
            .and_then(|entry| parse_setting(sink, &entry.value, read_size)),
        lease_seconds: time(sink, reader.take_entry("lease_seconds")),
        heartbeat_seconds: time(sink, reader.take_entry("heartbeat_seconds")),
        process: reader.take_entry("process").and_then(|entry| read_keyword(sink, entry)),
        retry_mode: reader.take_entry("retry_mode").and_then(|entry| read_keyword(sink, entry)),
        max_attempts: number(sink, reader.take_entry("max_attempts")),
    };
    reader.report_keys_without_effect(sink, &FrameSpec::KEYS_WITHOUT_EFFECT);
    reader.report_unread(sink);
    frame
}
