//! W3: duration of a run of ten steps in sequence.

use super::{Figures, WorkloadContext, require_percentile};
use crate::error::BenchError;
use crate::metric::Metric;
use crate::playbooks::sequence_playbook;

pub(super) async fn measure_sequence(context: &WorkloadContext<'_>) -> Result<Figures, BenchError> {
    let playbook = sequence_playbook()?;
    context.system.register_playbook(&playbook).await?;
    context.run_sequentially(&playbook, context.scale.w3_warm_up).await?;
    let times = context.run_sequentially(&playbook, context.scale.w3_runs).await?;
    Ok(Figures::from([(Metric::SequenceP50Ms, require_percentile(&times, 50)?)]))
}
