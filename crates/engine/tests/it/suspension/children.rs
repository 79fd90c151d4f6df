//! Child executions: start, wait, result, retry and cancellation.

use noetl_engine::event::{ChildCall, ChildTarget};
use noetl_engine::{
    ChildOutcome, DecisionError, EngineInput, EventData, FollowUp, InputVerdict, MAX_CHILD_DEPTH,
    StartInput, TaskResult,
};
use noetl_testkit::sim::Simulation;
use noetl_types::{
    CatalogId, ErrorCode, ExecutionId, ExecutionStatus, Json, Millis, TaskError, TaskErrorKind,
};

use super::{last_call_data, parse_json, started_sim};

fn started_children(sim: &Simulation) -> Vec<(&ChildCall, u32)> {
    let follow_ups = sim.follow_ups().iter();
    follow_ups
        .filter_map(|follow_up| match follow_up {
            FollowUp::StartChild { call, depth } => Some((&**call, *depth)),
            FollowUp::CancelChild { .. } | FollowUp::DeliverBroadcasts(_) => None,
        })
        .collect()
}

const CHILD_PLAYBOOK: &str = r#"
workload: { n: 4 }
workflow:
  - { step: sub, tool: { kind: playbook, path: etl/child, version: 3, input: { n: "{{ n }}", m: 1 }, payload: { m: 2 }, return_result: true, result_step: load } }
"#;

#[test]
fn starts_child_once_with_input() {
    let sim = started_sim(CHILD_PLAYBOOK);
    let [(call, depth)] = started_children(&sim)[..] else {
        panic!("{:?}", sim.follow_ups());
    };
    assert_eq!(sim.awaited_children(), [call.child]);
    assert_eq!(call.of, ChildTarget::Path("etl/child".parse().unwrap()));
    assert_eq!((call.version, depth), (Some(3), 1));
    assert_eq!(call.result_step.as_deref(), Some("load"));
    assert_eq!(call.input, EventData::Inline(parse_json(r#"{"n":4,"m":2}"#)));
}

#[test]
fn child_result_becomes_task_data() {
    for (result, data) in [
        (r#"{"a":1}"#, r#"{"a":1,"execution_id":"<id>","status":"COMPLETED"}"#),
        (r#"{"status":"mine"}"#, r#"{"execution_id":"<id>","status":"mine"}"#),
        ("[1]", r#"{"data":[1],"execution_id":"<id>","status":"COMPLETED"}"#),
    ] {
        let mut sim = started_sim(CHILD_PLAYBOOK);
        let child = sim.awaited_children()[0];
        let result = EventData::Inline(parse_json(result));
        let ended = ChildOutcome::Completed { result };
        assert_eq!(sim.report_child_end(child, ended.clone()), Ok(InputVerdict::Accepted));
        assert_eq!(last_call_data(&sim), parse_json(&data.replace("<id>", &child.to_string())));
        // A second end is rejected.
        assert!(sim.report_child_end(child, ended).is_err());
    }
}

#[test]
fn rejects_end_of_unknown_child() {
    let mut sim = started_sim(CHILD_PLAYBOOK);
    let unknown = ExecutionId::new(123).unwrap();
    let ended = ChildOutcome::Cancelled { reason: None };
    let error = sim.report_child_end(unknown, ended).unwrap_err();
    assert_eq!(error, DecisionError::UnknownChild(unknown));
    assert_eq!(error.code(), ErrorCode::NotFound);
}

#[test]
fn unsuccessful_child_fails_its_task() {
    let boom = || TaskError::new(TaskErrorKind::Transform, "boom");
    for (end, kind, text) in [
        (ChildOutcome::Failed { error: boom() }, "child", "boom"),
        (ChildOutcome::Cancelled { reason: Some("enough".into()) }, "child", "enough"),
        (
            ChildOutcome::NotStarted {
                error: TaskError::new(TaskErrorKind::NotFound, "no such playbook"),
            },
            "not_found",
            "no such playbook",
        ),
    ] {
        let mut sim = started_sim(CHILD_PLAYBOOK);
        let child = sim.awaited_children()[0];
        sim.report_child_end(child, end).unwrap();
        assert_eq!(sim.status(), ExecutionStatus::Failed);
        let table = sim.format_log();
        assert!(table.contains(&format!("\"kind\":\"{kind}\"")) && table.contains(text), "{table}");
    }
}

#[test]
fn overdue_child_is_abandoned_or_cancelled() {
    for (on_timeout, cancels) in [("abandon", false), ("cancel", true)] {
        let mut sim = started_sim(
            &CHILD_PLAYBOOK.replace("version: 3", &format!("on_timeout: {on_timeout}")),
        );
        let child = sim.awaited_children()[0];
        sim.advance_clock(Millis::from_secs(299));
        sim.fire_timers();
        assert_eq!(sim.status(), ExecutionStatus::Running);
        sim.advance_clock(Millis::from_secs(1));
        sim.fire_timers();
        assert_eq!(sim.status(), ExecutionStatus::Failed);
        let last = FollowUp::CancelChild { child };
        assert_eq!(sim.follow_ups().last() == Some(&last), cancels);
    }
}

const CHILD_WITH_RETRY: &str = r#"
workflow:
  - step: sub
    tool:
      kind: playbook
      path: x
      return_result: true
      set: { ctx.done: "{{ output.status }}" }
      spec:
        policy:
          rules:
            - when: "{{ output.error.kind == 'child' and _attempt < 3 }}"
              then: { do: retry, attempts: 3, delay: 10s, set: { ctx.tries: "{{ _attempt }}", seen: "{{ (seen | default(0)) + 1 }}" } }
            - when: "{{ output.status == 'ok' }}"
              then: { do: continue, set: { ctx.seen: "{{ seen }}" } }
"#;

#[test]
fn retry_starts_new_child_execution() {
    let mut sim = started_sim(CHILD_WITH_RETRY);
    let mut children = Vec::new();
    for _ in 0..2 {
        let child = sim.awaited_children()[0];
        children.push(child);
        let error = TaskError::new(TaskErrorKind::Transform, "boom");
        sim.report_child_end(child, ChildOutcome::Failed { error }).unwrap();
        assert!(sim.awaited_children().is_empty(), "the retry is delayed");
        sim.advance_clock(Millis::from_secs(10));
        sim.fire_timers();
    }
    children.push(sim.awaited_children()[0]);
    let result = EventData::Inline(parse_json(r#"{"n":1}"#));
    sim.report_child_end(children[2], ChildOutcome::Completed { result }).unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    let ids: Vec<_> = started_children(&sim).iter().map(|(call, _)| call.child).collect();
    assert_eq!(ids, children);
    assert_eq!(*sim.state().ctx(), parse_json(r#"{"done":"COMPLETED","seen":2,"tries":2}"#));
    let mut table = sim.format_log();
    for (index, child) in children.iter().enumerate() {
        table = table.replace(&child.to_string(), &format!("<child {index}>"));
    }
    insta::assert_snapshot!(table);
}

#[test]
fn nesting_depth_of_children_is_limited() {
    let mut sim = Simulation::from_body(CHILD_PLAYBOOK);
    let start = StartInput {
        depth: MAX_CHILD_DEPTH,
        ..StartInput::new(
            sim.header().execution_id,
            CatalogId::new(77).unwrap(),
            sim.header().path.clone(),
        )
    };
    sim.decide(EngineInput::Start(Box::new(start))).unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    assert!(started_children(&sim).is_empty());
    assert!(sim.format_log().contains("\"kind\":\"limit\""), "{}", sim.format_log());
}

#[test]
fn large_child_input_and_result_are_stored_by_reference() {
    let mut sim =
        Simulation::from_body(&CHILD_PLAYBOOK.replace("m: 1", "m: 1, big: \"{{ workload.big }}\""))
            .with_payload(Json::object([("big", Json::from("x".repeat(100_000)))]));
    sim.start().unwrap();
    let call = started_children(&sim)[0].0.clone();
    assert!(matches!(call.input, EventData::External(_)));
    let result = call.input.clone();
    sim.report_child_end(call.child, ChildOutcome::Completed { result }).unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    sim.repeat_decisions();
}

/// The children end out of order.
#[test]
fn loop_collects_results_of_children() {
    let mut sim = started_sim(
        r#"
workflow:
  - step: each
    loop: { in: 3, iterator: i, spec: { mode: parallel, max_in_flight: 2 } }
    tool: { kind: playbook, path: x, input: { i: "{{ i }}" }, return_result: true }
"#,
    );
    while let Some(child) = sim.awaited_children().last().copied() {
        let calls = started_children(&sim);
        let (call, _) = calls.iter().find(|(call, _)| call.child == child).unwrap();
        let result = call.input.clone();
        sim.report_child_end(child, ChildOutcome::Completed { result }).unwrap();
    }
    let output =
        sim.state().step_state(noetl_playbook::graph::StepIndex(0)).unwrap().output.clone();
    let EventData::Inline(data) = output.unwrap().data else {
        panic!("small");
    };
    let items: Vec<_> = data
        .get("results")
        .unwrap()
        .as_list()
        .unwrap()
        .iter()
        .map(|r| r.get("i").cloned())
        .collect();
    assert_eq!(items, [0, 1, 2].map(|i| Some(Json::from(i))));
}

/// No worker holds a lease for the command of a suspended task.
#[test]
fn rejects_worker_report_for_suspended_task() {
    let mut sim = started_sim(CHILD_PLAYBOOK);
    let command = sim.state().commands().next().unwrap().0;
    let report = noetl_engine::WorkerReport {
        command,
        attempt: 1,
        worker: "w1".parse().unwrap(),
        lease_until: None,
        claimed_at: None,
        started_at: None,
        retries: Vec::new(),
        retries_before: 0,
        outcome: noetl_engine::ReportOutcome::Completed(TaskResult::from(EventData::default())),
    };
    assert_eq!(sim.submit_report(report), Ok(InputVerdict::Ignored(ErrorCode::StaleAttempt)));
    assert_eq!(sim.awaited_children().len(), 1);
}

/// A child that fails while another step has failed the run is not retried. The writes of its rule
/// are kept.
#[test]
fn failing_execution_does_not_retry_children() {
    let mut sim = started_sim(
        r#"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: sub }, { step: bad }] }
  - step: sub
    tool:
      - name: run
        kind: playbook
        path: x
        return_result: true
        spec: { policy: { rules: [{ else: { then: { do: retry, set: { ctx.tries: "{{ _attempt }}" } } } }] } }
  - { step: bad, tool: { kind: noop }, set: { ctx.x: "{{ 1 // 0 }}" } }
"#,
    );
    while !sim.available_commands().is_empty() {
        assert!(sim.advance_once());
    }
    let error = TaskError::new(TaskErrorKind::Transform, "boom");
    let child = sim.awaited_children()[0];
    sim.report_child_end(child, ChildOutcome::Failed { error }).unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Failed, "{}", sim.format_log());
    assert_eq!(sim.state().ctx(), &parse_json(r#"{"tries":1}"#));
    assert!(sim.format_log().contains(r#"failed_steps":["bad","sub"]"#), "{}", sim.format_log());
    sim.repeat_decisions();
}

/// A jump starts the task over at its first attempt, in a new command.
#[test]
fn jump_to_async_child_issues_new_command() {
    let sim = started_sim(
        r#"
workflow:
  - step: sub
    tool:
      kind: playbook
      path: x
      spec:
        policy:
          rules:
            - { when: "{{ (iter.jumps or 0) < 1 }}", then: { do: jump, to: sub, set: { iter.jumps: 1 } } }
      set: { ctx.attempt: "{{ _attempt }}" }
"#,
    );
    assert_eq!(sim.status(), ExecutionStatus::Completed, "{}", sim.format_log());
    assert_eq!(sim.state().ctx(), &parse_json(r#"{"attempt":1}"#));
    assert_eq!(started_children(&sim).len(), 2);
    let [(first, _), (second, _)] = started_children(&sim)[..] else {
        panic!("{}", sim.format_log());
    };
    assert_ne!(first.child, second.child);
    sim.repeat_decisions();
}
