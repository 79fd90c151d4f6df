//! Data that is too big for an event, on its way through a run.

use noetl_engine::{Data, EventKind, NoCaches, Refused};
use noetl_testkit::sim::{Play, Sim};
use noetl_types::{ExecutionStatus, Json};

/// A list of rows, a good deal larger than what stays in the log.
fn rows() -> Json {
    let row = |id: u32| {
        Json::object([
            ("id", Json::from(id)),
            ("text", Json::from("x".repeat(100))),
        ])
    };
    Json::list((0..1000).map(row))
}

fn loading(body: &str) -> Sim {
    Sim::of(body).with_tools(|call| match call.step {
        "load" => Play::Ok(Json::object([
            ("rows", rows()),
            ("count", Json::from(1000)),
        ])),
        _ => Play::AsWritten,
    })
}

/// The data of a step, where it stayed in the log.
fn inline<'s>(sim: &'s Sim, step: &str) -> &'s Json {
    let index = sim.plan().find(step).unwrap();
    match &sim
        .state()
        .step(index)
        .unwrap()
        .output
        .as_ref()
        .unwrap()
        .data
    {
        Data::Inline(value) => value,
        Data::External(reference) => panic!("{step} is at {}", reference.uri()),
    }
}

#[test]
fn big_data_is_read_wherever_it_is_needed() {
    let sim = loading(
        r#"
workflow:
  - step: load
    tool: { kind: http, url: x }
    set: { ctx.third: "{{ output.rows[2].id }}" }
    next: { arcs: [{ step: small, when: "{{ output.rows | length == 1000 }}" }] }
  - step: small
    when: "{{ load.rows[999].id == 999 }}"
    tool: { kind: noop, result: "{{ load.count }}" }
    next: [deep, whole]
  - { step: deep, tool: { kind: noop, result: "{{ load.rows[5].id }} {{ steps.load.data.count }} {{ load._ref is defined }}" } }
  - { step: whole, tool: { kind: noop, result: "{{ load.data.rows | length }} {{ (ctx.load).count }}" } }
"#,
    )
    .run();
    assert_eq!(sim.status(), ExecutionStatus::Completed, "{}", sim.table());
    assert_eq!(sim.state().ctx(), &Json::object([("third", Json::from(2))]));
    assert_eq!(inline(&sim, "small"), &Json::from(1000));
    assert_eq!(inline(&sim, "deep"), &Json::from("5 1000 True"));
    assert_eq!(inline(&sim, "whole"), &Json::from("1000 1000"));
    sim.decide_again();
    // No event holds the rows, and what a reference tells is carried without it.
    assert!(
        sim.records().iter().all(|record| serde_size(record) < 4096),
        "{}",
        sim.table()
    );
    insta::assert_snapshot!(commands(&sim));
}

fn serde_size(record: &noetl_types::EventRecord) -> usize {
    noetl_types::json::to_canonical(record).len()
}

/// What the commands carry, references by their small parts only.
fn commands(sim: &Sim) -> String {
    let mut lines = Vec::new();
    for (event, record) in sim.log().iter().zip(sim.records()) {
        if let EventKind::CommandIssued(issued) = &event.kind {
            let context = record.event.context.unwrap_or_default().to_string();
            let uri = "noetl://execution/";
            let told = match context.split_once(uri) {
                Some((before, after)) => {
                    let rest = after.split_once('"').map_or("", |(_, rest)| rest);
                    format!("{before}…{rest}")
                }
                None => context,
            };
            let told: String = told
                .split("\"sha256\":\"")
                .next()
                .unwrap_or_default()
                .into();
            lines.push(format!("{:<8} {told}", issued.step));
        }
    }
    lines.join("\n")
}

#[test]
fn a_loop_goes_over_big_data_and_yields_big_data() {
    let sim = loading(
        r#"
workflow:
  - { step: load, tool: { kind: http, url: x }, next: [each] }
  - step: each
    loop: { in: "{{ load.rows }}", iterator: row, spec: { mode: parallel, max_in_flight: 50 } }
    tool: { kind: noop, result: { id: "{{ row.id }}", text: "{{ row.text }}" } }
    next: { arcs: [{ step: after, when: "{{ output.data[998].id == 998 and output.stats.success == 1000 }}" }] }
  - step: after
    tool: { kind: noop, result: "{{ each.results[999].id }} {{ each.data | length }} {{ each.stats.total }}" }
    next: { arcs: [{ step: last, when: "{{ each.data[1].id == 1 }}" }] }
  - { step: last, tool: { kind: noop, result: "{{ steps[step_name].data.data[7].id }}", input: { step_name: each } } }
"#,
    )
    .run();
    assert_eq!(sim.status(), ExecutionStatus::Completed, "{}", sim.table());
    assert_eq!(inline(&sim, "after"), &Json::from("999 1000 1000"));
    assert_eq!(inline(&sim, "last"), &Json::from(7));
    sim.decide_again();
    let exit = sim.log().iter().find_map(|event| match &event.kind {
        EventKind::StepExited(exited) if exited.step == "each" => exited.data.clone(),
        _ => None,
    });
    assert!(matches!(exit, Some(Data::External(_))));
}

#[test]
fn data_moves_out_where_the_playbook_says_so() {
    let sim = Sim::of(
        r#"
workflow:
  - step: a
    output: { inline_max_bytes: 0 }
    tool: { kind: noop, result: { n: 1 } }
    next: { arcs: [{ step: b, when: "{{ output.n == 1 }}" }] }
  - { step: b, tool: { kind: noop, result: "{{ a.n }} {{ result.n }}" } }
"#,
    )
    .run();
    assert_eq!(inline(&sim, "b"), &Json::from("1 1"));
    let index = sim.plan().find("a").unwrap();
    let output = sim.state().step(index).unwrap().output.clone().unwrap();
    assert!(matches!(output.data, Data::External(_)));
}

#[test]
fn a_big_workload_is_kept_by_reference() {
    let big = Json::list((0..40_000).map(|n| Json::from(format!("number {n}"))));
    let sim = Sim::of(
        r#"
workload: { small: 1 }
workflow:
  - step: a
    when: "{{ workload.big[3] == 'number 3' and small == 1 }}"
    tool: { kind: noop, result: "{{ workload.small }} {{ small }} {{ big[39999] }}" }
    next: [b]
  - { step: b, tool: { kind: noop, result: "{{ (workload | length) }}" }, next: [c] }
  - { step: c, tool: { kind: noop, result: "{{ steps[which].status }} {{ small }} {{ ctx.small }} {{ big[1] }} {{ ctx | length }}", input: { which: a } } }
"#,
    )
    .with_payload(Json::object([("big", big)]))
    .run();
    assert_eq!(sim.status(), ExecutionStatus::Completed, "{}", sim.table());
    assert_eq!(inline(&sim, "a"), &Json::from("1 1 number 39999"));
    assert_eq!(inline(&sim, "b"), &Json::from(2));
    assert_eq!(inline(&sim, "c"), &Json::from("COMPLETED 1 1 number 1 4"));
}

/// What a command carries may itself be too big for an event.
#[test]
fn a_big_context_is_kept_by_reference() {
    let text = Json::from("y".repeat(60_000));
    let sim = Sim::of(
        r#"
workflow:
  - { step: a, tool: { kind: shell, command: x }, next: [b] }
  - { step: b, tool: { kind: shell, command: x }, next: [c] }
  - { step: c, tool: { kind: shell, command: x }, next: [d] }
  - { step: d, tool: { kind: shell, command: x }, next: [e] }
  - { step: e, tool: { kind: shell, command: x }, next: [all] }
  - { step: all, tool: { kind: noop, result: "{{ (a ~ b ~ c ~ d ~ e) | length }}" } }
"#,
    )
    .with_tools(move |call| match call.step {
        "all" => Play::AsWritten,
        _ => Play::Ok(text.clone()),
    })
    .run();
    assert_eq!(inline(&sim, "all"), &Json::from(300_000));
    let issued = sim
        .records()
        .into_iter()
        .rfind(|record| record.event.event_type.as_str() == "command.issued");
    let context = issued.unwrap().event.context.unwrap();
    assert!(context.get("context_ref").is_some(), "{context}");
}

/// A template that needs a payload stops the decision, and nothing has changed.
#[test]
fn a_decision_asks_for_what_it_needs() {
    use noetl_engine::{Input, Moment, decide};
    use noetl_playbook::carried::NoPayloads;
    use noetl_types::{IdGenerator, MachineId, id::HighWater};

    let mut sim = loading(
        r#"
workflow:
  - { step: load, tool: { kind: http, url: x }, next: [wait] }
  - { step: wait, tool: { kind: noop }, next: { arcs: [{ step: end, when: "{{ load.rows[1].id }}" }] } }
"#,
    );
    sim.start().unwrap();
    sim.step();
    let lease = sim.lease(sim.available()[0], "w1");
    let report = Input::Report(Box::new(sim.work(&lease).unwrap()));
    let mut ids = IdGenerator::new(MachineId::MAX, HighWater::NONE);
    let mut moment = Moment {
        now: sim.now(),
        ids: &mut ids,
        payloads: &NoPayloads,
        caches: &NoCaches,
    };
    let refused = decide(sim.state(), sim.plan(), report, &mut moment).unwrap_err();
    let Refused::NeedsPayload(uri) = refused else {
        panic!("{refused}");
    };
    assert!(uri.starts_with("noetl://execution/"), "{uri}");
}
