//! Values with templates inside: dynamic values, conditions, settings, named values, writes.

use std::sync::Arc;

use noetl_types::Json;

use super::reader::wrong_type;
use crate::diag::{Code, Sink, near};
use crate::model::{Condition, Field, Fields, Set, SetEntry, SetTarget, Setting};
use crate::source::{Span, Spanned};
use crate::template::{Dynamic, Fault, FaultKind, Place, Template};
use crate::yaml::{Entry, Node, NodeValue};

/// Whether a text is a template at all.
pub(super) fn is_template(text: &str) -> bool {
    Template::has_markers(text)
}

/// A value with templates inside.
pub(super) fn dynamic(sink: &mut Sink<'_>, node: &Node) -> Dynamic {
    dynamic_at(sink, node, Place::Run)
}

fn dynamic_at(sink: &mut Sink<'_>, node: &Node, place: Place) -> Dynamic {
    match &node.value {
        NodeValue::Plain(json) => Dynamic::constant(json.clone()),
        NodeValue::Text(text) => text_at(sink, text, node.span, place),
        NodeValue::List(items) => Dynamic::list(
            items
                .iter()
                .map(|item| dynamic_at(sink, item, place))
                .collect(),
        ),
        NodeValue::Map(entries) => Dynamic::map(
            entries
                .iter()
                .map(|entry| {
                    let key = text_at(sink, &entry.key, entry.key_span, place);
                    (key, dynamic_at(sink, &entry.value, place))
                })
                .collect(),
        ),
    }
}

fn text_at(sink: &mut Sink<'_>, text: &Arc<str>, span: Span, place: Place) -> Dynamic {
    if !is_template(text) {
        return Dynamic::constant(Json::Str(Arc::clone(text)));
    }
    match Template::parse(text, place) {
        Ok(template) => Dynamic::text(template, span),
        Err(faults) => {
            report(sink, text, span, &faults);
            Dynamic::constant(Json::Str(Arc::clone(text)))
        }
    }
}

/// Reports what is wrong with a template, at the places where its author wrote it.
fn report(sink: &mut Sink<'_>, text: &str, span: Span, faults: &[Fault]) {
    for fault in faults {
        let at = sink.source.inside(span, text, fault.range.clone());
        match &fault.kind {
            FaultKind::Syntax { reason } => {
                sink.add(Code::NP501, at, format!("template: {reason}"));
            }
            FaultKind::UnknownName { what, name, near } => {
                sink.misspelt(Code::NP502, at, format!("unknown {what} '{name}'"), *near);
            }
            FaultKind::Statement { name } => {
                sink.add(
                    Code::NP505,
                    at,
                    format!("statement '{name}' is not allowed"),
                );
            }
            FaultKind::StartOnly { name } => {
                let message = format!("'{name}' may only be used in workload");
                let hint = "write it into a workload key, where it is rendered once, and read that key here";
                sink.hinted(Code::NP506, at, message, hint);
            }
        }
    }
}

/// A condition.
pub(super) fn condition(sink: &mut Sink<'_>, entry: &Entry) -> Option<Spanned<Condition>> {
    let span = entry.value.span;
    match &entry.value.value {
        NodeValue::Plain(Json::Bool(value)) => Some(Spanned::new(Condition::Fixed(*value), span)),
        NodeValue::Text(text) => match Template::condition(text) {
            Ok(template) => {
                if !template.is_one_expression() {
                    let hint = "write one expression, like \"{{ n > 3 }}\" or \"n > 3\"";
                    sink.hinted(Code::NP507, span, "condition is not one expression", hint);
                }
                Some(Spanned::new(Condition::Test(template), span))
            }
            Err(faults) => {
                report(sink, text, span, &faults);
                None
            }
        },
        NodeValue::Plain(_) | NodeValue::List(_) | NodeValue::Map(_) => {
            wrong_type(
                sink,
                &entry.key,
                "a template, an expression or a bool",
                &entry.value,
            );
            None
        }
    }
}

/// A setting: read at once unless it is a template.
pub(super) fn setting<T>(
    sink: &mut Sink<'_>,
    node: &Node,
    read: impl FnOnce(&mut Sink<'_>, &Node) -> Option<T>,
) -> Option<Setting<T>> {
    let Some(text) = node.as_text().filter(|text| is_template(text)) else {
        return read(sink, node).map(Setting::Fixed);
    };
    match Template::parse(text, Place::Run) {
        Ok(template) => Some(Setting::Template(Spanned::new(template, node.span))),
        Err(faults) => {
            report(sink, text, node.span, &faults);
            None
        }
    }
}

/// A text that may be a template; other scalars are taken as they are written.
pub(super) fn text_setting(
    sink: &mut Sink<'_>,
    entry: &Entry,
) -> Option<Spanned<Setting<Arc<str>>>> {
    let setting = setting(sink, &entry.value, |sink, _| {
        super::reader::text(sink, entry)
    })?;
    Some(Spanned::new(setting, entry.value.span))
}

/// Named values; the names are taken as they are written.
pub(super) fn fields(sink: &mut Sink<'_>, entry: &Entry) -> Fields {
    let Some(entries) = entry.value.as_map() else {
        wrong_type(sink, &entry.key, "a map", &entry.value);
        return Fields::default();
    };
    Fields(
        entries
            .iter()
            .map(|entry| field(sink, entry, Place::Run))
            .collect(),
    )
}

/// One named value.
pub(super) fn field(sink: &mut Sink<'_>, entry: &Entry, place: Place) -> Field {
    if is_template(&entry.key) {
        let message = format!("'{}' is not a valid name", entry.key);
        let hint = "a name is written out; templates go into keys inside of a value";
        sink.hinted(Code::NP013, entry.key_span, message, hint);
    }
    Field {
        name: Spanned::new(Arc::clone(&entry.key), entry.key_span),
        value: dynamic_at(sink, &entry.value, place),
        value_span: Spanned::new((), entry.value.span),
    }
}

/// Where a `set` stands, which tells what a bare name means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SetPlace {
    /// In a task or a rule: a pipeline variable.
    Task,
    /// In a step or an arc: a variable of the execution.
    Step,
}

/// The writes of a `set`.
pub(super) fn set(sink: &mut Sink<'_>, entry: &Entry, place: SetPlace) -> Set {
    let Some(entries) = entry.value.as_map() else {
        wrong_type(sink, &entry.key, "a map", &entry.value);
        return Set::default();
    };
    let mut set = Set::default();
    for entry in entries {
        if let Some(entry) = set_entry(sink, entry, "", place) {
            set.put(entry);
        }
    }
    set
}

/// One write; `scope` is put before the key, for old forms that name it elsewhere.
pub(super) fn set_entry(
    sink: &mut Sink<'_>,
    entry: &Entry,
    scope: &str,
    place: SetPlace,
) -> Option<SetEntry> {
    let value = dynamic(sink, &entry.value);
    let key = format!("{scope}{}", entry.key);
    let Ok(target) = SetTarget::parse(&key) else {
        let hint = "write ctx.<name>, iter.<name> or step.<name>";
        sink.hinted(
            Code::NP511,
            entry.key_span,
            format!("set cannot write '{key}'"),
            hint,
        );
        return None;
    };
    // In a step or an arc a bare name is a variable of the execution; the model has one form for it.
    let target = match target {
        SetTarget::Bare(name) if place == SetPlace::Step && !name.contains('.') => {
            SetTarget::Ctx(vec![name])
        }
        other => other,
    };
    if let SetTarget::Bare(name) = &target
        && let Some((scope, rest)) = name.split_once('.')
    {
        let message = format!("'{name}' has no known scope and is a literal key");
        let scope = near(scope, ["ctx", "iter", "step"]).unwrap_or("ctx");
        sink.hinted(
            Code::NP512,
            entry.key_span,
            message,
            format!("did you mean '{scope}.{rest}'?"),
        );
    }
    Some(SetEntry {
        target: Spanned::new(target, entry.key_span),
        value,
    })
}
