use noetl_types::json::parse;
use proptest::prelude::*;

use super::*;
use crate::template::MapScope;
use crate::{CheckOptions, Document, check};

/// The policy of a task whose `spec.policy` is the given YAML.
fn policy(yaml: &str) -> TaskPolicy {
    let text = format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: p}}\nworkflow:\n  - step: a\n    \
         tool:\n      kind: http\n      url: http://x\n      spec:\n        policy: {yaml}\n"
    );
    let checked = check(&text, &CheckOptions::default());
    let Some(Document::Playbook(playbook)) = checked.document else {
        panic!("{:?}", checked.diagnostics);
    };
    playbook.workflow[0].tool.tasks()[0]
        .spec
        .policy
        .clone()
        .unwrap()
}

fn attempt(is_ok: bool, number: u32) -> Attempt {
    Attempt {
        is_ok,
        number,
        retry_after: None,
        dice: 0.5,
    }
}

fn next(yaml: &str, attempt: Attempt, scope: &str) -> String {
    let policy = policy(yaml);
    let names = parse(scope.as_bytes()).unwrap();
    let scope = MapScope::of(names.as_map().unwrap());
    match rule(Some(&policy), &attempt, &scope) {
        Ok(ruling) => match ruling.next {
            Next::Retry { delay } => format!("retry in {delay}"),
            Next::Jump(JumpTarget::Label(label)) => format!("jump {}", label.value),
            Next::Jump(JumpTarget::Previous(_)) => "jump back".to_owned(),
            other => format!("{other:?}"),
        },
        Err(error) => error.to_string(),
    }
}

#[test]
fn without_rules() {
    let scope = MapScope::new();
    let next = |is_ok| rule(None, &attempt(is_ok, 1), &scope).unwrap().next;
    assert_eq!((next(true), next(false)), (Next::Continue, Next::Fail));
}

#[test]
fn the_first_rule_that_matches_decides() {
    let rules = "{rules: [{when: 'n > 2', then: {do: fail}}, {when: 'n > 1', then: {do: break}}, \
                 {else: {then: {do: continue}}}]}";
    assert_eq!(next(rules, attempt(true, 1), r#"{"n":3}"#), "Fail");
    assert_eq!(next(rules, attempt(true, 1), r#"{"n":2}"#), "Break");
    assert_eq!(next(rules, attempt(false, 1), r#"{"n":1}"#), "Continue");
}

#[test]
fn what_no_rule_matches() {
    let rules = "{rules: [{when: false, then: {do: break}}]}";
    assert_eq!(next(rules, attempt(true, 1), "{}"), "Continue");
    assert_eq!(next(rules, attempt(false, 1), "{}"), "Fail");
    let lenient = "{on_unmatched: continue, rules: [{when: false, then: {do: break}}]}";
    assert_eq!(next(lenient, attempt(false, 1), "{}"), "Continue");
}

#[test]
fn retries_are_counted_with_the_first_attempt() {
    let rules = "{rules: [{when: true, then: {do: retry, attempts: 3, delay: 2}}]}";
    assert_eq!(next(rules, attempt(false, 1), "{}"), "retry in 2s");
    assert_eq!(next(rules, attempt(false, 2), "{}"), "retry in 2s");
    assert_eq!(next(rules, attempt(false, 3), "{}"), "Spent");
    assert_eq!(
        next(
            "{rules: [{when: true, then: {do: retry}}]}",
            attempt(false, 3),
            "{}"
        ),
        "Spent"
    );
}

#[test]
fn settings_may_be_templates() {
    let rules = "{rules: [{when: true, then: {do: retry, attempts: '{{ a }}', delay: '{{ d }}'}}]}";
    assert_eq!(
        next(rules, attempt(false, 1), r#"{"a":2,"d":"500ms"}"#),
        "retry in 500ms"
    );
    assert_eq!(next(rules, attempt(false, 2), r#"{"a":2,"d":1}"#), "Spent");
    assert_eq!(
        next(rules, attempt(false, 1), r#"{"a":2,"d":[]}"#),
        "policy rule 0: a list is no value for `delay`"
    );
}

#[test]
fn a_broken_condition_names_its_rule() {
    let rules = "{rules: [{when: false, then: {do: fail}}, {when: '1 // 0', then: {do: fail}}]}";
    let error = next(rules, attempt(false, 1), "{}");
    assert!(error.starts_with("policy rule 1: "), "{error}");
}

#[test]
fn a_chosen_rule_writes() {
    let policy = policy("{rules: [{when: true, then: {do: retry, set: {iter.page: 2}}}]}");
    let ruling = rule(Some(&policy), &attempt(true, 1), &MapScope::new()).unwrap();
    assert_eq!(ruling.set.unwrap().0.len(), 1);
}

fn delays(delay: &Delay) -> Vec<u64> {
    [1, 2, 3, 4]
        .map(|retry| delay.before(retry).as_ms())
        .to_vec()
}

#[test]
fn delays_grow_as_told() {
    let delay = Delay {
        backoff: None,
        first: Some(Millis::from_ms(100)),
        longest: Millis::from_ms(500),
        jitter: None,
        asked_for: None,
    };
    let with = |backoff| Delay { backoff, ..delay };
    assert_eq!(delays(&delay), [100, 100, 100, 100]);
    assert_eq!(delays(&with(Some(Backoff::None))), [0, 0, 0, 0]);
    assert_eq!(delays(&with(Some(Backoff::Fixed))), [100, 100, 100, 100]);
    assert_eq!(delays(&with(Some(Backoff::Linear))), [100, 200, 300, 400]);
    assert_eq!(
        delays(&with(Some(Backoff::Exponential))),
        [100, 200, 400, 500]
    );
    assert_eq!(
        delays(&Delay {
            first: None,
            ..delay
        }),
        [0, 0, 0, 0]
    );
    let unsaid = Delay {
        first: None,
        ..with(Some(Backoff::Fixed))
    };
    assert_eq!(
        delays(&Delay {
            longest: Millis::from_secs(9),
            ..unsaid
        })[0],
        1000
    );
}

#[test]
fn the_other_side_raises_a_delay_up_to_the_bound() {
    let delay = Delay {
        backoff: Some(Backoff::Fixed),
        first: Some(Millis::from_ms(100)),
        longest: Millis::from_ms(500),
        jitter: Some(0.25),
        asked_for: None,
    };
    assert_eq!(delay.before(1).as_ms(), 25);
    let asked = |ms| Delay {
        asked_for: Some(Millis::from_ms(ms)),
        ..delay
    };
    assert_eq!(asked(300).before(1).as_ms(), 300);
    assert_eq!(asked(10).before(1).as_ms(), 25);
    assert_eq!(asked(9000).before(1).as_ms(), 500);
}

proptest! {
    #[test]
    fn no_delay_passes_its_bound(
        first in 0..u64::MAX, longest in 0..1_000_000_u64, retry in 0..200_u32, dice in 0.0..1.0_f64,
        backoff in prop::sample::select(vec![
            Backoff::None, Backoff::Fixed, Backoff::Linear, Backoff::Exponential,
        ]),
    ) {
        let delay = Delay {
            backoff: Some(backoff),
            first: Some(Millis::from_ms(first)),
            longest: Millis::from_ms(longest),
            jitter: Some(dice),
            asked_for: None,
        };
        let whole = Delay { jitter: None, ..delay };
        prop_assert!(delay.before(retry) <= whole.before(retry));
        prop_assert!(whole.before(retry).as_ms() <= longest);
        prop_assert!(whole.before(retry) <= whole.before(retry.saturating_add(1)));
    }
}

#[test]
fn a_later_write_hides_what_lies_below_it() {
    let mut writes = JsonMap::new();
    add_write(&mut writes, "ctx.a.b", Json::from(1));
    add_write(&mut writes, "ctx.ab", Json::from(2));
    add_write(&mut writes, "ctx.a", Json::empty_map());
    add_write(&mut writes, "ctx.a.c", Json::from(3));
    let keys: Vec<&str> = writes.keys().map(|key| &**key).collect();
    assert_eq!(keys, ["ctx.a", "ctx.a.c", "ctx.ab"]);
}
