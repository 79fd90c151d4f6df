//! W1: duration of a run of one step, from the request to the durable result.

use super::{Figures, WorkloadContext, require_percentile};
use crate::error::BenchError;
use crate::metric::Metric;
use crate::playbooks::one_step_playbook;

pub(super) async fn measure_latency(context: &WorkloadContext<'_>) -> Result<Figures, BenchError> {
    let playbook = one_step_playbook()?;
    context.run_sequentially(&playbook, context.scale.warm_up).await?;
    let times = context.run_sequentially(&playbook, context.scale.w1_runs).await?;
    Ok(Figures::from([
        (Metric::RunP50Ms, require_percentile(&times, 50)?),
        (Metric::RunP99Ms, require_percentile(&times, 99)?),
    ]))
}
