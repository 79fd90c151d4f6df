//! Playbooks and tools by chance. A seed determines all of it.

use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use noetl_playbook::model::{
    Condition, NoMatch, Playbook, RouteArc, Router, RouterMode, Set, Step,
};
use noetl_playbook::source::{Span, Spanned};
use noetl_playbook::template::Template;
use noetl_playbook::{CheckOptions, Document, check};
use noetl_testkit::sim::{Ask, Call, Play, SplitMix, Word};
use noetl_types::{Json, TaskErrorKind, sha256};

const ROOT: &str = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: example }\n";

pub(crate) fn playbook(text: &str) -> Playbook {
    match check(text, &CheckOptions::default()).document {
        Some(Document::Playbook(playbook)) => *playbook,
        _ => panic!("not a playbook:\n{text}"),
    }
}

/// A number that depends on a seed and on what is asked about, and on nothing else: a tool that is
/// called again does the same again.
pub(crate) fn draw(seed: u64, about: &str) -> SplitMix {
    let digest = sha256(format!("{seed}/{about}"));
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest.as_bytes()[..8]);
    SplitMix::new(u64::from_le_bytes(bytes))
}

/// Names of the steps of a graph, and the condition that the output of a step names each.
static TARGETS: LazyLock<Vec<(Arc<str>, Template)>> = LazyLock::new(|| {
    (0..MAX_STEPS)
        .map(|at| {
            let condition = format!("'s{at}' in output");
            (
                format!("s{at}").into(),
                Template::condition(&condition).unwrap(),
            )
        })
        .collect()
});
static STEP: LazyLock<Playbook> = LazyLock::new(|| {
    playbook(&format!(
        "{ROOT}workflow: [{{ step: s0, tool: {{ kind: noop }} }}]"
    ))
});

pub(crate) const MAX_STEPS: usize = 8;

/// A graph of steps; which arcs are taken is told by the output of each step. Made without going
/// through text, since tens of thousands are wanted.
pub(crate) fn graph(seed: u64, acyclic: bool) -> Playbook {
    let mut chance = draw(seed, "graph");
    let steps = 2 + chance.below(MAX_STEPS - 1);
    let density = 15 + u32::try_from(chance.below(50)).unwrap();
    let mut playbook = STEP.clone();
    playbook.executor.spec.policy.limits.max_step_runs = Some(4);
    let model = playbook.workflow[0].clone();
    playbook.workflow = (0..steps)
        .map(|at| {
            let mut arcs = Vec::new();
            for target in 0..steps {
                if (acyclic && target <= at) || !chance.percent(density) {
                    continue;
                }
                let (name, condition) = &TARGETS[target];
                let is_conditional = chance.percent(70);
                arcs.push(RouteArc {
                    step: Spanned::new(Arc::clone(name), Span::default()),
                    when: is_conditional
                        .then(|| Spanned::new(Condition::Test(condition.clone()), Span::default())),
                    set: Set::default(),
                });
            }
            let mode = if chance.percent(60) {
                RouterMode::Inclusive
            } else {
                RouterMode::Exclusive
            };
            Step {
                name: Spanned::new(Arc::clone(&TARGETS[at].0), Span::default()),
                next: Some(Router::new(mode, NoMatch::Complete, arcs)),
                ..model.clone()
            }
        })
        .collect();
    playbook
}

/// A tool that names some steps.
pub(crate) fn naming_tool(seed: u64) -> impl Fn(&Call<'_>) -> Play + 'static {
    move |call| {
        let mut chance = draw(seed, &format!("{}/{}", call.step, call.run));
        let named = (0..MAX_STEPS).filter(|_| chance.percent(50));
        Play::Ok(Json::list(named.map(|at| Json::from(format!("s{at}")))))
    }
}

/// A playbook with loops, cursors, guards, writes, pipelines, policies, slots, caches, failures and a
/// final step, whose steps write to variables of their own only: its outcome does not depend on who is
/// faster.
pub(crate) fn rich(seed: u64) -> String {
    let mut chance = draw(seed, "rich");
    let steps = 1 + chance.below(7);
    let mut text = format!("{ROOT}workload: {{ base: 3, list: [4, 5, 6] }}\n");
    let has_final_step = chance.percent(25);
    if has_final_step {
        text.push_str("executor: { spec: { final_step: last } }\n");
    }
    if chance.percent(15) {
        text.push_str("concurrency: { key: \"run-{{ workload.base }}\", limit: 2 }\n");
    }
    text.push_str("workflow:\n");
    if has_final_step {
        text.push_str(
            "  - { step: last, tool: { kind: shell, command: \"{{ steps.s0.status }}\" }, set: { ctx.last: true } }\n",
        );
        // The entry is the first step, unless one is called so.
        text = text.replace("final_step: last", "final_step: last, entry_step: s0");
    }
    for at in 0..steps {
        let _ = writeln!(text, "  - step: s{at}");
        if chance.percent(20) {
            let key = chance.below(2);
            let limit = 1 + chance.below(2);
            let _ = writeln!(
                text,
                "    concurrency: {{ key: \"k{key}-{{{{ base }}}}\", limit: {limit} }}\n    priority: {key}"
            );
        }
        if at > 0 && chance.percent(15) {
            let bound = chance.below(6);
            let _ = writeln!(text, "    when: \"{{{{ workload.base > {bound} }}}}\"");
        }
        let is_cursor = step_spec(&mut text, &mut chance, at);
        if at > 0 && !is_cursor && chance.percent(30) {
            parking_tool(&mut text, &mut chance, at);
        } else {
            step_tool(&mut text, &mut chance, at);
        }
        if chance.percent(40) {
            let _ = writeln!(
                text,
                "    set: {{ ctx.c{at}: \"{{{{ output }}}}\", ctx.deep.d{at}: {at} }}"
            );
        }
        step_arcs(&mut text, &mut chance, at, steps);
    }
    text
}

/// What a step loops over, how it takes failures, and whether it takes results over. Tells whether it
/// loops over a cursor.
fn step_spec(text: &mut String, chance: &mut SplitMix, at: usize) -> bool {
    let mut spec = Vec::new();
    let is_cursor = chance.percent(12);
    if is_cursor {
        step_cursor(text, chance);
    } else if chance.percent(35) {
        step_loop(text, chance);
    }
    if chance.percent(30) {
        spec.push("policy: { failure: { mode: best_effort } }".to_owned());
    }
    if !is_cursor && chance.percent(15) {
        // Steps that are made alike would share a result, and who is first to make it is chance.
        spec.push(format!("cache: {{ key: \"{at}-{{{{ base }}}}\" }}"));
    }
    if !spec.is_empty() {
        let _ = writeln!(text, "    spec: {{ {} }}", spec.join(", "));
    }
    is_cursor
}

fn step_cursor(text: &mut String, chance: &mut SplitMix) {
    let (rows, max_rows, chains) = (chance.below(8), 1 + chance.below(3), 1 + chance.below(3));
    let process = if chance.percent(25) {
        ", process: frame"
    } else {
        ""
    };
    let _ = writeln!(
        text,
        "    loop: {{ cursor: {{ claim: \"rows {rows}\" }}, iterator: x, spec: {{ mode: cursor, max_in_flight: {chains}, frame: {{ max_rows: {max_rows}{process} }} }} }}"
    );
}

fn step_loop(text: &mut String, chance: &mut SplitMix) {
    let source = [
        "3",
        "[7, 8]",
        "\"{{ workload.list }}\"",
        "\"a, b\"",
        "0",
        "\"{{ base }}\"",
    ];
    let source = chance.pick(&source).copied().unwrap_or("1");
    let mode = if chance.percent(60) {
        "parallel"
    } else {
        "sequential"
    };
    let width = 1 + chance.below(3);
    let _ = writeln!(
        text,
        "    loop: {{ in: {source}, iterator: x, spec: {{ mode: {mode}, max_in_flight: {width} }} }}"
    );
}

/// Tasks that wait, alone or in the middle of a pipeline. Not in the first step: others tell its data
/// to their tools, and when something happened differs from run to run.
fn parking_tool(text: &mut String, chance: &mut SplitMix, at: usize) {
    let policy = if chance.percent(40) {
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
    // Every wait has a signal of its own, so that it does not matter who asks first.
    let task = chance.pick(&tasks).copied().unwrap_or_default();
    let task = task.replace("AT", &at.to_string());
    if chance.percent(50) {
        let _ = writeln!(text, "    tool: {{ {task}{policy} }}");
    } else {
        let _ = writeln!(
            text,
            "    tool: [{{ name: one, kind: noop, result: 5, set: {{ kept: \"{{{{ output + base }}}}\", iter.seen: 1 }} }}, {{ name: parked, {task}{policy} }}, {{ name: two, kind: shell, command: \"{{{{ one }}}} {{{{ kept }}}} {{{{ iter.seen }}}}\" }}]"
        );
    }
}

fn step_tool(text: &mut String, chance: &mut SplitMix, at: usize) {
    let policy = if chance.percent(25) {
        ", spec: { policy: { rules: [{ when: \"{{ output.status == 'error' }}\", then: { do: retry, attempts: 2, delay: 0.1 } }] } }"
    } else {
        ""
    };
    if chance.percent(25) {
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

fn step_arcs(text: &mut String, chance: &mut SplitMix, at: usize, steps: usize) {
    let mode = if chance.percent(60) {
        "inclusive"
    } else {
        "exclusive"
    };
    let conditions = [
        "",
        ", when: \"{{ output is not none }}\"",
        ", when: \"{{ event.name == 'call.error' }}\"",
        ", when: \"{{ workload.base == 3 }}\"",
        ", when: \"{{ error is none }}\"",
    ];
    let mut arcs = Vec::new();
    for target in at + 1..steps {
        if chance.percent(45) {
            let condition = chance.pick(&conditions).copied().unwrap_or_default();
            let set = if chance.percent(20) {
                format!(", set: {{ ctx.a{at}_{target}: {target} }}")
            } else {
                String::new()
            };
            arcs.push(format!("{{ step: s{target}{condition}{set} }}"));
        }
    }
    if !arcs.is_empty() {
        let arcs = arcs.join(", ");
        let _ = writeln!(
            text,
            "    next: {{ spec: {{ mode: {mode} }}, arcs: [{arcs}] }}"
        );
    }
}

/// A tool that fails now and then, and always at the same places.
pub(crate) fn moody_tool(seed: u64) -> impl Fn(&Call<'_>) -> Play + 'static {
    move |call| {
        let about = format!(
            "{}/{}/{:?}/{}",
            call.step, call.label, call.index, call.attempt
        );
        let mut chance = draw(seed, &about);
        if call.label == "claim" {
            return Play::AsWritten;
        }
        if call.label != "one" && chance.percent(12) {
            return Play::fail(TaskErrorKind::ServerError, "no mood");
        }
        if call.label == "one" {
            return Play::AsWritten;
        }
        Play::Ok(Json::object([
            (
                "ran",
                call.config.get("command").cloned().unwrap_or_default(),
            ),
            ("index", Json::from(call.index)),
        ]))
    }
}

/// A world that says no or nothing now and then, and always at the same places.
pub(crate) fn moody_world(seed: u64) -> impl Fn(&Ask<'_>) -> Word + 'static {
    move |ask| {
        let about = format!("{}/{:?}/{}", ask.step, ask.index, ask.attempt);
        let mut chance = draw(seed, &about);
        match chance.below(10) {
            0 => Word::No,
            1 => Word::Silence,
            _ => Word::Yes,
        }
    }
}
