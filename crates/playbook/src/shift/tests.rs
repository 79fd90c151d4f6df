//! Examples of every action of a policy, and what must hold whatever the tools say.

mod frames;

use std::fmt::Write as _;

use noetl_types::json::parse;
use noetl_types::redact::Hidden;
use noetl_types::{ByteSize, CommandId, ExecutionId, TaskErrorKind, Text};
use proptest::prelude::*;

use super::*;
use crate::carried::{Carried, Labels};
use crate::template::TemplateLimits;
use crate::{CheckOptions, Document, check};

fn json(text: &str) -> Json {
    parse(text.as_bytes()).unwrap()
}

/// A job of the step `s`, given by what follows `step: s`.
fn job(step: &str) -> Job {
    let text = format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: example }}\n\
         executor: {{ spec: {{ policy: {{ defaults: {{ timeout_s: 100 }} }} }} }}\n\
         workload: {{ n: 1 }}\nkeychain: [ {{ name: api, kind: bearer, auth: x }} ]\nworkflow:\n  - step: s\n{step}"
    );
    let checked = check(&text, &CheckOptions::default());
    let Some(Document::Playbook(playbook)) = checked.document else {
        panic!("{:#?}", checked.diagnostics);
    };
    Job {
        playbook: Arc::from(playbook),
        step: "s".into(),
        execution_id: ExecutionId::new(7).unwrap(),
        command_id: Some(CommandId::new(9).unwrap()),
        worker_id: None,
        idempotency_key: "7:3".into(),
        carried: Carried::default(),
        iteration: None,
        frame: None,
        issued_at: Timestamp::parse("2026-01-01T00:00:00Z").unwrap(),
        limits: TemplateLimits::default(),
        max_data: MAX_DATA,
        max_task_runs: MAX_TASK_RUNS,
    }
}

fn ok(data: &str) -> Answer {
    Answer {
        duration: Some(Millis::from_ms(10)),
        ..Answer::ok(json(data))
    }
}

fn fail(kind: TaskErrorKind) -> Answer {
    Answer {
        data: json(r#"{"left":1}"#),
        ..Answer::failed(TaskError::new(kind, "no"))
    }
}

const MOMENT: Moment = Moment {
    now: None,
    dice: 0.25,
};

/// All that happens, one line each; tools give the answers in turn, then `null`.
fn play(job: Job, answers: &[Answer], payload: Option<&str>) -> (String, Finished) {
    let mut answers = answers.iter().cloned();
    let mut lines = String::new();
    let mut shift = Shift::new(job).unwrap();
    loop {
        shift = match shift.next(MOMENT) {
            Do::Call(spec, calling) => {
                let timeout = spec.timeout.map_or("-".to_owned(), |time| time.to_string());
                writeln!(
                    lines,
                    "call {} attempt {} within {timeout} config {} input {}",
                    spec.idempotency_key,
                    spec.attempt,
                    Json::from(spec.config),
                    Json::from(spec.input),
                )
                .unwrap();
                calling.called(answers.next().unwrap_or_default())
            }
            Do::Wait(delay, shift) => {
                writeln!(lines, "wait {delay}").unwrap();
                shift
            }
            Do::Fetch(wanted, fetching) => {
                let digest = wanted
                    .sha256
                    .map_or("-".to_owned(), |digest| digest.to_string());
                writeln!(lines, "fetch {} {}", wanted.uri, &digest[..1]).unwrap();
                let missing = || TaskError::new(TaskErrorKind::NotFound, "gone");
                fetching.fetched(payload.map(json).ok_or_else(missing))
            }
            Do::Unlock(spec, unlocking) => {
                let auth = spec.auth.clone().unwrap_or_default();
                writeln!(
                    lines,
                    "unlock {} {} with {auth}",
                    spec.kind.as_str(),
                    spec.name
                )
                .unwrap();
                unlocking.unlocked(match payload {
                    Some(secret) => Ok(json(secret)),
                    None => Err(TaskError::new(TaskErrorKind::Auth, "locked")),
                })
            }
            Do::Done(finished) => {
                let error = finished.error.as_ref();
                let error = error.map_or("ok".to_owned(), |error| error.to_json().to_string());
                writeln!(
                    lines,
                    "done {error}\n  data {}\n  set {}",
                    finished.data,
                    Json::from(finished.set.clone())
                )
                .unwrap();
                return (lines, *finished);
            }
        };
    }
}

fn told(step: &str, answers: &[Answer]) -> String {
    play(job(step), answers, None).0
}

#[test]
fn a_task_without_policy_goes_well_or_fails() {
    let step = "    input: { a: '{{ 1 + 1 }}' }\n    tool: { kind: shell, command: 'echo {{ a }}', input: { b: 2 } }\n";
    insta::assert_snapshot!(told(step, &[ok("5")]), @r#"
    call 7:3:s:1 attempt 1 within 100s config {"command":"echo 2"} input {"a":2,"b":2}
    done ok
      data 5
      set {}
    "#);
    insta::assert_snapshot!(told(step, &[fail(TaskErrorKind::Transform)]), @r#"
    call 7:3:s:1 attempt 1 within 100s config {"command":"echo 2"} input {"a":2,"b":2}
    done {"attempt":1,"code":null,"details":null,"kind":"transform","message":"no","retryable":false,"status":null,"task":"s"}
      data {"left":1}
      set {}
    "#);
}

const RETRY: &str = "    tool:
      kind: http
      url: 'x?k={{ idempotency_key }}&a={{ _attempt }}'
      spec:
        policy:
          rules:
            - when: '{{ error.retryable }}'
              then: { do: retry, attempts: 3, backoff: exponential, delay: 2, jitter: true, set: { ctx.last: '{{ output.http.status }}' } }
";

#[test]
fn a_retry_keeps_its_key_and_fails_when_spent() {
    let busy = || Answer {
        retry_after: None,
        ..fail(TaskErrorKind::ServerError)
    };
    let asked = Answer {
        retry_after: Some(Millis::from_secs(9)),
        ..busy()
    };
    let (lines, finished) = play(job(RETRY), &[busy(), asked, busy()], None);
    insta::assert_snapshot!(lines, @r#"
    call 7:3:s:1 attempt 1 within 30s config {"url":"x?k=7:3:s:1&a=1"} input {}
    wait 500ms
    call 7:3:s:1 attempt 2 within 30s config {"url":"x?k=7:3:s:1&a=2"} input {}
    wait 9s
    call 7:3:s:1 attempt 3 within 30s config {"url":"x?k=7:3:s:1&a=3"} input {}
    done {"attempt":3,"code":null,"details":null,"kind":"server_error","message":"no","retryable":true,"status":null,"task":"s"}
      data {"left":1}
      set {"ctx.last":null}
    "#);
    let retried: Vec<_> = finished
        .retries
        .iter()
        .map(|retry| (retry.attempt, retry.retry_in.as_ms()))
        .collect();
    assert_eq!(retried, [(1, 500), (2, 9000)]);
    assert_eq!(finished.tasks.len(), 1);
    assert_eq!((finished.tasks[0].attempts, finished.attempt), (3, 3));
}

/// What is told of attempts before the end is not told in the end.
#[test]
fn retries_can_be_taken_on_the_way() {
    let mut shift = Shift::new(job(RETRY)).unwrap();
    let mut taken = Vec::new();
    let moment = Moment {
        dice: 0.5,
        ..Moment::default()
    };
    let finished = loop {
        shift = match shift.next(moment) {
            Do::Call(_, calling) => calling.called(fail(TaskErrorKind::ServerError)),
            Do::Wait(_, mut shift) => {
                if taken.is_empty() {
                    taken = shift.take_retries();
                    assert_eq!(shift.take_retries(), []);
                }
                shift
            }
            Do::Done(finished) => break finished,
            other => panic!("{other:?}"),
        };
    };
    let attempts = |retries: &[RetriedCall]| -> Vec<u32> {
        retries.iter().map(|retry| retry.attempt).collect()
    };
    assert_eq!(
        (attempts(&taken), attempts(&finished.retries)),
        (vec![1], vec![2])
    );
}

/// Code that gives a result prints besides, and people look for that.
#[test]
fn what_code_prints_beside_its_result_is_told() {
    let printed = |stdout: &str, stderr: &str| {
        let py = Json::object([
            ("stdout", Json::from(stdout)),
            ("stderr", Json::from(stderr)),
        ]);
        Answer {
            extras: noetl_types::JsonMap::from([("py".into(), py)]),
            ..Answer::ok(Json::from(7))
        }
    };
    let tell = |answer: Answer, secret: &str| {
        let hidden = Hidden::default();
        hidden.add(&Json::from(secret));
        let shift = Shift::new(job("    tool: { kind: python, code: 'result = 7' }\n")).unwrap();
        let Do::Call(_, calling) = shift.hiding(hidden).next(Moment::default()) else {
            panic!("a call comes first");
        };
        let Do::Done(mut finished) = calling.called(answer).next(Moment::default()) else {
            panic!("it is done");
        };
        let task = finished.tasks.remove(0);
        (task.stdout, task.stderr)
    };
    let (stdout, stderr) = tell(printed("hello sesame-1\n", ""), "sesame-1");
    assert_eq!(
        (stdout.as_deref(), stderr),
        (Some("hello [REDACTED]\n"), None)
    );
    assert_eq!(tell(Answer::ok(Json::from(7)), "sesame-1"), (None, None));
    // A secret at the cut is hidden before it is cut.
    let secret = "s".repeat(600);
    let long = format!(
        "{secret}{}",
        "x".repeat(crate::bounds::MAX_OUTPUT_BYTES - 300)
    );
    let (stdout, _) = tell(printed(&long, "oh"), &secret);
    assert!(!stdout.unwrap().contains("ss"));
}

const PIPELINE: &str = "    tool:
      - a: { kind: noop, result: '{{ page }}', set: { page: '{{ output.n + 1 }}', ctx.seen.last: '{{ page }}' } }
      - b:
          kind: noop
          result: '{{ a.n }}/{{ _prev.n }}/{{ results.a.n }}/{{ page }}/{{ ctx.seen.last }}'
          spec:
            policy:
              rules:
                - when: '{{ page < 3 }}'
                  then: { do: jump, to: a, set: { iter.jumps: '{{ (iter.jumps or 0) + 1 }}' } }
                - when: '{{ output.stop }}'
                  then: { do: break }
                - else: { then: { do: continue } }
      - c: { kind: noop, result: '{{ iter.jumps }}' }
";

#[test]
fn a_jump_begins_a_new_run_with_a_new_key() {
    let answers = [
        ok(r#"{"n":1}"#),
        ok("{}"),
        ok(r#"{"n":2}"#),
        ok("{}"),
        ok("8"),
    ];
    insta::assert_snapshot!(told(PIPELINE, &answers), @r#"
    call 7:3:a:1 attempt 1 within 100s config {"result":null} input {}
    call 7:3:b:1 attempt 1 within 100s config {"result":"1/1/1/2/"} input {}
    call 7:3:a:2 attempt 1 within 100s config {"result":2} input {}
    call 7:3:b:2 attempt 1 within 100s config {"result":"2/2/2/3/2"} input {}
    call 7:3:c:1 attempt 1 within 100s config {"result":1} input {}
    done ok
      data {"a":{"n":2},"b":{},"c":8,"data":8}
      set {"ctx.seen.last":2,"iter.jumps":1,"page":3}
    "#);
}

#[test]
fn a_break_ends_well_and_hidden_labels_are_told() {
    let answers = [ok(r#"{"n":9}"#), ok(r#"{"stop":true,"a":"mine"}"#)];
    let (lines, finished) = play(job(PIPELINE), &answers, None);
    assert!(lines.contains(r#"data {"a":"mine","b":{"a":"mine","stop":true},"stop":true}"#));
    assert_eq!(
        finished.labels,
        Some(json(r#"{"a":{"n":9},"b":{"a":"mine","stop":true}}"#))
    );
}

#[test]
fn a_failed_pipeline_tells_its_labels_and_the_failed_task() {
    let answers = [
        ok(r#"{"n":9}"#),
        fail(TaskErrorKind::Timeout),
        fail(TaskErrorKind::Auth),
    ];
    insta::assert_snapshot!(told(PIPELINE, &answers), @r#"
    call 7:3:a:1 attempt 1 within 100s config {"result":null} input {}
    call 7:3:b:1 attempt 1 within 100s config {"result":"9/9/9/10/"} input {}
    call 7:3:c:1 attempt 1 within 100s config {"result":null} input {}
    done {"attempt":1,"code":null,"details":null,"kind":"auth","message":"no","retryable":false,"status":null,"task":"c"}
      data {"a":{"n":9},"b":{"left":1},"failed_task":"c"}
      set {"ctx.seen.last":null,"page":10}
    "#);
}

#[test]
fn set_of_the_task_comes_before_that_of_the_rule() {
    let step = "    tool:
      kind: noop
      result: 1
      set: { ctx.x: '{{ output }}', ctx.y: '{{ ctx.x }}' }
      spec: { policy: { rules: [ { else: { then: { do: continue, set: { ctx.z: '{{ ctx.x }}' } } } } ] } }
";
    let (_, finished) = play(job(step), &[ok("4")], None);
    assert_eq!(
        Json::from(finished.set),
        json(r#"{"ctx.x":4,"ctx.y":null,"ctx.z":4}"#)
    );
}

#[test]
fn a_template_that_breaks_is_an_attempt_that_failed() {
    let step = "    tool:
      kind: noop
      result: '{{ 1 / 0 }}'
      spec: { policy: { rules: [ { when: \"{{ error.kind == 'template' }}\", then: { do: retry, attempts: 2 } } ] } }
";
    let (_, finished) = play(job(step), &[], None);
    let error = finished.error.unwrap();
    assert_eq!(
        (error.kind, error.attempt),
        (TaskErrorKind::Template, Some(2))
    );
    assert_eq!(finished.retries.len(), 1);
}

fn with_reference(step: &str) -> Job {
    let reference = format!(
        r#"{{"ref":"noetl://r/1","sha256":"{}","extracted":{{"count":2}}}}"#,
        "a".repeat(64)
    );
    let mut job = job(step);
    job.carried = Carried {
        values: json(&format!(r#"{{"load":{reference}}}"#))
            .as_map()
            .unwrap()
            .clone(),
        steps: [("load".into(), Labels::none())].into(),
        references: ["load".into()].into(),
        ..Carried::default()
    };
    job
}

const READS: &str = "    tool:
      - a: { kind: noop, result: '{{ load.count }}' }
      - b: { kind: noop, result: 1, set: { x: '{{ load.rows[0] }}' } }
      - c: { kind: noop, result: '{{ load.rows[1] }}{{ x }}' }
";

#[test]
fn a_payload_is_fetched_in_the_middle_and_once() {
    let payload = r#"{"count":2,"rows":[5,6]}"#;
    let (lines, _) = play(with_reference(READS), &[], Some(payload));
    insta::assert_snapshot!(lines, @r#"
    call 7:3:a:1 attempt 1 within 100s config {"result":2} input {}
    call 7:3:b:1 attempt 1 within 100s config {"result":1} input {}
    fetch noetl://r/1 a
    call 7:3:c:1 attempt 1 within 100s config {"result":"65"} input {}
    done ok
      data {"a":null,"b":null,"c":null,"data":null}
      set {"x":5}
    "#);
}

#[test]
fn a_payload_that_is_gone_fails_the_task_that_reads_it() {
    let (_, finished) = play(with_reference(READS), &[], None);
    let error = finished.error.unwrap();
    assert_eq!(error.kind, TaskErrorKind::NotFound);
    assert_eq!(error.task.as_deref(), Some("b"));
    assert_eq!(
        finished.data.get("failed_task").and_then(Json::as_str),
        Some("b")
    );
}

#[test]
fn code_that_asks_for_it_is_given_every_name() {
    let step = "    loop: { in: [1], iterator: item }
    tool:
      kind: python
      code: 'result = context'
      input: { k: 1 }
";
    let mut job = job(step);
    job.iteration = Some((0, 1));
    job.carried = Carried {
        values: json(r#"{"ctx":{"v":1},"workload":{"n":2,"v":3},"item":"x","path":"p"}"#)
            .as_map()
            .unwrap()
            .clone(),
        everything: true,
        ..Carried::default()
    };
    let Do::Call(spec, _) = Shift::new(job).unwrap().next(MOMENT) else {
        panic!("a call comes first");
    };
    let around = spec.surroundings.unwrap();
    assert_eq!(Json::from(around.variables), json(r#"{"v":1}"#));
    insta::assert_snapshot!(Json::from(around.context), @r#"{"_index":0,"_total":1,"command_id":"9","ctx":{"n":2,"v":1},"execution_id":"7","idempotency_key":"7:3:s:1","item":"x","iter":{"_first":true,"_index":0,"_last":true,"_total":1,"index":0,"item":"x"},"loop":{"first":true,"index":0,"last":true,"length":1},"loop_index":0,"n":2,"path":"p","results":{},"steps":{},"v":1,"workload":{"n":2,"v":3}}"#);
}

#[test]
fn a_secret_that_nobody_resolves_is_a_failure_of_kind_auth() {
    let step = "    tool: { kind: http, url: 'x', headers: { k: '{{ keychain.api.token }}' } }\n";
    let (_, finished) = play(job(step), &[], None);
    assert_eq!(finished.error.unwrap().kind, TaskErrorKind::Auth);
}

#[test]
fn a_secret_is_asked_for_when_it_is_read_and_is_hidden_with_all_that_is_made_from_it() {
    let step = "    tool:
      - a: { kind: http, url: 'x', headers: { k: '{{ keychain.api.token | upper }}' } }
      - b: { kind: http, url: '{{ keychain.api.token }}' }
";
    let hidden = Hidden::default();
    let mut shift = Shift::new(job(step)).unwrap().hiding(hidden.clone());
    let mut asked = 0;
    let mut calls = Vec::new();
    loop {
        shift = match shift.next(MOMENT) {
            Do::Unlock(spec, unlocking) => {
                asked += 1;
                assert_eq!((&*spec.name, spec.auth), ("api", Some(Json::from("x"))));
                unlocking.unlocked(Ok(json(r#"{"token":"sesame-42","type":"bearer"}"#)))
            }
            Do::Call(spec, calling) => {
                calls.push(Json::from(spec.config).to_string());
                calling.called(ok("1"))
            }
            Do::Done(finished) => {
                assert_eq!(finished.error, None);
                break;
            }
            other => panic!("{other:?}"),
        };
    }
    assert_eq!(asked, 1);
    assert!(calls[0].contains("SESAME-42") && calls[1].contains("sesame-42"));
    let secrets = hidden.known();
    for seen in ["sesame-42", "SESAME-42"] {
        assert_eq!(secrets.hidden_in(seen).as_deref(), Some("[REDACTED]"));
    }
    assert_eq!(secrets.hidden_in("a bearer"), None);
}

#[test]
fn a_secret_is_no_name_of_a_credential() {
    for (task, is_refused) in [
        (
            "{ kind: http, url: 'x', auth: '{{ keychain.api.token }}' }",
            true,
        ),
        (
            "{ kind: http, url: 'x', auth: { source: credential, key: '{{ keychain.api.token }}' } }",
            true,
        ),
        (
            "{ kind: transfer, source: { type: http, url: 'x', auth: '{{ keychain.api.token }}' }, target: {} }",
            true,
        ),
        (
            "{ kind: http, url: 'x', auth: '{{ keychain.api }}' }",
            false,
        ),
        (
            "{ kind: http, url: 'x', auth: { type: bearer, token: '{{ keychain.api.token }}' } }",
            false,
        ),
    ] {
        let mut shift = Shift::new(job(&format!("    tool: {task}\n"))).unwrap();
        let error = loop {
            shift = match shift.next(MOMENT) {
                Do::Unlock(_, unlocking) => {
                    unlocking.unlocked(Ok(json(r#"{"token":"sesame-42"}"#)))
                }
                Do::Call(_, calling) => calling.called(ok("1")),
                Do::Done(finished) => break finished.error,
                other => panic!("{other:?}"),
            };
        };
        let kind = error.map(|error| error.kind);
        assert_eq!(kind, is_refused.then_some(TaskErrorKind::Auth), "{task}");
    }
}

const FOREVER: &str = "    tool:
      - a: { kind: noop, result: 1, spec: { policy: { rules: [ { else: { then: { do: jump, to: a } } } ] } } }
";

#[test]
fn a_pipeline_that_never_ends_is_ended() {
    let bounded = Job {
        max_task_runs: 50,
        ..job(FOREVER)
    };
    let (lines, finished) = play(bounded, &[], None);
    assert_eq!(lines.matches("call ").count(), 50);
    assert!(lines.contains("call 7:3:a:50 attempt 1"));
    assert_eq!(finished.error.unwrap().kind, TaskErrorKind::Limit);
    assert_eq!(finished.tasks[0].attempts, 50);
}

#[test]
fn what_is_kept_of_retries_is_bounded() {
    let step = "    tool: { kind: shell, command: x, spec: { policy: { rules: [ { else: { then: { do: retry, attempts: 5000 } } } ] } } }\n";
    let answers = vec![fail(TaskErrorKind::Connection); 5000];
    let (_, finished) = play(job(step), &answers, None);
    assert_eq!(finished.retries.len(), 1000);
    assert_eq!(finished.retries.last().unwrap().attempt, 4999);
}

#[test]
fn data_over_the_bound_fails_the_task() {
    let small = Job {
        max_data: ByteSize::from_kib(1),
        ..job("    tool: { kind: shell, command: x }\n")
    };
    let big = Answer::ok(Json::from("x".repeat(2000)));
    let (_, finished) = play(small, &[big], None);
    assert_eq!(finished.error.unwrap().kind, TaskErrorKind::Limit);
    assert_eq!(finished.data, Json::Null);
}

#[test]
fn the_data_of_all_tasks_together_has_a_bound() {
    let small = Job {
        max_data: ByteSize::from_kib(1),
        ..job("    tool: [ { a: { kind: noop } }, { b: { kind: noop } } ]\n")
    };
    let half = Answer::ok(Json::from("x".repeat(600)));
    let (_, finished) = play(small, &[half.clone(), half], None);
    assert_eq!(finished.error.unwrap().kind, TaskErrorKind::Limit);
    assert_eq!(finished.data, Json::Null);
}

#[test]
fn work_that_is_stopped_tells_what_it_has() {
    let mut shift = Shift::new(job(PIPELINE)).unwrap();
    for _ in 0..2 {
        let Do::Call(spec, calling) = shift.next(MOMENT) else {
            panic!("a call comes first");
        };
        if &*spec.label == "b" {
            let finished = calling.stop(TaskError::new(TaskErrorKind::Timeout, "too long"));
            let error = finished.error.unwrap();
            assert_eq!(error.task, Some(Text::from("b")));
            assert_eq!(finished.data, json(r#"{"a":{"n":1},"failed_task":"b"}"#));
            assert_eq!(
                Json::from(finished.set),
                json(r#"{"ctx.seen.last":null,"page":2}"#)
            );
            return;
        }
        shift = calling.called(ok(r#"{"n":1}"#));
    }
    panic!("the pipeline has a second task");
}

#[test]
fn a_command_for_no_step_is_refused() {
    let nowhere = Job {
        step: "t".into(),
        ..job(FOREVER)
    };
    assert_eq!(Shift::new(nowhere).unwrap_err(), NoSuchStep("t".into()));
}

fn answer() -> impl Strategy<Value = Answer> {
    let data = prop_oneof![
        Just("null"),
        Just("3"),
        Just(r#"{"n":1,"stop":true}"#),
        Just(r#"{"n":4,"a":{}}"#),
    ];
    let kind = prop::option::of(prop_oneof![
        Just(TaskErrorKind::Timeout),
        Just(TaskErrorKind::Transform)
    ]);
    (data, kind).prop_map(|(data, kind)| Answer {
        data: json(data),
        error: kind.map(|kind| TaskError::new(kind, "no")),
        ..Answer::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_same_answers_lead_to_the_same_calls(
        answers in prop::collection::vec(answer(), 0..12),
        which in 0..3_usize,
    ) {
        let step = [RETRY, PIPELINE, READS][which];
        let bounded = || Job { max_task_runs: 30, ..with_reference(step) };
        let payload = Some(r#"{"rows":[1]}"#);
        let (first, again) = (play(bounded(), &answers, payload), play(bounded(), &answers, payload));
        prop_assert_eq!(&first, &again);
        let (lines, finished) = first;
        let calls = lines.matches("call ").count();
        // Attempts whose templates break make no call.
        let attempts: u32 = finished.tasks.iter().map(|task| task.attempts).sum();
        prop_assert!(calls <= attempts as usize && attempts <= 30);
    }
}
