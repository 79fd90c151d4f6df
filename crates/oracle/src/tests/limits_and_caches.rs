//! Timeouts, slots, caches and cursors.

use noetl_types::{EventType, ExecutionStatus};

use super::{assert_data, entered_steps, format_history, parse_json, run_text};
use crate::{CommandOrder, ErrorKind, ScriptedOutcomes, StepStatus, interpret_with_cache};

#[test]
fn step_timeout_covers_all_commands() {
    let text = |arcs: &str| {
        format!(
            r#"
workflow:
  - step: each
    spec: {{ timeout: 25ms }}
    loop: {{ in: 3, iterator: x, spec: {{ mode: parallel }} }}
    tool: {{ kind: sleep, for: "{{{{ (x + 1) * 10 }}}}ms" }}
    {arcs}
  - {{ step: caught, tool: {{ kind: noop }} }}
"#
        )
    };
    let result =
        run_text(&text("next: { arcs: [{ step: caught, when: \"error.kind == 'timeout'\" }] }"));
    let events = "timer.fired each\ncommand.cancelled each[2]\nstep.exit each\nstep.enter caught\n";
    assert!(format_history(&result).contains(events), "{}", format_history(&result));
    assert_eq!(result.status, ExecutionStatus::Completed);
    let result = run_text(&text(""));
    assert_eq!(result.error_kind, Some(ErrorKind::Timeout));
    assert_eq!(result.failed_steps, ["each".into()]);
}

#[test]
fn execution_timeout_is_followed_by_final_step_only() {
    let result = run_text(
        r"
executor: { spec: { timeout: 15ms, final_step: last } }
workflow:
  - step: rest
    tool: { kind: sleep, for: 20ms }
    next: { arcs: [{ step: caught, when: error }] }
  - { step: caught, tool: { kind: noop } }
  - { step: last, tool: { kind: noop } }
",
    );
    let events = "timer.fired test\ncommand.cancelled rest\nstep.exit rest\nstep.enter last\ncommand.issued last\n";
    assert!(format_history(&result).contains(events), "{}", format_history(&result));
    assert!(format_history(&result).ends_with("step.exit last\nplaybook.failed test\n"));
    assert_eq!(result.error_kind, Some(ErrorKind::Timeout));
    assert_eq!(result.steps["rest"].status, StepStatus::Cancelled);
}

const SLOTS_PLAYBOOK: &str = r#"
workload: { world: { slots: { k: [UNTIL] } } }
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }, { step: c }] }
  - { step: a, concurrency: { key: k }, tool: { kind: sleep, for: 10ms }, next: { arcs: [{ step: join }] } }
  - { step: b, concurrency: { key: k }, priority: 3, tool: { kind: sleep, for: 10ms }, next: { arcs: [{ step: join }] } }
  - { step: c, tool: { kind: noop, result: "{{ steps.a.status }}" }, next: { arcs: [{ step: join }] } }
  - { step: join, tool: { kind: noop } }
"#;

#[test]
fn slots_go_by_priority_and_block_joins() {
    let result = run_text(&SLOTS_PLAYBOOK.replace("UNTIL", "30"));
    assert_eq!(entered_steps(&result), ["start", "c", "b", "a", "join"]);
    let data = r#"{"slept_ms":10,"fired_at":"2026-01-01T00:00:00.040Z"}"#;
    assert_data(&result, "b", data);
    assert_data(&result, "a", &data.replace("040", "050"));
}

#[test]
fn execution_waits_for_its_slot() {
    let run = |spec: &str| {
        run_text(&format!(
            r#"
executor: {{ spec: {{ {spec} }} }}
workload: {{ k: all, world: {{ slots: {{ all: [20, 40] }} }} }}
concurrency: {{ key: "{{{{ k }}}}", limit: 2 }}
workflow:
  - {{ step: a, tool: {{ kind: sleep, for: 10ms }} }}
"#
        ))
    };
    let data = r#"{"slept_ms":10,"fired_at":"2026-01-01T00:00:00.030Z"}"#;
    assert_data(&run(""), "a", data);
    let late = run("timeout: 10ms");
    assert_eq!(
        format_history(&late),
        "playbook.started test\ntimer.fired test\nplaybook.failed test\n"
    );
}

fn issued_count(result: &crate::RunResult, step: &str) -> usize {
    let issued = |entry: &&crate::HistoryEvent| {
        entry.event == EventType::CommandIssued && *entry.node == *step
    };
    result.history.iter().filter(issued).count()
}

#[test]
fn reuses_cached_result() {
    let text = |ttl: &str| {
        format!(
            r#"
workflow:
  - step: work
    spec: {{ cache: {{ key: "of {{{{ w }}}}"{ttl} }} }}
    tool: {{ kind: sleep, for: 10ms }}
    set: {{ ctx.times: "{{{{ (ctx.times | default(0)) + 1 }}}}" }}
    next: {{ arcs: [{{ step: rest, when: "ctx.times < 3" }}] }}
  - {{ step: rest, tool: {{ kind: sleep, for: 10ms }}, next: {{ arcs: [{{ step: work }}] }} }}
"#
        )
    };
    let result = run_text(&text(""));
    let events = "step.enter work\ncall.done work\nctx.updated work\nstep.exit work\n";
    assert!(format_history(&result).contains(events), "{}", format_history(&result));
    assert_eq!(result.ctx, parse_json(r#"{"times":3}"#));
    assert_eq!(issued_count(&result, "work"), 1);
    // It expires 15 ms after it was cached.
    assert_eq!(issued_count(&run_text(&text(", ttl: 15ms")), "work"), 2);
}

#[test]
fn later_run_reuses_cached_result() {
    let text = r#"
workflow:
  - step: each
    spec: { cache: { key: x } }
    loop: { in: 2, iterator: x }
    tool: { kind: noop, result: "{{ x }}" }
    next: { arcs: [{ step: then, when: "event.name == 'loop.done'" }] }
  - { step: then, tool: { kind: shell, command: error parse }, spec: { cache: { key: x } } }
"#;
    let first = run_text(text);
    let playbook = super::parse_playbook(text);
    let workload = noetl_types::Json::empty_map();
    let second = interpret_with_cache(
        &first,
        &playbook,
        workload,
        &ScriptedOutcomes,
        CommandOrder::IssueOrder,
    )
    .unwrap();
    assert_eq!((issued_count(&first, "each"), issued_count(&second, "each")), (2, 0));
    assert_eq!((issued_count(&first, "then"), issued_count(&second, "then")), (1, 1));
    assert_eq!(first.steps, second.steps);
}

fn run_cursor(more: &str, spec: &str, tool: &str) -> crate::RunResult {
    run_text(&format!(
        r#"
workload: {{ world: {{ rows: {{ claims: [[{{ n: 1 }}, {{ n: 2 }}], [{{ n: 3 }}], [], [{{ n: 9 }}]] }} }} }}
workflow:
  - step: claims
    {more}
    loop: {{ cursor: {{ claim: SELECT 1 }}, iterator: row, spec: {{ mode: cursor, {spec} }} }}
    tool: {{ {tool} }}
    set: {{ ctx.event: "{{{{ event.name }}}}" }}
"#
    ))
}

#[test]
fn claims_frames_until_one_is_empty() {
    let sum = "kind: noop, set: { ctx.sum: \"{{ (ctx.sum | default(0)) + row.n }}\" }";
    let result = run_cursor("", "frame: { max_rows: 2 }", sum);
    assert_data(
        &result,
        "claims",
        r#"{"results":[],"data":[],"stats":{"total":3,"success":3,"failed":0,"frames":2}}"#,
    );
    assert_eq!(result.ctx, parse_json(r#"{"sum":6,"event":"loop.done"}"#));
    let events = "step.enter claims\ncommand.issued claims\nW claims\nctx.updated claims\ncommand.issued claims\nW claims\nctx.updated claims\ncommand.issued claims\nW claims\nloop.done claims\n";
    assert!(format_history(&result).contains(events), "{}", format_history(&result));
    // One row per frame by default, and the other chain continues.
    let two = run_cursor("", "max_in_flight: 2", sum);
    assert_eq!(
        two.steps["claims"].data.get("stats"),
        Some(&parse_json(r#"{"total":3,"success":3,"failed":0,"frames":3}"#))
    );
    let whole = run_cursor(
        "",
        "frame: { max_rows: 2, process: frame }",
        "kind: noop, set: { ctx.seen: \"{{ row | length }}\" }",
    );
    assert_eq!(whole.ctx, parse_json(r#"{"seen":1,"event":"loop.done"}"#));
}

#[test]
fn failed_row_fails_loop_or_is_counted() {
    let tool = "kind: shell, command: \"{{ 'error parse' if row.n == 1 else 'ok' }}\"";
    let fast = run_cursor("", "frame: { max_rows: 2 }", tool);
    assert_eq!(fast.error_kind, Some(ErrorKind::Parse));
    assert!(!format_history(&fast).contains("loop.done"));
    let best = run_cursor(
        "spec: { policy: { failure: { mode: best_effort } } }",
        "frame: { max_rows: 2 }",
        tool,
    );
    assert_eq!(best.status, ExecutionStatus::Completed);
    let stats = r#"{"total":3,"success":2,"failed":1,"frames":2}"#;
    assert_eq!(best.steps["claims"].data.get("stats"), Some(&parse_json(stats)));
}
