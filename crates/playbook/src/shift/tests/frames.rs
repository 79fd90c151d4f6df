//! Frames of rows, and pipelines that are handed on.

use super::*;

/// A frame of a loop over a cursor, asking for so many rows.
fn framed(rest: &str, max_rows: u32) -> Job {
    let text = format!(
        "    loop: {{ cursor: {{ kind: sqlite, claim: 'take {{{{ __frame_max_rows }}}} of {{{{ workload.n }}}}', auth: db, options: {{ database: x.db }} }}, iterator: row, spec: {{ mode: cursor, frame: {{ max_rows: 3{rest} }} }} }}\n    tool:\n      - {{ name: one, kind: shell, command: 'do {{{{ row.id }}}}', set: {{ ctx.seen: '{{{{ row.id }}}}', kept: '{{{{ _index }}}}' }} }}\n      - {{ name: two, kind: shell, command: '{{{{ kept }}}}/{{{{ _total }}}} {{{{ one }}}}' }}\n"
    );
    let mut carried = Carried::default();
    carried.values.insert("workload".into(), json(r#"{"n":9}"#));
    Job {
        frame: Some(max_rows),
        carried,
        ..job(&text)
    }
}

#[test]
fn a_frame_claims_rows_and_runs_its_tasks_for_each() {
    let rows = ok(r#"{"rows":[{"id":5},{"id":6}]}"#);
    let (lines, finished) = play(framed("", 3), &[rows, ok("1"), ok("2"), ok("3")], None);
    insta::assert_snapshot!(lines, @r#"
    call 7:3:claim:1 attempt 1 within 100s config {"command":"take 3 of 9","database":"x.db"} input {}
    call 7:3:one:1:0 attempt 1 within 100s config {"command":"do 5"} input {}
    call 7:3:two:1:0 attempt 1 within 100s config {"command":"0/2 1"} input {}
    call 7:3:one:1:1 attempt 1 within 100s config {"command":"do 6"} input {}
    call 7:3:two:1:1 attempt 1 within 100s config {"command":"1/2 3"} input {}
    done ok
      data null
      set {"ctx.seen":6,"kept":1}
    "#);
    let frame = finished.frame.unwrap();
    assert_eq!((frame.rows, frame.done, frame.failed), (2, 2, 0));
    assert!(frame.bytes > 10);
    let labels: Vec<&str> = finished
        .tasks
        .iter()
        .map(|task| task.label.as_str())
        .collect();
    assert_eq!(labels, ["claim", "one", "two"]);
}

#[test]
fn a_frame_without_rows_runs_nothing() {
    for answer in [r#"{"rows":[]}"#, "[]", r#"{"__cursor_drained":true}"#] {
        let (_, finished) = play(framed("", 3), &[ok(answer)], None);
        assert_eq!(finished.error, None);
        assert_eq!(finished.frame.unwrap().rows, 0, "{answer}");
        assert_eq!(finished.tasks.len(), 1);
    }
}

#[test]
fn a_claim_that_yields_no_rows_fails_the_frame() {
    for answer in [
        ok(r#"{"affected_rows":3}"#),
        fail(TaskErrorKind::DbDeadlock),
    ] {
        let (_, finished) = play(framed("", 3), &[answer], None);
        let error = finished.error.unwrap();
        assert_eq!(error.task.as_deref(), Some("claim"));
        assert_eq!(finished.frame, None);
        assert!(finished.data.is_null());
    }
}

#[test]
fn the_first_row_that_fails_ends_the_frame() {
    let rows = ok(r#"[{"id":5},{"id":6},{"id":7}]"#);
    let answers = [rows, ok("1"), ok("2"), fail(TaskErrorKind::Transform)];
    let (_, finished) = play(framed("", 3), &answers, None);
    let error = finished.error.unwrap();
    assert_eq!(error.details, Some(json(r#"{"row":1}"#)));
    let frame = finished.frame.unwrap();
    assert_eq!((frame.rows, frame.done, frame.failed), (3, 1, 1));
    assert_eq!(finished.data, json(r#"{"failed_task":"one"}"#));
}

#[test]
fn in_best_effort_the_other_rows_run_on() {
    let mut job = framed("", 3);
    let playbook = Arc::make_mut(&mut job.playbook);
    playbook.workflow[0].spec.policy.failure.mode = crate::model::FailureMode::BestEffort;
    let rows = ok(r#"[{"id":5},{"id":6},{"id":7}]"#);
    let answers = [rows, fail(TaskErrorKind::Transform), ok("1"), ok("2")];
    let (_, finished) = play(job, &answers, None);
    assert_eq!(finished.error, None);
    let frame = finished.frame.unwrap();
    assert_eq!((frame.rows, frame.done, frame.failed), (3, 2, 1));
    assert_eq!(frame.errors.len(), 1);
    assert_eq!(frame.errors[0].row, 0);
}

#[test]
fn a_frame_may_be_worked_on_as_a_whole() {
    let mut job = framed(", process: frame", 3);
    let playbook = Arc::make_mut(&mut job.playbook);
    let crate::model::Tool::Pipeline(tasks) = &mut playbook.workflow[0].tool else {
        panic!("a pipeline");
    };
    tasks.truncate(1);
    let rows = ok(r#"[{"id":5},{"id":6}]"#);
    let (lines, finished) = play(job, &[rows, ok("1")], None);
    assert!(lines.contains("call 7:3:one:1 attempt 1"), "{lines}");
    let frame = finished.frame.unwrap();
    assert_eq!((frame.rows, frame.done), (2, 2));
    assert_eq!(finished.data, json(r#"{"data":1,"one":1}"#));
}

const SPLIT: &str = r#"
    tool:
      - { name: a, kind: noop, result: 1, set: { x: "{{ output.n + 1 }}", iter.page: 2 } }
      - { name: nap, kind: sleep, for: "{{ x }}", set: { ctx.slept: "{{ output.ms }}" } }
      - { name: b, kind: noop, result: "{{ a.n + x + iter.page }} {{ _prev.ms }}" }
"#;

/// What the commands of a pipeline hand on is all that the next one needs.
#[test]
fn a_split_pipeline_is_handed_on() {
    let Do::Call(_, calling) = Shift::new(job(SPLIT)).unwrap().next(MOMENT) else {
        panic!("a call");
    };
    let Do::Done(first) = calling.called(ok(r#"{"n":3}"#)).next(MOMENT) else {
        panic!("the end of the first command");
    };
    let Ahead::Segment(onward) = first.ahead else {
        panic!("{:?}", first.ahead);
    };
    assert_eq!((&*onward.to, onward.after.as_deref()), ("nap", Some("a")));
    let relay = |onward, data: &Json| Relay {
        onward,
        results: data.as_map().unwrap().clone(),
    };
    let mut second = job(SPLIT);
    second.carried.relay = Some(relay(onward, &first.data));
    let mut parking = Parking::new(second.clone(), 1, &noetl_types::JsonMap::new()).unwrap();
    let spec = parking.call(&crate::carried::NoPayloads).unwrap();
    assert_eq!(spec.config.get("for"), Some(&Json::from(4)));
    let ruled = parking.rule(ok(r#"{"ms":4000}"#), MOMENT, &crate::carried::NoPayloads);
    let Ok(Ruled::Over(nap)) = ruled else {
        panic!("{ruled:?}");
    };
    assert_eq!(nap.set.get("ctx.slept"), Some(&Json::from(4000)));
    let Ahead::Segment(onward) = nap.ahead else {
        panic!("{:?}", nap.ahead);
    };
    let mut third = job(SPLIT);
    third.carried.relay = Some(relay(onward, &nap.data));
    let Do::Call(spec, calling) = Shift::new(third).unwrap().next(MOMENT) else {
        panic!("a call");
    };
    assert_eq!(spec.config.get("result"), Some(&Json::from("9 4000")));
    let Do::Done(last) = calling.called(ok(r#"{"n":9}"#)).next(MOMENT) else {
        panic!("the end");
    };
    assert_eq!(last.ahead, Ahead::Nothing);
    let labels = json(r#"{"a":{"n":3},"nap":{"ms":4000},"b":{"n":9},"n":9}"#);
    assert_eq!(last.data, labels);
}

/// A worker leaves what tells its end by itself when it has begun; a beginning that fails is an
/// attempt like any other.
#[test]
fn a_worker_only_begins_what_tells_its_end_by_itself() {
    let step = "    tool: { kind: container, image: i, callback: true, set: { ctx.n: \"{{ output.n }}\" } }";
    let begin = |answer: Answer| {
        let Do::Call(_, calling) = Shift::new(job(step)).unwrap().next(MOMENT) else {
            panic!("a call");
        };
        match calling.called(answer).next(MOMENT) {
            Do::Done(finished) => *finished,
            other => panic!("{other:?}"),
        }
    };
    let begun = begin(ok(r#"{"job":1}"#));
    assert_eq!(
        (begun.ahead, begun.data),
        (Ahead::Callback, json(r#"{"job":1}"#))
    );
    assert!(begun.set.is_empty());
    let failed = begin(fail(TaskErrorKind::Connection));
    assert!(failed.error.is_some() && failed.ahead == Ahead::Nothing);
}

/// A tool that was called elsewhere: its answer goes through `set` and policy like any other.
#[test]
fn an_answer_from_elsewhere_is_judged_as_its_attempt() {
    let step = "    tool:\n      kind: http\n      url: '{{ keychain.api.token }}'\n      input: { n: 4 }\n      set: { ctx.got: '{{ output.data + input.n }}' }\n      spec: { policy: { rules: [ { when: '{{ output.status == \"error\" }}', then: { do: retry, attempts: 3, delay: 2 } } ] } }\n";
    let judged = |attempt, answer| {
        let shift = Shift::new(job(step)).unwrap();
        shift.answered(attempt, answer).next(MOMENT)
    };
    let Do::Wait(delay, _) = judged(2, fail(TaskErrorKind::Timeout)) else {
        panic!("not made again");
    };
    assert_eq!(delay, Millis::from_secs(2));
    let Do::Done(spent) = judged(3, fail(TaskErrorKind::Timeout)) else {
        panic!("made again");
    };
    assert_eq!((spent.error.is_some(), spent.attempt), (true, 3));
    let Do::Done(done) = judged(1, ok("1")) else {
        panic!("not done");
    };
    assert_eq!(done.error, None);
    assert_eq!(done.set.get("ctx.got"), Some(&Json::from(5)));
}
