//! Data that is too large for an event.

use noetl_engine::{DecisionError, EmptyCache, EventData, EventKind};
use noetl_testkit::sim::{Simulation, ToolBehavior};
use noetl_types::{ExecutionStatus, Json};

/// A list of rows larger than the inline limit.
fn large_rows() -> Json {
    let row =
        |id: u32| Json::object([("id", Json::from(id)), ("text", Json::from("x".repeat(100)))]);
    Json::list((0..1000).map(row))
}

fn loading_sim(body: &str) -> Simulation {
    Simulation::from_body(body).with_tools(|call| match call.step {
        "load" => {
            ToolBehavior::Ok(Json::object([("rows", large_rows()), ("count", Json::from(1000))]))
        }
        _ => ToolBehavior::Configured,
    })
}

/// Inline data of a step.
fn inline_data<'s>(sim: &'s Simulation, step: &str) -> &'s Json {
    let index = sim.plan().find_step(step).unwrap();
    match &sim.state().step_state(index).unwrap().output.as_ref().unwrap().data {
        EventData::Inline(value) => value,
        EventData::External(reference) => panic!("{step} is at {}", reference.uri()),
    }
}

#[test]
fn large_data_is_readable_everywhere() {
    let sim = loading_sim(
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
    assert_eq!(sim.status(), ExecutionStatus::Completed, "{}", sim.format_log());
    assert_eq!(sim.state().ctx(), &Json::object([("third", Json::from(2))]));
    assert_eq!(inline_data(&sim, "small"), &Json::from(1000));
    assert_eq!(inline_data(&sim, "deep"), &Json::from("5 1000 True"));
    assert_eq!(inline_data(&sim, "whole"), &Json::from("1000 1000"));
    sim.repeat_decisions();
    // No event contains the rows, and the small parts of a reference are carried without fetching
    // it.
    assert!(
        sim.to_records().iter().all(|record| record_size(record) < 4096),
        "{}",
        sim.format_log()
    );
    insta::assert_snapshot!(command_contexts(&sim));
}

fn record_size(record: &noetl_types::EventRecord) -> usize {
    noetl_types::json::to_canonical(record).len()
}

/// Contexts of the commands, with references shortened to their small parts.
fn command_contexts(sim: &Simulation) -> String {
    let mut lines = Vec::new();
    for (event, record) in sim.log().iter().zip(sim.to_records()) {
        if let EventKind::CommandIssued(issued) = &event.kind {
            let context = record.event.context.unwrap_or_default().to_string();
            let uri = "noetl://execution/";
            let shortened = match context.split_once(uri) {
                Some((before, after)) => {
                    let rest = after.split_once('"').map_or("", |(_, rest)| rest);
                    format!("{before}…{rest}")
                }
                None => context,
            };
            let shortened: String =
                shortened.split("\"sha256\":\"").next().unwrap_or_default().into();
            lines.push(format!("{:<8} {shortened}", issued.step));
        }
    }
    lines.join("\n")
}

#[test]
fn loop_over_large_data_yields_large_data() {
    let sim = loading_sim(
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
    assert_eq!(sim.status(), ExecutionStatus::Completed, "{}", sim.format_log());
    assert_eq!(inline_data(&sim, "after"), &Json::from("999 1000 1000"));
    assert_eq!(inline_data(&sim, "last"), &Json::from(7));
    sim.repeat_decisions();
    let exit = sim.log().iter().find_map(|event| match &event.kind {
        EventKind::StepExited(exited) if exited.step == "each" => exited.data.clone(),
        _ => None,
    });
    assert!(matches!(exit, Some(EventData::External(_))));
}

#[test]
fn inline_max_bytes_moves_data_to_reference() {
    let sim = Simulation::from_body(
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
    assert_eq!(inline_data(&sim, "b"), &Json::from("1 1"));
    let index = sim.plan().find_step("a").unwrap();
    let output = sim.state().step_state(index).unwrap().output.clone().unwrap();
    assert!(matches!(output.data, EventData::External(_)));
}

#[test]
fn large_workload_is_stored_by_reference() {
    let big = Json::list((0..40_000).map(|n| Json::from(format!("number {n}"))));
    let sim = Simulation::from_body(
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
    assert_eq!(sim.status(), ExecutionStatus::Completed, "{}", sim.format_log());
    assert_eq!(inline_data(&sim, "a"), &Json::from("1 1 number 39999"));
    assert_eq!(inline_data(&sim, "b"), &Json::from(2));
    assert_eq!(inline_data(&sim, "c"), &Json::from("COMPLETED 1 1 number 1 4"));
}

/// The context of a command may itself be too large for an event.
#[test]
fn large_context_is_stored_by_reference() {
    let text = Json::from("y".repeat(60_000));
    let sim = Simulation::from_body(
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
        "all" => ToolBehavior::Configured,
        _ => ToolBehavior::Ok(text.clone()),
    })
    .run();
    assert_eq!(inline_data(&sim, "all"), &Json::from(300_000));
    let issued = sim
        .to_records()
        .into_iter()
        .rfind(|record| record.event.event_type.as_str() == "command.issued");
    let context = issued.unwrap().event.context.unwrap();
    assert!(context.get("context_ref").is_some(), "{context}");
}

/// A template that needs a payload stops the decision without any change.
#[test]
fn decision_requests_missing_payload() {
    use noetl_engine::{DecisionContext, EngineInput, decide};
    use noetl_playbook::command_context::EmptyPayloads;
    use noetl_types::{IdGenerator, MachineId, id::HighWaterMark};

    let mut sim = loading_sim(
        r#"
workflow:
  - { step: load, tool: { kind: http, url: x }, next: [wait] }
  - { step: wait, tool: { kind: noop }, next: { arcs: [{ step: end, when: "{{ load.rows[1].id }}" }] } }
"#,
    );
    sim.start().unwrap();
    sim.advance_once();
    let lease = sim.lease_command(sim.available_commands()[0], "w1");
    let report = EngineInput::Report(Box::new(sim.execute_lease(&lease).unwrap()));
    let mut ids = IdGenerator::new(MachineId::MAX, HighWaterMark::NONE);
    let mut context = DecisionContext {
        now: sim.now(),
        ids: &mut ids,
        payloads: &EmptyPayloads,
        caches: &EmptyCache,
    };
    let error = decide(sim.state(), sim.plan(), report, &mut context).unwrap_err();
    let DecisionError::NeedsPayload(uri) = error else {
        panic!("{error}");
    };
    assert!(uri.starts_with("noetl://execution/"), "{uri}");
}
