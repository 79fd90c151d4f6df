//! Random playbooks and tools, fully determined by a seed.

use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use noetl_playbook::model::{
    Condition, Playbook, RouteArc, Router, RouterMode, RouterSpec, SetClause, Step,
};
use noetl_playbook::source::{Span, Spanned};
use noetl_playbook::template::Template;
use noetl_playbook::{CheckOptions, Document, check};
use noetl_testkit::sim::{
    ExternalResponse, ResponseRequest, SimulatedCall, SplitMix, ToolBehavior,
};
use noetl_types::{Json, TaskErrorKind, sha256};

const PLAYBOOK_HEADER: &str =
    "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: example }\n";

pub(crate) fn parse_playbook(text: &str) -> Playbook {
    match check(text, &CheckOptions::default()).document {
        Some(Document::Playbook(playbook)) => *playbook,
        _ => panic!("not a playbook:\n{text}"),
    }
}

/// Random generator that depends only on the seed and the topic, so that a tool that is called
/// again behaves the same.
pub(crate) fn seeded_rng(seed: u64, topic: &str) -> SplitMix {
    let digest = sha256(format!("{seed}/{topic}"));
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest.as_bytes()[..8]);
    SplitMix::new(u64::from_le_bytes(bytes))
}

/// Step names with the condition that is true if the output of a step contains the name.
static STEP_CONDITIONS: LazyLock<Vec<(Arc<str>, Template)>> = LazyLock::new(|| {
    (0..MAX_STEPS)
        .map(|at| {
            let condition = format!("'s{at}' in output");
            (format!("s{at}").into(), Template::parse_condition(&condition).unwrap())
        })
        .collect()
});
static STEP_TEMPLATE: LazyLock<Playbook> = LazyLock::new(|| {
    parse_playbook(&format!("{PLAYBOOK_HEADER}workflow: [{{ step: s0, tool: {{ kind: noop }} }}]"))
});

pub(crate) const MAX_STEPS: usize = 8;

/// A graph of steps in which the output of a step selects its arcs. Built without parsing text,
/// since tests generate tens of thousands.
pub(crate) fn random_graph(seed: u64, acyclic: bool) -> Playbook {
    let mut rng = seeded_rng(seed, "graph");
    let steps = 2 + rng.number_below(MAX_STEPS - 1);
    let density = 15 + u32::try_from(rng.number_below(50)).unwrap();
    let mut playbook = STEP_TEMPLATE.clone();
    playbook.executor.spec.policy.limits.max_step_runs = Some(4);
    let model = playbook.workflow[0].clone();
    playbook.workflow = (0..steps)
        .map(|at| {
            let mut arcs = Vec::new();
            for target in 0..steps {
                if (acyclic && target <= at) || !rng.draw_percent(density) {
                    continue;
                }
                let (name, condition) = &STEP_CONDITIONS[target];
                let is_conditional = rng.draw_percent(70);
                arcs.push(RouteArc {
                    step: Spanned::new(Arc::clone(name), Span::default()),
                    when: is_conditional
                        .then(|| Spanned::new(Condition::Test(condition.clone()), Span::default())),
                    set: SetClause::default(),
                });
            }
            let mode =
                if rng.draw_percent(60) { RouterMode::Inclusive } else { RouterMode::Exclusive };
            Step {
                name: Spanned::new(Arc::clone(&STEP_CONDITIONS[at].0), Span::default()),
                next: Some(Router { spec: RouterSpec { mode, ..RouterSpec::default() }, arcs }),
                ..model.clone()
            }
        })
        .collect();
    playbook
}

/// A tool whose output is a list of step names.
pub(crate) fn step_naming_tool(seed: u64) -> impl Fn(&SimulatedCall<'_>) -> ToolBehavior + 'static {
    move |call| {
        let mut rng = seeded_rng(seed, &format!("{}/{}", call.step, call.run));
        let named = (0..MAX_STEPS).filter(|_| rng.draw_percent(50));
        ToolBehavior::Ok(Json::list(named.map(|at| Json::from(format!("s{at}")))))
    }
}

/// A playbook with loops, cursors, guards, writes, pipelines, policies, slots, caches, failures and
/// a final step. Each step writes only its own variables, so the outcome does not depend on
/// scheduling.
pub(crate) fn random_playbook(seed: u64) -> String {
    let mut rng = seeded_rng(seed, "rich");
    let steps = 1 + rng.number_below(7);
    let mut text = format!("{PLAYBOOK_HEADER}workload: {{ base: 3, list: [4, 5, 6] }}\n");
    let has_final_step = rng.draw_percent(25);
    if has_final_step {
        text.push_str("executor: { spec: { final_step: last } }\n");
    }
    if rng.draw_percent(15) {
        text.push_str("concurrency: { key: \"run-{{ workload.base }}\", limit: 2 }\n");
    }
    text.push_str("workflow:\n");
    if has_final_step {
        text.push_str(
            "  - { step: last, tool: { kind: shell, command: \"{{ steps.s0.status }}\" }, set: { ctx.last: true } }\n",
        );
        // Without `entry_step`, the first step would be the entry.
        text = text.replace("final_step: last", "final_step: last, entry_step: s0");
    }
    for at in 0..steps {
        let _ = writeln!(text, "  - step: s{at}");
        if rng.draw_percent(20) {
            let key = rng.number_below(2);
            let limit = 1 + rng.number_below(2);
            let _ = writeln!(
                text,
                "    concurrency: {{ key: \"k{key}-{{{{ base }}}}\", limit: {limit} }}\n    priority: {key}"
            );
        }
        if at > 0 && rng.draw_percent(15) {
            let bound = rng.number_below(6);
            let _ = writeln!(text, "    when: \"{{{{ workload.base > {bound} }}}}\"");
        }
        let is_cursor = write_step_spec(&mut text, &mut rng, at);
        if at > 0 && !is_cursor && rng.draw_percent(30) {
            write_suspending_tool(&mut text, &mut rng, at);
        } else {
            write_tool(&mut text, &mut rng, at);
        }
        if rng.draw_percent(40) {
            let _ = writeln!(
                text,
                "    set: {{ ctx.c{at}: \"{{{{ output }}}}\", ctx.deep.d{at}: {at} }}"
            );
        }
        write_arcs(&mut text, &mut rng, at, steps);
    }
    text
}

/// Writes the loop, failure mode and cache of a step. Returns true if the step loops over a cursor.
fn write_step_spec(text: &mut String, rng: &mut SplitMix, at: usize) -> bool {
    let mut spec = Vec::new();
    let is_cursor = rng.draw_percent(12);
    if is_cursor {
        write_cursor(text, rng);
    } else if rng.draw_percent(35) {
        write_loop(text, rng);
    }
    if rng.draw_percent(30) {
        spec.push("policy: { failure: { mode: best_effort } }".to_owned());
    }
    if !is_cursor && rng.draw_percent(15) {
        // Identical steps would share a cached result, and the step that stores it first is random.
        spec.push(format!("cache: {{ key: \"{at}-{{{{ base }}}}\" }}"));
    }
    if !spec.is_empty() {
        let _ = writeln!(text, "    spec: {{ {} }}", spec.join(", "));
    }
    is_cursor
}

fn write_cursor(text: &mut String, rng: &mut SplitMix) {
    let (rows, max_rows, chains) =
        (rng.number_below(8), 1 + rng.number_below(3), 1 + rng.number_below(3));
    let process = if rng.draw_percent(25) { ", process: frame" } else { "" };
    let _ = writeln!(
        text,
        "    loop: {{ cursor: {{ claim: \"rows {rows}\" }}, iterator: x, spec: {{ mode: cursor, max_in_flight: {chains}, frame: {{ max_rows: {max_rows}{process} }} }} }}"
    );
}

fn write_loop(text: &mut String, rng: &mut SplitMix) {
    let source = ["3", "[7, 8]", "\"{{ workload.list }}\"", "\"a, b\"", "0", "\"{{ base }}\""];
    let source = rng.pick_item(&source).copied().unwrap_or("1");
    let mode = if rng.draw_percent(60) { "parallel" } else { "sequential" };
    let width = 1 + rng.number_below(3);
    let _ = writeln!(
        text,
        "    loop: {{ in: {source}, iterator: x, spec: {{ mode: {mode}, max_in_flight: {width} }} }}"
    );
}

/// Writes a suspending task, alone or in a pipeline. Not for the first step: other steps pass its
/// data to their tools, and timestamps in it differ between runs.
fn write_suspending_tool(text: &mut String, rng: &mut SplitMix, at: usize) {
    let policy = if rng.draw_percent(40) {
        ", spec: { policy: { rules: [{ when: \"{{ output.status == 'error' }}\", then: { do: retry, attempts: 2, delay: 0.1 } }] } }"
    } else {
        ""
    };
    let tasks = [
        "kind: sleep, for: \"{{ base }}\"",
        "kind: wait, signal: go_AT, key: \"{{ _index | default(0) }}\", timeout: 1h",
        "kind: wait, mode: all, key: \"{{ _index | default(0) }}\", signals: [{ name: a_AT }, { name: b_AT }], timeout: 1h",
        "kind: approval, quorum: 2, timeout: 1h, on_timeout: reject",
        "kind: playbook, path: other, input: { n: \"{{ base }}\" }, return_result: true",
        "kind: playbook, path: other, payload: { n: 1 }, return_step: end, on_timeout: cancel",
        "kind: container, image: i, callback: true",
    ];
    // Every wait has a distinct signal, so that the order of the waits does not matter.
    let task = rng.pick_item(&tasks).copied().unwrap_or_default();
    let task = task.replace("AT", &at.to_string());
    if rng.draw_percent(50) {
        let _ = writeln!(text, "    tool: {{ {task}{policy} }}");
    } else {
        let _ = writeln!(
            text,
            "    tool: [{{ name: one, kind: noop, result: 5, set: {{ kept: \"{{{{ output + base }}}}\", iter.seen: 1 }} }}, {{ name: parked, {task}{policy} }}, {{ name: two, kind: shell, command: \"{{{{ one }}}} {{{{ kept }}}} {{{{ iter.seen }}}}\" }}]"
        );
    }
}

fn write_tool(text: &mut String, rng: &mut SplitMix, at: usize) {
    let policy = if rng.draw_percent(25) {
        ", spec: { policy: { rules: [{ when: \"{{ output.status == 'error' }}\", then: { do: retry, attempts: 2, delay: 0.1 } }] } }"
    } else {
        ""
    };
    if rng.draw_percent(25) {
        let _ = writeln!(
            text,
            "    tool: [{{ name: one, kind: noop, result: {at}, set: {{ step.kept: \"{{{{ output }}}}\" }} }}, {{ name: two, kind: shell, command: \"{{{{ one }}}} {{{{ base }}}}\"{policy} }}]"
        );
    } else {
        let _ = writeln!(
            text,
            "    tool: {{ kind: shell, command: \"{{{{ s0 | default('none') | tojson }}}} {{{{ workload.base }}}}\"{policy} }}"
        );
    }
}

fn write_arcs(text: &mut String, rng: &mut SplitMix, at: usize, steps: usize) {
    let mode = if rng.draw_percent(60) { "inclusive" } else { "exclusive" };
    let conditions = [
        "",
        ", when: \"{{ output is not none }}\"",
        ", when: \"{{ event.name == 'call.error' }}\"",
        ", when: \"{{ workload.base == 3 }}\"",
        ", when: \"{{ error is none }}\"",
    ];
    let mut arcs = Vec::new();
    for target in at + 1..steps {
        if rng.draw_percent(45) {
            let condition = rng.pick_item(&conditions).copied().unwrap_or_default();
            let set = if rng.draw_percent(20) {
                format!(", set: {{ ctx.a{at}_{target}: {target} }}")
            } else {
                String::new()
            };
            arcs.push(format!("{{ step: s{target}{condition}{set} }}"));
        }
    }
    if !arcs.is_empty() {
        let arcs = arcs.join(", ");
        let _ = writeln!(text, "    next: {{ spec: {{ mode: {mode} }}, arcs: [{arcs}] }}");
    }
}

/// A tool that fails at random but reproducible calls.
pub(crate) fn flaky_tool(seed: u64) -> impl Fn(&SimulatedCall<'_>) -> ToolBehavior + 'static {
    move |call| {
        let topic = format!("{}/{}/{:?}/{}", call.step, call.label, call.index, call.attempt);
        let mut rng = seeded_rng(seed, &topic);
        if call.label == "claim" {
            return ToolBehavior::Configured;
        }
        if call.label != "one" && rng.draw_percent(12) {
            return ToolBehavior::failure(TaskErrorKind::ServerError, "no mood");
        }
        if call.label == "one" {
            return ToolBehavior::Configured;
        }
        ToolBehavior::Ok(Json::object([
            ("ran", call.config.get("command").cloned().unwrap_or_default()),
            ("index", Json::from(call.index)),
        ]))
    }
}

/// External responses, some of which are negative or missing. The seed determines which.
pub(crate) fn flaky_world(
    seed: u64,
) -> impl Fn(&ResponseRequest<'_>) -> ExternalResponse + 'static {
    move |request| {
        let topic = format!("{}/{:?}/{}", request.step, request.index, request.attempt);
        let mut rng = seeded_rng(seed, &topic);
        match rng.number_below(10) {
            0 => ExternalResponse::Reject,
            1 => ExternalResponse::NoResponse,
            _ => ExternalResponse::Accept,
        }
    }
}
