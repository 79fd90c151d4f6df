//! Parses loops.

use std::sync::Arc;

use noetl_types::Json;

use crate::diag::{Code, DiagnosticSink};
use crate::model::{
    CursorSource, FrameSpec, Loop, LoopMode, LoopSource, LoopSpec, ToolKind, ValueOrTemplate,
};
use crate::source::Spanned;
use crate::yaml::{NodeValue, YamlEntry, YamlNode};

use super::read::{MapReader, ReadValue, is_name, read_map};
use super::values::parse_dynamic;

read_map! {
    LoopSpec, "loop.spec",
    optional { mode, max_in_flight => read_max_in_flight, frame },
    unused LoopSpec::KEYS_WITHOUT_EFFECT,
}

read_map! {
    FrameSpec, "loop.spec.frame",
    optional {
        max_rows,
        max_seconds,
        max_bytes,
        lease_seconds,
        heartbeat_seconds,
        process,
        retry_mode,
        max_attempts,
    },
    unused FrameSpec::KEYS_WITHOUT_EFFECT,
}

impl ReadValue for Loop {
    fn read_value(sink: &mut DiagnosticSink<'_>, _: &str, node: &YamlNode) -> Option<Self> {
        let mut reader = MapReader::open(sink, "loop", "loop", node)?;
        let items = reader.take_nullable("in");
        let cursor = reader.take_entry("cursor");
        let iterator = read_iterator(sink, reader.take_nullable("iterator"), node);
        let spec_node = reader.take_entry("spec").map(|entry| &entry.value);
        let mut spec: LoopSpec = reader.read(sink, "spec").unwrap_or_default();
        reader.report_unread(sink);
        if let Some(node) = spec_node {
            report_unused_settings(sink, node, &spec, cursor.is_some());
        }
        let source = match (items, cursor) {
            (Some(items), None) => {
                if spec.mode == LoopMode::Cursor {
                    let span = spec_node.unwrap_or(node).head_span();
                    sink.add_finding(Code::NP303, span, "mode cursor needs cursor.claim");
                }
                read_items_source(sink, &items.value)
            }
            (None, Some(cursor)) => {
                let explicit = spec_node.and_then(|spec| spec.get("mode"));
                if let Some(node) = explicit.filter(|_| spec.mode != LoopMode::Cursor) {
                    let message = format!("cursor cannot be combined with mode {}", spec.mode);
                    sink.add_finding(Code::NP705, node.span, message);
                }
                spec.mode = LoopMode::Cursor;
                CursorSource::read_value(sink, "cursor", &cursor.value).map(LoopSource::Cursor)
            }
            (_, cursor) => {
                let span = cursor.map_or(node.head_span(), |cursor| cursor.key_span);
                let message = "loop needs exactly one of 'in' and 'cursor'";
                sink.add_finding(Code::NP301, span, message);
                None
            }
        };
        Some(Self { source: source?, iterator: iterator?, spec })
    }
}

fn read_iterator(
    sink: &mut DiagnosticSink<'_>,
    entry: Option<&YamlEntry>,
    looping: &YamlNode,
) -> Option<Spanned<Arc<str>>> {
    let node = entry.map(|entry| &entry.value);
    let Some((node, name)) =
        node.and_then(|node| Some((node, node.as_text().filter(|name| !name.is_empty())?)))
    else {
        let span = node.map_or(looping.head_span(), |node| node.span);
        let message = "loop needs a non-empty iterator";
        sink.add_with_hint(Code::NP302, span, message, "add 'iterator: item'");
        return None;
    };
    if !is_name(name, &[]) {
        sink.add_finding(Code::NP013, node.span, format!("'{name}' is not a valid name"));
        return None;
    }
    Some(Spanned::new(Arc::clone(name), node.span))
}

fn read_items_source(sink: &mut DiagnosticSink<'_>, node: &YamlNode) -> Option<LoopSource> {
    if let NodeValue::Plain(Json::Null | Json::Bool(_)) = &node.value {
        let message = format!("loop over a constant that is not iterable: {}", node.type_name());
        let hint = "use a list, a map, text, a number or a template";
        sink.add_with_hint(Code::NP308, node.span, message, hint);
        return None;
    }
    Some(LoopSource::In(Spanned::new(parse_dynamic(sink, node), node.span)))
}

impl ReadValue for CursorSource {
    fn read_value(sink: &mut DiagnosticSink<'_>, key: &str, node: &YamlNode) -> Option<Self> {
        let mut reader = MapReader::open(sink, key, "cursor", node)?;
        let kind: Option<Spanned<Arc<str>>> = reader.read(sink, "kind");
        let auth = reader.read(sink, "auth");
        let claim = reader.read(sink, "claim");
        let options = reader.read(sink, "options").unwrap_or_default();
        reader.report_unread(sink);
        if let Some(kind) = &kind
            && !ToolKind::parse(kind).is_some_and(ToolKind::is_sql)
        {
            let message = format!("a cursor of kind '{}' is not part of this build", kind.value);
            sink.add_with_hint(Code::NP402, kind.span, message, "use postgres or sqlite");
        }
        if claim.is_none() {
            let message = "mode cursor needs cursor.claim";
            let hint = "'claim' is the statement that marks and returns the next rows";
            sink.add_with_hint(Code::NP303, node.head_span(), message, hint);
        }
        let kind = kind.map_or_else(|| "postgres".into(), |kind| kind.value);
        Some(Self { kind, auth, claim: claim?, options })
    }
}

/// Reports settings that the mode of the loop does not use.
fn report_unused_settings(
    sink: &mut DiagnosticSink<'_>,
    node: &YamlNode,
    spec: &LoopSpec,
    cursor: bool,
) {
    let is_cursor = cursor || spec.mode == LoopMode::Cursor;
    for entry in node.as_map().unwrap_or_default() {
        let (unused, mode) = match &*entry.key {
            "frame" => (!is_cursor, "a cursor loop"),
            "max_in_flight" => (!is_cursor && spec.mode == LoopMode::Sequential, "a parallel loop"),
            _ => continue,
        };
        if unused {
            let message = format!("'{}' has no effect", entry.key);
            let hint = format!("it applies only to {mode}; set 'mode'");
            sink.add_with_hint(Code::NP018, entry.key_span, message, hint);
        }
    }
}

#[expect(clippy::option_option, reason = "the outer option says whether the value is valid")]
fn read_max_in_flight(
    sink: &mut DiagnosticSink<'_>,
    key: &str,
    node: &YamlNode,
) -> Option<Option<Spanned<ValueOrTemplate<u32>>>> {
    if matches!(&node.value, NodeValue::Plain(Json::Int(value)) if *value < 1) {
        sink.add_finding(Code::NP304, node.span, "max_in_flight must be at least 1");
        return None;
    }
    ReadValue::read_value(sink, key, node)
}
