//! `next` in all its forms.

use crate::diag::{Code, Sink};
use crate::model::{Condition, NoMatch, RouteArc, Router, RouterMode, Set};
use crate::source::{Span, Spanned};
use crate::yaml::{Entry, Node, NodeValue};

use super::reader::{MapReader, list, not_a_word, spanned_text, word, wrong_type};
use super::values::{SetPlace, condition, set};

/// The mode that an old step names in its `spec`.
pub(super) type LegacyMode = Option<Spanned<RouterMode>>;

/// Where a step goes on.
pub(super) fn router(sink: &mut Sink<'_>, entry: &Entry, legacy: LegacyMode) -> Option<Router> {
    match &entry.value.value {
        NodeValue::Text(target) => {
            old_form(
                sink,
                entry,
                &format!("next: {{arcs: [{{step: {target}}}]}}"),
            );
            let arc = plain_arc(&entry.value)?;
            Some(Router::new(
                RouterMode::Exclusive,
                NoMatch::Complete,
                vec![arc],
            ))
        }
        NodeValue::List(items) => {
            let only_names = items.iter().all(|item| item.as_text().is_some());
            old_form(sink, entry, "next: {spec: {mode: …}, arcs: […]}");
            let mode = match legacy {
                Some(mode) => mode.value,
                None if only_names => RouterMode::Inclusive,
                None => RouterMode::Exclusive,
            };
            let arcs = items
                .iter()
                .filter_map(|item| old_arc(sink, item))
                .collect();
            Some(Router::new(mode, NoMatch::Complete, arcs))
        }
        NodeValue::Map(_) => canonical(sink, entry, legacy),
        NodeValue::Plain(_) => {
            wrong_type(sink, "next", "a map with 'arcs'", &entry.value);
            None
        }
    }
}

fn canonical(sink: &mut Sink<'_>, entry: &Entry, legacy: LegacyMode) -> Option<Router> {
    let mut reader = MapReader::open(sink, "next", "next", &entry.value)?;
    let (mode, on_no_match) = reader
        .take("spec")
        .map_or((None, None), |spec| router_spec(sink, spec));
    let arcs = reader
        .require(sink, "arcs")
        .and_then(|arcs| list(sink, arcs))
        .unwrap_or_default()
        .iter()
        .filter_map(|item| arc(sink, item))
        .collect();
    reader.finish(sink);
    let mode = mode.or(legacy.map(|mode| mode.value)).unwrap_or_default();
    Some(Router::new(mode, on_no_match.unwrap_or_default(), arcs))
}

fn router_spec(sink: &mut Sink<'_>, entry: &Entry) -> (Option<RouterMode>, Option<NoMatch>) {
    let Some(mut reader) = MapReader::open(sink, "spec", "next.spec", &entry.value) else {
        return (None, None);
    };
    let mode = reader.take("mode").and_then(|entry| word(sink, entry));
    let on_no_match = reader
        .take("on_no_match")
        .and_then(|entry| no_match(sink, entry));
    reader.finish(sink);
    (mode, on_no_match)
}

fn no_match(sink: &mut Sink<'_>, entry: &Entry) -> Option<NoMatch> {
    match entry.value.as_text().map(|text| &**text) {
        Some("quiet") => Some(NoMatch::Complete),
        Some(text) => {
            let read = NoMatch::parse(text);
            if read.is_none() {
                not_a_word(sink, &entry.value, text, &["complete", "quiet", "error"]);
            }
            read
        }
        None => word(sink, entry),
    }
}

fn arc(sink: &mut Sink<'_>, node: &Node) -> Option<RouteArc> {
    let mut reader = MapReader::open(sink, "arcs", "arc", node)?;
    let step = reader
        .require(sink, "step")
        .and_then(|entry| spanned_text(sink, entry));
    // A condition that cannot be read is not the same as none; its arc counts as one that may stay
    // untaken.
    let when = reader.take("when").map(|entry| {
        condition(sink, entry).unwrap_or(Spanned::new(Condition::Fixed(false), entry.value.span))
    });
    let mut writes = reader
        .take("set")
        .map_or_else(Set::default, |entry| set(sink, entry, SetPlace::Step));
    if let Some(args) = reader.take("args") {
        old_key(sink, args.key_span, "args", "set");
        for entry in set(sink, args, SetPlace::Step).0 {
            writes.put(entry);
        }
    }
    reader.finish(sink);
    Some(RouteArc {
        step: step?,
        when,
        set: writes,
    })
}

fn old_arc(sink: &mut Sink<'_>, node: &Node) -> Option<RouteArc> {
    if node.as_text().is_some() {
        plain_arc(node)
    } else {
        arc(sink, node)
    }
}

fn plain_arc(node: &Node) -> Option<RouteArc> {
    let step = Spanned::new(node.as_text()?.clone(), node.span);
    Some(RouteArc {
        step,
        when: None,
        set: Set::default(),
    })
}

fn old_form(sink: &mut Sink<'_>, entry: &Entry, write: &str) {
    sink.add(
        Code::NP016,
        entry.key_span,
        format!("old form of 'next'; write {write}"),
    );
}

/// Reports an old key.
pub(super) fn old_key(sink: &mut Sink<'_>, span: Span, old: &str, new: &str) {
    sink.add(
        Code::NP016,
        span,
        format!("old form '{old}'; write '{new}'"),
    );
}
