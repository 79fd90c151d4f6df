//! Random playbooks and their expected outcomes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use noetl_engine::event::SuspensionKind;
use noetl_engine::{EventData, ExecutionState, Plan, StepOutput};
use noetl_oracle::generate::{GenConfig, generate_playbook};
use noetl_playbook::model::Playbook;
use noetl_playbook::{CheckOptions, Document, check};
use noetl_store::prelude::*;
use noetl_store::{NewCatalogEntry, SqliteStore};
use noetl_testkit::sim::{ExternalResponse, ResponseRequest, Simulation, SplitMix};
use noetl_types::{
    CatalogId, ExecutionStatus, Json, PlaybookPath, StepName, TenantId, Timestamp, sha256,
};

use crate::simulation::fault_plan::seeded_rng;
use crate::simulation::tools::SimulatedTools;

/// A simulated playbook.
pub(crate) struct SimPlaybook {
    pub(crate) catalog_id: CatalogId,
    pub(crate) path: PlaybookPath,
    pub(crate) text: String,
    pub(crate) plan: Plan,
    pub(crate) tools: SimulatedTools,
    /// Outcome of every undisturbed run; `None` if it depends on timing.
    pub(crate) expected: Option<RunOutcome>,
}

/// Outcome of a run, without time-dependent data.
#[derive(Debug, PartialEq)]
pub(crate) struct RunOutcome {
    status: ExecutionStatus,
    steps: BTreeMap<StepName, StepOutput>,
    ctx: Json,
}

/// Timing dependence of a playbook's outcome.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TimingDependence {
    None,
    Time,
}

/// Generates the playbooks of a world.
pub(crate) fn generate_playbooks(seed: u64) -> Vec<SimPlaybook> {
    let mut rng = seeded_rng(seed, "books");
    let mut playbooks: Vec<SimPlaybook> = (0..=rng.number_below(2))
        .map(|index| {
            let number = 2 * seed + index as u64;
            if rng.draw_percent(25) {
                // Waits, claims and slots occur only in the playbooks written by this module.
                let config = GenConfig {
                    max_steps: 4,
                    sleeps: false,
                    approvals: false,
                    children: false,
                    cursors: false,
                    slots: false,
                    ..GenConfig::order_independent()
                };
                let text = generate_playbook(number, &config).to_yaml();
                SimPlaybook::new(index, text, SimulatedTools::Scripted, TimingDependence::None)
            } else {
                let (text, timing) = random_playbook(number);
                SimPlaybook::new(index, text, SimulatedTools::Random(number), timing)
            }
        })
        .collect();
    if playbooks.iter().any(|playbook| playbook.text.contains("path: child")) {
        let mut child = SimPlaybook::new(
            playbooks.len(),
            CHILD_PLAYBOOK.to_owned(),
            SimulatedTools::Scripted,
            TimingDependence::Time,
        );
        child.path = PlaybookPath::new("child").expect("a path");
        playbooks.push(child);
    }
    playbooks
}

/// A child playbook that returns its input.
const CHILD_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: child }
workload: { n: 0 }
workflow:
  - { step: start, tool: { kind: noop, result: { n: \"{{ workload.n }}\" } } }
";

/// Slot keys and the maximum number of holders of each.
pub(crate) const SLOT_LIMITS: [(&str, u32); 3] = [("run-3", 2), ("one-3", 1), ("two-3", 2)];

/// A signal that is never sent.
pub(crate) const NEVER: &str = "never";

/// Returns the reaction of users to a waiting task.
pub(crate) fn user_decision(step: &str, signals: &[&str], is_approval: bool) -> ExternalResponse {
    if signals.contains(&NEVER) {
        ExternalResponse::NoResponse
    } else if is_approval && step == "s2" {
        ExternalResponse::Reject
    } else {
        ExternalResponse::Accept
    }
}

fn answer_for_user(request: &ResponseRequest<'_>) -> ExternalResponse {
    let (signals, is_approval) = match request.suspension {
        SuspensionKind::Wait(wait) => {
            (wait.signals.iter().map(|signal| signal.name.as_str()).collect(), false)
        }
        SuspensionKind::Approval(_) => (Vec::new(), true),
        SuspensionKind::Sleep(_)
        | SuspensionKind::Child(_)
        | SuspensionKind::Callback(_)
        | SuspensionKind::Broken(_) => (Vec::new(), false),
    };
    user_decision(request.step, &signals, is_approval)
}

impl SimPlaybook {
    fn new(index: usize, text: String, tools: SimulatedTools, timing: TimingDependence) -> Self {
        let checked = check(&text, &CheckOptions::default());
        let Some(Document::Playbook(playbook)) = checked.document else {
            panic!("not a playbook:\n{text}\n{:#?}", checked.diagnostics);
        };
        let playbook: Playbook = *playbook;
        let expected = (timing == TimingDependence::None).then(|| {
            let simulation = Simulation::from_playbook(playbook.clone())
                .with_light_checks()
                .with_tools(move |call| tools.play_call(call))
                .with_responses(answer_for_user)
                .run();
            RunOutcome::from_state(simulation.plan(), simulation.state())
        });
        Self {
            catalog_id: CatalogId::new(1_000 + i64::try_from(index).expect("few playbooks"))
                .expect("an id"),
            path: PlaybookPath::new(format!("book{index}")).expect("a path"),
            text,
            plan: Plan::new(Arc::new(playbook)).expect("a plan"),
            tools,
            expected,
        }
    }

    pub(crate) async fn register_in_catalog(&self, store: &SqliteStore) {
        let entry = NewCatalogEntry {
            catalog_id: self.catalog_id,
            tenant_id: TenantId::default(),
            path: self.path.clone(),
            kind: "playbook".into(),
            content: self.text.as_str().into(),
            sha256: sha256(&self.text),
            meta: None,
            now: Timestamp::from_unix_ms(0).expect("a time"),
        };
        store.register_definition(entry).await.expect("registered");
    }
}

impl RunOutcome {
    pub(crate) fn from_state(plan: &Plan, state: &ExecutionState) -> Self {
        let status = state.status();
        // A failed run stops its other steps at random points, so their outputs depend on timing.
        let is_whole = status == ExecutionStatus::Completed;
        let steps = plan.graph().steps().filter(|_| is_whole);
        let steps = steps.filter_map(|step| {
            let mut output = state.step_state(step)?.output.clone()?;
            if let EventData::Inline(data) = &output.data {
                output.data = EventData::Inline(strip_time_dependent(data));
            }
            output.labels = output.labels.as_ref().map(strip_time_dependent);
            Some((plan.step(step).name.clone(), output))
        });
        Self {
            status,
            steps: steps.collect(),
            ctx: if is_whole { strip_time_dependent(state.ctx()) } else { Json::Null },
        }
    }
}

/// Returns a value without time-dependent data and without ids.
fn strip_time_dependent(value: &Json) -> Json {
    const TIME_DEPENDENT_KEYS: [&str; 5] =
        ["slept_ms", "fired_at", "received_at", "at", "execution_id"];
    match value {
        Json::Map(map) => {
            let stable = map.iter().filter(|(key, _)| !TIME_DEPENDENT_KEYS.contains(&&***key));
            Json::object(stable.map(|(key, value)| (key.clone(), strip_time_dependent(value))))
        }
        Json::List(items) => Json::list(items.iter().map(strip_time_dependent)),
        other => other.clone(),
    }
}

const PLAYBOOK_HEADER: &str = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: simulated }\nworkload: { base: 3, list: [4, 5, 6] }\n";
const RETRY_POLICY: &str = ", spec: { policy: { rules: [{ when: \"{{ output.status == 'error' }}\", then: { do: retry, attempts: 3, delay: 0.2 } }] } }";

/// Generates a playbook with sequences, forks, joins, loops, frames, pipelines, retries and
/// failures. Each step writes only to its own variables.
fn random_playbook(number: u64) -> (String, TimingDependence) {
    let mut rng = seeded_rng(number, "written");
    let steps = 1 + rng.number_below(4);
    let mut timing = TimingDependence::None;
    let mut text = PLAYBOOK_HEADER.to_owned();
    let has_final_step = rng.draw_percent(20);
    if has_final_step {
        text.push_str("executor: { spec: { final_step: last, entry_step: s0 } }\n");
    }
    if rng.draw_percent(20) {
        text.push_str("concurrency: { key: \"run-{{ workload.base }}\", limit: 2 }\n");
    }
    text.push_str("workflow:\n");
    for index in 0..steps {
        let _ = writeln!(text, "  - step: s{index}");
        if rng.draw_percent(20) {
            let (key, limit) = [("one", 1), ("two", 2)][rng.number_below(2)];
            let _ = writeln!(
                text,
                "    concurrency: {{ key: \"{key}-{{{{ base }}}}\", limit: {limit} }}"
            );
        }
        if index > 0 && rng.draw_percent(15) {
            let bound = rng.number_below(6);
            let _ = writeln!(text, "    when: \"{{{{ workload.base > {bound} }}}}\"");
        }
        let is_cursor = write_loop(&mut text, &mut rng);
        let cache = (!is_cursor && rng.draw_percent(15)).then(|| format!("{number}-{index}"));
        if write_spec(&mut text, &mut rng, cache) {
            timing = TimingDependence::Time;
        }
        // Later steps pass the output of the first step to their tools, so it must not depend on
        // time.
        if index > 0 && !is_cursor && rng.draw_percent(35) {
            write_suspending_task(&mut text, &mut rng, index);
        } else {
            write_tool(&mut text, &mut rng, index);
        }
        if rng.draw_percent(40) {
            let _ = writeln!(text, "    set: {{ ctx.c{index}: \"{{{{ output }}}}\" }}");
        }
        write_arcs(&mut text, &mut rng, index, steps);
    }
    if has_final_step {
        text.push_str(
            "  - { step: last, tool: { kind: shell, command: sweep }, set: { ctx.last: true } }\n",
        );
    }
    (text, timing)
}

/// Writes failure policy, timeout and cache. Returns true if the timeout may expire.
fn write_spec(text: &mut String, rng: &mut SplitMix, cache: Option<String>) -> bool {
    let mut spec = Vec::new();
    if rng.draw_percent(30) {
        spec.push("policy: { failure: { mode: best_effort } }".to_owned());
    }
    let is_tight = rng.draw_percent(8);
    if is_tight {
        spec.push("timeout: 2s".to_owned());
    } else if rng.draw_percent(15) {
        spec.push("timeout: 10h".to_owned());
    }
    spec.extend(cache.map(|key| format!("cache: {{ key: \"{key}-{{{{ base }}}}\" }}")));
    if !spec.is_empty() {
        let _ = writeln!(text, "    spec: {{ {} }}", spec.join(", "));
    }
    is_tight
}

/// Writes the loop of a step. Returns true if it is a cursor loop.
fn write_loop(text: &mut String, rng: &mut SplitMix) -> bool {
    let width = 1 + rng.number_below(3);
    let kind = rng.number_below(10);
    let line = match kind {
        0 => {
            let (rows, max_rows) = (rng.number_below(6), 1 + rng.number_below(3));
            format!(
                "{{ cursor: {{ claim: \"rows {rows}\" }}, iterator: x, spec: {{ mode: cursor, max_in_flight: {width}, frame: {{ max_rows: {max_rows} }} }} }}"
            )
        }
        1 | 2 => format!(
            "{{ in: \"{{{{ workload.list }}}}\", iterator: x, spec: {{ mode: parallel, max_in_flight: {width} }} }}"
        ),
        3 => "{ in: [7, 8], iterator: x, spec: { mode: sequential } }".to_owned(),
        _ => return false,
    };
    let _ = writeln!(text, "    loop: {line}");
    kind == 0
}

/// Writes a suspending task, alone or within a pipeline. Every wait has its own signal.
fn write_suspending_task(text: &mut String, rng: &mut SplitMix, index: usize) {
    let tasks = [
        "kind: sleep, for: 1.5".to_owned(),
        format!(
            "kind: wait, signal: go_{index}, key: \"{{{{ _index | default(0) }}}}\", timeout: 10m"
        ),
        format!(
            "kind: wait, mode: all, key: \"{{{{ _index | default(0) }}}}\", signals: [{{ name: a_{index} }}, {{ name: b_{index} }}], timeout: 10m"
        ),
        format!("kind: wait, signal: {NEVER}, timeout: 1s"),
        "kind: approval, timeout: 10m".to_owned(),
        "kind: playbook, path: child, input: { n: \"{{ base }}\" }, return_result: true".to_owned(),
    ];
    let task = rng.pick_item(&tasks).expect("a task");
    let tool = if rng.draw_percent(60) {
        format!("{{ {task} }}")
    } else {
        format!(
            "[{{ name: one, kind: noop, result: {index}, set: {{ kept: \"{{{{ output + base }}}}\" }} }}, {{ name: parked, {task} }}, {{ name: two, kind: shell, command: \"{{{{ one }}}} {{{{ kept }}}}\" }}]"
        )
    };
    let _ = writeln!(text, "    tool: {tool}");
}

fn write_tool(text: &mut String, rng: &mut SplitMix, index: usize) {
    let policy = if rng.draw_percent(50) { RETRY_POLICY } else { "" };
    let tool = if rng.draw_percent(25) {
        format!(
            "[{{ name: one, kind: noop, result: {index}, set: {{ step.kept: \"{{{{ output }}}}\" }} }}, {{ name: two, kind: shell, command: \"{{{{ one }}}} {{{{ base }}}}\"{policy} }}]"
        )
    } else {
        format!(
            "{{ kind: shell, command: \"{{{{ s0 | default('none') | tojson }}}} {{{{ base }}}}\"{policy} }}"
        )
    };
    let _ = writeln!(text, "    tool: {tool}");
}

fn write_arcs(text: &mut String, rng: &mut SplitMix, index: usize, steps: usize) {
    let conditions = [
        "",
        "",
        ", when: \"{{ output is not none }}\"",
        ", when: \"{{ event.name == 'call.error' }}\"",
        ", when: \"{{ error is none }}\"",
    ];
    let mut arcs = Vec::new();
    for target in index + 1..steps {
        if rng.draw_percent(60) {
            let condition = rng.pick_item(&conditions).copied().unwrap_or_default();
            arcs.push(format!("{{ step: s{target}{condition} }}"));
        }
    }
    if !arcs.is_empty() {
        let mode = if rng.draw_percent(60) { "inclusive" } else { "exclusive" };
        let arcs = arcs.join(", ");
        let _ = writeln!(text, "    next: {{ spec: {{ mode: {mode} }}, arcs: [{arcs}] }}");
    }
}
