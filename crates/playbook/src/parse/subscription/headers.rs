//! Parses the use of message headers.

use std::sync::Arc;

use noetl_types::{Json, JsonMap, PlaybookPath, PoolName};

use crate::diag::{Code, DiagnosticSink};
use crate::model::{DirectiveControl, HeaderDirective, HeaderRules, TraceConfig, TracePropagation};
use crate::parse::reader::{
    MapReader, read_bool, read_integer, read_keyword, read_list, report_wrong_type,
};
use crate::parse::resource::{
    read_literal, read_literals, read_scalar, report_no_effect, require_literal, validate_name,
};
use crate::source::Spanned;
use crate::yaml::{YamlEntry, YamlNode};

/// Parses `headers`.
pub(super) fn parse_headers(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> HeaderRules {
    let mut headers = HeaderRules::default();
    let Some(mut reader) = MapReader::open(sink, "headers", "headers", &entry.value) else {
        return headers;
    };
    headers.normalize =
        reader.take_entry("normalize").and_then(|entry| read_bool(sink, entry)).unwrap_or_default();
    if let Some(items) = reader.take_entry("directives").and_then(|entry| read_list(sink, entry)) {
        headers.directives = items.iter().filter_map(|item| parse_directive(sink, item)).collect();
    }
    headers.trace =
        reader.take_entry("trace").map(|entry| parse_trace(sink, entry)).unwrap_or_default();
    if let Some(passthrough) =
        reader.take_entry("passthrough").and_then(|entry| read_literal(sink, entry))
    {
        headers.passthrough = passthrough;
    }
    reader.report_unread(sink);
    headers
}

fn parse_trace(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> TraceConfig {
    let Some(mut reader) = MapReader::open(sink, "trace", "trace", &entry.value) else {
        return TraceConfig::default();
    };
    let propagate = reader
        .take_entry("propagate")
        .map_or(Some(TracePropagation::None), |entry| read_keyword(sink, entry));
    let baggage = reader.take_entry("baggage_allowlist");
    if let (Some(entry), Some(TracePropagation::None)) = (baggage, propagate) {
        report_no_effect(sink, entry, "baggage is propagated only with 'propagate: w3c'");
    }
    let baggage = baggage.map(|entry| read_literals(sink, entry)).unwrap_or_default();
    reader.report_unread(sink);
    TraceConfig {
        propagate: propagate.unwrap_or_default(),
        baggage_allowlist: baggage.into_iter().map(|name| name.value).collect(),
    }
}

fn parse_directive(sink: &mut DiagnosticSink<'_>, node: &YamlNode) -> Option<HeaderDirective> {
    let mut reader = MapReader::open(sink, "directives", "directive", node)?;
    let header = require_literal(sink, &mut reader, "header");
    let controls =
        reader.require_entry(sink, "controls").and_then(|entry| read_keyword(sink, entry));
    let allowed = reader.take_entry("allowed").map(|entry| read_literals(sink, entry));
    let map = reader.take_entry("map");
    reader.report_unread(sink);
    let controls = controls?;
    let allowed = check_allowed_values(sink, node, controls, allowed)?;
    let map = parse_value_map(sink, node, controls, map)?;
    Some(HeaderDirective { header: header?, controls, allowed, map })
}

/// Checks the allowed values of a header. A header that selects a playbook or pool requires a list
/// of allowed values.
fn check_allowed_values(
    sink: &mut DiagnosticSink<'_>,
    node: &YamlNode,
    controls: DirectiveControl,
    allowed: Option<Vec<Spanned<Arc<str>>>>,
) -> Option<Vec<Spanned<Arc<str>>>> {
    let allowed = allowed.unwrap_or_default();
    match controls {
        DirectiveControl::Playbook => {
            for path in &allowed {
                validate_name(sink, path, PlaybookPath::new);
            }
        }
        DirectiveControl::ExecutionPool => {
            for pool in &allowed {
                validate_name(sink, pool, PoolName::new);
            }
        }
        DirectiveControl::Priority
        | DirectiveControl::IdempotencyKey
        | DirectiveControl::ContentType
        | DirectiveControl::SchemaHint => return Some(allowed),
    }
    if allowed.is_empty() {
        return report_missing_key(sink, node, controls, "allowed");
    }
    Some(allowed)
}

/// Parses the mapping of header values. A priority requires a mapping, because header values are
/// strings.
fn parse_value_map(
    sink: &mut DiagnosticSink<'_>,
    node: &YamlNode,
    controls: DirectiveControl,
    map: Option<&YamlEntry>,
) -> Option<JsonMap> {
    let is_priority = controls == DirectiveControl::Priority;
    let Some(map) = map else {
        return if is_priority {
            report_missing_key(sink, node, controls, "map")
        } else {
            Some(JsonMap::new())
        };
    };
    let Some(entries) = map.value.as_map() else {
        report_wrong_type(sink, "map", "a map", &map.value);
        return None;
    };
    if is_priority && entries.is_empty() {
        return report_missing_key(sink, node, controls, "map");
    }
    let mut values = JsonMap::new();
    for entry in entries {
        let value = if is_priority {
            read_integer(sink, entry, -100..=100).map(Json::from)
        } else {
            read_scalar(sink, &entry.key, &entry.value)
        };
        values.extend(value.map(|value| (Arc::clone(&entry.key), value)));
    }
    Some(values)
}

fn report_missing_key<T>(
    sink: &mut DiagnosticSink<'_>,
    node: &YamlNode,
    controls: DirectiveControl,
    key: &str,
) -> Option<T> {
    let message = format!("directive that controls {controls} lacks required key '{key}'");
    sink.add_finding(Code::NP005, node.head_span(), message);
    None
}
