//! Steps.

use crate::diag::{Code, Sink};
use crate::model::{
    AdmitRule, Concurrency, Failure, FailureMode, Lifecycle, RouterMode, Set, Setting, Step,
    StepCache, StepPolicy, StepSpec,
};
use crate::source::Spanned;
use crate::yaml::{Entry, Node};

use super::looping::looping;
use super::output::output;
use super::reader::{MapReader, bool, count, duration, integer, list, name, text, word};
use super::routing::{LegacyMode, old_key, router};
use super::tool::{ToolContext, tool};
use super::values::{SetPlace, condition, fields, set, setting, text_setting};

/// Keys that other dialects put on a step, and what does their work here.
const UNSUPPORTED: [(&str, &str); 8] = [
    ("case", "next.arcs with 'when'"),
    ("type", "tool: {kind: …}"),
    ("call", "tool: {kind: …}"),
    ("pipe", "a list under 'tool'"),
    ("sink", "a task of the pipeline"),
    ("retry", "spec.policy.rules of the task"),
    ("vars", "set"),
    ("iterator", "loop"),
];

/// One step.
#[expect(
    clippy::too_many_lines,
    reason = "one line a key, in the order of the language"
)]
pub(super) fn step(sink: &mut Sink<'_>, node: &Node, context: ToolContext<'_>) -> Option<Step> {
    let mut reader = MapReader::open(sink, "workflow", "step", node)?;
    let name = reader
        .require(sink, "step")
        .and_then(|entry| name(sink, entry, true));
    for (key, instead) in UNSUPPORTED {
        if let Some(entry) = reader.take_raw(key) {
            let message = format!("'{key}' is not supported on a step; use {instead}");
            sink.add(Code::NP103, entry.key_span, message);
        }
    }
    let desc = reader.take("desc").and_then(|entry| text(sink, entry));
    let when = reader.take("when").and_then(|entry| condition(sink, entry));
    let (spec, legacy_mode) = reader
        .take("spec")
        .map(|entry| step_spec(sink, entry))
        .unwrap_or_default();
    let mut input = reader
        .take("input")
        .map(|entry| fields(sink, entry))
        .unwrap_or_default();
    if let Some(args) = reader.take("args") {
        old_key(sink, args.key_span, "args", "input");
        input.lay_under(fields(sink, args));
    }
    let looping = reader.take("loop").map(|entry| looping(sink, entry));
    let tool = match (&name, reader.take("tool")) {
        (Some(name), Some(entry)) => tool(sink, entry, name, context),
        (Some(name), None) => {
            let message = format!("step '{}' has no tool", name.value);
            sink.hinted(
                Code::NP102,
                name.span,
                message,
                "a step that does nothing has 'tool: {kind: noop}'",
            );
            None
        }
        (None, _) => None,
    };
    let set = reader
        .take("set")
        .map_or_else(Set::default, |entry| set(sink, entry, SetPlace::Step));
    let output = reader.take("output").and_then(|entry| output(sink, entry));
    let next = reader
        .take("next")
        .and_then(|entry| router(sink, entry, legacy_mode));
    let concurrency = reader
        .take("concurrency")
        .and_then(|entry| concurrency(sink, entry));
    let priority = reader
        .take("priority")
        .and_then(|entry| priority(sink, entry));
    reader.finish(sink);
    // A loop that cannot be read is not the same as none: such a step is not part of the model.
    let looping = match looping {
        None => None,
        Some(read) => Some(read?),
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

fn step_spec(sink: &mut Sink<'_>, entry: &Entry) -> (StepSpec, LegacyMode) {
    let Some(mut reader) = MapReader::open(sink, "spec", "step.spec", &entry.value) else {
        return Default::default();
    };
    let timeout = reader
        .take("timeout")
        .and_then(|entry| duration(sink, &entry.value));
    let (policy, lifecycle_timeout) = reader
        .take("policy")
        .map(|entry| step_policy(sink, entry))
        .unwrap_or_default();
    let cache = reader.take("cache").and_then(|entry| cache(sink, entry));
    let legacy_mode = reader.take("next_mode").and_then(|entry| {
        old_key(sink, entry.key_span, "next_mode", "next: {spec: {mode: …}}");
        word::<RouterMode>(sink, entry).map(|mode| Spanned::new(mode, entry.value.span))
    });
    if let Some(entry) = reader.take_raw("on_error") {
        let hint = "catch a failure with an arc: when: \"{{ event.name == 'call.error' }}\"";
        sink.hinted(
            Code::NP018,
            entry.key_span,
            "'on_error' has no effect",
            hint,
        );
    }
    reader.finish(sink);
    (
        StepSpec {
            timeout: timeout.or(lifecycle_timeout),
            policy,
            cache,
        },
        legacy_mode,
    )
}

fn step_policy(
    sink: &mut Sink<'_>,
    entry: &Entry,
) -> (StepPolicy, Option<noetl_types::time::Millis>) {
    let Some(mut reader) = MapReader::open(sink, "policy", "step.spec.policy", &entry.value) else {
        return Default::default();
    };
    let admit = reader
        .take("admit")
        .map(|entry| admission(sink, entry))
        .unwrap_or_default();
    let (lifecycle, timeout) = reader
        .take("lifecycle")
        .map(|entry| lifecycle(sink, entry))
        .unwrap_or_default();
    let failure = reader
        .take("failure")
        .and_then(|entry| failure(sink, entry))
        .unwrap_or_default();
    let emit = reader.take("emit").map(|entry| entry.value.to_json());
    reader.finish(sink);
    (
        StepPolicy {
            admit,
            lifecycle,
            failure: Failure { mode: failure },
            emit,
        },
        timeout,
    )
}

fn lifecycle(sink: &mut Sink<'_>, entry: &Entry) -> (Lifecycle, Option<noetl_types::time::Millis>) {
    let Some(mut reader) = MapReader::open(sink, "lifecycle", "lifecycle", &entry.value) else {
        return Default::default();
    };
    let timeout = reader
        .take("timeout_s")
        .and_then(|entry| duration(sink, &entry.value));
    let deadline = reader
        .take("deadline_s")
        .and_then(|entry| duration(sink, &entry.value));
    reader.finish(sink);
    (Lifecycle { deadline }, timeout)
}

fn failure(sink: &mut Sink<'_>, entry: &Entry) -> Option<FailureMode> {
    let mut reader = MapReader::open(sink, "failure", "failure", &entry.value)?;
    let mode = reader.take("mode").and_then(|entry| word(sink, entry));
    reader.finish(sink);
    mode
}

fn admission(sink: &mut Sink<'_>, entry: &Entry) -> Vec<AdmitRule> {
    let Some(mut reader) = MapReader::open(sink, "admit", "admit", &entry.value) else {
        return Vec::new();
    };
    let rules = reader
        .take("rules")
        .and_then(|entry| list(sink, entry))
        .unwrap_or_default();
    reader.finish(sink);
    rules
        .iter()
        .filter_map(|rule| admit_rule(sink, rule))
        .collect()
}

fn admit_rule(sink: &mut Sink<'_>, node: &Node) -> Option<AdmitRule> {
    let mut reader = MapReader::open(sink, "rules", "admit rule", node)?;
    let when = reader.take("when");
    let otherwise = reader.take_raw("else");
    let then = reader.take("then");
    reader.finish(sink);
    match (when, otherwise) {
        (Some(when), _) => Some(AdmitRule {
            when: Some(condition(sink, when)?),
            allow: allow(sink, then, node)?,
        }),
        (None, Some(otherwise)) => {
            let mut then = then;
            if !otherwise.value.is_null() {
                let mut reader = MapReader::open(sink, "else", "else", &otherwise.value)?;
                then = reader.take("then").or(then);
                reader.finish(sink);
            }
            Some(AdmitRule {
                when: None,
                allow: allow(sink, then, node)?,
            })
        }
        (None, None) => {
            sink.add(
                Code::NP411,
                node.head(),
                "rule has neither 'when' nor 'else'",
            );
            None
        }
    }
}

fn allow(sink: &mut Sink<'_>, then: Option<&Entry>, rule: &Node) -> Option<bool> {
    let Some(then) = then else {
        sink.add(
            Code::NP005,
            rule.head(),
            "admit rule lacks required key 'then'",
        );
        return None;
    };
    let mut reader = MapReader::open(sink, "then", "then", &then.value)?;
    let allow = reader
        .require(sink, "allow")
        .and_then(|entry| bool(sink, entry));
    reader.finish(sink);
    allow
}

fn cache(sink: &mut Sink<'_>, entry: &Entry) -> Option<StepCache> {
    sink.addition(entry.key_span, "spec.cache");
    let mut reader = MapReader::open(sink, "cache", "cache", &entry.value)?;
    let key = reader
        .require(sink, "key")
        .and_then(|entry| text_setting(sink, entry));
    let ttl = reader
        .take("ttl")
        .and_then(|entry| duration(sink, &entry.value));
    let scope = reader
        .take("scope")
        .and_then(|entry| word(sink, entry))
        .unwrap_or_default();
    reader.finish(sink);
    Some(StepCache {
        key: key?,
        ttl,
        scope,
    })
}

fn concurrency(sink: &mut Sink<'_>, entry: &Entry) -> Option<Concurrency> {
    sink.addition(entry.key_span, "concurrency");
    let mut reader = MapReader::open(sink, "concurrency", "concurrency", &entry.value)?;
    let key = reader
        .require(sink, "key")
        .and_then(|entry| text_setting(sink, entry));
    let limit = reader
        .take("limit")
        .and_then(|entry| Some(Spanned::new(count(sink, entry, 1)?, entry.value.span)));
    reader.finish(sink);
    Some(Concurrency {
        key: key?,
        limit: limit.unwrap_or(Spanned::new(1, entry.value.span)),
    })
}

/// A priority, of a step or of the whole playbook.
pub(super) fn priority(sink: &mut Sink<'_>, entry: &Entry) -> Option<Spanned<Setting<i64>>> {
    sink.addition(entry.key_span, "priority");
    let value = setting(sink, &entry.value, |sink, _| {
        integer(sink, entry, -100..=100)
    })?;
    Some(Spanned::new(value, entry.value.span))
}
