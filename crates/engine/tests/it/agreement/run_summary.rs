//! Summary of a run in terms that both interpreters share.

use noetl_engine::EventData;
use noetl_oracle::{RunResult, normalize_data};
use noetl_testkit::sim::Simulation;
use noetl_types::{EventRecord, Json};

/// The parts of a run that the language defines.
#[derive(Debug, PartialEq)]
pub(crate) struct RunSummary {
    history: Vec<String>,
    end: String,
    error_kind: Option<String>,
    failed_steps: Vec<String>,
    ctx: String,
    workload: String,
    result: String,
    steps: Vec<String>,
}

pub(crate) fn summarize_oracle_run(run: &RunResult) -> RunSummary {
    RunSummary {
        history: run
            .history
            .iter()
            .map(|event| {
                format_event(
                    event.event.as_str(),
                    &event.node,
                    event.index.map(|index| index as u64),
                )
            })
            .collect(),
        end: run.status.to_string(),
        error_kind: run.error_kind.map(|kind| kind.as_str().to_owned()),
        failed_steps: run.failed_steps.iter().map(ToString::to_string).collect(),
        ctx: normalize_data(&run.ctx).to_string(),
        workload: run.workload.to_string(),
        result: normalize_data(&run.result).to_string(),
        steps: run
            .steps
            .iter()
            .filter(|(_, step)| !step.data.is_null())
            .map(|(name, step)| format!("{name} {}", normalize_data(&step.data)))
            .collect(),
    }
    .without_failed_result()
}

fn format_event(event: &str, node: &str, index: Option<u64>) -> String {
    // Events of the whole run name the playbook, whose path differs between the interpreters.
    let node = if event.starts_with("playbook.") || node == "generated" { "" } else { node };
    let index = index.filter(|_| event.starts_with("command.") || event.starts_with("call."));
    index.map_or_else(|| format!("{event} {node}"), |index| format!("{event} {node}[{index}]"))
}

pub(crate) fn summarize_engine_run(sim: &Simulation) -> RunSummary {
    let records = sim.to_records();
    let last = records.last().expect("a log");
    let graph = sim.plan().graph();
    let mut steps: Vec<String> = graph
        .steps()
        .filter_map(|step| {
            let output = sim.state().step_state(step)?.output.as_ref()?;
            let EventData::Inline(data) = &output.data else {
                panic!("generated data is small");
            };
            let data = normalize_data(data);
            (!data.is_null()).then(|| format!("{} {data}", graph.name(step)))
        })
        .collect();
    steps.sort();
    let meta = last.event.meta.clone().unwrap_or_default();
    let text = |json: Option<&Json>| json.and_then(Json::as_str).map(str::to_owned);
    RunSummary {
        history: records
            .iter()
            .map(|record| {
                let index = record.event.meta.as_ref().and_then(|meta| meta.get("index")?.as_u64());
                format_event(record.event.event_type.as_str(), &node_name(record), index)
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
        ctx: normalize_data(sim.state().ctx()).to_string(),
        workload: records[0]
            .event
            .context
            .as_ref()
            .and_then(|context| context.get("workload").cloned())
            .unwrap_or_default()
            .to_string(),
        result: normalize_data(&result_field(last, "result")).to_string(),
        steps,
    }
    .without_failed_result()
}

fn node_name(record: &EventRecord) -> String {
    record.event.node_name.as_ref().map(ToString::to_string).unwrap_or_default()
}

fn result_field(record: &EventRecord, key: &str) -> Json {
    let context = record.event.result.as_ref().and_then(|result| result.get("context"));
    context.and_then(|context| context.get(key)).cloned().unwrap_or_default()
}

impl RunSummary {
    /// Drops the result of a failed run: the language does not define it.
    fn without_failed_result(self) -> Self {
        if self.end == "COMPLETED" {
            return self;
        }
        Self { result: String::new(), ..self }
    }
}
