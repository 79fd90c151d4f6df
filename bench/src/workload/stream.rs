//! W8: how long after the answer about an append a consumer has its event.
//!
//! The run goes on meanwhile, so the publisher shares the store and the processors with it, as it
//! does elsewhere.

use super::{Figures, Lab, at};
use crate::error::BenchError;
use crate::metric::Metric;
use crate::playbooks::one_step;
use crate::stats::ms;
use crate::system::{begin, ended_well};
use tokio::time::Instant;

pub(super) async fn measure(lab: &Lab<'_>) -> Result<Figures, BenchError> {
    let playbook = one_step()?;
    let mut arrivals = lab.broker()?.follow().await?;
    let mut times = Vec::new();
    for number in 0..lab.scale.warm_up + lab.scale.w8_runs {
        let run = begin(&*lab.system, &lab.ledger, &playbook).await?;
        let answered = Instant::now();
        let arrived = arrivals.begin_of(run).await?;
        if number >= lab.scale.warm_up {
            times.push(ms(arrived.saturating_duration_since(answered)));
        }
        ended_well(&*lab.system, run, None).await?;
    }
    Ok(Figures::from([
        (Metric::ConsumerP50Ms, at(&times, 50)?),
        (Metric::ConsumerP99Ms, at(&times, 99)?),
    ]))
}
