//! What `output` makes of data: selected parts, and runs that are put together.

use noetl_testkit::sim::{Play, Sim};
use noetl_types::{ExecutionStatus, Json};

use crate::json;

/// Three pages, each after as many items as its command tells.
fn pages(call: &noetl_testkit::sim::Call<'_>) -> Play {
    if call.label == "page" {
        let seen = call.config.get("command").map(ToString::to_string);
        let seen = seen.unwrap_or_default();
        let page = 1 + seen.trim_matches(['"', ' ']).parse::<usize>().unwrap() / 2;
        let next = if page < 3 { "true" } else { "false" };
        Play::Ok(json(&format!(
            r#"{{"body": {{"items": [{page}, {page}0]}}, "more": {next}}}"#
        )))
    } else {
        Play::AsWritten
    }
}

fn ctx(sim: &Sim, name: &str) -> String {
    let found = sim.state().ctx().get(name).cloned();
    found.unwrap_or_default().to_string()
}

#[test]
fn a_task_that_is_jumped_to_gathers_its_runs() {
    let sim = Sim::of(
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
    .with_tools(pages)
    .run();
    assert_eq!(sim.status(), ExecutionStatus::Completed, "{}", sim.table());
    assert_eq!(ctx(&sim, "n"), "6");
    assert_eq!(ctx(&sim, "last"), "[3,30]");
}

#[test]
fn a_loop_gathers_its_iterations() {
    let sim = Sim::of(
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
    assert_eq!(sim.status(), ExecutionStatus::Completed, "{}", sim.table());
    assert_eq!(ctx(&sim, "whole"), r#"{"k1":1,"k2":2,"k3":3}"#);
    assert_eq!(ctx(&sim, "total"), "3");
}

#[test]
fn more_than_may_be_gathered_is_a_failure() {
    let body = |output: &str| {
        format!(
            "workflow:\n  - step: start\n    loop: {{ in: [1, 2, 3], iterator: x }}\n    tool: {{ kind: noop, result: 1 }}\n    output: {{ accumulate: {output} }}\n"
        )
    };
    let fitting = Sim::of(&body("{ enabled: true, max_items: 3 }")).run();
    assert_eq!(fitting.status(), ExecutionStatus::Completed);
    let over = Sim::of(&body("{ enabled: true, max_items: 2 }")).run();
    assert_eq!(over.status(), ExecutionStatus::Failed);
    assert!(over.table().contains("limit"), "{}", over.table());
    let off = Sim::of(&body("{ enabled: false, max_items: 2 }")).run();
    assert_eq!(off.status(), ExecutionStatus::Completed);
}

/// A part that is selected is found wherever the data is, and without fetching it.
#[test]
fn a_selected_part_is_read_inline_and_by_reference() {
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
        let sim = Sim::of(&body(bytes)).run();
        assert_eq!(sim.status(), ExecutionStatus::Completed, "{}", sim.table());
        assert_eq!(ctx(&sim, "seen"), r#""8 of 2""#);
        assert_eq!(ctx(&sim, "ref"), is_external);
    }
    let sim = Sim::of(&body(0)).run();
    let records = sim.records();
    let extracted = records.iter().find_map(|record| {
        let result = record.event.result.as_ref()?;
        let text = result.to_string();
        text.contains("extracted").then_some(text)
    });
    let extracted = extracted.expect("a reference");
    assert!(extracted.contains(r#""last_id":8"#), "{extracted}");
    let _: Json = json(&extracted);
}
