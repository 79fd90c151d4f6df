use std::fmt::Write as _;

use noetl_playbook::{CheckOptions, Document, check};
use proptest::prelude::*;

use super::*;

fn build_plan(body: &str) -> Plan {
    let text =
        format!("apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: example }}\n{body}");
    let checked = check(&text, &CheckOptions::default());
    let Some(Document::Playbook(playbook)) = checked.document else {
        panic!("{:#?}", checked.diagnostics);
    };
    Plan::new(Arc::from(playbook)).unwrap()
}

/// Installation defaults apply only to settings that the playbook leaves unset.
#[test]
fn playbook_settings_override_defaults() {
    let steps = "workflow:
  - step: open
    tool: { kind: noop }
  - step: explicit
    tool: { kind: noop }
    output: { inline_max_bytes: 7 }
";
    let inline = |plan: &Plan| -> Vec<u64> {
        let steps = plan.graph().steps();
        steps.map(|step| plan.step(step).inline_max.as_bytes()).collect()
    };
    let plan = build_plan(steps);
    assert_eq!(inline(&plan), [MAX_INLINE_SIZE.as_bytes(), 7]);
    assert_eq!(plan.defaults().max_attempts.get(), 3);
    let defaults =
        PlanDefaults { inline_max: ByteSize::from_kib(1), max_attempts: MaxAttempts::clamped(5) };
    let overridden = plan.with_defaults(defaults);
    assert_eq!(inline(&overridden), [1024, 7]);
    assert_eq!(overridden.defaults(), defaults);
    let reference_first =
        "executor: { spec: { policy: { results: { reference_first: true } } } }\n";
    let reference_first = build_plan(&format!("{reference_first}{steps}")).with_defaults(defaults);
    assert_eq!(inline(&reference_first), [0, 7]);
}

/// Renders the values that the commands of each step need, one line per step.
fn render_context_needs(plan: &Plan) -> String {
    let mut text = String::new();
    for step in plan.graph().steps() {
        let step_plan = plan.step(step);
        let values = match &step_plan.context_needs.values {
            NeededValues::Everything => "everything".to_owned(),
            NeededValues::Reads(reads) => {
                let paths: Vec<String> = reads.iter().map(|read| read.path.join(".")).collect();
                paths.join(", ")
            }
        };
        let item = if step_plan.context_needs.item { " + item" } else { "" };
        let _ = writeln!(text, "{:<10} {values}{item}", step_plan.name);
    }
    text
}

#[test]
fn commands_carry_values_their_templates_read() {
    let plan = build_plan(
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
    insta::assert_snapshot!(render_context_needs(&plan));
}

/// The worker produces the rows of a cursor, but the values in its claim come from the server.
#[test]
fn frames_carry_values_their_claim_reads() {
    let plan = build_plan(
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
    assert_eq!(render_context_needs(&plan), "each       ctx.n, ctx.schema, queue, workload.db\n");
    let step = plan.step(plan.find_step("each").unwrap());
    assert_eq!(step.attempt_deadline.to_string(), "1d");
}

/// The definition digest excludes the name and the arcs of a step.
#[test]
fn identical_steps_share_definition_digest() {
    let digest_of = |name: &str, rest: &str| {
        let plan = build_plan(&format!(
            "workflow: [{{ step: {name}, spec: {{ cache: {{ key: k }} }}, {rest} }}]"
        ));
        plan.step(plan.entry_step()).definition
    };
    let one = digest_of("a", "tool: { kind: noop, result: 1 }");
    assert!(one.is_some());
    assert_eq!(one, digest_of("b", "desc: x, tool: { kind: noop, result: 1 }"));
    assert_ne!(one, digest_of("a", "tool: { kind: noop, result: 2 }"));
    assert_ne!(one, digest_of("a", "input: { x: 1 }, tool: { kind: noop, result: 1 }"));
}

#[test]
fn attempt_deadline_sums_task_timeouts() {
    let plan = build_plan(
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
    let deadlines: Vec<String> =
        steps.map(|step| plan.step(step).attempt_deadline.to_string()).collect();
    assert_eq!(deadlines, ["100s", "30s", "5s", "130s", "1d"]);
}

proptest! {
    /// The computation by strongly connected components equals a plain graph walk.
    #[test]
    fn reachable_sets_match_graph_walk(arcs in prop::collection::vec((0..8_u32, 0..8_u32), 0..20)) {
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
        let plan = build_plan(&body);
        for step in plan.graph().steps() {
            let walked = plan.graph().reachable_from(plan.graph().successors(step));
            for other in plan.graph().steps() {
                prop_assert_eq!(plan.step(step).reaches.contains(other), walked[other.index()]);
            }
        }
    }
}
