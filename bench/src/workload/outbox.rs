//! W10: how many rows of the outbox a publisher can take and mark, against jobs of pg-boss in the same
//! PostgreSQL in the same minute; and what the count costs that autoscalers ask for.

use tokio::time::Instant;

use super::{Figures, Lab, at};
use crate::error::BenchError;
use crate::metric::Metric;
use crate::pgboss::PgBoss;
use crate::playbooks::{fan_out, one_step};
use crate::stats::ms;

/// Iterations that are open at once.
const IN_FLIGHT: u32 = 500;

/// Rows of a claim: few, as the peers' own harness does, and as many as there may be.
pub(crate) const BATCHES: [u32; 2] = [50, 1_000];

/// About how many bytes the message of an event has: what a job of pg-boss carries.
const BODY: usize = 600;

pub(super) async fn measure(lab: &Lab<'_>) -> Result<Figures, BenchError> {
    let mut figures = Figures::new();
    fill(lab).await?;
    let theirs = match (&lab.peers_home, lab.site.database()) {
        (Some(home), Some(database)) => {
            let jobs = lab.scale.w10_rows;
            Some(PgBoss::new(home).drain(database, jobs, BODY).await?)
        }
        (Some(_) | None, _) => None,
    };
    let names = [
        (Metric::OutboxFewPerS, Metric::PgBossFewPerS),
        (Metric::OutboxManyPerS, Metric::PgBossManyPerS),
    ];
    for (place, (batch, (ours, peer))) in BATCHES.into_iter().zip(names).enumerate() {
        figures.insert(ours, drain(lab, batch).await?);
        let rate = theirs.as_ref().and_then(|rates| rates.get(place));
        figures.extend(rate.map(|rate| (peer, *rate)));
    }
    empty(lab).await?;
    if lab.site.add_published(lab.scale.w10_published).await? {
        // What is counted: a queue as it is where publishers keep up.
        lab.one_by_one(&one_step()?, lab.scale.warm_up).await?;
        let mut times = Vec::new();
        for _ in 0..lab.scale.w10_counts {
            let began = Instant::now();
            lab.system.pending().await?;
            times.push(ms(began.elapsed()));
        }
        figures.insert(Metric::PendingP50Ms, at(&times, 50)?);
        figures.insert(Metric::PendingP99Ms, at(&times, 99)?);
    }
    Ok(figures)
}

/// Sees that there are rows enough.
async fn fill(lab: &Lab<'_>) -> Result<(), BenchError> {
    let wanted = u64::from(lab.scale.w10_rows + BATCHES[1]) * 2;
    let missing = wanted.saturating_sub(lab.system.pending().await?);
    // An iteration has some five events.
    let iterations = u32::try_from(missing / 4).unwrap_or(u32::MAX).max(1);
    let playbook = fan_out(iterations, IN_FLIGHT)?;
    lab.system.register(&playbook).await?;
    lab.one_by_one(&playbook, 1).await?;
    Ok(())
}

/// Takes and marks all that is left.
async fn empty(lab: &Lab<'_>) -> Result<(), BenchError> {
    loop {
        let rows = lab.system.claim(BATCHES[1]).await?;
        if rows.is_empty() {
            return Ok(());
        }
        lab.system.mark(&rows).await?;
    }
}

/// Rows per second that one publisher takes and marks.
async fn drain(lab: &Lab<'_>, batch: u32) -> Result<f64, BenchError> {
    let (wanted, mut done) = (u64::from(lab.scale.w10_rows), 0);
    let began = Instant::now();
    while done < wanted {
        let rows = lab.system.claim(batch).await?;
        let marked = lab.system.mark(&rows).await?;
        if rows.is_empty() || usize::try_from(marked) != Ok(rows.len()) {
            let text = format!("{marked} of {} claimed rows were marked", rows.len());
            return Err(BenchError::Harness(text));
        }
        done += marked;
    }
    let done = u32::try_from(done).unwrap_or(u32::MAX);
    Ok(f64::from(done) / began.elapsed().as_secs_f64())
}
