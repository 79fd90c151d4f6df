//! Sub-playbooks: what is started, what is waited for, what comes of it.

use noetl_engine::event::{ChildCall, ChildOf};
use noetl_engine::{
    ChildEnd, Data, Errand, Input, MAX_CHILD_DEPTH, Refused, Start, TaskResult, Verdict,
};
use noetl_testkit::sim::Sim;
use noetl_types::{
    CatalogId, ErrorCode, ExecutionId, ExecutionStatus, Json, Millis, TaskError, TaskErrorKind,
};

use super::{begun, json, last_data};

fn started(sim: &Sim) -> Vec<(&ChildCall, u32)> {
    let errands = sim.errands().iter();
    errands
        .filter_map(|errand| match errand {
            Errand::StartChild { call, depth } => Some((&**call, *depth)),
            Errand::CancelChild { .. } | Errand::LookBack(_) => None,
        })
        .collect()
}

const SUB: &str = r#"
workload: { n: 4 }
workflow:
  - { step: sub, tool: { kind: playbook, path: etl/child, version: 3, input: { n: "{{ n }}", m: 1 }, payload: { m: 2 }, return_result: true, result_step: load } }
"#;

#[test]
fn a_child_is_started_once_with_its_input() {
    let sim = begun(SUB);
    let [(call, depth)] = started(&sim)[..] else {
        panic!("{:?}", sim.errands());
    };
    assert_eq!(sim.children(), [call.child]);
    assert_eq!(call.of, ChildOf::Path("etl/child".parse().unwrap()));
    assert_eq!((call.version, depth), (Some(3), 1));
    assert_eq!(call.result_step.as_deref(), Some("load"));
    assert_eq!(call.input, Data::Inline(json(r#"{"n":4,"m":2}"#)));
}

#[test]
fn the_result_of_a_child_is_data() {
    for (result, data) in [
        (
            r#"{"a":1}"#,
            r#"{"a":1,"execution_id":"<id>","status":"COMPLETED"}"#,
        ),
        (
            r#"{"status":"mine"}"#,
            r#"{"execution_id":"<id>","status":"mine"}"#,
        ),
        (
            "[1]",
            r#"{"data":[1],"execution_id":"<id>","status":"COMPLETED"}"#,
        ),
    ] {
        let mut sim = begun(SUB);
        let child = sim.children()[0];
        let result = Data::Inline(json(result));
        let ended = ChildEnd::Completed { result };
        assert_eq!(sim.child_ended(child, ended.clone()), Ok(Verdict::Accepted));
        assert_eq!(
            last_data(&sim),
            json(&data.replace("<id>", &child.to_string()))
        );
        // It ends once, whoever says so.
        assert!(sim.child_ended(child, ended).is_err());
    }
}

#[test]
fn a_stranger_is_nobodys_child() {
    let mut sim = begun(SUB);
    let stranger = ExecutionId::new(123).unwrap();
    let ended = ChildEnd::Cancelled { reason: None };
    let refused = sim.child_ended(stranger, ended).unwrap_err();
    assert_eq!(refused, Refused::UnknownChild(stranger));
    assert_eq!(refused.code(), ErrorCode::NotFound);
}

#[test]
fn a_child_that_did_not_end_well_fails_its_task() {
    let boom = || TaskError::new(TaskErrorKind::Transform, "boom");
    for (end, kind, words) in [
        (ChildEnd::Failed { error: boom() }, "child", "boom"),
        (
            ChildEnd::Cancelled {
                reason: Some("enough".into()),
            },
            "child",
            "enough",
        ),
        (
            ChildEnd::NotStarted {
                error: TaskError::new(TaskErrorKind::NotFound, "no such playbook"),
            },
            "not_found",
            "no such playbook",
        ),
    ] {
        let mut sim = begun(SUB);
        let child = sim.children()[0];
        sim.child_ended(child, end).unwrap();
        assert_eq!(sim.status(), ExecutionStatus::Failed);
        let table = sim.table();
        assert!(
            table.contains(&format!("\"kind\":\"{kind}\"")) && table.contains(words),
            "{table}"
        );
    }
}

#[test]
fn a_child_that_is_late_is_abandoned_or_cancelled() {
    for (on_timeout, cancels) in [("abandon", false), ("cancel", true)] {
        let mut sim = begun(&SUB.replace("version: 3", &format!("on_timeout: {on_timeout}")));
        let child = sim.children()[0];
        sim.advance(Millis::from_secs(299));
        sim.fire_timers();
        assert_eq!(sim.status(), ExecutionStatus::Running);
        sim.advance(Millis::from_secs(1));
        sim.fire_timers();
        assert_eq!(sim.status(), ExecutionStatus::Failed);
        let last = Errand::CancelChild { child };
        assert_eq!(sim.errands().last() == Some(&last), cancels);
    }
}

const RETRY: &str = r#"
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
fn another_attempt_is_another_run() {
    let mut sim = begun(RETRY);
    let mut children = Vec::new();
    for _ in 0..2 {
        let child = sim.children()[0];
        children.push(child);
        let error = TaskError::new(TaskErrorKind::Transform, "boom");
        sim.child_ended(child, ChildEnd::Failed { error }).unwrap();
        assert!(sim.children().is_empty(), "it pauses first");
        sim.advance(Millis::from_secs(10));
        sim.fire_timers();
    }
    children.push(sim.children()[0]);
    let result = Data::Inline(json(r#"{"n":1}"#));
    sim.child_ended(children[2], ChildEnd::Completed { result })
        .unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    let ids: Vec<_> = started(&sim).iter().map(|(call, _)| call.child).collect();
    assert_eq!(ids, children);
    assert_eq!(
        *sim.state().ctx(),
        json(r#"{"done":"COMPLETED","seen":2,"tries":2}"#)
    );
    let mut table = sim.table();
    for (at, child) in children.iter().enumerate() {
        table = table.replace(&child.to_string(), &format!("<child {at}>"));
    }
    insta::assert_snapshot!(table);
}

#[test]
fn runs_stand_above_one_another_only_so_far() {
    let mut sim = Sim::of(SUB);
    let start = Start {
        depth: MAX_CHILD_DEPTH,
        ..Start::new(
            sim.header().execution_id,
            CatalogId::new(77).unwrap(),
            sim.header().path.clone(),
        )
    };
    sim.decide(Input::Start(Box::new(start))).unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Failed);
    assert!(started(&sim).is_empty());
    assert!(
        sim.table().contains("\"kind\":\"limit\""),
        "{}",
        sim.table()
    );
}

/// The input of a child may be too big for an event, and so may its result.
#[test]
fn big_input_and_big_results_travel_by_reference() {
    let mut sim = Sim::of(&SUB.replace("m: 1", "m: 1, big: \"{{ workload.big }}\""))
        .with_payload(Json::object([("big", Json::from("x".repeat(100_000)))]));
    sim.start().unwrap();
    let call = started(&sim)[0].0.clone();
    assert!(matches!(call.input, Data::External(_)));
    let result = call.input.clone();
    sim.child_ended(call.child, ChildEnd::Completed { result })
        .unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Completed);
    sim.decide_again();
}

/// Children of every iteration, some ended out of order.
#[test]
fn children_in_a_loop() {
    let mut sim = begun(
        r#"
workflow:
  - step: each
    loop: { in: 3, iterator: i, spec: { mode: parallel, max_in_flight: 2 } }
    tool: { kind: playbook, path: x, input: { i: "{{ i }}" }, return_result: true }
"#,
    );
    while let Some(child) = sim.children().last().copied() {
        let calls = started(&sim);
        let (call, _) = calls.iter().find(|(call, _)| call.child == child).unwrap();
        let result = call.input.clone();
        sim.child_ended(child, ChildEnd::Completed { result })
            .unwrap();
    }
    let output = sim
        .state()
        .step(noetl_playbook::graph::StepIndex(0))
        .unwrap()
        .output
        .clone();
    let Data::Inline(data) = output.unwrap().data else {
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

/// A report for a command that no worker has is not taken.
#[test]
fn no_worker_can_speak_for_the_server() {
    let mut sim = begun(SUB);
    let command = sim.state().commands().next().unwrap().0;
    let report = noetl_engine::Report {
        command,
        attempt: 1,
        worker: "w1".parse().unwrap(),
        lease_until: None,
        claimed_at: None,
        started_at: None,
        retries: Vec::new(),
        retries_before: 0,
        outcome: noetl_engine::ReportOutcome::Completed(TaskResult::from(Data::default())),
    };
    assert_eq!(
        sim.report(report),
        Ok(Verdict::Ignored(ErrorCode::StaleAttempt))
    );
    assert_eq!(sim.children().len(), 1);
}

/// A child that fails while the run fails elsewhere is not tried again; what its rule wrote is kept.
#[test]
fn a_run_that_fails_tries_nothing_again() {
    let mut sim = begun(
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
    while !sim.available().is_empty() {
        assert!(sim.step());
    }
    let error = TaskError::new(TaskErrorKind::Transform, "boom");
    let child = sim.children()[0];
    sim.child_ended(child, ChildEnd::Failed { error }).unwrap();
    assert_eq!(sim.status(), ExecutionStatus::Failed, "{}", sim.table());
    assert_eq!(sim.state().ctx(), &json(r#"{"tries":1}"#));
    assert!(
        sim.table().contains(r#"failed_steps":["bad","sub"]"#),
        "{}",
        sim.table()
    );
    sim.decide_again();
}

/// A jump begins the task anew, with its first attempt, in a command of its own.
#[test]
fn a_jump_to_a_child_that_is_only_started_is_another_command() {
    let sim = begun(
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
    assert_eq!(sim.status(), ExecutionStatus::Completed, "{}", sim.table());
    assert_eq!(sim.state().ctx(), &json(r#"{"attempt":1}"#));
    assert_eq!(started(&sim).len(), 2);
    let [(first, _), (second, _)] = started(&sim)[..] else {
        panic!("{}", sim.table());
    };
    assert_ne!(first.child, second.child);
    sim.decide_again();
}
