//! What the headers of a message do.

use std::sync::Arc;

use noetl_types::{Json, JsonMap, PlaybookPath, PoolName};

use crate::diag::{Code, Sink};
use crate::model::{Directive, DirectiveControl, Headers, Propagate, Trace};
use crate::parse::reader::{MapReader, bool, integer, list, word, wrong_type};
use crate::parse::resource::{literal, literals, named, no_effect, required_literal, scalar};
use crate::source::Spanned;
use crate::yaml::{Entry, Node};

/// What the headers of a message do.
pub(super) fn headers(sink: &mut Sink<'_>, entry: &Entry) -> Headers {
    let mut headers = Headers::default();
    let Some(mut reader) = MapReader::open(sink, "headers", "headers", &entry.value) else {
        return headers;
    };
    headers.normalize = reader
        .take("normalize")
        .and_then(|entry| bool(sink, entry))
        .unwrap_or_default();
    if let Some(items) = reader
        .take("directives")
        .and_then(|entry| list(sink, entry))
    {
        headers.directives = items
            .iter()
            .filter_map(|item| directive(sink, item))
            .collect();
    }
    headers.trace = reader
        .take("trace")
        .map(|entry| trace(sink, entry))
        .unwrap_or_default();
    if let Some(passthrough) = reader
        .take("passthrough")
        .and_then(|entry| literal(sink, entry))
    {
        headers.passthrough = passthrough;
    }
    reader.finish(sink);
    headers
}

fn trace(sink: &mut Sink<'_>, entry: &Entry) -> Trace {
    let Some(mut reader) = MapReader::open(sink, "trace", "trace", &entry.value) else {
        return Trace::default();
    };
    let propagate = reader
        .take("propagate")
        .map_or(Some(Propagate::None), |entry| word(sink, entry));
    let baggage = reader.take("baggage_allowlist");
    if let (Some(entry), Some(Propagate::None)) = (baggage, propagate) {
        no_effect(sink, entry, "baggage comes along with 'propagate: w3c'");
    }
    let baggage = baggage
        .map(|entry| literals(sink, entry))
        .unwrap_or_default();
    reader.finish(sink);
    Trace {
        propagate: propagate.unwrap_or_default(),
        baggage_allowlist: baggage.into_iter().map(|name| name.value).collect(),
    }
}

fn directive(sink: &mut Sink<'_>, node: &Node) -> Option<Directive> {
    let mut reader = MapReader::open(sink, "directives", "directive", node)?;
    let header = required_literal(sink, &mut reader, "header");
    let controls = reader
        .require(sink, "controls")
        .and_then(|entry| word(sink, entry));
    let allowed = reader.take("allowed").map(|entry| literals(sink, entry));
    let map = reader.take("map");
    reader.finish(sink);
    let controls = controls?;
    let allowed = allowed_values(sink, node, controls, allowed)?;
    let map = values(sink, node, controls, map)?;
    Some(Directive {
        header: header?,
        controls,
        allowed,
        map,
    })
}

/// What a header may say. To choose what is run, it must be told between what.
fn allowed_values(
    sink: &mut Sink<'_>,
    node: &Node,
    controls: DirectiveControl,
    allowed: Option<Vec<Spanned<Arc<str>>>>,
) -> Option<Vec<Spanned<Arc<str>>>> {
    let allowed = allowed.unwrap_or_default();
    match controls {
        DirectiveControl::Playbook => {
            for path in &allowed {
                named(sink, path, PlaybookPath::new);
            }
        }
        DirectiveControl::ExecutionPool => {
            for pool in &allowed {
                named(sink, pool, PoolName::new);
            }
        }
        DirectiveControl::Priority
        | DirectiveControl::IdempotencyKey
        | DirectiveControl::ContentType
        | DirectiveControl::SchemaHint => return Some(allowed),
    }
    if allowed.is_empty() {
        return lacks(sink, node, controls, "allowed");
    }
    Some(allowed)
}

/// What the values of a header stand for. A priority is a number, which no header is.
fn values(
    sink: &mut Sink<'_>,
    node: &Node,
    controls: DirectiveControl,
    map: Option<&Entry>,
) -> Option<JsonMap> {
    let is_priority = controls == DirectiveControl::Priority;
    let Some(map) = map else {
        return if is_priority {
            lacks(sink, node, controls, "map")
        } else {
            Some(JsonMap::new())
        };
    };
    let Some(entries) = map.value.as_map() else {
        wrong_type(sink, "map", "a map", &map.value);
        return None;
    };
    if is_priority && entries.is_empty() {
        return lacks(sink, node, controls, "map");
    }
    let mut read = JsonMap::new();
    for entry in entries {
        let value = if is_priority {
            integer(sink, entry, -100..=100).map(Json::from)
        } else {
            scalar(sink, &entry.key, &entry.value)
        };
        read.extend(value.map(|value| (Arc::clone(&entry.key), value)));
    }
    Some(read)
}

fn lacks<T>(sink: &mut Sink<'_>, node: &Node, controls: DirectiveControl, key: &str) -> Option<T> {
    let message = format!("directive that controls {controls} lacks required key '{key}'");
    sink.add(Code::NP005, node.head(), message);
    None
}
