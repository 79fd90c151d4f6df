//! A run of each construct of the language.

use noetl_engine::event::TimerId;
use noetl_engine::{ChildEnd, Data, Decided, Input};
use noetl_testkit::sim::{Play, Sim, Word};
use noetl_types::json::parse;
use noetl_types::{Json, Millis, TaskErrorKind};

fn fail() -> Play {
    Play::fail(TaskErrorKind::Transform, "boom")
}

fn begun(body: &str) -> Sim {
    let mut sim = Sim::of(body);
    sim.start().unwrap();
    sim
}

pub(crate) fn all() -> Vec<(&'static str, Sim)> {
    let mut runs = plain();
    runs.extend(data());
    runs.extend(loops());
    runs.extend(failures());
    runs.extend(steered());
    runs.extend(waits());
    runs
}

fn plain() -> Vec<(&'static str, Sim)> {
    let run = |body: &str| Sim::of(body).run();
    vec![
        (
            "linear",
            run(r#"
workflow:
  - { step: start, tool: { kind: noop, result: { n: 2 } }, set: { ctx.n: "{{ output.n }}" }, next: { arcs: [{ step: work }] } }
  - { step: work, tool: { kind: noop, result: "{{ ctx.n + 1 }}" } }
"#),
        ),
        (
            "conditional",
            run(r#"
workflow:
  - { step: start, tool: { kind: noop, result: { n: 12 } }, next: { arcs: [{ step: big, when: "{{ output.n > 10 }}", set: { ctx.size: big } }, { step: small }] } }
  - { step: big, tool: { kind: noop } }
  - { step: small, tool: { kind: noop } }
"#),
        ),
        (
            "fan_out_and_join",
            run(r"
workflow:
  - { step: start, tool: { kind: noop }, next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] } }
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: b, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: merge, tool: { kind: noop } }
"),
        ),
        (
            "guard_and_admission",
            run(r#"
workload: { go: no }
workflow:
  - { step: guarded, when: "{{ workload.go }}", tool: { kind: noop }, next: { arcs: [{ step: denied }] } }
  - step: denied
    spec: { policy: { admit: { rules: [{ else: { then: { allow: false } } }] } } }
    tool: { kind: noop }
    next: { arcs: [{ step: last }] }
  - { step: last, tool: { kind: noop } }
"#),
        ),
        (
            "cycle",
            run(r#"
workload: { n: 0 }
workflow:
  - step: count
    tool: { kind: noop, result: "{{ ctx.n + 1 }}" }
    set: { ctx.n: "{{ output }}" }
    next: { arcs: [{ step: count, when: "{{ ctx.n < 3 }}" }, { step: out }] }
  - { step: out, tool: { kind: noop, result: "{{ count }}" } }
"#),
        ),
    ]
}

fn data() -> Vec<(&'static str, Sim)> {
    let run = |body: &str| Sim::of(body).run();
    vec![
        (
            "pipeline",
            run(r#"
workflow:
  - step: both
    tool:
      - { name: a, kind: noop, result: { n: 1 }, set: { x: "{{ output.n + 1 }}" } }
      - { name: b, kind: noop, result: "{{ a.n + x }}" }
"#),
        ),
        (
            "by_reference",
            Sim::of(
                r#"
workflow:
  - { step: load, tool: { kind: http, url: http://localhost/x }, next: { arcs: [{ step: use }] } }
  - { step: use, tool: { kind: noop, result: "{{ load | length }}" } }
"#,
            )
            .with_tools(|call| match call.step {
                "load" => Play::Ok(Json::list((0..20_000).map(Json::from))),
                _ => Play::AsWritten,
            })
            .run(),
        ),
        (
            "numbers",
            run(r#"
workflow:
  - { step: a, tool: { kind: noop, result: { big: 9007199254740993, small: 1.0e-7, half: 0.5, text: "ünï\u0001code", none: null } } }
"#),
        ),
    ]
}

fn loops() -> Vec<(&'static str, Sim)> {
    let run = |body: &str| Sim::of(body).run();
    vec![
        ("parallel_loop", run(r#"
workflow:
  - { step: each, loop: { in: [1, 2, 3], iterator: x, spec: { mode: parallel, max_in_flight: 2 } }, tool: { kind: noop, result: "{{ x * 10 }}" } }
"#)),
        ("sequential_loop", run(r#"
workload: { sum: 0 }
workflow:
  - { step: add, loop: { in: "{{ [1, 2] }}", iterator: n }, tool: { kind: noop, result: "{{ ctx.sum + n }}", set: { ctx.sum: "{{ output }}" } } }
"#)),
        ("empty_loop", run(r#"
workflow:
  - { step: each, loop: { in: "{{ [] }}", iterator: x }, tool: { kind: noop }, next: { arcs: [{ step: after }] } }
  - { step: after, tool: { kind: noop } }
"#)),
        ("cursor_loop", run(r#"
workflow:
  - step: each
    loop: { cursor: { claim: "rows 5" }, iterator: row, spec: { mode: cursor, max_in_flight: 2, frame: { max_rows: 2 } } }
    tool: { kind: noop, result: "{{ row.id }}" }
"#)),
        ("loop_best_effort", Sim::of(r#"
workflow:
  - step: each
    spec: { policy: { failure: { mode: best_effort } } }
    loop: { in: 3, iterator: i, spec: { mode: parallel } }
    tool: { kind: noop, result: "{{ i }}" }
"#).with_tools(|call| if call.index == Some(1) { fail() } else { Play::AsWritten }).run()),
        ("loop_fail_fast", Sim::of(r#"
workflow:
  - { step: each, loop: { in: 4, iterator: i, spec: { mode: parallel, max_in_flight: 2 } }, tool: { kind: noop, result: "{{ i }}" } }
"#).with_tools(|call| if call.index == Some(1) { fail() } else { Play::AsWritten }).run()),
    ]
}

fn failures() -> Vec<(&'static str, Sim)> {
    let charge = r#"
workflow:
  - { step: charge, tool: { kind: shell, command: exit 3 }, next: { arcs: [{ step: refund, when: "{{ event.name == 'call.error' }}" }, { step: ship }] } }
  - { step: refund, tool: { kind: noop } }
  - { step: ship, tool: { kind: noop } }
"#;
    let one = "workflow: [{ step: a, tool: { kind: noop, result: 1 } }]";
    vec![
        ("failed", Sim::of(one).with_tools(|_| fail()).run()),
        ("caught", Sim::of(charge).with_tools(|call| match call.step {
            "charge" => fail(),
            _ => Play::AsWritten,
        }).run()),
        ("retried", Sim::of(r#"
workflow:
  - step: get
    tool: { kind: http, url: http://localhost/x, spec: { policy: { rules: [{ when: "{{ output.error }}", then: { do: retry, attempts: 3, backoff: fixed, delay: 0.1 } }] } } }
"#).with_tools(|call| if call.attempt > 2 { Play::Ok(Json::from(1)) } else { fail() }).run()),
        ("worker_lost_once", Sim::of(one).with_tools(|call| match call.command_attempt {
            1 => Play::Lost,
            _ => Play::AsWritten,
        }).run()),
        ("worker_lost_for_good", Sim::of(one).with_tools(|_| Play::Lost).run()),
        ("late_result", late_result(one)),
        ("broken_template", Sim::of("workflow: [{ step: a, when: '{{ 1 // 0 }}', tool: { kind: noop } }]").run()),
        ("too_many_runs", Sim::of(r"
executor: { spec: { policy: { limits: { max_step_runs: 2 } } } }
workflow: [{ step: a, tool: { kind: noop }, next: { arcs: [{ step: a }] } }]
").run()),
    ]
}

fn late_result(body: &str) -> Sim {
    let mut sim = begun(body);
    let lost = sim.lease(sim.available()[0], "w1");
    let late = sim.work(&lost).unwrap();
    sim.expire(&lost).unwrap();
    sim.report(late).unwrap();
    sim.advance(Millis::from_secs(1));
    sim.finish();
    sim
}

const SLOW: &str = r#"
executor: { spec: { timeout: 1h } }
workflow:
  - step: slow
    spec: { timeout: 10s }
    loop: { in: 3, iterator: i, spec: { mode: parallel, max_in_flight: 2 } }
    tool: { kind: shell, command: sleep 60 }
    next: { arcs: [{ step: next }, { step: rescue, when: "{{ error.kind == 'timeout' }}" }] }
  - { step: next, tool: { kind: noop } }
  - { step: rescue, tool: { kind: noop } }
"#;

fn steered() -> Vec<(&'static str, Sim)> {
    let mut cancelled = begun(SLOW);
    let lease = cancelled.lease(cancelled.available()[0], "w1");
    let late = cancelled.work(&lease).unwrap();
    cancelled.cancel().unwrap();
    cancelled.report(late).unwrap();

    let mut paused = begun(SLOW);
    paused.pause().unwrap();
    let still_paused = paused.clone();
    paused.resume().unwrap();
    paused.finish();

    let mut step_timeout = begun(SLOW);
    step_timeout.advance(Millis::from_secs(10));
    step_timeout.fire_timers();
    step_timeout.finish();

    let mut execution_timeout = begun(SLOW);
    execution_timeout.advance(Millis::from_hours(1));
    execution_timeout
        .decide(Input::TimerFired(TimerId::Execution))
        .unwrap();
    vec![
        ("cancelled_with_a_late_result", cancelled),
        ("paused_and_resumed", paused),
        ("still_paused", still_paused),
        ("still_running", begun(SLOW)),
        ("step_timeout", step_timeout),
        ("execution_timeout", execution_timeout),
    ]
}

fn waits() -> Vec<(&'static str, Sim)> {
    let mut wait = begun("workflow: [{ step: pay, tool: { kind: wait, signal: paid } }]");
    wait.signal("other", None, Json::Null).unwrap();
    wait.signal("paid", None, parse(br#"{"sum":3}"#).unwrap())
        .unwrap();

    let mut timed_out =
        begun("workflow: [{ step: pay, tool: { kind: wait, signal: paid, timeout: 1h } }]");
    assert!(timed_out.let_time_pass());

    let mut approval =
        begun("workflow: [{ step: ask, tool: { kind: approval, title: Ship it?, quorum: 2 } }]");
    approval.approve("ask", "ann", Decided::Approve).unwrap();
    approval.approve("ask", "bob", Decided::Approve).unwrap();

    let mut child =
        begun("workflow: [{ step: sub, tool: { kind: playbook, path: x, return_result: true } }]");
    let id = child.children()[0];
    let result = Data::Inline(Json::from(1));
    child
        .child_ended(id, ChildEnd::Completed { result })
        .unwrap();

    let nap = Sim::of("workflow: [{ step: nap, tool: [{ name: a, kind: noop }, { name: b, kind: sleep, for: 2s }, { name: c, kind: noop }] }]")
        .in_world(|_| Word::Yes)
        .run();
    vec![
        ("wait", wait),
        ("wait_timed_out", timed_out),
        ("approval", approval),
        ("child", child),
        ("segments_around_a_sleep", nap),
    ]
}
