//! Joins: blocking between steps, and deadlocks of joins.

use super::{assert_data, entered_steps, run_text, skipped_steps};

#[test]
fn untaken_branch_does_not_block_join() {
    let result = run_text(
        r#"
workflow:
  - step: start
    tool: { kind: noop, result: { n: 1 } }
    next: { arcs: [{ step: a, when: "output.n == 1" }, { step: b }] }
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: b, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: merge, tool: { kind: noop } }
"#,
    );
    assert_eq!(entered_steps(&result), ["start", "a", "merge"]);
    assert_eq!(skipped_steps(&result), ["b:not_routed"]);
}

#[test]
fn join_waits_for_longest_branch() {
    let result = run_text(
        r"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] }
  - { step: merge, tool: { kind: noop } }
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: b, tool: { kind: noop }, next: { arcs: [{ step: c }] } }
  - { step: c, tool: { kind: noop }, next: { arcs: [{ step: d }] } }
  - { step: d, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
",
    );
    assert_eq!(entered_steps(&result), ["start", "a", "b", "c", "d", "merge"]);
    assert_eq!(result.steps["merge"].runs, 1);
}

#[test]
fn dead_branch_releases_join() {
    let result = run_text(
        r#"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] }
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: b, tool: { kind: noop, result: 0 }, next: { arcs: [{ step: c, when: "output > 0" }] } }
  - { step: c, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: merge, tool: { kind: noop } }
"#,
    );
    assert_eq!(entered_steps(&result), ["start", "a", "b", "merge"]);
    assert_eq!(skipped_steps(&result), ["c:not_routed"]);
}

#[test]
fn skipped_step_routes_to_join() {
    let result = run_text(
        r"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] }
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: b, when: false, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: merge, tool: { kind: noop } }
",
    );
    assert_eq!(entered_steps(&result), ["start", "a", "merge"]);
    assert_eq!(skipped_steps(&result), ["b:guard"]);
    assert_eq!(result.steps["merge"].runs, 1);
}

#[test]
fn two_arrivals_cause_one_pass() {
    let result = run_text(
        r"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: a }] }
  - { step: a, tool: { kind: noop } }
",
    );
    assert_eq!(entered_steps(&result), ["start", "a"]);
}

/// `a` and `b` lead to each other and both have an arrival, so each waits for the other.
#[test]
fn deadlocked_joins_enter_longest_waiting_first() {
    let text = |first: &str, second: &str| {
        format!(
            r#"
workflow:
  - step: start
    tool: {{ kind: noop }}
    next: {{ spec: {{ mode: inclusive }}, arcs: [{{ step: {first} }}, {{ step: {second} }}] }}
  - {{ step: a, tool: {{ kind: noop }}, next: {{ arcs: [{{ step: b }}] }} }}
  - step: b
    tool: {{ kind: noop }}
    next: {{ arcs: [{{ step: a, when: "(ctx.n | default(0)) < 1", set: {{ ctx.n: 1 }} }}] }}
"#
        )
    };
    assert_eq!(entered_steps(&run_text(&text("a", "b"))), ["start", "a", "b", "a", "b"]);
    // If `b` enters first, it reaches `a`, which consumes both of its arrivals.
    assert_eq!(entered_steps(&run_text(&text("b", "a"))), ["start", "b", "a", "b"]);
}

/// `x` has waited longest, but is on no cycle with the steps that block it. So it runs last and
/// once.
#[test]
fn step_outside_cycles_runs_at_most_once() {
    let result = run_text(
        r#"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: x }, { step: a }, { step: b }] }
  - { step: x, tool: { kind: noop } }
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: b }] } }
  - step: b
    tool: { kind: noop }
    next:
      arcs:
        - { step: a, when: "(ctx.n | default(0)) < 1", set: { ctx.n: 1 } }
        - { step: x }
"#,
    );
    assert_eq!(entered_steps(&result), ["start", "a", "b", "a", "b", "x"]);
    assert_eq!(result.steps["x"].runs, 1);
}

#[test]
fn runs_nested_cycles() {
    let result = run_text(
        r#"
workflow:
  - { step: outer, tool: { kind: noop }, next: { arcs: [{ step: inner }] } }
  - step: inner
    tool: { kind: noop, result: { n: "{{ (inner.n | default(0)) + 1 }}" } }
    next:
      arcs:
        - { step: inner, when: "(ctx.k | default(0)) < 1", set: { ctx.k: 1 } }
        - { step: outer, when: "(ctx.j | default(0)) < 1", set: { ctx.j: 1, ctx.k: 0 } }
        - { step: done }
  - { step: done, tool: { kind: noop } }
"#,
    );
    assert_eq!(
        entered_steps(&result),
        ["outer", "inner", "inner", "outer", "inner", "inner", "done"]
    );
    assert_eq!(result.steps["inner"].runs, 4);
    assert_data(&result, "inner", r#"{"n":4}"#);
    assert_eq!(skipped_steps(&result), [""; 0]);
}

/// A join inside a cycle runs once per turn, after both of its branches.
#[test]
fn cycle_fans_out_and_joins() {
    let result = run_text(
        r#"
workflow:
  - step: split
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] }
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: b, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - step: merge
    tool: { kind: noop }
    next: { arcs: [{ step: split, when: "(ctx.n | default(0)) < 1", set: { ctx.n: 1 } }] }
"#,
    );
    // Every step on a cycle reaches every other, so `a` and `b` wait for each other and run one
    // after the other. `merge` has waited less than `b`, so it runs after both.
    let turn = ["split", "a", "b", "merge"];
    assert_eq!(entered_steps(&result), [turn, turn].concat());
}

#[test]
fn last_arrival_triggers_join() {
    let result = run_text(
        r#"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] }
  - { step: a, tool: { kind: noop, result: 1 }, next: { arcs: [{ step: merge }] } }
  - { step: b, tool: { kind: noop, result: 2 }, next: { arcs: [{ step: merge }] } }
  - { step: merge, when: "event.step == 'b'", tool: { kind: noop, result: "{{ result }}" } }
"#,
    );
    assert_data(&result, "merge", "2");
}
