//! W10: rate at which a publisher claims and marks outbox rows, compared with jobs of pg-boss in
//! the same PostgreSQL at the same time, and the cost of the pending count that autoscalers poll.

use tokio::time::Instant;

use super::{Figures, WorkloadContext, require_percentile};
use crate::error::BenchError;
use crate::metric::Metric;
use crate::pgboss::PgBoss;
use crate::playbooks::{fan_out_playbook, one_step_playbook};
use crate::stats::to_ms;

/// Maximum concurrent iterations.
const MAX_IN_FLIGHT: u32 = 500;

/// Rows per claim: few, as in the peers' harness, and the maximum.
pub(crate) const CLAIM_BATCH_SIZES: [u32; 2] = [50, 1_000];

/// Approximate size of an event message, used for the jobs of pg-boss.
const JOB_BODY_BYTES: usize = 600;

pub(super) async fn measure_outbox(context: &WorkloadContext<'_>) -> Result<Figures, BenchError> {
    let mut figures = Figures::new();
    fill_outbox(context).await?;
    let peer_rates = match (&context.peers_home, context.site.database()) {
        (Some(home), Some(database)) => {
            let jobs = context.scale.w10_rows;
            Some(PgBoss::new(home).measure_rates(database, jobs, JOB_BODY_BYTES).await?)
        }
        (Some(_) | None, _) => None,
    };
    let names = [
        (Metric::OutboxFewPerS, Metric::PgBossFewPerS),
        (Metric::OutboxManyPerS, Metric::PgBossManyPerS),
    ];
    for (index, (batch, (metric, peer_metric))) in
        CLAIM_BATCH_SIZES.into_iter().zip(names).enumerate()
    {
        figures.insert(metric, drain_outbox(context, batch).await?);
        let rate = peer_rates.as_ref().and_then(|rates| rates.get(index));
        figures.extend(rate.map(|rate| (peer_metric, *rate)));
    }
    empty_outbox(context).await?;
    if context.site.add_published_rows(context.scale.w10_published).await? {
        // Count a queue as it is when publishers keep up.
        context.run_sequentially(&one_step_playbook()?, context.scale.warm_up).await?;
        let mut times = Vec::new();
        for _ in 0..context.scale.w10_counts {
            let started = Instant::now();
            context.system.pending_row_count().await?;
            times.push(to_ms(started.elapsed()));
        }
        figures.insert(Metric::PendingP50Ms, require_percentile(&times, 50)?);
        figures.insert(Metric::PendingP99Ms, require_percentile(&times, 99)?);
    }
    Ok(figures)
}

/// Ensures that there are enough rows.
async fn fill_outbox(context: &WorkloadContext<'_>) -> Result<(), BenchError> {
    let target_rows = u64::from(context.scale.w10_rows + CLAIM_BATCH_SIZES[1]) * 2;
    let missing = target_rows.saturating_sub(context.system.pending_row_count().await?);
    // An iteration has about five events.
    let iterations = u32::try_from(missing / 4).unwrap_or(u32::MAX).max(1);
    let playbook = fan_out_playbook(iterations, MAX_IN_FLIGHT)?;
    context.system.register_playbook(&playbook).await?;
    context.run_sequentially(&playbook, 1).await?;
    Ok(())
}

/// Claims and marks all remaining rows.
async fn empty_outbox(context: &WorkloadContext<'_>) -> Result<(), BenchError> {
    loop {
        let rows = context.system.claim_rows(CLAIM_BATCH_SIZES[1]).await?;
        if rows.is_empty() {
            return Ok(());
        }
        context.system.mark_rows(&rows).await?;
    }
}

/// Returns the rows per second that one publisher claims and marks.
async fn drain_outbox(context: &WorkloadContext<'_>, batch: u32) -> Result<f64, BenchError> {
    let (target_rows, mut marked_rows) = (u64::from(context.scale.w10_rows), 0);
    let started = Instant::now();
    while marked_rows < target_rows {
        let rows = context.system.claim_rows(batch).await?;
        let marked = context.system.mark_rows(&rows).await?;
        if rows.is_empty() || usize::try_from(marked) != Ok(rows.len()) {
            let text = format!("{marked} of {} claimed rows were marked", rows.len());
            return Err(BenchError::Harness(text));
        }
        marked_rows += marked;
    }
    let marked_rows = u32::try_from(marked_rows).unwrap_or(u32::MAX);
    Ok(f64::from(marked_rows) / started.elapsed().as_secs_f64())
}
