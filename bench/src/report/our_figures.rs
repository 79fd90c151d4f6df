//! Table of our figures.

use super::table::{format_number, markdown_table};
use super::value::{SystemName, format_cell, measured_systems, our_median};
use crate::cpu_sampler::OTHER_CPU_KEY;
use crate::document::BenchDocument;
use crate::metric::Metric;

pub(super) fn our_figures_table(document: &BenchDocument) -> String {
    let header = [
        "noetl",
        "W1 p50 / p99 ms",
        "W2 runs/s",
        "W3 p50 ms",
        "W4 fan-out s",
        "W4 short / long loop µs",
        "W5 idle MiB",
        "W5 MiB after runs",
        "W5 first / second start s",
        "W6 steps/s (per interpreter start)",
        "other CPU %, max",
    ];
    let rows: Vec<_> = measured_systems(document)
        .into_iter()
        .map(|name| our_figures_row(document, name))
        .collect();
    markdown_table(&header, &rows)
}

fn our_figures_row(document: &BenchDocument, name: SystemName) -> Vec<String> {
    let cell = |metric| format_cell(our_median(document, name, metric));
    let pair = |left, right| format!("{} / {}", cell(left), cell(right));
    vec![
        name.display_name(),
        pair(Metric::RunP50Ms, Metric::RunP99Ms),
        cell(Metric::RunsPerS),
        cell(Metric::SequenceP50Ms),
        cell(Metric::FanOutS),
        pair(Metric::ShortLoopUs, Metric::LongLoopUs),
        format_memory(
            document,
            name,
            &[
                ("server", Metric::IdleServerMib),
                ("worker", Metric::IdleWorkerMib),
                ("postgres", Metric::IdlePostgresMib),
            ],
        ),
        format_memory(
            document,
            name,
            &[("server", Metric::UsedServerMib), ("worker", Metric::UsedWorkerMib)],
        ),
        pair(Metric::FirstStartS, Metric::SecondStartS),
        format!("{} ({})", cell(Metric::PythonStepsPerS), cell(Metric::StepsPerInterpreter)),
        max_other_cpu(document, name),
    ]
}

fn format_memory(document: &BenchDocument, name: SystemName, parts: &[(&str, Metric)]) -> String {
    let cells: Vec<String> = parts
        .iter()
        .filter_map(|(part, metric)| {
            let value = our_median(document, name, *metric)?;
            Some(format!("{part} {:.0}", value.value))
        })
        .collect();
    if cells.is_empty() {
        return "-".to_owned();
    }
    cells.join(" + ")
}

fn max_other_cpu(document: &BenchDocument, name: SystemName) -> String {
    let systems = document.rounds.iter().flat_map(|round| &round.systems);
    let shares = systems
        .filter(|system| SystemName::from_result(system) == name)
        .flat_map(|system| &system.measurements)
        .filter_map(|measurement| measurement.cpu.get(OTHER_CPU_KEY).copied());
    let max = shares.max_by(f64::total_cmp);
    max.map_or_else(|| "-".to_owned(), format_number)
}
