//! `set`: scopes, order and name precedence.

use super::{assert_data, parse_json, run_text, run_with_outcomes};
use crate::{ErrorKind, TaskCall, TaskError, ToolAnswer};

#[test]
fn writes_apply_in_order() {
    let result = run_text(
        r#"
workflow:
  - step: a
    tool:
      kind: shell
      command: "flaky 2 timeout 5"
      set: { ctx.log: "{{ (ctx.log | default('')) ~ 't' }}" }
      spec:
        policy:
          rules:
            - { when: "error", then: { do: retry, set: { ctx.log: "{{ (ctx.log | default('')) ~ 'r' }}" } } }
            - { else: { do: continue, set: { ctx.log: "{{ ctx.log ~ 'e' }}" } } }
    set: { ctx.log: "{{ ctx.log ~ 's' }}" }
    next:
      spec: { mode: inclusive }
      arcs:
        - { step: b, when: "ctx.log == 'rtes'", set: { ctx.log: "{{ ctx.log ~ '1' }}" } }
        - { step: c, when: "ctx.log == 'rtes'", set: { ctx.log: "{{ ctx.log ~ '2' }}" } }
  - { step: b, tool: { kind: noop, result: "{{ ctx.log }}" } }
  - { step: c, tool: { kind: noop } }
"#,
    );
    assert_eq!(result.ctx, parse_json(r#"{"log":"rtes12"}"#));
    assert_data(&result, "b", r#""rtes12""#);
}

#[test]
fn values_of_one_set_do_not_see_each_other() {
    let result = run_text(
        r#"
workflow:
  - step: a
    tool: { kind: noop, result: { n: 1 }, set: { ctx.a: 1, ctx.b: 2 } }
    set: { ctx.a: "{{ ctx.b }}", ctx.b: "{{ ctx.a }}", ctx.m.x: "{{ output.n }}", ctx.m.y: { k: ["{{ b }}"] }, plain: "{{ output }}" }
    next: { arcs: [{ step: b, set: { ctx.m.x: 9 } }] }
  - { step: b, tool: { kind: noop } }
"#,
    );
    assert_eq!(
        result.ctx,
        parse_json(r#"{"a":2,"b":1,"m":{"x":9,"y":{"k":[2]}},"plain":{"n":1}}"#)
    );
}

#[test]
fn scopes_have_their_own_lifetime() {
    let result = run_text(
        r#"
workflow:
  - step: a
    tool:
      - { name: t, kind: noop, result: 1, set: { iter.i: 1, step.s: 2, p: 3, ctx.c: 4 } }
      - { name: u, kind: noop, result: ["{{ iter.i }}", "{{ s }}", "{{ p }}", "{{ c }}"] }
    set: { ctx.seen: ["{{ iter.i }}", "{{ s }}", "{{ p }}", "{{ c }}"], step.late: 5 }
    next: { arcs: [{ step: b, when: "late == 5 and s == 2", set: { ctx.arc: "{{ iter.i ~ late }}" } }] }
  - { step: b, tool: { kind: noop, result: ["{{ iter.i }}", "{{ s }}", "{{ p }}", "{{ late }}", "{{ c }}"] } }
"#,
    );
    assert_data(&result, "a", r#"{"t":1,"u":[1,2,3,4],"data":[1,2,3,4]}"#);
    assert_eq!(result.ctx, parse_json(r#"{"c":4,"seen":[1,2,null,4],"arc":"15"}"#));
    assert_data(&result, "b", "[null,null,null,null,4]");
}

#[test]
fn rule_writes_even_if_task_fails() {
    let broken = |_: &TaskCall<'_>| ToolAnswer::Error(TaskError::new(ErrorKind::Lost, "gone"));
    let result = run_with_outcomes(
        r#"
workflow:
  - step: a
    tool:
      kind: shell
      command: x
      set: { ctx.task: 1 }
      spec: { policy: { rules: [{ when: "error", then: { do: retry, attempts: 2, set: { ctx.tries: "{{ _attempt }}" } } }] } }
    set: { ctx.step: 1 }
"#,
        &broken,
    );
    assert_eq!(result.ctx, parse_json(r#"{"tries":2}"#));
    assert_eq!(result.error_kind, Some(ErrorKind::Lost));
}

#[test]
fn name_with_higher_precedence_wins() {
    let result = run_text(
        r#"
workload: { k: workload, ctx: workload, path: mine }
workflow:
  - step: first
    tool: { kind: noop, result: { k: first } }
    next: { arcs: [{ step: plain }] }
  - step: plain
    tool: { kind: noop, result: ["{{ k }}", "{{ ctx.k }}", "{{ ctx.first.k }}", "{{ ctx.none }}", "{{ path }}", "{{ step }}", "{{ result.k }}"] }
    next: { arcs: [{ step: set, set: { ctx.k: ctx } }] }
  - step: set
    tool: { kind: noop, result: ["{{ k }}", "{{ ctx.k }}", "{{ workload.k }}"] }
    next: { arcs: [{ step: piped }] }
  - step: piped
    tool:
      - { name: k, kind: noop, result: label }
      - { name: l, kind: noop, result: "{{ k }}" }
      - { name: m, kind: noop, set: { k: variable } }
      - { name: n, kind: noop, result: "{{ k }}" }
      - { name: o, kind: noop, input: { k: input }, result: ["{{ k }}", "{{ input.k }}", "{{ ctx.k }}"] }
    next: { arcs: [{ step: looped }] }
  - step: looped
    input: { i: step, j: step }
    loop: { in: [item], iterator: k }
    tool: { kind: noop, input: { j: task }, result: ["{{ k }}", "{{ i }}", "{{ j }}"] }
"#,
    );
    assert_data(&result, "plain", r#"["workload","workload","first",null,"mine","plain","first"]"#);
    assert_data(&result, "set", r#"["ctx","ctx","workload"]"#);
    let piped = &result.steps["piped"].data;
    assert_eq!(piped.get("l"), Some(&parse_json(r#""label""#)));
    assert_eq!(piped.get("n"), Some(&parse_json(r#""variable""#)));
    assert_eq!(piped.get("o"), Some(&parse_json(r#"["input","input","ctx"]"#)));
    assert_eq!(
        result.steps["looped"].data.get("results"),
        Some(&parse_json(r#"[["item","step","task"]]"#))
    );
}

#[test]
fn own_name_is_data_of_this_pass_after_the_task() {
    let result = run_text(
        r#"
workflow:
  - step: page
    tool:
      kind: noop
      result: { n: "{{ (ctx.n | default(0)) + 1 }}", before: "{{ page.n | default('none') }}" }
      set: { ctx.n: "{{ page.n }}", ctx.seen: "{{ (ctx.seen | default([])) + [page.before] }}" }
      spec:
        policy:
          rules:
            - { when: "{{ page.n > 5 }}", then: { do: fail } }
            - else: { then: { do: continue, set: { ctx.rule: "{{ page.data.n }}" } } }
    next: { arcs: [{ step: page, when: "{{ page.n < 2 }}" }, { step: pipe }] }
  - step: pipe
    tool:
      - { name: a, kind: noop, result: { x: 1 }, set: { ctx.a: "{{ a.x }}{{ pipe.a.x }}{{ results.a.x }}" } }
      - { name: b, kind: noop, result: { y: 2 }, set: { ctx.b: "{{ pipe.a.x }}{{ pipe.b.y }}{{ pipe.y }}{{ pipe.results.b.y }}" } }
"#,
    );
    assert_eq!(
        result.ctx,
        parse_json(r#"{"a":"111","b":"1222","n":2,"rule":2,"seen":["none",1]}"#)
    );
}
