//! Policy of a task.

use std::sync::Arc;

use crate::diag::{Code, Sink, near};
use crate::model::{
    Action, Condition, JumpTarget, OnUnmatched, Retry, Rule, RuleTest, Set, TaskPolicy, Then,
};
use crate::source::Spanned;
use crate::template::Template;
use crate::yaml::{Entry, Node};

use super::reader::{MapReader, bool, count, duration, list, texts, word, wrong_type};
use super::routing::old_key;
use super::values::{SetPlace, condition, set, set_entry, setting};

/// A task policy.
pub(super) fn task_policy(sink: &mut Sink<'_>, entry: &Entry) -> Option<TaskPolicy> {
    let mut reader = MapReader::open(sink, "policy", "policy", &entry.value)?;
    for (old, new) in [("eval", "rules"), ("expr", "rules"), ("on_error", "rules")] {
        if let Some(entry) = reader.take_raw(old) {
            sink.add(
                Code::NP416,
                entry.key_span,
                format!("'{old}' is not supported; use {new}"),
            );
        }
    }
    let on_unmatched = reader
        .take("on_unmatched")
        .and_then(|entry| word::<OnUnmatched>(sink, entry));
    let rules = reader.take("rules");
    reader.finish(sink);
    let items = rules
        .and_then(|rules| list(sink, rules))
        .unwrap_or_default();
    if items.is_empty() {
        let hint = "give 'rules' a list of {when, then} and at most one {else} at its end";
        sink.hinted(Code::NP410, entry.value.head(), "policy has no rules", hint);
        return None;
    }
    let rules = rule_list(sink, items);
    Some(TaskPolicy {
        on_unmatched: on_unmatched.unwrap_or_default(),
        rules,
    })
}

fn rule_list(sink: &mut Sink<'_>, items: &[Node]) -> Vec<Rule> {
    let mut rules = Vec::with_capacity(items.len());
    let mut closed = false;
    for item in items {
        if closed {
            sink.add(
                Code::NP415,
                item.head(),
                "rule after 'else' is never reached",
            );
        }
        if let Some(rule) = rule(sink, item) {
            closed |= rule.test == RuleTest::Else;
            rules.push(rule);
        }
    }
    rules
}

fn rule(sink: &mut Sink<'_>, node: &Node) -> Option<Rule> {
    let mut reader = MapReader::open(sink, "rules", "rule", node)?;
    let expr = reader.take_raw("expr");
    if let Some(entry) = expr {
        sink.add(
            Code::NP416,
            entry.key_span,
            "'expr' is not supported; use when",
        );
    }
    let when = reader.take("when");
    let otherwise = reader.take_raw("else");
    let beside = reader.take("then");
    reader.finish(sink);
    match (when, otherwise) {
        (Some(when), _) => {
            let test = condition(sink, when).map(RuleTest::When);
            let then =
                beside.map_or_else(|| Some(Then::default()), |entry| then(sink, &entry.value));
            Some(Rule {
                test: test?,
                then: then?,
            })
        }
        (None, Some(otherwise)) => {
            let then = else_then(sink, otherwise, beside)?;
            Some(Rule {
                test: RuleTest::Else,
                then,
            })
        }
        (None, None) => {
            if expr.is_none() {
                sink.add(
                    Code::NP411,
                    node.head(),
                    "rule has neither 'when' nor 'else'",
                );
            }
            None
        }
    }
}

/// `else` may hold `{then: {…}}`, the action itself, or nothing beside a `then`.
fn else_then(sink: &mut Sink<'_>, otherwise: &Entry, beside: Option<&Entry>) -> Option<Then> {
    if otherwise.value.is_null() {
        return beside.map_or_else(|| Some(Then::default()), |entry| then(sink, &entry.value));
    }
    if otherwise.value.get("then").is_some() {
        let mut reader = MapReader::open(sink, "else", "else", &otherwise.value)?;
        let inner = reader
            .take("then")
            .and_then(|entry| then(sink, &entry.value));
        reader.finish(sink);
        return inner;
    }
    then(sink, &otherwise.value)
}

fn then(sink: &mut Sink<'_>, node: &Node) -> Option<Then> {
    let mut reader = MapReader::open(sink, "then", "then", node)?;
    let word = reader.take("do");
    let writes = writes(sink, &mut reader);
    let action = match word.map(|entry| (entry, entry.value.as_text().map(|text| &**text))) {
        None | Some((_, Some("continue"))) => Some(Action::Continue),
        Some((_, Some("break"))) => Some(Action::Break),
        Some((_, Some("fail"))) => Some(Action::Fail),
        Some((_, Some("retry"))) => Some(Action::Retry(retry(sink, &mut reader))),
        Some((_, Some("jump"))) => jump(sink, &mut reader, node),
        Some((entry, Some(other))) => {
            let message = format!(
                "'{other}' is not an action; there are {}",
                Action::WORDS.join(", ")
            );
            sink.misspelt(
                Code::NP412,
                entry.value.span,
                message,
                near(other, Action::WORDS),
            );
            // The other keys belong to some action; which one is not known.
            reader.know(["attempts", "backoff", "delay", "max_delay", "jitter", "to"]);
            None
        }
        Some((entry, None)) => {
            wrong_type(sink, "do", "text", &entry.value);
            None
        }
    };
    reader.finish(sink);
    Some(Then {
        action: action?,
        set: writes,
    })
}

fn writes(sink: &mut Sink<'_>, reader: &mut MapReader<'_>) -> Set {
    let mut writes = reader
        .take("set")
        .map_or_else(Set::default, |entry| set(sink, entry, SetPlace::Task));
    for (old, scope) in [("set_ctx", "ctx."), ("set_iter", "iter.")] {
        if let Some(entry) = reader.take(old) {
            old_key(
                sink,
                entry.key_span,
                old,
                &format!("set: {{{scope}<name>: …}}"),
            );
            for entry in entry.value.as_map().unwrap_or_default() {
                if let Some(entry) = set_entry(sink, entry, scope, SetPlace::Task) {
                    writes.put(entry);
                }
            }
        }
    }
    writes
}

fn retry(sink: &mut Sink<'_>, reader: &mut MapReader<'_>) -> Retry {
    Retry {
        attempts: reader.take("attempts").and_then(|entry| {
            let attempts = setting(sink, &entry.value, |sink, _| count(sink, entry, 1))?;
            Some(Spanned::new(attempts, entry.value.span))
        }),
        backoff: reader.take("backoff").and_then(|entry| word(sink, entry)),
        delay: reader
            .take("delay")
            .and_then(|entry| setting(sink, &entry.value, duration)),
        max_delay: reader
            .take("max_delay")
            .and_then(|entry| setting(sink, &entry.value, duration)),
        jitter: reader
            .take("jitter")
            .and_then(|entry| bool(sink, entry))
            .unwrap_or_default(),
    }
}

fn jump(sink: &mut Sink<'_>, reader: &mut MapReader<'_>, node: &Node) -> Option<Action> {
    let Some(to) = reader.take("to") else {
        sink.hinted(
            Code::NP413,
            node.head(),
            "jump needs 'to'",
            "name a label of the pipeline, or 'previous'",
        );
        return None;
    };
    let label = to.value.as_text();
    if label.is_none() {
        wrong_type(sink, "to", "text", &to.value);
    }
    let label = label?;
    let target = if JumpTarget::PREVIOUS.contains(&&**label) {
        JumpTarget::Previous(Spanned::new((), to.value.span))
    } else {
        JumpTarget::Label(Spanned::new(Arc::clone(label), to.value.span))
    };
    Some(Action::Jump(target))
}

/// Reads the old `retry` of a task as a leading rule.
pub(super) fn legacy_retry(sink: &mut Sink<'_>, entry: &Entry) -> Option<Rule> {
    let hint = "write spec.policy.rules: [{when: \"{{ output.error.retryable }}\", then: {do: retry, attempts: 3}}]";
    sink.hinted(
        Code::NP019,
        entry.key_span,
        "'retry' was read as a policy rule",
        hint,
    );
    let mut reader = MapReader::open(sink, "retry", "retry", &entry.value)?;
    let attempts = reader.take("max_attempts").and_then(|entry| {
        let attempts = setting(sink, &entry.value, |sink, _| count(sink, entry, 1))?;
        Some(Spanned::new(attempts, entry.value.span))
    });
    let kinds = reader
        .take("retry_on")
        .map(|entry| texts(sink, entry))
        .unwrap_or_default();
    let retry = Retry {
        attempts,
        ..retry(sink, &mut reader)
    };
    reader.finish(sink);
    let kinds: Vec<String> = kinds
        .iter()
        .map(|kind| format!("'{}'", kind.replace('\'', "")))
        .collect();
    let text = if kinds.is_empty() {
        "{{ output.status == 'error' }}".to_owned()
    } else {
        format!(
            "{{{{ output.status == 'error' and output.error.kind in [{}] }}}}",
            kinds.join(", ")
        )
    };
    let test = Condition::Test(Template::condition(&text).ok()?);
    Some(Rule {
        test: RuleTest::When(Spanned::new(test, entry.value.span)),
        then: Then {
            action: Action::Retry(retry),
            set: Set::default(),
        },
    })
}

impl Default for Then {
    fn default() -> Self {
        Self {
            action: Action::Continue,
            set: Set::default(),
        }
    }
}
