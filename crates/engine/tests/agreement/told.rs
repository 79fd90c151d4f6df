//! A run reduced to what the language fixes, as either interpreter tells it.

use noetl_engine::Data;
use noetl_oracle::{RunResult, comparable};
use noetl_testkit::sim::Sim;
use noetl_types::{EventRecord, Json};

/// A run reduced to what the language fixes.
#[derive(Debug, PartialEq)]
pub(crate) struct Told {
    history: Vec<String>,
    end: String,
    error_kind: Option<String>,
    failed_steps: Vec<String>,
    ctx: String,
    workload: String,
    result: String,
    steps: Vec<String>,
}

/// What the oracle tells.
pub(crate) fn by_oracle(run: &RunResult) -> Told {
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
    .without_result_of_failure()
}

fn happening(event: &str, node: &str, index: Option<u64>) -> String {
    // What happens to the whole run is told of the playbook, by whatever path it has.
    let node = if event.starts_with("playbook.") || node == "generated" {
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

/// What the log of the engine tells.
pub(crate) fn by_engine(sim: &Sim) -> Told {
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
    .without_result_of_failure()
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

impl Told {
    /// A run that failed has an error; that it has a result too is not fixed.
    fn without_result_of_failure(self) -> Self {
        if self.end == "COMPLETED" {
            return self;
        }
        Self {
            result: String::new(),
            ..self
        }
    }
}
