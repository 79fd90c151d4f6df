//! The engine and the oracle agree: two interpreters of the language, written apart, make the same log
//! of the same playbook and come to the same end.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use noetl_engine::Data;
use noetl_oracle::generate::{GenConfig, generate};
use noetl_oracle::{
    Answer, Call as OracleCall, Outcomes as _, RunResult, Schedule, Script, comparable, interpret,
    shrink_seed, start_workload,
};
use noetl_playbook::model::{Playbook, ToolKind};
use noetl_testkit::sim::{Call, Play, Sim};
use noetl_types::{EventRecord, Json, TaskError, TaskErrorKind};

/// What the tools of both answer: the script that the playbook itself carries.
fn play(call: &Call<'_>) -> Play {
    if call.kind == ToolKind::Noop {
        return Play::AsWritten;
    }
    let asked = OracleCall {
        step: call.step,
        run: u64::from(call.run),
        index: call.index.map(|index| index as usize),
        label: call.label,
        kind: call.kind,
        visit: 1,
        attempt: u64::from(call.attempt),
        config: call.config,
        input: call.input,
    };
    match Script.answer(&asked) {
        Answer::Ok(data) => Play::Ok(data),
        Answer::Error(error) => {
            let kind = TaskErrorKind::parse(error.kind.as_str()).unwrap_or(TaskErrorKind::Unknown);
            Play::Fail(
                Box::new(TaskError::new(kind, error.message.as_str())),
                error.data,
            )
        }
    }
}

/// A run reduced to what the language fixes.
#[derive(Debug, PartialEq)]
struct Told {
    history: Vec<String>,
    end: String,
    error_kind: Option<String>,
    failed_steps: Vec<String>,
    ctx: String,
    workload: String,
    result: String,
    steps: Vec<String>,
}

fn by_oracle(playbook: &Playbook) -> Told {
    let workload = start_workload(playbook, &Json::Null).expect("workload renders");
    let run: RunResult =
        interpret(playbook, workload, &Script, Schedule::InOrder).expect("supported");
    Told {
        history: run
            .history
            .iter()
            .map(|event| {
                happening(
                    event.event.as_str(),
                    &event.node,
                    event.index.map(|index| index as u64),
                )
            })
            .collect(),
        end: run.status.to_string(),
        error_kind: run.error_kind.map(|kind| kind.as_str().to_owned()),
        failed_steps: run.failed_steps.iter().map(ToString::to_string).collect(),
        ctx: comparable(&run.ctx).to_string(),
        workload: run.workload.to_string(),
        result: comparable(&run.result).to_string(),
        steps: run
            .steps
            .iter()
            .filter(|(_, step)| !step.data.is_null())
            .map(|(name, step)| format!("{name} {}", comparable(&step.data)))
            .collect(),
    }
}

fn happening(event: &str, node: &str, index: Option<u64>) -> String {
    // What happens to the whole run is told of the playbook, by whatever path it has.
    let node = if event.starts_with("playbook.") {
        ""
    } else {
        node
    };
    let index = index.filter(|_| event.starts_with("command.") || event.starts_with("call."));
    index.map_or_else(
        || format!("{event} {node}"),
        |index| format!("{event} {node}[{index}]"),
    )
}

fn by_engine(playbook: &Playbook) -> Told {
    let sim = Sim::of_playbook(playbook.clone()).with_tools(play).run();
    let records = sim.records();
    let last = records.last().expect("a log");
    let graph = sim.plan().graph();
    let mut steps: Vec<String> = graph
        .steps()
        .filter_map(|step| {
            let output = sim.state().step(step)?.output.as_ref()?;
            let Data::Inline(data) = &output.data else {
                panic!("generated data is small");
            };
            let data = comparable(data);
            (!data.is_null()).then(|| format!("{} {data}", graph.name(step)))
        })
        .collect();
    steps.sort();
    let meta = last.event.meta.clone().unwrap_or_default();
    let text = |json: Option<&Json>| json.and_then(Json::as_str).map(str::to_owned);
    Told {
        history: records
            .iter()
            .map(|record| {
                let index = record
                    .event
                    .meta
                    .as_ref()
                    .and_then(|meta| meta.get("index")?.as_u64());
                happening(record.event.event_type.as_str(), &node(record), index)
            })
            .collect(),
        end: sim.status().to_string(),
        error_kind: meta.get("error").and_then(|error| text(error.get("kind"))),
        failed_steps: meta
            .get("failed_steps")
            .and_then(Json::as_list)
            .unwrap_or_default()
            .iter()
            .filter_map(|name| text(Some(name)))
            .collect(),
        ctx: comparable(sim.state().ctx()).to_string(),
        workload: records[0]
            .event
            .context
            .as_ref()
            .and_then(|context| context.get("workload").cloned())
            .unwrap_or_default()
            .to_string(),
        result: comparable(&told(last, "result")).to_string(),
        steps,
    }
}

fn node(record: &EventRecord) -> String {
    record
        .event
        .node_name
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default()
}

fn told(record: &EventRecord, key: &str) -> Json {
    let context = record
        .event
        .result
        .as_ref()
        .and_then(|result| result.get("context"));
    context
        .and_then(|context| context.get(key))
        .cloned()
        .unwrap_or_default()
}

/// A run that failed has an error; that it has a result too is not fixed.
fn without_result_of_failure(told: Told) -> Told {
    if told.end == "COMPLETED" {
        return told;
    }
    Told {
        result: String::new(),
        ..told
    }
}

fn agree(from: u64, count: u64, config: &GenConfig) {
    let differs = |playbook: &Playbook| {
        without_result_of_failure(by_oracle(playbook))
            != without_result_of_failure(by_engine(playbook))
    };
    for seed in from..from + count {
        let Some(playbook) = generate(seed, config).playbook() else {
            panic!("seed {seed} is not a playbook");
        };
        if differs(&playbook) {
            let small = shrink_seed(seed, config, &mut |playbook, _| differs(playbook))
                .expect("it differs");
            let playbook = small.playbook().expect("shrunk playbooks are valid");
            let (oracle, engine) = (by_oracle(&playbook), by_engine(&playbook));
            panic!(
                "seed {seed}:\n{}\noracle {oracle:#?}\nengine {engine:#?}",
                small.text()
            );
        }
    }
}

/// What both interpreters run: `final_step` is beyond the engine.
fn in_scope(config: GenConfig) -> GenConfig {
    GenConfig {
        final_step: false,
        ..config
    }
}

#[test]
fn heavy_on_what_the_language_fixes() {
    agree(0, 2_500, &in_scope(GenConfig::default()));
}

#[test]
fn heavy_without_races() {
    agree(100_000, 1_500, &in_scope(GenConfig::confluent()));
}

#[test]
fn heavy_on_everything() {
    agree(200_000, 2_500, &in_scope(GenConfig::everything()));
}
