//! Joins: who waits for whom, and what happens when all wait for each other.

use super::{assert_data, entered, run, skips};

#[test]
fn an_untaken_branch_blocks_nothing() {
    let result = run(r#"
workflow:
  - step: start
    tool: { kind: noop, result: { n: 1 } }
    next: { arcs: [{ step: a, when: "output.n == 1" }, { step: b }] }
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: b, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: merge, tool: { kind: noop } }
"#);
    assert_eq!(entered(&result), ["start", "a", "merge"]);
    assert_eq!(skips(&result), ["b:not_routed"]);
}

#[test]
fn a_join_waits_for_the_longest_branch() {
    let result = run(r"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] }
  - { step: merge, tool: { kind: noop } }
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: b, tool: { kind: noop }, next: { arcs: [{ step: c }] } }
  - { step: c, tool: { kind: noop }, next: { arcs: [{ step: d }] } }
  - { step: d, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
");
    assert_eq!(entered(&result), ["start", "a", "b", "c", "d", "merge"]);
    assert_eq!(result.steps["merge"].runs, 1);
}

#[test]
fn a_branch_that_dies_late_releases_the_join() {
    let result = run(r#"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] }
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: b, tool: { kind: noop, result: 0 }, next: { arcs: [{ step: c, when: "output > 0" }] } }
  - { step: c, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: merge, tool: { kind: noop } }
"#);
    assert_eq!(entered(&result), ["start", "a", "b", "merge"]);
    assert_eq!(skips(&result), ["c:not_routed"]);
}

#[test]
fn a_skipped_branch_is_passed_through() {
    let result = run(r"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] }
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: b, when: false, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: merge, tool: { kind: noop } }
");
    assert_eq!(entered(&result), ["start", "a", "merge"]);
    assert_eq!(skips(&result), ["b:guard"]);
    assert_eq!(result.steps["merge"].runs, 1);
}

#[test]
fn two_arcs_to_one_step_are_two_arrivals_and_one_run() {
    let result = run(r"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: a }] }
  - { step: a, tool: { kind: noop } }
");
    assert_eq!(entered(&result), ["start", "a"]);
}

/// `a` and `b` lead to each other and both have an arrival, so each waits for the other.
#[test]
fn of_joins_that_wait_for_each_other_the_longest_waiting_enters() {
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
    assert_eq!(
        entered(&run(&text("a", "b"))),
        ["start", "a", "b", "a", "b"]
    );
    // When `b` enters first, `a` is reached by it and consumes both of its arrivals.
    assert_eq!(entered(&run(&text("b", "a"))), ["start", "b", "a", "b"]);
}

/// `x` has waited longest, but lies on no cycle with what blocks it; so it runs last and once.
#[test]
fn a_step_off_every_cycle_runs_at_most_once() {
    let result = run(r#"
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
"#);
    assert_eq!(entered(&result), ["start", "a", "b", "a", "b", "x"]);
    assert_eq!(result.steps["x"].runs, 1);
}

#[test]
fn cycles_may_be_nested() {
    let result = run(r#"
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
"#);
    assert_eq!(
        entered(&result),
        ["outer", "inner", "inner", "outer", "inner", "inner", "done"]
    );
    assert_eq!(result.steps["inner"].runs, 4);
    assert_data(&result, "inner", r#"{"n":4}"#);
    assert_eq!(skips(&result), [""; 0]);
}

/// A join inside of a cycle runs once in each turn, after both of its branches.
#[test]
fn a_cycle_may_fan_out_and_join() {
    let result = run(r#"
workflow:
  - step: split
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] }
  - { step: a, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - { step: b, tool: { kind: noop }, next: { arcs: [{ step: merge }] } }
  - step: merge
    tool: { kind: noop }
    next: { arcs: [{ step: split, when: "(ctx.n | default(0)) < 1", set: { ctx.n: 1 } }] }
"#);
    // Everything on a cycle leads to everything on it, so `a` and `b` wait for each other and go one
    // after the other; `merge` has waited less than `b`, and so it runs after both.
    let turn = ["split", "a", "b", "merge"];
    assert_eq!(entered(&result), [turn, turn].concat());
}

#[test]
fn of_several_arrivals_the_last_one_leads() {
    let result = run(r#"
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] }
  - { step: a, tool: { kind: noop, result: 1 }, next: { arcs: [{ step: merge }] } }
  - { step: b, tool: { kind: noop, result: 2 }, next: { arcs: [{ step: merge }] } }
  - { step: merge, when: "event.step == 'b'", tool: { kind: noop, result: "{{ result }}" } }
"#);
    assert_data(&result, "merge", "2");
}
