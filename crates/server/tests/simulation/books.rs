//! Playbooks by chance, and what each must come to.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use noetl_engine::event::Park;
use noetl_engine::{Data, Output, Plan, State};
use noetl_oracle::generate::{GenConfig, generate};
use noetl_playbook::model::Playbook;
use noetl_playbook::{CheckOptions, Document, check};
use noetl_store::{MemoryStore, NewCatalogEntry, Store as _};
use noetl_testkit::sim::{Ask, Sim, SplitMix, Word};
use noetl_types::{
    CatalogId, ExecutionStatus, Json, PlaybookPath, StepName, TenantId, Timestamp, sha256,
};

use crate::tools::Tools;
use crate::weather::draw;

/// A playbook that is run.
pub(crate) struct Book {
    pub(crate) catalog_id: CatalogId,
    pub(crate) path: PlaybookPath,
    pub(crate) text: String,
    pub(crate) plan: Plan,
    pub(crate) tools: Tools,
    /// What every run must come to that nobody disturbs; nothing where that depends on time.
    pub(crate) expected: Option<Outcome>,
}

/// What a run has come to, without what depends on when things happened.
#[derive(Debug, PartialEq)]
pub(crate) struct Outcome {
    status: ExecutionStatus,
    steps: BTreeMap<StepName, Output>,
    ctx: Json,
}

/// Whether what a playbook comes to depends on who is faster.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Race {
    None,
    Time,
}

/// The playbooks of a world.
pub(crate) fn of(seed: u64) -> Vec<Book> {
    let mut chance = draw(seed, "books");
    let mut books: Vec<Book> = (0..=chance.below(2))
        .map(|at| {
            let number = 2 * seed + at as u64;
            if chance.percent(25) {
                // What waits, is claimed or is shared is in the books that are written here.
                let config = GenConfig {
                    max_steps: 4,
                    sleeps: false,
                    approvals: false,
                    children: false,
                    cursors: false,
                    slots: false,
                    ..GenConfig::confluent()
                };
                let text = generate(number, &config).text();
                Book::new(at, text, Tools::Scripted, Race::None)
            } else {
                let (text, race) = written(number);
                Book::new(at, text, Tools::Moody(number), race)
            }
        })
        .collect();
    if books.iter().any(|book| book.text.contains("path: child")) {
        let mut child = Book::new(books.len(), CHILD.to_owned(), Tools::Scripted, Race::Time);
        child.path = PlaybookPath::new("child").expect("a path");
        books.push(child);
    }
    books
}

/// A playbook that others start; it gives back what it is given.
const CHILD: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: child }
workload: { n: 0 }
workflow:
  - { step: start, tool: { kind: noop, result: { n: \"{{ workload.n }}\" } } }
";

/// Keys of slots, with how many may hold each.
pub(crate) const SLOTS: [(&str, u32); 3] = [("run-3", 2), ("one-3", 1), ("two-3", 2)];

/// A signal that nobody sends.
pub(crate) const NEVER: &str = "never";

/// What people do about a task that waits.
pub(crate) fn word(step: &str, signals: &[&str], is_approval: bool) -> Word {
    if signals.contains(&NEVER) {
        Word::Silence
    } else if is_approval && step == "s2" {
        Word::No
    } else {
        Word::Yes
    }
}

fn world(ask: &Ask<'_>) -> Word {
    let (signals, is_approval) = match ask.park {
        Park::Wait(wait) => (
            wait.signals.iter().map(|it| it.name.as_str()).collect(),
            false,
        ),
        Park::Approval(_) => (Vec::new(), true),
        Park::Sleep(_) | Park::Child(_) | Park::Callback(_) | Park::Broken(_) => {
            (Vec::new(), false)
        }
    };
    word(ask.step, &signals, is_approval)
}

impl Book {
    fn new(at: usize, text: String, tools: Tools, race: Race) -> Self {
        let checked = check(&text, &CheckOptions::default());
        let Some(Document::Playbook(playbook)) = checked.document else {
            panic!("not a playbook:\n{text}\n{:#?}", checked.diagnostics);
        };
        let playbook: Playbook = *playbook;
        let expected = (race == Race::None).then(|| {
            let sim = Sim::of_playbook(playbook.clone())
                .lightly()
                .with_tools(move |call| tools.play(call))
                .in_world(world)
                .run();
            Outcome::of(sim.plan(), sim.state())
        });
        Self {
            catalog_id: CatalogId::new(1_000 + i64::try_from(at).expect("few books"))
                .expect("an id"),
            path: PlaybookPath::new(format!("book{at}")).expect("a path"),
            text,
            plan: Plan::new(Arc::new(playbook)).expect("a plan"),
            tools,
            expected,
        }
    }

    /// Puts it into the catalog.
    pub(crate) async fn register(&self, store: &MemoryStore) {
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
        store.register(entry).await.expect("registered");
    }
}

impl Outcome {
    pub(crate) fn of(plan: &Plan, state: &State) -> Self {
        let status = state.status();
        // A run that fails stops others in the middle, so what they left is a matter of time.
        let is_whole = status == ExecutionStatus::Completed;
        let steps = plan.graph().steps().filter(|_| is_whole);
        let steps = steps.filter_map(|step| {
            let mut output = state.step(step)?.output.clone()?;
            if let Data::Inline(data) = &output.data {
                output.data = Data::Inline(timeless(data));
            }
            output.labels = output.labels.as_ref().map(timeless);
            Some((plan.step(step).name.clone(), output))
        });
        Self {
            status,
            steps: steps.collect(),
            ctx: if is_whole {
                timeless(state.ctx())
            } else {
                Json::Null
            },
        }
    }
}

/// A value without what depends on when things happened and which ids were free.
fn timeless(value: &Json) -> Json {
    const OF_THE_MOMENT: [&str; 5] = ["slept_ms", "fired_at", "received_at", "at", "execution_id"];
    match value {
        Json::Map(map) => {
            let lasting = map
                .iter()
                .filter(|(key, _)| !OF_THE_MOMENT.contains(&&***key));
            Json::object(lasting.map(|(key, value)| (key.clone(), timeless(value))))
        }
        Json::List(items) => Json::list(items.iter().map(timeless)),
        other => other.clone(),
    }
}

const ROOT: &str = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: simulated }\nworkload: { base: 3, list: [4, 5, 6] }\n";
const AGAIN: &str = ", spec: { policy: { rules: [{ when: \"{{ output.status == 'error' }}\", then: { do: retry, attempts: 3, delay: 0.2 } }] } }";

/// A playbook of lines, forks, joins, loops, frames, pipelines, retries and failures, whose steps write
/// to variables of their own only.
fn written(number: u64) -> (String, Race) {
    let mut chance = draw(number, "written");
    let steps = 1 + chance.below(4);
    let mut race = Race::None;
    let mut text = ROOT.to_owned();
    let has_final_step = chance.percent(20);
    if has_final_step {
        text.push_str("executor: { spec: { final_step: last, entry_step: s0 } }\n");
    }
    if chance.percent(20) {
        text.push_str("concurrency: { key: \"run-{{ workload.base }}\", limit: 2 }\n");
    }
    text.push_str("workflow:\n");
    for at in 0..steps {
        let _ = writeln!(text, "  - step: s{at}");
        if chance.percent(20) {
            let (key, limit) = [("one", 1), ("two", 2)][chance.below(2)];
            let _ = writeln!(
                text,
                "    concurrency: {{ key: \"{key}-{{{{ base }}}}\", limit: {limit} }}"
            );
        }
        if at > 0 && chance.percent(15) {
            let bound = chance.below(6);
            let _ = writeln!(text, "    when: \"{{{{ workload.base > {bound} }}}}\"");
        }
        let is_cursor = write_loop(&mut text, &mut chance);
        let cache = (!is_cursor && chance.percent(15)).then(|| format!("{number}-{at}"));
        if write_spec(&mut text, &mut chance, cache) {
            race = Race::Time;
        }
        // Others tell the data of the first step to their tools, so nothing of the moment is in it.
        if at > 0 && !is_cursor && chance.percent(35) {
            write_parking(&mut text, &mut chance, at);
        } else {
            write_tool(&mut text, &mut chance, at);
        }
        if chance.percent(40) {
            let _ = writeln!(text, "    set: {{ ctx.c{at}: \"{{{{ output }}}}\" }}");
        }
        write_arcs(&mut text, &mut chance, (at, steps));
    }
    if has_final_step {
        text.push_str(
            "  - { step: last, tool: { kind: shell, command: sweep }, set: { ctx.last: true } }\n",
        );
    }
    (text, race)
}

/// How failures are taken, and how long all of it may last; whether the time may be too short.
fn write_spec(text: &mut String, chance: &mut SplitMix, cache: Option<String>) -> bool {
    let mut spec = Vec::new();
    if chance.percent(30) {
        spec.push("policy: { failure: { mode: best_effort } }".to_owned());
    }
    let is_tight = chance.percent(8);
    if is_tight {
        spec.push("timeout: 2s".to_owned());
    } else if chance.percent(15) {
        spec.push("timeout: 10h".to_owned());
    }
    spec.extend(cache.map(|key| format!("cache: {{ key: \"{key}-{{{{ base }}}}\" }}")));
    if !spec.is_empty() {
        let _ = writeln!(text, "    spec: {{ {} }}", spec.join(", "));
    }
    is_tight
}

/// What a step loops over; whether that is a cursor.
fn write_loop(text: &mut String, chance: &mut SplitMix) -> bool {
    let width = 1 + chance.below(3);
    let kind = chance.below(10);
    let line = match kind {
        0 => {
            let (rows, most) = (chance.below(6), 1 + chance.below(3));
            format!(
                "{{ cursor: {{ claim: \"rows {rows}\" }}, iterator: x, spec: {{ mode: cursor, max_in_flight: {width}, frame: {{ max_rows: {most} }} }} }}"
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

/// A task that waits, alone or in the middle of a pipeline. Every wait has a signal of its own.
fn write_parking(text: &mut String, chance: &mut SplitMix, at: usize) {
    let tasks = [
        "kind: sleep, for: 1.5".to_owned(),
        format!(
            "kind: wait, signal: go_{at}, key: \"{{{{ _index | default(0) }}}}\", timeout: 10m"
        ),
        format!(
            "kind: wait, mode: all, key: \"{{{{ _index | default(0) }}}}\", signals: [{{ name: a_{at} }}, {{ name: b_{at} }}], timeout: 10m"
        ),
        format!("kind: wait, signal: {NEVER}, timeout: 1s"),
        "kind: approval, timeout: 10m".to_owned(),
        "kind: playbook, path: child, input: { n: \"{{ base }}\" }, return_result: true".to_owned(),
    ];
    let task = chance.pick(&tasks).expect("a task");
    let tool = if chance.percent(60) {
        format!("{{ {task} }}")
    } else {
        format!(
            "[{{ name: one, kind: noop, result: {at}, set: {{ kept: \"{{{{ output + base }}}}\" }} }}, {{ name: parked, {task} }}, {{ name: two, kind: shell, command: \"{{{{ one }}}} {{{{ kept }}}}\" }}]"
        )
    };
    let _ = writeln!(text, "    tool: {tool}");
}

fn write_tool(text: &mut String, chance: &mut SplitMix, at: usize) {
    let again = if chance.percent(50) { AGAIN } else { "" };
    let tool = if chance.percent(25) {
        format!(
            "[{{ name: one, kind: noop, result: {at}, set: {{ step.kept: \"{{{{ output }}}}\" }} }}, {{ name: two, kind: shell, command: \"{{{{ one }}}} {{{{ base }}}}\"{again} }}]"
        )
    } else {
        format!(
            "{{ kind: shell, command: \"{{{{ s0 | default('none') | tojson }}}} {{{{ base }}}}\"{again} }}"
        )
    };
    let _ = writeln!(text, "    tool: {tool}");
}

fn write_arcs(text: &mut String, chance: &mut SplitMix, (at, steps): (usize, usize)) {
    let conditions = [
        "",
        "",
        ", when: \"{{ output is not none }}\"",
        ", when: \"{{ event.name == 'call.error' }}\"",
        ", when: \"{{ error is none }}\"",
    ];
    let mut arcs = Vec::new();
    for target in at + 1..steps {
        if chance.percent(60) {
            let condition = chance.pick(&conditions).copied().unwrap_or_default();
            arcs.push(format!("{{ step: s{target}{condition} }}"));
        }
    }
    if !arcs.is_empty() {
        let mode = if chance.percent(60) {
            "inclusive"
        } else {
            "exclusive"
        };
        let arcs = arcs.join(", ");
        let _ = writeln!(
            text,
            "    next: {{ spec: {{ mode: {mode} }}, arcs: [{arcs}] }}"
        );
    }
}
