//! W8: time from the response to an append until a consumer has its event.
//!
//! The run continues meanwhile, so the publisher shares the store and the processors with it, as in
//! production.

use super::{Figures, WorkloadContext, require_percentile};
use crate::error::BenchError;
use crate::metric::Metric;
use crate::playbooks::one_step_playbook;
use crate::stats::to_ms;
use crate::system::{start_run, wait_until_completed};
use tokio::time::Instant;

pub(super) async fn measure_stream_latency(
    context: &WorkloadContext<'_>,
) -> Result<Figures, BenchError> {
    let playbook = one_step_playbook()?;
    let mut messages = context.broker()?.consume_new().await?;
    let mut times = Vec::new();
    for number in 0..context.scale.warm_up + context.scale.w8_runs {
        let run = start_run(&*context.system, &context.ledger, &playbook).await?;
        let responded_at = Instant::now();
        let arrived_at = messages.wait_for_first_event(run).await?;
        if number >= context.scale.warm_up {
            times.push(to_ms(arrived_at.saturating_duration_since(responded_at)));
        }
        wait_until_completed(&*context.system, run, None).await?;
    }
    Ok(Figures::from([
        (Metric::ConsumerP50Ms, require_percentile(&times, 50)?),
        (Metric::ConsumerP99Ms, require_percentile(&times, 99)?),
    ]))
}
