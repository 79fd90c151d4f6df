//! What a name means, where more than one thing has it.

use noetl_engine::Data;
use noetl_testkit::sim::{Play, Sim};
use noetl_types::{ExecutionStatus, Json, TaskErrorKind};

/// The data of a step that went well.
fn data(sim: &Sim, step: &str) -> Json {
    let index = sim.plan().find(step).unwrap();
    let output = sim.state().step(index).and_then(|step| step.output.clone());
    match output
        .unwrap_or_else(|| panic!("{step} has no data\n{}", sim.table()))
        .data
    {
        Data::Inline(value) => value,
        Data::External(_) => panic!("{step} is elsewhere"),
    }
}

fn text(sim: &Sim, step: &str) -> String {
    let data = data(sim, step);
    data.as_str()
        .map_or_else(|| data.to_string(), str::to_owned)
}

/// The strongest of several equal names wins, on the server and on the worker alike.
#[test]
fn precedence() {
    let sim = Sim::of(
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
    let server = sim
        .state()
        .ctx()
        .get("server")
        .and_then(Json::as_str)
        .unwrap();
    assert_eq!(server, "data input input mine data input input");
    assert_eq!(
        text(&sim, "worker"),
        "data variable given mine data input input"
    );
}

#[test]
fn a_pipeline_is_read_by_label() {
    let sim = Sim::of(
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
    assert_eq!(sim.status(), ExecutionStatus::Completed, "{}", sim.table());
    assert_eq!(text(&sim, "after"), "hidden 1 1 1 1 2 5 5");
    assert_eq!(
        sim.state().ctx().to_string(),
        r#"{"first":1,"kept":5,"page":2}"#
    );
}

#[test]
fn steps_tell_what_became_of_them() {
    let sim = Sim::of(
        r#"
workflow:
  - step: bad
    tool: { kind: shell, command: x }
    next: { arcs: [{ step: seen, when: "{{ event.name == 'call.error' and event.payload.kind == 'transform' }}" }, { step: never }] }
  - { step: never, tool: { kind: noop } }
  - { step: passed, when: false, tool: { kind: noop }, next: [told] }
  - step: seen
    when: "{{ event.name == 'call.error' and event.step == 'bad' and result.left == 1 }}"
    tool: { kind: noop, result: "{{ steps.bad.status }} {{ steps.bad.error.kind }} {{ steps.bad.data.left }} {{ steps.bad.run }} {{ steps.never.status }} {{ result.left }}" }
    next: [passed]
  - { step: told, tool: { kind: noop, result: "{{ steps.passed.status }} {{ steps.seen.status }} {{ bad | default('no data') }} {{ steps[which].status }}", input: { which: told } } }
"#,
    )
    .with_tools(|call| match call.step {
        "bad" => {
            let mut play = Play::fail(TaskErrorKind::Transform, "boom");
            if let Play::Fail(_, data) = &mut play {
                *data = Json::object([("left", Json::from(1))]);
            }
            play
        }
        _ => Play::AsWritten,
    })
    .run();
    assert_eq!(text(&sim, "seen"), "FAILED transform 1 1 SKIPPED 1");
    assert_eq!(text(&sim, "told"), "SKIPPED COMPLETED no data RUNNING");
}

/// A command that may ask for anything carries everything, and finds it by the same rules.
#[test]
fn everything_is_found_by_precedence() {
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
    let everything = Sim::of(&body(expression)).run();
    assert_eq!(
        text(&everything, "all"),
        "COMPLETED data data variable data variable input 2 data example 2 3 3"
    );
}

/// An iteration sees its item under every name that it has.
#[test]
fn names_of_an_iteration() {
    let sim = Sim::of(
        r#"
workflow:
  - step: each
    loop: { in: [x, y], iterator: item }
    tool: { kind: noop, result: "{{ item }} {{ iter.item }} {{ _index }} {{ iter.index }} {{ loop_index }} {{ loop.index }} {{ _total }} {{ loop.last }} {{ iter._first }}" }
"#,
    )
    .run();
    let expected = r#"["x x 0 0 0 0 2 False True","y y 1 1 1 1 2 True False"]"#;
    assert_eq!(
        data(&sim, "each").get("results").unwrap().to_string(),
        expected
    );
}
