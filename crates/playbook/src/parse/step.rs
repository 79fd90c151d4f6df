//! Parses steps.

use noetl_types::time::Millis;

use crate::diag::{Code, DiagnosticSink};
use crate::model::{
    AdmitRule, ConcurrencyLimit, FailurePolicy, Lifecycle, Loop, NamedValues, RouterMode, Step,
    StepCache, StepPolicy, StepSpec, ValueOrTemplate,
};
use crate::source::{Span, Spanned};
use crate::yaml::{YamlEntry, YamlNode};

use super::read::{MapReader, ReadValue, read_integer, read_list, read_map, read_name};
use super::routing::{parse_router, report_deprecated_key};
use super::tool::{ToolContext, parse_tool};
use super::values::{SetPlace, parse_set, read_setting};

read_map! { FailurePolicy, "failure", optional { mode } }

// `timeout_s` is a legacy form of the timeout of the step.
read_map! { Lifecycle, "lifecycle", optional { deadline = "deadline_s" }, known ["timeout_s"] }

read_map! {
    StepPolicy, "step.spec.policy",
    optional { admit => read_admission, lifecycle, failure },
    unused StepPolicy::KEYS_WITHOUT_EFFECT,
}

read_map! { StepCache, "cache", required { key }, optional { ttl, scope } }

read_map! {
    ConcurrencyLimit, "concurrency",
    required { key }, optional { limit: Spanned::new(1, Span::default()) },
}

/// Step keys of other dialects, and their replacements here.
const UNSUPPORTED_STEP_KEYS: [(&str, &str); 8] = [
    ("case", "next.arcs with 'when'"),
    ("type", "tool: {kind: …}"),
    ("call", "tool: {kind: …}"),
    ("pipe", "a list under 'tool'"),
    ("sink", "a task of the pipeline"),
    ("retry", "spec.policy.rules of the task"),
    ("vars", "set"),
    ("iterator", "loop"),
];

/// Parses a step.
pub(super) fn parse_step(
    sink: &mut DiagnosticSink<'_>,
    node: &YamlNode,
    context: ToolContext<'_>,
) -> Option<Step> {
    let mut reader = MapReader::open(sink, "workflow", "step", node)?;
    let name = reader
        .require_entry(sink, "step")
        .and_then(|entry| read_name(sink, &entry.key, &entry.value));
    for (key, replacement) in UNSUPPORTED_STEP_KEYS {
        if let Some(entry) = reader.take_unsupported(key) {
            let message = format!("'{key}' is not supported on a step; use {replacement}");
            sink.add_finding(Code::NP103, entry.key_span, message);
        }
    }
    let desc = reader.read(sink, "desc");
    let when = reader.read(sink, "when");
    let (spec, legacy_mode) =
        reader.take_entry("spec").map(|entry| parse_step_spec(sink, entry)).unwrap_or_default();
    let mut input: NamedValues = reader.read(sink, "input").unwrap_or_default();
    if let Some(args) = reader.take_entry("args") {
        report_deprecated_key(sink, args.key_span, "args", "input");
        input.add_missing(reader.read(sink, "args").unwrap_or_default());
    }
    let looping =
        reader.take_entry("loop").map(|entry| Loop::read_value(sink, "loop", &entry.value));
    let tool = match (&name, reader.take_entry("tool")) {
        (Some(name), Some(entry)) => parse_tool(sink, entry, name, context),
        (Some(name), None) => {
            let message = format!("step '{}' has no tool", name.value);
            sink.add_with_hint(
                Code::NP102,
                name.span,
                message,
                "for a step that does nothing, write 'tool: {kind: noop}'",
            );
            None
        }
        (None, _) => None,
    };
    let set = parse_set(sink, reader.take_entry("set"), SetPlace::Step);
    let output = reader.read(sink, "output");
    let next = reader.take_entry("next").and_then(|entry| parse_router(sink, entry, legacy_mode));
    let concurrency = read_extension(sink, &mut reader, "concurrency");
    let priority = reader.take_entry("priority").and_then(|entry| parse_priority(sink, entry));
    reader.report_unread(sink);
    // An invalid loop is not the same as no loop: such a step is not part of the model.
    let looping = match looping {
        None => None,
        Some(looping) => Some(looping?),
    };
    Some(Step {
        name: name?,
        desc,
        when,
        spec,
        input,
        looping,
        tool: tool?,
        set,
        output,
        next,
        concurrency,
        priority,
    })
}

/// Reads a key that is an extension to the classic language.
pub(super) fn read_extension<T: ReadValue>(
    sink: &mut DiagnosticSink<'_>,
    reader: &mut MapReader<'_>,
    key: &'static str,
) -> Option<T> {
    let entry = reader.take_entry(key)?;
    sink.note_extension(entry.key_span, key);
    T::read_value(sink, key, &entry.value)
}

fn parse_step_spec(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
) -> (StepSpec, Option<RouterMode>) {
    let Some(mut reader) = MapReader::open(sink, "spec", "step.spec", &entry.value) else {
        return Default::default();
    };
    let timeout = reader.read(sink, "timeout");
    let policy = reader.read(sink, "policy").unwrap_or_default();
    let lifecycle = entry.value.get("policy").and_then(|policy| policy.get("lifecycle"));
    let legacy_timeout = lifecycle
        .and_then(|lifecycle| lifecycle.get("timeout_s"))
        .filter(|node| !node.is_null())
        .and_then(|node| Millis::read_value(sink, "timeout_s", node));
    if let Some(entry) = reader.take_entry("cache") {
        sink.note_extension(entry.key_span, "spec.cache");
    }
    let cache = reader.read(sink, "cache");
    let legacy_mode = reader.take_entry("next_mode").and_then(|entry| {
        report_deprecated_key(sink, entry.key_span, "next_mode", "next: {spec: {mode: …}}");
        RouterMode::read_value(sink, &entry.key, &entry.value)
    });
    if let Some(entry) = reader.take_unsupported("on_error") {
        let hint = "catch a failure with an arc: when: \"{{ event.name == 'call.error' }}\"";
        sink.add_with_hint(Code::NP018, entry.key_span, "'on_error' has no effect", hint);
    }
    reader.report_unread(sink);
    (StepSpec { timeout: timeout.or(legacy_timeout), policy, cache }, legacy_mode)
}

fn read_admission(
    sink: &mut DiagnosticSink<'_>,
    key: &str,
    node: &YamlNode,
) -> Option<Vec<AdmitRule>> {
    let mut reader = MapReader::open(sink, key, "admit", node)?;
    let rules = reader
        .take_entry("rules")
        .and_then(|entry| read_list(sink, &entry.key, &entry.value))
        .unwrap_or_default();
    reader.report_unread(sink);
    Some(rules.iter().filter_map(|rule| parse_admit_rule(sink, rule)).collect())
}

fn parse_admit_rule(sink: &mut DiagnosticSink<'_>, node: &YamlNode) -> Option<AdmitRule> {
    let mut reader = MapReader::open(sink, "rules", "admit rule", node)?;
    let when = reader.take_entry("when");
    let otherwise = reader.take_nullable("else");
    let then = reader.take_entry("then");
    reader.report_unread(sink);
    match (when, otherwise) {
        (Some(when), _) => Some(AdmitRule {
            when: Some(ReadValue::read_value(sink, &when.key, &when.value)?),
            allow: parse_allow(sink, then, node)?,
        }),
        (None, Some(otherwise)) => {
            let mut then = then;
            if !otherwise.value.is_null() {
                let mut reader = MapReader::open(sink, "else", "else", &otherwise.value)?;
                then = reader.take_entry("then").or(then);
                reader.report_unread(sink);
            }
            Some(AdmitRule { when: None, allow: parse_allow(sink, then, node)? })
        }
        (None, None) => {
            sink.add_finding(Code::NP411, node.head_span(), "rule has neither 'when' nor 'else'");
            None
        }
    }
}

fn parse_allow(
    sink: &mut DiagnosticSink<'_>,
    then: Option<&YamlEntry>,
    rule: &YamlNode,
) -> Option<bool> {
    let Some(then) = then else {
        sink.add_finding(Code::NP005, rule.head_span(), "admit rule lacks required key 'then'");
        return None;
    };
    let mut reader = MapReader::open(sink, "then", "then", &then.value)?;
    let allow = reader.require(sink, "allow");
    reader.report_unread(sink);
    allow
}

/// Parses the priority of a step or playbook.
pub(super) fn parse_priority(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
) -> Option<Spanned<ValueOrTemplate<i64>>> {
    sink.note_extension(entry.key_span, "priority");
    let value = read_setting(sink, &entry.value, |sink| {
        read_integer(sink, &entry.key, &entry.value, -100..=100)
    })?;
    Some(Spanned::new(value, entry.value.span))
}
