//! W4: how long a fan-out to many tasks and their join take, and what an iteration of a long loop
//! costs. A loop whose cost per iteration grows with its length shows here.

use super::{Figures, Lab, at};
use crate::error::BenchError;
use crate::metric::Metric;
use crate::playbooks::fan_out;

/// Iterations of a long loop that are open at once.
const IN_FLIGHT: u32 = 1_000;

pub(super) async fn measure(lab: &Lab<'_>) -> Result<Figures, BenchError> {
    let tasks = lab.scale.w4_tasks;
    let playbook = fan_out(tasks, tasks)?;
    lab.system.register(&playbook).await?;
    let times = lab.one_by_one(&playbook, lab.scale.w4_repeats).await?;
    let mut figures = Figures::from([(Metric::FanOutS, at(&times, 50)? / 1e3)]);
    let metrics = [Metric::ShortLoopUs, Metric::LongLoopUs];
    for (iterations, metric) in lab.scale.loops.into_iter().zip(metrics) {
        let playbook = fan_out(iterations, IN_FLIGHT)?;
        lab.system.register(&playbook).await?;
        let times = lab.one_by_one(&playbook, 1).await?;
        figures.insert(metric, at(&times, 50)? * 1e3 / f64::from(iterations));
    }
    Ok(figures)
}
