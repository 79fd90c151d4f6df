use std::fmt::Write as _;

use noetl_playbook::{CheckOptions, Document, check};
use proptest::prelude::*;

use super::*;

fn plan(body: &str) -> Plan {
    let text =
        format!("apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: example }}\n{body}");
    let checked = check(&text, &CheckOptions::default());
    let Some(Document::Playbook(playbook)) = checked.document else {
        panic!("{:#?}", checked.diagnostics);
    };
    Plan::new(Arc::from(playbook)).unwrap()
}

/// An installation says what a playbook leaves open, and nothing else.
#[test]
fn what_a_playbook_says_goes_before_what_holds_else() {
    let steps = "workflow:
  - step: open
    tool: { kind: noop }
  - step: said
    tool: { kind: noop }
    output: { inline_max_bytes: 7 }
";
    let inline = |plan: &Plan| -> Vec<u64> {
        let steps = plan.graph().steps();
        steps
            .map(|step| plan.step(step).inline_max.as_bytes())
            .collect()
    };
    let usual = plan(steps);
    assert_eq!(inline(&usual), [INLINE_MAX.as_bytes(), 7]);
    assert_eq!(usual.defaults().max_attempts.get(), 3);
    let defaults = Defaults {
        inline_max: ByteSize::from_kib(1),
        max_attempts: MaxAttempts::clamped(5),
    };
    let other = usual.with_defaults(defaults);
    assert_eq!(inline(&other), [1024, 7]);
    assert_eq!(other.defaults(), defaults);
    let first = "executor: { spec: { policy: { results: { reference_first: true } } } }\n";
    let first = plan(&format!("{first}{steps}")).with_defaults(defaults);
    assert_eq!(inline(&first), [0, 7]);
}

/// What the commands of each step carry.
fn carries(plan: &Plan) -> String {
    let mut text = String::new();
    for step in plan.graph().steps() {
        let facts = plan.step(step);
        let values = match &facts.carry.values {
            CarriedValues::Everything => "everything".to_owned(),
            CarriedValues::Reads(reads) => {
                let paths: Vec<String> = reads.iter().map(|read| read.path.join(".")).collect();
                paths.join(", ")
            }
        };
        let item = if facts.carry.item { " + item" } else { "" };
        let _ = writeln!(text, "{:<10} {values}{item}", facts.name);
    }
    text
}

#[test]
fn commands_carry_what_their_templates_read() {
    let plan = plan(
        r#"
workload: { host: h, key: k }
keychain:
  - { name: api, kind: bearer, token: "{{ workload.key }}", scope: local }
workflow:
  - step: plain
    tool: { kind: http, url: "http://{{ host }}/{{ ctx.page.next }}", headers: { a: "{{ keychain.api.token }}" } }
  - step: inputs
    input: { n: "{{ n }}", host: "{{ workload.host }}" }
    tool: { kind: noop, input: { m: "{{ plain.data.id }}" }, result: "{{ n + m }} {{ host }} {{ input.n }}" }
  - step: each
    loop: { in: [1], iterator: x }
    tool: { kind: noop, result: "{{ x.id }} {{ _index }} {{ iter.page }} {{ plain }} {{ plain.body }}" }
  - step: unread
    loop: { in: [1], iterator: x }
    tool: { kind: noop, result: "{{ loop.index }} {{ _total }}" }
  - step: by_iter
    loop: { in: [1], iterator: x }
    tool: { kind: noop, result: "{{ iter.x.id }}" }
  - step: rules
    tool:
      - name: first
        kind: noop
        set: { seen: "{{ output.n }}", ctx.total: "{{ ctx.total + output.n }}" }
        spec: { policy: { rules: [{ when: "{{ output.n > limits.max }}", then: { do: retry, delay: "{{ pause }}" } }] } }
      - { name: second, kind: noop, result: "{{ first.n }} {{ seen }} {{ _prev }} {{ results.first }}" }
  - step: facts
    tool: { kind: noop, result: "{{ steps.plain.status }} {{ steps['plain'].data.rows[0] }} {{ result.x }} {{ job.uuid }} {{ execution_id }}" }
  - step: dynamic
    tool: { kind: noop, result: "{{ steps[name].status }}" }
  - { step: some, tool: { kind: python, code: "result = args['x']", input: { x: "{{ plain.x }}" } } }
  - { step: all, tool: { kind: python, code: "result = context['plain']" } }
  - { step: odd, tool: { kind: noop, result: "{{ ctx['it''s'].a }} {{ ctx.a['b c'] }}" } }
"#,
    );
    insta::assert_snapshot!(carries(&plan));
}

/// The rows of a cursor are the worker's own; what its claim reads is not.
#[test]
fn frames_carry_what_their_claim_reads() {
    let plan = plan(
        r#"
workload: { queue: q }
workflow:
  - step: each
    loop:
      cursor: { auth: "{{ workload.db }}", claim: "select * from {{ queue }} limit {{ __frame_max_rows }}", options: { schema: "{{ ctx.schema }}" } }
      iterator: row
      spec: { mode: cursor }
    tool: { kind: noop, result: "{{ row.id }} {{ iter.row.id }} {{ _index }} {{ ctx.n }}" }
"#,
    );
    assert_eq!(
        carries(&plan),
        "each       ctx.n, ctx.schema, queue, workload.db\n"
    );
    let step = plan.step(plan.find("each").unwrap());
    assert_eq!(step.attempt_deadline.to_string(), "1d");
}

/// What a step is called and where it leads has no part in what it yields.
#[test]
fn results_are_shared_by_steps_that_are_made_alike() {
    let of = |name: &str, rest: &str| {
        let plan = plan(&format!(
            "workflow: [{{ step: {name}, spec: {{ cache: {{ key: k }} }}, {rest} }}]"
        ));
        plan.step(plan.entry()).definition
    };
    let one = of("a", "tool: { kind: noop, result: 1 }");
    assert!(one.is_some());
    assert_eq!(one, of("b", "desc: x, tool: { kind: noop, result: 1 }"));
    assert_ne!(one, of("a", "tool: { kind: noop, result: 2 }"));
    assert_ne!(
        one,
        of("a", "input: { x: 1 }, tool: { kind: noop, result: 1 }")
    );
}

#[test]
fn attempts_are_bounded_by_their_tasks() {
    let plan = plan(
        r"
executor: { spec: { policy: { defaults: { timeout_s: 100 } } } }
workflow:
  - { step: default, tool: { kind: noop } }
  - { step: of_kind, tool: { kind: http, url: x } }
  - { step: own, tool: { kind: http, url: x, timeout: 5s } }
  - { step: sum, tool: [{ name: a, kind: noop }, { name: b, kind: http, url: x }] }
  - { step: again, tool: { kind: noop, spec: { policy: { rules: [{ else: { do: retry } }] } } } }
",
    );
    let steps = plan.graph().steps();
    let deadlines: Vec<String> = steps
        .map(|step| plan.step(step).attempt_deadline.to_string())
        .collect();
    assert_eq!(deadlines, ["100s", "30s", "5s", "130s", "1d"]);
}

proptest! {
    /// The quick way along components finds what the plain walk finds.
    #[test]
    fn reach_is_what_walking_finds(arcs in prop::collection::vec((0..8_u32, 0..8_u32), 0..20)) {
        let mut body = "workflow:\n".to_owned();
        for from in 0..8 {
            let targets: Vec<String> = arcs
                .iter()
                .filter(|arc| arc.0 == from)
                .map(|arc| format!("{{ step: s{} }}", arc.1))
                .collect();
            let _ = writeln!(
                body,
                "  - {{ step: s{from}, tool: {{ kind: noop }}, next: {{ arcs: [{}] }} }}",
                targets.join(", ")
            );
        }
        let plan = plan(&body);
        for step in plan.graph().steps() {
            let walked = plan.graph().reachable(plan.graph().successors(step));
            for other in plan.graph().steps() {
                prop_assert_eq!(plan.step(step).reaches.contains(other), walked[other.index()]);
            }
        }
    }
}
