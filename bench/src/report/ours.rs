//! The table of our figures.

use super::table::{markdown, number};
use super::value::{SystemName, cell, ours, systems};
use crate::document::Document;
use crate::gauge::OTHER;
use crate::metric::Metric;

pub(super) fn table(document: &Document) -> String {
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
    let rows: Vec<_> = systems(document)
        .into_iter()
        .map(|name| row(document, name))
        .collect();
    markdown(&header, &rows)
}

fn row(document: &Document, name: SystemName) -> Vec<String> {
    let of = |metric| cell(ours(document, name, metric));
    let pair = |left, right| format!("{} / {}", of(left), of(right));
    vec![
        name.text(),
        pair(Metric::RunP50Ms, Metric::RunP99Ms),
        of(Metric::RunsPerS),
        of(Metric::SequenceP50Ms),
        of(Metric::FanOutS),
        pair(Metric::ShortLoopUs, Metric::LongLoopUs),
        memory(
            document,
            name,
            &[
                ("server", Metric::IdleServerMib),
                ("worker", Metric::IdleWorkerMib),
                ("postgres", Metric::IdlePostgresMib),
            ],
        ),
        memory(
            document,
            name,
            &[
                ("server", Metric::UsedServerMib),
                ("worker", Metric::UsedWorkerMib),
            ],
        ),
        pair(Metric::FirstStartS, Metric::SecondStartS),
        format!(
            "{} ({})",
            of(Metric::PythonStepsPerS),
            of(Metric::StepsPerInterpreter)
        ),
        most_other(document, name),
    ]
}

fn memory(document: &Document, name: SystemName, parts: &[(&str, Metric)]) -> String {
    let cells: Vec<String> = parts
        .iter()
        .filter_map(|(part, metric)| {
            let value = ours(document, name, *metric)?;
            Some(format!("{part} {:.0}", value.value))
        })
        .collect();
    if cells.is_empty() {
        return "-".to_owned();
    }
    cells.join(" + ")
}

fn most_other(document: &Document, name: SystemName) -> String {
    let systems = document.rounds.iter().flat_map(|round| &round.systems);
    let shares = systems
        .filter(|system| SystemName::of(system) == name)
        .flat_map(|system| &system.measurements)
        .filter_map(|measurement| measurement.cpu.get(OTHER).copied());
    let most = shares.max_by(f64::total_cmp);
    most.map_or_else(|| "-".to_owned(), number)
}
