//! W4: duration of a fan-out to many tasks and their join, and cost per iteration of a long loop.
//! It shows loops whose cost per iteration grows with their length.

use super::{Figures, WorkloadContext, require_percentile};
use crate::error::BenchError;
use crate::metric::Metric;
use crate::playbooks::fan_out_playbook;

/// Maximum concurrent iterations of a long loop.
const MAX_IN_FLIGHT: u32 = 1_000;

pub(super) async fn measure_fan_out(context: &WorkloadContext<'_>) -> Result<Figures, BenchError> {
    let tasks = context.scale.w4_tasks;
    let playbook = fan_out_playbook(tasks, tasks)?;
    context.system.register_playbook(&playbook).await?;
    let times = context.run_sequentially(&playbook, context.scale.w4_repeats).await?;
    let mut figures = Figures::from([(Metric::FanOutS, require_percentile(&times, 50)? / 1e3)]);
    let metrics = [Metric::ShortLoopUs, Metric::LongLoopUs];
    for (iterations, metric) in context.scale.loops.into_iter().zip(metrics) {
        let playbook = fan_out_playbook(iterations, MAX_IN_FLIGHT)?;
        context.system.register_playbook(&playbook).await?;
        let times = context.run_sequentially(&playbook, 1).await?;
        figures.insert(metric, require_percentile(&times, 50)? * 1e3 / f64::from(iterations));
    }
    Ok(figures)
}
