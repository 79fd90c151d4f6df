//! Parses the policy of a task.

use std::sync::Arc;

use crate::diag::{Code, DiagnosticSink, nearest_name};
use crate::model::{
    Condition, JumpTarget, PolicyRule, RetryPolicy, RuleAction, RuleEffect, RuleTest, SetClause,
    TaskPolicy,
};
use crate::source::Spanned;
use crate::template::Template;
use crate::yaml::{YamlEntry, YamlNode};

use super::read::{MapReader, ReadValue, read_list, read_map, read_texts, report_wrong_type};
use super::routing::report_deprecated_key;
use super::values::{SetPlace, parse_set, parse_set_entry};

// The retry settings are keys of `then`, next to its other keys.
read_map! { RetryPolicy, "then", optional { attempts, backoff, delay, max_delay, jitter } }

/// Keys of `then` that belong to one action, and that action.
const ACTION_KEYS: [(&str, &str); 6] = [
    ("attempts", "retry"),
    ("backoff", "retry"),
    ("delay", "retry"),
    ("max_delay", "retry"),
    ("jitter", "retry"),
    ("to", "jump"),
];

impl ReadValue for TaskPolicy {
    fn read_value(sink: &mut DiagnosticSink<'_>, key: &str, node: &YamlNode) -> Option<Self> {
        let mut reader = MapReader::open(sink, key, "policy", node)?;
        for old in ["eval", "expr", "on_error"] {
            if let Some(entry) = reader.take_unsupported(old) {
                let message = format!("'{old}' is not supported; use rules");
                sink.add_finding(Code::NP416, entry.key_span, message);
            }
        }
        let on_unmatched = reader.read(sink, "on_unmatched").unwrap_or_default();
        let rules = reader.take_entry("rules");
        reader.report_unread(sink);
        let items = rules.and_then(|rules| read_list(sink, &rules.key, &rules.value));
        let Some(items) = items.filter(|items| !items.is_empty()) else {
            let hint = "give 'rules' a list of {when, then} and at most one {else} at its end";
            sink.add_with_hint(Code::NP410, node.head_span(), "policy has no rules", hint);
            return None;
        };
        Some(Self { on_unmatched, rules: parse_rules(sink, items) })
    }
}

fn parse_rules(sink: &mut DiagnosticSink<'_>, items: &[YamlNode]) -> Vec<PolicyRule> {
    let mut rules = Vec::with_capacity(items.len());
    let mut has_else = false;
    for item in items {
        if has_else {
            sink.add_finding(Code::NP415, item.head_span(), "rule after 'else' is never reached");
        }
        if let Some(rule) = parse_rule(sink, item) {
            has_else |= rule.test == RuleTest::Else;
            rules.push(rule);
        }
    }
    rules
}

fn parse_rule(sink: &mut DiagnosticSink<'_>, node: &YamlNode) -> Option<PolicyRule> {
    let mut reader = MapReader::open(sink, "rules", "rule", node)?;
    let expr = reader.take_unsupported("expr");
    if let Some(entry) = expr {
        sink.add_finding(Code::NP416, entry.key_span, "'expr' is not supported; use when");
    }
    let when = reader.take_entry("when");
    let otherwise = reader.take_nullable("else");
    let then = reader.take_entry("then").map(|entry| &entry.value);
    reader.report_unread(sink);
    match (when, otherwise) {
        (Some(when), _) => {
            let test = ReadValue::read_value(sink, &when.key, &when.value).map(RuleTest::When);
            let then = parse_optional_then(sink, then);
            Some(PolicyRule { test: test?, then: then? })
        }
        (None, Some(otherwise)) => {
            let then = parse_else(sink, &otherwise.value, then)?;
            Some(PolicyRule { test: RuleTest::Else, then })
        }
        (None, None) => {
            if expr.is_none() {
                let message = "rule has neither 'when' nor 'else'";
                sink.add_finding(Code::NP411, node.head_span(), message);
            }
            None
        }
    }
}

/// Parses `else`, which may contain `{then: {…}}`, the action itself, or nothing if the rule has a
/// `then`.
fn parse_else(
    sink: &mut DiagnosticSink<'_>,
    otherwise: &YamlNode,
    then: Option<&YamlNode>,
) -> Option<RuleEffect> {
    if otherwise.is_null() {
        return parse_optional_then(sink, then);
    }
    if otherwise.get("then").is_some() {
        let mut reader = MapReader::open(sink, "else", "else", otherwise)?;
        let inner = reader.take_entry("then").and_then(|entry| parse_then(sink, &entry.value));
        reader.report_unread(sink);
        return inner;
    }
    parse_then(sink, otherwise)
}

fn parse_optional_then(
    sink: &mut DiagnosticSink<'_>,
    then: Option<&YamlNode>,
) -> Option<RuleEffect> {
    then.map_or_else(|| Some(RuleEffect::default()), |then| parse_then(sink, then))
}

fn parse_then(sink: &mut DiagnosticSink<'_>, node: &YamlNode) -> Option<RuleEffect> {
    let mut reader = MapReader::open(sink, "then", "then", node)?;
    let do_entry = reader.take_entry("do");
    let writes = parse_writes(sink, &mut reader);
    let action = match do_entry.map(|entry| (entry, entry.value.as_text().map(|text| &**text))) {
        None | Some((_, Some("continue"))) => Some(RuleAction::Continue),
        Some((_, Some("break"))) => Some(RuleAction::Break),
        Some((_, Some("fail"))) => Some(RuleAction::Fail),
        Some((_, Some("retry"))) => {
            RetryPolicy::read_keys(sink, &mut reader).map(RuleAction::Retry)
        }
        Some((_, Some("jump"))) => parse_jump(sink, &mut reader, node),
        Some((entry, Some(other))) => {
            let message =
                format!("'{other}' is not an action; use one of {}", RuleAction::WORDS.join(", "));
            sink.add_with_suggestion(
                Code::NP412,
                entry.value.span,
                message,
                nearest_name(other, RuleAction::WORDS),
            );
            // The other keys belong to an unknown action, so they are not reported.
            reader.mark_known(ACTION_KEYS.map(|(key, _)| key));
            None
        }
        Some((entry, None)) => {
            report_wrong_type(sink, "do", "text", &entry.value);
            None
        }
    };
    for (key, owner) in ACTION_KEYS {
        if !reader.has_read(key)
            && let Some(entry) = reader.take_unsupported(key)
        {
            let message = format!("'{key}' has no effect on this action");
            let hint = format!("it is a setting of 'do: {owner}'; remove it or change 'do'");
            sink.add_with_hint(Code::NP018, entry.key_span, message, hint);
        }
    }
    reader.report_unread(sink);
    Some(RuleEffect { action: action?, set: writes })
}

fn parse_writes(sink: &mut DiagnosticSink<'_>, reader: &mut MapReader<'_>) -> SetClause {
    let mut writes = parse_set(sink, reader.take_entry("set"), SetPlace::Task);
    for (old, prefix) in [("set_ctx", "ctx."), ("set_iter", "iter.")] {
        if let Some(entry) = reader.take_entry(old) {
            report_deprecated_key(
                sink,
                entry.key_span,
                old,
                &format!("set: {{{prefix}<name>: …}}"),
            );
            for entry in entry.value.as_map().unwrap_or_default() {
                if let Some(entry) = parse_set_entry(sink, entry, prefix, SetPlace::Task) {
                    writes.insert_entry(entry);
                }
            }
        }
    }
    writes
}

fn parse_jump(
    sink: &mut DiagnosticSink<'_>,
    reader: &mut MapReader<'_>,
    node: &YamlNode,
) -> Option<RuleAction> {
    let Some(to) = reader.take_entry("to") else {
        sink.add_with_hint(
            Code::NP413,
            node.head_span(),
            "jump needs 'to'",
            "name a label of the pipeline, or 'previous'",
        );
        return None;
    };
    let label = to.value.as_text();
    if label.is_none() {
        report_wrong_type(sink, "to", "text", &to.value);
    }
    let label = label?;
    let target = if JumpTarget::PREVIOUS_KEYWORDS.contains(&&**label) {
        JumpTarget::Previous(Spanned::new((), to.value.span))
    } else {
        JumpTarget::Label(Spanned::new(Arc::clone(label), to.value.span))
    };
    Some(RuleAction::Jump(target))
}

/// Parses the legacy `retry` of a task as the first rule.
pub(super) fn parse_legacy_retry(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
) -> Option<PolicyRule> {
    let hint = "write spec.policy.rules: [{when: \"{{ output.error.retryable }}\", then: {do: retry, attempts: 3}}]";
    sink.add_with_hint(Code::NP019, entry.key_span, "'retry' was read as a policy rule", hint);
    let mut reader = MapReader::open(sink, "retry", "retry", &entry.value)?;
    let attempts = reader.read(sink, "max_attempts");
    let kinds = reader
        .take_entry("retry_on")
        .map(|entry| read_texts(sink, &entry.key, &entry.value))
        .unwrap_or_default();
    let retry = RetryPolicy { attempts, ..RetryPolicy::read_keys(sink, &mut reader)? };
    reader.report_unread(sink);
    let kinds: Vec<String> =
        kinds.iter().map(|kind| format!("'{}'", kind.replace('\'', ""))).collect();
    let text = if kinds.is_empty() {
        "{{ output.status == 'error' }}".to_owned()
    } else {
        format!(
            "{{{{ output.status == 'error' and output.error.kind in [{}] }}}}",
            kinds.join(", ")
        )
    };
    let test = Condition::Test(Template::parse_condition(&text).ok()?);
    Some(PolicyRule {
        test: RuleTest::When(Spanned::new(test, entry.value.span)),
        then: RuleEffect { action: RuleAction::Retry(retry), set: SetClause::default() },
    })
}
