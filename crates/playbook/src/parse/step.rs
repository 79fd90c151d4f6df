//! Parses steps.

use crate::diag::{Code, DiagnosticSink};
use crate::model::{
    AdmitRule, ConcurrencyLimit, FailureMode, FailurePolicy, Lifecycle, RouterMode, SetClause,
    Step, StepCache, StepPolicy, StepSpec, ValueOrTemplate,
};
use crate::source::Spanned;
use crate::yaml::{YamlEntry, YamlNode};

use super::looping::parse_loop;
use super::output::parse_output;
use super::reader::{
    MapReader, read_bool, read_count, read_duration, read_integer, read_keyword, read_list,
    read_name, read_text,
};
use super::routing::{LegacyMode, parse_router, report_deprecated_key};
use super::tool::{ToolContext, parse_tool};
use super::values::{
    SetPlace, parse_named_values, parse_set, parse_setting, parse_text_setting, parse_when,
};

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
    let name = reader.require_entry(sink, "step").and_then(|entry| read_name(sink, entry, true));
    for (key, replacement) in UNSUPPORTED_STEP_KEYS {
        if let Some(entry) = reader.take_nullable(key) {
            let message = format!("'{key}' is not supported on a step; use {replacement}");
            sink.add_finding(Code::NP103, entry.key_span, message);
        }
    }
    let desc = reader.take_entry("desc").and_then(|entry| read_text(sink, entry));
    let when = reader.take_entry("when").and_then(|entry| parse_when(sink, entry));
    let (spec, legacy_mode) =
        reader.take_entry("spec").map(|entry| parse_step_spec(sink, entry)).unwrap_or_default();
    let mut input =
        reader.take_entry("input").map(|entry| parse_named_values(sink, entry)).unwrap_or_default();
    if let Some(args) = reader.take_entry("args") {
        report_deprecated_key(sink, args.key_span, "args", "input");
        input.add_missing(parse_named_values(sink, args));
    }
    let looping = reader.take_entry("loop").map(|entry| parse_loop(sink, entry));
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
    let set = reader
        .take_entry("set")
        .map_or_else(SetClause::default, |entry| parse_set(sink, entry, SetPlace::Step));
    let output = reader.take_entry("output").and_then(|entry| parse_output(sink, entry));
    let next = reader.take_entry("next").and_then(|entry| parse_router(sink, entry, legacy_mode));
    let concurrency =
        reader.take_entry("concurrency").and_then(|entry| parse_step_concurrency(sink, entry));
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

fn parse_step_spec(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> (StepSpec, LegacyMode) {
    let Some(mut reader) = MapReader::open(sink, "spec", "step.spec", &entry.value) else {
        return Default::default();
    };
    let timeout = reader.take_entry("timeout").and_then(|entry| read_duration(sink, &entry.value));
    let (policy, lifecycle_timeout) =
        reader.take_entry("policy").map(|entry| parse_step_policy(sink, entry)).unwrap_or_default();
    let cache = reader.take_entry("cache").and_then(|entry| parse_cache(sink, entry));
    let legacy_mode = reader.take_entry("next_mode").and_then(|entry| {
        report_deprecated_key(sink, entry.key_span, "next_mode", "next: {spec: {mode: …}}");
        read_keyword::<RouterMode>(sink, entry).map(|mode| Spanned::new(mode, entry.value.span))
    });
    if let Some(entry) = reader.take_nullable("on_error") {
        let hint = "catch a failure with an arc: when: \"{{ event.name == 'call.error' }}\"";
        sink.add_with_hint(Code::NP018, entry.key_span, "'on_error' has no effect", hint);
    }
    reader.report_unread(sink);
    (StepSpec { timeout: timeout.or(lifecycle_timeout), policy, cache }, legacy_mode)
}

fn parse_step_policy(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
) -> (StepPolicy, Option<noetl_types::time::Millis>) {
    let Some(mut reader) = MapReader::open(sink, "policy", "step.spec.policy", &entry.value) else {
        return Default::default();
    };
    let admit =
        reader.take_entry("admit").map(|entry| parse_admission(sink, entry)).unwrap_or_default();
    let (lifecycle, timeout) = reader
        .take_entry("lifecycle")
        .map(|entry| parse_lifecycle(sink, entry))
        .unwrap_or_default();
    let failure = reader
        .take_entry("failure")
        .and_then(|entry| parse_failure(sink, entry))
        .unwrap_or_default();
    reader.report_keys_without_effect(sink, &StepPolicy::KEYS_WITHOUT_EFFECT);
    reader.report_unread(sink);
    (StepPolicy { admit, lifecycle, failure: FailurePolicy { mode: failure } }, timeout)
}

fn parse_lifecycle(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
) -> (Lifecycle, Option<noetl_types::time::Millis>) {
    let Some(mut reader) = MapReader::open(sink, "lifecycle", "lifecycle", &entry.value) else {
        return Default::default();
    };
    let timeout =
        reader.take_entry("timeout_s").and_then(|entry| read_duration(sink, &entry.value));
    let deadline =
        reader.take_entry("deadline_s").and_then(|entry| read_duration(sink, &entry.value));
    reader.report_unread(sink);
    (Lifecycle { deadline }, timeout)
}

fn parse_failure(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<FailureMode> {
    let mut reader = MapReader::open(sink, "failure", "failure", &entry.value)?;
    let mode = reader.take_entry("mode").and_then(|entry| read_keyword(sink, entry));
    reader.report_unread(sink);
    mode
}

fn parse_admission(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Vec<AdmitRule> {
    let Some(mut reader) = MapReader::open(sink, "admit", "admit", &entry.value) else {
        return Vec::new();
    };
    let rules =
        reader.take_entry("rules").and_then(|entry| read_list(sink, entry)).unwrap_or_default();
    reader.report_unread(sink);
    rules.iter().filter_map(|rule| parse_admit_rule(sink, rule)).collect()
}

fn parse_admit_rule(sink: &mut DiagnosticSink<'_>, node: &YamlNode) -> Option<AdmitRule> {
    let mut reader = MapReader::open(sink, "rules", "admit rule", node)?;
    let when = reader.take_entry("when");
    let otherwise = reader.take_nullable("else");
    let then = reader.take_entry("then");
    reader.report_unread(sink);
    match (when, otherwise) {
        (Some(when), _) => Some(AdmitRule {
            when: Some(parse_when(sink, when)?),
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
    let allow = reader.require_entry(sink, "allow").and_then(|entry| read_bool(sink, entry));
    reader.report_unread(sink);
    allow
}

fn parse_cache(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<StepCache> {
    sink.note_extension(entry.key_span, "spec.cache");
    let mut reader = MapReader::open(sink, "cache", "cache", &entry.value)?;
    let key = reader.require_entry(sink, "key").and_then(|entry| parse_text_setting(sink, entry));
    let ttl = reader.take_entry("ttl").and_then(|entry| read_duration(sink, &entry.value));
    let scope =
        reader.take_entry("scope").and_then(|entry| read_keyword(sink, entry)).unwrap_or_default();
    reader.report_unread(sink);
    Some(StepCache { key: key?, ttl, scope })
}

fn parse_step_concurrency(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
) -> Option<ConcurrencyLimit> {
    sink.note_extension(entry.key_span, "concurrency");
    let mut reader = MapReader::open(sink, "concurrency", "concurrency", &entry.value)?;
    let key = reader.require_entry(sink, "key").and_then(|entry| parse_text_setting(sink, entry));
    let limit = reader
        .take_entry("limit")
        .and_then(|entry| Some(Spanned::new(read_count(sink, entry, 1)?, entry.value.span)));
    reader.report_unread(sink);
    Some(ConcurrencyLimit { key: key?, limit: limit.unwrap_or(Spanned::new(1, entry.value.span)) })
}

/// Parses the priority of a step or playbook.
pub(super) fn parse_priority(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
) -> Option<Spanned<ValueOrTemplate<i64>>> {
    sink.note_extension(entry.key_span, "priority");
    let value = parse_setting(sink, &entry.value, |sink, _| read_integer(sink, entry, -100..=100))?;
    Some(Spanned::new(value, entry.value.span))
}
