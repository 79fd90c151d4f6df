//! W1: how long a run of one step takes, from the request to the known durable result.

use super::{Figures, Lab, at};
use crate::error::BenchError;
use crate::metric::Metric;
use crate::playbooks::one_step;

pub(super) async fn measure(lab: &Lab<'_>) -> Result<Figures, BenchError> {
    let playbook = one_step()?;
    lab.one_by_one(&playbook, lab.scale.warm_up).await?;
    let times = lab.one_by_one(&playbook, lab.scale.w1_runs).await?;
    Ok(Figures::from([
        (Metric::RunP50Ms, at(&times, 50)?),
        (Metric::RunP99Ms, at(&times, 99)?),
    ]))
}
