//! Resolution of names in templates.

use noetl_engine::EventData;
use noetl_testkit::sim::{Simulation, ToolBehavior};
use noetl_types::{ExecutionStatus, Json, TaskErrorKind};

/// Data of a successful step.
fn step_data(sim: &Simulation, step: &str) -> Json {
    let index = sim.plan().find_step(step).unwrap();
    let output = sim.state().step_state(index).and_then(|step| step.output.clone());
    match output.unwrap_or_else(|| panic!("{step} has no data\n{}", sim.format_log())).data {
        EventData::Inline(value) => value,
        EventData::External(_) => panic!("{step} is elsewhere"),
    }
}

fn step_text(sim: &Simulation, step: &str) -> String {
    let data = step_data(sim, step);
    data.as_str().map_or_else(|| data.to_string(), str::to_owned)
}

/// Server and worker resolve the same name by the same precedence.
#[test]
fn names_resolve_by_precedence() {
    let sim = Simulation::from_body(
        r#"
workload: { a: input, b: input, c: input, path: mine }
workflow:
  - step: a
    tool: { kind: noop, result: data }
    set: { ctx.b: variable, ctx.server: "{{ a }} {{ b }} {{ c }} {{ path }} {{ ctx.a }} {{ ctx.c }} {{ workload.a }}" }
    next: [worker]
  - step: worker
    input: { c: given }
    tool: { kind: noop, result: "{{ a }} {{ b }} {{ c }} {{ path }} {{ ctx.a }} {{ ctx.c }} {{ workload.a }}" }
"#,
    )
    .run();
    let server = sim.state().ctx().get("server").and_then(Json::as_str).unwrap();
    assert_eq!(server, "data input input mine data input input");
    assert_eq!(step_text(&sim, "worker"), "data variable given mine data input input");
}

#[test]
fn pipeline_results_are_read_by_label() {
    let sim = Simulation::from_body(
        r#"
workflow:
  - step: p
    tool:
      - { name: one, kind: noop, result: { n: 1 }, set: { seen: "{{ output.n }}", step.kept: 5, iter.page: 2 } }
      - { name: two, kind: noop, result: { one: hidden, seen: "{{ seen }}", prev: "{{ _prev.n }}", page: "{{ iter.page }}" } }
    set: { ctx.kept: "{{ kept }}", ctx.page: "{{ iter.page }}", ctx.first: "{{ results.one.n }}" }
    next: { arcs: [{ step: after, when: "{{ kept == 5 and output.one == 'hidden' }}" }] }
  - { step: after, tool: { kind: noop, result: "{{ p.one }} {{ p.results.one.n }} {{ p.two.seen }} {{ p.seen }} {{ p.prev }} {{ p.page }} {{ ctx.kept }} {{ kept | default('gone') }}" } }
"#,
    )
    .run();
    assert_eq!(sim.status(), ExecutionStatus::Completed, "{}", sim.format_log());
    assert_eq!(step_text(&sim, "after"), "hidden 1 1 1 1 2 5 5");
    assert_eq!(sim.state().ctx().to_string(), r#"{"first":1,"kept":5,"page":2}"#);
}

#[test]
fn steps_variable_has_status_and_error() {
    let sim = Simulation::from_body(
        r#"
workflow:
  - step: bad
    tool: { kind: shell, command: x }
    next: { arcs: [{ step: seen, when: "{{ event.name == 'call.error' and event.payload.kind == 'transform' }}" }, { step: never }] }
  - { step: never, tool: { kind: noop } }
  - { step: passed, when: false, tool: { kind: noop }, next: [summary] }
  - step: seen
    when: "{{ event.name == 'call.error' and event.step == 'bad' and result.left == 1 }}"
    tool: { kind: noop, result: "{{ steps.bad.status }} {{ steps.bad.error.kind }} {{ steps.bad.data.left }} {{ steps.bad.run }} {{ steps.never.status }} {{ result.left }}" }
    next: [passed]
  - { step: summary, tool: { kind: noop, result: "{{ steps.passed.status }} {{ steps.seen.status }} {{ bad | default('no data') }} {{ steps[which].status }}", input: { which: summary } } }
"#,
    )
    .with_tools(|call| match call.step {
        "bad" => {
            let mut behavior = ToolBehavior::failure(TaskErrorKind::Transform, "boom");
            if let ToolBehavior::Fail(_, data) = &mut behavior {
                *data = Json::object([("left", Json::from(1))]);
            }
            behavior
        }
        _ => ToolBehavior::Configured,
    })
    .run();
    assert_eq!(step_text(&sim, "seen"), "FAILED transform 1 1 SKIPPED 1");
    assert_eq!(step_text(&sim, "summary"), "SKIPPED COMPLETED no data RUNNING");
}

/// A command with dynamic reads carries all values and resolves them by the same precedence.
#[test]
fn dynamic_reads_resolve_by_precedence() {
    let body = |expression: &str| {
        format!(
            r#"
workload: {{ a: input, b: input }}
workflow:
  - {{ step: a, tool: {{ kind: noop, result: {{ k: data }} }}, set: {{ ctx.b: variable }}, next: [l] }}
  - {{ step: l, loop: {{ in: 2, iterator: x }}, tool: {{ kind: noop, result: "{{{{ x }}}}" }}, next: [all] }}
  - {{ step: all, tool: {{ kind: noop, result: "{{{{ steps[pick].status }}}} {expression}", input: {{ pick: a }} }} }}
"#
        )
    };
    let expression = "{{ a.k }} {{ a.data.k }} {{ b }} {{ ctx.a.k }} {{ ctx.b }} {{ workload.b }} {{ l.data | length }} {{ steps.a.data.k }} {{ path }} {{ result.stats.total }} {{ ctx | length }} {{ steps | length }}";
    let everything = Simulation::from_body(&body(expression)).run();
    assert_eq!(
        step_text(&everything, "all"),
        "COMPLETED data data variable data variable input 2 data example 2 3 3"
    );
}

#[test]
fn iteration_item_has_all_names() {
    let sim = Simulation::from_body(
        r#"
workflow:
  - step: each
    loop: { in: [x, y], iterator: item }
    tool: { kind: noop, result: "{{ item }} {{ iter.item }} {{ _index }} {{ iter.index }} {{ loop_index }} {{ loop.index }} {{ _total }} {{ loop.last }} {{ iter._first }}" }
"#,
    )
    .run();
    let expected = r#"["x x 0 0 0 0 2 False True","y y 1 1 1 1 2 True False"]"#;
    assert_eq!(step_data(&sim, "each").get("results").unwrap().to_string(), expected);
}

/// In the `set` and the rules of a task, the names of the task and of its step mean the data of this
/// pass. In its config, they mean the data of the pass before.
#[test]
fn own_name_is_data_of_this_pass_after_the_task() {
    let sim = Simulation::from_body(
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
    )
    .run();
    assert_eq!(sim.status(), ExecutionStatus::Completed, "{}", sim.format_log());
    let expected = r#"{"a":"111","b":"1222","n":2,"rule":2,"seen":["none",1]}"#;
    assert_eq!(sim.state().ctx().to_string(), expected);
}
