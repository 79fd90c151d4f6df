//! Parses `next` in all its forms.

use crate::diag::{Code, DiagnosticSink};
use crate::model::{Condition, NoMatch, RouteArc, Router, RouterMode, SetClause};
use crate::source::{Span, Spanned};
use crate::yaml::{NodeValue, YamlEntry, YamlNode};

use super::reader::{
    MapReader, read_keyword, read_list, read_spanned_text, report_unknown_keyword,
    report_wrong_type,
};
use super::values::{SetPlace, parse_set, parse_when};

/// Router mode that a legacy step sets in its `spec`.
pub(super) type LegacyMode = Option<Spanned<RouterMode>>;

/// Parses the `next` of a step.
pub(super) fn parse_router(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
    legacy: LegacyMode,
) -> Option<Router> {
    match &entry.value.value {
        NodeValue::Text(target) => {
            report_deprecated_next(sink, entry, &format!("next: {{arcs: [{{step: {target}}}]}}"));
            let arc = unconditional_arc(&entry.value)?;
            Some(Router::new(RouterMode::Exclusive, NoMatch::Complete, vec![arc]))
        }
        NodeValue::List(items) => {
            let only_names = items.iter().all(|item| item.as_text().is_some());
            report_deprecated_next(sink, entry, "next: {spec: {mode: …}, arcs: […]}");
            let mode = match legacy {
                Some(mode) => mode.value,
                None if only_names => RouterMode::Inclusive,
                None => RouterMode::Exclusive,
            };
            let arcs = items.iter().filter_map(|item| parse_legacy_arc(sink, item)).collect();
            Some(Router::new(mode, NoMatch::Complete, arcs))
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
    legacy: LegacyMode,
) -> Option<Router> {
    let mut reader = MapReader::open(sink, "next", "next", &entry.value)?;
    let (mode, on_no_match) =
        reader.take_entry("spec").map_or((None, None), |spec| parse_router_spec(sink, spec));
    let arcs = reader
        .require_entry(sink, "arcs")
        .and_then(|arcs| read_list(sink, arcs))
        .unwrap_or_default()
        .iter()
        .filter_map(|item| parse_arc(sink, item))
        .collect();
    reader.report_unread(sink);
    let mode = mode.or(legacy.map(|mode| mode.value)).unwrap_or_default();
    Some(Router::new(mode, on_no_match.unwrap_or_default(), arcs))
}

fn parse_router_spec(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
) -> (Option<RouterMode>, Option<NoMatch>) {
    let Some(mut reader) = MapReader::open(sink, "spec", "next.spec", &entry.value) else {
        return (None, None);
    };
    let mode = reader.take_entry("mode").and_then(|entry| read_keyword(sink, entry));
    let on_no_match =
        reader.take_entry("on_no_match").and_then(|entry| parse_no_match(sink, entry));
    reader.report_unread(sink);
    (mode, on_no_match)
}

fn parse_no_match(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<NoMatch> {
    match entry.value.as_text().map(|text| &**text) {
        Some("quiet") => Some(NoMatch::Complete),
        Some(text) => {
            let no_match = NoMatch::parse(text);
            if no_match.is_none() {
                report_unknown_keyword(sink, &entry.value, text, &["complete", "quiet", "error"]);
            }
            no_match
        }
        None => read_keyword(sink, entry),
    }
}

fn parse_arc(sink: &mut DiagnosticSink<'_>, node: &YamlNode) -> Option<RouteArc> {
    let mut reader = MapReader::open(sink, "arcs", "arc", node)?;
    let step = reader.require_entry(sink, "step").and_then(|entry| read_spanned_text(sink, entry));
    // An invalid condition is not the same as an absent one: the arc counts as conditional.
    let when = reader.take_entry("when").map(|entry| {
        parse_when(sink, entry).unwrap_or(Spanned::new(Condition::Fixed(false), entry.value.span))
    });
    let mut writes = reader
        .take_entry("set")
        .map_or_else(SetClause::default, |entry| parse_set(sink, entry, SetPlace::Step));
    if let Some(args) = reader.take_entry("args") {
        report_deprecated_key(sink, args.key_span, "args", "set");
        for entry in parse_set(sink, args, SetPlace::Step).0 {
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
