//! Parses values that may contain templates: dynamic values, conditions, settings, named values and
//! writes.

use std::sync::Arc;

use noetl_types::Json;

use super::read::{ReadValue, report_wrong_type};
use crate::diag::{Code, DiagnosticSink, nearest_name};
use crate::model::{
    Condition, NamedValue, NamedValues, SetClause, SetEntry, SetTarget, ValueOrTemplate,
};
use crate::source::{Span, Spanned};
use crate::template::{DynamicValue, Template, TemplateError, TemplateErrorKind, TemplatePlace};
use crate::yaml::{NodeValue, YamlEntry, YamlNode};

/// True if a text contains template markers.
pub(super) fn is_template(text: &str) -> bool {
    Template::has_markers(text)
}

/// Parses a value that may contain templates.
pub(super) fn parse_dynamic(sink: &mut DiagnosticSink<'_>, node: &YamlNode) -> DynamicValue {
    parse_dynamic_at(sink, node, TemplatePlace::Run)
}

impl ReadValue for DynamicValue {
    fn read_value(sink: &mut DiagnosticSink<'_>, _: &str, node: &YamlNode) -> Option<Self> {
        Some(parse_dynamic(sink, node))
    }
}

fn parse_dynamic_at(
    sink: &mut DiagnosticSink<'_>,
    node: &YamlNode,
    place: TemplatePlace,
) -> DynamicValue {
    match &node.value {
        NodeValue::Plain(json) => DynamicValue::from_constant(json.clone()),
        NodeValue::Text(text) => parse_text_at(sink, text, node.span, place),
        NodeValue::List(items) => DynamicValue::from_list(
            items.iter().map(|item| parse_dynamic_at(sink, item, place)).collect(),
        ),
        NodeValue::Map(entries) => DynamicValue::from_entries(
            entries
                .iter()
                .map(|entry| {
                    let key = parse_text_at(sink, &entry.key, entry.key_span, place);
                    (key, parse_dynamic_at(sink, &entry.value, place))
                })
                .collect(),
        ),
    }
}

fn parse_text_at(
    sink: &mut DiagnosticSink<'_>,
    text: &Arc<str>,
    span: Span,
    place: TemplatePlace,
) -> DynamicValue {
    if !is_template(text) {
        return DynamicValue::from_constant(Json::Str(Arc::clone(text)));
    }
    match Template::parse(text, place) {
        Ok(template) => DynamicValue::from_template(template, span),
        Err(errors) => {
            report_template_errors(sink, text, span, &errors);
            DynamicValue::from_constant(Json::Str(Arc::clone(text)))
        }
    }
}

/// Reports the errors of a template at their positions in the document.
fn report_template_errors(
    sink: &mut DiagnosticSink<'_>,
    text: &str,
    span: Span,
    errors: &[TemplateError],
) {
    for error in errors {
        let error_span = sink.source.span_in_scalar(span, text, error.range.clone());
        match &error.kind {
            TemplateErrorKind::Syntax { reason } => {
                sink.add_finding(Code::NP501, error_span, format!("template: {reason}"));
            }
            TemplateErrorKind::UnknownName { vocabulary, name, suggestion } => {
                sink.add_with_suggestion(
                    Code::NP502,
                    error_span,
                    format!("unknown {vocabulary} '{name}'"),
                    *suggestion,
                );
            }
            TemplateErrorKind::Statement { name } => {
                sink.add_finding(
                    Code::NP505,
                    error_span,
                    format!("statement '{name}' is not allowed"),
                );
            }
            TemplateErrorKind::StartOnly { name } => {
                let message = format!("'{name}' may only be used in workload");
                let hint =
                    "assign it to a workload key, which is rendered once, and read that key here";
                sink.add_with_hint(Code::NP506, error_span, message, hint);
            }
        }
    }
}

impl ReadValue for Condition {
    fn read_value(sink: &mut DiagnosticSink<'_>, key: &str, node: &YamlNode) -> Option<Self> {
        let text = match &node.value {
            NodeValue::Plain(Json::Bool(value)) => return Some(Self::Fixed(*value)),
            NodeValue::Text(text) => text,
            NodeValue::Plain(_) | NodeValue::List(_) | NodeValue::Map(_) => {
                report_wrong_type(sink, key, "a template, an expression or a bool", node);
                return None;
            }
        };
        match Template::parse_condition(text) {
            Ok(template) => {
                if !template.is_one_expression() {
                    let message = "condition is not a single expression";
                    let hint = "write a single expression, such as \"{{ n > 3 }}\" or \"n > 3\"";
                    sink.add_with_hint(Code::NP507, node.span, message, hint);
                }
                Some(Self::Test(template))
            }
            Err(errors) => {
                report_template_errors(sink, text, node.span, &errors);
                None
            }
        }
    }
}

impl<T: ReadValue> ReadValue for ValueOrTemplate<T> {
    fn read_value(sink: &mut DiagnosticSink<'_>, key: &str, node: &YamlNode) -> Option<Self> {
        read_setting(sink, node, |sink| T::read_value(sink, key, node))
    }
}

/// Reads a setting with `read`, unless it is a template.
pub(super) fn read_setting<T>(
    sink: &mut DiagnosticSink<'_>,
    node: &YamlNode,
    read: impl FnOnce(&mut DiagnosticSink<'_>) -> Option<T>,
) -> Option<ValueOrTemplate<T>> {
    let Some(text) = node.as_text().filter(|text| is_template(text)) else {
        return read(sink).map(ValueOrTemplate::Fixed);
    };
    match Template::parse(text, TemplatePlace::Run) {
        Ok(template) => Some(ValueOrTemplate::Template(Spanned::new(template, node.span))),
        Err(errors) => {
            report_template_errors(sink, text, node.span, &errors);
            None
        }
    }
}

/// The names are used as written.
impl ReadValue for NamedValues {
    fn read_value(sink: &mut DiagnosticSink<'_>, key: &str, node: &YamlNode) -> Option<Self> {
        read_named_values(sink, key, node, TemplatePlace::Run)
    }
}

/// Reads named values at a place.
pub(super) fn read_named_values(
    sink: &mut DiagnosticSink<'_>,
    key: &str,
    node: &YamlNode,
    place: TemplatePlace,
) -> Option<NamedValues> {
    let Some(entries) = node.as_map() else {
        report_wrong_type(sink, key, "a map", node);
        return None;
    };
    Some(NamedValues(entries.iter().map(|entry| parse_named_value(sink, entry, place)).collect()))
}

/// Parses one named value.
pub(super) fn parse_named_value(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
    place: TemplatePlace,
) -> NamedValue {
    if is_template(&entry.key) {
        let message = format!("'{}' is not a valid name", entry.key);
        let hint = "a name cannot be a template; templates are allowed in keys inside the value";
        sink.add_with_hint(Code::NP013, entry.key_span, message, hint);
    }
    NamedValue {
        name: Spanned::new(Arc::clone(&entry.key), entry.key_span),
        value: parse_dynamic_at(sink, &entry.value, place),
        value_span: Spanned::new((), entry.value.span),
    }
}

/// Position of a `set`, which determines the meaning of a name without a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SetPlace {
    /// In a task or rule: a pipeline variable.
    Task,
    /// In a step or arc: a variable of the execution.
    Step,
}

/// Parses the writes of a `set`, if there is one.
pub(super) fn parse_set(
    sink: &mut DiagnosticSink<'_>,
    entry: Option<&YamlEntry>,
    place: SetPlace,
) -> SetClause {
    let mut set = SetClause::default();
    let Some(entry) = entry else { return set };
    let Some(entries) = entry.value.as_map() else {
        report_wrong_type(sink, &entry.key, "a map", &entry.value);
        return set;
    };
    for entry in entries {
        if let Some(entry) = parse_set_entry(sink, entry, "", place) {
            set.insert_entry(entry);
        }
    }
    set
}

/// Parses one write. `prefix` is put before the key, for legacy forms that specify it elsewhere.
pub(super) fn parse_set_entry(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
    prefix: &str,
    place: SetPlace,
) -> Option<SetEntry> {
    let value = parse_dynamic(sink, &entry.value);
    let key = format!("{prefix}{}", entry.key);
    let Ok(target) = SetTarget::parse(&key) else {
        let hint = "write ctx.<name>, iter.<name> or step.<name>";
        sink.add_with_hint(Code::NP511, entry.key_span, format!("set cannot write '{key}'"), hint);
        return None;
    };
    // In a step or arc, a name without a prefix is a variable of the execution. The model has one
    // form for both.
    let target = match target {
        SetTarget::Bare(name) if place == SetPlace::Step && !name.contains('.') => {
            SetTarget::Ctx(vec![name])
        }
        other => other,
    };
    if let SetTarget::Bare(name) = &target
        && let Some((prefix, rest)) = name.split_once('.')
    {
        let message = format!("'{name}' has no known scope and is a literal key");
        let prefix = nearest_name(prefix, ["ctx", "iter", "step"]).unwrap_or("ctx");
        sink.add_with_hint(
            Code::NP512,
            entry.key_span,
            message,
            format!("did you mean '{prefix}.{rest}'?"),
        );
    }
    Some(SetEntry { target: Spanned::new(target, entry.key_span), value })
}
