//! Examples of every policy action, and properties for any tool results.

mod frames;

use std::fmt::Write as _;

use noetl_types::json::parse;
use noetl_types::redact::SharedSecretSet;
use noetl_types::{ByteSize, CommandId, ExecutionId, TaskErrorKind, Text};
use proptest::prelude::*;

use super::*;
use crate::command_context::{CommandContext, StepDataLabels};
use crate::template::TemplateLimits;
use crate::{CheckOptions, Document, check};

fn parse_json(text: &str) -> Json {
    parse(text.as_bytes()).unwrap()
}

/// A command of the step `s`. `step` is the YAML after `step: s`.
fn build_command(step: &str) -> CommandSpec {
    let text = format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: example }}\n\
         executor: {{ spec: {{ policy: {{ defaults: {{ timeout_s: 100 }} }} }} }}\n\
         workload: {{ n: 1 }}\nkeychain: [ {{ name: api, kind: bearer, auth: x }} ]\nworkflow:\n  - step: s\n{step}"
    );
    let checked = check(&text, &CheckOptions::default());
    let Some(Document::Playbook(playbook)) = checked.document else {
        panic!("{:#?}", checked.diagnostics);
    };
    CommandSpec {
        playbook: Arc::from(playbook),
        step: "s".into(),
        execution_id: ExecutionId::new(7).unwrap(),
        command_id: Some(CommandId::new(9).unwrap()),
        worker_id: None,
        idempotency_key: "7:3".into(),
        context: CommandContext::default(),
        iteration: None,
        frame_max_rows: None,
        issued_at: Timestamp::parse("2026-01-01T00:00:00Z").unwrap(),
        limits: TemplateLimits::default(),
        budget: None,
        max_data: MAX_TASK_DATA,
        max_task_runs: MAX_TASK_RUNS,
    }
}

fn ok_result(data: &str) -> ToolResult {
    ToolResult { duration: Some(Millis::from_ms(10)), ..ToolResult::ok(parse_json(data)) }
}

fn failed_result(kind: TaskErrorKind) -> ToolResult {
    ToolResult {
        data: parse_json(r#"{"left":1}"#),
        ..ToolResult::failed(TaskError::new(kind, "no"))
    }
}

const MACHINE_INPUT: MachineInput = MachineInput { now: None, random_fraction: 0.25 };

/// Runs a command and describes each action in one line. Tools return the given results in turn,
/// then `null`.
fn run_command(
    command: CommandSpec,
    results: &[ToolResult],
    payload: Option<&str>,
) -> (String, MachineOutcome) {
    let mut results = results.iter().cloned();
    let mut lines = String::new();
    let mut machine = CommandMachine::new(command).unwrap();
    loop {
        machine = match machine.next(MACHINE_INPUT) {
            MachineAction::Call(spec, pending) => {
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
                pending.complete_call(results.next().unwrap_or_default())
            }
            MachineAction::Wait(delay, machine) => {
                writeln!(lines, "wait {delay}").unwrap();
                machine
            }
            MachineAction::Fetch(request, pending) => {
                let digest = request.sha256.map_or("-".to_owned(), |digest| digest.to_string());
                writeln!(lines, "fetch {} {}", request.uri, &digest[..1]).unwrap();
                let missing = || TaskError::new(TaskErrorKind::NotFound, "gone");
                pending.complete_fetch(payload.map(parse_json).ok_or_else(missing))
            }
            MachineAction::ResolveSecret(spec, pending) => {
                let auth = spec.auth.clone().unwrap_or_default();
                writeln!(lines, "resolve {} {} with {auth}", spec.kind.as_str(), spec.name)
                    .unwrap();
                pending.complete_secret(match payload {
                    Some(secret) => Ok(parse_json(secret)),
                    None => Err(TaskError::new(TaskErrorKind::Auth, "locked")),
                })
            }
            MachineAction::Done(outcome) => {
                let error = outcome.error.as_ref();
                let error = error.map_or("ok".to_owned(), |error| error.to_json().to_string());
                writeln!(
                    lines,
                    "done {error}\n  data {}\n  set {}",
                    outcome.data,
                    Json::from(outcome.set.clone())
                )
                .unwrap();
                return (lines, *outcome);
            }
        };
    }
}

fn action_lines(step: &str, results: &[ToolResult]) -> String {
    run_command(build_command(step), results, None).0
}

#[test]
fn task_without_policy_succeeds_or_fails() {
    let step = "    input: { a: '{{ 1 + 1 }}' }\n    tool: { kind: shell, command: 'echo {{ a }}', input: { b: 2 } }\n";
    insta::assert_snapshot!(action_lines(step, &[ok_result("5")]), @r#"
    call 7:3:s:1 attempt 1 within 100s config {"command":"echo 2"} input {"a":2,"b":2}
    done ok
      data 5
      set {}
    "#);
    insta::assert_snapshot!(action_lines(step, &[failed_result(TaskErrorKind::Transform)]), @r#"
    call 7:3:s:1 attempt 1 within 100s config {"command":"echo 2"} input {"a":2,"b":2}
    done {"attempt":1,"code":null,"details":null,"kind":"transform","message":"no","retryable":false,"status":null,"task":"s"}
      data {"left":1}
      set {}
    "#);
}

const RETRY_STEP: &str = "    tool:
      kind: http
      url: 'x?k={{ idempotency_key }}&a={{ _attempt }}'
      spec:
        policy:
          rules:
            - when: '{{ error.retryable }}'
              then: { do: retry, attempts: 3, backoff: exponential, delay: 2, jitter: true, set: { ctx.last: '{{ output.http.status }}' } }
";

#[test]
fn retry_keeps_idempotency_key_until_exhausted() {
    let busy = || ToolResult { retry_after: None, ..failed_result(TaskErrorKind::ServerError) };
    let busy_with_delay = ToolResult { retry_after: Some(Millis::from_secs(9)), ..busy() };
    let (lines, outcome) =
        run_command(build_command(RETRY_STEP), &[busy(), busy_with_delay, busy()], None);
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
    let retried: Vec<_> =
        outcome.retries.iter().map(|retry| (retry.attempt, retry.retry_in_ms.as_ms())).collect();
    assert_eq!(retried, [(1, 500), (2, 9000)]);
    assert_eq!(outcome.tasks.len(), 1);
    assert_eq!((outcome.tasks[0].attempts, outcome.attempt), (3, 3));
}

/// Retries that were taken early are not part of the outcome.
#[test]
fn retries_can_be_taken_early() {
    let mut machine = CommandMachine::new(build_command(RETRY_STEP)).unwrap();
    let mut taken_early = Vec::new();
    let input = MachineInput { random_fraction: 0.5, ..MachineInput::default() };
    let outcome = loop {
        machine = match machine.next(input) {
            MachineAction::Call(_, pending) => {
                pending.complete_call(failed_result(TaskErrorKind::ServerError))
            }
            MachineAction::Wait(_, mut machine) => {
                if taken_early.is_empty() {
                    taken_early = machine.take_retries();
                    assert_eq!(machine.take_retries(), []);
                }
                machine
            }
            MachineAction::Done(outcome) => break outcome,
            other => panic!("{other:?}"),
        };
    };
    let attempts = |retries: &[RetriedTask]| -> Vec<u32> {
        retries.iter().map(|retry| retry.attempt).collect()
    };
    assert_eq!((attempts(&taken_early), attempts(&outcome.retries)), (vec![1], vec![2]));
}

/// Code may print in addition to returning a result, and users look for that output.
#[test]
fn captures_and_redacts_output_of_code() {
    let printed = |stdout: &str, stderr: &str| {
        let py = Json::object([("stdout", Json::from(stdout)), ("stderr", Json::from(stderr))]);
        ToolResult {
            extras: noetl_types::JsonMap::from([("py".into(), py)]),
            ..ToolResult::ok(Json::from(7))
        }
    };
    let captured_output = |result: ToolResult, secret: &str| {
        let secret_set = SharedSecretSet::default();
        secret_set.add(&Json::from(secret));
        let machine =
            CommandMachine::new(build_command("    tool: { kind: python, code: 'result = 7' }\n"))
                .unwrap();
        let MachineAction::Call(_, pending) =
            machine.with_secret_set(secret_set).next(MachineInput::default())
        else {
            panic!("a call comes first");
        };
        let MachineAction::Done(mut outcome) =
            pending.complete_call(result).next(MachineInput::default())
        else {
            panic!("it is done");
        };
        let task = outcome.tasks.remove(0);
        (task.stdout, task.stderr)
    };
    let (stdout, stderr) = captured_output(printed("hello sesame-1\n", ""), "sesame-1");
    assert_eq!((stdout.as_deref(), stderr), (Some("hello [REDACTED]\n"), None));
    assert_eq!(captured_output(ToolResult::ok(Json::from(7)), "sesame-1"), (None, None));
    // Redaction precedes truncation, so a secret at the boundary is hidden.
    let secret = "s".repeat(600);
    let long = format!("{secret}{}", "x".repeat(crate::bounds::MAX_OUTPUT_BYTES - 300));
    let (stdout, _) = captured_output(printed(&long, "oh"), &secret);
    assert!(!stdout.unwrap().contains("ss"));
}

const PIPELINE_STEP: &str = "    tool:
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
fn jump_starts_task_run_with_new_key() {
    let results = [
        ok_result(r#"{"n":1}"#),
        ok_result("{}"),
        ok_result(r#"{"n":2}"#),
        ok_result("{}"),
        ok_result("8"),
    ];
    insta::assert_snapshot!(action_lines(PIPELINE_STEP, &results), @r#"
    call 7:3:a:1 attempt 1 within 100s config {"result":null} input {}
    call 7:3:b:1 attempt 1 within 100s config {"result":"1/1/1/2/"} input {}
    call 7:3:a:2 attempt 1 within 100s config {"result":2} input {}
    call 7:3:b:2 attempt 1 within 100s config {"result":"2/2/2/3/2"} input {}
    call 7:3:c:1 attempt 1 within 100s config {"result":1} input {}
    done ok
      data {"a":{"n":2},"b":{},"c":8,"data":8}
      set {"ctx.seen.last":2,"iter.jumps":1}
    "#);
}

#[test]
fn break_succeeds_and_keeps_shadowed_labels() {
    let results = [ok_result(r#"{"n":9}"#), ok_result(r#"{"stop":true,"a":"mine"}"#)];
    let (lines, outcome) = run_command(build_command(PIPELINE_STEP), &results, None);
    assert!(lines.contains(r#"data {"a":"mine","b":{"a":"mine","stop":true},"stop":true}"#));
    assert_eq!(outcome.labels, Some(parse_json(r#"{"a":{"n":9},"b":{"a":"mine","stop":true}}"#)));
}

#[test]
fn failed_pipeline_has_labels_and_failed_task() {
    let results = [
        ok_result(r#"{"n":9}"#),
        failed_result(TaskErrorKind::Timeout),
        failed_result(TaskErrorKind::Auth),
    ];
    insta::assert_snapshot!(action_lines(PIPELINE_STEP, &results), @r#"
    call 7:3:a:1 attempt 1 within 100s config {"result":null} input {}
    call 7:3:b:1 attempt 1 within 100s config {"result":"9/9/9/10/"} input {}
    call 7:3:c:1 attempt 1 within 100s config {"result":null} input {}
    done {"attempt":1,"code":null,"details":null,"kind":"auth","message":"no","retryable":false,"status":null,"task":"c"}
      data {"a":{"n":9},"b":{"left":1},"failed_task":"c"}
      set {"ctx.seen.last":null}
    "#);
}

#[test]
fn task_set_precedes_rule_set() {
    let step = "    tool:
      kind: noop
      result: 1
      set: { ctx.x: '{{ output }}', ctx.y: '{{ ctx.x }}' }
      spec: { policy: { rules: [ { else: { then: { do: continue, set: { ctx.z: '{{ ctx.x }}' } } } } ] } }
";
    let (_, outcome) = run_command(build_command(step), &[ok_result("4")], None);
    assert_eq!(Json::from(outcome.set), parse_json(r#"{"ctx.x":4,"ctx.y":null,"ctx.z":4}"#));
}

#[test]
fn template_error_is_failed_attempt() {
    let step = "    tool:
      kind: noop
      result: '{{ 1 / 0 }}'
      spec: { policy: { rules: [ { when: \"{{ error.kind == 'template' }}\", then: { do: retry, attempts: 2 } } ] } }
";
    let (_, outcome) = run_command(build_command(step), &[], None);
    let error = outcome.error.unwrap();
    assert_eq!((error.kind, error.attempt), (TaskErrorKind::Template, Some(2)));
    assert_eq!(outcome.retries.len(), 1);
}

fn command_with_reference(step: &str) -> CommandSpec {
    let reference = format!(
        r#"{{"ref":"noetl://r/1","sha256":"{}","extracted":{{"count":2}}}}"#,
        "a".repeat(64)
    );
    let mut command = build_command(step);
    command.context = CommandContext {
        values: parse_json(&format!(r#"{{"load":{reference}}}"#)).as_map().unwrap().clone(),
        steps: [("load".into(), StepDataLabels::unlabeled())].into(),
        references: ["load".into()].into(),
        ..CommandContext::default()
    };
    command
}

const READING_STEP: &str = "    tool:
      - a: { kind: noop, result: '{{ load.count }}' }
      - b: { kind: noop, result: 1, set: { x: '{{ load.rows[0] }}' } }
      - c: { kind: noop, result: '{{ load.rows[1] }}{{ x }}' }
";

#[test]
fn payload_is_fetched_once_when_read() {
    let payload = r#"{"count":2,"rows":[5,6]}"#;
    let (lines, _) = run_command(command_with_reference(READING_STEP), &[], Some(payload));
    insta::assert_snapshot!(lines, @r#"
    call 7:3:a:1 attempt 1 within 100s config {"result":2} input {}
    call 7:3:b:1 attempt 1 within 100s config {"result":1} input {}
    fetch noetl://r/1 a
    call 7:3:c:1 attempt 1 within 100s config {"result":"65"} input {}
    done ok
      data {"a":null,"b":null,"c":null,"data":null}
      set {}
    "#);
}

#[test]
fn missing_payload_fails_reading_task() {
    let (_, outcome) = run_command(command_with_reference(READING_STEP), &[], None);
    let error = outcome.error.unwrap();
    assert_eq!(error.kind, TaskErrorKind::NotFound);
    assert_eq!(error.task.as_deref(), Some("b"));
    assert_eq!(outcome.data.get("failed_task").and_then(Json::as_str), Some("b"));
}

#[test]
fn code_with_context_gets_every_name() {
    let step = "    loop: { in: [1], iterator: item }
    tool:
      kind: python
      code: 'result = context'
      input: { k: 1 }
";
    let mut command = build_command(step);
    command.iteration = Some((0, 1));
    command.context = CommandContext {
        values: parse_json(r#"{"ctx":{"v":1},"workload":{"n":2,"v":3},"item":"x","path":"p"}"#)
            .as_map()
            .unwrap()
            .clone(),
        is_complete: true,
        ..CommandContext::default()
    };
    let MachineAction::Call(spec, _) = CommandMachine::new(command).unwrap().next(MACHINE_INPUT)
    else {
        panic!("a call comes first");
    };
    let code_context = spec.code_context.unwrap();
    assert_eq!(Json::from(code_context.variables), parse_json(r#"{"v":1}"#));
    insta::assert_snapshot!(Json::from(code_context.context), @r#"{"_index":0,"_total":1,"command_id":"9","ctx":{"n":2,"v":1},"execution_id":"7","idempotency_key":"7:3:s:1","item":"x","iter":{"_first":true,"_index":0,"_last":true,"_total":1,"index":0,"item":"x"},"loop":{"first":true,"index":0,"last":true,"length":1},"loop_index":0,"n":2,"path":"p","results":{},"steps":{},"v":1,"workload":{"n":2,"v":3}}"#);
}

#[test]
fn unresolved_secret_is_auth_error() {
    let step = "    tool: { kind: http, url: 'x', headers: { k: '{{ keychain.api.token }}' } }\n";
    let (_, outcome) = run_command(build_command(step), &[], None);
    assert_eq!(outcome.error.unwrap().kind, TaskErrorKind::Auth);
}

#[test]
fn secret_and_derived_values_are_redacted() {
    let step = "    tool:
      - a: { kind: http, url: 'x', headers: { k: '{{ keychain.api.token | upper }}' } }
      - b: { kind: http, url: '{{ keychain.api.token }}' }
";
    let secret_set = SharedSecretSet::default();
    let mut machine =
        CommandMachine::new(build_command(step)).unwrap().with_secret_set(secret_set.clone());
    let mut resolved_count = 0;
    let mut calls = Vec::new();
    loop {
        machine = match machine.next(MACHINE_INPUT) {
            MachineAction::ResolveSecret(spec, pending) => {
                resolved_count += 1;
                assert_eq!((&*spec.name, spec.auth), ("api", Some(Json::from("x"))));
                pending.complete_secret(Ok(parse_json(r#"{"token":"sesame-42","type":"bearer"}"#)))
            }
            MachineAction::Call(spec, pending) => {
                calls.push(Json::from(spec.config).to_string());
                pending.complete_call(ok_result("1"))
            }
            MachineAction::Done(outcome) => {
                assert_eq!(outcome.error, None);
                break;
            }
            other => panic!("{other:?}"),
        };
    }
    assert_eq!(resolved_count, 1);
    assert!(calls[0].contains("SESAME-42") && calls[1].contains("sesame-42"));
    let secrets = secret_set.current_secrets();
    for seen in ["sesame-42", "SESAME-42"] {
        assert_eq!(secrets.redact_text(seen).as_deref(), Some("[REDACTED]"));
    }
    assert_eq!(secrets.redact_text("a bearer"), None);
}

#[test]
fn rejects_secret_as_credential_name() {
    for (task, is_rejected) in [
        ("{ kind: http, url: 'x', auth: '{{ keychain.api.token }}' }", true),
        (
            "{ kind: http, url: 'x', auth: { source: credential, key: '{{ keychain.api.token }}' } }",
            true,
        ),
        (
            "{ kind: transfer, source: { type: http, url: 'x', auth: '{{ keychain.api.token }}' }, target: {} }",
            true,
        ),
        ("{ kind: http, url: 'x', auth: '{{ keychain.api }}' }", false),
        (
            "{ kind: http, url: 'x', auth: { type: bearer, token: '{{ keychain.api.token }}' } }",
            false,
        ),
    ] {
        let mut machine =
            CommandMachine::new(build_command(&format!("    tool: {task}\n"))).unwrap();
        let error = loop {
            machine = match machine.next(MACHINE_INPUT) {
                MachineAction::ResolveSecret(_, pending) => {
                    pending.complete_secret(Ok(parse_json(r#"{"token":"sesame-42"}"#)))
                }
                MachineAction::Call(_, pending) => pending.complete_call(ok_result("1")),
                MachineAction::Done(outcome) => break outcome.error,
                other => panic!("{other:?}"),
            };
        };
        let kind = error.map(|error| error.kind);
        assert_eq!(kind, is_rejected.then_some(TaskErrorKind::Auth), "{task}");
    }
}

const ENDLESS_STEP: &str = "    tool:
      - a: { kind: noop, result: 1, spec: { policy: { rules: [ { else: { then: { do: jump, to: a } } } ] } } }
";

#[test]
fn endless_pipeline_is_stopped() {
    let bounded = CommandSpec { max_task_runs: 50, ..build_command(ENDLESS_STEP) };
    let (lines, outcome) = run_command(bounded, &[], None);
    assert_eq!(lines.matches("call ").count(), 50);
    assert!(lines.contains("call 7:3:a:50 attempt 1"));
    assert_eq!(outcome.error.unwrap().kind, TaskErrorKind::Limit);
    assert_eq!(outcome.tasks[0].attempts, 50);
}

#[test]
fn reported_retries_are_limited() {
    let step = "    tool: { kind: shell, command: x, spec: { policy: { rules: [ { else: { then: { do: retry, attempts: 5000 } } } ] } } }\n";
    let results = vec![failed_result(TaskErrorKind::Connection); 5000];
    let (_, outcome) = run_command(build_command(step), &results, None);
    assert_eq!(outcome.retries.len(), 1000);
    assert_eq!(outcome.retries.last().unwrap().attempt, 4999);
}

#[test]
fn oversized_data_fails_task() {
    let small = CommandSpec {
        max_data: ByteSize::from_kib(1),
        ..build_command("    tool: { kind: shell, command: x }\n")
    };
    let big = ToolResult::ok(Json::from("x".repeat(2000)));
    let (_, outcome) = run_command(small, &[big], None);
    assert_eq!(outcome.error.unwrap().kind, TaskErrorKind::Limit);
    assert_eq!(outcome.data, Json::Null);
}

#[test]
fn total_data_of_tasks_is_limited() {
    let small = CommandSpec {
        max_data: ByteSize::from_kib(1),
        ..build_command("    tool: [ { a: { kind: noop } }, { b: { kind: noop } } ]\n")
    };
    let half = ToolResult::ok(Json::from("x".repeat(600)));
    let (_, outcome) = run_command(small, &[half.clone(), half], None);
    assert_eq!(outcome.error.unwrap().kind, TaskErrorKind::Limit);
    assert_eq!(outcome.data, Json::Null);
}

#[test]
fn stopped_command_reports_data_so_far() {
    let mut machine = CommandMachine::new(build_command(PIPELINE_STEP)).unwrap();
    for _ in 0..2 {
        let MachineAction::Call(spec, pending) = machine.next(MACHINE_INPUT) else {
            panic!("a call comes first");
        };
        if &*spec.label == "b" {
            let outcome =
                pending.stop_with_error(TaskError::new(TaskErrorKind::Timeout, "too long"));
            let error = outcome.error.unwrap();
            assert_eq!(error.task, Some(Text::from("b")));
            assert_eq!(outcome.data, parse_json(r#"{"a":{"n":1},"failed_task":"b"}"#));
            assert_eq!(Json::from(outcome.set), parse_json(r#"{"ctx.seen.last":null}"#));
            return;
        }
        machine = pending.complete_call(ok_result(r#"{"n":1}"#));
    }
    panic!("the pipeline has a second task");
}

#[test]
fn rejects_command_for_unknown_step() {
    let unknown_step = CommandSpec { step: "t".into(), ..build_command(ENDLESS_STEP) };
    assert_eq!(CommandMachine::new(unknown_step).unwrap_err(), NoSuchStep("t".into()));
}

fn arb_tool_result() -> impl Strategy<Value = ToolResult> {
    let data = prop_oneof![
        Just("null"),
        Just("3"),
        Just(r#"{"n":1,"stop":true}"#),
        Just(r#"{"n":4,"a":{}}"#),
    ];
    let kind =
        prop::option::of(prop_oneof![Just(TaskErrorKind::Timeout), Just(TaskErrorKind::Transform)]);
    (data, kind).prop_map(|(data, kind)| ToolResult {
        data: parse_json(data),
        error: kind.map(|kind| TaskError::new(kind, "no")),
        ..ToolResult::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn same_results_lead_to_same_calls(
        results in prop::collection::vec(arb_tool_result(), 0..12),
        which in 0..3_usize,
    ) {
        let step = [RETRY_STEP, PIPELINE_STEP, READING_STEP][which];
        let bounded = || CommandSpec { max_task_runs: 30, ..command_with_reference(step) };
        let payload = Some(r#"{"rows":[1]}"#);
        let (first, second) = (run_command(bounded(), &results, payload), run_command(bounded(), &results, payload));
        prop_assert_eq!(&first, &second);
        let (lines, outcome) = first;
        let calls = lines.matches("call ").count();
        // Attempts whose templates fail make no call.
        let attempts: u32 = outcome.tasks.iter().map(|task| task.attempts).sum();
        prop_assert!(calls <= attempts as usize && attempts <= 30);
    }
}

#[test]
fn large_variable_of_pipeline_stays_on_worker() {
    let rows = format!("{:?}", "x".repeat(300 << 10));
    let step = "    tool:\n      - { name: load, kind: shell, command: x, set: { TARGET: '{{ output }}' } }\n      - { name: count, kind: noop, result: '{{ rows | length }}' }\n";
    let run = |target: &str| {
        let command = build_command(&step.replace("TARGET", target));
        run_command(command, &[ok_result(&rows), ok_result("1")], None)
    };
    let (lines, outcome) = run("rows");
    assert!(lines.contains("\"result\":307200"), "{lines}");
    assert!(outcome.error.is_none() && outcome.set.is_empty(), "{outcome:?}");
    // A variable of the run leaves the worker. Its task fails, and no further task runs.
    let (lines, outcome) = run("ctx.rows");
    assert_eq!(lines.matches("call ").count(), 1, "{lines}");
    let error = outcome.error.expect("too large");
    assert_eq!(error.kind, TaskErrorKind::Limit);
    assert!(error.message.as_str().starts_with("set: with `ctx.rows`"), "{}", error.message);
}
