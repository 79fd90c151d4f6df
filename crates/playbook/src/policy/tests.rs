use noetl_types::json::parse;
use proptest::prelude::*;

use super::*;
use crate::template::MapEnvironment;
use crate::{CheckOptions, Document, check};

/// Parses `spec.policy` of a task from YAML.
fn parse_policy(yaml: &str) -> TaskPolicy {
    let text = format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: p}}\nworkflow:\n  - step: a\n    \
         tool:\n      kind: http\n      url: http://x\n      spec:\n        policy: {yaml}\n"
    );
    let checked = check(&text, &CheckOptions::default());
    let Some(Document::Playbook(playbook)) = checked.document else {
        panic!("{:?}", checked.diagnostics);
    };
    playbook.workflow[0].tool.tasks()[0].spec.policy.clone().unwrap()
}

fn attempt_outcome(is_ok: bool, number: u32) -> AttemptOutcome {
    AttemptOutcome { is_ok, number, retry_after: None, random_fraction: 0.5 }
}

fn next_action_text(yaml: &str, attempt: AttemptOutcome, variables: &str) -> String {
    let policy = parse_policy(yaml);
    let variables = parse(variables.as_bytes()).unwrap();
    let environment = MapEnvironment::from_values(variables.as_map().unwrap());
    match evaluate_policy(Some(&policy), &attempt, &environment) {
        Ok(decision) => match decision.action {
            NextAction::Retry { delay } => format!("retry in {delay}"),
            NextAction::Jump(JumpTarget::Label(label)) => format!("jump {}", label.value),
            NextAction::Jump(JumpTarget::Previous(_)) => "jump back".to_owned(),
            other => format!("{other:?}"),
        },
        Err(error) => error.to_string(),
    }
}

#[test]
fn default_is_continue_or_fail() {
    let environment = MapEnvironment::new();
    let next =
        |is_ok| evaluate_policy(None, &attempt_outcome(is_ok, 1), &environment).unwrap().action;
    assert_eq!((next(true), next(false)), (NextAction::Continue, NextAction::Fail));
}

#[test]
fn first_matching_rule_applies() {
    let rules = "{rules: [{when: 'n > 2', then: {do: fail}}, {when: 'n > 1', then: {do: break}}, \
                 {else: {then: {do: continue}}}]}";
    assert_eq!(next_action_text(rules, attempt_outcome(true, 1), r#"{"n":3}"#), "Fail");
    assert_eq!(next_action_text(rules, attempt_outcome(true, 1), r#"{"n":2}"#), "Break");
    assert_eq!(next_action_text(rules, attempt_outcome(false, 1), r#"{"n":1}"#), "Continue");
}

#[test]
fn unmatched_outcome_follows_on_unmatched() {
    let rules = "{rules: [{when: false, then: {do: break}}]}";
    assert_eq!(next_action_text(rules, attempt_outcome(true, 1), "{}"), "Continue");
    assert_eq!(next_action_text(rules, attempt_outcome(false, 1), "{}"), "Fail");
    let lenient = "{on_unmatched: continue, rules: [{when: false, then: {do: break}}]}";
    assert_eq!(next_action_text(lenient, attempt_outcome(false, 1), "{}"), "Continue");
}

#[test]
fn attempts_include_the_first() {
    let rules = "{rules: [{when: true, then: {do: retry, attempts: 3, delay: 2}}]}";
    assert_eq!(next_action_text(rules, attempt_outcome(false, 1), "{}"), "retry in 2s");
    assert_eq!(next_action_text(rules, attempt_outcome(false, 2), "{}"), "retry in 2s");
    assert_eq!(next_action_text(rules, attempt_outcome(false, 3), "{}"), "AttemptsExhausted");
    assert_eq!(
        next_action_text(
            "{rules: [{when: true, then: {do: retry}}]}",
            attempt_outcome(false, 3),
            "{}"
        ),
        "AttemptsExhausted"
    );
}

#[test]
fn settings_can_be_templates() {
    let rules = "{rules: [{when: true, then: {do: retry, attempts: '{{ a }}', delay: '{{ d }}'}}]}";
    assert_eq!(
        next_action_text(rules, attempt_outcome(false, 1), r#"{"a":2,"d":"500ms"}"#),
        "retry in 500ms"
    );
    assert_eq!(
        next_action_text(rules, attempt_outcome(false, 2), r#"{"a":2,"d":1}"#),
        "AttemptsExhausted"
    );
    assert_eq!(
        next_action_text(rules, attempt_outcome(false, 1), r#"{"a":2,"d":[]}"#),
        "policy rule 0: `delay` cannot be a list"
    );
}

#[test]
fn condition_error_names_rule_index() {
    let rules = "{rules: [{when: false, then: {do: fail}}, {when: '1 // 0', then: {do: fail}}]}";
    let error = next_action_text(rules, attempt_outcome(false, 1), "{}");
    assert!(error.starts_with("policy rule 1: "), "{error}");
}

#[test]
fn matching_rule_returns_its_set() {
    let policy = parse_policy("{rules: [{when: true, then: {do: retry, set: {iter.page: 2}}}]}");
    let decision =
        evaluate_policy(Some(&policy), &attempt_outcome(true, 1), &MapEnvironment::new()).unwrap();
    assert_eq!(decision.set.unwrap().0.len(), 1);
}

fn delays_in_ms(delay: &RetryDelay) -> Vec<u64> {
    [1, 2, 3, 4].map(|retry| delay.before_retry(retry).as_ms()).to_vec()
}

#[test]
fn delays_grow_by_backoff() {
    let delay = RetryDelay {
        backoff: None,
        initial: Some(Millis::from_ms(100)),
        max: Millis::from_ms(500),
        jitter: None,
        retry_after: None,
    };
    let with = |backoff| RetryDelay { backoff, ..delay };
    assert_eq!(delays_in_ms(&delay), [100, 100, 100, 100]);
    assert_eq!(delays_in_ms(&with(Some(Backoff::None))), [0, 0, 0, 0]);
    assert_eq!(delays_in_ms(&with(Some(Backoff::Fixed))), [100, 100, 100, 100]);
    assert_eq!(delays_in_ms(&with(Some(Backoff::Linear))), [100, 200, 300, 400]);
    assert_eq!(delays_in_ms(&with(Some(Backoff::Exponential))), [100, 200, 400, 500]);
    assert_eq!(delays_in_ms(&RetryDelay { initial: None, ..delay }), [0, 0, 0, 0]);
    let without_initial = RetryDelay { initial: None, ..with(Some(Backoff::Fixed)) };
    assert_eq!(delays_in_ms(&RetryDelay { max: Millis::from_secs(9), ..without_initial })[0], 1000);
}

#[test]
fn retry_after_raises_delay_up_to_max() {
    let delay = RetryDelay {
        backoff: Some(Backoff::Fixed),
        initial: Some(Millis::from_ms(100)),
        max: Millis::from_ms(500),
        jitter: Some(0.25),
        retry_after: None,
    };
    assert_eq!(delay.before_retry(1).as_ms(), 25);
    let with_retry_after = |ms| RetryDelay { retry_after: Some(Millis::from_ms(ms)), ..delay };
    assert_eq!(with_retry_after(300).before_retry(1).as_ms(), 300);
    assert_eq!(with_retry_after(10).before_retry(1).as_ms(), 25);
    assert_eq!(with_retry_after(9000).before_retry(1).as_ms(), 500);
}

proptest! {
    #[test]
    fn delay_never_exceeds_max(
        initial_ms in 0..u64::MAX, max_ms in 0..1_000_000_u64, retry in 0..200_u32, fraction in 0.0..1.0_f64,
        backoff in prop::sample::select(vec![
            Backoff::None, Backoff::Fixed, Backoff::Linear, Backoff::Exponential,
        ]),
    ) {
        let delay = RetryDelay {
            backoff: Some(backoff),
            initial: Some(Millis::from_ms(initial_ms)),
            max: Millis::from_ms(max_ms),
            jitter: Some(fraction),
            retry_after: None,
        };
        let without_jitter = RetryDelay { jitter: None, ..delay };
        prop_assert!(delay.before_retry(retry) <= without_jitter.before_retry(retry));
        prop_assert!(without_jitter.before_retry(retry).as_ms() <= max_ms);
        prop_assert!(without_jitter.before_retry(retry) <= without_jitter.before_retry(retry.saturating_add(1)));
    }
}

#[test]
fn later_write_replaces_nested_writes() {
    let mut writes = JsonMap::new();
    add_write(&mut writes, "ctx.a.b", Json::from(1));
    add_write(&mut writes, "ctx.ab", Json::from(2));
    add_write(&mut writes, "ctx.a", Json::empty_map());
    add_write(&mut writes, "ctx.a.c", Json::from(3));
    let keys: Vec<&str> = writes.keys().map(|key| &**key).collect();
    assert_eq!(keys, ["ctx.a", "ctx.a.c", "ctx.ab"]);
}
