//! W3: how long ten steps take that follow each other.

use super::{Figures, Lab, at};
use crate::error::BenchError;
use crate::metric::Metric;
use crate::playbooks::sequence;

pub(super) async fn measure(lab: &Lab<'_>) -> Result<Figures, BenchError> {
    let playbook = sequence()?;
    lab.system.register(&playbook).await?;
    lab.one_by_one(&playbook, lab.scale.w3_warm_up).await?;
    let times = lab.one_by_one(&playbook, lab.scale.w3_runs).await?;
    Ok(Figures::from([(Metric::SequenceP50Ms, at(&times, 50)?)]))
}
