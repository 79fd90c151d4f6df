//! W7: how fast a log is folded through the way that readers have, and what the state in the middle
//! of a log costs as logs get longer. The first replay of each log finds no snapshot; it may leave one
//! behind, which the looks at the middle may then go on from.

use noetl_api::replay::{Cut, ReplayAnswer, ReplayQuery};
use tokio::time::Instant;

use super::{Figures, Lab, at};
use crate::error::BenchError;
use crate::metric::Metric;
use crate::playbooks::fan_out;
use crate::stats::ms;
use crate::system::run_known;

/// Iterations that are open at once.
const IN_FLIGHT: u32 = 500;

pub(super) async fn measure(lab: &Lab<'_>) -> Result<Figures, BenchError> {
    let mut figures = Figures::new();
    let metrics = [
        Metric::AsOfShortMs,
        Metric::AsOfMediumMs,
        Metric::AsOfLongMs,
    ];
    for (iterations, metric) in lab.scale.w7_iterations.into_iter().zip(metrics) {
        let playbook = fan_out(iterations, IN_FLIGHT)?;
        lab.system.register(&playbook).await?;
        let (id, _) = run_known(&*lab.system, &lab.ledger, &playbook).await?;
        let whole = ReplayQuery::new(id);
        let (answer, took) = timed(lab, &whole).await?;
        let events = answer.state.event_count;
        // The longest log comes last, so its rate is the one that stays.
        let rate = counted(events)? / (took / 1e3);
        figures.insert(Metric::ReplayEventsPerS, rate);
        let middle = ReplayQuery {
            cut: Cut::Position(events / 2),
            ..whole
        };
        let mut times = Vec::new();
        for _ in 0..lab.scale.w7_looks {
            let (answer, took) = timed(lab, &middle).await?;
            if answer.state.event_count != events / 2 || answer.checksum.is_none() {
                let text = format!("the replay of {id} is not what was asked for");
                return Err(BenchError::Harness(text));
            }
            times.push(took);
        }
        figures.insert(metric, at(&times, 50)?);
    }
    Ok(figures)
}

async fn timed(lab: &Lab<'_>, query: &ReplayQuery) -> Result<(ReplayAnswer, f64), BenchError> {
    let began = Instant::now();
    let answer = lab.system.replay(query).await?;
    Ok((answer, ms(began.elapsed())))
}

fn counted(events: i64) -> Result<f64, BenchError> {
    u32::try_from(events)
        .map(f64::from)
        .map_err(|_| BenchError::Harness(format!("a log of {events} events")))
}
