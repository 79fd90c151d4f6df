//! Parses `next` in all its forms.

use crate::diag::{Code, DiagnosticSink};
use crate::model::{Condition, NoMatch, RouteArc, Router, RouterMode, RouterSpec, SetClause};
use crate::source::{Span, Spanned};
use crate::yaml::{NodeValue, YamlEntry, YamlNode};

use super::read::{MapReader, ReadValue, read_keyword, read_list, read_map, report_wrong_type};
use super::values::{SetPlace, parse_set};

read_map! { RouterSpec, "next.spec", optional { mode, on_no_match => read_no_match } }

/// Parses the `next` of a step. `legacy` is the mode that a legacy step sets in its `spec`.
pub(super) fn parse_router(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
    legacy: Option<RouterMode>,
) -> Option<Router> {
    match &entry.value.value {
        NodeValue::Text(target) => {
            report_deprecated_next(sink, entry, &format!("next: {{arcs: [{{step: {target}}}]}}"));
            let arc = unconditional_arc(&entry.value)?;
            Some(Router { spec: RouterSpec::default(), arcs: vec![arc] })
        }
        NodeValue::List(items) => {
            let only_names = items.iter().all(|item| item.as_text().is_some());
            report_deprecated_next(sink, entry, "next: {spec: {mode: …}, arcs: […]}");
            let default = if only_names { RouterMode::Inclusive } else { RouterMode::Exclusive };
            let spec = RouterSpec { mode: legacy.unwrap_or(default), ..RouterSpec::default() };
            let arcs = items.iter().filter_map(|item| parse_legacy_arc(sink, item)).collect();
            Some(Router { spec, arcs })
        }
        NodeValue::Map(_) => parse_canonical_router(sink, entry, legacy),
        NodeValue::Plain(_) => {
            report_wrong_type(sink, "next", "a map with 'arcs'", &entry.value);
            None
        }
    }
}

fn parse_canonical_router(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
    legacy: Option<RouterMode>,
) -> Option<Router> {
    let mut reader = MapReader::open(sink, "next", "next", &entry.value)?;
    let mut spec: RouterSpec = reader.read(sink, "spec").unwrap_or_default();
    if let Some(legacy) = legacy
        && entry.value.get("spec").and_then(|spec| spec.get("mode")).is_none()
    {
        spec.mode = legacy;
    }
    let arcs = reader
        .require_entry(sink, "arcs")
        .and_then(|arcs| read_list(sink, &arcs.key, &arcs.value))
        .unwrap_or_default()
        .iter()
        .filter_map(|item| parse_arc(sink, item))
        .collect();
    reader.report_unread(sink);
    Some(Router { spec, arcs })
}

fn read_no_match(sink: &mut DiagnosticSink<'_>, key: &str, node: &YamlNode) -> Option<NoMatch> {
    match &**read_keyword(sink, key, node, &["complete", "quiet", "error"])? {
        "error" => Some(NoMatch::Error),
        _ => Some(NoMatch::Complete),
    }
}

fn parse_arc(sink: &mut DiagnosticSink<'_>, node: &YamlNode) -> Option<RouteArc> {
    let mut reader = MapReader::open(sink, "arcs", "arc", node)?;
    let step = reader.require(sink, "step");
    // An invalid condition is not the same as an absent one: the arc counts as conditional.
    let when = reader.take_entry("when").map(|entry| {
        let when = Condition::read_value(sink, &entry.key, &entry.value);
        Spanned::new(when.unwrap_or(Condition::Fixed(false)), entry.value.span)
    });
    let mut writes = parse_set(sink, reader.take_entry("set"), SetPlace::Step);
    if let Some(args) = reader.take_entry("args") {
        report_deprecated_key(sink, args.key_span, "args", "set");
        for entry in parse_set(sink, Some(args), SetPlace::Step).0 {
            writes.insert_entry(entry);
        }
    }
    reader.report_unread(sink);
    Some(RouteArc { step: step?, when, set: writes })
}

fn parse_legacy_arc(sink: &mut DiagnosticSink<'_>, node: &YamlNode) -> Option<RouteArc> {
    if node.as_text().is_some() { unconditional_arc(node) } else { parse_arc(sink, node) }
}

fn unconditional_arc(node: &YamlNode) -> Option<RouteArc> {
    let step = Spanned::new(node.as_text()?.clone(), node.span);
    Some(RouteArc { step, when: None, set: SetClause::default() })
}

fn report_deprecated_next(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry, replacement: &str) {
    sink.add_finding(
        Code::NP016,
        entry.key_span,
        format!("deprecated form of 'next'; write {replacement}"),
    );
}

/// Reports a deprecated key.
pub(super) fn report_deprecated_key(
    sink: &mut DiagnosticSink<'_>,
    span: Span,
    old: &str,
    new: &str,
) {
    sink.add_finding(Code::NP016, span, format!("deprecated form '{old}'; write '{new}'"));
}
