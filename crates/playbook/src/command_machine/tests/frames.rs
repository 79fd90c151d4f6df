//! Frames of rows, and pipelines that continue in another command.

use super::*;

/// A command for one frame of a cursor loop that requests `max_rows` rows.
fn frame_command(rest: &str, max_rows: u32) -> CommandSpec {
    let text = format!(
        "    loop: {{ cursor: {{ kind: sqlite, claim: 'take {{{{ __frame_max_rows }}}} of {{{{ workload.n }}}}', auth: db, options: {{ database: x.db }} }}, iterator: row, spec: {{ mode: cursor, frame: {{ max_rows: 3{rest} }} }} }}\n    tool:\n      - {{ name: one, kind: shell, command: 'do {{{{ row.id }}}}', set: {{ ctx.seen: '{{{{ row.id }}}}', kept: '{{{{ _index }}}}' }} }}\n      - {{ name: two, kind: shell, command: '{{{{ kept }}}}/{{{{ _total }}}} {{{{ one }}}}' }}\n"
    );
    let mut context = CommandContext::default();
    context.values.insert("workload".into(), parse_json(r#"{"n":9}"#));
    CommandSpec { frame_max_rows: Some(max_rows), context, ..build_command(&text) }
}

#[test]
fn frame_claims_rows_and_runs_tasks_per_row() {
    let rows = ok_result(r#"{"rows":[{"id":5},{"id":6}]}"#);
    let (lines, outcome) = run_command(
        frame_command("", 3),
        &[rows, ok_result("1"), ok_result("2"), ok_result("3")],
        None,
    );
    insta::assert_snapshot!(lines, @r#"
    call 7:3:claim:1 attempt 1 within 100s config {"command":"take 3 of 9","database":"x.db"} input {}
    call 7:3:one:1:0 attempt 1 within 100s config {"command":"do 5"} input {}
    call 7:3:two:1:0 attempt 1 within 100s config {"command":"0/2 1"} input {}
    call 7:3:one:1:1 attempt 1 within 100s config {"command":"do 6"} input {}
    call 7:3:two:1:1 attempt 1 within 100s config {"command":"1/2 3"} input {}
    done ok
      data null
      set {"ctx.seen":6}
    "#);
    let frame = outcome.frame.unwrap();
    assert_eq!((frame.rows, frame.done, frame.failed), (2, 2, 0));
    assert!(frame.bytes > 10);
    let labels: Vec<&str> = outcome.tasks.iter().map(|task| task.label.as_str()).collect();
    assert_eq!(labels, ["claim", "one", "two"]);
}

#[test]
fn frame_without_rows_runs_no_tasks() {
    for result in [r#"{"rows":[]}"#, "[]", r#"{"__cursor_drained":true}"#] {
        let (_, outcome) = run_command(frame_command("", 3), &[ok_result(result)], None);
        assert_eq!(outcome.error, None);
        assert_eq!(outcome.frame.unwrap().rows, 0, "{result}");
        assert_eq!(outcome.tasks.len(), 1);
    }
}

#[test]
fn invalid_claim_result_fails_frame() {
    for result in [ok_result(r#"{"affected_rows":3}"#), failed_result(TaskErrorKind::DbDeadlock)] {
        let (_, outcome) = run_command(frame_command("", 3), &[result], None);
        let error = outcome.error.unwrap();
        assert_eq!(error.task.as_deref(), Some("claim"));
        assert_eq!(outcome.frame, None);
        assert!(outcome.data.is_null());
    }
}

#[test]
fn first_failed_row_ends_frame() {
    let rows = ok_result(r#"[{"id":5},{"id":6},{"id":7}]"#);
    let results = [rows, ok_result("1"), ok_result("2"), failed_result(TaskErrorKind::Transform)];
    let (_, outcome) = run_command(frame_command("", 3), &results, None);
    let error = outcome.error.unwrap();
    assert_eq!(error.details, Some(parse_json(r#"{"row":1}"#)));
    let frame = outcome.frame.unwrap();
    assert_eq!((frame.rows, frame.done, frame.failed), (3, 1, 1));
    assert_eq!(outcome.data, parse_json(r#"{"failed_task":"one"}"#));
}

#[test]
fn best_effort_continues_with_other_rows() {
    let mut command = frame_command("", 3);
    let playbook = Arc::make_mut(&mut command.playbook);
    playbook.workflow[0].spec.policy.failure.mode = crate::model::FailureMode::BestEffort;
    let rows = ok_result(r#"[{"id":5},{"id":6},{"id":7}]"#);
    let results = [rows, failed_result(TaskErrorKind::Transform), ok_result("1"), ok_result("2")];
    let (_, outcome) = run_command(command, &results, None);
    assert_eq!(outcome.error, None);
    let frame = outcome.frame.unwrap();
    assert_eq!((frame.rows, frame.done, frame.failed), (3, 2, 1));
    assert_eq!(frame.errors.len(), 1);
    assert_eq!(frame.errors[0].row, 0);
}

#[test]
fn process_frame_runs_tasks_once() {
    let mut command = frame_command(", process: frame", 3);
    let playbook = Arc::make_mut(&mut command.playbook);
    let crate::model::Tool::Pipeline(tasks) = &mut playbook.workflow[0].tool else {
        panic!("a pipeline");
    };
    tasks.truncate(1);
    let rows = ok_result(r#"[{"id":5},{"id":6}]"#);
    let (lines, outcome) = run_command(command, &[rows, ok_result("1")], None);
    assert!(lines.contains("call 7:3:one:1 attempt 1"), "{lines}");
    let frame = outcome.frame.unwrap();
    assert_eq!((frame.rows, frame.done), (2, 2));
    assert_eq!(outcome.data, parse_json(r#"{"data":1,"one":1}"#));
}

const SPLIT_PIPELINE: &str = r#"
    tool:
      - { name: a, kind: noop, result: 1, set: { x: "{{ output.n + 1 }}", iter.page: 2 } }
      - { name: nap, kind: sleep, for: "{{ x }}", set: { ctx.slept: "{{ output.ms }}" } }
      - { name: b, kind: noop, result: "{{ a.n + x + iter.page }} {{ _prev.ms }}" }
"#;

/// The continuation contains everything that the next command of a pipeline needs.
#[test]
fn split_pipeline_continues_in_next_command() {
    let MachineAction::Call(_, pending) =
        CommandMachine::new(build_command(SPLIT_PIPELINE)).unwrap().next(MACHINE_INPUT)
    else {
        panic!("a call");
    };
    let MachineAction::Done(first) =
        pending.complete_call(ok_result(r#"{"n":3}"#)).next(MACHINE_INPUT)
    else {
        panic!("the end of the first command");
    };
    let NextStage::Segment(continuation) = first.next_stage else {
        panic!("{:?}", first.next_stage);
    };
    assert_eq!((&*continuation.to, continuation.after.as_deref()), ("nap", Some("a")));
    let state_of = |continuation, data: &Json| ContinuationState {
        continuation,
        results: data.as_map().unwrap().clone(),
    };
    let mut second = build_command(SPLIT_PIPELINE);
    second.context.continuation = Some(state_of(continuation, &first.data));
    let mut suspended =
        SuspendedCommand::new(second.clone(), 1, &noetl_types::JsonMap::new()).unwrap();
    let spec = suspended.render_call(&crate::command_context::EmptyPayloads).unwrap();
    assert_eq!(spec.config.get("for"), Some(&Json::from(4)));
    let outcome = suspended.conclude_wait(
        ok_result(r#"{"ms":4000}"#),
        MACHINE_INPUT,
        &crate::command_context::EmptyPayloads,
    );
    let Ok(WaitOutcome::Finished(nap)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(nap.set.get("ctx.slept"), Some(&Json::from(4000)));
    let NextStage::Segment(continuation) = nap.next_stage else {
        panic!("{:?}", nap.next_stage);
    };
    let mut third = build_command(SPLIT_PIPELINE);
    third.context.continuation = Some(state_of(continuation, &nap.data));
    let MachineAction::Call(spec, pending) =
        CommandMachine::new(third).unwrap().next(MACHINE_INPUT)
    else {
        panic!("a call");
    };
    assert_eq!(spec.config.get("result"), Some(&Json::from("9 4000")));
    let MachineAction::Done(last) =
        pending.complete_call(ok_result(r#"{"n":9}"#)).next(MACHINE_INPUT)
    else {
        panic!("the end");
    };
    assert_eq!(last.next_stage, NextStage::End);
    let labels = parse_json(r#"{"a":{"n":3},"nap":{"ms":4000},"b":{"n":9},"n":9}"#);
    assert_eq!(last.data, labels);
}

/// The worker returns after it has started a task with a callback. A failed start is a failed
/// attempt.
#[test]
fn callback_task_ends_command_after_start() {
    let step = "    tool: { kind: container, image: i, callback: true, set: { ctx.n: \"{{ output.n }}\" } }";
    let run_with = |result: ToolResult| {
        let MachineAction::Call(_, pending) =
            CommandMachine::new(build_command(step)).unwrap().next(MACHINE_INPUT)
        else {
            panic!("a call");
        };
        match pending.complete_call(result).next(MACHINE_INPUT) {
            MachineAction::Done(outcome) => *outcome,
            other => panic!("{other:?}"),
        }
    };
    let started = run_with(ok_result(r#"{"job":1}"#));
    assert_eq!(
        (started.next_stage, started.data),
        (NextStage::Callback, parse_json(r#"{"job":1}"#))
    );
    assert!(started.set.is_empty());
    let failed = run_with(failed_result(TaskErrorKind::Connection));
    assert!(failed.error.is_some() && failed.next_stage == NextStage::End);
}

/// The result of a tool that was called outside of the machine is processed by `set` and policy as
/// usual.
#[test]
fn external_result_counts_as_its_attempt() {
    let step = "    tool:\n      kind: http\n      url: '{{ keychain.api.token }}'\n      input: { n: 4 }\n      set: { ctx.got: '{{ output.data + input.n }}' }\n      spec: { policy: { rules: [ { when: '{{ output.status == \"error\" }}', then: { do: retry, attempts: 3, delay: 2 } } ] } }\n";
    let resume = |attempt, result| {
        let machine = CommandMachine::new(build_command(step)).unwrap();
        machine.resume_with_result(attempt, result).next(MACHINE_INPUT)
    };
    let MachineAction::Wait(delay, _) = resume(2, failed_result(TaskErrorKind::Timeout)) else {
        panic!("not retried");
    };
    assert_eq!(delay, Millis::from_secs(2));
    let MachineAction::Done(exhausted) = resume(3, failed_result(TaskErrorKind::Timeout)) else {
        panic!("retried");
    };
    assert_eq!((exhausted.error.is_some(), exhausted.attempt), (true, 3));
    let MachineAction::Done(done) = resume(1, ok_result("1")) else {
        panic!("not done");
    };
    assert_eq!(done.error, None);
    assert_eq!(done.set.get("ctx.got"), Some(&Json::from(5)));
}
