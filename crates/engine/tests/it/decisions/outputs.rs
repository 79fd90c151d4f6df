//! The `output` block: selected parts and accumulated results.

use noetl_testkit::sim::{Simulation, ToolBehavior};
use noetl_types::{ExecutionStatus, Json};

use crate::decisions::parse_json;

/// A tool with three pages. Its command contains the number of items seen so far.
fn paged_tool(call: &noetl_testkit::sim::SimulatedCall<'_>) -> ToolBehavior {
    if call.label == "page" {
        let seen = call.config.get("command").map(ToString::to_string);
        let seen = seen.unwrap_or_default();
        let page = 1 + seen.trim_matches(['"', ' ']).parse::<usize>().unwrap() / 2;
        let next = if page < 3 { "true" } else { "false" };
        ToolBehavior::Ok(parse_json(&format!(
            r#"{{"body": {{"items": [{page}, {page}0]}}, "more": {next}}}"#
        )))
    } else {
        ToolBehavior::Configured
    }
}

fn ctx_json(sim: &Simulation, name: &str) -> String {
    let found = sim.state().ctx().get(name).cloned();
    found.unwrap_or_default().to_string()
}

#[test]
fn repeated_task_accumulates_results() {
    let sim = Simulation::from_body(
        r#"
workflow:
  - step: start
    tool:
      - name: page
        kind: shell
        command: "{{ page.all | default([]) | length }} "
        output: { accumulate: { enabled: true, strategy: concat, merge_path: $.body.items, manifest_as: all } }
        spec:
          policy:
            rules:
              - { when: "{{ output.data.more }}", then: { do: jump, to: page } }
              - { else: { then: { do: continue } } }
      - { name: count, kind: noop, result: { n: "{{ page.all | length }}", last: "{{ page.body['items'] }}" } }
    set: { ctx.all: "{{ start.page.all }}", ctx.n: "{{ output.n }}", ctx.last: "{{ output.last }}" }
"#,
    )
    .with_tools(paged_tool)
    .run();
    assert_eq!(sim.status(), ExecutionStatus::Completed, "{}", sim.format_log());
    assert_eq!(ctx_json(&sim, "n"), "6");
    assert_eq!(ctx_json(&sim, "last"), "[3,30]");
}

#[test]
fn loop_accumulates_iterations() {
    let sim = Simulation::from_body(
        r#"
workflow:
  - step: start
    loop: { in: [1, 2, 3], iterator: x, spec: { mode: parallel } }
    tool: { kind: noop, result: { part: { "k{{ x }}": "{{ x }}" } } }
    output:
      accumulate: { enabled: true, strategy: merge, merge_path: $.part }
      select: [{ path: "$.stats.total", as: total }]
    set: { ctx.whole: "{{ output.accumulated }}", ctx.total: "{{ output.total }}" }
"#,
    )
    .run();
    assert_eq!(sim.status(), ExecutionStatus::Completed, "{}", sim.format_log());
    assert_eq!(ctx_json(&sim, "whole"), r#"{"k1":1,"k2":2,"k3":3}"#);
    assert_eq!(ctx_json(&sim, "total"), "3");
}

#[test]
fn accumulating_too_many_items_fails() {
    let body = |output: &str| {
        format!(
            "workflow:\n  - step: start\n    loop: {{ in: [1, 2, 3], iterator: x }}\n    tool: {{ kind: noop, result: 1 }}\n    output: {{ accumulate: {output} }}\n"
        )
    };
    let fitting = Simulation::from_body(&body("{ enabled: true, max_items: 3 }")).run();
    assert_eq!(fitting.status(), ExecutionStatus::Completed);
    let over = Simulation::from_body(&body("{ enabled: true, max_items: 2 }")).run();
    assert_eq!(over.status(), ExecutionStatus::Failed);
    assert!(over.format_log().contains("limit"), "{}", over.format_log());
    let off = Simulation::from_body(&body("{ enabled: false, max_items: 2 }")).run();
    assert_eq!(off.status(), ExecutionStatus::Completed);
}

/// A selected part is available without fetching data that is stored by reference.
#[test]
fn selected_part_is_readable_inline_and_by_reference() {
    let body = |bytes: u32| {
        format!(
            r#"
workflow:
  - step: start
    tool: {{ kind: noop, result: {{ rows: [{{ id: 7 }}, {{ id: 8 }}], n: 2 }} }}
    output:
      inline_max_bytes: {bytes}
      output_select: [rows]
      select: [{{ path: "$.rows[1].id", as: last_id }}]
    next: {{ arcs: [{{ step: then }}] }}
  - step: then
    tool: {{ kind: noop, result: "{{{{ start.last_id }}}} of {{{{ start.n }}}}" }}
    set: {{ ctx.seen: "{{{{ output }}}}", ctx.ref: "{{{{ start._ref is defined }}}}" }}
"#
        )
    };
    for (bytes, is_external) in [(1000, "false"), (0, "true")] {
        let sim = Simulation::from_body(&body(bytes)).run();
        assert_eq!(sim.status(), ExecutionStatus::Completed, "{}", sim.format_log());
        assert_eq!(ctx_json(&sim, "seen"), r#""8 of 2""#);
        assert_eq!(ctx_json(&sim, "ref"), is_external);
    }
    let sim = Simulation::from_body(&body(0)).run();
    let records = sim.to_records();
    let extracted = records.iter().find_map(|record| {
        let result = record.event.result.as_ref()?;
        let text = result.to_string();
        text.contains("extracted").then_some(text)
    });
    let extracted = extracted.expect("a reference");
    assert!(extracted.contains(r#""last_id":8"#), "{extracted}");
    let _: Json = parse_json(&extracted);
}
